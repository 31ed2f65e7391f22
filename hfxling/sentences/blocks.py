"""Every vector's nearest neighbours on the other side, for both sides, in one pass over blocks of scores.

A block's scores are searched by the maxima of groups: a group whose maximum is below what a vector has already is never
opened. The scores that remain are computed again in float64 (see `neighbours`). So the result is that of comparing all
with all in float64, whatever the blocks, the device and the precision of the pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy

import numpy as np
import torch
from scipy.sparse import csr_array, issparse
from torch import Tensor

from hfxling.values import check_counts

from .neighbours import (
    CLOSE,
    TIE,
    Neighbours,
    Vectors,
    as_array,
    best_first,
    bytes_of,
    check_search,
    exact_scores,
    joined,
    parts_of,
    ranking_vectors,
    slices,
    unit,
)

_GROUP = 32  # scores that share a maximum
_SPARE = {torch.float32: 8, torch.bfloat16: 28}  # neighbours kept in addition to the k nearest until float64 decides
_LARGEST, _SMALLEST = 4096, 256  # rows and columns of a block
_PAIRS = 6144  # pairs of vectors that are scored in float64 at once
_LARGEST_ON_GPU, _PAIRS_ON_GPU = 16384, 65536  # a GPU waits for the CPU after each block and each such group of pairs
_CHUNK = 65536  # rows that are checked at once for vectors without a direction


def both_ways(
    source: Vectors | Sequence[Vectors],
    target: Vectors | Sequence[Vectors],
    k: int,
    *,
    memory: int | str = "4GiB",
    device: str | None = None,
    dtype: str = "float32",
) -> tuple[Neighbours, Neighbours]:
    """The k nearest target vectors of every source vector, and the k nearest source vectors of every target vector.

    Args:
        source: (N, D) array, in memory or memory-mapped, compared by cosine; a scipy matrix, compared by inner product;
            or several matrices of the same N texts, whose inner products add up (as they are, whatever their lengths).
        target: (M, D) vectors of the same kind.
        k: number of neighbours.
        memory: memory to use beside the vectors, in bytes or such as "4GiB"; on a GPU, GPU memory.
        device: device for dense products; by default a GPU if there is one. A GPU that has room for all vectors beside
            `memory` gets them once, otherwise block by block.
        dtype: number format of dense products, "float32" or "bfloat16" (for arrays only). It changes the time, not the
            result.

    Raises:
        ValueError: k larger than a side; sides of different kind or width; vectors that are zero, NaN or infinite,
            named by row; an unknown dtype; memory too small for a block, with the least that would do.
    """
    check_search(dtype, memory)
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    sides = Side(source, "source", device), Side(target, "target", device)
    _check_alike(*sides)
    smaller = min(map(len, sides))
    if not 1 <= k <= smaller:
        raise ValueError(f"k={k} must lie between 1 and the smaller side's number of vectors, {smaller}.")
    precision = getattr(torch, dtype) if sides[0].method == "cosine" else torch.float32
    size = _block_size(sides, k + _SPARE[precision], bytes_of(memory), device)
    if sides[0].method == "cosine" and device.startswith("cuda"):
        free, _ = torch.cuda.mem_get_info(device)
        if 4 * sides[0].widths[0] * sum(map(len, sides)) <= free - bytes_of(memory):
            for side in sides:
                side.load()
    return tuple(search_blocks(*sides, k, size, precision))


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
    """The k best candidates of every query; among ties, lower rows come first.

    Close calls are decided in float64, so the result depends neither on the block size nor on the machine.

    Args:
        queries: (Q, D) vectors of any length.
        candidates: (M, D) vectors of any length.
        k: number of candidates for each query; M if there are fewer.
        method: "cosine", "csls", or "dot": the inner product of the vectors as they are, which may be scipy's sparse
            ones.
        csls_k: number of neighbours for CSLS; 10 is the value of its authors.
        pools: for CSLS, (·, D) vectors of the queries' side and of the candidates' side among which neighbours are
            looked for; by default the queries and the candidates. A single query needs a pool.
        block_size: number of rows and columns of a block.

    Returns:
        (Q, k) int64 rows of the candidates, best first, and their (Q, k) float64 scores.

    Raises:
        ValueError: k below 1, and as `ranking_vectors`.
    """
    check_counts(1, k=k)
    if method == "cosine":  # the search brings vectors to unit length itself
        query_side = Side(np.asarray(queries), "query", "cpu")
        candidate_side = Side(np.asarray(candidates), "candidate", "cpu")
    else:
        queries, candidates = ranking_vectors(
            queries, candidates, method, csls_k=csls_k, pools=pools, block_size=block_size
        )
        query_side = Side([queries], "query", "cpu")
        candidate_side = Side([candidates], "candidate", "cpu")
    _check_alike(query_side, candidate_side)
    k = min(k, len(candidate_side))
    (found,) = search_blocks(query_side, candidate_side, k, block_size, torch.float32, backward=False)
    scores = 2 * found.scores if method == "csls" else found.scores  # `ranking_vectors` give half of it
    return found.rows, scores


class Side:
    """The vectors of one side, read block by block.

    Attributes:
        loaded: (N, D) float32 unit vectors on the device, if it holds all of them. Preparing a block and moving it to a
            GPU takes longer than multiplying it by another one.
    """

    def __init__(self, vectors: Vectors | Sequence[Vectors], name: str, device: str):
        parts = parts_of(vectors)
        self.method = "cosine" if isinstance(vectors, np.ndarray) else "dot"
        self.parts = [csr_array(part) if issparse(part) else np.asanyarray(part) for part in parts]
        self.device = device
        shapes = [part.shape for part in self.parts]
        if not shapes or any(len(shape) != 2 or not min(shape) for shape in shapes):
            raise ValueError(f"{name} vectors must be a non-empty (sentences, dimensions) matrix, got shape {shapes}.")
        counts, widths = zip(*shapes)
        if len(set(counts)) > 1:
            raise ValueError(f"{name}: {list(counts)} vectors; give as many of each kind.")
        self.widths = list(widths)
        self.longest = self._check(name)
        self.loaded: Tensor | None = None

    def load(self) -> None:
        """Bring all vectors to the device."""
        self.loaded = torch.empty((len(self), self.widths[0]), device=self.device)
        for rows in slices(len(self), _CHUNK):
            vectors = torch.from_numpy(np.array(self.parts[0][rows], np.float32)).to(self.device)
            lengths = vectors.double().norm(dim=1, keepdim=True)
            self.loaded[rows] = vectors / lengths.float()  # as `unit` does, but on the device, which is quicker

    def __len__(self) -> int:
        return self.parts[0].shape[0]

    def _check(self, name: str) -> float:
        """Length of the longest vector; ValueError for bad vectors."""
        bad, longest = [], 0.0
        for start in range(0, len(self), _CHUNK):
            chunks = [part[start : start + _CHUNK] for part in self.parts]
            if self.method == "cosine":  # compared in float32, where tiny numbers are zero and huge ones infinite
                with np.errstate(over="ignore"):
                    chunks = [chunks[0].astype(np.float32, copy=False)]
            square = sum(map(_squares, chunks))
            is_sound = np.isfinite(square)
            if self.method == "cosine":
                is_sound &= square > 0
            bad.extend(start + np.flatnonzero(~is_sound))
            longest = max(longest, float(square.max()) ** 0.5)
        if bad:
            what = "zero, NaN or infinite" if self.method == "cosine" else "NaN or infinite"
            rows = ", ".join(map(str, bad[:5])) + (", ..." if len(bad) > 5 else "")
            raise ValueError(f"{len(bad)} of {len(self)} {name} vectors are {what}: row {rows} (counted from 0).")
        return 1.0 if self.method == "cosine" else longest

    def rows(self, rows: slice | np.ndarray) -> list[Vectors]:
        """The vectors as they are compared: float32 ones at unit length, or float64 ones as they are."""
        taken = [part[rows] for part in self.parts]
        if self.method == "cosine":
            return [unit(taken[0])]
        return [part.astype(np.float64) for part in taken]

    def block(self, rows: slice, dtype: torch.dtype) -> tuple[list, float]:
        """The vectors that the pass multiplies, and the length of the largest rounding error among them."""
        parts = []
        if self.loaded is not None:
            parts.append(self.loaded[rows])
        else:
            for part in self.rows(rows):
                parts.append(part if issparse(part) else torch.from_numpy(part).to(self.device).float())
        if dtype is torch.float32:
            return parts, 0.0
        rounded = parts[0].to(dtype)
        return [rounded], float((parts[0] - rounded.float()).norm(dim=1).max())


def _squares(part: Vectors) -> np.ndarray:
    """(N,) squared lengths in float64; infinite or NaN if a number is."""
    with np.errstate(over="ignore", invalid="ignore"):
        if issparse(part):
            return part.astype(np.float64).power(2).sum(1)
        return np.einsum("ij,ij->i", part, part, dtype=np.float64)


def _scores(source: list, target: list, device: str) -> Tensor:
    """(B, C) scores of two blocks."""
    total = None
    for x, y in zip(source, target):
        if issparse(x):
            scores = torch.from_numpy((x @ y.T).toarray()).float().to(device)
        elif x.is_cuda and x.dtype is torch.bfloat16:
            scores = torch.mm(x, y.T, out_dtype=torch.float32)  # as quick, and the sums are not rounded
        else:
            scores = x @ y.T
        total = scores if total is None else total + scores
    return total


def _check_alike(source: Side, target: Side) -> None:
    """Refuse sides that cannot be compared."""
    if source.widths != target.widths or source.method != target.method:
        widths = [" and ".join(map(str, side.widths)) for side in (source, target)]
        raise ValueError(f"source vectors have {widths[0]} dimensions, target vectors {widths[1]}; give the same kind.")


class _Found:
    """For each vector of a side the best neighbours so far, and an upper bound for all others."""

    def __init__(self, scores: Tensor, rows: Tensor, rest: Tensor):
        self.scores, self.rows, self.rest = scores, rows, rest  # (R, kept) twice, (R,)

    @classmethod
    def nothing(cls, count: int, kept: int, device: str) -> _Found:
        scores = torch.full((count, kept), -torch.inf, device=device)
        return cls(scores, torch.zeros((count, kept), dtype=torch.int32, device=device), scores[:, 0].clone())

    def part(self, rows: slice) -> _Found:
        """Some of the vectors, in the same memory."""
        return _Found(self.scores[rows], self.rows[rows], self.rest[rows])

    def add(self, groups: Tensor, maxima: Tensor, offset: int) -> None:
        """Add the scores that are better.

        Args:
            groups: (R, G, W) scores with the other side; the one in group w and place g has the row
                `offset + g W + w`.
            maxima: (R, W) maxima of the groups.
            offset: row of the first vector of the other side.
        """
        kept = self.scores.shape[1]
        row, group = self._better_groups(maxima, kept)
        opened = groups[row, :, group].float()
        entry, place = (opened > self.rest[row, None]).nonzero(as_tuple=True)
        if not len(entry):
            return
        number_of_groups = maxima.shape[1]
        others = offset + place * number_of_groups + group[entry]
        new_scores, new_rows = _packed(row[entry], opened[entry, place], others, len(maxima))
        best = torch.cat([self.scores, new_scores], dim=1).topk(kept, dim=1)
        self.rows.copy_(torch.cat([self.rows, new_rows], dim=1).gather(1, best.indices))
        self.scores.copy_(best.values)
        torch.maximum(self.rest, self.scores[:, -1], out=self.rest)

    def _better_groups(self, maxima: Tensor, kept: int) -> tuple[Tensor, Tensor]:
        """Row and group of every maximum above the row's `rest`."""
        is_better = maxima > self.rest[:, None]
        # If `kept` groups are better, everything below the last of them may be forgotten.
        crowded = (is_better.sum(1) >= kept).nonzero()[:, 0]
        if len(crowded):
            self.rest[crowded] = maxima[crowded].topk(kept, dim=1).values[:, -1].float()
            is_better[crowded] = maxima[crowded] > self.rest[crowded, None]
        return is_better.nonzero(as_tuple=True)


