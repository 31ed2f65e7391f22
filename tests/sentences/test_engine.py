"""Mining against all with all in float64, by the definitions."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from hfxling.sentences import Mined, mine_vectors, paired_margins, rescored, select
from hfxling.sentences.blocks import both_ways
from hfxling.sentences.engine import MARGINS, SELECTIONS, best_of_rows


def vectors(count, seed, d=12):
    return np.random.default_rng(seed).standard_normal((count, d)) + 1  # mean scores are positive


def brute(source, target, k, margin, selection):
    """{(source row, target row): margin}, ties going to lower rows."""
    source, target = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (source, target))
    scores = source @ target.T
    near = [np.argsort(-np.round(x, 9), axis=1, kind="stable")[:, :k] for x in (scores, scores.T)]
    means = [np.take_along_axis(x, rows, axis=1).mean(axis=1) for x, rows in zip((scores, scores.T), near)]
    mean = (means[0][:, None] + means[1]) / 2
    value = {"ratio": scores / mean, "distance": scores - mean, "absolute": scores}[margin]
    ahead = {(i, max(sorted(row), key=lambda j: round(value[i, j], 9))) for i, row in enumerate(near[0])}
    back = {(max(sorted(row), key=lambda i: round(value[i, j], 9)), j) for j, row in enumerate(near[1])}
    if selection == "max":
        kept = set()
        for i, j in sorted(ahead | back, key=lambda pair: (-round(value[pair], 9), pair)):
            if not any(i == x or j == y for x, y in kept):
                kept.add((i, j))
    else:
        kept = {"mutual": ahead & back, "forward": ahead, "backward": back}[selection]
    return {pair: value[pair] for pair in kept}


@pytest.mark.parametrize("selection", SELECTIONS)
@pytest.mark.parametrize("margin", MARGINS)
@pytest.mark.parametrize("ties", [False, True])
def test_the_pairs_of_brute_force(ties, margin, selection):
    source, target = vectors(90, 0), vectors(110, 1)
    if ties:  # every vector twice, and both sides alike
        source, target = (np.concatenate([source[:40]] * 2), np.concatenate([source[:40], target[:30], target[:30]]))
    found = mine_vectors(source, target, 4, margin, selection=selection)
    expected = brute(source, target, 4, margin, selection)
    assert {(i, j) for i, j in zip(found.source, found.target)} == expected.keys()
    np.testing.assert_allclose(found.score, [expected[pair] for pair in zip(found.source, found.target)], atol=1e-6)
    assert (np.diff(found.score) <= 1e-9).all()
    assert (
        mine_vectors(source, target, 4, margin, selection=selection, dtype="bfloat16").score.tolist()
        == found.score.tolist()
    )


def test_no_sentence_stands_in_two_pairs_of_max():
    found = mine_vectors(vectors(90, 0), vectors(110, 1), selection="max")
    assert len({*found.source}) == len({*found.target}) == len(found.source) > 40


def test_candidates_of_other_vectors_are_scored_again():
    source, target = vectors(60, 0), vectors(70, 1)
    exact = [csr_array(x) for x in (source, target)]
    readers = [lambda rows, side=side: [side[rows]] for side in exact]
    wide = both_ways(source[:, :8], target[:, :8], 60)
    for found, expected in zip(rescored([wide], *readers, 4), both_ways(*exact, 4)):
        np.testing.assert_array_equal(found.rows, expected.rows)
        np.testing.assert_allclose(found.scores, expected.scores, atol=1e-9)
    few = both_ways(source[:, :8], target[:, :8], 5)
    both = rescored([few, both_ways(source[:, 8:], target[:, 8:], 5)], *readers, 4)
    one = rescored([few], *readers, 4)
    assert (both[0].scores[:, 0] >= one[0].scores[:, 0]).all()
    assert (both[0].scores[:, 0] > one[0].scores[:, 0]).any()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"margin": "cosine"}, "margin='cosine' is not one of ratio, distance, absolute"),
        ({"selection": "best"}, "selection='best' is not one of mutual, forward, backward, max"),
    ],
)
def test_choices_are_checked_before_anything_is_read(options, message):
    with pytest.raises(ValueError, match=message):
        mine_vectors(None, None, **options)


def test_a_ratio_needs_positive_means():
    source = abs(vectors(20, 0))
    with pytest.raises(ValueError, match="take 'distance'"):
        mine_vectors(csr_array(source), csr_array(-source))
    assert isinstance(mine_vectors(csr_array(source), csr_array(-source), margin="distance"), Mined)


@pytest.mark.parametrize("kind", ["dense", "sparse", "several"])
@pytest.mark.parametrize("margin", MARGINS)
def test_margins_of_given_pairs_are_those_of_mined_ones(kind, margin):
    source, target = vectors(60, 0), vectors(70, 1)
    if kind != "dense":
        source, target = (x[:, :6] if kind == "several" else csr_array(x) for x in (source, target))
    if kind == "several":
        source, target = [source, csr_array(vectors(60, 2))], [target, csr_array(vectors(70, 3))]
    found = both_ways(source, target, 4)
    mined = select(*found, margin, "forward")
    kinds = [x if kind == "several" else [x] for x in (source, target)]
    if kind == "dense":
        kinds = [[x / np.linalg.norm(x, axis=1, keepdims=True)] for x in (source, target)]
    readers = [lambda rows, parts=parts: [x[rows] for x in parts] for parts in kinds]
    given = paired_margins(*readers, (mined.source, mined.target), *found, margin)
    np.testing.assert_allclose(given, mined.score, atol=1e-6)
    rows = np.random.default_rng(5).integers(0, 60, (2, 5000))  # in several chunks, most of them not among the nearest
    scores = sum(csr_array(x) @ csr_array(y).T for x, y in zip(*kinds)).toarray()[*rows]
    means = sum(side.scores.mean(axis=1)[of] for side, of in zip(found, rows)) / 2
    expected = {"ratio": scores / means, "distance": scores - means, "absolute": scores}[margin]
    np.testing.assert_allclose(paired_margins(*readers, tuple(rows), *found, margin), expected, atol=1e-6)
    with pytest.raises(ValueError, match="margin='cosine'"):
        paired_margins(*readers, tuple(rows), *found, "cosine")


def test_the_best_of_a_row_that_all_others_name():
    """As by sorting the pairs of every row."""
    rng = np.random.default_rng(0)
    row = np.sort(np.concatenate([np.zeros(500, int), rng.integers(1, 40, 300), np.full(3, 45)]))
    column, scores = rng.permutation(len(row)), rng.standard_normal(len(row))
    found = best_of_rows(row, column, scores, 50, 4)
    for number in range(50):
        own = np.flatnonzero(row == number)
        best = own[np.argsort(-scores[own])][:4]
        assert found.rows[number, : len(best)].tolist() == column[best].tolist()
        assert np.isneginf(found.scores[number, len(best) :]).all()
