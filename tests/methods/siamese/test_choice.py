"""What `--fit auto` chooses, and that its maps are what they are said to be."""

import logging

import numpy as np
import pytest
from transformers import TrainingArguments

from hfxling.evaluation.retrieval import gold_ranks
from hfxling.methods.frozen import PairVectors
from hfxling.methods.siamese import choice
from hfxling.methods.siamese import train as train_module
from hfxling.methods.siamese.arguments import TRAINING_DEFAULTS, HeadSettings, SiameseArguments
from hfxling.methods.siamese.choice import candidates, choose, fit_auto, fit_form
from hfxling.methods.siamese.closed_form import Affine, discriminant, tied
from hfxling.methods.siamese.train import fit, plain_output

SIZE = 12


def sides(count, *, gap=0.0, noise=0.5, rotate=False, seed=0):
    """Vectors with a common meaning, a gap between the languages and noise; the target's may be rotated."""
    rng = np.random.default_rng(seed)
    meaning, direction = rng.normal(size=(count, SIZE)), np.ones(SIZE)
    x, y = (meaning + noise * rng.normal(size=(count, SIZE)) for _ in range(2))
    if rotate:
        y = y @ np.linalg.qr(np.random.default_rng(99).normal(size=(SIZE, SIZE)))[0]
    return x, y + gap * direction


def precision(source, target):
    return np.mean(np.concatenate(gold_ranks(source, target)) == 1)


def test_an_encoder_that_needs_nothing_is_left_alone(caplog):
    source, target = sides(60, noise=0.3)
    with caplog.at_level(logging.DEBUG, "hfxling"):
        of_source, of_target, chosen = fit_auto(source, target)
    assert chosen["form"] == "encoder"
    assert np.array_equal(of_source(source), source)
    assert of_source is of_target
    told = chosen["cross_validated"]
    assert told["chosen"] == told["encoder"]
    assert told["runner_up"]["form"] != "encoder"
    (message,) = caplog.messages  # what --verbose shows
    assert message.startswith("fit auto, 60 pairs, P@1 in % among the held-out pairs of a fold: encoder ")
    assert message.endswith(f"encoder as it came encoder {told['encoder']['P@1']}")


@pytest.mark.parametrize(
    ("count", "text", "forms"),
    [(60, {"gap": 5.0, "noise": 0.3}, ("centred", "discriminant")), (400, {"rotate": True}, ("tied",))],
)
def test_what_the_text_needs_is_chosen(count, text, forms):
    source, target = sides(count, **text)
    of_source, of_target, chosen = fit_auto(source, target)
    assert chosen["form"] in forms
    unseen = sides(200, seed=1, **text)
    assert precision(of_source(unseen[0]), of_target(unseen[1])) > precision(*unseen) + 0.2


def test_one_map_for_clients_that_cannot_name_a_language():
    source, target = sides(100, rotate=True)
    of_source, of_target, chosen = fit_auto(source, target, one_map=True)
    assert of_source is of_target
    assert chosen["form"] != "tied"


@pytest.mark.parametrize("count", [10, 14])
def test_ten_pairs_are_enough_to_choose_by(count):
    source, target = sides(count, gap=3.0)
    of_source, of_target, _ = fit_auto(source, target)
    assert np.isfinite(of_source(source)).all()
    assert of_target(target).shape == (count, SIZE)
    with pytest.raises(ValueError, match="9 sentence pairs are too few to choose a head"):
        fit_auto(source[:9], target[:9])


def test_a_form_is_fitted_alone_as_it_is_among_all():
    source, target = sides(100, gap=1.0)
    known = [(settings["form"], settings, *maps) for settings, *maps in candidates(source, target)]
    known += [("tied", settings, *maps) for settings, *maps in tied(source, target)]
    assert {form for form, *_ in known} == {"encoder", "centred", "discriminant", "tied"}
    for form, settings, *maps in known:
        for expected, found in zip(maps, fit_form(form, settings, source, target)):
            np.testing.assert_array_equal(found.weight, expected.weight)
            np.testing.assert_array_equal(found.bias, expected.bias)
    settings = {"share": 0.5, "shrinkage": 0.1, "power": 1.0, "anchor": 0.5}
    nothing = np.zeros_like(target)  # pairs that share nothing: no anchored head, the centred encoder in its place
    of_source, of_target = fit_form("tied", settings, source, nothing)
    assert of_source is of_target


def test_an_anchored_head_has_the_inner_products_of_both():
    source, target = sides(200, gap=1.0)
    anchored = {
        (s["shrinkage"], s["anchor"]): affine
        for s, affine, _ in candidates(source, target)
        if s["form"] == "discriminant"
    }
    (_, centred, _) = list(candidates(source, target))[1]
    length = np.mean([((x - x.mean(0)) ** 2).sum(1).mean() for x in (source, target)])
    middle = (source.mean(0) + target.mean(0)) / 2
    for settings, head, _ in discriminant(source, target):
        own = np.mean([(head(x) ** 2).sum(1).mean() for x in (source, target)])
        found = anchored[settings["shrinkage"], 2.0]
        expected = head(source) @ head(target).T / own + 2 / length * (centred(source) @ (target - middle).T)
        assert np.allclose(found(source) @ found(target).T, expected)


