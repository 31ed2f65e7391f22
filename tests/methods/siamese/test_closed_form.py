"""Closed-form heads on data whose answer is known."""

import numpy as np
import pytest

from hfxling.evaluation.retrieval import gold_ranks
from hfxling.methods.siamese import closed_form
from hfxling.methods.siamese.closed_form import (
    CLOSED_FORMS,
    NOTHING_TO_CHOOSE,
    PER_LANGUAGE,
    cca,
    discriminant,
    eigen,
    fit_closed_form,
    principal_directions,
    procrustes,
    ridge,
    shrunken_power,
    standardised,
    strength_rotation,
    tied,
)


def rotated(seed=0, count=400, size=12, noise=0.05):
    """Targets that are the rotated and shifted sources plus noise."""
    rng = np.random.default_rng(seed)
    source = rng.normal(size=(count, size))
    rotation = np.linalg.qr(rng.normal(size=(size, size)))[0]
    return source, source @ rotation + 3 + noise * rng.normal(size=(count, size)), rotation


def precision(source, target):
    return np.mean(np.concatenate(gold_ranks(source, target)) == 1)


def test_procrustes_finds_the_rotation():
    source, target, rotation = rotated(noise=0.0)
    ((_, of_source, of_target),) = procrustes(source, target)
    assert np.allclose(of_source.weight, rotation.T, atol=1e-6)
    assert np.allclose(of_source(source), of_target(target), atol=1e-6)


def test_ridge_without_penalty_is_least_squares():
    source, target, _ = rotated(noise=0.3)
    _, of_source, of_target = next(iter(ridge(source, target)))
    x, y = source - source.mean(0), target - target.mean(0)
    expected, *_ = np.linalg.lstsq(x, y, rcond=None)
    assert np.allclose(of_source.weight.T, expected, atol=0.02)
    assert np.allclose(of_target(target), y)


def test_cca_outputs_are_the_canonical_variates():
    from sklearn.cross_decomposition import CCA

    source, target, _ = rotated(noise=1.0, size=4)
    found = {s["shrinkage"]: (a, b) for s, a, b in cca(source, target) if s["power"] == 1.0}
    of_source, of_target = found[0.003]
    x, y = of_source(source), of_target(target)
    ours = [np.corrcoef(x[:, i], y[:, i])[0, 1] for i in range(4)]
    u, v = CCA(n_components=4, max_iter=5000).fit_transform(source, target)
    theirs = [np.corrcoef(u[:, i], v[:, i])[0, 1] for i in range(4)]
    assert np.allclose(ours, theirs, atol=0.01)


@pytest.mark.parametrize("form", [cca, tied])
def test_shrinkage_and_power_of_white_vectors_by_hand(form):
    """Equal sides of unit covariance: the whitener divides by sqrt(1 + shrinkage), and that is how all correlate."""
    white = np.linalg.qr(np.random.default_rng(0).normal(size=(50, 6)))[0]
    white = np.linalg.qr(white - white.mean(0))[0] * np.sqrt(50)
    for settings, *sides in form(white, white):
        expected = (1 + settings["shrinkage"]) ** -(settings["power"] + 0.5)
        for side in sides:
            np.testing.assert_allclose(np.linalg.svd(side.weight)[1], expected, rtol=1e-6)


@pytest.mark.parametrize("power", [-0.5, 1.0])
def test_a_shrunken_power_is_that_of_a_matrix_with_more_variance(power):
    from scipy.linalg import fractional_matrix_power

    covariance = np.cov(np.random.default_rng(0).normal(size=(5, 40)))
    expected = fractional_matrix_power(covariance + 0.3 * np.trace(covariance) / 5 * np.eye(5), power)
    np.testing.assert_allclose(shrunken_power(eigen(covariance), 0.3, power), expected, rtol=1e-6)


@pytest.mark.parametrize("size", [8.0, 0.2])
def test_discriminant_centres_both_languages_with_one_map(size):
    rng = np.random.default_rng(0)
    meaning = rng.normal(size=(300, 10))
    gap = np.zeros(10)
    gap[3] = size
    source, target = meaning + 0.2 * rng.normal(size=(300, 10)), meaning + gap + 0.2 * rng.normal(size=(300, 10))
    _, of_source, of_target = list(discriminant(source, target))[1]
    assert of_source is of_target
    assert np.allclose(of_source(source).mean(0), 0, atol=1e-6)
    assert np.allclose(of_target(target).mean(0), 0, atol=1e-6)
    if size > 1:
        assert precision(of_source(source), of_target(target)) > precision(source, target) + 0.5


@pytest.mark.parametrize("method", CLOSED_FORMS)
def test_fit_helps_on_unseen_pairs(method):
    source, target, _ = rotated(count=600, noise=0.5)
    if method not in PER_LANGUAGE:  # one map for both cannot undo a rotation
        target = source + 0.5 * np.random.default_rng(1).normal(size=source.shape) + 3
    of_source, of_target, settings = fit_closed_form(method, source[:400], target[:400])
    before, after = precision(source[400:], target[400:]), precision(of_source(source[400:]), of_target(target[400:]))
    assert after > before + 0.2
    assert (of_source is of_target) == (method not in PER_LANGUAGE)
    assert bool(settings) == (method not in NOTHING_TO_CHOOSE)


