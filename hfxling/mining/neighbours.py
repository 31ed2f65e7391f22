"""Nearest neighbours between two sets of vectors by cosine or CSLS, block by block: the only such code there is.

CSLS is 2 cos(x, y) - r(x) - r(y), r the mean cosine of a vector's k nearest on the other side (Conneau et al. 2018).

The float32 product of the very same two vectors moves by up to 8e-7 with the processor's kernel and the shape of the
product (64 to 4,096 dimensions). Scores closer than CLOSE to what they are compared with are therefore computed again
in float64, where they tie within TIE: float32 rounding of the unit vectors, and of the neighbour means of CSLS.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

CLOSE = 2e-6
TIE = {"cosine": 1e-7, "csls": 1e-6}
_SPARE = 16  # neighbours kept beside the k nearest until float64 decides


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


def paired_units(source, target) -> tuple[np.ndarray, np.ndarray]:
    """`unit` of two (N, D) sets whose rows pair up.

    Raises:
        ValueError: unequal shapes, and as `unit`.
    """
    source, target = unit(source), unit(target)
    if source.shape != target.shape:
        raise ValueError(f"Source vectors have shape {source.shape}, target vectors {target.shape}; rows must pair up.")
    return source, target


def nearest(
    queries,
    candidates,
    k: int,
    method: str = "cosine",
    *,
    csls_k: int = 10,
    pools: tuple | None = None,
    block_size: int = 1000,
) -> tuple[np.ndarray, np.ndarray]:
    """The k best candidates of every query.

    Close calls are decided in float64, so that what is found does not hang on the block size or the machine's matrix
    product. Of candidates that tie those with lower rows come first.

    Args:
        queries: (Q, D) vectors, of any length.
        candidates: (M, D), of any length.
        k: how many; M where there are fewer.
        method: "cosine" or "csls".
        csls_k: neighbours for CSLS; 10 is the value of its authors.
        pools: for CSLS, what stands for each side when neighbours are looked for, (·, D) vectors of the queries' and of
            the candidates' side; by default the queries and the candidates. A single query needs one.
        block_size: rows and columns of a block.

    Returns:
        (Q, k) int64 rows of the candidates, best first, and their (Q, k) float64 scores.

    Raises:
        ValueError: k below 1, and as `ranking_vectors`.
    """
    if k < 1:
        raise ValueError(f"k={k} neighbours: give 1 or more.")
    queries, candidates = ranking_vectors(
        queries, candidates, method, csls_k=csls_k, pools=pools, block_size=block_size
    )
    k, tie = min(k, len(candidates)), TIE[method]
    parts = []
    for start in range(0, len(queries), block_size):
        part = queries[start : start + block_size]
        rows, scores, is_sure = _rough_nearest(part, candidates, k, block_size)
        rows, scores = _best_first(rows, scores, k, tie)
        if not is_sure.all():
            rows[~is_sure], scores[~is_sure] = _exact_nearest(part[~is_sure], candidates, k, tie, block_size)
        parts.append((rows, scores))
    rows, scores = (np.concatenate(x) for x in zip(*parts))
    return rows, 2 * scores if method == "csls" else scores


def ranking_vectors(
    source,
    target,
    method: str = "cosine",
    *,
    csls_k: int = 10,
    pools: tuple | None = None,
    block_size: int = 1000,
) -> tuple[np.ndarray, np.ndarray]:
    """Vectors whose dot products rank as the method does: unit ones, with two more columns for CSLS.

    The columns turn the dot product into cos(x, y) - r(x)/2 - r(y)/2, half of CSLS. Without `pools` both sides'
    neighbours are found in one pass.

    Args:
        source: (N, D) vectors, of any length.
        target: (M, D), of any length.
        method: "cosine" or "csls".
        csls_k: neighbours for CSLS.
        pools: as for `nearest`.
        block_size: rows and columns of a block.

    Returns:
        Two new float32 arrays, (N, D) and (M, D), or (N, D + 2) and (M, D + 2).

    Raises:
        ValueError: unequal widths, vectors without a direction, an unknown method, `csls_k` beyond a side.
    """
    source, target = unit(source), unit(target)
    if source.shape[1] != target.shape[1]:
        raise ValueError(f"Source vectors have {source.shape[1]} dimensions, target vectors {target.shape[1]}.")
    if method not in TIE:
        raise ValueError(f"method={method!r} is not one of {', '.join(TIE)}.")
    if method == "cosine":
        return source, target
    of_source, of_target = (source, target) if pools is None else map(unit, pools)
    smaller = min(len(of_source), len(of_target))
    if not 1 <= csls_k <= smaller:
        raise ValueError(
            f"csls_k={csls_k} must lie between 1 and the number of vectors on the smaller side, {smaller}."
        )
    if pools is None:
        means = _neighbour_means(source, target, csls_k, block_size)
    else:
        (r_source,) = _neighbour_means(source, of_target, csls_k, block_size, both=False)
        (r_target,) = _neighbour_means(target, of_source, csls_k, block_size, both=False)
        means = r_source, r_target
    one_source, one_target = np.ones(len(source), np.float32), np.ones(len(target), np.float32)
    source = np.column_stack([source, means[0] / -2, one_source])
    return source, np.column_stack([target, one_target, means[1] / -2])


def score_blocks(source: np.ndarray, target: np.ndarray, block_size: int) -> Iterator[tuple[slice, slice, np.ndarray]]:
    """Blocks of source @ target.T with their rows and columns. The next block overwrites the one before."""
    space = np.empty(min(block_size, len(source)) * min(block_size, len(target)), np.float32)
    for i in range(0, len(source), block_size):
        rows = slice(i, min(i + block_size, len(source)))
        for j in range(0, len(target), block_size):
            columns = slice(j, min(j + block_size, len(target)))
            shape = (rows.stop - i, columns.stop - j)
            block = space[: shape[0] * shape[1]].reshape(shape)
            yield rows, columns, np.matmul(source[rows], target[columns].T, out=block)


def reaching(block: np.ndarray, least: np.ndarray, source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Mask of the scores that are at least `least`; close calls are decided in float64.

    Args:
        block: (B, C) float32 scores of B source and C target vectors.
        least: (B, 1) or (C,) float64.
        source: the (B, D) vectors.
        target: the (C, D) vectors.
    """
    mask = block >= (least - CLOSE).astype(np.float32)
    close = block <= (least + CLOSE).astype(np.float32)
    close &= mask
    places = np.flatnonzero(close)
    if places.size:
        row, column = np.divmod(places, block.shape[1])
        mask[row, column] = exact_scores(source, target, row, column) >= np.broadcast_to(least, mask.shape)[row, column]
    return mask


