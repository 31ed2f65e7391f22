"""A threshold for a wanted precision, from known pairs that were hidden in the haystack.

Some known sources keep their targets there, the others lose theirs. What is found for the former shows how often a
sentence with a translation gets it or another one; what is found for the latter, how often one without gets any.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

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
        unpaired: assumed share of sources whose translation is not in the haystack.
        known: pairs that the estimate is from.
    """

    threshold: float
    precision: float
    low: float
    high: float
    recall: float
    unpaired: float
    known: int


def check_wanted(precision: float, unpaired: float | None, known: int) -> None:
    """Raise the ValueError for a precision, a share or a number of known pairs from which nothing can be said."""
    for name, value in (("precision", precision), ("unpaired", unpaired)):
        if value is not None and not 0 < value < 1:
            raise ValueError(f"{name}={value} must lie between 0 and 1, e.g. {0.95 if name == 'precision' else 0.5}.")
    if known < LEAST:
        raise ValueError(
            f"{known} known pairs: a quarter of them chooses the threshold and no fewer than {LEAST} say enough of it; "
            "give more, or --top or --threshold in place of a precision."
        )


def halves(known: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """(K,) masks of known pairs: those that keep their target in the haystack, and those that choose the threshold."""
    order = np.random.default_rng(seed).permutation(known)
    kept, chooses = np.zeros(known, bool), np.zeros(known, bool)
    kept[order[::2]] = True
    chooses[order[::4]] = chooses[order[1::4]] = True
    return kept, chooses


def choose_threshold(
    scores: np.ndarray,
    right: np.ndarray,
    kept: np.ndarray,
    chooses: np.ndarray,
    *,
    precision: float,
    unpaired: float,
    seed: int = 0,
) -> Precision:
    """The least threshold from which on the estimated precision is what is wanted.

    Of sources with a translation let t(x) be the share with a right pair of a score of at least x and f(x) that with a
    wrong one, and g(x) the share with any of sources without a translation. With a share u of the latter,
    precision(x) = (1 - u) t / ((1 - u) (t + f) + u g).

    Args:
        scores: (K,) of what was mined for the known sources; -inf for nothing.
        right: (K,) whether that is their target.
        kept: (K,) whether their target was in the haystack.
        chooses: (K,) whether they choose the threshold; the others say what it is worth.
        precision: wanted, 0 to 1.
        unpaired: u.
        seed: of the interval.

    Raises:
        ValueError: no threshold gives that precision; the best that there is is named.
    """
    places = np.flatnonzero(chooses)
    candidates = np.unique(scores[places])
    candidates = candidates[np.isfinite(candidates)]
    found = [_precision(scores[places], right[places], kept[places], x, unpaired)[0] for x in candidates]
    good = [x for x, share in zip(candidates, found) if share >= precision]
    if not good:
        best = f"{max(found):.3f}" if found else "nothing was found for any known source"
        raise ValueError(f"precision={precision}: no threshold gives it (best estimate: {best}); ask for less.")
    threshold = float(good[0])
    rest = np.flatnonzero(~chooses)
    share, recall = _precision(scores[rest], right[rest], kept[rest], threshold, unpaired)
    rng, drawn = np.random.default_rng(seed), []
    for _ in range(_SAMPLES):
        rows = np.concatenate([rng.choice(part, len(part)) for part in (rest[kept[rest]], rest[~kept[rest]])])
        drawn.append(_precision(scores[rows], right[rows], kept[rows], threshold, unpaired)[0])
    low, high = np.nanquantile(drawn, [0.025, 0.975])
    return Precision(threshold, share, float(low), float(high), recall, unpaired, len(rest))


def unpaired_share(scores: np.ndarray, kept: np.ndarray, others: np.ndarray) -> float:
    """u, from how much seldomer something is found for a sentence of the haystack than for a known one.

    Of sources with a translation let h(x) be the share for which something of a score of at least x is found, g(x) that
    of sources without one, and r(x) that of the haystack, r = (1 - u) h + u g. Taken where h and g differ most.

    Args:
        scores: (K,) of what was mined for the known sources; -inf for nothing.
        kept: (K,) whether their target was in the haystack.
        others: (N,) the same scores of the haystack's sources.

    Raises:
        ValueError: known sources with and without a translation are found alike.
    """
    candidates = np.unique(scores[np.isfinite(scores)])
    with_one, without, all_ = (_reaching(part, candidates) for part in (scores[kept], scores[~kept], others))
    gap = with_one - without
    if not len(gap) or gap.max() <= 0:
        raise ValueError(
            "as much is found for known sources without their target as for those with it; give --unpaired."
        )
    best = int(gap.argmax())
    return float(np.clip((with_one[best] - all_[best]) / gap[best], 0.01, 0.99))


def _reaching(scores: np.ndarray, least: np.ndarray) -> np.ndarray:
    """Shares of the scores that are at least each of `least`."""
    return 1 - np.searchsorted(np.sort(scores), least) / len(scores)


def _precision(
    scores: np.ndarray, right: np.ndarray, kept: np.ndarray, threshold: float, unpaired: float
) -> tuple[float, float]:
    """Estimated precision (NaN where nothing is found) and recall."""
    is_found = scores >= threshold
    true = float((is_found & right)[kept].mean())
    false = float((is_found & ~right)[kept].mean())
    stray = float(is_found[~kept].mean())
    total = (1 - unpaired) * (true + false) + unpaired * stray
    return ((1 - unpaired) * true / total if total else float("nan")), true
