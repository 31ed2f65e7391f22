"""What more training data would buy, from scores at several sizes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Forecast:
    """Expected score at a larger size, with a 90 % band."""

    size: int  # training pairs
    value: float
    low: float
    high: float
    gain: float  # over the fitted score at the largest measured size
    gain_low: float
    gain_high: float

    def __str__(self) -> str:
        return (
            f"{self.gain:+.1f} (90 % band {self.gain_low:+.1f} to {self.gain_high:+.1f}), "
            f"to {self.value:.1f} ({self.low:.1f} to {self.high:.1f}) at {self.size:,} pairs"
        )


def forecast(sizes: np.ndarray, scores: np.ndarray, extra: int = 1000) -> Forecast:
    """Fit `score = a + b log2(size)` to the runs and read it off at the largest size plus `extra`.

    A straight line in the logarithm is the simplest curve that learning curves of this kind follow over a few
    doublings. The bands are those of least squares (Student's t); that of the score is for a single further run and so
    has a run's own scatter in it.

    `sizes` are the training pairs of (R,) runs, `scores` what each reached.

    Raises:
        ValueError: when all runs have the same size, or there are two only: a line through two points has no band.
    """
    from scipy import stats

    sizes, scores = np.asarray(sizes, np.float64), np.asarray(scores, np.float64)
    runs = len(sizes)
    if len(np.unique(sizes)) < 2 or runs < 3:
        listed = ", ".join(f"{size:.0f}" for size in np.unique(sizes)) or "none"
        raise ValueError(f"a learning curve needs three runs of at least two sizes, got {runs} (sizes: {listed}).")
    x, here, at = np.log2(sizes), np.log2(sizes.max()), np.log2(sizes.max() + extra)
    line = stats.linregress(x, scores)
    residuals = scores - (line.intercept + line.slope * x)
    scatter = np.sqrt(residuals @ residuals / (runs - 2))
    wide = stats.t.ppf(0.95, runs - 2)
    value, gain = line.intercept + line.slope * at, line.slope * (at - here)
    margin = wide * np.sqrt(scatter**2 * (1 + 1 / runs) + (line.stderr * (at - x.mean())) ** 2)
    gain_margin = wide * line.stderr * (at - here)
    size = int(sizes.max() + extra)
    return Forecast(size, value, value - margin, value + margin, gain, gain - gain_margin, gain + gain_margin)
