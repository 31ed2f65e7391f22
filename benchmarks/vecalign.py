"""Vecalign's algorithm, from its paper (Thompson and Koehn 2019, Vecalign: improved sentence alignment in linear time
and space), with the rows of our dynamic programme.

A bead costs (1 - cos) times the product of its numbers of sentences, divided by the mean of 1 - cos of both sides with
random texts of the other one; a sentence without a translation costs a quantile of what random pairs of sentences cost.
Least cost is the largest sum of what beads save over leaving their sentences without a translation.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from hfxling.sentences import beads as engine

TOGETHER = 4  # most sentences of a bead, both sides together
QUANTILE = 0.05  # of random costs: the deletion penalty
SAMPLES = 100  # random texts
BUFFER = 10  # rows and columns around the path of the halved documents
WHOLE = 300  # sentences a side up to which documents are not halved


def vecalign(source: engine.Encode, target: engine.Encode, rows: range, columns: range) -> list[tuple[range, range]]:
    """Beads of two documents, in order.

    Args:
        source: vectors of joined sentences by first and last, as for `hfxling.sentences.beads`.
        target: the same of the target text.
        rows: sentences of the source document.
        columns: of the target document.
    """
    most = TOGETHER - 1
    sides = []
    for encode, document in ((source, rows), (target, columns)):
        sizes = range(1, min(most, len(document)) + 1)
        spans = [[(i, i + size) for i in document[: len(document) - size + 1]] for size in sizes]
        sides.append([unit(encode(x)) for x in spans])
    return [(rows[i:k], columns[j:m]) for (i, j), (k, m), _ in best_beads(*sides)]


def unit(x: np.ndarray) -> np.ndarray:
    return x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12)


def best_beads(source: list[np.ndarray], target: list[np.ndarray]) -> list[tuple]:
    """Beads of documents, of which there are the vectors of one sentence, of two, ...; see `engine.best_bead_path`."""
    sizes = len(source[0]), len(target[0])
    low, high = np.zeros(sizes[0] + 1, int), np.full(sizes[0] + 1, sizes[1])
    if max(sizes) > WHOLE and min(sizes) > 1:
        coarse = best_beads(*([halved(side[0])] for side in (source, target)))
        low, high = around([(0, 0), *(end for _, end, _ in coarse)], sizes)
    rng = np.random.default_rng(0)
    drawn = [random_texts(side, rng) for side in (source, target)]
    spread = [[(1 - x @ other.T).mean(1) for x in side] for side, other in zip((source, target), drawn[::-1])]
    pairs = [rng.integers(size, size=1000) for size in sizes]
    costs = 1 - np.einsum("ij,ij->i", source[0][pairs[0]], target[0][pairs[1]])
    penalty = np.quantile(2 * costs / (spread[0][0][pairs[0]] + spread[1][0][pairs[1]]), QUANTILE)
    return engine.best_bead_path(savings(source, target, spread, penalty, low, high), low, high)


def halved(x: np.ndarray) -> np.ndarray:
    """Means of neighbours by twos."""
    return unit(np.stack([x[i : i + 2].mean(0) for i in range(0, len(x), 2)]))


def random_texts(side: Sequence[np.ndarray], rng: np.random.Generator) -> np.ndarray:
    """Vectors of random texts of one or more sentences, as many of each."""
    return np.concatenate([x[rng.integers(len(x), size=SAMPLES // len(side))] for x in side])


def around(path: Sequence[tuple[int, int]], sizes: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """First and last column of every row within the buffer of a path of halved documents."""
    first, last = np.full(sizes[0] + 1, sizes[1]), np.zeros(sizes[0] + 1, int)
    for start, end in pairwise(path):
        (i, j), (k, m) = (np.minimum(np.multiply(point, 2), sizes) for point in (start, end))
        first[i : k + 1], last[i : k + 1] = np.minimum(first[i : k + 1], j), np.maximum(last[i : k + 1], m)
    at = np.arange(sizes[0] + 1)
    low = np.maximum(first[np.maximum(at - BUFFER, 0)] - BUFFER, 0)
    return low, np.minimum(last[np.minimum(at + BUFFER, sizes[0])] + BUFFER, sizes[1])


def savings(source, target, spread, penalty: float, low: np.ndarray, high: np.ndarray):
    """Of every row (A, B, W): what beads save that end there and in the columns from `low` to `high`."""
    joined = max(len(source), len(target))
    for i in range(1, len(low)):
        found = np.full((joined, joined, high[i] + 1 - low[i]), -np.inf)
        for a in range(1, min(len(source), i) + 1):
            for b in range(1, min(len(target), TOGETHER - a if joined > 1 else 1) + 1):
                start = max(low[i], b)
                texts = slice(start - b, high[i] + 1 - b)
                cost = 2 * a * b * (1 - target[b - 1][texts] @ source[a - 1][i - a])
                cost /= spread[0][a - 1][i - a] + spread[1][b - 1][texts]
                found[a - 1, b - 1, start - low[i] :] = (a + b) * penalty - cost
        yield found
