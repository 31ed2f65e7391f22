"""Linear heads in closed form: they take seconds instead of epochs, and trained heads are compared with them.

Each takes N parallel sentence vectors and yields, for each of its settings, an affine map for each language, or one map
for both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from tqdm.auto import tqdm

from hfxling.evaluation.retrieval import gold_ranks
from hfxling.sentences.neighbours import unit_or_zero


@dataclass(frozen=True)
class Affine:
    """x -> x @ weight.T + bias, with weight (D, H) and bias (D,)."""

    weight: np.ndarray
    bias: np.ndarray

    def __call__(self, vectors: np.ndarray) -> np.ndarray:
        """(N, H) to (N, D)."""
        return vectors @ self.weight.T + self.bias


def procrustes(source: np.ndarray, target: np.ndarray) -> Iterable[tuple[dict, Affine, Affine]]:
    """The rotation of the centred source onto the centred target (Schönemann 1966); the target is only centred."""
    mean_s, mean_t = source.mean(0), target.mean(0)
    u, _, vt = np.linalg.svd((target - mean_t).T @ (source - mean_s))
    rotation = u @ vt
    yield {}, _affine(rotation, mean_s), _affine(np.eye(len(mean_t)), mean_t)


def ridge(
    source: np.ndarray, target: np.ndarray, *, penalties: Iterable[float] = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
) -> Iterable[tuple[dict, Affine, Affine]]:
    """Least squares from the centred source to the centred target with an L2 penalty; the target is only centred."""
    mean_s, mean_t = source.mean(0), target.mean(0)
    x, y = source - mean_s, target - mean_t
    values, vectors = np.linalg.eigh(x.T @ x)
    cross = vectors.T @ (x.T @ y)
    for penalty in penalties:
        weight = vectors @ (cross / (values + penalty * values.mean())[:, None])
        yield {"penalty": penalty}, _affine(weight.T, mean_s), _affine(np.eye(len(mean_t)), mean_t)


def cca(
    source: np.ndarray,
    target: np.ndarray,
    *,
    shrinkages: Iterable[float] = (0.003, 0.01, 0.03, 0.1, 0.3),
    powers: Iterable[float] = (0.5, 1.0, 1.5, 2.0),
) -> Iterable[tuple[dict, Affine, Affine]]:
    """Canonical correlation analysis (Hotelling 1936) with shrunken covariances and components weighted by `s**power`.

    Both languages are whitened and rotated onto their common directions; directions in which the pair does not
    correlate (s near 0), such as language identity, fade out.
    """
    mean_s, mean_t = source.mean(0), target.mean(0)
    x, y = source - mean_s, target - mean_t
    of_x, of_y, cross = eigen(x.T @ x / len(x)), eigen(y.T @ y / len(y)), x.T @ y / len(x)
    for shrinkage in shrinkages:
        white_x, white_y = shrunken_power(of_x, shrinkage, -0.5), shrunken_power(of_y, shrinkage, -0.5)
        u, s, vt = np.linalg.svd(white_x @ cross @ white_y)
        for power in powers:
            weight = s[:, None] ** power
            settings = {"shrinkage": shrinkage, "power": power}
            yield settings, _affine(weight * (u.T @ white_x), mean_s), _affine(weight * (vt @ white_y), mean_t)


def tied(
    source: np.ndarray,
    target: np.ndarray,
    *,
    shares: Iterable[float] = (0.3, 0.6, 1.0),
    shrinkages: Iterable[float] = (0.03, 0.1, 0.3, 1.0),
    powers: Iterable[float] = (1.0, 1.5),
) -> Iterable[tuple[dict, Affine, Affine]]:
    """CCA whose two maps are drawn towards a common one: a share of each covariance is the mean of both languages'.

    Vectors of one encoder vary similarly in both languages, so if pairs are few for the vectors' width, the mean of the
    two covariances is the better estimate of either. The same share of the cross-covariance is the mean of it and its
    transpose. All of this happens in the `WIDEST` strongest common directions, which is also the largest output width.
    """
    mean_s, mean_t, size = source.mean(0), target.mean(0), source.shape[1]
    x, y = source - mean_s, target - mean_t
    basis = principal_directions(x, y, min(size, WIDEST))
    x, y = x @ basis, y @ basis
    of_x, of_y, cross = x.T @ x / len(x), y.T @ y / len(y), x.T @ y / len(x)
    common, symmetric = (of_x + of_y) / 2, (cross + cross.T) / 2
    variance = np.trace(common) / size  # the mean over all H directions, as in `cca`; the basis may have fewer
    for share in shares:
        eigen_x, eigen_y = eigen((1 - share) * of_x + share * common), eigen((1 - share) * of_y + share * common)
        for shrinkage in shrinkages:
            white_x = shrunken_power(eigen_x, shrinkage, -0.5, variance)
            white_y = shrunken_power(eigen_y, shrinkage, -0.5, variance)
            u, s, vt = np.linalg.svd(white_x @ ((1 - share) * cross + share * symmetric) @ white_y)
            for power in powers:
                weight = s[:, None] ** power
                settings = {"share": share, "shrinkage": shrinkage, "power": power}
                map_x, map_y = (weight * (u.T @ white_x)) @ basis.T, (weight * (vt @ white_y)) @ basis.T
                yield settings, _affine(map_x, mean_s), _affine(map_y, mean_t)


def principal_directions(x: np.ndarray, y: np.ndarray, count: int) -> np.ndarray:
    """(H, at most `count`) orthonormal directions in which centred (N, H) vectors of two languages vary most."""
    both = np.concatenate([x, y])
    if len(both) >= both.shape[1]:
        _, vectors = eigen(both.T @ both)  # the strongest last
        return vectors[:, ::-1][:, :count]
    values, vectors = eigen(both @ both.T)  # the smaller of the two products has the same directions
    kept = np.flatnonzero(values > values[-1] * 1e-10)[::-1][:count]
    return both.T @ vectors[:, kept] / np.sqrt(values[kept])


def discriminant(
    source: np.ndarray, target: np.ndarray, *, shrinkages: Iterable[float] = (0.003, 0.01, 0.03, 0.1, 0.3)
) -> Iterable[tuple[dict, Affine, Affine]]:
    """One map for both languages: whiten what differs inside a pair, weight what it shares (PLDA; Ioffe 2006).

    The direction between the two languages' means is projected out first, so both languages are centred without the
    need to know a text's language.
    """
    mean_s, mean_t = source.mean(0), target.mean(0)
    project = without_gap(mean_s, mean_t)
    within, between = (source - mean_s) - (target - mean_t), (source - mean_s) + (target - mean_t)
    of_within = eigen(within.T @ within / (2 * len(within)))
    between = between.T @ between / (2 * len(between))
    middle = (mean_s + mean_t) / 2
    for shrinkage in shrinkages:
        white = shrunken_power(of_within, shrinkage, -0.5)
        ratio, directions = np.linalg.eigh(white @ between @ white)
        # ratio = between / within variance of a direction; (r - 1) / (r + 1) is the correlation of the pair along it.
        # The root of it, because an inner product uses it twice.
        signal = np.sqrt(np.maximum(ratio - 1, 0) / (ratio + 1))
        affine = _affine(signal[:, None] * (directions.T @ white @ project), middle)
        yield {"shrinkage": shrinkage}, affine, affine


def without_gap(mean_s: np.ndarray, mean_t: np.ndarray) -> np.ndarray:
    """(H, H) projection onto the complement of the direction between two languages' means."""
    gap = mean_s - mean_t
    return np.eye(len(gap)) - np.outer(gap, gap) / max(gap @ gap, 1e-12)


