"""Means over languages with their bootstrap intervals."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .significance import bootstrap_interval


def macro_average(
    groups: Sequence[np.ndarray], *, same_items: bool = False, samples: int = 10_000, seed: int = 0
) -> tuple[float, float, float]:
    """The mean of the groups' means, each group counting alike, and its 95% bootstrap interval.

    Args:
        groups: per-item scores of every group (language), (N_g,) each.
        same_items: the groups are translations of the same items, row by row, as in XNLI: an item is then drawn with
            all its translations. Otherwise every group is resampled by itself, as for Tatoeba.
        samples: resamples drawn.
        seed: of the resampling.

    Returns:
        (value, low, high) in the unit of the scores.

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
    low, high = np.quantile(means / len(groups), [0.025, 0.975])
    return value, float(low), float(high)
