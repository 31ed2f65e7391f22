"""A threshold for a wanted precision, from known pairs that were hidden in the haystack.

Some known sources keep their targets there, the others lose theirs. What is found for the former shows how often a
sentence with a translation gets it; what is found for both, how many of the haystack's sentences have one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .engine import Mined

LEAST = 100  # known pairs
_SAMPLES = 2000  # of the bootstrap


@dataclass(frozen=True)
class Precision:
    """A threshold and what it is good for.

    Attributes:
        threshold: least margin of a pair.
        precision: share of right pairs, estimated on known pairs that did not choose the threshold; low and high are
            the ends of its 95 % bootstrap interval.
        recall: share of findable pairs that are found, on the same known pairs.
        unpaired: share of the haystack's sources without a translation there, assumed or estimated.
        known: pairs that the estimate is from.
    """

    threshold: float
    precision: float
    low: float
    high: float
    recall: float
    unpaired: float
    known: int


class Found(NamedTuple):
    """What was mined for known sources and the others; -inf is the score of nothing."""

    scores: np.ndarray  # (K,) of the known sources' pairs
    right: np.ndarray  # (K,) whether that is their target
    kept: np.ndarray  # (K,) whether their target was in the haystack
    others: np.ndarray  # (N,) scores of the haystack's own sources

    def of(self, known: np.ndarray) -> Found:
        """The same for some of the known pairs, by mask or rows."""
        return Found(self.scores[known], self.right[known], self.kept[known], self.others)


def found_pairs(pairs: Mined, kept: np.ndarray, sizes: tuple[int, int]) -> tuple[Mined, Found]:
    """The pairs of the haystack alone, and what was mined for known pairs, which stand at its ends.

    Args:
        pairs: of haystack and known sentences.
        kept: (K,) whether the known target is there, too.
        sizes: sentences of the haystack on either side, before the known ones.
    """
    scores, right = np.full(len(kept), -np.inf), np.zeros(len(kept), bool)
    is_known, places = pairs.source >= sizes[0], np.flatnonzero(kept)
    number, target = pairs.source[is_known] - sizes[0], pairs.target[is_known] - sizes[1]
    is_right = (target >= 0) & (places[np.maximum(target, 0)] == number)
    for array, values in ((scores, pairs.score[is_known]), (right, is_right)):
        array[number[::-1]] = values[::-1]  # of several pairs of a source the best one
    others = np.full(sizes[0], -np.inf)
    np.maximum.at(others, pairs.source[~is_known], pairs.score[~is_known])
    is_new = ~is_known & (pairs.target < sizes[1])
    return Mined(*(part[is_new] for part in pairs)), Found(scores, right, kept, others)


def check_wanted(precision: float, unpaired: float | None, known: int) -> None:
    """Raise the ValueError for a precision, a share or a number of known pairs from which nothing can be said."""
    for name, value in (("precision", precision), ("unpaired", unpaired)):
        if value is not None and not 0 < value < 1:
            raise ValueError(f"{name}={value} must lie between 0 and 1, e.g. {0.95 if name == 'precision' else 0.5}.")
    if known < LEAST:
        raise ValueError(
            f"{known} known pairs: fewer than {LEAST} do not say what a threshold is worth; give more, or --top or "
            "--threshold in place of a precision."
        )


def halves(known: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """(K,) masks of known pairs: those that keep their target in the haystack, and those that choose the threshold."""
    order = np.random.default_rng(seed).permutation(known)
    kept, chooses = np.zeros(known, bool), np.zeros(known, bool)
    kept[order[::2]] = True
    chooses[order[::4]] = chooses[order[1::4]] = True
    return kept, chooses


def choose_threshold(
    found: Found, *, precision: float, unpaired: float | None = None, chooses: np.ndarray | None = None, seed: int = 0
) -> Precision:
    """The least threshold at which the estimated precision is what is wanted.

    Of known sources whose target is there, let t(x) be the share that were given it with a score of at least x, h(x)
    the share that were given anything; g(x) the same of those whose target was taken out; u the share of the
    haystack's sources without a translation there. Then precision(x) = (1 - u) t / ((1 - u) h + u g). Where u is
    estimated, the share of the haystack's sources that were given anything stands below the line: far more sentences.

    Args:
        found: what was mined.
        precision: wanted, 0 to 1.
        unpaired: u; by default `unpaired_share` estimates it.
        chooses: (K,) known pairs that choose the threshold, the others saying what it is worth; by default all do both.
        seed: of the interval.

    Raises:
        ValueError: no threshold gives that precision (the best that there is is named), or u cannot be estimated.
    """
    judge = found if chooses is None else found.of(~chooses)
    chooser = found if chooses is None else found.of(chooses)
    candidates = np.unique(chooser.others[np.isfinite(chooser.others)])
    values = _precision(chooser, candidates, unpaired)
    good = np.flatnonzero(values >= precision)  # NaN is not
    if not len(good):
        best = f"best estimate: {np.nanmax(values):.3f}" if np.isfinite(values).any() else "nothing was found"
        raise ValueError(f"precision={precision}: no threshold gives it ({best}); ask for less.")
    threshold = candidates[good[:1]]
    rng, drawn = np.random.default_rng(seed), []
    for _ in range(_SAMPLES):
        rows = [rng.choice(part, len(part)) for part in (np.flatnonzero(judge.kept), np.flatnonzero(~judge.kept))]
        drawn.append(_estimate(judge.of(np.concatenate(rows)), threshold, unpaired))
    low, high = np.nanquantile(drawn, [0.025, 0.975])
    recall = float(_right(judge, threshold)[0])
    share = unpaired_share(judge) if unpaired is None else unpaired
    value = _estimate(judge, threshold, unpaired)
    return Precision(float(threshold[0]), value, float(low), float(high), recall, share, len(judge.scores))


def unpaired_share(found: Found) -> float:
    """u, from how much seldomer something is found for a sentence of the haystack than for a known one.

    With h(x) the share of known sources with a translation there for which anything of a score of at least x is found
    and g(x) that of those without, r = (1 - u) h + u g. Taken where h and g differ most.

    Raises:
        ValueError: known sources are found as often without their target as with it.
    """
    candidates = np.unique(found.scores[np.isfinite(found.scores)])
    parts = (found.scores[found.kept], found.scores[~found.kept], found.others)
    with_one, without, every = (_reaching(part, candidates) for part in parts)
    gap = with_one - without
    if not len(gap) or gap.max() <= 0:
        raise ValueError("known sources are found as often without their target as with it; give --unpaired.")
    best = int(gap.argmax())
    return float(np.clip((with_one[best] - every[best]) / gap[best], 0.01, 0.99))


def _estimate(found: Found, threshold: np.ndarray, unpaired: float | None) -> float:
    """Precision of one threshold; NaN where u cannot be told."""
    try:
        return float(_precision(found, threshold, unpaired)[0])
    except ValueError:
        return float("nan")


def _precision(found: Found, thresholds: np.ndarray, unpaired: float | None) -> np.ndarray:
    if unpaired is None:
        unpaired, given = unpaired_share(found), _reaching(found.others, thresholds)
    else:
        parts = (_reaching(found.scores[rows], thresholds) for rows in (found.kept, ~found.kept))
        given = sum(weight * part for weight, part in zip((1 - unpaired, unpaired), parts))
    with np.errstate(invalid="ignore"):  # nothing is given, and nothing right
        return np.minimum(1, (1 - unpaired) * _right(found, thresholds) / given)


def _right(found: Found, thresholds: np.ndarray) -> np.ndarray:
    """Shares of the known sources with a translation that were given it, by least score."""
    return _reaching(np.where(found.right, found.scores, -np.inf)[found.kept], thresholds)


def _reaching(scores: np.ndarray, least: np.ndarray) -> np.ndarray:
    """Shares of the scores that are at least each of `least`."""
    return 1 - np.searchsorted(np.sort(scores), least) / len(scores)
