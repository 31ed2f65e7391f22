"""How many of the mined pairs are right, if no pair is known.

Take a pair's target away: whatever its source is given instead is wrong, an impostor. The same is done with its source.
Over all pairs, one at a time and from both sides, this shows how often a sentence without a translation gets a partner
all the same, and with which scores; and so how many pairs with a score are wrong.

Likely pairs are right, and their impostors are the best wrong partners there are. But sentences without a translation
may be of another kind than those that have one (everyday talk beside news), and have more free partners. Unlikely pairs
show this: they are wrong already, so what they are given instead is only the second best wrong partner. Its score is
raised by as much as the best impostor of likely pairs is ahead of the second best. The larger of both counts holds.

A short text beside a long one leaves few impostors, and each of them stands for many sentences of the long one. But if
nearly every sentence of the short text has a partner, wrong or right, a wrong partner was not chosen among many: it is
ahead of the next one by about as much as the best impostor of a likely pair is ahead of the second best. So about half
of the wrong pairs are closer than the median of these gaps, and hardly any right pair is. If this count says that fewer
pairs are wrong, it holds.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .engine import Mined, by_length, length_weights, select
from .neighbours import Neighbours
from .precision import Precision

LIKELY = 0.9  # estimated precision of likely pairs
FEWEST = 0.25  # least share of all pairs that are taken for likely ones
UNLIKELY = 20  # least number of unlikely pairs; fewer are not counted
# Chosen on bitexts made of NTREX's training lines (benchmarks/precision.py): the share of the gap between best and
# second best wrong partner that unlikely pairs are given, and the relative deviation of the number of wrong pairs from
# what impostors say, in addition to chance.
SHARE = 0.85
DEVIATION = 0.4
# Chosen on lists of Lao; MOST_CLOSE also on lists of Vietnamese and Chinese without a translation.
COVERED = 0.9  # share of the shorter text's sentences that must have a partner; else the two texts are unlike
CLOSE_OF_WRONG = 0.4  # share of wrong pairs that are close: less than half, so as not to promise too much
MOST_CLOSE = 0.2  # share of all pairs that may be close: in unrelated texts more are, though their best pairs are not


class Impostors(NamedTuple):
    """What one side's sentences of P pairs are given without their partners; -inf if another sentence keeps it."""

    scores: np.ndarray  # (P,) as they are
    raised: np.ndarray  # (P,) raised by the gap between the best and the second best wrong partner
    is_close: np.ndarray  # (P,) whether the best other one, kept or not, scores nearly as much as the partner
    size: int  # number of sentences of that side's text

    def at(self, rows) -> Impostors:
        """Only those of the pairs in these rows."""
        return Impostors(self.scores[rows], self.raised[rows], self.is_close[rows], self.size)


def mutual_pairs(
    forward: Neighbours, backward: Neighbours, lengths: list[np.ndarray] | None = None
) -> tuple[Mined, tuple[Impostors, Impostors]]:
    """Mutual pairs by distance, best first, and what their sides are given if the partner is taken away.

    Args:
        forward: K + 1 neighbours of every source; scores are compared with the first K.
        backward: the same for every target.
        lengths: number of words of each sentence of both sides, to weight scores of links by.
    """
    nearest = [Neighbours(side.rows[:, :-1], side.scores[:, :-1]) for side in (forward, backward)]
    pairs = select(*nearest, "distance", "mutual")
    if lengths is None:
        lengths = [np.ones(len(forward.rows)), np.ones(len(backward.rows))]
    else:
        pairs = by_length(pairs, *lengths)
    of_sources = _given(forward, backward, pairs.source, pairs.target, lengths)
    of_targets = _given(backward, forward, pairs.target, pairs.source, lengths[::-1])
    return pairs, (of_sources, of_targets)


def _given(
    side: Neighbours, other: Neighbours, rows: np.ndarray, partners: np.ndarray, lengths: list[np.ndarray]
) -> Impostors:
    """What rows of a side get instead of their partners."""
    k = side.rows.shape[1] - 1
    own_means = side.scores[:, :k].mean(axis=1)
    other_means = other.scores[:, :k].mean(axis=1)
    candidates, scores = side.rows[rows], side.scores[rows]
    is_partner = candidates == partners[:, None]
    margins = _margins_without(is_partner, scores, other_means[candidates], k)
    second, reached = np.sort(margins, axis=1)[:, -2:].T
    impostors = candidates[np.arange(len(rows)), margins.argmax(axis=1)]
    gaps = (reached - second)[: _at_least(len(rows))]  # only likely pairs, which come first
    gap = np.median(gaps) if len(gaps) else 0.0
    # How far the partner is above the best other one. A row's own mean is the same for all of its candidates.
    against_own = scores - other_means[candidates] / 2
    partner_score = np.where(is_partner, against_own, -np.inf).max(axis=1)
    best_other = np.where(is_partner, -np.inf, against_own).max(axis=1)
    is_close = partner_score - best_other < gap
    # An impostor is given if the pair would be a mutual one: no other row suits the impostor better.
    rivals = other.rows[impostors]
    of_rivals = other.scores[impostors] - (other_means[impostors][:, None] + own_means[rivals]) / 2
    of_rivals[rivals == rows[:, None]] = -np.inf
    needed = of_rivals.max(axis=1)
    weights = length_weights(lengths[0][rows], lengths[1][impostors])
    raised = reached + SHARE * gap
    plain = np.where(reached > needed, reached * weights, -np.inf)
    raised = np.where(raised > needed, raised * weights, -np.inf)
    return Impostors(plain, raised, is_close, len(side.rows))