def exact_scores(source: np.ndarray, target: np.ndarray, row: np.ndarray, column: np.ndarray) -> np.ndarray:
    """(P,) float64 dot products of source rows and target rows."""
    if 8 * len(row) > len(source) * len(target):  # nearly collapsed vectors: the whole block is cheaper
        return (source.astype(np.float64) @ target.astype(np.float64).T)[row, column]
    chunks = (slice(i, i + 4096) for i in range(0, len(row), 4096))
    return np.concatenate([np.einsum("ij,ij->i", source[row[c]], target[column[c]], dtype=np.float64) for c in chunks])


def _rough_nearest(
    queries: np.ndarray, candidates: np.ndarray, k: int, block_size: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The k nearest and a few more: (Q, K) rows, (Q, K) exact scores, and (Q,) whether the k nearest are among them."""
    kept = min(k + _SPARE, len(candidates))
    scores = np.full((len(queries), kept), -np.inf, np.float32)
    rows = np.zeros((len(queries), kept), np.int64)
    for _, columns, block in score_blocks(queries, candidates, block_size):
        scores, rows = _merge_largest(scores, block, axis=1, places=rows, start=columns.start)
    ordered = np.sort(scores, axis=1)
    is_sure = (ordered[:, 0] < ordered[:, -k] - CLOSE) | (kept == len(candidates))
    query = np.repeat(np.arange(len(queries)), kept)
    return rows, exact_scores(queries, candidates, query, rows.ravel()).reshape(rows.shape), is_sure


def _exact_nearest(
    queries: np.ndarray, candidates: np.ndarray, k: int, tie: float, block_size: int
) -> tuple[np.ndarray, np.ndarray]:
    """The k nearest where many candidates tie: all of it in float64."""
    queries = queries.astype(np.float64)
    rows, scores = np.empty((len(queries), 0), np.int64), np.empty((len(queries), 0))
    for start in range(0, len(candidates), block_size):
        block = candidates[start : start + block_size].astype(np.float64)
        new = np.broadcast_to(np.arange(start, start + len(block)), (len(queries), len(block)))
        rows, scores = _best_first(np.hstack([rows, new]), np.hstack([scores, queries @ block.T]), k, tie)
    return rows, scores


def _best_first(rows: np.ndarray, scores: np.ndarray, k: int, tie: float) -> tuple[np.ndarray, np.ndarray]:
    """The k best of (Q, K) rows and scores, in order; those that tie with the best of them in the order of rows."""
    order = np.lexsort((rows, -scores), axis=1)
    rows, scores = (np.take_along_axis(x, order, axis=1) for x in (rows, scores))
    best, group = scores[:, 0].copy(), np.zeros(rows.shape, np.int64)
    for place in range(1, rows.shape[1]):
        lower = scores[:, place] < best - tie
        best[lower] = scores[lower, place]
        group[:, place] = group[:, place - 1] + lower
    order = np.lexsort((rows, group), axis=1)[:, :k]
    return tuple(np.take_along_axis(x, order, axis=1) for x in (rows, scores))


def _neighbour_means(
    source: np.ndarray, target: np.ndarray, k: int, block_size: int, *, both: bool = True
) -> list[np.ndarray]:
    """(N,) mean cosines of every source vector's k nearest targets, and with `both` the (M,) of every target's too."""
    largest = [np.full((len(side), k), -np.inf, np.float32) for side in (source, target)[: 1 + both]]
    for rows, columns, block in score_blocks(source, target, block_size):
        for found, part, axis in zip(largest, (rows, columns), (1, 0)):
            found[part], _ = _merge_largest(found[part], block, axis)
    return [found.mean(axis=1) for found in largest]


def _merge_largest(
    largest: np.ndarray, block: np.ndarray, axis: int, places: np.ndarray | None = None, start: int = 0
) -> tuple[np.ndarray, np.ndarray | None]:
    """The k largest of what is known and of a new block, per row (axis=1) or per column (axis=0) of the block.

    Few values of a block get in, so a threshold that the k-th largest surely reaches filters them first. With `places`,
    where the known ones stand, also the new places, the block's first being `start`.
    """
    n, k = largest.shape
    threshold = largest.min(axis=1)
    if np.isneginf(threshold).any():  # the first block
        threshold = _kth_lower_bound(block, k, axis)
    found = np.flatnonzero(block >= np.expand_dims(threshold, axis))
    owner, place = np.divmod(found, block.shape[1])
    values = block.ravel()[found]
    if axis == 0:
        order = np.argsort(place, kind="stable")
        owner, place, values = place[order], owner[order], values[order]
    counts = np.bincount(owner, minlength=n)
    at = owner, k + np.arange(len(owner)) - (np.cumsum(counts) - counts)[owner]
    candidates = np.full((n, k + counts.max()), -np.inf, np.float32)
    candidates[:, :k] = largest
    candidates[at] = values
    if places is None:
        return np.partition(candidates, -k, axis=1)[:, -k:], None
    of_candidates = np.zeros(candidates.shape, np.int64)
    of_candidates[:, :k] = places
    of_candidates[at] = start + place
    kept = np.argpartition(candidates, -k, axis=1)[:, -k:]
    return np.take_along_axis(candidates, kept, axis=1), np.take_along_axis(of_candidates, kept, axis=1)


def _kth_lower_bound(block: np.ndarray, k: int, axis: int) -> np.ndarray:
    """Of k disjoint groups the smallest maximum: k values reach it, so the k-th largest does."""
    size = block.shape[axis] // k
    if not size:
        return np.full(block.shape[1 - axis], -np.inf, np.float32)
    if axis == 1:
        return block[:, : k * size].reshape(-1, k, size).max(axis=2).min(axis=1)
    return block[: k * size].reshape(k, size, -1).max(axis=1).min(axis=0)
