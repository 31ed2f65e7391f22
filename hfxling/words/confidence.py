"""How sure a link is: a probability learnt from gold links, and how well such probabilities are calibrated."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hfxling.files import atomic_path

if TYPE_CHECKING:
    from .aligner import AlignedLine

FEATURES = (
    "log_forward",  # log weight of the source unit for the target unit
    "log_backward",
    "log_product",
    "mutual",  # 1 where both directions, alone, would link the two
    "log_rank_forward",  # place of the source unit among all, for this target unit
    "log_rank_backward",
    "similarity",  # cosine of the contextual vectors
    "off_diagonal",  # difference of the relative positions, 0..1
    "log_fertility",  # links of the two units
    "log_length",  # units of the shorter side
)
BINS = 10
LEAST_PAIRS = 13  # with gold links: ten are left where a fifth is held out
_LEAST = 1e-6  # weights below count as this


def link_features(line: AlignedLine) -> np.ndarray:
    """(L, F) `FEATURES` of the links of one pair, in their order."""
    if not line.links:
        return np.zeros((0, len(FEATURES)))
    i, j = np.array(line.links).T
    forward, backward, similarity = line.soft.forward[0], line.soft.backward[0], line.soft.similarity[0]
    rank_forward = 1 + (forward[:, j] > forward[i, j]).sum(0)
    rank_backward = 1 + (backward[i] > backward[i, j][:, None]).sum(1)
    sources, targets = forward.shape
    links_of_source, links_of_target = np.bincount(i), np.bincount(j)
    columns = [
        np.log(np.maximum(forward[i, j], _LEAST)),
        np.log(np.maximum(backward[i, j], _LEAST)),
        np.log(np.maximum(forward[i, j] * backward[i, j], _LEAST**2)),
        (rank_forward == 1) & (rank_backward == 1),
        np.log(rank_forward),
        np.log(rank_backward),
        similarity[i, j],
        np.abs((i + 0.5) / sources - (j + 0.5) / targets),
        np.log(links_of_source[i] + links_of_target[j] - 1),  # the link itself is among both
        np.full(len(i), np.log(min(sources, targets))),
    ]
    return np.column_stack(columns).astype(np.float64)


@dataclass(frozen=True)
class LinkConfidence:
    """A logistic regression on `FEATURES`, then an isotonic step; kept as JSON."""

    mean: list[float]  # (F,) of the features
    scale: list[float]  # (F,) their standard deviation
    weight: list[float]  # (F,) of the standardised features
    bias: float
    knots: list[float]  # logits at which the isotonic step is known, rising
    values: list[float]  # probabilities there; between them it is a straight line
    settings: dict  # what it was fitted for and on: method, units, data, calibration error

    @classmethod
    def fit(cls, features: np.ndarray, right: np.ndarray, groups: np.ndarray, **settings) -> LinkConfidence:
        """Learn from links whose correctness is known, given as by `gather`; `settings` are kept with the result.

        The isotonic step is learnt from the logits of links whose sentence the regression had not seen.
        """
        from sklearn.isotonic import IsotonicRegression

        right = np.asarray(right, bool)
        pairs = len(np.unique(groups))
        if pairs < 10 or right.all() or not right.any():
            hits = f"{right.sum()} of {len(right)} links right"
            raise ValueError(f"a confidence needs right and wrong links of 10 sentence pairs, got {pairs} with {hits}.")
        logits = np.empty(len(right))
        for seen, held_out in _folds(groups):
            mean, scale, weight, bias = _regression(features[seen], right[seen])
            logits[held_out] = (features[held_out] - mean) / scale @ weight + bias
        step = IsotonicRegression(out_of_bounds="clip", y_min=0.0, y_max=1.0).fit(logits, right)
        mean, scale, weight, bias = _regression(features, right)
        return cls(
            mean.tolist(),
            scale.tolist(),
            weight.tolist(),
            bias,
            step.X_thresholds_.tolist(),
            step.y_thresholds_.tolist(),
            settings,
        )

    def __call__(self, features: np.ndarray) -> np.ndarray:
        """(L,) probabilities that links with these (L, F) features are right."""
        logits = (features - np.array(self.mean)) / np.array(self.scale) @ np.array(self.weight) + self.bias
        return np.interp(logits, self.knots, self.values)

    def save(self, path: str | Path) -> None:
        """Write as JSON."""
        with atomic_path(path) as scratch:
            scratch.write_text(json.dumps({"features": FEATURES} | asdict(self), indent=1), encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> LinkConfidence:
        """Read what `save` wrote."""
        if not Path(path).is_file():
            raise FileNotFoundError(f"{path}: no confidence was fitted; run hfxling align with --fit_confidence GOLD.")
        try:
            content = json.loads(Path(path).read_text(encoding="utf-8"))
            if tuple(content.pop("features")) != FEATURES:
                raise ValueError("it has other features")
            return cls(**content)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ValueError(f"{path} is no confidence of this version ({error}); fit it again.") from None


def cross_validated(features: np.ndarray, right: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """(L,) probabilities of links by confidences fitted without their sentence, in 5 folds over sentence pairs."""
    probabilities = np.empty(len(right))
    for seen, held_out in _folds(groups):
        fitted = LinkConfidence.fit(features[seen], right[seen], groups[seen])
        probabilities[held_out] = fitted(features[held_out])
    return probabilities


def expected_calibration_error(probabilities, right, bins: int = BINS) -> float:
    """Mean distance, 0..1, between (L,) probability and share of right links, over bins with equally many links.

    Links of equal probability may fall into neighbouring bins.
    """
    probabilities, right = np.asarray(probabilities, np.float64), np.asarray(right, np.float64)
    # Where probabilities tie, the share of right ones among them stands for each: their order is of no matter.
    _, inverse, counts = np.unique(probabilities, return_inverse=True, return_counts=True)
    right = (np.bincount(inverse, right) / counts)[inverse]
    order = np.argsort(probabilities, kind="stable")
    distance = 0.0
    for links in np.array_split(order, bins):
        distance += abs(probabilities[links].sum() - right[links].sum())
    return float(distance / len(right))


def gather(lines: Iterable[AlignedLine], gold: Sequence) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(L, F) features, (L,) whether sure or possible, and (L,) number of the pair of all links of `AlignedPair`s."""
    features, right, groups = [], [], []
    for number, (line, pair) in enumerate(zip(lines, gold)):
        features.append(link_features(line))
        right += [link in pair.possible for link in line.links]
        groups += [number] * len(line.links)
    return np.concatenate(features), np.array(right, bool), np.array(groups)


def _folds(groups: np.ndarray) -> Iterable[tuple[np.ndarray, np.ndarray]]:
    from sklearn.model_selection import GroupKFold

    return GroupKFold(5, shuffle=True, random_state=0).split(groups, groups=groups)


def _regression(features: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    from sklearn.linear_model import LogisticRegression

    mean, scale = features.mean(0), features.std(0)
    scale = np.where(scale > 0, scale, 1.0)
    if right.all() or not right.any():  # a fold that has one kind only
        share = np.clip(right.mean(), 1e-3, 1 - 1e-3)
        return mean, scale, np.zeros(features.shape[1]), float(np.log(share / (1 - share)))
    model = LogisticRegression(max_iter=1000).fit((features - mean) / scale, right)
    return mean, scale, model.coef_[0], float(model.intercept_[0])
