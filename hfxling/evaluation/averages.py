"""Means of per-item scores with their bootstrap intervals: of one test set as a result row, and over languages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

import numpy as np

from .items import mean_items
from .results import EvalResult
from .significance import bootstrap_interval, paired_test, percentile_interval


def mean_result(
    metric: str, values, *, baseline=None, settings: Mapping | None = None, samples: int = 10_000, **fields
) -> EvalResult:
    """The mean of (N,) per-item scores as a result row, with its bootstrap 95% interval.

    `baseline` is (N,) another system's scores of the same items; the settings then carry the paired test as "paired".
    `fields` are further ones of `EvalResult`: unit, dataset, split, revision, direction, model, seed.

    Raises:
        ValueError: as `bootstrap_interval` and `paired_test`.
    """
    low, high = bootstrap_interval(values, samples=samples)
    about = dict(settings or {})
    if baseline is not None:
        about["paired"] = asdict(paired_test(values, baseline))
    fields |= {"low": low, "high": high, "settings": about, "items": mean_items(values)}
    return EvalResult(metric, float(np.mean(values)), len(values), **fields)


def macro_average(
    groups: Sequence[np.ndarray], *, same_items: bool = False, samples: int = 10_000, seed: int = 0
) -> tuple[float, float, float]:
    """The mean of the groups' means and its 95% bootstrap interval: (value, low, high) in the unit of the scores.

    `groups` are the (N_g,) per-item scores of every group (language), which count alike. With `same_items` they are
    translations of the same items, row by row, as in XNLI: an item is then drawn with all its translations. Otherwise
    every group is resampled by itself, as for Tatoeba.

    Raises:
        ValueError: no group, an empty group, or unequal sizes where `same_items` is set.
    """
    groups = [np.asarray(group, dtype=np.float64) for group in groups]
    if not groups or not all(group.size for group in groups):
        raise ValueError("An average over languages needs at least one language, and scores of each.")
    value = float(np.mean([group.mean() for group in groups]))
    if same_items:
        if len({len(group) for group in groups}) > 1:
            raise ValueError(f"Translations of the same items have equal counts, got {[len(g) for g in groups]}.")
        return value, *bootstrap_interval(np.mean(groups, axis=0), samples=samples, seed=seed)
    rng, means = np.random.default_rng(seed), np.zeros(samples)
    for group in groups:
        distinct, counts = np.unique(group, return_counts=True)  # hits and misses: a draw is two counts
        means += rng.multinomial(len(group), counts / len(group), size=samples) @ distinct / len(group)
    return value, *percentile_interval(means / len(groups))
