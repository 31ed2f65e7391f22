"""Few weights of sparse vectors: which are kept, and what is found with them."""

import numpy as np
import pytest
from scipy.sparse import csr_array, random_array

from hfxling.sentences import mine_vectors, strongest


def two_sides(count=60, width=400, seed=0):
    """Rows that share what is frequent with all and what is theirs with their own."""
    rng = np.random.default_rng(seed)
    own = random_array((count, width), density=0.1, format="csr", rng=rng)
    noise = [random_array((count, width), density=0.05, format="csr", rng=rng) for _ in (0, 1)]
    return [csr_array(own + 0.3 * x) for x in noise]


def test_those_that_meet_nothing_go_first():
    source = csr_array(np.array([[9.0, 1.0, 2.0, 0.5]]))
    target = csr_array(np.array([[0.0, 3.0, 1.0, 0.0], [0.0, 3.0, 1.0, 7.0]]))
    ((few,), (others,)) = strongest([source], [target], 2)
    np.testing.assert_array_equal(few.toarray(), [[0, 1.0, 0, 0.5]])
    np.testing.assert_array_equal(others.toarray(), [[0, 3.0, 1.0, 0], [0, 3.0, 0, 7.0]])


def test_signs_do_not_count_and_dense_parts_stay():
    sides = [[np.ones((2, 3)), csr_array(np.array([[-5.0, 1.0], [1.0, -5.0]]))] for _ in (0, 1)]
    few, _ = strongest(*sides, 1)
    assert few[0] is sides[0][0]
    np.testing.assert_array_equal(few[1].toarray(), [[-5.0, 0], [0, -5.0]])


def test_all_of_them_change_nothing():
    source, target = two_sides()
    for one, other in zip(
        mine_vectors(source, target, margin="distance"), mine_vectors(source, target, margin="distance", terms=400)
    ):
        np.testing.assert_allclose(one, other, atol=1e-9)


def test_few_find_nearly_the_same_pairs_with_scores_of_all():
    source, target = two_sides()
    expected, found = (mine_vectors(source, target, margin="absolute", terms=terms) for terms in (None, 12))
    of_all = {(i, j): score for i, j, score in zip(*expected)}
    common = [(pair, score) for *pair, score in zip(*found) if tuple(pair) in of_all]
    assert len(common) > 0.9 * len(of_all)
    for pair, score in common:
        assert score == pytest.approx(of_all[tuple(pair)], abs=1e-9)


def test_several_parts_and_more_neighbours_than_candidates():
    sides = [[np.eye(60, 8), x] for x in two_sides()]
    assert len(mine_vectors(*sides, k=40, margin="distance", terms=20).score) > 30


@pytest.mark.parametrize(("terms", "sides"), [(0, two_sides()), (5, [np.eye(6), np.eye(6)])])
def test_nothing_to_keep(terms, sides):
    with pytest.raises(ValueError, match=f"terms={terms}: give 1 or more, and sparse vectors"):
        mine_vectors(*sides, terms=terms)
