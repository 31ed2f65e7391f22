"""Word links from soft alignments, on the user's own words or on the model's segments.

Matrices are padded batches: (B, S, T) for B sentence pairs, at most S source and T target units, weights of zero at
padding.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Literal, get_args

import numpy as np

MEAN = "mean"
PROBABILITY = "probability"
SIMILARITIES = ("argmax", "itermax", "softmax")
# What links are between: words set apart by white space, the vocabularies' own segments, or characters.
Units = Literal["words", "segments", "characters"]
Layer = int | Literal["agreement"]  # layer of an encoder: given, or chosen by agreement of the links
UNITS = get_args(Units)
Method = Literal[  # how links are decided, see `decode`
    "probability",
    "mean",
    "intersection",
    "union",
    "grow-diag-final-and",
    "forward",
    "backward",
    "argmax",
    "itermax",
    "softmax",
]
METHODS = get_args(Method)
TEMPERATURE, THRESHOLD = 0.05, 0.1  # of an encoder's attention; both directions above the threshold make a link
HALF_FREE = 0.9  # IterMax: weight of a pair with one aligned unit
_NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


@dataclass(frozen=True)
class SoftAlignment:
    """A batch of sentence pairs' soft alignments."""

    forward: np.ndarray  # (B, S, T), for every target unit the weights of the source units: columns sum to 1
    backward: np.ndarray  # (B, S, T), for every source unit the weights of the target units: rows sum to 1
    similarity: np.ndarray  # (B, S, T) cosines of the units' contextual vectors, -1 for a unit without segments
    sizes: np.ndarray  # (B, 2) source and target units of each pair


def directed_links(soft: SoftAlignment) -> tuple[np.ndarray, np.ndarray]:
    """The best source unit of every target unit, and vice versa: two (B, S, T) bool arrays, forward and backward.

    A unit whose best partner has weight 0 stays without a link.
    """
    forward = _is_largest(soft.forward, 1) & (soft.forward > 0)
    return forward, _is_largest(soft.backward, 2) & (soft.backward > 0)


def agreement(pairs: Iterable[SoftAlignment]) -> float:
    """How far both directions agree, 0..1: number of mutual best partners, divided by the mean of both directions.

    It needs no gold links: of two aligners of one text, the one that agrees more with itself is the surer one.
    """
    both = single = 0
    for soft in pairs:
        if not soft.sizes.all():
            continue
        forward, backward = directed_links(soft)
        both += int((forward & backward).sum())
        single += int(forward.sum() + backward.sum())
    return 2 * both / max(1, single)


def symmetrize(forward: np.ndarray, backward: np.ndarray, method: str = "grow-diag-final-and") -> np.ndarray:
    """One set of links from two directions, all (B, S, T) bool (Och & Ney 2003; Koehn et al. 2003).

    In "grow-diag-final-and" the intersection grows by neighbouring links of the union (horizontally, vertically and
    diagonally) that reach a unit without a link, then by links of either direction whose two units both have none.
    """
    if method == "grow-diag-final-and":
        return np.stack([_grown(f, b) for f, b in zip(forward, backward)])
    simple = {"intersection": forward & backward, "union": forward | backward, "forward": forward, "backward": backward}
    return simple[method]


