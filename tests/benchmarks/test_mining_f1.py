"""Pairs mined out of haystacks: what is chosen on development lines, and how distractors are shared out."""

import json

import mining_f1 as benchmark
import numpy as np
import pytest

from hfxling.data.sample import sample_texts
from hfxling.sentences.engine import Mined
from hfxling.sentences.neighbours import Neighbours


def mined(*right: bool) -> Mined:
    """Pairs with falling scores, of which some are right: those of equal rows."""
    rows = np.arange(len(right))
    return Mined(rows, np.where(right, rows, rows + 1), 10.0 - rows)


def test_the_best_setting_and_the_middle_of_good_thresholds():
    found = {"worse": mined(True, False, True), "better": mined(True, True, True, False, False)}
    assert benchmark.best_f1(found["better"], 3) == 100
    assert benchmark.best_setting(found, 3) == ("better", 8.0)
    many = mined(*[True] * 300, *[False] * 2, True)  # one wrong pair more or less makes no difference
    _, threshold = benchmark.best_setting({"only": many}, 303)
    assert threshold == pytest.approx(10 - (298 + 302) / 2, abs=1.5)


def test_outcome_counts_right_kept_and_findable():
    found = mined(True, False, True, True)
    table = benchmark.outcome(found, np.array([True, True, True, False]), 3, 5)
    assert table.sum(0).tolist() == [2, 3, 3]


def test_few_distractors_are_shared_out(monkeypatch):
    monkeypatch.setattr(benchmark, "LINES", 150)
    monkeypatch.setattr(benchmark, "DEV", 100)  # 50 development pairs, 100 of the test
    side = [str(i) for i in range(300)]
    assert benchmark.part_of(side, "test", 20, 250) == side[:200]
    assert benchmark.part_of(side, "dev", 20, 250) == side[200:]
    assert benchmark.part_of(side, "test", 1, 250) == side[:100]
    assert benchmark.part_of(side, "dev", 1, 250) == side[100:150]


def test_candidates_and_their_neighbours():
    forward = Neighbours(np.array([[0, 1], [1, 2]]), np.ones((2, 2)))
    backward = Neighbours(np.array([[0, 1], [1, 0], [1, 0]]), np.ones((3, 2)))
    row, column = benchmark.candidates([(forward, backward)], 1)
    assert [*zip(row, column)] == [(0, 0), (1, 1), (1, 2)]


def test_every_system_is_measured_and_a_stopped_run_goes_on(tiny_bert, tmp_path, monkeypatch):
    monkeypatch.setattr(benchmark, "LINES", 40)
    monkeypatch.setattr(benchmark, "DEV", 25)
    monkeypatch.setattr(benchmark, "EPOCHS", 1)
    monkeypatch.setattr("hfxling.words.encoder._MOST_UNKNOWN", 1.0)  # the tiny encoder knows few letters
    (tmp_path / "ntrex").mkdir()
    texts = {lang: sample_texts(lang)[:100] for lang in ("zh", "vi")}
    for lang, lines in texts.items():
        (tmp_path / "ntrex" / f"{lang}.txt").write_text("\n".join(lines[:60]) + "\n", encoding="utf-8")
    monkeypatch.setattr(benchmark, "distractors", lambda *args: [lines[60:] for lines in texts.values()])
    words = ["--data", str(tmp_path), "--encoder", str(tiny_bert), "--pairs", "zh-vi", "--dtype", "float32"]
    words += ["--cache_dir", str(tmp_path / "cache"), "--finetuned_dir", str(tmp_path / "finetuned")]
    words += ["--results_dir", str(tmp_path)]
    figures = benchmark.main(words)
    labels = ("fused", "fused_fine_tuned", "grown", "grown_fine_tuned")
    assert {*figures} == {f"{label}_f1_zh_vi{part}" for label in labels for part in ("", "_apart")}
    file = tmp_path / "mining_f1_me5.json"
    content = json.loads(file.read_text(encoding="utf-8"))
    rows = content["results"]
    assert {row["settings"]["row"] for row in rows} == {*benchmark.LABELS}
    content["results"] = [
        row for row in rows if row["settings"]["row"] != "fused, fine-tuned"
    ]  # as an earlier run left
    file.write_text(json.dumps(content), encoding="utf-8")
    monkeypatch.setattr(benchmark, "finetune", None)  # the encoders are there
    assert benchmark.main(words) == figures
    again = json.loads(file.read_text(encoding="utf-8"))["results"]
    assert again == rows
