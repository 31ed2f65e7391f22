"""Pages that show numbers are what the results files say."""

import importlib.util
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
spec = importlib.util.spec_from_file_location("cards", ROOT / "recipes" / "cards.py")
cards = importlib.util.module_from_spec(spec)
spec.loader.exec_module(cards)


def test_tracked_pages_are_up_to_date():
    cards.main(["--check"])


def test_a_changed_result_makes_its_pages_stale(tmp_path, monkeypatch):
    for name in ("results", "model_cards", "docs"):
        (tmp_path / name).mkdir()
        for path in (ROOT / name).iterdir():
            (tmp_path / name / path.name).write_bytes(path.read_bytes())
    (tmp_path / "README.md").write_bytes((ROOT / "README.md").read_bytes())
    monkeypatch.setattr(cards, "ROOT", tmp_path)
    path = tmp_path / "results" / "siamese_ntrex_zh_vi.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    for row in content["results"]:
        row["value"] = 1.0
    path.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(ValueError, match=r"results\.md, README\.md: not what results/ say; run make cards"):
        cards.main(["--check"])
    cards.main([])
    cards.main(["--check"])
