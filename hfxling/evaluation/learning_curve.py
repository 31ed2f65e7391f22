"""What more training data would buy, from scores at several sizes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Forecast:
    """Expected score at a larger size, with a 90 % band.

    Attributes:
        size: number of training pairs forecast for.
        value: expected score.
        low: lower end of the band.
        high: upper end.
        gain: expected gain over the fitted score at the largest measured size.
        gain_low: lower end of the gain's band.
        gain_high: upper end.
    """

    size: int
    value: float
    low: float
    high: float
    gain: float
    gain_low: float
    gain_high: float


def forecast(
    sizes: np.ndarray, scores: np.ndarray, extra: int = 1000, *, samples: int = 2000, seed: int = 0
) -> Forecast:
    """Fit `score = a + b log2(size)` to the runs and read it off at the largest size plus `extra`.

    A straight line in the logarithm is the simplest curve that learning curves of this kind follow over a few
    doublings; the band comes from refitting resampled runs, plus one of the residuals.

    Args:
        sizes: (R,) training pairs of each run, at least three runs of at least two different sizes.
        scores: (R,) its score.
        extra: further pairs.
        samples: bootstrap refits.
        seed: of the resampling.

    Raises:
        ValueError: when all runs have the same size, or there are two only: a line through two points has no band.
    """
    sizes, scores = np.asarray(sizes, np.float64), np.asarray(scores, np.float64)
    if len(np.unique(sizes)) < 2 or len(sizes) < 3:
        listed = ", ".join(f"{size:.0f}" for size in np.unique(sizes)) or "none"
        raise ValueError(
            f"a learning curve needs three runs of at least two sizes, got {len(sizes)} (sizes: {listed})."
        )
    x, at, here = np.log2(sizes), np.log2(sizes.max() + extra), np.log2(sizes.max())
    slope, offset = np.polyfit(x, scores, 1)
    residuals = scores - (offset + slope * x)
    rng = np.random.default_rng(seed)
    values, gains = np.empty(samples), np.empty(samples)
    for i in range(samples):
        rows = rng.integers(len(x), size=len(x))
        while np.ptp(x[rows]) == 0:
            rows = rng.integers(len(x), size=len(x))
        b, a = np.polyfit(x[rows], scores[rows], 1)
        values[i] = a + b * at + rng.choice(residuals)
        gains[i] = b * (at - here)
    band, gain_band = np.percentile(values, [5, 95]), np.percentile(gains, [5, 95])
    size = int(sizes.max() + extra)
    return Forecast(size, offset + slope * at, *band, slope * (at - here), *gain_band)