def _packed(row: Tensor, scores: Tensor, others: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """(count, most of a row) scores and rows of the others, filled from the left; `row` is sorted."""
    per_row = torch.bincount(row, minlength=count)
    first_of_row = per_row.cumsum(0) - per_row
    place_in_row = torch.arange(len(row), device=row.device) - first_of_row[row]
    shape = (count, int(per_row.max()))
    packed_scores = torch.full(shape, -torch.inf, device=row.device)
    packed_others = torch.zeros(shape, dtype=torch.int32, device=row.device)
    packed_scores[row, place_in_row] = scores
    packed_others[row, place_in_row] = others.to(torch.int32)
    return packed_scores, packed_others


def _add(scores: Tensor, forward: _Found, backward: _Found | None, start: tuple[int, int]) -> None:
    """Add a block of scores to both sides."""
    count, width = scores.shape
    first_row, first_column = start
    spare = -width % _GROUP, -count % _GROUP
    if any(spare):
        scores = torch.nn.functional.pad(scores, (0, spare[0], 0, spare[1]), value=-torch.inf)
    by_columns = scores.unflatten(1, (_GROUP, -1))
    forward.add(by_columns[:count], by_columns.amax(1)[:count], first_column)
    if backward is not None:
        by_rows = scores.unflatten(0, (_GROUP, -1))
        maxima = by_rows.amax(0).T.contiguous()  # far quicker than to reduce a transposed block
        backward.add(by_rows.permute(2, 0, 1)[:width], maxima[:width], first_row)


def search_blocks(
    source: Side, target: Side, k: int, size: int, dtype: torch.dtype, backward: bool = True
) -> Iterator[Neighbours]:
    """Neighbours of the source's vectors and, if `backward`, of the target's."""
    kept, device = k + _SPARE[dtype], source.device
    of_targets = _Found.nothing(len(target), kept, device) if backward else None  # grows over all rows of blocks
    decided, lost = [], [0.0, 0.0]
    for rows in slices(len(source), size):
        queries, source_lost = source.block(rows, dtype)
        of_sources = _Found.nothing(rows.stop - rows.start, kept, device)
        for columns in slices(len(target), size):
            candidates, target_lost = target.block(columns, dtype)
            lost = np.maximum(lost, (source_lost, target_lost))
            scores = _scores(queries, candidates, device)
            _add(scores, of_sources, of_targets.part(columns) if backward else None, (rows.start, columns.start))
        decided.append(_decided(of_sources, rows, source, target, k, size, sum(lost), dtype))
    yield joined(decided)
    if backward:
        decided = []
        for rows in slices(len(target), size):
            decided.append(_decided(of_targets.part(rows), rows, target, source, k, size, sum(lost), dtype))
        yield joined(decided)


def _decided(
    found: _Found, rows: slice, side: Side, other: Side, k: int, size: int, lost: float, dtype: torch.dtype
) -> Neighbours:
    """The k best for a block's vectors by float64; if these may not be among those kept, all are searched again."""
    rough = found.scores.cpu().double().numpy()
    places = found.rows.cpu().numpy().astype(np.int64)
    rest = found.rest.cpu().double().numpy()
    # How far a score of the pass may be from float64: by the kernel, the rounding of the vectors, and its own rounding.
    scale = side.longest * other.longest
    rounding = 2.0**-8 if dtype is torch.bfloat16 else 2.0**-22
    error = (CLOSE + lost) * scale + rounding * np.abs(rough[:, k - 1])
    if torch.get_float32_matmul_precision() != "highest":  # float32 products may be of TF32 or bfloat16 numbers
        error += 2.0**-7 * scale
    with np.errstate(invalid="ignore"):
        wanted = rough >= (rough[:, k - 1] - 2 * error)[:, None]  # either of the two may be off
    wanted &= np.isfinite(rough)
    exact = np.full(rough.shape, -np.inf)
    row, place = np.nonzero(wanted)
    exact[wanted] = _exact_scores(side, rows.start + row, other, places[row, place])
    found_rows, scores = best_first(places, exact, k, TIE[side.method])
    # `rest` bounds the scores of all that was not kept.
    unsure = np.flatnonzero(~(scores[:, -1] > rest + error + TIE[side.method]) & (rest > -np.inf))
    if len(unsure):
        found_rows[unsure], scores[unsure] = _again(side, rows.start + unsure, other, k, size, dtype)
    return Neighbours(found_rows, scores)


def _exact_scores(side: Side, row: np.ndarray, other: Side, other_row: np.ndarray) -> np.ndarray:
    """(P,) float64 scores of pairs of rows, sorted by `row`."""
    exact = np.empty(len(row))
    are_loaded = side.loaded is not None and other.loaded is not None
    for pairs in slices(len(row), _PAIRS_ON_GPU if are_loaded else _PAIRS):  # their vectors are in memory at once
        if are_loaded:
            x, y = side.loaded[torch.from_numpy(row[pairs])], other.loaded[torch.from_numpy(other_row[pairs])]
            exact[pairs] = (x.double() * y.double()).sum(1).cpu().numpy()
        else:
            rows, place = np.unique(row[pairs], return_inverse=True)
            other_rows, other_place = np.unique(other_row[pairs], return_inverse=True)
            vectors = zip(side.rows(rows), other.rows(other_rows))
            exact[pairs] = sum(exact_scores(x, y, place, other_place) for x, y in vectors)
    return exact


def _again(side: Side, rows: np.ndarray, other: Side, k: int, size: int, dtype: torch.dtype) -> Neighbours:
    """Neighbours of single vectors, searched again more exactly: bfloat16 in float32, float32 in float64."""
    if dtype is torch.bfloat16:
        some = copy(side)  # `longest` stays a bound; no further check
        some.parts = [part[rows] for part in side.parts]
        some.loaded = None if side.loaded is None else side.loaded[torch.from_numpy(rows)]
        return next(search_blocks(some, other, k, size, torch.float32, backward=False))
    queries = side.rows(rows)
    best = Neighbours(np.empty((len(rows), 0), np.int64), np.empty((len(rows), 0)))
    for columns in slices(len(other), size):
        scores = 0.0
        for x, y in zip(queries, other.rows(columns)):
            scores += as_array(x.astype(np.float64) @ y.astype(np.float64).T)
        new_rows = np.broadcast_to(np.arange(columns.start, columns.stop), scores.shape)
        both = np.hstack([best.rows, new_rows]), np.hstack([best.scores, scores])
        best = Neighbours(*best_first(*both, k, TIE[side.method]))
    return best


def _block_size(sides: tuple[Side, Side], kept: int, memory: int, device: str) -> int:
    """Rows and columns of the largest block that the memory holds."""
    count, width, filled = sum(map(len, sides)), 0, []
    largest, pairs = (_LARGEST_ON_GPU, _PAIRS_ON_GPU) if device.startswith("cuda") else (_LARGEST, _PAIRS)
    for part in sides[0].parts:
        width += 0 if issparse(part) else part.shape[1]
    for part in (*sides[0].parts, *sides[1].parts):
        if issparse(part):
            filled.append(part.nnz / part.shape[0])
    lasting = 8 * kept * len(sides[1]) + 16 * kept * count  # what is kept for the target, and what is returned

    def need(size: int) -> int:
        opened = size * kept * (_GROUP * 4 + 60)  # groups that the first block opens, and arrays made of them
        vectors = size * (2 * 14 * width + 40 * sum(filled)) + 2 * pairs * width * 8
        return int(lasting + 6 * size * size + opened + vectors + (24 * size * size if filled else 0))

    size = largest
    while size > _SMALLEST and need(size) > memory:
        size //= 2
    if need(size) > memory:
        least = -(-need(size) // 2**20)
        raise ValueError(f"memory={memory} bytes cannot hold a block of {count} vectors; give {least}MiB or more.")
    return size
