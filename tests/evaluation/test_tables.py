"""Columns of a study's table; the forecast of a learning curve: exact on a line, bands that hold on noise."""

import re

import numpy as np
import pytest

from hfxling.evaluation.results import EvalResult
from hfxling.evaluation.tables import forecast, study_table


def row(metric, **settings):
    return EvalResult(metric, 50.0, 9, "made", "test", settings={"stage": "after", "row": "x"} | settings)


def test_a_figure_without_centring_is_not_called_centred():
    rows = [row("P@1", centering="none"), row("P@1", centering="train"), row("AER", method="itermax")]
    header, _ = study_table(rows, [{"label": "x"}])
    assert header[2:] == ["P@1", "P@1 centred (train)", "AER itermax"]


def test_a_mean_over_seeds_says_over_how_many():
    lines = study_table([row("P@1", by_seed=[0.1, 0.3, 0.2])], [{"label": "x"}])[1]
    assert lines[0][:2] == ["x", 3]
    assert study_table([row("P@1")], [{"label": "x"}])[1][0][1] == 1


SIZES = np.repeat([250, 500, 1000, 2000], 3)


def line(sizes, noise=0.0, seed=0):
    return 10 + 4 * np.log2(sizes) + noise * np.random.default_rng(seed).standard_normal(len(sizes))


def test_a_line_is_read_off_exactly():
    found = forecast(SIZES, line(SIZES), extra=2000)
    expected = 10 + 4 * np.log2(4000)
    assert found.size == 4000
    assert (found.value, found.low, found.high) == pytest.approx((expected,) * 3)
    assert (found.gain, found.gain_low, found.gain_high) == pytest.approx((4, 4, 4))


def test_bands_by_hand():
    # x = 0, 1, 2: slope 0, mean 1, residuals -1, 2, -1 with one degree of freedom (t = 6.3138), read off at x = 3.
    found = forecast([1, 2, 4], [0, 3, 0], extra=4)
    assert (found.size, found.value, found.gain) == (8, pytest.approx(1), pytest.approx(0))
    margin, gain_margin = 6.3138 * (6 * (1 + 1 / 3 + 4 / 2)) ** 0.5, 6.3138 * (6 / 2) ** 0.5
    assert (found.low, found.high) == pytest.approx((1 - margin, 1 + margin), rel=1e-4)
    assert (found.gain_low, found.gain_high) == pytest.approx((-gain_margin, gain_margin), rel=1e-4)


def test_the_bands_hold_a_further_run_and_the_gain_nine_times_in_ten():
    sizes, trials = [250, 500, 1000, 2000], 300
    further_runs, gain = line(np.full(trials, 3000), noise=1.0, seed=9999), 4 * np.log2(3000 / 2000)
    hits = np.zeros(2)
    for seed, score in enumerate(further_runs):
        found = forecast(sizes, line(sizes, 1.0, seed))
        hits += found.low <= score <= found.high, found.gain_low <= gain <= found.gain_high
    assert hits / trials == pytest.approx(0.9, abs=0.05)


@pytest.mark.parametrize(
    ("sizes", "listed"),
    [([500, 500, 500], "3 (sizes: 500)"), ([500, 1000], "2 (sizes: 500, 1000)"), ([], "0 (sizes: none)")],
)
def test_too_few_runs(sizes, listed):
    with pytest.raises(ValueError, match=re.escape(f"three runs with at least two sizes, got {listed}")):
        forecast(sizes, np.ones(len(sizes)))
