"""Means as result rows, and means over languages."""

from dataclasses import asdict

import numpy as np
import pytest

from hfxling.evaluation.averages import macro_average, mean_result
from hfxling.evaluation.significance import mean_interval, paired_test

DATA = {"dataset": "made up", "split": "test"}


def test_a_mean_carries_its_interval_and_the_paired_test():
    rng = np.random.default_rng(0)
    values, theirs = rng.normal(1, 1, 80), rng.normal(0, 1, 80)
    settings = {"stage": "after"}
    row = mean_result("score", values, baseline=theirs, settings=settings, unit="", **DATA)
    assert (row.value, row.n, row.unit) == (pytest.approx(values.mean()), 80, "")
    assert (row.low, row.high) == mean_interval(values)
    assert row.settings == {"stage": "after", "paired": asdict(paired_test(values, theirs))}
    assert settings == {"stage": "after"}, "the caller's settings stay as they are"
    assert mean_result("score", values, **DATA).settings == {}


def test_every_language_counts_alike():
    groups = [np.array([100, 100, 0, 0]), np.full(400, 100)]
    value, (low, high) = macro_average(groups)
    assert value == 75
    assert low < 60 < 90 < high


def test_groups_vary_apart_from_each_other():
    hits = np.tile([100, 0], 200)
    _, (low, high) = macro_average([hits, 100 - hits])
    assert low < 48 < 52 < high


def test_hits_are_100_in_percent_and_1_without_a_unit():
    for hit, unit in ((100.0, "%"), (1.0, "")):
        row = mean_result("hits", np.zeros(50), baseline=np.zeros(50), unit=unit, **DATA)
        assert (row.low, row.high) == (0, pytest.approx(0.0713 * hit, rel=0.01))
        assert row.settings["paired"]["high"] == pytest.approx(0.0533 * hit, rel=0.05)
