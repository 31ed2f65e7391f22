"""Intervals and tests over per-item scores: Wilson's for rates, Student's t, and paired sign-flip permutation tests.

The p-values are those of scipy.stats.permutation_test, which draws flips where they can be enumerated: of hits ours are
exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

# A work limit, not statistics: beyond it the code changes algorithm, never its answer's meaning.
_MAX_OUTCOMES = 2**20  # up to here every outcome of a sign-flip test is enumerated

Interval = tuple[float | None, float | None]


@dataclass(frozen=True)
class PairedTest:
    """Outcome of `paired_test`."""

    difference: float  # mean of a - b, in the unit of the scores
    low: float | None  # lower end of the 95 % interval of the difference; None of a single item
    high: float | None
    p_value: float  # two-sided probability of a difference at least this large if the two models were exchangeable


def mean_interval(values, *, hit: float = 100.0) -> Interval:
    """95 % interval (low, high) of the mean of (N,) per-item scores, in their unit.

    Scores that are all 0 or `hit` are misses and hits: Wilson's interval of their rate, which has a width for 100 of
    100, too. Others: Student's t, whose ends are equal where all scores are, and (None, None) of a single score.

    Raises:
        ValueError: no values, a NaN or infinite value.
    """
    values = _scores(values)
    if np.isin(values, (0, hit)).all():
        from scipy.stats import binomtest

        hits, count = np.count_nonzero(values), len(values)
        # Tested for being what it is: the p-value, which nobody asks for here, takes ten times as long for other rates.
        rate = binomtest(hits, count, hits / count).proportion_ci(0.95, method="wilson")
        return hit * float(rate.low), hit * float(rate.high)
    return _students(values)


def error_interval(value, error, count: int) -> Interval:
    """95 % interval by Student's t around an estimate from `count` items with a standard error; (None, None) of one."""
    from scipy.stats import t

    if count < 2:
        return None, None
    half = t.ppf(0.975, count - 1) * error
    return float(value - half), float(value + half)


def ratio_interval(value, error, count: int) -> Interval:
    """95 % interval of a ratio of sums over `count` items, in percent, from its standard error.

    At 0 and 100 every item says the same and there is no error to go by: Wilson's of so many items then.
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
    """Standard errors of smooth statistics of sums over items, by leaving out each of them in turn (Tukey 1958).

    Args:
        statistic: (N, K) sums -> (N,) values of one statistic or (N, M) of several.
        items: (N, K) what is summed.

    Returns:
        () or (M,), 0 of a single item.
    """
    items = np.asarray(items, np.float64)
    one_left_out = statistic(items.sum(0) - items)
    return np.sqrt((len(items) - 1) * one_left_out.var(axis=0))  # (N - 1) / N times the sum of squares


def average_interval(values: Sequence[float], intervals: Sequence[Interval]) -> Interval:
    """Interval of the mean of independent estimates from theirs, by square and add (Zou & Donner 2008).

    (None, None) where one of them has none.
    """
    if any(None in ends for ends in intervals):
        return None, None
    values, (lows, highs) = np.asarray(values, np.float64), np.transpose(intervals)
    below = float(np.linalg.norm(values - lows)) / len(values)
    above = float(np.linalg.norm(values - highs)) / len(values)
    return float(values.mean()) - below, float(values.mean()) + above


def holm(p_values) -> np.ndarray:
    """(M,) p-values corrected for their number (Holm 1979): below a level, all of them hold at that level together."""
    p_values = np.asarray(p_values, np.float64)
    order = np.argsort(p_values, kind="stable")
    steps = p_values[order] * np.arange(len(order), 0, -1)  # the smallest times M, the next times M - 1, ...
    corrected = np.empty_like(steps)
    corrected[order] = np.minimum(1.0, np.maximum.accumulate(steps))
    return corrected


def paired_test(a, b, *, hit: float = 100.0, samples: int = 20_000) -> PairedTest:
    """Compare two models on the same items.

    The p-value is the sign-flip permutation test's: under the null hypothesis each item's difference could as well have
    had the other sign. It is exact wherever the outcomes can be enumerated: for 0/1 scores always (there it equals
    McNemar's exact test), for real scores up to about 20 differing items; otherwise `samples` flips are drawn.

    Args:
        a: (N,) per-item scores of the first model, e.g. hits, or hits averaged over seeds.
        b: (N,) scores of the second model, item for item.
        hit: score of a hit, where scores are hits and misses.
        samples: flips where the test is not exact.

    Raises:
        ValueError: unequal lengths, no items, a NaN or infinite score.
    """
    a, b = _scores(a), _scores(b)
    if a.shape != b.shape:
        raise ValueError(f"Paired scores need the same items on both sides, got {len(a)} and {len(b)}.")
    difference = a - b
    p_value = _sign_flip_p(difference, samples, np.random.default_rng(0))
    are_hits = np.isin([a, b], (0, hit)).all()
    ends = difference_interval(difference, hit) if are_hits else _students(difference)
    return PairedTest(float(difference.mean()), *ends, p_value)


def difference_interval(difference, hit: float = 100.0) -> Interval:
    """95 % interval of the mean of (N,) differences between hits and misses of two models.

    Student's t after each model was given one more hit that the other misses (Bonett & Price 2012): equal models have a
    width, too.
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

    # Of items of one size only the number that go up matters: all combinations of these numbers, and their chances.
    sums, chances = np.zeros(1), np.ones(1)
    for size, count in zip(sizes, counts):
        ups = np.arange(count + 1)
        sums = np.add.outer(sums, size * (2 * ups - count)).ravel()
        chances = np.multiply.outer(chances, binom.pmf(ups, count, 0.5)).ravel()
    return float(min(1.0, chances[np.abs(sums) >= observed].sum()))
