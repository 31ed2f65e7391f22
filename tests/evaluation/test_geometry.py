"""Alignment and uniformity against slow loops and known cases."""

import numpy as np
import pytest

from hfxling.evaluation.geometry import alignment, geometry_results, uniformity


def vectors(n, size=5, seed=0):
    return np.random.default_rng(seed).standard_normal((n, size))


def test_alignment_is_the_squared_distance_of_unit_vectors():
    x, y = vectors(6), vectors(6, seed=1)
    expected = [np.sum((a / np.linalg.norm(a) - b / np.linalg.norm(b)) ** 2) for a, b in zip(x, y)]
    np.testing.assert_allclose(alignment(x, y), expected, atol=1e-6)
    np.testing.assert_allclose(alignment(x, -3 * x), 4, atol=1e-6)


@pytest.mark.parametrize("block", [1, 4, 7, 100])
def test_uniformity_equals_a_slow_loop_for_every_block_size(block):
    x = vectors(11)
    u = x / np.linalg.norm(x, axis=1, keepdims=True)
    terms = [np.exp(-2 * np.sum((u[i] - u[j]) ** 2)) for i in range(11) for j in range(11) if i != j]
    assert uniformity(x, block=block) == pytest.approx(np.log(np.mean(terms)), abs=1e-6)


def test_uniformity_of_equal_vectors_is_zero_and_falls_as_they_spread():
    assert uniformity(np.ones((5, 3))) == pytest.approx(0, abs=1e-6)
    assert uniformity(vectors(300)) < uniformity(vectors(300) + 2) < 0


def test_rows_are_over_all_language_pairs():
    pairs = [(vectors(20), vectors(20, seed=1)), (vectors(30, seed=2), vectors(30, seed=3))]
    rows = {row.metric: row for row in geometry_results(pairs, dataset="d", split="validation")}
    assert rows["alignment"].value == pytest.approx(np.concatenate([alignment(*p) for p in pairs]).mean())
    assert rows["alignment"].low < rows["alignment"].value < rows["alignment"].high
    assert rows["uniformity"].value == pytest.approx(uniformity(np.concatenate([side for p in pairs for side in p])))
    assert (rows["alignment"].n, rows["uniformity"].n) == (50, 100)
    closer = [(x, x + 0.1 * y) for x, y in pairs]
    row = geometry_results(closer, baseline=pairs, dataset="d", split="validation")[0]
    assert row.settings["paired"]["high"] < 0
    assert row.settings["paired"]["difference"] == pytest.approx(row.value - rows["alignment"].value)


def test_what_has_no_geometry_is_refused():
    with pytest.raises(ValueError, match="rows must pair up"):
        alignment(vectors(3), vectors(4))
    with pytest.raises(ValueError, match="1 are too few"):
        uniformity(vectors(1))
    with pytest.raises(ValueError, match="zero, NaN or infinite"):
        uniformity(np.zeros((2, 3)))
