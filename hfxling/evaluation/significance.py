"""Intervals and tests over per-item scores: Wilson's for rates, Student's t, and paired sign-flip permutation tests.

The p-values are those of scipy.stats.permutation_test, which draws flips even if they can be enumerated; ours are exact
for hits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

# A limit on work, not on statistics: beyond it the algorithm changes, but not the meaning of the result.
_MAX_OUTCOMES = 2**20  # up to here every outcome of a sign-flip test is enumerated

Interval = tuple[float | None, float | None]


@dataclass(frozen=True)
class PairedTest:
    """Outcome of `paired_test`."""

    difference: float  # mean of a - b, in the unit of the scores
    low: float | None  # lower end of the 95 % interval of the difference; None for a single item
    high: float | None
    p_value: float  # two-sided probability of a difference at least this large if the models were exchangeable


def mean_interval(values, *, hit: float = 100.0) -> Interval:
    """95 % interval (low, high) of the mean of (N,) per-item scores, in their unit.

    If all scores are 0 or `hit` (misses and hits), it is Wilson's interval of their rate, which has a width even for
    100 hits of 100. Otherwise it is Student's t, whose ends are equal if all scores are; (None, None) for one score.

    Raises:
        ValueError: for no values, or a NaN or infinite one.
    """
    values = _scores(values)
    if np.isin(values, (0, hit)).all():
        from scipy.stats import binomtest

        hits, count = np.count_nonzero(values), len(values)
        # Tested against its own rate: the p-value, unused here, takes ten times as long for other rates.
        rate = binomtest(hits, count, hits / count).proportion_ci(0.95, method="wilson")
        return hit * float(rate.low), hit * float(rate.high)
    return _students(values)


def error_interval(value, error, count: int) -> Interval:
    """95 % interval by Student's t for an estimate with a standard error from `count` items; (None, None) for one."""
    from scipy.stats import t

    if count < 2:
        return None, None
    half = t.ppf(0.975, count - 1) * error
    return float(value - half), float(value + half)


def ratio_interval(value, error, count: int) -> Interval:
    """95 % interval of a ratio of sums over `count` items, in percent, from its standard error.

    At 0 and 100 all items agree and the error is zero; Wilson's interval for the number of items is used instead.
    """
    if min(value, 100 - value) < 1e-9:
        return mean_interval(np.full(count, round(float(value))))
    low, high = error_interval(value, error, count)
    if low is None:
        return None, None
    return max(low, 0.0), min(high, 100.0)


def share_interval(shares: np.ndarray) -> Interval:
    """95 % interval of the mean of (N,) shares in percent, such as the hits of both directions of a pair."""
    return ratio_interval(shares.mean(), shares.std(ddof=1) / np.sqrt(len(shares)), len(shares))


def jackknife_error(statistic: Callable[[np.ndarray], np.ndarray], items) -> np.ndarray:
    """Standard errors of smooth statistics of sums over items, by leaving out each item in turn (Tukey 1958).

    Args:
        statistic: function from (N, K) sums to (N,) values of one statistic or (N, M) of several.
        items: (N, K) values that are summed.

    Returns:
        () or (M,) standard errors; 0 for a single item.
    """
    items = np.asarray(items, np.float64)
    one_left_out = statistic(items.sum(0) - items)
    return np.sqrt((len(items) - 1) * one_left_out.var(axis=0))  # (N - 1) / N times the sum of squares


def average_interval(values: Sequence[float], intervals: Sequence[Interval]) -> Interval:
    """Interval of the mean of independent estimates from their intervals, by square and add (Zou & Donner 2008).

    (None, None) if one of them has no interval.
    """
    if any(None in ends for ends in intervals):
        return None, None
    values, (lows, highs) = np.asarray(values, np.float64), np.transpose(intervals)
    below = float(np.linalg.norm(values - lows)) / len(values)
    above = float(np.linalg.norm(values - highs)) / len(values)
    return float(values.mean()) - below, float(values.mean()) + above