def test_the_form_that_takes_least_is_chosen_among_equals():
    rng = np.random.default_rng(0)
    ranks = rng.integers(1, 4, 300)
    keys = [
        (("form", form), *extra)
        for form, extra in (
            ("tied", (("anchor", 0.0),)),
            ("discriminant", (("anchor", 0.5),)),
            ("discriminant", (("anchor", 2.0),)),
        )
    ]
    encoder = (("form", "encoder"),)
    same = {key: [ranks] for key in keys}
    assert choose(same | {encoder: [ranks + 1]}) == (keys[2], keys[0])
    assert choose(same | {encoder: [ranks]})[0] == encoder
    slightly = np.where(rng.random(300) < 0.01, ranks + 1, ranks)
    assert choose(same | {encoder: [slightly]})[0] == keys[2]
    assert choose({keys[0]: [ranks], encoder: [ranks + 1]})[0] == keys[0]


def test_with_few_pairs_a_learnt_map_has_to_be_ahead_by_more():
    rng = np.random.default_rng(0)
    ranks = rng.integers(1, 4, 300)
    slightly_worse = ranks.copy()
    slightly_worse[:3] += 1
    centred, tied = (("form", "centred"),), (("form", "tied"), ("anchor", 0.0))
    for has_few_pairs, form in ((False, "tied"), (True, "centred")):
        chosen, _ = choose({centred: [slightly_worse], tied: [ranks]}, has_few_pairs=has_few_pairs)
        assert dict(chosen)["form"] == form
    chosen, _ = choose({centred: [ranks + 1], tied: [ranks]}, has_few_pairs=True)
    assert dict(chosen)["form"] == "tied"
    chosen, _ = choose({(("form", "encoder"),): [ranks], centred: [slightly_worse]}, has_few_pairs=True)
    assert dict(chosen)["form"] == "encoder"


def test_a_trained_head_competes_where_there_are_enough_pairs():
    source, target = sides(120, rotate=True)
    rotation = np.linalg.qr(np.random.default_rng(99).normal(size=(SIZE, SIZE)))[0]
    calls = []

    def trained(x, y):
        calls.append(len(x))
        return Affine(rotation.T, np.zeros(SIZE)), Affine(np.eye(SIZE), np.zeros(SIZE))

    assert fit_auto(source, target, trained=trained)[2]["form"] != "infonce"
    assert calls == []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choice, "TRAINED_FROM", 100)
        patch.setattr(choice, "FORMS", ("encoder", "centred", "infonce", "discriminant", "tied"))
        assert fit_auto(source, target, trained=trained)[2]["form"] == "infonce"
    assert calls == [96] + [96] * 5 * 4 + [120]  # a first look, four times five folds, and what is kept


def test_a_trained_head_that_falls_behind_is_left_after_one_fold(monkeypatch):
    monkeypatch.setattr(choice, "TRAINED_FROM", 100)
    source, target = sides(120, rotate=True)
    calls = []

    def trained(x, y):
        calls.append(len(x))
        noise = np.random.default_rng(1).normal(size=(2, SIZE, SIZE))
        return tuple(Affine(weight, np.zeros(SIZE)) for weight in noise)

    *_, chosen = fit_auto(source, target, trained=trained)
    assert calls == [96]
    assert "infonce" not in (chosen["form"], chosen["cross_validated"]["runner_up"]["form"])


@pytest.mark.parametrize("one_map", [True, False])
def test_a_head_of_the_recipe(one_map, tmp_path, capfd, monkeypatch):
    monkeypatch.setattr(choice, "TRAINED_FROM", 50)
    monkeypatch.setattr(choice, "MOST", 1)
    monkeypatch.setattr(train_module, "INFONCE_EPOCHS", 10)
    settings = HeadSettings(one_map=one_map)
    quick = TRAINING_DEFAULTS | {"output_dir": str(tmp_path), "use_cpu": True, "disable_tqdm": True}
    train, test = (tuple(side.astype(np.float32) for side in sides(60, gap=2.0, seed=i)) for i in range(2))
    vectors = PairVectors(("zh", "vi"), train, test)
    capfd.readouterr()
    head, chosen = fit(vectors, [str(i) for i in range(60)], settings, TrainingArguments(**quick))
    assert capfd.readouterr().out == ""
    assert head.config.per_language == (chosen["form"] in ("tied", "infonce"))
    assert not (one_map and head.config.needs_language)
    before, after = vectors.test, [plain_output(head, x, lang) for x, lang in zip(vectors.test, ("zh", "vi"))]
    assert precision(*after) > precision(*before)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"head": "tanh"}, "closed forms are linear"),
        ({"fit": "cca", "one_map": True}, "one_map=True: fit='cca' has a map for each language"),
        ({"fit": "infonce", "per_language": True, "one_map": True}, "one_map=True"),
        ({"init": "published"}, "init='published' trains a published head further"),
    ],
)
def test_settings_that_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        SiameseArguments(["zh-vi"], ["x"], base_model="x", **change)
