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
    """(V, W) numbers, most of them zero, row by row."""

    def __init__(self, shape: tuple[int, int], size: int):
        super().__init__()
        self.shape = shape
        self.values = nn.Parameter(torch.zeros(size), requires_grad=False)
        self.register_buffer("columns", torch.zeros(size, dtype=torch.int32))
        self.register_buffer("starts", torch.zeros(shape[0] + 1, dtype=torch.int32))

    def fill(self, matrix: csr_array) -> None:
        """Take the values of a matrix of the same shape and size."""
        for place, array in ((self.values.data, matrix.data), (self.columns, matrix.indices)):
            place.copy_(torch.from_numpy(array))
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
    """One matrix of parts that begin at the given columns, blanks between them; compressed rows stay that all along."""
    blocks, at = [], 0
    for start, part in (*parts, (width, csr_array((parts[0][1].shape[0], 0), dtype=np.float32))):
        blank = csr_array((part.shape[0], start - at), dtype=np.float32)
        blocks += [blank, part] if start > at else [part]
        at = start + part.shape[1]
    return csr_array(hstack(blocks, format="csr"))


def pruned(vectors: csr_array, most: int, extra: int) -> csr_array:
    """Every row's largest weights; those of the last `extra` dimensions stay."""
    size = np.where(vectors.indices >= vectors.shape[1] - extra, np.inf, np.abs(vectors.data))
    kept = []
    for start, end in zip(vectors.indptr[:-1], vectors.indptr[1:]):
        few = np.arange(end - start) if end - start <= most else np.argpartition(size[start:end], -most)[-most:]
        kept.append(start + np.sort(few))
    ends = np.concatenate([[0], np.cumsum([len(few) for few in kept])])
    places = np.concatenate(kept)
    return csr_array((vectors.data[places], vectors.indices[places], ends), shape=vectors.shape)
