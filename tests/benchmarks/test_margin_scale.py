"""Distances against the margin, from text and an encoder to the report."""

import json

import margin_scale
import pytest


def test_report(tiny_bert, tmp_path, capsys):
    options = ["--base_model", tiny_bert, "--layer", "2", "--pairs", "zh-vi", "--train_data", "sample"]
    options += ["--max_train_pairs", "60", "--cache_dir", tmp_path / "cache", "--results_dir", tmp_path]
    figures = margin_scale.main(list(map(str, options)))
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["figures"] == figures
    assert figures["unit_length"] == pytest.approx(1)
    assert figures["raw_length"] > 2
    assert 0 <= figures["unit_inside_margin"] <= 1
    content = json.loads((tmp_path / "margin_scale.json").read_text())
    assert (content["figures"], content["recipe"]) == (figures, "benchmarks/margin_scale.py")
