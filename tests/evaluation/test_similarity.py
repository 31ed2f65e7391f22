"""Correlations with human scores against scipy, and the readers of the two benchmarks."""

import numpy as np
import pytest
from scipy import stats

from hfxling.data.scored import ScoredPairs, read_qe, read_scored, read_sts17
from hfxling.evaluation.similarity import (
    compare_correlations,
    correlation_interval,
    correlation_results,
    cosines,
    pearson,
    williams_test,
)


def scored(n=200, seed=0, name="en->de", apart=False):
    gold = np.random.default_rng(seed).standard_normal(n)
    return ScoredPairs("QE", "test", name, ["s"] * n, ["t"] * n, gold, apart)


def noisy(pairs, noise, seed=1):
    return pairs.scores + noise * np.random.default_rng(seed).standard_normal(len(pairs.scores))


def test_pearson_is_scipys_even_far_from_zero():
    a, b = np.random.default_rng(0).standard_normal((2, 50))
    assert pearson(a, a + b) == pytest.approx(stats.pearsonr(a, a + b).statistic, abs=1e-12)
    assert pearson(1e6 + a, a + b) == pytest.approx(stats.pearsonr(a, a + b).statistic, abs=1e-6)


def test_the_jackknifes_error_is_that_of_leaving_out_each_row():
    pairs = scored(40)
    a, b = noisy(pairs, 1), noisy(pairs, 2, seed=2)
    rows = [np.arange(40) != i for i in range(40)]
    left = [pearson(pairs.scores[kept], a[kept]) - pearson(pairs.scores[kept], b[kept]) for kept in rows]
    test = compare_correlations([(pairs.scores, a, b)])
    half = stats.t.ppf(0.975, 39) * np.sqrt(39 * np.var(left))
    assert (test.low, test.high) == pytest.approx((test.difference - half, test.difference + half))


POPULATIONS = {  # of variance 1
    "normal": lambda rng, n: rng.standard_normal((2, n)),
    "heavy-tailed": lambda rng, n: rng.standard_normal((2, n)) * np.sqrt(7 / rng.chisquare(9, n)),
}


@pytest.mark.parametrize("population", POPULATIONS)
def test_intervals_cover_as_often_as_they_say(population):
    """Of the correlation, of the difference of two systems' and of the average over sets."""
    rng, found = np.random.default_rng(0), []
    for _ in range(400):
        sets = []
        for _ in range(2):
            gold, noise = POPULATIONS[population](rng, 300)
            sets.append((gold, 0.6 * gold + 0.8 * noise, 0.6 * gold + 0.8 * noise + 0.5 * rng.standard_normal(300)))
        single, several = (compare_correlations(some) for some in (sets[:1], sets))
        ends = np.array([correlation_interval(*sets[0][:2]), (single.low, single.high), (several.low, several.high)])
        truth = np.array([0.6, *[0.6 - 0.6 / 1.25**0.5] * 2])
        found.append((ends[:, 0] <= truth) & (truth <= ends[:, 1]))
    covered = 100 * np.mean(found, axis=0)
    assert ((covered >= 93) & (covered <= 97)).all(), covered


def test_fishers_interval_is_met_where_its_assumption_holds():
    gold, noise = np.random.default_rng(1).standard_normal((2, 5000))
    system = 0.6 * gold + 0.8 * noise
    fisher = stats.pearsonr(gold, system).confidence_interval()
    np.testing.assert_allclose(correlation_interval(gold, system), fisher, atol=0.002)


def test_perfect_correlation_has_an_interval():
    values = np.arange(10.0)
    assert correlation_interval(values, values) == pytest.approx((1, 1))


def test_williams_test_finds_what_is_there_and_only_that():
    pairs = scored(1000)
    close, far = noisy(pairs, 1), noisy(pairs, 1.3, seed=2)
    assert williams_test(pairs.scores, close, far) < 1e-3
    assert williams_test(pairs.scores, close, far) == pytest.approx(williams_test(pairs.scores, far, 3 * close - 1))
    assert williams_test(pairs.scores[:50], close[:50], far[:50]) > 0.01
    assert williams_test(pairs.scores, close, close * 2 + 1) == pytest.approx(1)


def test_williams_false_alarms_are_as_many_as_promised():
    rng, rejected = np.random.default_rng(1), 0
    for _ in range(400):
        gold, a, b = rng.standard_normal((3, 80))
        rejected += williams_test(gold, gold + a, gold + b) < 0.05
    assert 8 <= rejected <= 34


