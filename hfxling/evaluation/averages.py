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

    `baseline` are (N,) scores of another system on the same items; the settings then hold the paired test as "paired".
    `fields` are further fields of `EvalResult`: dataset, split, revision, direction, model, seed.
    """
    hit = 100.0 if unit == "%" else 1.0
    low, high = mean_interval(values, hit=hit)
    row_settings = dict(settings or {})
    if baseline is not None:
        row_settings["paired"] = asdict(paired_test(values, baseline, hit=hit))
    fields |= {"unit": unit, "low": low, "high": high, "settings": row_settings, "items": mean_items(values)}
    return EvalResult(metric, float(np.mean(values)), len(values), **fields)


def macro_average(groups: Sequence[np.ndarray]) -> tuple[float, Interval]:
    """The mean of the groups' means and its 95% interval: (value, (low, high)), in percent.

    `groups` are the (N_g,) per-item scores of each group (language). Groups count equally and are independent of each
    other, as for Tatoeba.
    """
    values = [float(np.mean(group)) for group in groups]
    return float(np.mean(values)), average_interval(values, [*map(mean_interval, groups)])
