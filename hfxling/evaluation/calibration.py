"""Map scores to a human scale: an isotonic or linear map of one or more scores, chosen by cross-validation."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from hfxling.files import atomic_path

KINDS = ("linear", "isotonic")
LEAST = 20  # scored pairs; with fewer, a cross-validated error says nothing
FOLDS = 5
COSINE = "cosine"
LENGTHS = ("source length", "target length")  # features that are tried only together with scores
PENALTIES = (1e-1, 1e0, 1e1, 1e2, 1e3)  # of ridge regression, chosen by leave-one-out


@dataclass(frozen=True)
class Calibration:
    """A monotone piecewise linear map from a weighted sum of scores to human scores; constant outside the knots.

    `errors` are cross-validated, by kind: `mae` in the unit of the human scores, and `pearson`. The kind "mean", which
    gives every pair the mean of the training folds, has only `mae`.
    """

    kind: str  # one of `KINDS`
    cosines: list[float]  # increasing knots: cosines, or weighted sums of the features
    scores: list[float]  # their human scores, all rising or all falling
    errors: dict[str, dict[str, float]]
    pairs: int  # number of pairs it was fitted on
    settings: dict = field(default_factory=dict)  # what it is valid for: model, languages
    features: dict[str, float] = field(default_factory=lambda: {COSINE: 1.0})  # weights

    def __call__(self, values: Mapping[str, Sequence[float]]) -> np.ndarray:
        """(N,) scores on the human scale for (N,) values of each feature by name; NaN if one of them is NaN."""
        sums = sum(weight * np.asarray(values[name], np.float64) for name, weight in self.features.items())
        return np.interp(sums, self.cosines, self.scores)

    def save(self, path: str | Path) -> None:
        """Write as JSON, whole or not at all."""
        content = asdict(self)
        if [*self.features] == [COSINE]:  # the default, which files never state
            del content["features"]
        with atomic_path(path) as scratch:
            scratch.write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> Calibration:
        """Read what `save` wrote.

        Raises:
            FileNotFoundError: if there is no such file.
            ValueError: if it is no calibration, or its knots are no monotone map.
        """
        path = Path(path)
        if not path.is_file():
            raise FileNotFoundError(f"{path}: no such calibration; fit one from human scores first.")
        try:
            calibration = cls(**json.loads(path.read_text(encoding="utf-8")))
            knots = np.array(calibration.cosines, dtype=np.float64)
            scores = np.array(calibration.scores, dtype=np.float64)
            weights = np.array([*calibration.features.values()], dtype=np.float64)
            steps = np.diff(scores)
            is_sound = (
                calibration.kind in KINDS
                and knots.shape == scores.shape == (len(calibration.cosines),)
                and len(knots) > 1
                and np.isfinite([knots, scores]).all()
                and (np.diff(knots) > 0).all()
                and ((steps >= 0).all() or (steps <= 0).all())
                and len(weights) > 0
                and np.isfinite(weights).all()
            )
        except (AttributeError, TypeError, ValueError, RecursionError):
            is_sound = False
        if not is_sound:
            raise ValueError(f"{path}: not a calibration of hfxling, or damaged; fit it again from human scores.")
        return calibration


def fit_calibration(
    values: Mapping[str, Sequence[float]], human: Sequence[float], *, settings: dict | None = None
) -> Calibration:
    """Fit both kinds of map to all pairs; keep that with the smaller absolute error in `FOLDS`-fold cross-validation.

    Several scores are tried one by one, all together (weighted by ridge regression), and together with `LENGTHS` if
    these are given. `errors` then name the features before the kind, e.g. "cosine + links, linear".

    Args:
        values: (N,) values of each feature, by name.
        human: (N,) human scores of the same pairs, in any unit.
        settings: settings to keep with the map.

    Raises:
        ValueError: for unequal lengths, fewer than `LEAST` pairs, a value that is not finite, or all values equal.
    """
    from sklearn.model_selection import KFold

    features = {name: np.asarray(column, dtype=np.float64) for name, column in values.items()}
    y = np.asarray(human, dtype=np.float64)
    for name, x in features.items():
        _check(name, x, y)
    scores = [name for name in features if name not in LENGTHS]
    sets = [(name,) for name in scores]
    for names in (tuple(scores), tuple(features)):
        if names not in sets:
            sets.append(names)
    choices, columns = {}, {}
    for names in sets:
        columns[names] = np.stack([features[name] for name in names], 1)
        title = f"{' + '.join(names)}, " if len(sets) > 1 else ""
        for kind in KINDS:
            choices[title + kind] = names, kind
    predicted = {choice: np.empty(len(y)) for choice in (*choices, "mean")}
    for train, test in KFold(FOLDS, shuffle=True, random_state=0).split(y):
        for choice, (names, kind) in choices.items():
            x = columns[names]
            sums = x @ _weights(x[train], y[train])
            predicted[choice][test] = np.interp(sums[test], *_knots(kind, sums[train], y[train]))
        predicted["mean"][test] = y[train].mean()
    errors = {}
    for choice, predictions in predicted.items():
        errors[choice] = {"mae": float(np.abs(predictions - y).mean())}
        if choice in choices:
            errors[choice]["pearson"] = _pearson(predictions, y)
    names, kind = choices[min(choices, key=lambda choice: errors[choice]["mae"])]
    weights = _weights(columns[names], y)
    knots, heights = _knots(kind, columns[names] @ weights, y)
    return Calibration(
        kind,
        knots.tolist(),
        heights.tolist(),
        errors,
        len(y),
        settings=dict(settings or {}),
        features=dict(zip(names, weights.tolist())),
    )


def log_lengths(texts: Sequence[str]) -> np.ndarray:
    """(N,) log lengths of non-empty texts, one of `LENGTHS`: people tend to give long sentences lower scores."""
    return np.log([len(text) for text in texts])


def _weights(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """(F,) weights of (N, F) features in a sum that follows the human scores; 1 for a single feature."""
    if x.shape[1] == 1:
        return np.ones(1)
    from sklearn.linear_model import RidgeCV

    # Ridge shrinks weights by their size, so features are standardised first; the weights are scaled back at the end.
    spread = x.std(0)
    scale = np.where(spread, spread, 1.0)  # lengths may all be the same
    return RidgeCV(PENALTIES).fit((x - x.mean(0)) / scale, y).coef_ / scale


def _knots(kind: str, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    if kind == "linear":
        ends = np.array([x.min(), x.max()])
        if ends[0] == ends[1]:
            return ends[:1], np.array([y.mean()])
        slope, intercept = np.polyfit(x, y, 1)
        return ends, slope * ends + intercept
    from sklearn.isotonic import IsotonicRegression

    model = IsotonicRegression(increasing=bool(_pearson(x, y) >= 0), out_of_bounds="clip").fit(x, y)
    return model.X_thresholds_, model.y_thresholds_


def _pearson(x: np.ndarray, y: np.ndarray) -> float:
    """Pearson correlation; zero if one side is constant."""
    x, y = x - x.mean(), y - y.mean()
    scale = math.sqrt((x @ x) * (y @ y))
    return float(x @ y / scale) if scale else 0.0


def _check(feature: str, x: np.ndarray, y: np.ndarray) -> None:
    if x.ndim != 1 or x.shape != y.shape:
        raise ValueError(f"calibration needs one human score per {feature}, got shapes {x.shape} and {y.shape}.")
    if len(x) < LEAST:
        raise ValueError(f"{len(x)} pairs have a human score, but a calibration needs at least {LEAST}; add some.")
    for name, values in ((feature, x), ("human score", y)):
        bad = np.flatnonzero(~np.isfinite(values))
        if bad.size:
            raise ValueError(f"{name} {bad[0] + 1} of {len(values)} is {values[bad[0]]}, not a finite number.")
        if np.ptp(values) == 0 and name not in LENGTHS:
            raise ValueError(f"all {len(values)} values of the {name} are {values[0]}; there is nothing to calibrate.")
