"""Vectors by cosine, CSLS or inner product: lengths, exact scores, ties; the parts that `blocks` searches with.

CSLS is 2 cos(x, y) - r(x) - r(y), r the mean cosine of a vector's k nearest on the other side (Conneau et al. 2018).

The float32 product of the very same two vectors moves by up to 8e-7 with the processor's kernel and the shape of the
product (64 to 4,096 dimensions). So scores that are closer than CLOSE to what they are compared with are computed again
in float64, where they tie within TIE: the float32 rounding of the unit vectors, and of the neighbour means of CSLS.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple, get_args

import numpy as np
from scipy.sparse import csr_array, issparse

from hfxling.values import check_counts

CLOSE = 2e-6
TIE = {"cosine": 1e-7, "csls": 1e-6, "dot": 1e-6}
Dtype = Literal["float32", "bfloat16"]
DTYPES = get_args(Dtype)
Vectors = np.ndarray | csr_array
_UNITS = {"": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "KB": 10**3, "MB": 10**6, "GB": 10**9}


class Neighbours(NamedTuple):
    """The k best on the other side for each of N vectors, best first; among ties, lower rows first."""

    rows: np.ndarray  # (N, k) int64
    scores: np.ndarray  # (N, k) float64


def joined(parts: Sequence[Neighbours]) -> Neighbours:
    """Neighbours of all vectors, from those of consecutive parts."""
    rows = np.concatenate([part.rows for part in parts])
    scores = np.concatenate([part.scores for part in parts])
    return Neighbours(rows, scores)


def bytes_of(memory: int | str) -> int:
    """Bytes of "4GiB", "500 MB" or a number."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMG]i?B)?\s*", str(memory))
    size = int(float(match[1]) * _UNITS[match[2] or ""]) if match else 0
    if not size:
        raise ValueError(f"memory={memory!r}: give a number of bytes, or one with {', '.join([*_UNITS][1:])}.")
    return size


def check_search(dtype: str, memory: int | str, **counts: int) -> None:
    """Raise ValueError for search settings that are not possible; counts must be 1 or more."""
    check_counts(1, **counts)
    if dtype not in DTYPES:
        raise ValueError(f"dtype={dtype!r} is not one of {', '.join(DTYPES)}.")
    bytes_of(memory)


def unit(x) -> np.ndarray:
    """Length-normalise the rows of (N, D) vectors; always a new float32 array."""
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


def blank_rows(x) -> np.ndarray:
    """(N,) whether dense vectors are zero, as those of static embeddings for a text of which they know no word."""
    x = x if issparse(x) else np.asarray(x)
    if issparse(x) or x.ndim != 2:
        return np.zeros(x.shape[0], bool)  # empty sparse vectors are allowed; other shapes are refused later
    return ~x.any(axis=1)


def unit_or_zero(rows: np.ndarray) -> np.ndarray:
    """(..., D) rows at length 1, in their own dtype; rows of zeros stay as they are."""
    return rows / np.maximum(np.linalg.norm(rows, axis=-1, keepdims=True), 1e-30)


def _as_given(x) -> np.ndarray | csr_array:
    """(N, D) vectors in float64, whatever their lengths."""
    x = csr_array(x, dtype=np.float64) if issparse(x) else np.asarray(x, np.float64)
    if x.ndim != 2 or not x.shape[0] or not np.isfinite(x.data if issparse(x) else x).all():
        raise ValueError(f"Vectors must be a non-empty matrix of finite numbers, got shape {x.shape}.")
    return x


def check_pairing(source: np.ndarray, target: np.ndarray) -> None:
    """Refuse two sets of vectors whose rows cannot be pairs."""
    if source.shape != target.shape:
        raise ValueError(f"Source vectors have shape {source.shape}, target vectors {target.shape}; rows must pair up.")


def parts_of(vectors: Vectors | Sequence[Vectors]) -> list[Vectors]:
    """Vectors of several kinds, or one kind as a list of one."""
    return [vectors] if isinstance(vectors, np.ndarray) or issparse(vectors) else list(vectors)


def one_or_all(parts: list[Vectors]) -> Vectors | list[Vectors]:
    """The reverse of `parts_of`: one kind by itself, several as they are."""
    return parts[0] if len(parts) == 1 else parts


