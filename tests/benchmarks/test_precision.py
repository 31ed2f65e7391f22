"""Promised precisions: what is counted over halvings, and what a run that was stopped goes on from."""

import json

import precision as benchmark
import pytest


def test_covered_missed_and_biased():
    outcomes = {
        "lo-zh all": {
            "0": {"0.95": [0.9, 0.95, 0.88, 0.97, 0.8], "0.9": []},
            "1": {"0.95": [0.98, 0.95, 0.9, 0.97, 0.6], "0.9": []},
        }
    }
    figures = benchmark.figures_of(outcomes, [0.95, 0.9])
    found = figures["0.95"]["lo-zh all"]
    assert found == figures["0.95"]["bitexts"]
    assert found["halvings"] == 2
    assert found["covered"] == 50
    assert found["miss"] == pytest.approx(4)
    assert found["bias"] == pytest.approx(-1)
    assert found["recall"] == pytest.approx(70)
    assert figures["0.9"] == {}, "no threshold gave it"


def test_halvings_of_other_settings_are_not_taken(tmp_path):
    path = tmp_path / "precision.json"
    assert benchmark.earlier(path, {"rounds": 1}) == {}
    written = {"settings": {"rounds": 1, "halvings": 2}, "outcomes": {"lo-zh all": {"0": {}}}}
    path.write_text(json.dumps(written), encoding="utf-8")
    assert benchmark.earlier(path, {"rounds": 1, "halvings": 20}) == written["outcomes"]
    assert benchmark.earlier(path, {"rounds": 0, "halvings": 20}) == {}
