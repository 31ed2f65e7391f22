"""Neighbours of two sets of vectors, block by block."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np


def unit(x) -> np.ndarray:
    """Length-normalise the rows of (N, D) vectors; always a new float32 array.

    Raises:
        ValueError: not a non-empty matrix, or rows without a direction (zero, NaN, infinite), named by number.
    """
    x = np.ascontiguousarray(x, dtype=np.float32)
    if x.ndim != 2 or x.size == 0:
        raise ValueError(f"Sentence vectors must be a non-empty (sentences, dimensions) array, got shape {x.shape}.")
    norms = np.sqrt(np.einsum("ij,ij->i", x, x, dtype=np.float64))
    bad = np.flatnonzero(~((norms > 0) & (norms < np.inf)))
    if bad.size:
        rows = ", ".join(map(str, bad[:5])) + (", ..." if bad.size > 5 else "")
        raise ValueError(
            f"{bad.size} of {len(x)} vectors are zero, NaN or infinite and have no direction: row {rows} "
            "(counted from 0). Drop these sentences or look for empty text and overflow in the encoder."
        )
    return x / norms[:, None].astype(np.float32)


def _score_blocks(source: np.ndarray, target: np.ndarray, block_size: int) -> Iterator[tuple[slice, slice, np.ndarray]]:
    """Blocks of source @ target.T with their rows and columns. The next block overwrites the one before."""
    space = np.empty(min(block_size, len(source)) * min(block_size, len(target)), np.float32)
    for i in range(0, len(source), block_size):
        rows = slice(i, min(i + block_size, len(source)))
        for j in range(0, len(target), block_size):
            columns = slice(j, min(j + block_size, len(target)))
            shape = (rows.stop - i, columns.stop - j)
            block = space[: shape[0] * shape[1]].reshape(shape)
            yield rows, columns, np.matmul(source[rows], target[columns].T, out=block)


def append_csls_penalties(
    source: np.ndarray, target: np.ndarray, k: int, block_size: int
) -> tuple[np.ndarray, np.ndarray]:
    """Two more columns that turn the dot product into cos(x, y) - r(x)/2 - r(y)/2, which ranks as CSLS does.

    r is the mean cosine of a row's k nearest neighbours on the other side, found for both sides in one pass.
    """
    smaller = min(len(source), len(target))
    if not 1 <= k <= smaller:
        raise ValueError(f"csls_k={k} must lie between 1 and the number of sentences on the smaller side, {smaller}.")
    of_source = np.full((len(source), k), -np.inf, np.float32)
    of_target = np.full((len(target), k), -np.inf, np.float32)
    for rows, columns, block in _score_blocks(source, target, block_size):
        of_source[rows] = _merge_largest(of_source[rows], block, axis=1)
        of_target[columns] = _merge_largest(of_target[columns], block, axis=0)
    one_source, one_target = np.ones(len(source), np.float32), np.ones(len(target), np.float32)
    source = np.column_stack([source, of_source.mean(axis=1) / -2, one_source])
    return source, np.column_stack([target, one_target, of_target.mean(axis=1) / -2])


def _merge_largest(largest: np.ndarray, block: np.ndarray, axis: int) -> np.ndarray:
    """The k largest of what is known and of a new block, per row (axis=1) or per column (axis=0) of the block.

    Few values of a block get in, so a threshold that the k-th largest surely reaches filters them first.
    """
    n, k = largest.shape
    threshold = largest.min(axis=1)
    if np.isneginf(threshold).any():  # the first block
        threshold = _kth_lower_bound(block, k, axis)
    places = np.flatnonzero(block >= np.expand_dims(threshold, axis))
    owner = places // block.shape[1] if axis == 1 else places % block.shape[1]
    values = block.ravel()[places]
    if axis == 0:
        order = np.argsort(owner, kind="stable")
        owner, values = owner[order], values[order]
    counts = np.bincount(owner, minlength=n)
    starts = np.cumsum(counts) - counts
    candidates = np.full((n, k + counts.max()), -np.inf, np.float32)
    candidates[:, :k] = largest
    candidates[owner, k + np.arange(len(owner)) - starts[owner]] = values
    return np.partition(candidates, -k, axis=1)[:, -k:]


def _kth_lower_bound(block: np.ndarray, k: int, axis: int) -> np.ndarray:
    """Of k disjoint groups the smallest maximum: k values reach it, so the k-th largest does."""
    size = block.shape[axis] // k
    if not size:
        return np.full(block.shape[1 - axis], -np.inf, np.float32)
    if axis == 1:
        return block[:, : k * size].reshape(-1, k, size).max(axis=2).min(axis=1)
    return block[: k * size].reshape(k, size, -1).max(axis=1).min(axis=0)
