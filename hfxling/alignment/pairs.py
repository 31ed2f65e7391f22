"""Word ids of sentence pairs, and padding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor


@dataclass
class EncodedPairs:
    """Word ids of the sentence pairs of one language pair.

    Attributes:
        languages: (source, target) codes.
        source: ids of every source sentence.
        target: ids of its translation.
    """

    languages: tuple[str, str]
    source: list[list[int]]
    target: list[list[int]]


def pad(rows: Sequence[Sequence[int]]) -> dict[str, Tensor]:
    """One side of a batch: {"word_ids": (B, S), "mask": (B, S)}, padded on the right."""
    lengths = np.array([len(row) for row in rows])
    mask = np.arange(lengths.max()) < lengths[:, None]
    ids = np.zeros(mask.shape, np.int64)
    ids[mask] = np.concatenate(rows)
    return {"word_ids": torch.from_numpy(ids), "mask": torch.from_numpy(mask.astype(np.int64))}


def pad_matrices(
    pairs: Sequence[tuple[np.ndarray, np.ndarray]], shape: Sequence[int] | None = None
) -> tuple[Tensor, Tensor]:
    """Two (s, t) matrices of every sentence pair to two (B, S, T) tensors, zero at padding.

    Args:
        pairs: the matrices.
        shape: (S, T), by default just large enough.
    """
    shape = np.max([forward.shape for forward, _ in pairs], axis=0) if shape is None else shape
    padded = np.zeros((2, len(pairs), *shape), np.float32)
    for row, matrices in enumerate(pairs):
        height, width = matrices[0].shape
        padded[:, row, :height, :width] = matrices
    return tuple(torch.from_numpy(padded))
