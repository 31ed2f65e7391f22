"""Sparse matrices as weights, side by side, and cut down to their largest weights."""

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from hfxling.models.lexical_vectors import SparseMatrix, pruned, side_by_side

LEFT = csr_array(np.array([[1, 0, 2], [0, 0, 3], [0, 0, 0]], np.float32))
RIGHT = csr_array(np.array([[0, -4], [5, 0], [0, 6]], np.float32))


def test_a_matrix_is_kept_as_weights():
    kept = SparseMatrix(LEFT.shape, LEFT.nnz)
    assert not kept.matrix().toarray().any()
    kept.fill(LEFT)
    again = SparseMatrix(LEFT.shape, LEFT.nnz)
    again.load_state_dict(kept.state_dict())
    np.testing.assert_array_equal(again.matrix().toarray(), LEFT.toarray())
    np.testing.assert_array_equal(again.to(torch.bfloat16).matrix().toarray(), LEFT.toarray())
    assert again.matrix().dtype == np.float32
    assert not any(parameter.requires_grad for parameter in kept.parameters())


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("columns", 3, "columns 0 to 3 in a matrix of 3"),
        ("columns", -1, "columns -1 to 2 in a matrix of 3"),
        ("starts", 9, "do not begin in order"),
        ("values", float("nan"), "hold NaN"),
    ],
)
def test_damaged_numbers_are_refused(name, value, message):
    matrix = SparseMatrix(LEFT.shape, LEFT.nnz)
    matrix.fill(LEFT)
    matrix.check()
    matrix.state_dict()[name][1] = value
    with pytest.raises(ValueError, match=message):
        matrix.check()


@pytest.mark.parametrize(
    ("starts", "width"), [((0, 3), 5), ((0, 3), 9), ((2, 5), 7), ((1, 6), 8), ((0, 7), 9), ((4, 8), 20)]
)
def test_parts_stand_at_their_columns_with_blanks_between(starts, width):
    found = side_by_side(list(zip(starts, (LEFT, RIGHT))), width)
    expected = np.zeros((3, width), np.float32)
    for start, part in zip(starts, (LEFT, RIGHT)):
        expected[:, start : start + part.shape[1]] = part.toarray()
    np.testing.assert_array_equal(found.toarray(), expected)
    assert found.dtype == np.float32


@pytest.mark.parametrize("most", [2, 3, 5, 99])
def test_the_largest_weights_of_a_row_and_the_last_dimensions_stay(most):
    rng = np.random.default_rng(0)
    dense = rng.normal(size=(20, 12)).astype(np.float32)
    dense[rng.random(dense.shape) < 0.4] = 0
    dense[:, -2:] = 0.001
    found = pruned(csr_array(dense), most, 2).toarray()
    for row, kept in zip(dense, found):
        largest = [*np.argsort(-np.abs(row[:-2]), kind="stable")[: most - 2], 10, 11]
        expected = np.zeros_like(row)
        expected[largest] = row[largest]
        np.testing.assert_array_equal(kept, expected)
