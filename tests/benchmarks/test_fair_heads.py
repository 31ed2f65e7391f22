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


def test_every_head_gets_rows_and_tests():
    """With heads that rank at random: what is measured, by which centring and with how many seeds."""
    rng, saved = np.random.default_rng(0), []
    sides = tuple(rng.standard_normal((20, 4)).astype(np.float32) for _ in "xy")
    made = search()
    made.args = fair_heads.SiameseArguments(
        pairs=["zh-vi"], train_data=["x"], base_model="x", layer="0", similarities=["cosine"]
    )
    about = {"dataset": "d", "split": "test", "revision": "r"}
    made.prepared = Mock(corpus=Mock(test_fields=lambda _: about), text=Mock(train={"target": ["a"] * 20}))
    made.prepared.of = lambda *_: fair_heads.PairVectors(("zh", "vi"), sides, sides)
    made.fitted = lambda *_: [
        Ranking(direction, rng.integers(1, 9, size=20), {"method": "cosine", "centering": centering})
        for direction in ("zh->vi", "vi->zh")
        for centering in ("none", "train", "corpus")
    ]
    made.save = lambda one: saved.append(len(one.rows))
    made.measure()
    rows = {name: [r for r in made.rows if r.settings["row"] == f"x 0 {name}"] for name in ("encoder", "cca", "auto")}
    assert {len(found) for found in rows.values()} == {12}  # both directions, three centrings, P@1 and P@5
    assert len([r for r in made.rows if r.settings["row"] == "x 0 infonce, chosen"]) == 36
    assert saved == sorted(saved)
    told = {test["head"]: test for test in made.tests}
    assert (told["cca"]["centring"], told["cca"]["seeds"]) == ("none", 1)
    assert (told["contrastive as printed, worst"]["centring"], told["infonce, chosen"]["seeds"]) == ("train", 3)
    assert {test["against"] for test in made.tests} >= {fair_heads.CENTRED}