def standardised(source: np.ndarray, target: np.ndarray, *, shared: bool, whiten: bool) -> tuple[Affine, Affine]:
    """Maps that centre (or centre and whiten) vectors, to a mean squared length of 1, as possible inputs of a head.

    A shared map is made from both languages together, and the direction between their means is projected out. Vectors
    are whitened by the covariance of the language, shrunken by `WHITENING` of its mean variance.
    """
    means = source.mean(0), target.mean(0)
    deviations = source - means[0], target - means[1]
    covariances = [side.T @ side / len(side) for side in deviations]
    if shared:
        middle, project = (means[0] + means[1]) / 2, without_gap(*means)
        covariances, means = [(covariances[0] + covariances[1]) / 2] * 2, (middle, middle)
    maps = []
    for covariance, mean in zip(covariances, means):
        weight = shrunken_power(eigen(covariance), WHITENING, -0.5) if whiten else np.eye(len(mean))
        weight = weight @ project if shared else weight
        length = np.sqrt(np.trace(weight @ covariance @ weight.T))
        maps.append(_affine(weight / max(length, 1e-12), mean))
    return (maps[0], maps[0]) if shared else tuple(maps)


def centred(source: np.ndarray, target: np.ndarray) -> Iterable[tuple[dict, Affine, Affine]]:
    """The vectors minus the middle of both languages' means, without the direction between the two."""
    mean_s, mean_t = source.mean(0), target.mean(0)
    affine = _affine(without_gap(mean_s, mean_t), (mean_s + mean_t) / 2)
    yield {}, affine, affine


CLOSED_FORMS: dict[str, Callable] = {
    "centred": centred,
    "cca": cca,
    "tied": tied,
    "discriminant": discriminant,
    "procrustes": procrustes,
    "ridge": ridge,
}
PER_LANGUAGE = ("cca", "tied", "procrustes", "ridge")
NOTHING_TO_CHOOSE = ("centred", "procrustes")
_GRIDS = {"share": "shares", "shrinkage": "shrinkages", "power": "powers", "penalty": "penalties"}  # by setting
FOLDS = 5  # folds of the cross-validation
WIDEST = 512  # most directions in which a tied CCA works
WHITENING = 0.1  # shrinkage of inputs that are whitened before a head: about that which closed forms choose


