"""How probable a link is: a logistic regression on what links, encoder and neighbourhood say about it.

The weights are learnt from the gold links of xlwa-dev (English with seven languages) and hold for every language, as
the features are posteriors and positions, not words. `benchmarks/align_table.py --fit` learns the stored weights.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np

from .links import is_real

WEIGHTS = Path(__file__).with_name("probability.json")
# Least probability of a link, by kind of aligner: of .2, .25, ... .6 the one with the lowest error rate on xlwa-dev
# (benchmarks/align_table.py --choose). It is below .5, as a missed link costs more than a wrong one.
THRESHOLDS = {"links and encoder": 0.45, "saved and encoder": 0.45, "encoder": 0.45, "links": 0.35, "saved": 0.35}
_LEAST = 1e-4  # posteriors are clipped to this and 1 - this
Directions = tuple[np.ndarray, np.ndarray]  # (B, S, T) forward and backward weights


def link_evidence(weights: Sequence[Directions], decisive: int, sizes: np.ndarray) -> list[np.ndarray]:
    """F features of every link, (B, S, T) each, which tell right from wrong links.

    For each of the weights: the sum of both directions' log odds, and the smaller one. Then: the mean weight, other
    links of both units, links beside, along and across the diagonal, links beside if a unit is free, whether both units
    are free, and the distance from the diagonal. Source and target are treated alike, as the weights are learnt from
    pairs whose source is always English.

    Args:
        weights: posteriors or attention.
        decisive: number of the first weights whose mean judges a unit's other links and its neighbours.
        sizes: (B, 2) numbers of source and target units.
    """
    features = []
    for forward, backward in weights:
        forward, backward = _log_odds(forward), _log_odds(backward)
        features += [forward + backward, np.minimum(forward, backward)]
    mean = sum(forward + backward for forward, backward in weights[:decisive]) / (2 * decisive)
    others_of_source = np.minimum(mean.sum(2, keepdims=True) - mean, 2)
    others_of_target = np.minimum(mean.sum(1, keepdims=True) - mean, 2)
    source_free = others_of_source < 0.5
    target_free = others_of_target < 0.5
    beside = _moved(mean, 0, 1) + _moved(mean, 0, -1) + _moved(mean, 1, 0) + _moved(mean, -1, 0)
    along = _moved(mean, 1, 1) + _moved(mean, -1, -1)
    across = _moved(mean, 1, -1) + _moved(mean, -1, 1)
    beside, along, across = np.minimum([beside, along, across], 2)
    rows = (np.arange(mean.shape[1]) + 0.5)[None, :, None] / np.maximum(sizes[:, 0], 1)[:, None, None]
    columns = (np.arange(mean.shape[2]) + 0.5)[None, None, :] / np.maximum(sizes[:, 1], 1)[:, None, None]
    features += [mean, others_of_source + others_of_target, beside, along, across]
    features += [beside * source_free + beside * target_free, source_free & target_free, np.abs(rows - columns)]
    return features


def link_probability(kind: str, weights: Sequence[Directions], decisive: int, sizes: np.ndarray) -> np.ndarray:
    """(B, S, T) probability of every link, zero at padding; arguments as for `link_evidence`.

    sigmoid(bias + weight . features), with the weights of `kind`, a key of `THRESHOLDS`.
    """
    stored = _stored()[kind]
    features = link_evidence(weights, decisive, sizes)
    logit = np.full(features[0].shape, stored["bias"])
    for weight, feature in zip(stored["weight"], features, strict=True):
        logit += weight * feature
    return is_real(logit.shape, sizes) / (1 + np.exp(-logit))


@cache
def _stored() -> dict[str, dict]:
    return json.loads(WEIGHTS.read_text(encoding="utf-8"))


def _log_odds(matrix: np.ndarray) -> np.ndarray:
    clipped = np.clip(matrix, _LEAST, 1 - _LEAST)
    return np.log(clipped / (1 - clipped))


def _moved(matrix: np.ndarray, down: int, right: int) -> np.ndarray:
    """(B, S, T) with the entry of another place: result[i, j] = matrix[i - down, j - right], zero outside."""
    padded = np.pad(matrix, ((0, 0), (1, 1), (1, 1)))
    _, height, width = matrix.shape
    return padded[:, 1 - down : 1 - down + height, 1 - right : 1 - right + width]
