"""Pages that show numbers are what the results files say."""

import json
from pathlib import Path

import pytest

from docs import render as cards

ROOT = Path(__file__).resolve().parents[2]


def test_tracked_pages_are_up_to_date():
    cards.main(["--check"])


def test_a_changed_result_makes_its_pages_stale(tmp_path, monkeypatch):
    (tmp_path / "recipes").symlink_to(ROOT / "recipes")
    for name in ("results", "model_cards", "docs"):
        (tmp_path / name).mkdir()
        for path in (ROOT / name).iterdir():
            (tmp_path / name / path.name).write_bytes(path.read_bytes())
    (tmp_path / "README.md").write_bytes((ROOT / "README.md").read_bytes())
    monkeypatch.setattr(cards, "ROOT", tmp_path)
    path = tmp_path / "results" / "retrieval_table.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    for row in content["results"]:
        row["value"] = 1.0
    path.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(ValueError, match=r"results\.md, README\.md: not what results/ say; run make cards"):
        cards.main(["--check"])
    cards.main([])
    cards.main(["--check"])


def test_the_table_of_all_pairs_shows_every_study_and_baseline():
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in cards.translation_table().split("\n")]
    header, table = lines[0], {line[0]: line[1:] for line in lines[2:]}
    assert header[1::2] == [f"{pair} P@1" for pair in cards.TRANSLATION_PAIRS]
    content = json.loads((ROOT / "results" / "aligner_study_vi_zh.json").read_text(encoding="utf-8"))
    values = [
        row["value"]
        for row in content["results"]
        if (row["metric"], row["settings"]["row"], row["settings"].get("decoding")) == ("P@1", "inter, avg", None)
    ]
    shown, paper = table["inter, avg"][header.index("vi-zh P@1") - 1 :][:2]
    assert shown.split()[0] == f"{sum(values) / len(values):.1f}"
    assert paper == "45.19"
    assert all(table["eflomal"][::2])