def fit_closed_form(
    method: str, source: np.ndarray, target: np.ndarray, *, seed: int = 0, progress: bool = False
) -> tuple[Affine, Affine, dict]:
    """Fit one of the `CLOSED_FORMS`, with settings chosen by cross-validated retrieval on the same (N, H) vectors.

    Returns the source's map, the target's map (the same object for a shared head) and the chosen settings.
    """
    count = len(source)
    if count < 10:
        raise ValueError(f"{count} sentence pairs are too few to fit a head in closed form; give at least ten.")
    source, target = np.asarray(source, np.float64), np.asarray(target, np.float64)
    form, best = CLOSED_FORMS[method], {}
    if method not in NOTHING_TO_CHOOSE:
        shown = method if progress else None
        ranks = cross_validate(form, source, target, seed=seed, progress=shown)
        scores = {}
        for key, of_folds in ranks.items():
            scores[key] = np.mean([(1 / fold).mean() for fold in of_folds])
        best = dict(max(scores, key=scores.get))
    return *with_settings(form, source, target, best), best


def with_settings(form: Callable, source: np.ndarray, target: np.ndarray, settings: Mapping) -> tuple[Affine, Affine]:
    """The maps of a closed form with settings that it has yielded before, maybe on other pairs.

    Entries of `settings` that are not settings of closed forms are ignored.
    """
    grid = {_GRIDS[name]: (value,) for name, value in settings.items() if name in _GRIDS}
    ((_, of_source, of_target),) = form(source, target, **grid)
    return of_source, of_target


def cross_validate(
    form: Callable,
    source: np.ndarray,
    target: np.ndarray,
    *,
    seed: int,
    progress: str | None = None,
    first: int | None = None,
) -> dict[tuple, list[np.ndarray]]:
    """Ranks of held-out pairs among the held-out pairs of their fold, for every setting that a closed form offers.

    At most 2,000 pairs of each of the `FOLDS` are ranked. `progress` is the label of a progress bar; without it there
    is no bar. With `first` only so many folds are used.

    Returns:
        settings, as a tuple of their items -> for every fold the ranks of both directions, (2n,), from 1.
    """
    count = len(source)
    ranks: dict[tuple, list[np.ndarray]] = {}
    parts = np.array_split(np.random.default_rng(seed).permutation(count), FOLDS)
    for held_out in tqdm(parts[:first], desc=progress, unit="fold", delay=2, disable=progress is None):
        kept = np.setdiff1d(np.arange(count), held_out)
        held_out = held_out[:2000]
        for settings, of_source, of_target in form(source[kept], target[kept]):
            both_ways = gold_ranks(of_source(source[held_out]), of_target(target[held_out]))
            ranks.setdefault(tuple(settings.items()), []).append(np.concatenate(both_ways))
    return ranks


def strength_rotation(source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """(D, D) rotation, row = new component, by which translations at unit length agree: the strongest comes first.

    Its rows are the eigenvectors of the symmetric part of X'Y/n. The first k rows keep more of what translations have
    in common than any other k directions; what they do not share, such as language identity, comes last or is
    subtracted. Rotating both languages' vectors changes no cosine. The matrix is uncentred on purpose: if a language's
    mean is no translation of the other's, this counts against its direction, which on NTREX finds more left-out
    training pairs than the centred matrix or the one of all vectors. For vectors already in this order the rotation is
    the identity.
    """
    x, y = unit_or_zero(np.asarray(source, np.float64)), unit_or_zero(np.asarray(target, np.float64))
    cross = x.T @ y / len(x)
    _, vectors = np.linalg.eigh((cross + cross.T) / 2)
    rotation = vectors[:, ::-1].T
    # An eigenvector may have either sign: make its largest entry positive.
    largest = np.take_along_axis(rotation, np.abs(rotation).argmax(1)[:, None], axis=1)
    return rotation * np.sign(largest)


def _affine(weight: np.ndarray, mean: np.ndarray) -> Affine:
    return Affine(weight, -weight @ mean)


def eigen(covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues, none below 0, and eigenvectors."""
    values, vectors = np.linalg.eigh(covariance)
    return np.maximum(values, 0), vectors


def shrunken_power(
    of_covariance: tuple[np.ndarray, np.ndarray], shrinkage: float, power: float, variance: float | None = None
) -> np.ndarray:
    """(H, H) power of a covariance, given by `eigen`, plus `shrinkage` times its mean variance, or another variance.

    The addition keeps directions without any variance finite.
    """
    values, vectors = of_covariance
    variance = values.mean() if variance is None else variance
    return (vectors * (values + shrinkage * variance + 1e-12) ** power) @ vectors.T
