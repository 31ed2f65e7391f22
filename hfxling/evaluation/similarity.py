"""Do cosines agree with people? Pearson and Spearman correlation with human scores, and tests between two systems.

Takes arrays of sentence vectors or cosines and never a model.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict

import numpy as np

from hfxling.data.scored import ScoredPairs
from hfxling.files import content_hash
from hfxling.mining.neighbours import paired_units

from .items import Items
from .results import EvalResult
from .significance import PairedTest, percentile_interval, tail_p_value

SAMPLES = 2000  # bootstrap resamples of the rows
_CHUNK = 2**22  # numbers held at once while resampling


def cosines(source, target) -> np.ndarray:
    """(N,) cosine of each row of (N, D) source vectors with its own target row.

    Raises:
        ValueError: unequal shapes; rows that are zero, NaN or infinite.
    """
    return np.einsum("ij,ij->i", *paired_units(source, target), dtype=np.float64)


def pearson(a, b) -> float:
    """Pearson correlation of two (N,) arrays.

    Raises:
        ValueError: fewer than four rows, unequal lengths, NaN, or one side constant.
    """
    a, b = _standard(a), _standard(b)
    if len(a) != len(b):
        raise ValueError(f"{len(a)} and {len(b)} scores; a correlation needs one of each a row.")
    return float(np.mean(a * b))


def williams_test(gold, a, b) -> float:
    """Two-sided p-value for corr(gold, a) = corr(gold, b) on the same rows (Williams 1959; usual at WMT).

    Raises:
        ValueError: as `pearson`.
    """
    from scipy.stats import t

    n = len(_standard(gold))
    with_a, with_b, between = pearson(gold, a), pearson(gold, b), pearson(a, b)
    if with_a == with_b:
        return 1.0
    determinant = max(0.0, 1 - with_a**2 - with_b**2 - between**2 + 2 * with_a * with_b * between)
    spread = 2 * determinant * (n - 1) / (n - 3) + ((with_a + with_b) / 2) ** 2 * (1 - between) ** 3
    if spread <= 0:
        return 1.0
    return float(2 * t.sf(abs(with_a - with_b) * math.sqrt((n - 1) * (1 + between) / spread), n - 3))


def pearson_resamples(gold, *systems, samples: int = SAMPLES, seed: int = 0) -> np.ndarray:
    """(systems, samples) Pearson correlations on resamples of the rows, the same resamples for every system."""
    gold = _standard(gold)
    columns = [np.ones_like(gold), gold, gold**2]
    for system in systems:
        system = _standard(system)
        columns += [system, system**2, system * gold]
    table, n = np.stack(columns, 1), len(gold)
    rng, step, sums = np.random.default_rng(seed), max(1, _CHUNK // n), []
    for start in range(0, samples, step):
        drawn = rng.integers(n, size=(min(step, samples - start), n))
        places = drawn + n * np.arange(len(drawn))[:, None]
        counts = np.bincount(places.ravel(), minlength=drawn.size).reshape(drawn.shape)
        sums.append(counts @ table / n)
    _, g, gg, *rest = np.concatenate(sums).T
    found = []
    for s, ss, sg in zip(rest[::3], rest[1::3], rest[2::3]):
        spread = np.sqrt(np.maximum(gg - g**2, 0) * np.maximum(ss - s**2, 0))
        found.append(np.divide(sg - s * g, spread, out=np.zeros_like(g), where=spread > 0))
    return np.array(found)


def correlation_results(
    sets: Sequence[ScoredPairs],
    scores: Sequence[np.ndarray],
    *,
    baseline: Sequence[np.ndarray] | None = None,
    settings: dict | None = None,
    **fields,
) -> list[EvalResult]:
    """Pearson with its bootstrap 95 % interval, and Spearman, for every set; and the average of each dataset.

    The average is over the sets that are not `apart`, where there are several.

    `scores` are for each set (N,) cosines of one system, `baseline` another's of the same rows: Pearson rows then carry
    the paired comparison as "paired", bootstrap interval of the difference and the p-value of `williams_test` (of the
    average: the share of resamples beyond zero, doubled). `settings` are joined to every row's, e.g. {"stage":
    "after"}; `fields` are further ones of `EvalResult`: model, model_revision, seed.

    Raises:
        ValueError: as `pearson`.
    """
    from scipy.stats import spearmanr

    rows, of_dataset, settings = [], {}, settings or {}
    for i, (pairs, found) in enumerate(zip(sets, scores)):
        systems = (found,) if baseline is None else (found, baseline[i])
        values = [pearson(pairs.scores, system) for system in systems]
        resamples = pearson_resamples(pairs.scores, *systems, seed=i)
        p_value = None if baseline is None else williams_test(pairs.scores, *systems)
        items = Items("pearson", (np.stack([pairs.scores, found], 1),))
        place = pairs.result_fields() | fields | {"items": items}
        rows.append(_row("Pearson", values, len(found), resamples, p_value, settings, place))
        rank = spearmanr(pairs.scores, found).statistic
        rows.append(EvalResult("Spearman", rank, len(found), unit="", settings=settings, **place | {"items": None}))
        if not pairs.apart:
            of_dataset.setdefault((pairs.dataset, pairs.split), []).append((pairs, values, resamples, items))
    for (dataset, split), members in of_dataset.items():
        if len(members) > 1:
            rows.append(_average(dataset, split, members, settings, fields))
    return rows


def _average(dataset: str, split: str, members: list[tuple], settings: dict, fields: dict) -> EvalResult:
    """The mean Pearson of a dataset's sets; resamples of different sets are independent of each other."""
    values = np.mean([values for _, values, *_ in members], axis=0)
    resamples = np.mean([resamples for *_, resamples, _ in members], axis=0)
    about = settings | {"average_of": [pairs.direction for pairs, *_ in members]}
    p_value = None
    if len(values) == 2:
        p_value = tail_p_value(resamples[0] - resamples[1])
    revision = content_hash(pairs.result_fields()["revision"] for pairs, *_ in members)
    items = Items("pearson", tuple(found.groups[0] for *_, found in members))
    place = {"dataset": dataset, "split": split, "revision": revision, "items": items}
    n = sum(len(pairs.scores) for pairs, *_ in members)
    return _row("Pearson avg", values, n, resamples, p_value, about, place | fields)


def _row(metric: str, values, n: int, resamples, p_value: float | None, settings: dict, fields: dict) -> EvalResult:
    """The first system's row; with a p-value its settings carry the comparison with the second."""
    if p_value is not None:
        difference = float(values[0] - values[1]), *percentile_interval(resamples[0] - resamples[1])
        settings = settings | {"paired": asdict(PairedTest(*difference, p_value))}
    low, high = percentile_interval(resamples[0])
    return EvalResult(metric, values[0], n, unit="", low=low, high=high, settings=settings, **fields)


def _standard(scores) -> np.ndarray:
    """Mean 0 and variance 1, so that sums of squares lose no digits."""
    scores = np.asarray(scores, dtype=np.float64)
    if scores.ndim != 1 or len(scores) < 4 or not np.isfinite(scores).all():
        raise ValueError(f"Need at least four finite scores in one row each, got shape {scores.shape}.")
    spread = scores.std()
    if spread <= 1e-12 * np.abs(scores).max():
        raise ValueError(f"All {len(scores)} scores are the same, so they correlate with nothing.")
    return (scores - scores.mean()) / spread
