"""AER and its company: by hand, and intervals."""

import numpy as np
import pytest

from hfxling.data.pharaoh import AlignedPair
from hfxling.evaluation.alignment import alignment_results, alignment_scores, count_links


def pair(sure, possible=(), sizes=(5, 5)) -> AlignedPair:
    words = [tuple(f"w{i}" for i in range(n)) for n in sizes]
    return AlignedPair(*words, frozenset(sure), frozenset(sure) | frozenset(possible))


GOLD = [pair({(0, 0), (1, 1)}, {(2, 2)}), pair({(0, 1)}), pair(set())]
FOUND = [[(0, 0), (2, 2), (3, 3)], [(0, 1)], []]


def test_scores_by_hand():
    counts = count_links(FOUND, GOLD)
    assert counts.tolist() == [[1, 2, 3, 2], [1, 1, 1, 1], [0, 0, 0, 0]]
    scores = alignment_scores(counts.sum(0))
    assert scores["precision"] == pytest.approx(75)  # 3 of 4 links are possible
    assert scores["recall"] == pytest.approx(200 / 3)  # 2 of 3 sure ones found
    assert scores["AER"] == pytest.approx(100 * (1 - (2 + 3) / (4 + 3)))
    assert scores["F1"] == pytest.approx(2 * 75 * (200 / 3) / (75 + 200 / 3))


def test_without_possible_links_the_error_is_one_minus_f1():
    rng = np.random.default_rng(0)
    gold = [pair({tuple(x) for x in rng.integers(0, 5, (6, 2)).tolist()}) for _ in range(20)]
    found = [{tuple(x) for x in rng.integers(0, 5, (6, 2)).tolist()} for _ in range(20)]
    scores = alignment_scores(count_links(found, gold).sum(0))
    assert scores["AER"] == pytest.approx(100 - scores["F1"])


@pytest.mark.parametrize(("found", "expected"), [([set()], (0, 100, 100, 100)), ([{(0, 0)}], (100, 0, 100, 0))])
def test_nothing_to_divide_by(found, expected):
    scores = alignment_scores(count_links(found, [pair(set())]).sum(0))
    assert tuple(scores[name] for name in ("AER", "precision", "recall", "F1")) == expected


def test_rows_hold_interval_hash_and_fields():
    rows = alignment_results(FOUND, GOLD, dataset="d", split="test", direction="zh->en", settings={"system": "x"})
    assert [row.metric for row in rows] == ["AER", "precision", "recall", "F1"]
    for row in rows:
        assert row.low <= row.value <= row.high
        assert (row.n, row.unit, row.direction, row.settings) == (3, "%", "zh->en", {"system": "x"})
    other = alignment_results(FOUND, [*GOLD[:2], pair({(1, 1)})], dataset="d", split="test")
    assert other[0].revision != rows[0].revision


def test_interval_covers_the_truth_about_as_often_as_it_says():
    """Sentences with 10 links each, of which 70 % are right on average."""
    rng, covered = np.random.default_rng(3), 0
    for _ in range(300):
        hits = rng.binomial(10, 0.7, size=40)
        gold = [pair({(i, 0) for i in range(10)}, sizes=(20, 1)) for _ in hits]
        found = [{(i + 10 * (i >= hit), 0) for i in range(10)} for hit in hits]
        recall = alignment_results(found, gold, dataset="d", split="t")[2]
        covered += recall.low <= 70 <= recall.high
    assert 0.93 <= covered / 300 <= 0.97


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: count_links([[]], GOLD), "1 lines of links for 3 gold pairs"),
        (lambda: count_links([[(5, 0)], [], []], GOLD), "pair 1: link 5-0 does not fit 5 source"),
        (lambda: count_links([[], [(0, -1)], []], GOLD), "pair 2: link 0--1"),
        (lambda: alignment_results([], [], dataset="d", split="t"), "no sentence pairs"),
    ],
)
def test_mistakes(call, message):
    with pytest.raises(ValueError, match=message):
        call()
