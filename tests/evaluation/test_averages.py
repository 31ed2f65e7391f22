"""Means as result rows, and means over languages."""

from dataclasses import asdict

import numpy as np
import pytest

from hfxling.evaluation.averages import macro_average, mean_result
from hfxling.evaluation.significance import bootstrap_interval, paired_test, percentile_interval

DATA = {"dataset": "made up", "split": "test"}


def test_a_mean_carries_its_interval_and_the_paired_test():
    rng = np.random.default_rng(0)
    values, theirs = rng.normal(1, 1, 80), rng.normal(0, 1, 80)
    settings = {"stage": "after"}
    row = mean_result("score", values, baseline=theirs, settings=settings, samples=500, unit="", **DATA)
    assert (row.value, row.n, row.unit) == (pytest.approx(values.mean()), 80, "")
    assert (row.low, row.high) == bootstrap_interval(values, samples=500)
    assert row.settings == {"stage": "after", "paired": asdict(paired_test(values, theirs))}
    assert settings == {"stage": "after"}, "the caller's settings stay as they are"
    assert mean_result("score", values, **DATA).settings == {}


def test_every_language_counts_alike():
    groups = [np.array([1, 1, 0, 0]), np.ones(400)]
    value, low, high = macro_average(groups, samples=2000)
    assert value == 0.75
    assert low < 0.6 < 0.9 < high


def test_translations_of_the_same_items_are_drawn_together():
    hits = np.tile([1, 0], 200)
    together = macro_average([hits, 1 - hits], same_items=True, samples=500)
    apart = macro_average([hits, 1 - hits], samples=500)
    assert together == (0.5, 0.5, 0.5)
    assert apart[1] < 0.48 < 0.52 < apart[2]
    with pytest.raises(ValueError, match="equal counts, got"):
        macro_average([hits, hits[:7]], same_items=True)
    with pytest.raises(ValueError, match="at least one language"):
        macro_average([])


def test_percentiles_of_resamples():
    assert percentile_interval(np.arange(101), 0.9) == pytest.approx((5, 95))
