"""Linear heads in closed form: seconds instead of epochs, and the yardstick for the trained ones.

Each takes N parallel sentence vectors and yields, for every setting of its own, one affine map a language, or the same
map for both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from tqdm.auto import tqdm

from hfxling.evaluation.retrieval import gold_ranks


@dataclass(frozen=True)
class Affine:
    """x -> x @ weight.T + bias, with weight (H, H) and bias (H,)."""

    weight: np.ndarray
    bias: np.ndarray

    def __call__(self, vectors: np.ndarray) -> np.ndarray:
        """(N, H) to (N, H)."""
        return vectors @ self.weight.T + self.bias


def procrustes(source: np.ndarray, target: np.ndarray) -> Iterable[tuple[dict, Affine, Affine]]:
    """The rotation of the centred source onto the centred target (Schönemann 1966); the target is only centred."""
    mean_s, mean_t = source.mean(0), target.mean(0)
    u, _, vt = np.linalg.svd((target - mean_t).T @ (source - mean_s))
    rotation = u @ vt
    yield {}, _centred(rotation, mean_s), _centred(np.eye(len(mean_t)), mean_t)


def ridge(source: np.ndarray, target: np.ndarray) -> Iterable[tuple[dict, Affine, Affine]]:
    """Least squares from the centred source to the centred target with an L2 penalty; the target is only centred."""
    mean_s, mean_t = source.mean(0), target.mean(0)
    x, y = source - mean_s, target - mean_t
    values, vectors = np.linalg.eigh(x.T @ x)
    cross = vectors.T @ (x.T @ y)
    for penalty in (0.01, 0.03, 0.1, 0.3, 1.0, 3.0):
        weight = vectors @ (cross / (values + penalty * values.mean())[:, None])
        yield {"penalty": penalty}, _centred(weight.T, mean_s), _centred(np.eye(len(mean_t)), mean_t)


def cca(source: np.ndarray, target: np.ndarray) -> Iterable[tuple[dict, Affine, Affine]]:
    """Canonical correlation analysis (Hotelling 1936) with shrunken covariances and components weighted by `s**power`.

    Both languages are whitened and rotated onto their common directions; directions in which the pair does not
    correlate (s near 0), language identity among them, fade out.
    """
    mean_s, mean_t = source.mean(0), target.mean(0)
    x, y = source - mean_s, target - mean_t
    of_x, of_y, cross = _eigen(x.T @ x / len(x)), _eigen(y.T @ y / len(y)), x.T @ y / len(x)
    for shrinkage in (0.003, 0.01, 0.03, 0.1, 0.3):
        white_x, white_y = _whitener(*of_x, shrinkage), _whitener(*of_y, shrinkage)
        u, s, vt = np.linalg.svd(white_x @ cross @ white_y)
        for power in (0.5, 1.0, 1.5, 2.0):
            weight = s[:, None] ** power
            found = {"shrinkage": shrinkage, "power": power}
            yield found, _centred(weight * (u.T @ white_x), mean_s), _centred(weight * (vt @ white_y), mean_t)


def discriminant(source: np.ndarray, target: np.ndarray) -> Iterable[tuple[dict, Affine, Affine]]:
    """One map for both languages: whiten what differs inside a pair, weight what it shares (PLDA; Ioffe 2006).

    The direction between the two languages' means is projected out first, so both languages are centred without
    anyone having to say which language a text is in.
    """
    mean_s, mean_t = source.mean(0), target.mean(0)
    gap = mean_s - mean_t
    project = np.eye(len(gap)) - np.outer(gap, gap) / max(gap @ gap, 1e-12)
    within, between = (source - mean_s) - (target - mean_t), (source - mean_s) + (target - mean_t)
    of_within = _eigen(within.T @ within / (2 * len(within)))
    between = between.T @ between / (2 * len(between))
    middle = (mean_s + mean_t) / 2
    for shrinkage in (0.003, 0.01, 0.03, 0.1, 0.3):
        white = _whitener(*of_within, shrinkage)
        ratio, directions = np.linalg.eigh(white @ between @ white)
        # ratio = between / within variance of a direction; (r - 1) / (r + 1) is the correlation of the pair along it.
        signal = np.sqrt(np.maximum(ratio - 1, 0) / (ratio + 1))
        affine = _centred(signal[:, None] * (directions.T @ white @ project), middle)
        yield {"shrinkage": shrinkage}, affine, affine


CLOSED_FORMS: dict[str, Callable] = {
    "cca": cca,
    "discriminant": discriminant,
    "procrustes": procrustes,
    "ridge": ridge,
}
PER_LANGUAGE = ("cca", "procrustes", "ridge")


def fit_closed_form(
    method: str, source: np.ndarray, target: np.ndarray, *, folds: int = 5, seed: int = 0, progress: bool = False
) -> tuple[Affine, Affine, dict]:
    """Fit a head, its shrinkage and weights chosen by cross-validated retrieval on the same pairs.

    Args:
        method: a key of `CLOSED_FORMS`.
        source: (N, H) vectors; row i is parallel to target row i.
        target: (N, H).
        folds: of the cross-validation; each fold's candidates are searched for their own translations, at most 2,000.
        seed: of the folds.
        progress: show how far it is, where it takes more than two seconds.

    Returns:
        The source's map, the target's map (the same object for a shared head) and the chosen settings.

    Raises:
        ValueError: for fewer than ten pairs: too few to choose anything by.
    """
    count = len(source)
    if count < 10:
        raise ValueError(f"{count} sentence pairs are too few to fit a head in closed form; give at least ten.")
    source, target = np.asarray(source, np.float64), np.asarray(target, np.float64)
    scores: dict[tuple, list[float]] = {}
    parts = np.array_split(np.random.default_rng(seed).permutation(count), folds)
    bar = tqdm(parts if method != "procrustes" else (), desc=method, unit="fold", delay=2, disable=not progress)
    for held_out in bar:
        kept = np.setdiff1d(np.arange(count), held_out)
        held_out = held_out[:2000]
        for settings, of_source, of_target in CLOSED_FORMS[method](source[kept], target[kept]):
            ranks = gold_ranks(of_source(source[held_out]), of_target(target[held_out]))
            reciprocal = np.mean([1 / np.concatenate(ranks)])
            scores.setdefault(tuple(settings.items()), []).append(float(reciprocal))
    best = dict(max(scores, key=lambda key: np.mean(scores[key]))) if scores else {}
    for settings, of_source, of_target in CLOSED_FORMS[method](source, target):
        if settings == best:
            return of_source, of_target, settings
    raise RuntimeError(f"{method} no longer offers {best}")  # unreachable: both loops run over the same grid


def _centred(weight: np.ndarray, mean: np.ndarray) -> Affine:
    return Affine(weight, -weight @ mean)


def _eigen(covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    values, vectors = np.linalg.eigh(covariance)
    return np.maximum(values, 0), vectors


def _whitener(values: np.ndarray, vectors: np.ndarray, shrinkage: float) -> np.ndarray:
    """Inverse square root of the covariance plus `shrinkage` times its mean variance."""
    return (vectors * (values + shrinkage * values.mean() + 1e-12) ** -0.5) @ vectors.T
