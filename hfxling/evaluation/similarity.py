"""Do cosines agree with people? Pearson and Spearman correlation with human scores, and tests between two systems.

The functions take arrays of sentence vectors or cosines, never a model.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict

import numpy as np

from hfxling.data.scored import ScoredPairs
from hfxling.files import content_hash
from hfxling.sentences.neighbours import check_pairing

from .items import Items
from .results import EvalResult
from .retrieval import postprocess
from .significance import PairedTest, average_interval, error_interval, jackknife_error


def cosines(source, target) -> np.ndarray:
    """(N,) cosine of each row of (N, D) source vectors with its own target row; 0 if one of them is all zeros.

    Raises:
        ValueError: for unequal shapes, or rows that are NaN or infinite.
    """
    source, target = postprocess(source), postprocess(target)
    check_pairing(source, target)
    return np.einsum("ij,ij->i", source, target, dtype=np.float64)


def pearson(a, b) -> float:
    """Pearson correlation of two (N,) arrays.

    Raises:
        ValueError: for fewer than four rows, unequal lengths, NaN, or a constant side.
    """
    a, b = _standard(a), _standard(b)
    if len(a) != len(b):
        raise ValueError(f"{len(a)} and {len(b)} scores: a correlation needs the same number of each.")
    return float(np.mean(a * b))


def williams_test(gold, a, b) -> float:
    """Two-sided p-value for corr(gold, a) = corr(gold, b) on the same rows (Williams 1959; usual at WMT)."""
    from scipy.stats import t

    n = len(_standard(gold))
    with_a, with_b, between = pearson(gold, a), pearson(gold, b), pearson(a, b)
    if with_a == with_b:
        return 1.0
    # Student's t with n - 3 degrees of freedom; the determinant is that of the correlations of the three scores.
    determinant = max(0.0, 1 - with_a**2 - with_b**2 - between**2 + 2 * with_a * with_b * between)
    spread = 2 * determinant * (n - 1) / (n - 3) + ((with_a + with_b) / 2) ** 2 * (1 - between) ** 3
    if spread <= 0:
        return 1.0
    return float(2 * t.sf(abs(with_a - with_b) * math.sqrt((n - 1) * (1 + between) / spread), n - 3))


def correlation_interval(gold, system) -> tuple[float, float]:
    """95 % interval of Pearson, on Fisher's scale with the jackknife's error: human scores are not normally
    distributed, so Fisher's own error is up to 1.6 times too small on the sets of WMT20.
    """
    error = jackknife_error(lambda sums: _fisher(_pearson_of(sums)), _products(gold, system))
    low, high = np.tanh(error_interval(_fisher(pearson(gold, system)), error, len(gold)))
    return float(low), float(high)


def compare_correlations(sets: Sequence[tuple]) -> PairedTest:
    """corr(gold, a) - corr(gold, b), the mean over sets (gold, a, b): jackknife interval, and `williams_test`.

    With several (independent) sets the test is the normal one with the same error.
    """
    from scipy.stats import norm

    differences, errors, count = [], [], 0
    for gold, a, b in sets:
        differences.append(pearson(gold, a) - pearson(gold, b))
        errors.append(jackknife_error(_difference_of, np.hstack([_products(gold, a), _products(gold, b)])))
        count += len(gold)
    difference, error = float(np.mean(differences)), np.linalg.norm(errors) / len(sets)
    if len(sets) == 1:
        p_value = williams_test(*sets[0])
    else:
        p_value = float(2 * norm.sf(abs(difference) / error)) if error > 1e-12 else 1.0
    return PairedTest(difference, *error_interval(difference, error, count), p_value)


def correlation_results(
    sets: Sequence[ScoredPairs],
    scores: Sequence[np.ndarray],
    *,
    baseline: Sequence[np.ndarray] | None = None,
    settings: dict | None = None,
    **fields,
) -> list[EvalResult]:
    """Pearson with its 95 % interval, and Spearman, for every set; and the average of each dataset.

    The average is over the sets that are not `apart`, if there are several.

    `scores` has for each set (N,) cosines of one system, `baseline` those of another system for the same rows; Pearson
    rows then hold the outcome of `compare_correlations` as "paired". `settings` are added to every row's, e.g.
    {"stage": "after"}; `fields` are further fields of `EvalResult`: model, model_revision, seed.
    """
    from scipy.stats import spearmanr

    settings = settings or {}
    rows, of_dataset = [], {}
    for pairs, system, theirs in zip(sets, scores, baseline or [None] * len(sets)):
        of_set = {"n": len(system), "unit": "", **pairs.result_fields(), **fields}
        low, high = correlation_interval(pairs.scores, system)
        row = EvalResult(
            "Pearson",
            pearson(pairs.scores, system),
            low=low,
            high=high,
            items=Items("pearson", (np.stack([pairs.scores, system], 1),)),
            settings=settings | _paired([(pairs.scores, system, theirs)]),
            **of_set,
        )
        rows.append(row)
        rows.append(EvalResult("Spearman", spearmanr(pairs.scores, system).statistic, settings=settings, **of_set))
        if not pairs.apart:
            of_dataset.setdefault((pairs.dataset, pairs.split), []).append((pairs, row, theirs))
    for members in of_dataset.values():
        if len(members) > 1:
            rows.append(_average(members, settings, fields))
    return rows


def _average(members: list[tuple], settings: dict, fields: dict) -> EvalResult:
    """The mean Pearson of a dataset's sets, which are independent of each other."""
    sets, rows, theirs = zip(*members)
    values = [row.value for row in rows]
    low, high = average_interval(values, [(row.low, row.high) for row in rows])
    items = Items("pearson", tuple(row.items.groups[0] for row in rows))
    triples = [(*group.T, baseline) for group, baseline in zip(items.groups, theirs)]
    settings = settings | {"average_of": [row.direction for row in rows]} | _paired(triples)
    revision = content_hash(row.revision for row in rows)
    fields = {"dataset": sets[0].dataset, "split": sets[0].split, "revision": revision} | fields
    fields |= {"low": low, "high": high, "unit": "", "items": items, "settings": settings}
    return EvalResult("Pearson avg", float(np.mean(values)), sum(row.n for row in rows), **fields)


