"""Pooling looks at real positions only, wherever the padding stands."""

import pytest
import torch

from hfxling.models.pooling import pool

HIDDEN = torch.tensor([[[1.0, 0], [2, 0], [9, 9]], [[9.0, 9], [4, 0], [6, 2]]])
MASK = torch.tensor([[1, 1, 0], [0, 1, 1]])  # right and left padding


@pytest.mark.parametrize(
    ("mode", "expected"),
    [("mean", [[1.5, 0], [5, 1]]), ("cls", [[1, 0], [4, 0]]), ("last", [[2, 0], [6, 2]])],
)
def test_pool(mode, expected):
    assert pool(HIDDEN, MASK, mode).tolist() == expected


def test_unknown_mode():
    with pytest.raises(ValueError, match="pooling='max' is not one of mean, cls, last"):
        pool(HIDDEN, MASK, "max")
