"""Which sentences of two documents translate each other: monotone alignment of one or several with one or several.

A bead joins up to `max_joined` neighbouring sentences of each side. It adds its score minus chance, times the mean
number of its sentences to the power of JOINING. Chance is the QUANTILE of the scores of a side with random texts of as
many sentences as the other side has, averaged over both sides (joined texts score differently from single ones,
whatever they say). A sentence without a translation adds nothing. Dynamic programming finds the beads with the largest
sum; in long documents, within a band around the path of a coarse alignment of blocks of sentences. QUANTILE and JOINING
were chosen on the documents of NTREX lines 1 to 1543 (docs/documents.md).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, pairwise
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy.optimize import linear_sum_assignment
from scipy.sparse import csr_array, issparse, vstack

from .neighbours import Vectors, as_array, unit_or_zero

MAX_JOINED = 4
# For each kind of score: the quantile that is chance, and the power of a bead's number of sentences.
QUANTILE, JOINING = {"cosine": 0.6, "dot": 0.8}, {"cosine": 0.1, "dot": 0.2}
SAMPLE = 100  # random texts of each number of sentences
WHOLE = 1_000_000  # pairs of sentences, or blocks, up to which all are compared
BLOCK = 16  # sentences of the smallest blocks of the coarse alignment
SLACK = 2  # blocks by which the band is wider than the path, on either side
ENCODED, SCORED = 128, 64  # sentences that are encoded at once, and scored at once

Spans = Sequence[tuple[int, int]]  # first sentence and the one after the last
Band = tuple[np.ndarray, np.ndarray]  # (N + 1,) first and last column of every row
Encode = Callable[[Spans], Vectors]  # vectors of a text's joined sentences
# Steps of a path: 0 and 1 for a sentence by itself; from 2 on beads of (1, 1), (1, 2), ... (2, 1), ... sentences.
_TARGET, _SOURCE, _BEADS = 0, 1, 2


class Bead(NamedTuple):
    """Sentences that translate each other; one side is empty if a sentence has no translation."""

    source: range
    target: range
    score: float  # what it adds; 0 if a side is empty


def align_documents(
    source: Encode,
    target: Encode,
    pairs: Sequence[tuple[range, range]],
    *,
    method: str = "cosine",
    max_joined: int = MAX_JOINED,
) -> Iterator[list[Bead]]:
    """Align documents that translate each other.

    Args:
        source: function that gives the vectors of joined sentences of the source text. It is called once for each text,
            except for random ones, and for single sentences of documents so long that they are aligned coarsely first.
        target: the same for the target text.
        pairs: sentences of each source document and of its translation.
        method: "cosine", or "dot": the inner product of the vectors as they are, which may be sparse.
        max_joined: largest number of sentences on a side of a bead.

    Yields:
        The beads of each pair, in order; every sentence is in exactly one.
    """
    texts = scored_by(source, method), scored_by(target, method)
    rng = np.random.default_rng(0)  # of the random texts that say what chance is
    drawn = []
    for side, text in enumerate(texts):
        drawn.append(vectors_of_random_texts(text, [documents[side] for documents in pairs], max_joined, rng))
    for documents in pairs:
        left, right = documents
        if not (left and right):
            yield [Bead(left[i : i + 1], right[i : i + 1], 0.0) for i in range(max(len(left), len(right)))]
            continue
        sizes = [*map(len, documents)]
        band = whole_band(*sizes)
        if sizes[0] * sizes[1] > WHOLE:
            band = _widened(_coarse_path(texts, documents, method, rng), sizes, BLOCK)
        beads = _beads(texts, documents, drawn, band, method)
        yield [Bead(documents[0][i:k], documents[1][j:m], score) for (i, j), (k, m), score in beads]


def match_documents(
    source: Encode, target: Encode, documents: tuple[Sequence[range], Sequence[range]], *, method: str = "cosine"
) -> list[tuple[int, int]]:
    """Pair documents one to one, so that the sum of their scores is largest; the longer side keeps some without a pair.

    The pairs are positions in `documents`, the sentences of each document of both sides, in the source's order; the
    other arguments are those of `align_documents`.
    """
    means = _means(scored_by(source, method), documents[0]), _means(scored_by(target, method), documents[1])
    rows, columns = linear_sum_assignment(as_array(means[0] @ means[1].T), maximize=True)
    return list(zip(rows.tolist(), columns.tolist()))


def scored_by(encode: Encode, method: str) -> Encode:
    """The same, with vectors whose inner product is the score; vectors without a direction always score 0."""
    ready = unit_or_zero if method == "cosine" else _compact
    return lambda spans: ready(encode(spans))


def _compact(x: Vectors) -> Vectors:
    """The same vectors; sparse ones with indices of 32 bits, which often have 64."""
    if issparse(x):
        x.indices, x.indptr = x.indices.astype(np.int32), x.indptr.astype(np.int32)
    return x


def _stack(parts: Sequence[Vectors]) -> Vectors:
    return vstack(parts, format="csr") if issparse(parts[0]) else np.concatenate(parts)


def vectors_of_random_texts(
    encode: Encode, documents: Sequence[range], max_joined: int, rng: np.random.Generator
) -> list[Vectors]:
    """For each number of sentences (D, S) vectors of random texts, of fewer sentences if no document has so many."""
    of_sizes = []
    for size in range(1, max_joined + 1):
        spans = []
        for document in documents:
            spans += [(i, min(i + size, document.stop)) for i in document[: max(len(document) - size + 1, 1)]]
        chosen = np.sort(rng.permutation(len(spans))[:SAMPLE])
        drawn = encode([spans[i] for i in chosen]).T if spans else None
        of_sizes.append(drawn.tocsr() if issparse(drawn) else drawn)
    return of_sizes


def _chance(vectors: Vectors, drawn: Sequence[Vectors], method: str) -> np.ndarray:
    """(N, B) scores that each vector reaches by chance with random texts of each number of sentences.

    If there is only one random text, chance is 0, as that text may be the translation.
    """
    least = []
    for random_texts in drawn:
        scores = as_array(vectors @ random_texts)
        if scores.shape[1] > 1:
            least.append(np.quantile(scores, QUANTILE[method], axis=1, method="lower"))
        else:
            least.append(0 * scores[:, 0])
    return np.stack(least, axis=1)


# The coarse alignment -----------------------------------------------------------------------------


def _means(encode: Encode, parts: Sequence[range]) -> Vectors:
    """(N, D) mean vectors of the single sentences of each part; the parts follow one another."""
    groups: list[list[range]] = [[]]  # of parts that are encoded together
    for part in parts:
        if groups[-1] and sum(map(len, groups[-1])) + len(part) > ENCODED:
            groups.append([])
        groups[-1].append(part)
    means: list[Vectors] = []
    for group in groups:
        lengths = list(map(len, group))
        weights = np.repeat(1 / np.array(lengths), lengths).astype(np.float32)
        ends = np.cumsum([0, *lengths])
        averages = _compact(csr_array((weights, np.arange(len(weights)), ends)))  # a row a part, a column a sentence
        single = [(i, i + 1) for i in chain(*group)]
        means.append(averages @ encode(single))
    return _stack(means)


def _coarse_path(
    texts: Sequence[Encode], documents: tuple[range, range], method: str, rng: np.random.Generator
) -> np.ndarray:
    """(P, 2) blocks of BLOCK sentences where the path of a coarse alignment turns, from (0, 0) on.

    Blocks are joined by twos until there are few; their alignment decides where the next smaller blocks are compared.
    """
    level = [_means(text, _cut(document, BLOCK)) for text, document in zip(texts, documents)]
    levels = [level]
    while level[0].shape[0] * level[1].shape[0] > WHOLE:
        level = [_means(_rows_of(means), _cut(range(means.shape[0]), 2)) for means in level]
        levels.append(level)
    path = None
    while levels:
        level = levels.pop()
        encodes = [scored_by(_rows_of(means), method) for means in level]
        sizes = [means.shape[0] for means in level]
        blocks = [range(size) for size in sizes]
        band = whole_band(*sizes) if path is None else _widened(path, sizes, 2)
        drawn = [vectors_of_random_texts(encode, [side], 1, rng) for encode, side in zip(encodes, blocks)]
        turns = [(0, 0)]
        for _, end, _ in _beads(encodes, blocks, drawn, band, method):
            turns.append(end)
        path = np.array(turns)
    return path


def _cut(document: range, size: int) -> list[range]:
    return [document[i : i + size] for i in range(0, len(document), size)]


def _rows_of(x: Vectors) -> Encode:
    return lambda spans: x[[i for i, _ in spans]]


def whole_band(rows: int, columns: int) -> Band:
    """First and last column of every row if all columns are in the band."""
    return np.zeros(rows + 1, np.int64), np.full(rows + 1, columns)


def _widened(path: np.ndarray, sizes: Sequence[int], block: int) -> Band:
    """(N + 1,) first and last column of every row in the band around a path of blocks."""
    points = np.minimum(path * block, sizes)
    first, last = np.full(sizes[0] + 1, sizes[1]), np.zeros(sizes[0] + 1, np.int64)
    for (i, j), (k, m) in pairwise(points):
        first[i : k + 1] = np.minimum(first[i : k + 1], j)
        last[i : k + 1] = np.maximum(last[i : k + 1], m)
    # Neither bound falls from row to row: the value `slack` rows before or after is the wider one.
    slack = SLACK * block
    rows = np.arange(sizes[0] + 1)
    low = np.maximum(first[np.maximum(rows - slack, 0)] - slack, 0)
    return low, np.minimum(last[np.minimum(rows + slack, sizes[0])] + slack, sizes[1])


# Scores and beads -----------------------------------------------------------------------------


def _beads(
    texts: Sequence[Encode], documents: Sequence[range], drawn: Sequence[list[Vectors]], band: Band, method: str
) -> list[tuple[tuple[int, int], tuple[int, int], float]]:
    """The best beads of two documents in a band of columns; see `best_bead_path`."""
    source = Window(texts[0], documents[0], drawn[1], method)
    target = Window(texts[1], documents[1], drawn[0], method)
    return best_bead_path(gains_of(source, target, *band), *band)


class Window:
    """Vectors of a document's joined sentences, and their scores by chance, for a part that moves forward.

    Args:
        encode: encodes the text.
        document: sentences of the document.
        drawn: vectors of random texts of the other side, for each number of sentences.
        method: "cosine" or "dot".
    """

    def __init__(self, encode: Encode, document: range, drawn: Sequence[Vectors], method: str):
        self.encode, self.document, self.drawn, self.method = encode, document, drawn, method
        self.max_joined = len(drawn)
        self.stop = 0  # end of the texts that are held
        self.held: deque[tuple[range, Vectors, np.ndarray]] = deque()  # portions, with the range of their texts' ends

    def move(self, start: int, stop: int) -> None:
        """Hold the `max_joined` texts that end after each number of sentences from `start` to `stop` exclusive.

        If fewer sentences come before, shorter texts take their places; no bead can end there.
        """
        while self.held and self.held[0][0].stop <= start:
            self.held.popleft()
        for end in range(max(start, self.stop), stop, ENCODED):
            self._hold(range(end, min(end + ENCODED, stop)))
        self.stop = stop

    def _hold(self, ends: range) -> None:
        first = self.document.start
        spans = []
        for end in ends:
            for size in range(1, self.max_joined + 1):
                spans.append((first + max(end - size, 0), first + max(end, 1)))
        row_of = {span: row for row, span in enumerate(dict.fromkeys(spans))}
        vectors = self.encode([*row_of])
        chance = _chance(vectors, self.drawn, self.method)
        if len(row_of) < len(spans):
            rows = [row_of[span] for span in spans]
            vectors, chance = vectors[rows], chance[rows]
        self.held.append((ends, vectors, chance.reshape(len(ends), self.max_joined, -1)))

    def read(self, start: int, stop: int) -> tuple[list[Vectors], np.ndarray]:
        """Vectors, in portions, and (N, max_joined, max_joined) chance of the texts that end from `start` to `stop`."""
        portions, levels = [], []
        for ends, vectors, chance in self.held:
            low, high = max(start, ends.start) - ends.start, min(stop, ends.stop) - ends.start
            if low < high:
                is_all = high - low == len(ends)
                portions.append(vectors if is_all else vectors[low * self.max_joined : high * self.max_joined])
                levels.append(chance[low:high])
        return portions if issparse(portions[0]) else [np.concatenate(portions)], np.concatenate(levels)


def gains_of(source: Window, target: Window, low: np.ndarray, high: np.ndarray) -> Iterator[np.ndarray]:
    """For every row from 1 on (A, B, W): what beads add that end there and in the columns from `low` to `high`."""
    sizes = np.arange(1, source.max_joined + 1)
    weights = (((sizes[:, None] + sizes) / 2) ** JOINING[source.method])[:, :, None]
    for first in range(1, len(low), ENCODED):
        end = min(first + ENCODED, len(low))
        source.move(first, end)
        for row in range(first, end, SCORED):
            stop = min(row + SCORED, end)
            left, right = int(low[row]), int(high[stop - 1]) + 1
            if target.stop < right:
                target.move(left, min(max(right, left + ENCODED), int(high[-1]) + 1))
            (x,), source_chance = source.read(row, stop)  # one portion, as the source moves by no more than ENCODED
            parts, target_chance = target.read(left, right)
            scores = np.concatenate([as_array(x @ y.T) for y in parts], axis=1)
            # From (rows x A, columns x B) to (rows, A, B, columns). Chance gets the same shape: the source's is
            # (rows, A, B), the target's (columns, B, A).
            scores = scores.reshape(stop - row, len(sizes), right - left, len(sizes)).transpose(0, 1, 3, 2)
            chance = (source_chance[..., None] + target_chance.transpose(2, 1, 0)) / 2
            gains = (scores - chance) * weights
            for i in range(row, stop):
                yield gains[i - row, :, :, low[i] - left : high[i] + 1 - left]


def best_bead_path(gains: Iterator[np.ndarray], low: np.ndarray, high: np.ndarray) -> list[tuple]:
    """Beads with the largest sum: (row, column) where each begins, (row, column) where it ends, and what it adds.

    Args:
        gains: as from `gains_of`.
        low: (N + 1,) first column of every row, 0 in the first, never falling.
        high: (N + 1,) last column, never falling, at least the next row's first.
    """
    totals = [np.zeros(high[0] + 1)]  # the best sum for every row and column
    steps: list[np.ndarray] = [np.full(high[0] + 1, _TARGET)]  # and the last step of its path
    for row, gain in enumerate(gains, 1):
        most_source, most_target, width = gain.shape
        before = _rows_before(totals, low, row, gain.shape)
        # Windows as wide as this row, from right to left: the starts of beads of 1, 2, ... target sentences.
        starts = sliding_window_view(before, width, axis=1)[:, most_target - 1 :: -1]
        sums = (starts + gain).reshape(-1, width)
        bead = sums.argmax(0)
        by_bead, from_above = sums[bead, np.arange(width)], before[0, most_target:]
        total = np.maximum(by_bead, from_above)
        reached = np.maximum.accumulate(total)  # single target sentences add nothing
        step = np.where(by_bead > from_above, bead + _BEADS, _SOURCE)
        step[reached > total] = _TARGET
        steps.append(step.astype(np.min_scalar_type(most_source * most_target + 1)))
        totals.append(reached)
    return _traced(totals, steps, low, most_target)


def _rows_before(totals: list[np.ndarray], low: np.ndarray, row: int, shape: tuple[int, int, int]) -> np.ndarray:
    """Totals of the rows 1, 2, ... before, in the columns of this row and `most_target` more to the left."""
    most_source, most_target, width = shape
    before = np.full((most_source, width + most_target), -np.inf)
    for back in range(1, min(most_source, row) + 1):
        shift = int(low[row - back] - low[row]) + most_target
        part = totals[row - back][max(-shift, 0) : width + most_target - shift]
        before[back - 1, max(shift, 0) : max(shift, 0) + len(part)] = part
    return before


def _traced(totals: list[np.ndarray], steps: list[np.ndarray], low: np.ndarray, most_target: int) -> list[tuple]:
    """The beads of the best path, from its end back to its beginning."""
    row, column = len(totals) - 1, int(low[-1]) + len(totals[-1]) - 1
    beads = []
    while row or column:
        step = int(steps[row][column - low[row]])
        if step == _TARGET:
            begin, score = (row, column - 1), 0.0
        elif step == _SOURCE:
            begin, score = (row - 1, column), 0.0
        else:
            sources, targets = divmod(step - _BEADS, most_target)
            begin = row - sources - 1, column - targets - 1
            score = totals[row][column - low[row]] - totals[begin[0]][begin[1] - low[begin[0]]]
        beads.append((begin, (row, column), float(score)))
        row, column = begin
    return beads[::-1]
