"""Closed-form heads on data whose answer is known."""

import numpy as np
import pytest

from hfxling.evaluation.retrieval import gold_ranks
from hfxling.training.siamese.closed_form import (
    CLOSED_FORMS,
    PER_LANGUAGE,
    cca,
    discriminant,
    fit_closed_form,
    procrustes,
    ridge,
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


def test_discriminant_centres_both_languages_with_one_map():
    rng = np.random.default_rng(0)
    meaning = rng.normal(size=(300, 10))
    gap = np.zeros(10)
    gap[3] = 8.0
    source, target = meaning + 0.2 * rng.normal(size=(300, 10)), meaning + gap + 0.2 * rng.normal(size=(300, 10))
    _, of_source, of_target = list(discriminant(source, target))[1]
    assert of_source is of_target
    assert np.allclose(of_source(source).mean(0), 0, atol=1e-6)
    assert np.allclose(of_target(target).mean(0), 0, atol=1e-6)
    assert precision(of_source(source), of_target(target)) > precision(source, target) + 0.5


@pytest.mark.parametrize("method", CLOSED_FORMS)
def test_fit_helps_on_unseen_pairs(method):
    source, target, _ = rotated(count=600, noise=0.5)
    if method == "discriminant":  # one map for both cannot undo a rotation
        target = source + 0.5 * np.random.default_rng(1).normal(size=source.shape) + 3
    of_source, of_target, settings = fit_closed_form(method, source[:400], target[:400])
    before, after = precision(source[400:], target[400:]), precision(of_source(source[400:]), of_target(target[400:]))
    assert after > before + 0.2
    assert (of_source is of_target) == (method not in PER_LANGUAGE)
    assert bool(settings) == (method != "procrustes")


def test_the_same_seed_gives_the_same_head():
    source, target, _ = rotated()
    first, second = (fit_closed_form("cca", source, target, seed=3)[0] for _ in range(2))
    assert np.array_equal(first.weight, second.weight)


def test_too_few_pairs():
    with pytest.raises(ValueError, match="9 sentence pairs are too few"):
        fit_closed_form("cca", np.eye(9), np.eye(9))
