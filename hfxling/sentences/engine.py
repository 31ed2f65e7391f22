"""Pairs of translations from two sets of sentence vectors, by margin (Artetxe and Schwenk 2019)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Literal, NamedTuple, get_args

import numpy as np
from scipy.sparse import csr_array, issparse

from .neighbours import Neighbours, Vectors, best_first, exact_scores, one_or_all, parts_of, slices

Margin = Literal["ratio", "distance", "absolute"]
MARGINS = get_args(Margin)
Choice = Literal["mutual", "forward", "backward", "max"]  # which pairs are taken, see `mine_vectors`
SELECTIONS = get_args(Choice)
Reader = Callable[[np.ndarray], Sequence[Vectors]]
CANDIDATES = 32  # found with few weights of sparse vectors, then scored with all weights
_TIE = 1e-7  # of margins
_CHUNK = 4096  # source rows rescored at once


class Mined(NamedTuple):
    """Pairs, best first; of equal ones those with lower rows first."""

    source: np.ndarray  # (P,) int64 rows
    target: np.ndarray  # (P,) int64 rows
    score: np.ndarray  # (P,) float64 margins

    def at(self, rows) -> Mined:
        """Only the pairs in these rows."""
        return Mined(self.source[rows], self.target[rows], self.score[rows])


def mine_vectors(
    source: Vectors | Sequence[Vectors],
    target: Vectors | Sequence[Vectors],
    k: int = 4,
    margin: str = "ratio",
    memory: int | str = "4GiB",
    device: str | None = None,
    *,
    selection: str = "mutual",
    dtype: str = "float32",
    terms: int | None = None,
) -> Mined:
    """Pairs of rows that are likely translations of each other.

    Example:
        >>> pairs = hfxling.sentences.mine_vectors(np.load("zh.npy", "r"), np.load("vi.npy", "r"))
        >>> good = pairs.score >= 1.1

    Args:
        source: (N, D) array, also memory-mapped, compared by cosine; or a scipy matrix, or several matrices of the same
            texts, compared by inner product (see `both_ways`).
        target: (M, D) vectors of the same kind.
        k: number of neighbours that a score is compared with, on either side; 4 as in the paper.
        margin: how the score s of a pair is compared with m, the mean of both sides' mean scores with their k nearest:
            "ratio" s / m, "distance" s - m (half of CSLS), "absolute" s.
        memory: memory to use beside the vectors, in bytes or such as "4GiB"; on a GPU, GPU memory.
        device: device for dense products; by default a GPU if there is one.
        selection: "forward" takes every source's best of its k nearest, "backward" every target's, "mutual" the pairs
            that both take, "max" goes through those that either takes, best first, and uses no sentence twice.
        dtype: number format of dense products, "float32" or "bfloat16"; it changes the time, not the pairs.
        terms: number of weights of sparse vectors (see `strongest`) by which 32 candidates of each row are found, which
            are then scored with all weights. This is much quicker and changes hardly a pair.

    Raises:
        ValueError: another margin or selection; a ratio to a mean score that is not positive; and as `both_ways`.
    """
    check_choices(margin, selection)
    from .blocks import both_ways  # torch with it

    options = {"memory": memory, "device": device, "dtype": dtype}
    if terms is None:
        return select(*both_ways(source, target, k, **options), margin, selection)
    sides = parts_of(source), parts_of(target)
    few = strongest(*sides, terms)
    kept = max(k, min(CANDIDATES, sides[0][0].shape[0], sides[1][0].shape[0]))
    candidates = both_ways(one_or_all(few[0]), one_or_all(few[1]), kept, **options)
    forward, backward = rescored([candidates], partial(rows_of, sides[0]), partial(rows_of, sides[1]), k)
    return select(forward, backward, margin, selection)


def rows_of(parts: Sequence[Vectors], rows: np.ndarray) -> list[Vectors]:
    """Some rows of every part."""
    return [part[rows] for part in parts]


def check_choices(margin: str, selection: str = "mutual") -> None:
    """Raise ValueError for an unknown margin or selection."""
    for name, value, known in (("margin", margin, MARGINS), ("selection", selection, SELECTIONS)):
        if value not in known:
            raise ValueError(f"{name}={value!r} is not one of {', '.join(known)}.")


def select(forward: Neighbours, backward: Neighbours, margin: str = "ratio", selection: str = "mutual") -> Mined:
    """The pairs from both sides' neighbours; arguments and errors as for `mine_vectors`."""
    check_choices(margin, selection)
    (targets, target_margins), (sources, source_margins) = _best_both_ways(forward, backward, margin)
    of_sources = Mined(np.arange(len(targets)), targets, target_margins)
    of_targets = Mined(sources, np.arange(len(sources)), source_margins)
    if selection == "forward":
        return _ordered(*of_sources)
    if selection == "backward":
        return _ordered(*of_targets)
    if selection == "mutual":
        is_mutual = sources[targets] == of_sources.source
        return _ordered(*of_sources.at(is_mutual))
    both = [np.concatenate(columns) for columns in zip(of_sources, of_targets)]
    return _greedy(_ordered(*both), len(targets), len(sources))


