"""hfxling compare on files that hfxling evaluate wrote."""

import json
from pathlib import Path

import pytest
from builders import command_line, sentence_pairs
from tiny_models import save_tiny

from hfxling.old import compare, evaluate


@pytest.fixture(scope="module")
def measured(tmp_path_factory) -> Path:
    """One model twice, another, and the first on other text."""
    folder = tmp_path_factory.mktemp("measured")
    save_tiny("bert", folder / "one", layers=1)
    save_tiny("distilbert", folder / "two", layers=1)
    lines = [f"{a}\t{b}\n" for a, b in sentence_pairs(40)]
    (folder / "p.tsv").write_text("".join(lines), encoding="utf-8")
    (folder / "q.tsv").write_text("".join(lines[::-1]), encoding="utf-8")
    for name, model, data in (("a", "one", "p"), ("same", "one", "p"), ("b", "two", "p"), ("c", "one", "q")):
        options = {"model": folder / model, "task": ["retrieval", "geometry"], "data": folder / f"{data}.tsv"}
        options |= {"source_lang": "zh", "target_lang": "en", "device": "cpu", "output": folder / name}
        evaluate.main(command_line(options))
    return folder


def test_equal_models_cannot_be_told_apart_and_others_can(measured, capsys):
    first = str(measured / "a/results.json")
    found = compare.main([first, str(measured / "same/results.json"), str(measured / "b/results.json")])
    same, other = found[:5], found[5:]
    assert [one.first.metric for one in same] == ["P@1", "P@5", "P@1", "P@5", "alignment"]
    assert {one.p_value for one in same} == {1.0}
    planted = other[-1]  # untrained encoders spread their vectors differently
    assert planted.verdict() in ("higher", "lower")
    assert planted.test.difference == pytest.approx(planted.other.value - planted.first.value, abs=1e-4)
    shown = capsys.readouterr().out
    assert shown.count("not distinguishable") >= 5
    assert f"| {planted.verdict()} " in shown


def test_metrics_can_be_chosen(measured):
    files = [str(measured / name / "results.json") for name in ("a", "b")]
    found = compare.main([*files, "--metrics", "P@1"])
    assert [one.first.direction for one in found] == ["zh->en", "en->zh"]


@pytest.mark.parametrize(
    ("files", "options", "part"),
    [
        (["a", "c"], [], "are of different text; measure both on the same"),
        (["a", "bare"], [], "bare/results.json: no row has its items; measure it anew with hfxling evaluate"),
        (["a", "none"], [], "none/results.json: no such results file"),
        (["a"], [], "give two results.json or more, all different"),
        (["a", "a"], [], "give two results.json or more, all different"),
        (["a", "b"], ["--level", "5"], "level=5.0: give a number between 0 and 1"),
        (["a", "b"], ["--metrics", "BLEU"], "metrics='BLEU' is none of P@1, P@5, alignment"),
    ],
)
def test_what_cannot_be_compared_is_refused_in_one_line(measured, refusal, files, options, part):
    content = json.loads((measured / "a/results.json").read_text(encoding="utf-8"))
    bare = [{key: value for key, value in row.items() if key != "items"} for row in content["results"]]
    (measured / "bare").mkdir(exist_ok=True)
    (measured / "bare/results.json").write_text(json.dumps({"results": bare}), encoding="utf-8")
    assert part in refusal(lambda: compare.main([*(str(measured / f / "results.json") for f in files), *options]))