def ranking_vectors(
    source, target, method: str = "cosine", *, csls_k: int = 10, pools: tuple | None = None, block_size: int = 1000
) -> tuple[np.ndarray, np.ndarray]:
    """Vectors whose dot products rank as the method does; arguments as for `blocks.nearest`.

    Returns:
        Two new float32 arrays: unit vectors, (N, D) and (M, D); for CSLS (N, D + 2) and (M, D + 2), whose two more
        columns turn the dot product into cos(x, y) - r(x)/2 - r(y)/2, half of CSLS; for "dot" float64 ones as given.
    """
    if method not in TIE:
        raise ValueError(f"method={method!r} is not one of {', '.join(TIE)}.")
    source, target = map(_as_given if method == "dot" else unit, (source, target))
    if source.shape[1] != target.shape[1]:
        raise ValueError(f"Source vectors have {source.shape[1]} dimensions, target vectors {target.shape[1]}.")
    if method != "csls":
        return source, target
    of_source, of_target = (source, target) if pools is None else map(unit, pools)
    smaller = min(len(of_source), len(of_target))
    if not 1 <= csls_k <= smaller:
        raise ValueError(f"csls_k={csls_k} must lie between 1 and the smaller side's number of vectors, {smaller}.")
    r_source, r_target = neighbour_means(source, of_target, csls_k, block_size)
    if pools is not None:
        _, r_target = neighbour_means(of_source, target, csls_k, block_size)
    one_source, one_target = np.ones(len(source), np.float32), np.ones(len(target), np.float32)
    source = np.column_stack([source, r_source / -2, one_source])
    return source, np.column_stack([target, one_target, r_target / -2])


def score_blocks(source: np.ndarray, target: np.ndarray, block_size: int) -> Iterator[tuple[slice, slice, np.ndarray]]:
    """Blocks of source @ target.T with their rows and columns."""
    for rows in slices(source.shape[0], block_size):
        for columns in slices(target.shape[0], block_size):
            yield rows, columns, as_array(source[rows] @ target[columns].T)


def reaching(block: np.ndarray, least: np.ndarray, source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Mask of the scores that are `least` or more; close calls are decided in float64.

    Args:
        block: (B, C) float32 scores of B source and C target vectors.
        least: (B, 1) or (C,) float64.
        source: the (B, D) vectors.
        target: the (C, D) vectors.
    """
    mask = block >= (least - CLOSE).astype(np.float32)  # all candidates; the close ones among them are checked next
    is_close = block <= (least + CLOSE).astype(np.float32)
    is_close &= mask
    places = np.flatnonzero(is_close)
    if places.size:
        row, column = np.divmod(places, block.shape[1])
        mask[row, column] = exact_scores(source, target, row, column) >= np.broadcast_to(least, mask.shape)[row, column]
    return mask


def as_array(x: Vectors) -> np.ndarray:
    """A scipy matrix as an array; an array unchanged."""
    return x.toarray() if issparse(x) else x


def slices(count: int, size: int) -> Iterator[slice]:
    """Slices of `size` rows that cover `count` rows; the last one may be smaller."""
    return (slice(start, min(start + size, count)) for start in range(0, count, size))


def exact_scores(source: np.ndarray, target: np.ndarray, row: np.ndarray, column: np.ndarray) -> np.ndarray:
    """(P,) float64 dot products of source rows and target rows."""
    if issparse(source):
        source, target = source.astype(np.float64, copy=False), target.astype(np.float64, copy=False)
        chunks = slices(max(len(row), 1), 4096)
        return np.concatenate([source[row[c]].multiply(target[column[c]]).sum(1) for c in chunks])
    if 8 * len(row) > len(source) * len(target):  # nearly collapsed vectors: the whole block is cheaper
        return (source.astype(np.float64) @ target.astype(np.float64).T)[row, column]
    chunks = slices(len(row), 4096)
    return np.concatenate([np.einsum("ij,ij->i", source[row[c]], target[column[c]], dtype=np.float64) for c in chunks])


def best_first(rows: np.ndarray, scores: np.ndarray, k: int, tie: float) -> tuple[np.ndarray, np.ndarray]:
    """The k best of (Q, K) rows and scores, best first; scores that tie are in the order of their rows."""
    order = np.lexsort((rows, -scores), axis=1)
    rows, scores = np.take_along_axis(rows, order, axis=1), np.take_along_axis(scores, order, axis=1)
    # A tie is with the best of its group: compared one by one with the score before, a slow slope would be one group.
    best, group = scores[:, 0].copy(), np.zeros(rows.shape, np.int64)
    for place in range(1, rows.shape[1]):
        is_lower = scores[:, place] < best - tie
        best[is_lower] = scores[is_lower, place]
        group[:, place] = group[:, place - 1] + is_lower
    order = np.lexsort((rows, group), axis=1)[:, :k]
    return np.take_along_axis(rows, order, axis=1), np.take_along_axis(scores, order, axis=1)


def neighbour_means(source, target, k: int, block_size: int = 1000) -> list[np.ndarray]:
    """(N,) and (M,) mean inner products of every vector's k nearest on the other side, in one pass."""
    largest = [np.full((side.shape[0], k), -np.inf, np.float32) for side in (source, target)]
    for rows, columns, block in score_blocks(source, target, block_size):
        for best, part, scores in zip(largest, (rows, columns), (block, block.T)):
            best[part] = np.partition(np.hstack([best[part], scores]), -k, axis=1)[:, -k:]
    return [best.mean(axis=1) for best in largest]