def _margins_without(is_partner: np.ndarray, scores: np.ndarray, other_means: np.ndarray, k: int) -> np.ndarray:
    """(R, N) margins without the partner, whose margin is -inf; a row's own mean is over the k best that are left."""
    scores = np.where(is_partner, -np.inf, scores)
    own_means = -np.sort(-scores, axis=1)[:, :k].mean(axis=1)
    return scores - (own_means[:, None] + other_means) / 2


def of_precision(pairs: Mined, given: tuple[Impostors, Impostors], precision: float) -> tuple[Mined, Precision | None]:
    """As many pairs, best first, as have the estimated precision; no pairs and None if no threshold gives it.

    Args:
        pairs: mined, best first.
        given: from `mutual_pairs`.
        precision: wanted precision.
    """
    estimated = _Estimated(pairs, given)
    kept = _last(estimated.precision, precision)
    if not kept:
        return pairs.at(slice(0)), None
    last, sides = kept - 1, estimated.sides
    seen = estimated.seen[last]
    right = max(np.mean([side.right for side in sides]), 1.0)
    wrong = estimated.wrong[last]
    estimate = Precision(
        float(pairs.score[last]),
        float(estimated.precision[last]),
        max(0.0, 1 - _quantile(0.975, wrong + 1, seen) / kept),
        1 - _quantile(0.025, estimated.fewer[last], seen) / kept,
        min(float((kept - wrong) / right), 1.0),
        float(sides[0].without / given[0].size),
        estimated.likely,
    )
    return pairs.at(slice(kept)), estimate


def best_precision(pairs: Mined, given: tuple[Impostors, Impostors]) -> float:
    """The highest estimate that any threshold gives; 0 without pairs."""
    return float(_Estimated(pairs, given).precision.max(initial=0))


class _Estimated:
    """What impostors say about P pairs.

    Attributes:
        sides: what they say about each side.
        fewer: (P,) number of wrong pairs down to each pair, by the impostors of likely pairs.
        wrong: (P,) the same, by those of unlikely pairs if these give more, and by close pairs if these give fewer.
        seen: (P,) number of impostors, or close pairs, that this is based on.
        precision: (P,) share of right pairs down to each pair.
        likely: number of pairs that are taken for likely ones.
    """

    def __init__(self, pairs: Mined, given: tuple[Impostors, Impostors]):
        total = len(pairs.score)
        counts = np.arange(1, total + 1)
        self.likely = _at_least(total)
        for _ in range(3):  # likely pairs depend on the estimates, and these on the likely pairs
            self.sides = [_Side(pairs.score, side.scores[: self.likely], side.size) for side in given]
            self.fewer = self.wrong = np.mean([side.wrong for side in self.sides], axis=0)
            if total - self.likely >= UNLIKELY:
                others = [_Side(pairs.score, side.raised[self.likely :], side.size) for side in given]
                self.wrong = np.maximum(self.fewer, np.mean([side.wrong for side in others], axis=0))
            self.seen = np.mean([side.above for side in self.sides], axis=0)
            self._count_close(given)
            self.precision = 1 - np.minimum(self.wrong, counts) / counts
            self.likely = max(self.likely, _last(self.precision, LIKELY))

    def _count_close(self, given: tuple[Impostors, Impostors]) -> None:
        """Use the count of close pairs where it is lower, if nearly all of the shorter text has a partner."""
        shorter = min(given, key=lambda side: side.size)
        total = len(shorter.is_close)
        if total < COVERED * shorter.size or shorter.is_close.sum() > MOST_CLOSE * total:
            return
        close = np.cumsum(shorter.is_close)
        wrong = (close + 1) / CLOSE_OF_WRONG  # one more, so that few do not promise too much
        self.seen = np.where(wrong < self.wrong, close, self.seen)
        self.fewer = np.minimum(self.fewer, wrong)
        self.wrong = np.minimum(self.wrong, wrong)


def _quantile(share: float, wrong: float, above: float) -> float:
    """Quantile of the number of wrong pairs: Poisson, with a mean that impostors and kind of bitext leave uncertain.

    With a gamma distributed mean the number is negative binomial. The mean's relative variance is 1 / shape: 1 / n for
    n impostors, plus DEVIATION squared.
    """
    from scipy.stats import nbinom  # slow to load

    shape = 1 / (1 / (above + 1) + DEVIATION**2)
    return float(nbinom.ppf(share, shape, shape / (shape + wrong)))


def _at_least(total: int) -> int:
    """Number of pairs that are taken for likely ones, whatever they score."""
    return int(np.ceil(FEWEST * total))


def _last(estimates: np.ndarray, precision: float) -> int:
    """How many pairs, best first, have that precision."""
    good = np.flatnonzero(estimates >= precision)
    return int(good[-1]) + 1 if len(good) else 0


class _Side:
    """What the impostors of one side say.

    Let q be the share of sentences that get a partner without having a translation. With R right pairs and N sentences,
    the number of pairs is R + (N - R) q, which gives R. Of the pairs above a score, (N - R) q(score) are wrong.

    Attributes:
        right: number of right pairs.
        without: number of sentences without a translation.
        above: (P,) number of impostors that score at least as much as each pair.
        wrong: (P,) number of wrong pairs above each; one impostor is added, so that few do not promise too much.
    """

    def __init__(self, scores: np.ndarray, given: np.ndarray, size: int):
        reached = np.sort(given[np.isfinite(given)])  # scores of impostors that found a pair at all
        rate = min(len(reached) / len(given), 0.99) if len(given) else 0.99
        self.right = float(np.clip((len(scores) - size * rate) / (1 - rate), 0, len(scores)))
        self.without = size - self.right
        self.above = len(reached) - np.searchsorted(reached, scores, side="left")
        self.wrong = self.without * (self.above + 1) / (len(given) + 1)