def test_the_same_seed_gives_the_same_head():
    source, target, _ = rotated()
    first, second = (fit_closed_form("cca", source, target, seed=3)[0] for _ in range(2))
    assert np.array_equal(first.weight, second.weight)


def test_too_few_pairs():
    with pytest.raises(ValueError, match="9 sentence pairs are too few"):
        fit_closed_form("cca", np.eye(9), np.eye(9))


def test_a_tied_cca_is_cca_where_nothing_is_shared():
    source, target, _ = rotated(noise=1.0, size=6)
    untied = {s["shrinkage"]: (a, b) for s, a, b in tied(source, target, shares=(0.0,), powers=(1.0,))}
    plain = {s["shrinkage"]: (a, b) for s, a, b in cca(source, target) if s["power"] == 1.0}
    for side, vectors in enumerate((source, target)):
        x, y = (abs(each[0.1][side](vectors)) for each in (untied, plain))
        assert np.corrcoef(x[:, 0], y[:, 0])[0, 1] > 0.99


def test_wholly_tied_maps_differ_in_their_means_and_signs_alone():
    source, target, _ = rotated(noise=1.0, size=6)
    for _, of_source, of_target in tied(source, target, shares=(1.0,)):
        assert np.allclose(abs(of_source.weight), abs(of_target.weight), atol=1e-6)
        assert np.allclose(of_source(source).mean(0), 0, atol=1e-8)
        assert np.allclose(of_target(target).mean(0), 0, atol=1e-8)


def test_tied_maps_are_as_wide_as_the_pairs_allow(monkeypatch):
    rng = np.random.default_rng(0)
    source = rng.normal(size=(15, 40))
    _, of_source, of_target = next(iter(tied(source, source + 0.1 * rng.normal(size=(15, 40)))))
    assert of_source.weight.shape == of_target.weight.shape == (28, 40)  # two centred sides of 15
    monkeypatch.setattr(closed_form, "WIDEST", 7)
    assert next(iter(tied(source, source)))[1].weight.shape == (7, 40)


def test_principal_directions_are_those_of_the_covariance_however_many_rows_there_are():
    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=(9, 30)) * np.linspace(3, 0.1, 30) for _ in range(2))
    few = principal_directions(x, y, 5)
    many = principal_directions(np.concatenate([x] * 4), np.concatenate([y] * 4), 5)
    assert np.allclose(few.T @ few, np.eye(5))
    assert np.allclose(abs(few.T @ many), np.eye(5), atol=1e-6)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("whiten", [True, False])
def test_standardised_vectors(shared, whiten):
    source, target, _ = rotated(size=6)
    source *= np.linspace(5, 0.5, 6)
    maps = standardised(source, target, shared=shared, whiten=whiten)
    assert (maps[0] is maps[1]) == shared
    moved = [affine(side) for affine, side in zip(maps, (source, target))]
    for side in moved:
        assert np.allclose(side.mean(0), 0, atol=1e-8)
    assert np.mean([(side**2).sum(1).mean() for side in moved]) == pytest.approx(1)
    values = [np.linalg.eigvalsh(np.cov(side.T))[1:] for side in moved]  # but for the projected direction
    if whiten and not shared:
        assert max((each.max() / each.min()) for each in values) < 4 < source.var(0).max() / source.var(0).min()


def translations(count=400, size=12):
    """Vectors that share their components the less the later they stand; one of them tells the language."""
    rng = np.random.default_rng(0)
    meaning = rng.normal(size=(count, size)) * np.linspace(2.0, 0.1, size)
    sides = [meaning + 0.3 * rng.normal(size=(count, size)) for _ in range(2)]
    for side, sign in zip(sides, (1, -1)):
        side[:, 5] = sign * 5.0  # the language
    turn = np.linalg.qr(rng.normal(size=(size, size)))[0]
    return [side @ turn for side in sides], turn


def test_the_strongest_directions_come_first_and_what_tells_the_language_last():
    sides, turn = translations()
    rotation = strength_rotation(*sides)
    np.testing.assert_allclose(rotation @ rotation.T, np.eye(12), atol=1e-12)
    found = np.abs(rotation @ turn.T)  # rows: components found, columns: as they were made
    assert found[0].argmax() == 0
    assert found[-1].argmax() == 5
    x, y = (side / np.linalg.norm(side, axis=1, keepdims=True) @ rotation.T for side in sides)
    shared = (x * y).mean(0)
    np.testing.assert_array_equal(shared, np.sort(shared)[::-1])
    np.testing.assert_allclose(strength_rotation(x, y), np.eye(12), atol=1e-9)  # in this order already


def test_texts_without_a_vector_do_not_count_for_the_order():
    sides, _ = translations()
    more = [np.vstack([side, np.zeros(12)]) for side in sides]
    np.testing.assert_allclose(np.abs(strength_rotation(*more) @ strength_rotation(*sides).T), np.eye(12), atol=1e-6)
