"""Every kind of vectors is there for every pair, and those of five languages are tested against those of one pair."""

import five_languages as five
import pytest
from builders import sentence_pairs
from tiny_models import save_tiny

from hfxling.evaluation.results import read_results


@pytest.mark.slow
def test_every_kind_is_measured_in_both_scopes(tmp_path, monkeypatch):
    pairs = sentence_pairs(130)
    monkeypatch.setattr(five, "LINES", 90)
    (tmp_path / "ntrex").mkdir()
    for language in ("vi", "lo", "th", "id", "zh"):
        text = "".join(f"{pair[language != 'zh']}\n" for pair in pairs)
        (tmp_path / "ntrex" / f"{language}.txt").write_text(text, encoding="utf-8")
    for name in ("all at once-0", "vi-zh alone-0"):
        save_tiny("bert", tmp_path / name / "model")
    figures = five.main(["--data", str(tmp_path), "--models", str(tmp_path), "--results_dir", str(tmp_path)])
    rows = read_results(tmp_path / "five_languages.json")
    assert {row.settings["row"] for row in rows if row.dataset == "NTREX vi-zh"} == {*five.LABELS}
    without_own = {*five.LABELS} - {"fine-tuned, one pair", "fused with the fine-tuned, one pair"}
    for pair in ("lo-zh", "lo-th"):
        assert {row.settings["row"] for row in rows if row.dataset == f"NTREX {pair}"} == without_own
    for row in rows:
        assert row.n == 40
        assert ("paired" in row.settings) == (
            row.settings["row"].endswith(five.FIVE)
            and (row.dataset == "NTREX vi-zh" or row.settings["row"].startswith(("static", "sparse")))
        )
    assert figures