def argmax_links(similarity: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """(B, S, T) bool links between units that are most similar to each other ("ArgMax" of SimAlign).

    Arguments as in `SoftAlignment`.
    """
    similarity = np.where(is_real(similarity.shape, sizes), similarity, -np.inf)
    return _is_largest(similarity, 1) & _is_largest(similarity, 2) & (similarity > -1)


def itermax_links(similarity: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """(B, S, T) bool links by mutual argmax, repeated for unaligned units (Jalili Sabet et al. 2020, "IterMax").

    In the second round, pairs of two aligned units are out, and the similarity of an aligned and an unaligned unit,
    scaled to 0..1, is multiplied by `HALF_FREE`. Sentence pairs with at most two units on a side have one round, as in
    the authors' code; so do those in which all units of a side are aligned. Arguments as in `SoftAlignment`.
    """
    real = is_real(similarity.shape, sizes)
    links = argmax_links(similarity, sizes)
    free_source, free_target = ~links.any(2, keepdims=True), ~links.any(1, keepdims=True)
    is_open = (free_source | free_target) & real
    has_free = (free_source & real).any((1, 2)) & (free_target & real).any((1, 2))
    has_second_round = (has_free & (sizes.min(1) > 2))[:, None, None]
    discount = np.where(free_source & free_target, 1.0, HALF_FREE)
    # Pairs that are out score 0 and padding less, so that neither is the largest if another can be.
    scores = np.where(real, np.where(is_open, (similarity + 1) / 2 * discount, 0.0), -np.inf)
    return links | (_is_largest(scores, 1) & _is_largest(scores, 2) & (scores > 0) & is_open & has_second_round)


def softmax_links(similarity: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """(B, S, T) bool links whose attention is above a threshold in both directions (Dou & Neubig 2021, awesome-align).

    The authors compare pieces by inner products, with the threshold 0.001; here units are compared by cosines with
    `TEMPERATURE` and `THRESHOLD`. Arguments as in `SoftAlignment`.
    """
    forward, backward = attention(similarity, sizes, TEMPERATURE)
    return (forward > THRESHOLD) & (backward > THRESHOLD)


def attention(similarity: np.ndarray, sizes: np.ndarray, temperature: float) -> tuple[np.ndarray, np.ndarray]:
    """An encoder's similarities as attention: (B, S, T) softmax over source units, and over target units.

    softmax_s(similarity[s, t] / temperature) and softmax_t(similarity[s, t] / temperature), zero at padding.
    Arguments as in `SoftAlignment`.
    """
    real = is_real(similarity.shape, sizes)
    scores = np.where(real, similarity / temperature, -np.inf)
    directions = []
    for axis in (1, 2):
        highest = scores.max(axis, keepdims=True)
        highest = np.where(np.isfinite(highest), highest, 0)  # for padding it is -inf, and -inf minus itself is NaN
        weights = np.exp(scores - highest)
        directions.append(weights / np.maximum(weights.sum(axis, keepdims=True), 1e-30))
    return directions[0], directions[1]


def decode(soft: SoftAlignment, method: str = "grow-diag-final-and") -> np.ndarray:
    """(B, S, T) bool links by one of `METHODS`, except "probability", which is in `probability.py`.

    The others are symmetrizations of both attentions, "mean" (links with weights above 1/2 on average over both
    directions), and methods that use similarity alone.
    """
    if method in SIMILARITIES:
        pick = {"argmax": argmax_links, "itermax": itermax_links, "softmax": softmax_links}[method]
        return pick(soft.similarity, soft.sizes)
    if method == MEAN:
        return (soft.forward + soft.backward) / 2 > 0.5
    return symmetrize(*directed_links(soft), method)


def _is_largest(matrix: np.ndarray, axis: int) -> np.ndarray:
    """Mask of the first largest entry along an axis."""
    mask = np.zeros(matrix.shape, bool)
    np.put_along_axis(mask, matrix.argmax(axis, keepdims=True), True, axis)
    return mask


def is_real(shape: tuple[int, ...], sizes: np.ndarray) -> np.ndarray:
    """(B, S, T) mask of what is not padding."""
    rows, columns = np.arange(shape[1]), np.arange(shape[2])
    return (rows < sizes[:, :1])[:, :, None] & (columns < sizes[:, 1:])[:, None]


def _grown(forward: np.ndarray, backward: np.ndarray) -> np.ndarray:
    """grow-diag-final-and of one pair, in the order of the original's loops, on the few places with a link."""
    candidates = set(zip(*np.nonzero(forward ^ backward)))
    links = forward & backward
    has_source, has_target = links.any(1), links.any(0)
    has_grown = True
    while has_grown:
        has_grown = False
        places = list(zip(*np.nonzero(links)))  # in order, as they are in a heap
        while places:
            i, j = heappop(places)
            for down, right in _NEIGHBOURS:
                k, m = i + down, j + right
                if (k, m) in candidates and not (has_source[k] and has_target[m]):
                    candidates.remove((k, m))
                    links[k, m] = has_source[k] = has_target[m] = has_grown = True
                    if (k, m) > (i, j):  # an earlier one has its turn in the next round
                        heappush(places, (k, m))
    for direction in (forward, backward):
        for i, j in zip(*np.nonzero(direction)):
            if not (has_source[i] or has_target[j]):
                links[i, j] = has_source[i] = has_target[j] = True
    return links
