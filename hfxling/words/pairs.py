"""Word ids of sentence pairs, and padding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor


@dataclass
class EncodedPairs:
    """Word ids of the sentence pairs of one language pair, sentence by sentence."""

    languages: tuple[str, str]  # codes of source and target
    source: list[list[int]]
    target: list[list[int]]


def encoded_pairs(
    languages: Sequence[str], vocabularies: Sequence, source: Sequence[str], target: Sequence[str], longest=None
) -> EncodedPairs:
    """Word ids of sentence pairs, at most the first `longest` of each sentence; a side may have none."""
    sides = []
    for vocabulary, lines in zip(vocabularies, (source, target)):
        sides.append([ids[:longest] for ids in vocabulary.encode_ids(lines)])
    return EncodedPairs(tuple(languages), *sides)


def like_sizes(sizes: np.ndarray, order: np.ndarray, most: int) -> Iterator[np.ndarray]:
    """Batches of rows in `order`: one row, or as many as have `most` cells if padded; `sizes` are (N, 2)."""
    start = 0
    while start < len(order):
        next_sizes = np.maximum(sizes[order[start : start + most]], 1)  # every row has at least one cell
        cells_of_largest = np.maximum.accumulate(next_sizes, axis=0).prod(1)
        batch_cells = cells_of_largest * np.arange(1, len(cells_of_largest) + 1)  # of the next 1, 2, ... rows
        count = max(1, np.searchsorted(batch_cells, most, side="right"))
        yield order[start : start + count]
        start += count


def pad(rows: Sequence[Sequence[int]]) -> dict[str, Tensor]:
    """One side of a batch: {"word_ids": (B, S), "mask": (B, S)}, padded on the right; S is at least 1."""
    ids = stack(rows)
    mask = ids >= 0
    return {"word_ids": torch.from_numpy(ids * mask), "mask": torch.from_numpy(mask.astype(np.int64))}


def stack(rows: Sequence[Sequence[int]]) -> np.ndarray:
    """(B, S) int64 array of B rows of ids, -1 after the end of each; S is at least 1."""
    lengths = np.array([len(row) for row in rows])
    inside = np.arange(max(1, lengths.max())) < lengths[:, None]
    table = np.full(inside.shape, -1, np.int64)
    table[inside] = np.concatenate(rows)  # a mask is filled row by row
    return table


def pad_matrices(
    pairs: Sequence[tuple[np.ndarray, np.ndarray]], shape: Sequence[int] | None = None
) -> tuple[Tensor, Tensor]:
    """Two (s, t) matrices of every sentence pair to two (B, S, T) tensors, zero at padding; `shape` is (S, T)."""
    if shape is None:
        shape = np.max([forward.shape for forward, _ in pairs], axis=0)
    padded = np.zeros((2, len(pairs), *shape), np.float32)
    for row, matrices in enumerate(pairs):
        height, width = matrices[0].shape
        padded[:, row, :height, :width] = matrices
    return tuple(torch.from_numpy(padded))
