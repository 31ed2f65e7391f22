"""Sparse vectors with few of their weights: a quick search whose best candidates all weights then score."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array, issparse

from .neighbours import Vectors

CANDIDATES = 32  # that are scored with all weights


def strongest(source: list[Vectors], target: list[Vectors], terms: int) -> tuple[list[Vectors], list[Vectors]]:
    """The parts with `terms` weights a row of the sparse ones, those that add most to the inner products.

    A weight counts as much as its product with the root mean square of the other side's weights in that dimension. The
    largest weights are of rare segments, which hardly a text of the other side has: they would keep next to nothing of
    the scores.

    Args:
        source: parts of one side's vectors, whose inner products add up.
        target: the same of the other side.
        terms: how many.

    Raises:
        ValueError: fewer than 1, or no part is sparse.
    """
    if terms < 1 or not any(map(issparse, source)):
        raise ValueError(f"terms={terms}: give 1 or more, and sparse vectors, whose weights they are.")
    kept: tuple[list, list] = ([], [])
    for parts in zip(source, target):
        spreads = [_spread(part) if issparse(part) else None for part in parts]
        for side, part, others in zip(kept, parts, spreads[::-1]):
            side.append(part if others is None else _kept(csr_array(part), others, terms))
    return kept


def _spread(x: csr_array) -> np.ndarray:
    """(D,) root mean square of the weights in each dimension."""
    squares = np.bincount(x.indices, np.square(x.data, dtype=np.float64), minlength=x.shape[1])
    return np.sqrt(squares / x.shape[0])


def _kept(x: csr_array, others: np.ndarray, terms: int) -> csr_array:
    places = []
    for start, end in zip(x.indptr[:-1].tolist(), x.indptr[1:].tolist()):
        few = np.arange(start, end)
        if end - start > terms:
            size = np.abs(x.data[start:end]) * others[x.indices[start:end]]
            few = start + np.sort(np.argpartition(size, -terms)[-terms:])
        places.append(few)
    ends = np.concatenate([[0], np.cumsum([*map(len, places)])]).astype(x.indptr.dtype)
    kept = np.concatenate(places)
    return csr_array((x.data[kept], x.indices[kept], ends), shape=x.shape)