def _best_both_ways(forward: Neighbours, backward: Neighbours, margin: str) -> list[tuple[np.ndarray, np.ndarray]]:
    """For each side (N,) the best row of the other side for each of its rows, and its margin."""
    source_means, target_means = forward.scores.mean(axis=1), backward.scores.mean(axis=1)
    best = []
    for side, own, others in ((forward, source_means, target_means), (backward, target_means, source_means)):
        margins = _margin(side.scores, own[:, None], others[side.rows], margin)
        rows, margins = best_first(side.rows, margins, 1, _TIE)
        best.append((rows[:, 0], margins[:, 0]))
    return best


def by_length(pairs: Mined, source: np.ndarray, target: np.ndarray) -> Mined:
    """The pairs with margins of per-word scores made comparable between short and long sentences.

    A score of links is a mean over words, and few words agree by chance more often than many: the mean of n scores
    deviates by 1 / sqrt(n) of what one score does, so a margin is multiplied by sqrt(n). A higher power is better if
    only long sentences have translations, and worse if short ones have them, too (benchmarks/mining_lengths.py).

    Args:
        pairs: pairs with margins "distance" or "absolute".
        source: (N,) lengths of all source sentences, in words.
        target: (M,) lengths of all target sentences.
    """
    weights = length_weights(source[pairs.source], target[pairs.target])
    return _ordered(pairs.source, pairs.target, pairs.score * weights)


def best_partners(forward: Neighbours, backward: Neighbours, margin: str) -> list[np.ndarray]:
    """(N,) and (M,) the best row of the other side for every row, by margin."""
    return [rows for rows, _ in _best_both_ways(forward, backward, margin)]


