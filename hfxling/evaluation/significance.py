"""Intervals and tests over per-item scores: bootstrap percentiles and paired sign-flip permutation tests."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

# Work limits, not statistics: beyond them the code changes algorithm or splits its work, never its answer's meaning.
_MAX_DISTINCT = 64  # up to here a resample is drawn as the counts of its distinct values
_MAX_OUTCOMES = 2**20  # up to here every outcome of a sign-flip test is enumerated
_CHUNK = 2**22  # numbers held at once while resampling


@dataclass(frozen=True)
class PairedTest:
    """Outcome of `paired_test`."""

    difference: float  # mean of a - b, in the unit of the scores
    low: float  # lower end of the paired bootstrap interval of the difference
    high: float
    p_value: float  # two-sided probability of a difference at least this large if the two models were exchangeable


def bootstrap_interval(values, *, level: float = 0.95, samples: int = 10_000, seed: int = 0) -> tuple[float, float]:
    """Percentile bootstrap interval (low, high) of the mean of (N,) per-item scores, 0/1 or real, in their unit.

    Both ends are equal where all values are: a percentile interval cannot see outside what was observed, so 100 of 100
    hits gives (1, 1).

    Raises:
        ValueError: no values, a NaN or infinite value, `level` outside 0..1, `samples` below 1.
    """
    values = _scores(values)
    if not 0 < level < 1:
        raise ValueError(f"level={level} must lie between 0 and 1, e.g. 0.95.")
    if samples < 1:
        raise ValueError(f"samples={samples} must be at least 1; 10,000 is usual.")
    return percentile_interval(_resampled_means(values, samples, np.random.default_rng(seed)), level)


def percentile_interval(resampled: np.ndarray, level: float = 0.95) -> tuple[float, float]:
    """(low, high) between which the middle `level` of the values that resamples gave lie."""
    low, high = np.quantile(resampled, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def tail_p_value(resampled: np.ndarray) -> float:
    """Two-sided p-value of a difference from its bootstrap resamples: the share beyond zero, doubled."""
    tail = min(np.mean(resampled <= 0), np.mean(resampled >= 0))
    return float(min(1.0, 2 * tail + 1 / len(resampled)))


def holm(p_values) -> np.ndarray:
    """(M,) p-values corrected for their number (Holm 1979): below a level, all of them hold at that level together."""
    p_values = np.asarray(p_values, np.float64)
    order = np.argsort(p_values, kind="stable")
    steps = p_values[order] * np.arange(len(order), 0, -1)
    corrected = np.empty_like(steps)
    corrected[order] = np.minimum(1.0, np.maximum.accumulate(steps))
    return corrected


def paired_test(a, b, *, samples: int = 20_000, seed: int = 0) -> PairedTest:
    """Compare two models on the same items.

    The p-value is the sign-flip permutation test's: under the null hypothesis each item's difference could as well have
    had the other sign. It is exact wherever the outcomes can be enumerated: for 0/1 scores always (there it equals
    McNemar's exact test), for real scores up to about 20 differing items; otherwise `samples` flips are drawn.

    Args:
        a: (N,) per-item scores of the first model, e.g. hits, or hits averaged over seeds.
        b: (N,) scores of the second model, item for item.
        samples: for the interval, and flips where the test is not exact.
        seed: of both.

    Raises:
        ValueError: unequal lengths, no items, a NaN or infinite score.
    """
    a, b = _scores(a), _scores(b)
    if a.shape != b.shape:
        raise ValueError(f"Paired scores need the same items on both sides, got {len(a)} and {len(b)}.")
    difference = a - b
    low, high = bootstrap_interval(difference, samples=samples, seed=seed)
    p_value = _sign_flip_p(difference, samples, np.random.default_rng(seed))
    return PairedTest(float(difference.mean()), low, high, p_value)


def _scores(values) -> np.ndarray:
    values = np.asarray(values, dtype=np.float64)
    if values.ndim != 1 or values.size == 0:
        raise ValueError(f"Scores must be a non-empty list with one number per item, got shape {values.shape}.")
    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size:
        raise ValueError(f"{bad.size} of {values.size} scores are NaN or infinite, the first at position {bad[0]}.")
    return values


def _resampled_means(values: np.ndarray, samples: int, rng: np.random.Generator) -> np.ndarray:
    n = len(values)
    distinct, counts = np.unique(values, return_counts=True)
    if len(distinct) <= _MAX_DISTINCT:  # how often each value turns up in a resample is multinomial
        return rng.multinomial(n, counts / n, size=samples) @ distinct / n
    step = max(1, _CHUNK // n)
    return np.concatenate(
        [values[rng.integers(n, size=(min(step, samples - i), n))].mean(axis=1) for i in range(0, samples, step)]
    )


def _sign_flip_p(difference: np.ndarray, samples: int, rng: np.random.Generator) -> float:
    largest = np.abs(difference).max()
    if largest == 0:
        return 1.0
    # Rounding joins sizes that differ by float noise only (1 - 2/3 and 1/3); equal sizes are flipped as one group.
    sizes, counts = np.unique(np.abs(difference / largest).round(12), return_counts=True)
    sizes, counts = sizes[sizes > 0], counts[sizes > 0]
    observed = abs(difference.sum() / largest) - 1e-8  # sums that tie with the observed one count
    if math.prod((counts + 1).tolist()) > _MAX_OUTCOMES:
        sums = sum(size * (2 * rng.binomial(count, 0.5, size=samples) - count) for size, count in zip(sizes, counts))
        return float((1 + np.count_nonzero(np.abs(sums) >= observed)) / (samples + 1))
    from scipy.stats import binom

    sums, chances = np.zeros(1), np.ones(1)
    for size, count in zip(sizes, counts):
        ups = np.arange(count + 1)
        sums = np.add.outer(sums, size * (2 * ups - count)).ravel()
        chances = np.multiply.outer(chances, binom.pmf(ups, count, 0.5)).ravel()
    return float(min(1.0, chances[np.abs(sums) >= observed].sum()))