def holm(p_values) -> np.ndarray:
    """(M,) p-values corrected for their number (Holm 1979): those below a level hold at that level all together."""
    p_values = np.asarray(p_values, np.float64)
    order = np.argsort(p_values, kind="stable")
    steps = p_values[order] * np.arange(len(order), 0, -1)  # the smallest times M, the next times M - 1, ...
    corrected = np.empty_like(steps)
    corrected[order] = np.minimum(1.0, np.maximum.accumulate(steps))
    return corrected


def paired_test(a, b, *, hit: float = 100.0, samples: int = 20_000) -> PairedTest:
    """Compare two models on the same items.

    The p-value is that of the sign-flip permutation test: under the null hypothesis each item's difference could as
    well have the other sign. It is exact if the outcomes can be enumerated: always for 0/1 scores (it then equals
    McNemar's exact test), for real scores up to about 20 differing items. Otherwise `samples` flips are drawn.

    Args:
        a: (N,) per-item scores of the first model, e.g. hits, or hits averaged over seeds.
        b: (N,) scores of the second model on the same items.
        hit: score of a hit, if scores are hits and misses.
        samples: number of flips drawn if the test is not exact.

    Raises:
        ValueError: for unequal lengths, no items, or a NaN or infinite score.
    """
    a, b = _scores(a), _scores(b)
    if a.shape != b.shape:
        raise ValueError(f"Paired scores need the same items on both sides, got {len(a)} and {len(b)} scores.")
    difference = a - b
    p_value = _sign_flip_p(difference, samples, np.random.default_rng(0))
    are_hits = np.isin([a, b], (0, hit)).all()
    ends = difference_interval(difference, hit) if are_hits else _students(difference)
    return PairedTest(float(difference.mean()), *ends, p_value)


def difference_interval(difference, hit: float = 100.0) -> Interval:
    """95 % interval of the mean of (N,) differences between the hits and misses of two models.

    It is Student's t after each model is given one more hit that the other misses (Bonett & Price 2012), so that even
    equal models get an interval with a width.
    """
    low, high = _students(np.append(difference, (hit, -hit)))
    return max(low, -hit), min(high, hit)


def _scores(values) -> np.ndarray:
    values = np.asarray(values, dtype=np.float64)
    if values.ndim != 1 or values.size == 0:
        raise ValueError(f"Scores must be a non-empty list with one number per item, got shape {values.shape}.")
    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size:
        raise ValueError(f"{bad.size} of {values.size} scores are NaN or infinite, the first at position {bad[0]}.")
    return values


def _students(values: np.ndarray) -> Interval:
    error = values.std() / math.sqrt(max(1, len(values) - 1))  # std divides by N, so this is s / sqrt(N)
    return error_interval(values.mean(), error, len(values))


def _sign_flip_p(difference: np.ndarray, samples: int, rng: np.random.Generator) -> float:
    largest = np.abs(difference).max()
    if largest == 0:
        return 1.0
    # Rounding joins sizes that differ by float noise only (1 - 2/3 and 1/3); equal sizes are flipped as one group.
    sizes, counts = np.unique(np.abs(difference / largest).round(12), return_counts=True)
    sizes, counts = sizes[sizes > 0], counts[sizes > 0]
    observed = abs(difference.sum() / largest) - 1e-8  # sums that tie with the observed one count
    if math.prod((counts + 1).tolist()) > _MAX_OUTCOMES:
        sums = np.zeros(samples)
        for size, count in zip(sizes, counts):
            sums += size * (2 * rng.binomial(count, 0.5, size=samples) - count)
        return float((1 + np.count_nonzero(np.abs(sums) >= observed)) / (samples + 1))
    from scipy.stats import binom

    # Of items of equal size only the number that go up matters: all combinations of these numbers, with probabilities.
    sums, chances = np.zeros(1), np.ones(1)
    for size, count in zip(sizes, counts):
        ups = np.arange(count + 1)
        sums = np.add.outer(sums, size * (2 * ups - count)).ravel()
        chances = np.multiply.outer(chances, binom.pmf(ups, count, 0.5)).ravel()
    return float(min(1.0, chances[np.abs(sums) >= observed].sum()))