def length_weights(source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """(P,) what `by_length` multiplies a pair's margin by: sqrt(n), n the geometric mean of both sides' words."""
    words = np.sqrt(np.maximum(source, 1) * np.maximum(target, 1))
    return np.sqrt(words)


def strongest(source: list[Vectors], target: list[Vectors], terms: int) -> tuple[list[Vectors], list[Vectors]]:
    """The parts, sparse ones with only the `terms` weights a row that add most to the inner products.

    A weight counts as much as its product with the root mean square of the other side's weights in that dimension. The
    largest weights themselves belong to rare segments, which hardly any text of the other side contains: they would
    keep next to nothing of the scores.

    Args:
        source: parts of one side's vectors, whose inner products add up.
        target: the same for the other side.
        terms: number of weights.
    """
    if terms < 1 or not any(map(issparse, source)):
        raise ValueError(f"terms={terms}: give 1 or more, and sparse vectors, as terms counts their weights.")
    kept: tuple[list, list] = ([], [])
    for x, y in zip(source, target):
        if issparse(x) and issparse(y):
            spread_x, spread_y = _spread(x), _spread(y)
            x, y = _kept(csr_array(x), spread_y, terms), _kept(csr_array(y), spread_x, terms)
        kept[0].append(x)
        kept[1].append(y)
    return kept


def _spread(x: csr_array) -> np.ndarray:
    """(D,) root mean square of the weights in each dimension."""
    squares = np.bincount(x.indices, np.square(x.data, dtype=np.float64), minlength=x.shape[1])
    return np.sqrt(squares / x.shape[0])


def _kept(x: csr_array, other_spread: np.ndarray, terms: int) -> csr_array:
    """Only the `terms` weights of each row whose products with the other side's spread are largest."""
    places = []
    for start, end in pairwise(x.indptr.tolist()):
        row_places = np.arange(start, end)
        if end - start > terms:
            size = np.abs(x.data[start:end]) * other_spread[x.indices[start:end]]
            row_places = start + np.sort(np.argpartition(size, -terms)[-terms:])
        places.append(row_places)
    ends = np.concatenate([[0], np.cumsum([*map(len, places)])]).astype(x.indptr.dtype)
    kept = np.concatenate(places)
    return csr_array((x.data[kept], x.indices[kept], ends), shape=x.shape)


def rescored(
    candidates: Sequence[tuple[Neighbours, Neighbours]], source: Reader, target: Reader, k: int
) -> tuple[Neighbours, Neighbours]:
    """The k best, by the inner products of one kind of vectors, among neighbours found with other vectors.

    This is for scores that would take too long for all pairs, such as sparse and fused ones.

    Args:
        candidates: what `both_ways` found with each kind of vectors that proposes pairs.
        source: function from rows to the parts of their vectors, whose inner products add up; called chunk by chunk.
        target: the same for the other side.
        k: number of neighbours; at most the candidates' own k.
    """
    sources, targets = len(candidates[0][0].rows), len(candidates[0][1].rows)
    codes = []  # source row * targets + target row of each pair, so that a pair found twice is scored once
    for forward, backward in candidates:
        codes.append((np.arange(sources)[:, None] * targets + forward.rows).ravel())
        codes.append((backward.rows * targets + np.arange(targets)[:, None]).ravel())
    row, column = np.divmod(np.unique(np.concatenate(codes)), targets)  # sorted by row, as the chunks need them
    scores = np.empty(len(row))
    for start, end in pairwise(np.searchsorted(row, np.arange(0, sources + _CHUNK, _CHUNK))):
        part = slice(start, end)
        if start < end:
            scores[part] = _scores(source, target, row[part], column[part])
    by_column = np.argsort(column, kind="stable")
    forward = best_of_rows(row, column, scores, sources, k)
    return forward, best_of_rows(column[by_column], row[by_column], scores[by_column], targets, k)


def paired_margins(
    source: Reader,
    target: Reader,
    rows: tuple[np.ndarray, np.ndarray],
    forward: Neighbours,
    backward: Neighbours,
    margin: str = "ratio",
) -> np.ndarray:
    """(P,) margins of existing pairs: those that `select` gives to the pairs that it finds.

    Args:
        source: as for `rescored`; dense vectors that are compared by cosine have unit length.
        target: the same for the other side.
        rows: (P,) source rows and (P,) target rows of the pairs.
        forward: what `both_ways` found for the source, whether the pairs are among it or not.
        backward: the same for the target.
        margin: one of `MARGINS`.
    """
    check_choices(margin)
    scores = np.empty(len(rows[0]))
    for part in slices(len(scores), _CHUNK):
        scores[part] = _scores(source, target, rows[0][part], rows[1][part])
    own = forward.scores.mean(axis=1)[rows[0]]
    others = backward.scores.mean(axis=1)[rows[1]]
    return _margin(scores, own, others, margin)


def _scores(source: Reader, target: Reader, row: np.ndarray, column: np.ndarray) -> np.ndarray:
    """(P,) scores of pairs of rows; every vector is read once."""
    sides = []
    for reader, rows in ((source, row), (target, column)):
        distinct, places = np.unique(rows, return_inverse=True)
        sides.append((reader(distinct), places))
    (source_parts, i), (target_parts, j) = sides
    return sum(exact_scores(x, y, i, j) for x, y in zip(source_parts, target_parts))


def best_of_rows(row: np.ndarray, column: np.ndarray, scores: np.ndarray, count: int, k: int) -> Neighbours:
    """The k best of each row; `row` is sorted.

    Rows with about the same number of pairs, to a factor of two, are sorted together, so that a row that nearly all
    others name does not make all rows as wide as itself.
    """
    sizes = np.bincount(row, minlength=count)
    starts = sizes.cumsum() - sizes
    width = min(k, int(sizes.max()))
    best_columns, best_scores = np.zeros((count, width), np.int64), np.full((count, width), -np.inf)
    _, doublings = np.frexp(sizes - 1)  # 0 for one pair, 1 for two, 2 for three and four, 3 for five to eight, ...
    for doubling in np.unique(doublings[sizes > 0]):
        rows = np.flatnonzero((doublings == doubling) & (sizes > 0))
        number = np.arange(sizes[rows].max())
        is_pair = number < sizes[rows, None]
        pairs = np.where(is_pair, starts[rows, None] + number, 0)
        found_scores = np.where(is_pair, scores[pairs], -np.inf)
        found_columns = np.where(is_pair, column[pairs], 0)
        found_columns, found_scores = best_first(found_columns, found_scores, k, _TIE)
        best_columns[rows, : found_columns.shape[1]] = found_columns
        best_scores[rows, : found_scores.shape[1]] = found_scores
    return Neighbours(best_columns, best_scores)


def _margin(scores: np.ndarray, own: np.ndarray, others: np.ndarray, margin: str) -> np.ndarray:
    if margin == "absolute":
        return scores
    means = (own + others) / 2
    if margin == "distance":
        return scores - means
    if not (means > 0).all():
        raise ValueError("margin='ratio': some mean scores are not positive; take 'distance' for such vectors.")
    return scores / means


def _ordered(source: np.ndarray, target: np.ndarray, score: np.ndarray) -> Mined:
    order = np.lexsort((target, source, -score))
    return Mined(source[order], target[order], score[order])


def _greedy(pairs: Mined, sources: int, targets: int) -> Mined:
    """The pairs of which neither side is in a better pair."""
    is_source_used, is_target_used = np.zeros(sources, bool), np.zeros(targets, bool)
    kept = []
    for place, (source, target) in enumerate(zip(pairs.source.tolist(), pairs.target.tolist())):
        if not (is_source_used[source] or is_target_used[target]):
            is_source_used[source] = is_target_used[target] = True
            kept.append(place)
    return pairs.at(kept)
