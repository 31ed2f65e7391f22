"""Means of per-item scores with their 95 % intervals: of one test set as a result row, and over languages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

import numpy as np

from .items import mean_items
from .results import EvalResult
from .significance import Interval, average_interval, mean_interval, paired_test


def mean_result(
    metric: str, values, *, baseline=None, settings: Mapping | None = None, unit: str = "%", **fields
) -> EvalResult:
    """The mean of (N,) per-item scores as a result row, with its 95% interval; hits are 100 in "%", else 1.

    `baseline` is (N,) another system's scores of the same items; the settings then carry the paired test as "paired".
    `fields` are further ones of `EvalResult`: dataset, split, revision, direction, model, seed.
    """
    hit = 100.0 if unit == "%" else 1.0
    low, high = mean_interval(values, hit=hit)
    row_settings = dict(settings or {})
    if baseline is not None:
        row_settings["paired"] = asdict(paired_test(values, baseline, hit=hit))
    fields |= {"unit": unit, "low": low, "high": high, "settings": row_settings, "items": mean_items(values)}
    return EvalResult(metric, float(np.mean(values)), len(values), **fields)


def macro_average(groups: Sequence[np.ndarray], *, same_items: bool = False) -> tuple[float, Interval]:
    """The mean of the groups' means and its 95% interval: (value, (low, high)), in percent.

    `groups` are the (N_g,) per-item scores of every group (language), which count alike. With `same_items` they are
    translations of the same items, row by row, as in XNLI, and items are what varies. Otherwise the groups are
    independent of each other, as for Tatoeba.
    """
    groups = [np.asarray(group, dtype=np.float64) for group in groups]
    if not groups or not all(group.size for group in groups):
        raise ValueError("An average over languages needs at least one language, and scores of each.")
    values = [float(group.mean()) for group in groups]
    if not same_items:
        return float(np.mean(values)), average_interval(values, [*map(mean_interval, groups)])
    sizes = [len(group) for group in groups]
    if len(set(sizes)) > 1:
        raise ValueError(f"Translations of the same items have equal counts, got {sizes}.")
    return float(np.mean(values)), mean_interval(np.mean(groups, axis=0))