def _paired(sets: Sequence[tuple]) -> dict:
    """The comparison of (gold, system, baseline) as settings; {} without a baseline."""
    return {} if sets[0][-1] is None else {"paired": asdict(compare_correlations(sets))}


def _products(gold, system) -> np.ndarray:
    """(N, 6) products of each row that `_pearson_of` needs the sums of."""
    gold, system = _standard(gold), _standard(system)
    return np.stack([np.ones_like(gold), gold, gold**2, system, system**2, system * gold], 1)


def _pearson_of(sums: np.ndarray) -> np.ndarray:
    """(...) correlations from (..., 6) sums."""
    n, g, gg, s, ss, sg = np.moveaxis(sums, -1, 0)
    spread = np.sqrt(np.maximum(n * gg - g**2, 0) * np.maximum(n * ss - s**2, 0))
    return np.divide(n * sg - s * g, spread, out=np.zeros_like(spread), where=spread > 0)


def _difference_of(sums: np.ndarray) -> np.ndarray:
    return _pearson_of(sums[..., :6]) - _pearson_of(sums[..., 6:])


def _fisher(correlation):
    """Fisher's transform, finite at -1 and 1."""
    return np.arctanh(np.clip(correlation, -1 + 1e-12, 1 - 1e-12))


def _standard(scores) -> np.ndarray:
    """Scores with mean 0 and variance 1, so that sums of squares lose no digits."""
    scores = np.asarray(scores, dtype=np.float64)
    if scores.ndim != 1 or len(scores) < 4 or not np.isfinite(scores).all():
        raise ValueError(f"A correlation needs a list of at least four finite scores, got shape {scores.shape}.")
    spread = scores.std()
    if spread <= 1e-12 * np.abs(scores).max():
        raise ValueError(f"All {len(scores)} scores are the same, so they correlate with nothing.")
    return (scores - scores.mean()) / spread
