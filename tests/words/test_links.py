"""From matrices to links, against plain loops written from the definitions."""

import numpy as np
import pytest

from hfxling.words.links import (
    SoftAlignment,
    agreement,
    argmax_links,
    decode,
    directed_links,
    itermax_links,
    symmetrize,
)

NEIGHBOURS = [(-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1)]


def grow_diag_final_and(forward, backward):
    """The pseudo-code of the Moses manual, loop by loop."""
    rows, columns = forward.shape
    union, links = forward | backward, forward & backward
    added = True
    while added:
        added = False
        for i in range(rows):
            for j in range(columns):
                if links[i, j]:
                    for down, right in NEIGHBOURS:
                        a, b = i + down, j + right
                        if not (0 <= a < rows and 0 <= b < columns):
                            continue
                        if (not links[a].any() or not links[:, b].any()) and union[a, b] and not links[a, b]:
                            links[a, b] = added = True
    for direction in (forward, backward):
        for i in range(rows):
            for j in range(columns):
                if not links[i].any() and not links[:, j].any() and direction[i, j]:
                    links[i, j] = True
    return links


def itermax(similarity, rounds=2, alpha=0.9):
    """IterMax of one pair as SimAlign describes it, cell by cell."""
    rows, columns = similarity.shape
    similarity = (similarity + 1) / 2

    def mutual(scores):
        return {
            (i, j)
            for i in range(rows)
            for j in range(columns)
            if scores[i].argmax() == j and scores[:, j].argmax() == i
        }

    links = mutual(similarity)
    if min(rows, columns) <= 2:
        return links
    for _ in range(rounds - 1):
        has_source, has_target = {i for i, _ in links}, {j for _, j in links}
        if len(has_source) == rows or len(has_target) == columns:
            break
        scores = similarity.copy()
        for i in range(rows):
            for j in range(columns):
                scores[i, j] *= {0: 1, 1: alpha, 2: 0}[(i in has_source) + (j in has_target)]
        links |= {(i, j) for i, j in mutual(scores) if not (i in has_source and j in has_target)}
    return links


def random_batch(seed: int, batch: int = 40):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 12, (batch, 2))
    shape = (batch, *sizes.max(0))
    real = (np.arange(shape[1]) < sizes[:, :1])[:, :, None] & (np.arange(shape[2]) < sizes[:, 1:])[:, None]
    return rng, sizes, shape, real


@pytest.mark.parametrize("share", [0.05, 0.15, 0.4])
def test_grow_diag_final_and_equals_the_plain_loops(share):
    rng, sizes, shape, real = random_batch(int(100 * share))
    forward, backward = (real & (rng.random(shape) < share) for _ in range(2))
    found = symmetrize(forward, backward)
    for b, (s, t) in enumerate(sizes):
        assert np.array_equal(found[b, :s, :t], grow_diag_final_and(forward[b, :s, :t], backward[b, :s, :t]))
    assert not found[~real].any()


def test_grow_diag_final_and_of_argmaxes_equals_the_plain_loops():
    rng, sizes, shape, real = random_batch(5)
    soft = SoftAlignment(real * rng.random(shape), real * rng.random(shape), np.zeros(shape), sizes)
    forward, backward = directed_links(soft)
    found = decode(soft)
    for b in range(len(sizes)):
        assert np.array_equal(found[b], grow_diag_final_and(forward[b], backward[b]))
    assert (forward & backward).sum() < found.sum() < (forward | backward).sum()


def test_simple_symmetrizations():
    forward = np.array([[[1, 0], [1, 0]]], bool)
    backward = np.array([[[1, 1], [0, 0]]], bool)
    results = {method: symmetrize(forward, backward, method)[0].tolist() for method in ("intersection", "union")}
    assert results == {"intersection": [[True, False], [False, False]], "union": [[True, True], [True, False]]}


def test_directions():
    forward = np.array([[[0.9, 0.3], [0.1, 0.2], [0.0, 0.5]]])  # columns: where each of 2 target units looks
    backward = np.array([[[0.8, 0.2], [0.4, 0.6], [0.5, 0.5]]])
    soft = SoftAlignment(forward, backward, np.zeros((1, 3, 2)), np.array([[3, 2]]))
    f, b = directed_links(soft)
    assert np.argwhere(f[0]).tolist() == [[0, 0], [2, 1]]
    assert np.argwhere(b[0]).tolist() == [[0, 0], [1, 1], [2, 0]]


def test_itermax_and_argmax_equal_plain_loops_whatever_the_padding():
    rng, sizes, shape, _ = random_batch(7, batch=80)
    similarity = rng.uniform(-1, 1, shape)  # values at padding are no values
    found, mutual = itermax_links(similarity, sizes), argmax_links(similarity, sizes)
    more = 0
    for b, (s, t) in enumerate(sizes):
        expected = itermax(similarity[b, :s, :t])
        assert set(map(tuple, np.argwhere(found[b]).tolist())) == expected
        assert set(map(tuple, np.argwhere(mutual[b]).tolist())) == itermax(similarity[b, :s, :t], rounds=1)
        more += len(expected) - mutual[b].sum()
    assert more > 20


def test_agreement_is_of_best_partners_that_are_each_others():
    forward = np.array([[[0.9, 0.2], [0.1, 0.8], [0.0, 0.0]]])  # target 0 looks at source 0, target 1 at source 1
    backward = np.array([[[0.7, 0.3], [0.6, 0.4], [0.0, 1.0]]])  # sources 0 and 1 at target 0, source 2 at target 1
    soft = SoftAlignment(forward, backward, np.zeros((1, 3, 2)), np.array([[3, 2]]))
    empty = SoftAlignment(np.zeros((1, 0, 2)), np.zeros((1, 0, 2)), np.zeros((1, 0, 2)), np.array([[0, 2]]))
    assert agreement([soft]) == agreement([soft, empty]) == pytest.approx(2 * 1 / (2 + 3))
    assert agreement([]) == 0
