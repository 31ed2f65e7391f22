from itertools import product

import numpy as np
import pytest
from scipy.stats import binom, binomtest, norm

from hfxling.evaluation import significance
from hfxling.evaluation.significance import bootstrap_interval, paired_test


def hits(n, k):
    return np.arange(n) < k


def brute_force_p(difference):
    observed = abs(sum(difference)) - 1e-9
    sums = [abs(sum(s * d for s, d in zip(signs, difference))) for signs in product((1, -1), repeat=len(difference))]
    return np.mean(np.array(sums) >= observed)


@pytest.mark.parametrize(("n", "k", "level"), [(454, 190, 0.95), (100, 3, 0.95), (50, 25, 0.8)])
def test_interval_of_hits_has_the_binomial_quantiles(n, k, level):
    tails = [(1 - level) / 2, (1 + level) / 2]
    expected = binom.ppf(tails, n, k / n) / n
    np.testing.assert_allclose(bootstrap_interval(hits(n, k), level=level, samples=50_000), expected, atol=1.01 / n)


def test_interval_of_real_scores_approaches_the_normal_one():
    values = np.random.default_rng(1).exponential(size=2000)
    half = norm.ppf(0.975) * values.std() / len(values) ** 0.5
    np.testing.assert_allclose(bootstrap_interval(values), values.mean() + np.array([-half, half]), atol=half / 10)


def test_both_ways_of_resampling_agree(monkeypatch):
    values = np.random.default_rng(2).integers(0, 6, size=300)
    by_counts = bootstrap_interval(values)
    monkeypatch.setattr(significance, "_MAX_DISTINCT", 0)
    monkeypatch.setattr(significance, "_CHUNK", 100_000)
    np.testing.assert_allclose(bootstrap_interval(values), by_counts, atol=0.02)


def test_the_95_percent_interval_covers_the_truth_95_percent_of_the_time():
    rng = np.random.default_rng(3)
    covered = 0
    for trial in range(600):
        low, high = bootstrap_interval(rng.random(300) < 0.3, samples=1000, seed=trial)
        covered += low <= 0.3 <= high
    assert 0.925 <= covered / 600 <= 0.975


def test_the_seed_decides_the_interval():
    values = np.random.default_rng(4).random(200)
    assert bootstrap_interval(values, seed=1) == bootstrap_interval(values, seed=1)
    assert bootstrap_interval(values, seed=1) != bootstrap_interval(values, seed=2)


def test_constant_scores_have_an_interval_without_width():
    assert bootstrap_interval(np.ones(10)) == (1, 1)


@pytest.mark.parametrize(
    ("only_a", "only_b", "both"), [(9, 1, 40), (3, 3, 0), (0, 1, 5), (300, 240, 900), (70, 20, 10)]
)
def test_hits_give_mcnemars_exact_p(only_a, only_b, both):
    a = np.repeat([1, 0, 1], [only_a, only_b, both])
    b = np.repeat([0, 1, 1], [only_a, only_b, both])
    test = paired_test(a, b)
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


def test_identical_scores_are_no_difference():
    assert vars(paired_test([1, 0, 1], [1, 0, 1])) == {"difference": 0, "low": 0, "high": 0, "p_value": 1}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: bootstrap_interval([]), "non-empty"),
        (lambda: bootstrap_interval([[1.0]]), "shape"),
        (lambda: bootstrap_interval([1.0, float("nan")]), "1 of 2 scores are NaN or infinite, the first at position 1"),
        (lambda: bootstrap_interval([1.0], level=95), "level=95"),
        (lambda: bootstrap_interval([1.0], samples=0), "samples=0"),
        (lambda: paired_test([1, 0], [1]), "got 2 and 1"),
    ],
)
def test_unusable_scores_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
