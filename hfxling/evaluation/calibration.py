"""From cosines to a human scale: an isotonic or a linear map, chosen and judged by cross-validation."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from hfxling.files import atomic_path

KINDS = ("linear", "isotonic")
LEAST = 20  # scored pairs; with fewer, an error told by cross-validation says nothing
FOLDS = 5


@dataclass(frozen=True)
class Calibration:
    """A monotone piecewise linear map from cosines to human scores; constant outside the knots.

    `errors` are cross-validated, by kind: `mae` in the unit of the human scores, `pearson`; of "mean", the mean of the
    training folds given to every pair, `mae` alone.
    """

    kind: str  # one of `KINDS`
    cosines: list[float]  # increasing knots
    scores: list[float]  # their human scores, all rising or all falling
    errors: dict[str, dict[str, float]]
    pairs: int  # it was fitted on
    settings: dict = field(default_factory=dict)  # what it holds for: model, languages

    def __call__(self, cosines) -> np.ndarray:
        """Human scores for (N,) cosines."""
        return np.interp(np.asarray(cosines, dtype=np.float64), self.cosines, self.scores)

    def save(self, path: str | Path) -> None:
        """Write as JSON, whole or not at all."""
        with atomic_path(path) as scratch:
            scratch.write_text(json.dumps(asdict(self), ensure_ascii=False, indent=1) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> Calibration:
        """Read what `save` wrote.

        Raises:
            FileNotFoundError: no such file.
            ValueError: not such a file, or knots that are no monotone map.
        """
        path = Path(path)
        if not path.is_file():
            raise FileNotFoundError(f"{path}: no such calibration; fit one from human scores first.")
        try:
            found = cls(**json.loads(path.read_text(encoding="utf-8")))
            knots, scores = (np.array(values, dtype=np.float64) for values in (found.cosines, found.scores))
            steps = np.diff(scores)
            sound = knots.shape == scores.shape == (len(found.cosines),) and len(knots) > 1 and found.kind in KINDS
            sound = sound and np.isfinite([knots, scores]).all() and (np.diff(knots) > 0).all()
            sound = sound and ((steps >= 0).all() or (steps <= 0).all())
        except (TypeError, ValueError):
            sound = False
        if not sound:
            raise ValueError(f"{path}: not a calibration of hfxling, or damaged; fit it again from human scores.")
        return found


def fit_calibration(
    cosines: Sequence[float], human: Sequence[float], *, settings: dict | None = None, seed: int = 0
) -> Calibration:
    """Fit both kinds of map to all pairs, keep that with the smaller absolute error in `FOLDS`-fold cross-validation.

    `human` are (N,) scores in any unit of the pairs with these (N,) cosines; `settings` are kept with the map.

    Raises:
        ValueError: unequal lengths, fewer than `LEAST` pairs, a value that is not finite, or all values the same.
    """
    from sklearn.model_selection import KFold

    x, y = (np.asarray(values, dtype=np.float64) for values in (cosines, human))
    _check(x, y)
    predicted = {kind: np.empty(len(y)) for kind in (*KINDS, "mean")}
    for train, test in KFold(FOLDS, shuffle=True, random_state=seed).split(x):
        for kind in KINDS:
            predicted[kind][test] = np.interp(x[test], *_knots(kind, x[train], y[train]))
        predicted["mean"][test] = y[train].mean()
    errors = {kind: {"mae": float(np.abs(values - y).mean())} for kind, values in predicted.items()}
    for kind in KINDS:
        errors[kind]["pearson"] = _pearson(predicted[kind], y)
    kind = min(KINDS, key=lambda kind: errors[kind]["mae"])
    knots, scores = _knots(kind, x, y)
    return Calibration(kind, knots.tolist(), scores.tolist(), errors, len(y), dict(settings or {}))


def _knots(kind: str, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    if kind == "linear":
        slope, intercept = np.polyfit(x, y, 1)
        ends = np.array([x.min(), x.max()])
        return ends, slope * ends + intercept
    from sklearn.isotonic import IsotonicRegression

    model = IsotonicRegression(increasing=bool(_pearson(x, y) >= 0), out_of_bounds="clip").fit(x, y)
    return model.X_thresholds_, model.y_thresholds_


def _pearson(x: np.ndarray, y: np.ndarray) -> float:
    """Zero where either side is constant: it says nothing about the other."""
    x, y = x - x.mean(), y - y.mean()
    scale = math.sqrt((x @ x) * (y @ y))
    return float(x @ y / scale) if scale else 0.0


def _check(x: np.ndarray, y: np.ndarray) -> None:
    if x.ndim != 1 or x.shape != y.shape:
        raise ValueError(f"calibration needs one human score a cosine, got shapes {x.shape} and {y.shape}.")
    if len(x) < LEAST:
        raise ValueError(f"{len(x)} pairs with a human score: a calibration needs at least {LEAST}.")
    for name, values in (("cosine", x), ("human score", y)):
        bad = np.flatnonzero(~np.isfinite(values))
        if bad.size:
            raise ValueError(f"{name} {bad[0] + 1} of {len(values)} is {values[bad[0]]}, not a finite number.")
        if np.ptp(values) == 0:
            raise ValueError(f"all {len(values)} values of the {name} are {values[0]}; there is nothing to calibrate.")
