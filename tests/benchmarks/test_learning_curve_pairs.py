"""Which pairs are drawn, and the rows of a system beside the encoder's."""

from types import SimpleNamespace

import learning_curve_pairs as curve
import numpy as np
import pytest


def test_draws_differ_and_are_repeatable():
    one, two, three = curve.draws(100, 20, 3)
    assert len({*one}) == 20
    assert len({*one} & {*two}) < 20
    assert len({*two} & {*three}) < 20
    np.testing.assert_array_equal(curve.draws(100, 20, 3)[1], two)
    (whole,) = curve.draws(100, 100, 3)
    np.testing.assert_array_equal(whole, np.arange(100))


def test_rows_tell_the_difference_from_the_encoder():
    before, after = (np.array([1, 2, 3, 4]), np.array([2, 1, 1, 1])), (np.array([1, 1, 1, 2]), np.array([2, 1, 1, 1]))
    there, back = curve.rows_of(after, ("lo", "zh"), {"row": "sparse, 50 pairs"}, before=before, seed=1)
    assert (there.value, back.value, there.direction, back.direction) == (75.0, 75.0, "lo->zh", "zh->lo")
    assert there.settings["paired"]["difference"] == pytest.approx(50)
    assert back.settings["paired"]["difference"] == 0
    assert (there.settings["stage"], there.seed) == ("after", 1)
    (alone, _) = curve.rows_of(before, ("lo", "zh"), {"row": "encoder"})
    assert alone.settings == {"stage": "before", "row": "encoder"}
    assert curve.is_measured([there, alone], ("lo", "zh"), {"row": "encoder"})
    assert curve.is_measured([there, alone], ("lo", "zh"), {"row": "sparse, 50 pairs"}, 1)
    assert not curve.is_measured([there, alone], ("lo", "zh"), {"row": "sparse, 50 pairs"}, 2)
    assert not curve.is_measured([there, alone], ("zh", "vi"), {"row": "encoder"})


def test_all_that_fit_makes_is_ranked(tiny_bert, tmp_path, monkeypatch):
    """Eight words, each with one translation: what is counted in a few lines ranks new ones first."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    rows = [rng.permutation(8)[:3] for _ in range(60)]
    train = [[" ".join(f"{mark}{i}{mark}" for i in row) for row in rows] for mark in "xy"]
    test = [[" ".join(f"{mark}{i}{mark}" for i in row) for row in ((0, 1, 2), (3, 4, 5), (6, 7, 0))] for mark in "xy"]
    args = SimpleNamespace(only=["head", "fused"], minutes=1)
    found = curve.fitted_ranks(train, test, ("en", "de"), str(tiny_bert), args)
    assert [*found] == ["encoder, centred", "auto", "static", "sparse", "fused"]
    for name in ("static", "sparse"):
        np.testing.assert_array_equal(found[name], [[1, 1, 1]] * 2)
    assert {len(side) for ranks in found.values() for side in ranks} == {3}