def test_rows_and_average():
    sets = [scored(), scored(seed=5, name="ro->en"), scored(seed=6, name="wmt", apart=True)]
    good, bad = ([noisy(s, noise) for s in sets] for noise in (0.5, 3))
    rows = {
        (r.metric, r.direction): r for r in correlation_results(sets, good, baseline=bad, settings={"stage": "after"})
    }
    assert set(rows) == {
        *((metric, s.direction) for metric in ("Pearson", "Spearman") for s in sets),
        ("Pearson avg", None),
    }
    for pairs, system in zip(sets, good):
        row = rows["Pearson", pairs.direction]
        assert row.value == pytest.approx(stats.pearsonr(pairs.scores, system).statistic)
        assert rows["Spearman", pairs.direction].value == pytest.approx(stats.spearmanr(pairs.scores, system).statistic)
        assert row.low < row.value < row.high
        assert row.settings["paired"]["p_value"] < 1e-6
        assert 0 < row.settings["paired"]["low"] < row.settings["paired"]["difference"]
    average = rows["Pearson avg", None]
    assert average.value == pytest.approx(np.mean([rows["Pearson", s.direction].value for s in sets[:2]]))
    assert average.settings["average_of"] == ["en->de", "ro->en"]
    assert average.n == 400
    assert average.settings["paired"]["p_value"] < 0.01
    assert (average.high - average.low) < min(
        rows["Pearson", s.direction].high - rows["Pearson", s.direction].low for s in sets
    )


def test_an_equal_system_is_not_significant():
    sets = [scored(), scored(seed=5)]
    same = [noisy(s, 1) for s in sets]
    rows = correlation_results(sets, same, baseline=same)
    assert {row.settings["paired"]["p_value"] for row in rows if "paired" in row.settings} == {1.0}


def test_cosines_are_of_the_row_with_its_own_target():
    source, target = np.array([[2.0, 0], [0, 3]]), np.array([[1.0, 1], [0, -5]])
    np.testing.assert_allclose(cosines(source, target), [np.sqrt(0.5), -1], atol=1e-7)
    with pytest.raises(ValueError, match="rows must pair up"):
        cosines(source, target[:1])
    source[0] = 0
    np.testing.assert_allclose(cosines(source, target), [0, -1], atol=1e-7)


BAD = {
    "no number": ("source\ttarget\tscore\na\tb\t1\nc\td\tx\n", "line 3: score='x' is not a finite number"),
    "nan": ("source\ttarget\tscore\na\tb\tnan\n", "line 2: score='nan' is not a finite number"),
    "empty side": ("source\ttarget\tscore\na\t \t1\n", "line 2: the target side \\(target\\) is empty"),
    "no column": ("source\ttarget\tmark\na\tb\t1\n", "no column 'score' among"),
    "constant": ("source\ttarget\tscore\n" + "a\tb\t1\n" * 5, "5 rows with 1 scores have no correlation"),
}


@pytest.mark.parametrize("case", BAD)
def test_malformed_files_are_refused_with_their_line(case, tmp_path):
    text, message = BAD[case]
    path = tmp_path / "pairs.tsv"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        read_scored(path, dataset="x", split="test", direction="en->de")


def test_missing_files_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such file of scored pairs"):
        read_scored(tmp_path / "no.tsv", dataset="x", split="test", direction="en->de")
    for read in (read_qe, read_sts17):
        with pytest.raises(FileNotFoundError, match="give the folder of"):
            read(tmp_path)


@pytest.mark.parametrize("scores", [np.ones(5), np.array([1.0, 2, 3]), np.array([1, 2, 3, np.nan])])
def test_scores_without_a_correlation_are_refused(scores):
    with pytest.raises(ValueError, match=r"scores"):
        pearson(scores, np.arange(len(scores)))


@pytest.mark.shared
def test_the_benchmarks_are_read_whole(shared_data):
    qe, sts = read_qe(shared_data / "mlqe"), read_sts17(shared_data / "sts17")
    assert [p.direction for p in qe] == ["en->de", "en->zh", "et->en", "ne->en", "ro->en", "si->en"]
    assert {len(p.scores) for p in qe} == {1000}
    assert [p.direction for p in sts] == ["ar-ar", "en-ar", "en-en", "en-es-wmt", "en-tr", "es-en", "es-es"]
    assert [p.direction for p in sts if p.apart] == ["en-es-wmt"]
    assert {len(p.source) for p in sts} == {250}
    assert all(p.scores.min() >= 0 and p.scores.max() <= 5 for p in sts)
