"""How settings are chosen and heads are compared; that a small search runs and goes on."""

import json
from unittest.mock import Mock

import fair_heads
import numpy as np
import pytest

from hfxling.evaluation.retrieval import Ranking

BEST = {
    "learning_rate": 1e-2,
    "inputs": "whitened",
    "per_language": True,
    "margin": 1.4,
    "pool_size": 2,
    "dropout": 0.0,
}


def search(fit=None):
    made = fair_heads.Search("x 0", None, None, {}, [], [], lambda search: None)
    made.score = fit or (lambda settings: {"none": sum(settings.get(k) == v for k, v in BEST.items()), "train": 0})
    return made


def test_the_best_of_every_axis_is_found():
    chosen = search().chosen()
    assert BEST.items() <= chosen["contrastive, chosen"].items()
    assert chosen["infonce, chosen"]["inputs"] == "whitened"
    assert "margin" not in chosen["infonce, chosen"]
    assert chosen["contrastive, plain, one map"]["per_language"] is False
    switched = chosen["contrastive, chosen, bias True"]
    assert switched == chosen["contrastive, chosen"] | {"bias": True}


def test_both_losses_are_tried_about_as_often():
    tried = {"contrastive": set(), "infonce": set()}

    def score(settings):
        if settings["fit"] in tried:
            tried[settings["fit"]].add(json.dumps(settings, sort_keys=True))
        return {"none": 0, "train": 1}

    search(score).chosen()
    assert len(tried["infonce"]) > 20
    assert len(tried["contrastive"]) < 1.4 * len(tried["infonce"])


def test_the_centring_is_one_that_a_model_can_carry():
    assert search(lambda _: {"none": 1, "train": 2, "corpus": 9}).reached({}) == (2, "train")


def test_comparisons_are_corrected_for_their_number():
    made, rng = search(), np.random.default_rng(0)
    base = 100.0 * (rng.random(200) < 0.3)
    made.hits = {
        ("encoder, centred", "train"): base,
        ("cca", "none"): np.maximum(base, 100.0 * (rng.random(200) < 0.3)),
    }
    made.hits["infonce, chosen", "none"] = base
    told = {head: {"centring": centring, "development": 3 * (head == "cca")} for head, centring in made.hits}
    tests = made.compare(told)
    assert [(test["head"], test["against"]) for test in tests] == [
        ("encoder, centred", "cca"),
        ("cca", "encoder, centred"),
        ("infonce, chosen", "encoder, centred"),
        ("infonce, chosen", "cca"),
    ]
    assert tests[1]["difference"] > 5
    assert tests[1]["p_value"] < tests[1]["p_holm"] < 0.05
    assert tests[2]["p_holm"] == 1


def test_fits_are_kept(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made, calls = search(), []

    made.prepared = Mock(corpus=Mock(test_fields=lambda _: {"revision": "abc"}))
    made.fit = lambda *args: calls.append(args) or [Ranking("zh->vi", np.array([1, 3]), {"centering": "none"})]
    first, again = (made.fitted({"fit": "cca"}, None, ["a"], seed) for seed in (0, 0))
    made.fitted({"fit": "cca"}, None, ["a"], 1)
    assert len(calls) == 2
    assert (again[0].ranks.tolist(), again[0].settings) == (first[0].ranks.tolist(), first[0].settings)
    assert pytest.approx(1 / again[0].ranks) == [1, 1 / 3]
