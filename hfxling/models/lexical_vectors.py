"""Sparse matrices of the lexical model: as weights, and put together to sentence vectors."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from scipy.sparse import csr_array, hstack
from torch import nn


class Term(NamedTuple):
    """Two linked segments of a sentence pair and what they add to its score."""

    source: str
    target: str
    contribution: float
    share: float  # of the sum of all contributions' sizes


class Bags(NamedTuple):
    """Texts of one language as segments."""

    shares: list[csr_array]  # of each view (N, V): how often a segment occurs, by the text's length
    lengths: np.ndarray  # (N,) segments of the first view, unknown ones included, at least 1


class SparseMatrix(nn.Module):
    """(V, W) numbers, most of them zero, row by row.

    Args:
        shape: (V, W).
        size: how many numbers are stored.
    """

    def __init__(self, shape: tuple[int, int], size: int):
        super().__init__()
        self.shape = shape
        # A parameter, though nothing trains it: transformers reads a model's dtype and device off its parameters.
        self.values = nn.Parameter(torch.zeros(size), requires_grad=False)
        self.register_buffer("columns", torch.zeros(size, dtype=torch.int32))
        self.register_buffer("starts", torch.zeros(shape[0] + 1, dtype=torch.int32))

    def fill(self, matrix: csr_array) -> None:
        """Take the values of a matrix of the same shape and size."""
        self.values.data.copy_(torch.from_numpy(matrix.data))
        self.columns.copy_(torch.from_numpy(matrix.indices))
        self.starts.copy_(torch.from_numpy(matrix.indptr))

    def matrix(self) -> csr_array:
        """The same as a scipy matrix in float32."""
        parts = tuple(x.detach().cpu().numpy() for x in (self.values.float(), self.columns, self.starts))
        return csr_array(parts, shape=self.shape)

    def check(self) -> None:
        """Raise ValueError where numbers are stored that scipy would read beyond its memory for, or that are none."""
        starts, columns = self.starts.long(), self.columns.long()
        if starts[0] != 0 or starts[-1] != len(columns) or bool((starts[1:] < starts[:-1]).any()):
            raise ValueError(f"rows of a matrix do not begin in order from 0 to {len(columns)}")
        if len(columns) and (int(columns.min()) < 0 or int(columns.max()) >= self.shape[1]):
            raise ValueError(f"columns {int(columns.min())} to {int(columns.max())} in a matrix of {self.shape[1]}")
        if not bool(torch.isfinite(self.values).all()):
            raise ValueError("weights hold NaN or infinite numbers")


def side_by_side(parts: Sequence[tuple[int, csr_array]], width: int) -> csr_array:
    """One matrix of parts that begin at the given columns, in rising order, with blanks between them."""
    rows = parts[0][1].shape[0]
    at_the_end = (width, csr_array((rows, 0), dtype=np.float32))  # an empty part: a blank comes before it, too
    blocks, end = [], 0
    for start, part in (*parts, at_the_end):
        if start > end:
            blocks.append(csr_array((rows, start - end), dtype=np.float32))
        blocks.append(part)
        end = start + part.shape[1]
    # scipy puts blocks beside each other without going through coordinates as long as all are in compressed rows.
    return csr_array(hstack(blocks, format="csr"))


def pruned(vectors: csr_array, most: int, extra: int) -> csr_array:
    """Every row's `most` largest weights; those of the last `extra` dimensions stay whatever their size."""
    size = np.where(vectors.indices >= vectors.shape[1] - extra, np.inf, np.abs(vectors.data))
    rows = []  # positions in `vectors.data`
    for start, end in zip(vectors.indptr[:-1], vectors.indptr[1:]):
        positions = np.arange(start, end)
        if len(positions) > most:
            positions = np.sort(start + np.argpartition(size[start:end], -most)[-most:])
        rows.append(positions)
    starts = np.cumsum([0, *map(len, rows)])
    positions = np.concatenate(rows)
    return csr_array((vectors.data[positions], vectors.indices[positions], starts), shape=vectors.shape)
