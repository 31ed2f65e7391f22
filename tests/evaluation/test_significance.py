from itertools import product

import numpy as np
import pytest
from scipy.stats import binomtest, norm, ttest_1samp

from hfxling.evaluation import significance
from hfxling.evaluation.averages import macro_average
from hfxling.evaluation.significance import (
    average_interval,
    difference_interval,
    jackknife_error,
    mean_interval,
    paired_test,
    ratio_interval,
)


def hits(n, k):
    return np.arange(n) < k


def brute_force_p(difference):
    observed = abs(sum(difference)) - 1e-9
    sums = [abs(sum(s * d for s, d in zip(signs, difference))) for signs in product((1, -1), repeat=len(difference))]
    return np.mean(np.array(sums) >= observed)


@pytest.mark.parametrize("hit", [100.0, 1.0])
@pytest.mark.parametrize(("n", "k"), [(454, 190), (100, 100), (50, 0), (1, 1)])
def test_interval_of_hits_is_wilsons(n, k, hit):
    z, rate = norm.ppf(0.975), k / n
    half = z * np.sqrt(rate * (1 - rate) / n + z**2 / (4 * n**2))
    expected = hit * (rate + z**2 / (2 * n) + np.array([-half, half])) / (1 + z**2 / n)
    np.testing.assert_allclose(mean_interval(hit * hits(n, k), hit=hit), expected, atol=1e-9)


def test_100_of_100_has_a_width():
    low, high = mean_interval(np.full(100, 100.0))
    assert low == pytest.approx(96.3, abs=0.05)
    assert high == 100


def test_interval_of_real_scores_is_students():
    values = np.random.default_rng(1).exponential(size=30)
    np.testing.assert_allclose(mean_interval(values), ttest_1samp(values, 0).confidence_interval(), rtol=1e-12)


def covering(simulate, truth, trials=600):
    """Share of the intervals that contain the truth, in percent."""
    ends = np.array([simulate(np.random.default_rng(trial)) for trial in range(trials)])
    return 100 * np.mean((ends[:, 0] <= truth) & (truth <= ends[:, 1]))


def ratio(sums):
    return 100 * sums[..., 0] / sums[..., 1]


def sentences(rng):
    links = rng.integers(1, 12, size=150)
    items = np.stack([rng.binomial(links, rng.beta(6, 4, size=150)), links], 1)
    return ratio_interval(ratio(items.sum(0)), jackknife_error(ratio, items), len(items))


def languages(rng):
    groups = [100.0 * (rng.random(size) < rate) for size, rate in ((60, 0.7), (100, 0.98), (400, 0.5))]
    return macro_average(groups)[1]


COVERED = {
    "a rate": (lambda rng: mean_interval(100.0 * (rng.random(454) < 0.3)), 30),
    "a rate near 100": (lambda rng: mean_interval(100.0 * (rng.random(454) < 0.97)), 97),
    "a mean": (lambda rng: mean_interval(rng.gamma(3, size=80)), 3),
    "a mean over seeds": (lambda rng: mean_interval(100.0 * (rng.random((3, 300)) < 0.6).mean(0)), 60),
    "a ratio of sums": (sentences, 60),
    "an average of languages": (languages, 100 * (0.7 + 0.98 + 0.5) / 3),
    "a difference of hits": (lambda rng: paired_difference(rng, 454, 0.15, 0.1), 5),
}


@pytest.mark.parametrize("what", COVERED)
def test_95_percent_intervals_cover_the_truth_95_percent_of_the_time(what):
    assert 93 <= covering(*COVERED[what]) <= 97


def test_a_rate_drawn_at_random_is_covered_95_percent_of_the_time():
    rng, covered = np.random.default_rng(3), 0
    for rate, n in zip(rng.uniform(0.01, 0.99, 1500), rng.integers(30, 500, 1500)):
        low, high = mean_interval(hits(n, rng.binomial(n, rate)), hit=1)
        covered += low <= rate <= high
    assert 0.935 <= covered / 1500 <= 0.965


def test_a_difference_of_few_hits_is_covered_rather_too_often():
    assert 95 <= covering(lambda rng: paired_difference(rng, 454, 0.01, 0.01), 0) < 99.5


def paired_difference(rng, n, better, worse):
    return difference_interval(100.0 * rng.choice([1, -1, 0], size=n, p=[better, worse, 1 - better - worse]))


def test_equal_hits_leave_a_width_and_equal_scores_none():
    same = paired_test(100.0 * hits(500, 300), 100.0 * hits(500, 300))
    assert (same.difference, same.p_value) == (0, 1)
    assert same.low == -same.high == pytest.approx(-0.552, abs=0.01)
    assert vars(paired_test([0.2, 0.7], [0.2, 0.7])) == {"difference": 0, "low": 0, "high": 0, "p_value": 1}


@pytest.mark.parametrize("n", [1, 3, 20])
def test_a_difference_never_leaves_the_scale(n):
    test = paired_test(np.full(n, 100.0), np.zeros(n))
    assert test.low < test.difference == test.high == 100


def test_the_jackknife_of_a_mean_is_its_standard_error():
    values = np.random.default_rng(2).normal(size=40)
    error = jackknife_error(lambda sums: sums[..., :1] / sums[..., 1:], np.stack([values, np.ones(40)], 1))
    np.testing.assert_allclose(error, [values.std(ddof=1) / 40**0.5], rtol=1e-9)


