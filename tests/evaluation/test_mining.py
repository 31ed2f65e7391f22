"""BUCC: margins, thresholds, counts; mteb's variant against mteb's own code."""

import itertools

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.metrics import f1_score

from hfxling.evaluation.mining import (
    Comparable,
    best_threshold,
    gold_only,
    mine_margin,
    mining_results,
    pair_counts,
    scores_of,
)


def planted(n=40, extra=20, noise=0.5, seed=0):
    """Vectors of two piles in which the first n rows translate each other."""
    rng = np.random.default_rng(seed)
    source = rng.normal(size=(n + extra, 16))
    target = np.concatenate([source[:n] + noise * rng.normal(size=(n, 16)), rng.normal(size=(extra, 16))])
    texts = [str(i) for i in range(n + extra)]
    return Comparable(texts, texts, np.stack([np.arange(n)] * 2, 1)), (source, target)


def test_margins_as_their_definition():
    _, (source, target) = planted(8, 3)
    cosines = (source @ target.T) / np.linalg.norm(source, axis=1)[:, None] / np.linalg.norm(target, axis=1)
    means = [np.sort(cosines, axis)[tuple([slice(None)] * axis + [slice(-4, None)])].mean(axis) for axis in (0, 1)]
    margins = 2 * cosines / (means[1][:, None] + means[0][None])
    nearest = np.argsort(-cosines, 1)[:, :4]
    expected = [max(row, key=lambda j, i=i: margins[i, j]) for i, row in enumerate(nearest)]
    rows, columns, scores = mine_margin(source, target, k=4)
    assert rows.tolist() == list(range(11))
    assert columns.tolist() == expected
    assert scores == pytest.approx(margins[rows, columns], abs=1e-5)


def test_inner_products_have_a_difference_for_margin():
    rng = np.random.default_rng(0)
    source, target = (csr_array(np.maximum(rng.normal(size=(9, 20)), 0)) for _ in range(2))
    dots = (source @ target.T).toarray()
    means = [np.sort(dots, axis)[-3:].mean(0) if axis == 0 else np.sort(dots, axis)[:, -3:].mean(1) for axis in (0, 1)]
    margins = dots - (means[1][:, None] + means[0][None]) / 2
    rows, columns, scores = mine_margin(source, target, k=3, method="dot")
    assert scores == pytest.approx(margins[rows, columns])


def test_the_threshold_has_the_best_f1_of_all():
    bitext, vectors = planted(noise=1.2)
    mined = mine_margin(*vectors)
    threshold = best_threshold(mined, bitext)
    best = scores_of(pair_counts(mined, bitext, threshold).sum(0))[2]
    assert best == pytest.approx(max(scores_of(pair_counts(mined, bitext, t).sum(0))[2] for t in mined[2]))
    assert threshold not in mined[2], "half-way between two scores"


def test_ties_are_kept_together_by_a_threshold():
    bitext = Comparable(list("abcd"), list("abcd"), np.array([[0, 0], [1, 1]]))
    mined = np.arange(4), np.array([0, 2, 1, 3]), np.array([1.0, 0.5, 0.5, 0.2])
    assert best_threshold(mined, bitext) == 0.75
    assert scores_of(pair_counts(mined, bitext, 0.5).sum(0)).tolist() == pytest.approx([100 / 3, 50, 40])
    everything = np.arange(2), np.arange(2), np.array([0.5, 0.5])
    assert best_threshold(everything, Comparable(["a", "b"], ["a", "b"], np.array([[0, 0]]))) == 0.5


def test_counts_of_every_sentence():
    bitext = Comparable(list("abc"), list("xyz"), np.array([[0, 0], [1, 2], [1, 1]]))
    mined = np.array([0, 1, 2]), np.array([0, 0, 1]), np.array([3.0, 2.0, 1.0])
    assert pair_counts(mined, bitext, 1.5).tolist() == [[1, 1, 1], [0, 1, 2], [0, 0, 0]]
    assert scores_of(np.array([0, 0, 4])).tolist() == [0, 0, 0]


def test_results_take_the_threshold_from_training_text_alone():
    (training, one), (test, two) = planted(seed=1), planted(noise=1.0, seed=2)
    rows = mining_results((training, test), (one, two), dataset="d", settings={"task": "mining"})
    threshold = best_threshold(mine_margin(*one), training)
    counts = pair_counts(mine_margin(*two), test, threshold)
    assert rows[0].value == scores_of(counts.sum(0))[2]
    assert rows[0].low < rows[0].value < rows[0].high
    assert (rows[0].items.groups[0] == counts).all()
    assert rows[0].settings["threshold"] == threshold
    assert [row.n for row in rows] == [40] * 4


def test_texts_without_a_vector_are_in_no_pair():
    bitext, (source, target) = planted()
    for rows in (source, target):
        rows[[2, 3]] = 0
    source[5] = 0
    mined = mine_margin(source, target)
    assert not {2, 3, 5} & {*mined[0].tolist()}
    assert not {2, 3} & {*mined[1].tolist()}
    assert np.isfinite(mined[2]).all()
    rows = mining_results((bitext, bitext), ((source, target), (source, target)), dataset="d")
    assert rows[0].value > 50
    gold = gold_only(source[bitext.gold[:, 0]], target[bitext.gold[:, 1]])
    assert gold[[2, 3, 5]].tolist() == [0, 0, 0]
    nothing = np.zeros_like(source)
    with pytest.raises(ValueError, match="the model has no vector for any sentence"):
        mining_results((bitext, bitext), ((nothing, target), (source, target)), dataset="d")


def test_gold_only_is_weighted_f1_of_nearest_neighbours():
    _, (source, target) = planted(30, 0, noise=2.0)
    cosines = (source @ target.T) / np.linalg.norm(source, axis=1)[:, None] / np.linalg.norm(target, axis=1)
    expected = f1_score(range(30), cosines.argmax(1), average="weighted", zero_division=0)
    assert 0.2 < expected < 0.9
    assert gold_only(source, target).mean() == pytest.approx(100 * expected)
    assert set(itertools.chain(gold_only(source, source))) == {100.0}
