"""`--fit auto`: the choice of a head, or of none, by cross-validation on the training pairs alone."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

import numpy as np

from .closed_form import Affine, centred, cross_validate, discriminant, tied, with_settings, without_gap

log = logging.getLogger("hfxling")
ENCODER, CENTRED, DISCRIMINANT, TIED, INFONCE = "encoder", "centred", "discriminant", "tied", "infonce"
# Forms that learn less from the pairs come first. Centred vectors come before the unchanged encoder: few held-out pairs
# do not tell the two apart, and if more pairs do, centred is the better one.
FORMS = (CENTRED, ENCODER, DISCRIMINANT, TIED, INFONCE)
# Shares of the encoder itself in a head, in units of the head: the encoder may know what few pairs cannot show.
ANCHORS = {DISCRIMINANT: (0.0, 0.5, 1.0, 2.0, 4.0), TIED: (0.0, 0.5, 1.0)}
# Standard errors by which a form that learns less from the pairs may be behind the best one, and behind a map learnt
# from fewer than `ENOUGH` pairs: held-out pools are small then, and the best of many maps is easily ahead by chance.
MARGIN, MARGIN_WITH_FEW_PAIRS = 0.5, 2.0
BEHIND = 2.0  # the same by which a trained head may be behind in the first fold and still gets the others
ENOUGH, MOST = 500, 4  # held-out pairs for a stable choice: folds are drawn again until there are so many
TRAINED_FROM = 500  # number of pairs from which a trained head competes
AS_IT_CAME = (("form", ENCODER),)
Maps = tuple[dict, Affine, Affine]
Training = Callable[[np.ndarray, np.ndarray], tuple[Affine, Affine]]


def candidates(source: np.ndarray, target: np.ndarray, *, one_map: bool = False) -> Iterable[Maps]:
    """Every head that competes, as (settings, map of the source, map of the target).

    These are the unchanged encoder; centred: its vectors minus the mean of both languages, without the direction
    between the two; `discriminant`, one map for both; and `tied`, one map for each language. The latter two come with
    several shares of the encoder. With `one_map` only heads with the same map for both languages compete.
    """
    as_it_came = _as_it_came(source)
    yield {"form": ENCODER}, as_it_came, as_it_came
    yield {"form": CENTRED}, *with_settings(centred, source, target, {})
    yield from _anchored(DISCRIMINANT, discriminant(source, target), source, target, ANCHORS[DISCRIMINANT])
    if not one_map:
        heads = tied(source, target, shares=(0.0, 0.5), shrinkages=(0.1, 0.3, 1.0), powers=(1.0,))
        yield from _anchored(TIED, heads, source, target, ANCHORS[TIED])


def fit_form(
    form: str, settings: Mapping, source: np.ndarray, target: np.ndarray, trained: Training | None = None
) -> tuple[Affine, Affine]:
    """The maps of source and target of one form, with settings that were chosen before, maybe on other pairs.

    Only those of the `settings` are used that belong to the form, as `candidates` or `tied` give them. `trained` gives
    the maps of a trained head, if that is the form.
    """
    if form == ENCODER:
        as_it_came = _as_it_came(source)
        return as_it_came, as_it_came
    if form == INFONCE:
        return trained(source, target)
    if form in (DISCRIMINANT, TIED):
        maps = with_settings(discriminant if form == DISCRIMINANT else tied, source, target, settings)
        if "anchor" not in settings:
            return maps
        anchored = list(_anchored(form, [({}, *maps)], source, target, (settings["anchor"],)))
        if anchored:
            _, of_source, of_target = anchored[0]
            return of_source, of_target
    return with_settings(centred, source, target, {})  # the form itself, or all that is left if pairs share nothing


def _as_it_came(source: np.ndarray) -> Affine:
    size = source.shape[1]
    return Affine(np.eye(size), np.zeros(size))


def _anchored(
    form: str, heads: Iterable[Maps], source: np.ndarray, target: np.ndarray, anchors: Iterable[float]
) -> Iterable[Maps]:
    """Heads of a form, and the same drawn towards the centred encoder: their inner products are the sum of both's.

    `x' M y` with `M = U S V'` is the inner product of `sqrt(S) U' x` and `sqrt(S) V' y`, so the sum needs no more
    dimensions than either. Both are scaled to a mean squared length of 1 first. An anchor is the encoder's share.
    """
    means, encoder = (source.mean(0), target.mean(0)), np.eye(source.shape[1])
    if form == DISCRIMINANT:  # one map: it subtracts the middle, and the direction between the languages
        middle, encoder = (means[0] + means[1]) / 2, without_gap(*means)
        means = middle, middle
    covariances = np.cov(source.T, bias=True), np.cov(target.T, bias=True)
    length = (np.trace(covariances[0]) + np.trace(covariances[1])) / 2
    for settings, *maps in heads:
        mapped_length = np.mean([_mean_length(affine, of_side) for affine, of_side in zip(maps, covariances)])
        if mapped_length < 1e-12 * length:  # the pairs were found to share nothing
            continue
        product = maps[0].weight.T @ maps[1].weight / mapped_length
        for anchor in anchors:
            anchored = {"form": form, **settings, "anchor": anchor}
            if anchor == 0:
                yield anchored, *maps
            else:
                shares_map = maps[0] is maps[1]
                yield anchored, *_factors(product + anchor / length * encoder, means, shared=shares_map)


def _mean_length(affine: Affine, covariance: np.ndarray) -> float:
    """tr(W C W'), the mean squared length of a map's output."""
    return np.vdot(affine.weight @ covariance, affine.weight)


def _factors(product: np.ndarray, means: Sequence[np.ndarray], *, shared: bool) -> tuple[Affine, Affine]:
    """Maps of source and target whose inner product is `x' M y`, with this M, which is symmetric for a shared map."""
    if shared:
        values, vectors = np.linalg.eigh(product)  # ascending; negative ones are rounding errors
        weight = np.sqrt(np.maximum(values[::-1], 0))[:, None] * vectors.T[::-1]
        of_both = Affine(weight, -weight @ means[0])
        return of_both, of_both
    u, values, vt = np.linalg.svd(product)
    of_source, of_target = np.sqrt(values)[:, None] * u.T, np.sqrt(values)[:, None] * vt
    return Affine(of_source, -of_source @ means[0]), Affine(of_target, -of_target @ means[1])


def choose(
    ranks: Mapping[tuple, Sequence[np.ndarray]], repeats: int = 1, *, has_few_pairs: bool = False
) -> tuple[tuple, tuple]:
    """The form and settings to fit, and the best of the other forms.

    Chosen is the form that learns least from the pairs, with its best settings, among all within `MARGIN` standard
    errors (paired, over held-out sentences of both directions) of the best mean reciprocal rank; with few pairs, if the
    best is a learnt map, within `MARGIN_WITH_FEW_PAIRS`. Reciprocal ranks need fewer sentences to tell heads apart than
    hits at the first place.

    The ranks by settings are those of `cross_validate`, in which every sentence may occur several times.
    """
    scores = {key: 1 / np.concatenate(folds) for key, folds in ranks.items()}
    means = {key: float(score.mean()) for key, score in scores.items()}
    best = max(means, key=means.get)
    is_learnt = dict(best)["form"] not in (CENTRED, ENCODER)
    margin = MARGIN_WITH_FEW_PAIRS if has_few_pairs and is_learnt else MARGIN
    near = []
    for key, score in scores.items():
        gap = scores[best] - score
        error = gap.std() / np.sqrt(len(gap) / repeats)  # each sentence counts once, however often it was ranked
        if gap.mean() <= margin * error:
            near.append(key)
    chosen = min(near, key=lambda key: (*_freedom(key), -means[key]))
    others = [key for key in means if dict(key)["form"] != dict(chosen)["form"]]
    return chosen, max(others, key=means.get)


def _freedom(key: tuple) -> tuple[int, float]:
    """How much a form learns from the pairs: the larger the encoder's share, the less."""
    settings = dict(key)
    return FORMS.index(settings["form"]), -settings.get("anchor", 0.0)


def fit_auto(
    source: np.ndarray,
    target: np.ndarray,
    *,
    one_map: bool = False,
    trained: Training | None = None,
    seed: int = 0,
    progress: bool = False,
) -> tuple[Affine, Affine, dict]:
    """The head that finds most translations of held-out training pairs, if it can safely be preferred to the encoder.

    There are five folds. The candidates for a held-out sentence are the translations of its fold, at most 2,000; those
    of the other folds were fitted and would look nearer than they are.

    With `one_map` only heads with the same map for both languages compete; `trained` gives the maps of a trained head,
    which competes if there are enough pairs.

    Returns:
        The source's map, the target's (the same object for a shared one), and what was chosen: `form` and its settings,
        and `cross_validated`: P@1 in % of the choice, the runner-up and the encoder among held-out pairs, the mean of
        both directions.
    """
    count = len(source)
    if count < 10:
        raise ValueError(f"{count} sentence pairs are too few to choose a head; give at least ten.")
    source, target = np.asarray(source, np.float64), np.asarray(target, np.float64)
    repeats = max(1, min(MOST, ENOUGH // count))
    shown = "auto" if progress else None
    ranks: dict[tuple, list[np.ndarray]] = {}

    def compete(form: Callable[..., Iterable[Maps]]) -> None:
        for repeat in range(repeats):
            of_folds = cross_validate(form, source, target, seed=seed + repeat, progress=shown)
            for key, folds in of_folds.items():
                ranks.setdefault(key, []).extend(folds)

    compete(partial(candidates, one_map=one_map))
    # A head that found nothing in some fold is missing there; sentences are compared one by one, in all folds.
    folds_in_all = len(ranks[AS_IT_CAME])
    ranks = {key: folds for key, folds in ranks.items() if len(folds) == folds_in_all}
    if trained and count >= TRAINED_FROM:
        alone = partial(_alone, trained)
        first = cross_validate(alone, source, target, seed=seed, first=1)
        if _keeps_up(first, ranks):
            compete(alone)
    chosen, runner_up = choose(ranks, repeats, has_few_pairs=count < ENOUGH)
    compared = {}
    for name, key in (("chosen", chosen), ("runner_up", runner_up), ("encoder", AS_IT_CAME)):
        hits = np.concatenate(ranks[key]) == 1
        compared[name] = dict(key) | {"P@1": round(100 * float(hits.mean()), 1)}
    log.debug(
        "fit auto, %d pairs, P@1 in %% among the held-out pairs of a fold: %s; runner-up %s; encoder as it came %s",
        count,
        *map(_words, compared.values()),
    )
    settings = dict(chosen)
    maps = fit_form(settings["form"], settings, source, target, trained)
    return *maps, settings | {"cross_validated": compared}


def _alone(trained: Training, source: np.ndarray, target: np.ndarray) -> Iterable[Maps]:
    yield {"form": INFONCE}, *trained(source, target)


def _keeps_up(first: Mapping[tuple, list[np.ndarray]], others: Mapping[tuple, list[np.ndarray]]) -> bool:
    """Whether a head gets the other folds, which take time: in the first it is not far behind the best closed form."""
    ((ranks,),) = first.values()
    best = max(others, key=lambda key: np.mean(1 / np.concatenate(others[key])))
    gap = 1 / others[best][0] - 1 / ranks
    return bool(gap.mean() <= BEHIND * gap.std() / np.sqrt(len(gap)))


def _words(compared: dict) -> str:
    """E.g. "tied (share 0.5, shrinkage 0.1, anchor 0.0) 41.2"."""
    settings = ", ".join(f"{key} {value}" for key, value in compared.items() if key not in ("form", "P@1"))
    how = f" ({settings})" if settings else ""
    return f"{compared['form']}{how} {compared['P@1']}"
