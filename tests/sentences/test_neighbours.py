"""Nearest neighbours against plain sorting by the definition, and what ties do."""

import re
import tracemalloc

import numpy as np
import pytest
from scipy.sparse import csr_array

from hfxling.sentences import neighbours
from hfxling.sentences.blocks import nearest
from hfxling.sentences.neighbours import blank_rows, check_pairing, ranking_vectors, unit, unit_or_zero


def vectors(count, seed, d=12):
    return np.random.default_rng(seed).standard_normal((count, d))


def slow_scores(queries, candidates, csls_k=None, pools=None):
    """Straight from the definitions, in float64."""
    queries, candidates, *pools = (
        x / np.linalg.norm(x, axis=1, keepdims=True) for x in (queries, candidates, *(pools or (queries, candidates)))
    )
    scores = queries @ candidates.T
    if csls_k is None:
        return scores
    of_queries = np.sort(queries @ pools[1].T, axis=1)[:, -csls_k:].mean(axis=1)
    of_candidates = np.sort(candidates @ pools[0].T, axis=1)[:, -csls_k:].mean(axis=1)
    return 2 * scores - of_queries[:, None] - of_candidates


def test_rows_of_zeros_are_found():
    rows = np.array([[0.0, 1.0], [0.0, 0.0], [np.nan, 0.0]], np.float32)
    assert blank_rows(rows).tolist() == [False, True, False]
    assert not blank_rows(csr_array(rows)).any(), "a sparse vector may be empty"


def test_rows_at_length_one_of_which_some_are_zero():
    rows = np.array([[3.0, 4.0], [0.0, 0.0]], np.float32)
    np.testing.assert_array_equal(unit_or_zero(rows), np.array([[0.6, 0.8], [0.0, 0.0]], np.float32))
    np.testing.assert_allclose(unit_or_zero(np.stack([rows, 2 * rows]))[1], [[0.6, 0.8], [0.0, 0.0]])


def test_csls_may_look_at_one_neighbour():
    queries, candidates = vectors(40, 0), vectors(90, 1)
    _, scores = nearest(queries, candidates, 4, method="csls", csls_k=1)
    expected = slow_scores(queries, candidates, 1)
    np.testing.assert_allclose(scores, -np.sort(-expected, axis=1)[:, :4], atol=1e-6)


@pytest.mark.parametrize(("count", "told"), [(5, "row 0, 1, 2, 3, 4 (counted"), (6, "row 0, 1, 2, 3, 4, ... (counted")])
def test_five_rows_without_direction_are_named(count, told):
    rows = np.ones((9, 2))
    rows[:count] = 0
    with pytest.raises(ValueError, match=re.escape(told)):
        unit(rows)


@pytest.mark.parametrize("block_size", [3, 17, 1000])
@pytest.mark.parametrize("k", [1, 4, 70, 200])
@pytest.mark.parametrize("csls_k", [None, 5])
def test_neighbours_are_those_of_the_definition(csls_k, k, block_size):
    queries, candidates = vectors(40, 0), 5 * vectors(90, 1)
    options = {} if csls_k is None else {"method": "csls", "csls_k": csls_k}
    rows, scores = nearest(queries, candidates, k, **options, block_size=block_size)
    expected = slow_scores(queries, candidates, csls_k)
    np.testing.assert_array_equal(rows, np.argsort(-expected, axis=1)[:, :k])
    np.testing.assert_allclose(scores, -np.sort(-expected, axis=1)[:, :k], atol=1e-6)


def test_csls_is_not_cosine_and_looks_at_the_pools():
    queries, candidates, pools = vectors(1, 0), vectors(90, 1), (vectors(30, 2), vectors(50, 3))
    rows, scores = nearest(queries, candidates, 90, "csls", csls_k=5, pools=pools)
    expected = slow_scores(queries, candidates, 5, pools)
    np.testing.assert_array_equal(rows, np.argsort(-expected, axis=1))
    np.testing.assert_allclose(scores[0], expected[0, rows[0]], atol=1e-6)
    assert not np.array_equal(rows, nearest(queries, candidates, 90)[0])