def test_a_ratio_without_a_single_fault_has_wilsons_width():
    items = np.full((100, 2), 3)
    assert ratio_interval(100.0, jackknife_error(ratio, items), 100) == mean_interval(np.full(100, 100.0))
    assert ratio_interval(0.0, 0.0, 100) == mean_interval(np.zeros(100))
    assert ratio_interval(99.0, 2.0, 100)[1] == 100
    assert ratio_interval(1.0, 2.0, 100)[0] == 0


def test_an_average_of_equal_intervals_is_narrower_by_the_root_of_their_number():
    assert average_interval([50, 70, 30, 50], [(40, 58), (60, 78), (20, 38), (40, 58)]) == pytest.approx((45, 54))
    assert average_interval([50, 70], [(40, 58), (None, None)]) == (None, None)


def test_a_single_score_has_no_interval():
    assert mean_interval([0.4]) == ratio_interval(50.0, 0.0, 1) == (None, None)
    assert vars(paired_test([0.4], [0.3])) | {"difference": 0.1} == {
        "difference": 0.1,
        "low": None,
        "high": None,
        "p_value": 1,
    }


@pytest.mark.parametrize(
    ("only_a", "only_b", "both"), [(9, 1, 40), (3, 3, 0), (0, 1, 5), (300, 240, 900), (70, 20, 10)]
)
def test_hits_give_mcnemars_exact_p(only_a, only_b, both):
    a = np.repeat([1, 0, 1], [only_a, only_b, both])
    b = np.repeat([0, 1, 1], [only_a, only_b, both])
    test = paired_test(a, b, hit=1)
    assert test.p_value == pytest.approx(binomtest(only_a, only_a + only_b).pvalue, rel=1e-6)
    assert test.difference == pytest.approx((only_a - only_b) / len(a))
    assert test.low <= test.difference <= test.high


def test_real_scores_give_the_exact_permutation_p():
    difference = np.random.default_rng(5).normal(0.4, 1, size=10)
    assert paired_test(difference, np.zeros(10)).p_value == pytest.approx(brute_force_p(difference))


def test_averages_over_seeds_are_grouped_in_spite_of_float_noise():
    a = np.array([1 / 3, 1, 1, 2 / 3, 1, 1, 1 / 3, 1])
    b = np.array([0, 2 / 3, 2 / 3, 1 / 3, 1 / 3, 0, 2 / 3, 1])
    assert paired_test(a, b).p_value == pytest.approx(brute_force_p(a - b))


def test_drawn_flips_approach_the_exact_p(monkeypatch):
    difference = np.random.default_rng(6).normal(0.1, 1, size=18)
    exact = paired_test(difference, np.zeros(18)).p_value
    monkeypatch.setattr(significance, "_MAX_OUTCOMES", 1)
    assert paired_test(difference, np.zeros(18)).p_value == pytest.approx(exact, abs=0.015)
    assert 0.05 < exact < 0.95


def test_drawn_flips_of_equal_sizes_approach_the_exact_p(monkeypatch):
    a, b = np.random.default_rng(12).integers(0, 3, size=(2, 40)) / 2
    exact = paired_test(a, b).p_value
    monkeypatch.setattr(significance, "_MAX_OUTCOMES", 1)
    assert paired_test(a, b).p_value == pytest.approx(exact, abs=0.015)
    assert 0.05 < exact < 0.95


def test_averages_over_seeds_stay_exact_for_many_items():
    a, b = np.random.default_rng(10).random((2, 3, 300)) < [[[0.6]], [[0.5]]]
    test = paired_test(a.mean(axis=0), b.mean(axis=0), samples=9)
    assert test.p_value < 0.01, "nine drawn flips could not say less than 1/10"


def test_drawn_flips_never_claim_more_than_their_number_allows():
    always_better = np.random.default_rng(11).uniform(1, 2, size=60)
    assert paired_test(always_better, np.zeros(60), samples=99).p_value == pytest.approx(1 / 100)


def test_the_p_value_does_not_depend_on_the_unit():
    a, b = np.random.default_rng(7).random((2, 12))
    assert paired_test(a, b).p_value == pytest.approx(paired_test(1e-6 * a, 1e-6 * b).p_value)


def test_swapping_the_models_changes_only_the_sign():
    a, b = np.random.default_rng(8).random((2, 400)) < [[0.6], [0.5]]
    ab, ba = paired_test(a, b), paired_test(b, a)
    assert ab.difference == -ba.difference
    assert ab.p_value == pytest.approx(ba.p_value)


def test_equal_models_differ_significantly_in_five_percent_of_cases_at_most():
    rng = np.random.default_rng(9)
    p_values = [paired_test(*(rng.random((2, 150)) < 0.5), samples=10).p_value for _ in range(500)]
    assert 0.01 < np.mean(np.array(p_values) < 0.05) < 0.065


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mean_interval([]), "non-empty"),
        (lambda: mean_interval([[1.0]]), "shape"),
        (lambda: mean_interval([1.0, float("nan")]), "1 of 2 scores are NaN or infinite, the first at position 1"),
        (lambda: paired_test([1, 0], [1]), "got 2 and 1"),
    ],
)
def test_unusable_scores_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
