"""Spoilt documents and their true beads, both programmes, and a small run."""

import json
from itertools import pairwise
from pathlib import Path

import documents as benchmark
import numpy as np
import pytest
import vecalign as other
from builders import write_documents

from hfxling.data.sample import sample_texts
from hfxling.evaluation.results import read_results
from hfxling.sentences import beads as engine


@pytest.mark.parametrize("lang", ["zh", "vi"])
def test_spoilt_documents_lose_only_what_is_dropped(lang):
    sentences = sample_texts(lang, "train", generated=0)[:200]
    parts = benchmark.spoil(sentences, lang, np.random.default_rng(0))
    kept = {row for _, rows in parts for row in rows}
    assert 3 < 200 - len(kept) < 30
    whole = "".join(sentences[row] for row in sorted(kept))
    assert "".join("".join(text for text, _ in parts).split()) == "".join(whole.split())
    assert sum(len(rows) == 2 for _, rows in parts) > 3
    assert sum(a == b for (_, a), (_, b) in pairwise(parts)) > 3


def test_cuts():
    assert benchmark.halves("one, two three") == ["one,", "two three"]
    assert benchmark.halves("a, two three four five") == ["a, two three", "four five"]
    assert benchmark.halves("甲乙丙丁") == ["甲乙", "丙丁"]
    assert benchmark.halves("甲") == ["甲"]


def test_true_beads():
    source = [("a", (0,)), ("b c", (1, 2)), ("e1", (4,)), ("e2", (4,)), ("f g", (5, 6))]
    target = [("a", (0,)), ("b", (1,)), ("c", (2,)), ("d e", (3, 4)), ("f", (5,)), ("g h", (6, 7))]
    beads = benchmark.true_beads([source, target], 8)
    assert beads == [([0], [0]), ([1], [1, 2]), ([2, 3], [3]), ([4], [4, 5])]
    assert benchmark.true_beads([source[:1], target[:2]], 2) == [([0], [0]), ([], [1])]
    found = [([0], [0]), ([1], [1]), ([], [2]), ([2, 3], [3]), ([4], [4]), ([], [5])]
    assert benchmark.strict(beads, found) == [2, 4, 4]
    assert benchmark.f1(np.array([[2, 4, 4], [3, 5, 5]])) == pytest.approx([0.5, 0.6])


def texts(count: int, seed: int):
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(count, 16)) + 0.3 * np.random.default_rng(0).normal(size=(200, 16))[:count] * 9
    return lambda spans: np.stack([vectors[i:j].sum(0) for i, j in spans]).astype(np.float32)


def test_the_plain_programme_agrees():
    sides, sizes = [texts(30, 1), texts(25, 2)], (range(30), range(25))
    (beads,) = engine.align_documents(*sides, [sizes])
    ready = [engine.scored_by(side, "cosine") for side in sides]
    rng = np.random.default_rng(0)
    drawn = [engine.vectors_of_random_texts(side, [size], 4, rng) for side, size in zip(ready, sizes)]
    windows = [engine.Window(*side, "cosine") for side in zip(ready, sizes, drawn[::-1])]
    best = benchmark.plain_programme([*engine.gains_of(*windows, *engine.whole_band(30, 25))])
    assert sum(bead.score for bead in beads) == pytest.approx(best)


def test_vecalign_in_its_buffer_and_over_all_pairs(monkeypatch):
    source, target = texts(120, 1), texts(110, 2)
    whole = other.vecalign(source, target, range(120), range(110))
    monkeypatch.setattr(other, "WHOLE", 15)
    assert other.vecalign(source, target, range(120), range(110)) == whole
    assert sum(len(x) == len(y) == 1 for x, y in whole) > 60
    assert max(len(x) + len(y) for x, y in whole) <= other.TOGETHER
    for side, size in enumerate((120, 110)):
        assert [i for bead in whole for i in bead[side]] == [*range(size)]
    saved = [*savings_of(source, target)]
    path = other.engine.best_bead_path(iter(saved), np.zeros(41, int), np.full(41, 40))
    assert sum(score for *_, score in path) == pytest.approx(benchmark.plain_programme(saved))


def savings_of(source, target):
    """Of 40 sentences a side, with equal spreads and a penalty that is easy to check."""
    sides = [
        [other.unit(side([(i, i + k) for i in range(41 - k)])) for k in range(1, other.TOGETHER)]
        for side in (source, target)
    ]
    ones = [[np.ones(len(x)) for x in side] for side in sides]
    gains = [*other.savings(*sides, ones, 0.5, np.zeros(41, int), np.full(41, 40))]
    assert gains[4][0, 1, 7] == pytest.approx(3 * 0.5 - 2 * (1 - sides[0][0][4] @ sides[1][1][5]))
    return gains


def test_report(tmp_path, capsys, monkeypatch, tiny_sentence_transformer):
    write_documents(tmp_path / "ntrex")
    monkeypatch.setattr(benchmark, "LINES", 150)
    argv = ["--data", tmp_path, "--pairs", "zh-vi", "--model", tiny_sentence_transformer, "--results_dir", tmp_path]
    figures = benchmark.main(list(map(str, argv)))
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["figures"] == figures
    assert figures["mean"]["sparse"] > 50
    assert figures["f1_over_vecalign"] > 0
    assert figures["cpu_over_vecalign"] > 0
    assert all(share <= 1.000001 for name, share in figures["zh-vi"].items() if "plain" in name)
    assert not read_results(Path(tmp_path, "documents.json"))
