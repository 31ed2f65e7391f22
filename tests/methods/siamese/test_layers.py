"""Which layers are read."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from tiny_models import HIDDEN

from hfxling.methods.frozen import PairVectors
from hfxling.methods.siamese.arguments import SiameseArguments
from hfxling.methods.siamese.data import Prepared
from hfxling.methods.siamese.layers import choose_layers, layer_sets
from hfxling.methods.siamese.train import head_inputs, new_head
from hfxling.models.pooling import unit_parts


def settings(**changes):
    return SiameseArguments(**{"pairs": ["zh-vi"], "train_data": ["x"], "base_model": "x", "fit": "tied"} | changes)


def prepared(count=150, depth=3, common=(), seed=0):
    """Layers of noise; the two languages share a meaning in those that are `common`."""
    rng = np.random.default_rng(seed)
    vectors = {}
    for layer in range(depth + 1):
        x, y = rng.normal(size=(2, count, HIDDEN))
        meaning = 0.6 * rng.normal(size=(count, HIDDEN)) * (layer in common)
        sides = tuple((side + meaning).astype(np.float32) for side in (x, y))
        vectors[layer, "mean"] = PairVectors(("zh", "vi"), sides, sides)
    return Prepared(None, vectors)


def test_sets_span_the_encoder():
    assert layer_sets(0) == []
    assert layer_sets(1) == [(0, 1)]
    assert layer_sets(6) == [(0, 6), (0, 3, 6), (0, 2, 4, 6), (0, 1, 2, 3, 4, 5, 6)]
    assert layer_sets(12)[-1] == (0, 3, 6, 9, 12)
    assert layer_sets(1, first=1) == []
    assert layer_sets(6, first=1) == [(1, 6), (1, 4, 6), (1, 3, 4, 6), (1, 2, 3, 4, 5, 6)]


@pytest.mark.parametrize("fit", ["tied", "discriminant", "infonce"])
@pytest.mark.parametrize(("common", "expected"), [((2,), "2"), ((0, 3), "0,3")])
def test_the_layers_that_carry_the_meaning_are_chosen(fit, common, expected, monkeypatch):
    config = SimpleNamespace(num_hidden_layers=3, model_type="bert")
    monkeypatch.setattr(SiameseArguments, "encoder_config", lambda self: config)
    chosen = choose_layers(settings(layer="auto", fit=fit), prepared(common=common), 0)
    assert chosen["layer"] == expected
    assert list(chosen["layer_scores"]) == ["0", "1", "2", "3", "0,3", "0,2,3", "0,1,2,3"]
    assert max(chosen["layer_scores"].values()) == chosen["layer_scores"][expected]
    assert chosen["single_layer"] == ("2" if common == (2,) else max("0123", key=chosen["layer_scores"].get))


def test_the_last_layer_is_left_for_a_reason_only(monkeypatch):
    config = SimpleNamespace(num_hidden_layers=3, model_type="bert")
    monkeypatch.setattr(SiameseArguments, "encoder_config", lambda self: config)
    chosen = choose_layers(settings(layer="auto"), prepared(count=30, common=()), 1)  # all noise
    assert max(chosen["layer_scores"], key=chosen["layer_scores"].get) != "3"
    assert chosen["layer"] == chosen["single_layer"] == "3"


def test_a_family_whose_layers_share_a_norm_has_single_ones_only(monkeypatch):
    config = SimpleNamespace(num_hidden_layers=3, model_type="mt5")
    monkeypatch.setattr(SiameseArguments, "encoder_config", lambda self: config)
    chosen = choose_layers(settings(layer="auto"), prepared(common=(0, 3)), 0)
    assert list(chosen["layer_scores"]) == ["0", "1", "2", "3"]


def test_several_layers_stand_side_by_side_in_rising_order():
    args, vectors = settings(layer="2, 0"), prepared()
    assert args.layer_index == (0, 2)
    both = vectors.of(args.layer_index, "mean")
    width = both.train[0].shape[1]
    assert width == 2 * HIDDEN
    assert np.array_equal(both.train[1][:, HIDDEN:], vectors.of(2, "mean").train[1])
    assert both.layers == args.layers == (0, 2)
    assert args.head_config(width, ("zh", "vi"), (0, 2)).center_input
    assert not settings(fit="discriminant").head_config(width, ("zh", "vi"), (0, 2)).center_input


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"layer": "0,x"}, "layer='0,x': give a number"),
        ({"layer": "3,3"}, "several layers are two or more"),
        ({"layer": "0,3", "normalize_input": False}, "set normalize_input"),
        ({"layer": "auto", "base_model": None, "train_vectors": ["a"], "test_vectors": ["b"]}, "give --base_model"),
        ({"layer": "0,3", "train_vectors": ["a"], "test_vectors": ["b"]}, "leave --train_vectors out"),
        ({"input_power": 0.7}, "input_power=0.7: give a number from 0"),
        ({"inputs": "whitened"}, "closed forms and published heads have this step built in"),
        ({"inputs": "white", "fit": "infonce"}, "inputs='white' is not one of plain, centred, whitened"),
    ],
)
def test_settings_that_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        settings(**change)


@pytest.mark.parametrize("power", [0.0, 0.25, 0.5])
def test_centred_inputs_of_every_layer_have_no_mean_and_weaker_strong_directions(power):
    rng = np.random.default_rng(0)
    scales = np.tile(np.linspace(3, 0.3, HIDDEN), 2)
    sides = {lang: (3 + scales * rng.normal(size=(400, 2 * HIDDEN))).astype(np.float32) for lang in ("zh", "vi")}
    head = new_head(settings(input_power=power), sides, (0, 2))
    units = unit_parts(torch.from_numpy(sides["vi"]), 2)
    centred = head.input_centers["vi"](units).detach().numpy()
    assert np.allclose(centred.mean(0), 0, atol=1e-5)
    for part, before in zip(np.split(centred, 2, axis=1), np.split(units.numpy(), 2, axis=1)):
        values, earlier = (np.linalg.eigvalsh(np.cov(x.T, bias=True)) for x in (part, before))
        assert np.allclose(values, earlier / (earlier + 0.1 * earlier.mean()) ** (2 * power), rtol=1e-3)
    (found, _) = head_inputs(head, sides)
    assert np.allclose(np.linalg.norm(found.reshape(400, 2, HIDDEN), axis=2), 1, atol=1e-5)


def test_an_encoders_own_vectors_are_for_the_contest_alone():
    recipe = SiameseArguments(pairs=["zh-vi"], train_data=["sample"], base_model="org/base", layer="own")
    with pytest.raises(ValueError, match="layer='own' is for hfxling fit only"):
        recipe.single_layers()