@pytest.mark.parametrize("lengths", [(1, 3), 2.0 ** np.arange(60)])  # fewer and more than are kept in reserve
@pytest.mark.parametrize("block_size", [7, 64, 1000])
@pytest.mark.parametrize("method", ["cosine", "csls"])
def test_of_candidates_that_tie_the_lower_rows_come_first(method, block_size, lengths):
    queries = vectors(10, 0, d=768)
    candidates = np.concatenate([length * queries for length in lengths])
    rows, scores = nearest(queries, candidates, 2, method, csls_k=2, block_size=block_size)
    np.testing.assert_array_equal(rows, np.arange(10)[:, None] + [0, 10])
    assert np.ptp(scores, axis=1).max() < 1e-6


def test_one_query_with_many_ties_does_not_hang_on_the_others():
    queries = np.concatenate([vectors(1, 0, d=768), vectors(9, 1, d=768)])
    candidates = np.concatenate([2.0 ** np.arange(60)[:, None] * queries[0], vectors(40, 2, d=768)])
    assert nearest(queries, candidates, 2)[0][0].tolist() == [0, 1]


@pytest.mark.parametrize("kind", ["a query", "a candidate"])
def test_what_reaches_a_score_is_decided_in_float64_where_it_is_close(kind):
    rng = np.random.default_rng(0)
    queries, candidates = (unit(rng.standard_normal(64) + 3e-4 * rng.standard_normal((40, 64))) for _ in range(2))
    exact = queries.astype(np.float64) @ candidates.astype(np.float64).T
    block = queries @ candidates.T
    least = exact[np.arange(40), np.arange(40)] - 1e-12  # above the noise of float64
    assert not np.array_equal(block >= least, exact >= least), "float32 alone must get it wrong"
    least = least[:, None] if kind == "a query" else least
    np.testing.assert_array_equal(neighbours.reaching(block, least, queries, candidates), exact >= least)


def test_gaps_below_float32_precision_are_ranked_as_float64_ranks_them():
    rng = np.random.default_rng(0)
    queries = rng.standard_normal(64) + 3e-4 * rng.standard_normal((50, 64))
    candidates = rng.standard_normal(64) + 3e-4 * rng.standard_normal((230, 64))
    exact = unit(queries).astype(np.float64) @ unit(candidates).astype(np.float64).T
    assert np.median(np.diff(np.sort(exact, axis=1))) < neighbours.CLOSE, "the case must hold close calls"
    rows, scores = nearest(queries, candidates, 5)
    best = -np.sort(-exact, axis=1)[:, :5]
    np.testing.assert_allclose(scores, best, atol=2 * neighbours.TIE["cosine"], rtol=0)
    np.testing.assert_allclose(scores, np.take_along_axis(exact, rows, axis=1), atol=1e-12, rtol=0)
    for block_size in (7, 50):
        np.testing.assert_array_equal(nearest(queries, candidates, 5, block_size=block_size)[0], rows)


def test_the_scores_are_never_held_whole():
    queries, candidates = vectors(4000, 0, d=8), vectors(4000, 1, d=8)
    for method in ("cosine", "csls"):
        tracemalloc.start()
        nearest(queries, candidates, 3, method, block_size=256)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 4000 * 4000 * 4 / 8


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"k": 0}, "k=0: give 1 or more"),
        ({"candidates": np.ones((3, 5))}, "4 dimensions, target vectors 5"),
        ({"queries": np.ones(4)}, "shape"),
        ({"queries": [[1, 1, 1, 1], [0, 0, 0, 0]]}, "1 of 2 query vectors .* row 1 "),
        ({"method": "euclid"}, "'euclid' is not one of cosine, csls"),
        ({"method": "csls"}, "csls_k=10 must lie between 1 and .* 2"),
        ({"method": "csls", "pools": (np.ones((12, 4)), np.ones((9, 4)))}, "csls_k=10 must lie between 1 and .* 9"),
    ],
)
def test_what_has_no_neighbours_is_refused_in_one_line(change, message):
    with pytest.raises(ValueError, match=message) as error:
        nearest(**{"queries": np.ones((2, 4)), "candidates": np.ones((3, 4)), "k": 1, **change})
    assert "\n" not in str(error.value)


def test_dot_products_of_ranking_vectors_are_half_of_csls():
    source, target = vectors(30, 0), vectors(40, 1)
    left, right = ranking_vectors(source, target, "csls", csls_k=3, block_size=11)
    np.testing.assert_allclose(2 * left @ right.T, slow_scores(source, target, 3), atol=2e-6)


def test_rows_that_pair_up_have_equal_shapes():
    check_pairing(vectors(3, 0), vectors(3, 1))
    with pytest.raises(ValueError, match="rows must pair up"):
        check_pairing(vectors(3, 0), vectors(4, 1))
