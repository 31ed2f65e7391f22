"""A threshold for a wanted precision, from known pairs that are hidden in the haystack.

Some known sources keep their targets there, the others lose them. What is then found for the known sources shows which
scores right and wrong pairs have.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .engine import Mined

LEAST = 100  # known pairs that are needed
_SAMPLES = 300  # bootstrap samples
_ROUNDS = 1000  # most rounds of estimating how many pairs are right
_LEAST_OF_EACH = 5  # least number of right and of wrong pairs among the known ones


@dataclass(frozen=True)
class Precision:
    """A threshold and what it achieves.

    Attributes:
        threshold: lowest margin of a pair.
        precision: share of right pairs, estimated on known pairs that did not choose the threshold; low and high are
            the ends of its 95 % bootstrap interval.
        recall: share of findable pairs that are found, on the same known pairs.
        unpaired: share of the haystack's sources without a translation there, assumed or estimated.
        known: number of pairs that the estimate is based on.
    """

    threshold: float
    precision: float
    low: float
    high: float
    recall: float
    unpaired: float
    known: int


class Found(NamedTuple):
    """What was mined for the known sources and for the others; the score is -inf if nothing was."""

    scores: np.ndarray  # (K,) scores of the known sources' pairs
    right: np.ndarray  # (K,) whether the pair has the known target
    kept: np.ndarray  # (K,) whether their target was in the haystack
    others: np.ndarray  # (N,) scores of the haystack's own sources

    def of(self, known: np.ndarray) -> Found:
        """The same for some of the known pairs, given by a mask or rows."""
        return Found(self.scores[known], self.right[known], self.kept[known], self.others)


def found_pairs(pairs: Mined, kept: np.ndarray, sizes: tuple[int, int]) -> tuple[Mined, Found]:
    """The pairs of the haystack alone, and what was mined for the known pairs, which stand at its end.

    Args:
        pairs: mined pairs of haystack and known sentences.
        kept: (K,) whether the known target is in the haystack, too.
        sizes: number of sentences of the haystack on either side, without the known ones.
    """
    is_known = pairs.source >= sizes[0]
    number = pairs.source[is_known] - sizes[0]  # of the known pair that the source belongs to
    target = pairs.target[is_known] - sizes[1]  # place among the known targets that are there; below 0 for others
    number_of_target = np.flatnonzero(kept)
    is_right = (target >= 0) & (number_of_target[np.maximum(target, 0)] == number)
    scores, right = np.full(len(kept), -np.inf), np.zeros(len(kept), bool)
    for array, values in ((scores, pairs.score[is_known]), (right, is_right)):
        array[number[::-1]] = values[::-1]  # the last one written stays: for a source with several pairs the best
    others = np.full(sizes[0], -np.inf)
    np.maximum.at(others, pairs.source[~is_known], pairs.score[~is_known])
    is_new = ~is_known & (pairs.target < sizes[1])
    return pairs.at(is_new), Found(scores, right, kept, others)


def check_wanted(precision: float, unpaired: float | None = None) -> None:
    """Raise ValueError for a precision or a share of sources that is not between 0 and 1."""
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
    """The lowest threshold with the wanted estimated precision.

    A logistic regression learns from the known pairs how much likelier a score is for a right pair than for a wrong
    one. The number of right pairs in the haystack is then the one that best explains the haystack's own scores (Saerens
    et al. 2002), or it follows from `unpaired`. The precision of a threshold is the mean probability that the
    haystack's pairs above it are right.

    Args:
        found: what was mined.
        precision: wanted precision, 0 to 1.
        chooses: (K,) mask of the known pairs that choose the threshold; the others say what it achieves.
        unpaired: share of the haystack's sources without a translation there; by default estimated.
        least: lowest threshold, taken if the pairs would choose a lower one.
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
        with suppress(ValueError):  # a sample with hardly any wrong or hardly any right pairs
            drawn.append(right_probabilities(some, scores, unpaired)[:count].mean())
    right = right_probabilities(judge, scores, unpaired)
    low, high = np.quantile(drawn, [0.025, 0.975])
    recall = float((judge.right & (judge.scores >= threshold))[judge.kept].mean())
    share = unpaired
    if unpaired is None:  # a share 1 - u of the sources has a translation; a known share of these is found
        share = float(np.clip(1 - right.sum() / len(found.others) / judge.right[judge.kept].mean(), 0, 1))
    return Precision(threshold, float(right[:count].mean()), float(low), float(high), recall, share, len(judge.scores))


def right_probabilities(known: Found, scores: np.ndarray, unpaired: float | None) -> np.ndarray:
    """(S,) probabilities that the haystack's pairs with these scores are right."""
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
    # With balanced classes the odds are those of half of the pairs being right: the ratio of both likelihoods.
    model = LogisticRegression(C=1e4, class_weight="balanced", max_iter=1000)
    model.fit(((known_scores - mean) / spread)[:, None], right)
    odds = np.exp(np.clip(model.decision_function(((scores - mean) / spread)[:, None]), -30, 30))
    if unpaired is not None:
        # Some sources with a translation are given it, some another sentence; some without one are given a sentence.
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
    """Probabilities of being right if that share is right; `odds` are those for a share of one half."""
    return odds * share / (odds * share + 1 - share)
