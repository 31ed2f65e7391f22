import numpy as np
import pytest

from hfxling.methods.strength import strength_rotation

SIZE = 12


def translations(count=400, seed=0):
    """Vectors that share their components the less the later they stand; one of them tells the language."""
    rng = np.random.default_rng(seed)
    strength = np.linspace(2.0, 0.1, SIZE)
    meaning = rng.normal(size=(count, SIZE)) * strength
    sides = [meaning + 0.3 * rng.normal(size=(count, SIZE)) for _ in range(2)]
    for side, sign in zip(sides, (1, -1)):
        side[:, 5] = sign * 5.0  # the language
    turn = np.linalg.qr(rng.normal(size=(SIZE, SIZE)))[0]
    return [side @ turn for side in sides], turn


def test_it_is_a_rotation_and_the_strongest_directions_come_first():
    sides, turn = translations()
    rotation = strength_rotation(*sides)
    np.testing.assert_allclose(rotation @ rotation.T, np.eye(SIZE), atol=1e-12)
    found = np.abs(rotation @ turn.T)  # rows: components found, columns: as they were made
    assert found[0].argmax() == 0
    assert found[-1].argmax() == 5  # the language, by which translations disagree
    x, y = (side / np.linalg.norm(side, axis=1, keepdims=True) @ rotation.T for side in sides)
    shared = (x * y).mean(0)
    np.testing.assert_array_equal(shared, np.sort(shared)[::-1])


@pytest.mark.parametrize("kept", [2, 4])
def test_what_is_kept_agrees_more_than_any_other_components(kept):
    sides, _ = translations()
    x, y = (side / np.linalg.norm(side, axis=1, keepdims=True) for side in sides)
    rotation = strength_rotation(*sides)
    best = np.trace((x @ rotation[:kept].T).T @ (y @ rotation[:kept].T))
    for seed in range(20):
        other = np.linalg.qr(np.random.default_rng(seed).normal(size=(SIZE, kept)))[0]
        assert np.trace((x @ other).T @ (y @ other)) < best


def test_vectors_in_this_order_stay_as_they_are():
    sides, _ = translations()
    rotation = strength_rotation(*sides)
    np.testing.assert_allclose(strength_rotation(*(side @ rotation.T for side in sides)), np.eye(SIZE), atol=1e-9)


def test_texts_without_a_vector_count_for_nothing():
    sides, _ = translations()
    more = [np.vstack([side, np.zeros(SIZE)]) for side in sides]
    np.testing.assert_allclose(np.abs(strength_rotation(*more) @ strength_rotation(*sides).T), np.eye(SIZE), atol=1e-6)
