"""Comparing models by their items: planted differences, equal models, correction, files, what is refused."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import hfxling
from hfxling.cli import main
from hfxling.data.scored import ScoredPairs
from hfxling.evaluation.averages import macro_average, mean_result
from hfxling.evaluation.compare import Comparisons, compare_results, paired
from hfxling.evaluation.evaluate import Evaluation
from hfxling.evaluation.items import Items, mean_items
from hfxling.evaluation.mining import f1_of
from hfxling.evaluation.results import EvalResult, read_results, write_results
from hfxling.evaluation.significance import holm, paired_test
from hfxling.evaluation.similarity import correlation_results, pearson

FIELDS = {"dataset": "d", "split": "test", "revision": "r1", "direction": "zh->vi"}
SETTINGS = {"task": "retrieval", "method": "cosine"}


def rows_of(seed: int, share: float, **fields) -> list[EvalResult]:
    """A row of each kind of items, of an imagined model."""
    rng = np.random.default_rng(seed)
    about = {"settings": SETTINGS} | FIELDS | fields
    hits = 100.0 * (rng.random(300) < share)
    gold = np.linspace(0, 1, 300)
    scores = gold * share + rng.random(300)
    right = (rng.random(300) < share).astype(float)
    counts = np.stack([right, np.ones(300), np.ones(300)], 1)
    correlated = Items("pearson", (np.stack([gold, scores], 1),))
    return [
        mean_result("P@1", hits, **about),
        mean_result("alignment", rng.random(300) + share, unit="", **about),
        EvalResult("pearson", pearson(gold, scores), 300, unit="", items=correlated, **about),
        EvalResult("mining F1", f1_of(counts.sum(0)), 300, items=Items("F1", (counts,)), **about),
    ]


@pytest.fixture
def measured(tmp_path) -> Path:
    """A model twice, a better one, the first on other text, one without items, and one whose figure was changed."""
    weak = rows_of(0, 0.4)
    runs = {
        "a": weak,
        "same": weak,
        "b": rows_of(1, 0.8),
        "c": rows_of(0, 0.4, revision="r2"),
        "bare": [replace(row, items=None) for row in weak],
        "changed": [replace(weak[0], value=weak[0].value + 5), *weak[1:]],
    }
    for name, rows in runs.items():
        write_results(tmp_path / name / "results.json", rows, with_items=True)
    return tmp_path


def files(folder: Path, *names: str) -> list[str]:
    return [str(folder / name / "results.json") for name in names]


def test_equal_models_cannot_be_told_apart_and_others_can(measured):
    result = hfxling.compare(files(measured, "a", "same", "b"))
    same, other = result.comparisons[:4], result.comparisons[4:]
    assert [one.first.metric for one in same] == ["P@1", "alignment", "pearson", "mining F1"]
    assert {one.p_value for one in same} == {1.0}
    assert [one.verdict() for one in other] == ["higher"] * 4
    assert result.table().count("| higher") == 4
    for one in other:
        assert one.test.difference == pytest.approx(one.other.value - one.first.value, abs=1e-4)
    assert result.table().count("not distinguishable") == 4


def test_metrics_can_be_chosen_and_the_command_says_the_same(measured, capsys):
    result = hfxling.compare(files(measured, "a", "b"), metrics=["P@1", "pearson"], level=0.01)
    assert [one.first.metric for one in result.comparisons] == ["P@1", "pearson"]
    main(["compare", *files(measured, "a", "b"), "--metrics", "P@1", "pearson", "--level", "0.01"])
    assert capsys.readouterr().out.rstrip() == result.table()


def test_a_folder_stands_for_its_results(measured, capsys):
    by_file = hfxling.compare(files(measured, "a", "b")).table()
    assert hfxling.compare([measured / "a", measured / "b/results.json"]).table() == by_file
    main(["compare", str(measured / "a"), str(measured / "b")])
    assert capsys.readouterr().out.rstrip() == by_file
    with pytest.raises(ValueError, match="all different"):
        hfxling.compare([measured / "a", measured / "a/results.json"])
    (measured / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match=r"empty/results\.json: no such results file"):
        hfxling.compare([measured / "a", measured / "empty"])


@pytest.mark.parametrize("row", range(4))
def test_a_figure_of_other_items_is_refused(measured, refusal, row):
    path = measured / "b/results.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    content["results"][row]["value"] += 0.1
    path.write_text(json.dumps(content), encoding="utf-8")
    said = refusal(lambda: hfxling.compare(files(measured, "a", "b")))
    assert f"{path}: {content['results'][row]['metric']} zh->vi of d is " in said
    assert "but its items give" in said


@pytest.mark.parametrize(
    ("names", "options", "part"),
    [
        (["a", "c"], {}, "have different text; measure both on the same"),
        (["a", "bare"], {}, "bare/results.json: no row has its items; measure again with hfxling evaluate"),
        (["a", "none"], {}, "none/results.json: no such results file"),
        (["a", "changed"], {}, "but its items give"),
        (["a"], {}, "give two results.json or more, all different"),
        (["a", "a"], {}, "give two results.json or more, all different"),
        (["a", "b"], {"level": 5.0}, "level=5.0: give a number between 0 and 1"),
        (["a", "b"], {"metrics": ["BLEU"]}, "metrics='BLEU' is not one of P@1, alignment"),
        (["a", "b"], {"metrics": "P@1"}, "metrics='P@1': give a list, such as ['P@1']"),
        (["bare", "a"], {"metrics": ["P@1"]}, "bare/results.json: no row has its items"),
    ],
)
def test_what_cannot_be_compared_is_refused_in_one_line(measured, refusal, names, options, part):
    assert part in refusal(lambda: hfxling.compare(files(measured, *names), **options))


def hits(share, n=400, seed=0):
    return 100.0 * (np.random.default_rng(seed).random(n) < share)


def row_of(values, metric="P@1", **fields):
    return [mean_result(metric, values, settings={"task": "retrieval", "method": "cosine"}, **FIELDS | fields)]


def test_a_planted_difference_is_found_and_none_between_equal_models():
    weak = hits(0.4)
    strong = np.where(hits(0.2, seed=1) > 0, 100.0, weak)
    better, equal = compare_results({"a": row_of(weak), "b": row_of(strong), "c": row_of(weak)})
    test = paired_test(strong, weak)
    assert (better.test, better.name, better.verdict()) == (test, "b", "higher")
    assert better.p_value == pytest.approx(min(1, 2 * test.p_value))
    assert (equal.test.difference, equal.p_value, equal.verdict()) == (0, 1, "not distinguishable")
    (worse,) = compare_results({"b": row_of(strong), "a": row_of(weak)})
    assert worse.verdict() == "lower"
    assert worse.verdict(level=1e-300) == "not distinguishable"


def test_a_chance_difference_is_not_distinguishable():
    runs = [{name: row_of(hits(0.4, seed=2 * i + j)) for j, name in enumerate("ab")} for i in range(40)]
    found = [compare_results(run)[0] for run in runs]
    assert sum(one.verdict() != "not distinguishable" for one in found) <= 5


def test_holm_corrects_step_down():
    assert holm([0.01, 0.04, 0.03, 0.005]).tolist() == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.9]).tolist() == [1.0, 1.0]
    assert holm([0.2]).tolist() == [0.2]


def test_an_average_over_languages_counts_each_alike():
    ours, theirs = [hits(0.9, 40), hits(0.5, 400, 1)], [hits(0.5, 40, 2), hits(0.5, 400, 3)]
    test = paired(mean_items(*ours), mean_items(*theirs))
    assert test.difference == pytest.approx(macro_average(ours)[0] - macro_average(theirs)[0])
    assert test.low < test.difference < test.high


def test_correlations_by_williams_and_their_average():
    rng = np.random.default_rng(0)
    sets = [
        ScoredPairs("QE", "test", f"en->{lang}", [str(i) for i in range(200)], ["x"] * 200, rng.normal(size=200))
        for lang in ("de", "zh")
    ]
    good, bad = ([s.scores + scale * rng.normal(size=200) for s in sets] for scale in (0.5, 2))
    expected = correlation_results(sets, good, baseline=bad)
    found = compare_results({"bad": correlation_results(sets, bad), "good": correlation_results(sets, good)})
    assert [one.first.metric for one in found] == ["Pearson", "Pearson", "Pearson avg"]
    for one, row in zip(found, [row for row in expected if row.metric != "Spearman"]):
        assert one.test.difference == pytest.approx(row.settings["paired"]["difference"])
        assert one.verdict() == "higher"
    for one, row in zip(found[:2], expected[::2]):
        assert one.test.p_value == pytest.approx(row.settings["paired"]["p_value"])
    same = compare_results({"a": correlation_results(sets, good), "b": correlation_results(sets, good)})
    assert {one.verdict() for one in same} == {"not distinguishable"}


def test_f1_is_compared_by_swaps_of_sentences():
    rng = np.random.default_rng(1)
    gold = (rng.random(300) < 0.5).astype(int)
    good, bad = (gold * (rng.random(300) < share) for share in (0.9, 0.6))
    counts = [np.stack([right, np.maximum(right, rng.random(300) < 0.1), gold], 1) for right in (good, bad)]
    better, worse = (Items("F1", (one,)) for one in counts)
    f1 = [200 * c[:, 0].sum() / (c[:, 1].sum() + c[:, 2].sum()) for c in counts]
    test = paired(better, worse)
    assert test.difference == pytest.approx(f1[0] - f1[1])
    assert test.p_value < 0.001
    assert 0 < test.low < test.difference < test.high
    assert paired(better, better).p_value == 1
    shuffled = Items("F1", (counts[0][rng.permutation(300)],))
    assert paired(shuffled, better).p_value == 1, "the same sum of outcomes"


def test_another_similarity_is_the_same_figure_where_each_has_one():
    cosine, sparse = row_of(hits(0.4)), row_of(hits(0.6))
    sparse = [replace(row, settings=row.settings | {"method": "dot"}) for row in sparse]
    csls = [replace(row, settings=row.settings | {"method": "csls"}) for row in cosine]
    assert len(compare_results({"a": cosine, "b": sparse})) == 1
    both = compare_results({"a": cosine + csls, "b": cosine + csls})
    assert len(both) == 2
    table = Comparisons([*both, *compare_results({"a": csls, "b": sparse})], 0.05).table()
    similarities = [line.split("|")[4].strip() for line in table.splitlines()[2:]]
    assert similarities == ["cosine", "csls", "csls against dot"]
    with pytest.raises(ValueError, match="a and b have no figure in common"):
        compare_results({"a": cosine + csls, "b": sparse})


def test_figures_of_other_items_cannot_be_compared():
    with pytest.raises(ValueError, match="P@1 zh->vi of d: a and b have different items"):
        compare_results({"a": row_of(hits(0.4)), "b": row_of(hits(0.4, n=9))})
    with pytest.raises(ValueError, match="a and b have no figure in common"):
        compare_results({"a": row_of(hits(0.4)), "b": row_of(hits(0.4), metric="P@5")})


def test_other_gold_is_refused():
    a, b = (Items("F1", (np.array([[1, 1, gold], [0, 0, 1]]),)) for gold in (1, 2))
    one = EvalResult("mining F1", 200 / 3, 1, items=a, **FIELDS)
    other = EvalResult("mining F1", 50.0, 1, items=b, **FIELDS)
    with pytest.raises(ValueError, match="have different gold"):
        compare_results({"a": [one], "b": [other]})


def test_error_rates_differ_as_their_figures_do():
    """Their items are those of an F1, which falls where they rise."""
    rng = np.random.default_rng(0)

    def run(share):
        counts = np.stack([(rng.random(300) < share).astype(float), np.ones(300), np.ones(300)], 1)
        return [EvalResult("AER", 100 - f1_of(counts.sum(0)), 300, items=Items("F1", (counts,)), **FIELDS)]

    worse, better = run(0.5), run(0.9)
    (comparison,) = compare_results({"worse": worse, "better": better})
    assert comparison.test.difference == pytest.approx(better[0].value - worse[0].value)
    assert comparison.verdict() == "lower"


def test_what_evaluate_gives_is_compared_without_a_file(measured, monkeypatch):
    runs = [Evaluation(read_results(name)) for name in files(measured, "a", "b")]
    names = {one.name for one in hfxling.compare(runs).comparisons}
    assert len(names) == 1
    with pytest.raises(ValueError, match=r"neither a results\.json nor a result"):
        hfxling.compare([runs[0], 3])
