"""Comparing results files that carry their items."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import hfxling
from hfxling.cli import main
from hfxling.evaluation.averages import mean_result
from hfxling.evaluation.items import Items
from hfxling.evaluation.mining import f1_of
from hfxling.evaluation.results import EvalResult, write_results
from hfxling.evaluation.similarity import pearson

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
    for one in other:
        assert one.test.difference == pytest.approx(one.other.value - one.first.value, abs=1e-4)
    assert result.table().count("not distinguishable") == 4


def test_metrics_can_be_chosen_and_the_command_says_the_same(measured, capsys):
    result = hfxling.compare(files(measured, "a", "b"), metrics=["P@1", "pearson"], level=0.01)
    assert [one.first.metric for one in result.comparisons] == ["P@1", "pearson"]
    main(["compare", *files(measured, "a", "b"), "--metrics", "P@1", "pearson", "--level", "0.01"])
    assert capsys.readouterr().out.rstrip() == result.table()


@pytest.mark.parametrize("row", range(4))
def test_a_figure_of_other_items_is_refused(measured, refusal, row):
    path = measured / "b/results.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    content["results"][row]["value"] += 0.1
    path.write_text(json.dumps(content), encoding="utf-8")
    said = refusal(lambda: hfxling.compare(files(measured, "a", "b")))
    assert f"{path}: {content['results'][row]['metric']} zh->vi of d is " in said
    assert "but its items make" in said


@pytest.mark.parametrize(
    ("names", "options", "part"),
    [
        (["a", "c"], {}, "are of different text; measure both on the same"),
        (["a", "bare"], {}, "bare/results.json: no row has its items; measure it anew with hfxling evaluate"),
        (["a", "none"], {}, "none/results.json: no such results file"),
        (["a", "changed"], {}, "but its items make"),
        (["a"], {}, "give two results.json or more, all different"),
        (["a", "a"], {}, "give two results.json or more, all different"),
        (["a", "b"], {"level": 5.0}, "level=5.0: give a number between 0 and 1"),
        (["a", "b"], {"metrics": ["BLEU"]}, "metrics='BLEU' is none of P@1, alignment"),
    ],
)
def test_what_cannot_be_compared_is_refused_in_one_line(measured, refusal, names, options, part):
    assert part in refusal(lambda: hfxling.compare(files(measured, *names), **options))
