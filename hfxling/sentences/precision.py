"""A threshold for a wanted precision, from known pairs that were hidden in the haystack.

Some known sources keep their targets there, the others lose theirs. What is found for them shows what scores right and
wrong pairs have.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .engine import Mined

LEAST = 100  # known pairs
_SAMPLES = 300  # of the bootstrap
_ROUNDS = 1000  # of the estimate of how many pairs are right, at most
_LEAST_OF_EACH = 5  # right and wrong pairs among the known ones


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
    is_known = pairs.source >= sizes[0]
    number = pairs.source[is_known] - sizes[0]  # of the known pair that the source is of
    target = pairs.target[is_known] - sizes[1]  # place among the known targets that are there; below 0 of another
    number_of_target = np.flatnonzero(kept)
    is_right = (target >= 0) & (number_of_target[np.maximum(target, 0)] == number)
    scores, right = np.full(len(kept), -np.inf), np.zeros(len(kept), bool)
    for array, values in ((scores, pairs.score[is_known]), (right, is_right)):
        array[number[::-1]] = values[::-1]  # the last one written stays: of several pairs of a source the best
    others = np.full(sizes[0], -np.inf)
    np.maximum.at(others, pairs.source[~is_known], pairs.score[~is_known])
    is_new = ~is_known & (pairs.target < sizes[1])
    return pairs.at(is_new), Found(scores, right, kept, others)


def check_wanted(precision: float, unpaired: float | None = None) -> None:
    """Raise the ValueError for a precision or a share of sources that is none."""
    for name, value in (("precision", precision), ("unpaired", unpaired)):
        if value is not None and not 0 < value < 1:
            raise ValueError(f"{name}={value} must lie between 0 and 1, e.g. {0.95 if name == 'precision' else 0.5}.")


def halves(known: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """(K,) masks of known pairs: those that keep their target in the haystack, and those that choose the threshold."""
    order = np.random.default_rng(seed).permutation(known)
    kept, chooses = np.zeros(known, bool), np.zeros(known, bool)
    kept[order[::2]] = True
    chooses[order[::4]] = chooses[order[1::4]] = True
    return kept, chooses


def choose_threshold(
    found: Found,
    *,
    precision: float,
    chooses: np.ndarray,
    unpaired: float | None = None,
    least: float = -np.inf,
) -> Precision:
    """The least threshold at which the estimated precision is what is wanted.

    How much likelier a score is for a right pair than for a wrong one is learnt from the known pairs by logistic
    regression. How many pairs of the haystack are right is what best explains its own scores then (Saerens et al.
    2002), or follows from `unpaired`. The precision of a threshold is the mean of the probabilities that the haystack's
    pairs above it are right.

    Args:
        found: what was mined.
        precision: wanted, 0 to 1.
        chooses: (K,) known pairs that choose the threshold, the others saying what it is worth.
        unpaired: share of the haystack's sources without a translation there; by default estimated.
        least: threshold that is taken where the pairs would choose a lower one.
    """
    chooser, judge = found.of(chooses), found.of(~chooses)
    scores = np.sort(found.others[np.isfinite(found.others)])[::-1]
    right = right_probabilities(chooser, scores, unpaired)
    shares = np.cumsum(right) / np.arange(1, len(scores) + 1)
    good = np.flatnonzero(shares >= precision)
    if not len(good):
        raise ValueError(
            f"precision={precision}: no threshold gives it (best estimate: {shares.max():.3f}); ask for less."
        )
    threshold = max(float(scores[good[-1]]), least)
    count = int((scores >= threshold).sum())
    rng, drawn = np.random.default_rng(0), []
    kept, left_out = np.flatnonzero(judge.kept), np.flatnonzero(~judge.kept)
    for _ in range(_SAMPLES):
        some = judge.of(np.concatenate([rng.choice(kept, len(kept)), rng.choice(left_out, len(left_out))]))
        with suppress(ValueError):  # a sample with hardly a wrong pair, or hardly a right one
            drawn.append(right_probabilities(some, scores, unpaired)[:count].mean())
    right = right_probabilities(judge, scores, unpaired)
    low, high = np.quantile(drawn, [0.025, 0.975])
    recall = float((judge.right & (judge.scores >= threshold))[judge.kept].mean())
    share = unpaired
    if unpaired is None:  # (1 - u) of the sources have a translation, of which a known share is found
        share = float(np.clip(1 - right.sum() / len(found.others) / judge.right[judge.kept].mean(), 0, 1))
    return Precision(threshold, float(right[:count].mean()), float(low), float(high), recall, share, len(judge.scores))


def right_probabilities(known: Found, scores: np.ndarray, unpaired: float | None) -> np.ndarray:
    """(S,) probabilities that the haystack's pairs of these scores are right."""
    from sklearn.linear_model import LogisticRegression

    is_found = np.isfinite(known.scores)
    right = known.right[is_found]
    if min(right.sum(), (~right).sum()) < _LEAST_OF_EACH:
        counts = f"{right.sum()} right and {(~right).sum()} wrong pairs were found for the known sources"
        raise ValueError(
            f"{counts}, but {_LEAST_OF_EACH} of each are needed; give more known pairs, or use --top or --threshold."
        )
    known_scores = known.scores[is_found]
    mean, spread = known_scores.mean(), known_scores.std() or 1.0
    # Balanced classes give the odds that there were if half of the pairs were right: the ratio of both likelihoods.
    model = LogisticRegression(C=1e4, class_weight="balanced", max_iter=1000)
    model.fit(((known_scores - mean) / spread)[:, None], right)
    odds = np.exp(np.clip(model.decision_function(((scores - mean) / spread)[:, None]), -30, 30))
    if unpaired is not None:
        # Of the sources with a translation some are given it, some another sentence; of the others some are given one.
        of_right = (known.right & is_found)[known.kept].mean()
        of_kept, of_others = is_found[known.kept].mean(), is_found[~known.kept].mean()
        share = (1 - unpaired) * of_right / ((1 - unpaired) * of_kept + unpaired * of_others)
        return _posterior(odds, share)
    share = 0.5
    for _ in range(_ROUNDS):  # EM of Saerens et al.
        before, share = share, float(_posterior(odds, share).mean())
        if abs(share - before) < 1e-6:
            break
    return _posterior(odds, share)


def _posterior(odds: np.ndarray, share: float) -> np.ndarray:
    """Probabilities of being right, by odds that half are right would give, where a share is."""
    return odds * share / (odds * share + 1 - share)
