"""Alignment error rate, precision, recall and F1 of word links against gold ones (Och & Ney 2003)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from hfxling.data.pharaoh import AlignedPair, Link
from hfxling.files import content_hash

from .results import EvalResult
from .significance import PairedTest, percentile_interval

METRICS = ("AER", "precision", "recall", "F1")
_CHUNK = 1_000  # resamples at a time


def count_links(predicted: Iterable[Iterable[Link]], gold: Sequence[AlignedPair]) -> np.ndarray:
    """(N, 4) counts of every sentence pair: links that are sure, links that are possible, links, sure links to find.

    Raises:
        ValueError: another number of sentence pairs than gold ones, or a link to a word that is not there.
    """
    predicted = [set(links) for links in predicted]
    if len(predicted) != len(gold):
        raise ValueError(f"{len(predicted)} lines of links for {len(gold)} gold pairs; give one line for each pair.")
    for number, (links, pair) in enumerate(zip(predicted, gold), 1):
        for i, j in links:
            if not (0 <= i < len(pair.source) and 0 <= j < len(pair.target)):
                sizes = f"{len(pair.source)} source and {len(pair.target)} target words"
                raise ValueError(f"pair {number}: link {i}-{j} does not fit {sizes}; links are counted from 0.")
    rows = [(len(a & g.sure), len(a & g.possible), len(a), len(g.sure)) for a, g in zip(predicted, gold)]
    return np.array(rows, np.int64).reshape(-1, 4)


def alignment_scores(counts) -> dict[str, np.ndarray]:
    """The `METRICS` of summed counts, in percent.

    Precision counts a possible link as right, recall asks for the sure ones only:
    AER = 1 - (|A & S| + |A & P|) / (|A| + |S|).

    Args:
        counts: (..., 4) sums over sentence pairs of what `count_links` returns.

    Returns:
        Arrays of shape (...); where there is nothing to divide by, precision and recall are 100 and AER 0.
    """
    sure_hits, possible_hits, links, sure = np.moveaxis(np.asarray(counts, np.float64), -1, 0)
    precision, recall = _ratio(possible_hits, links), _ratio(sure_hits, sure)
    error = 1 - _ratio(sure_hits + possible_hits, links + sure)
    harmonic = np.where(precision + recall > 0, 2 * precision * recall / np.maximum(precision + recall, 1e-300), 0)
    return {name: 100 * value for name, value in zip(METRICS, (error, precision, recall, harmonic))}


def alignment_results(
    predicted: Iterable[Iterable[Link]],
    gold: Sequence[AlignedPair],
    *,
    samples: int = 10_000,
    seed: int = 0,
    **fields,
) -> list[EvalResult]:
    """AER, precision, recall and F1 in percent as result rows, with 95% intervals by bootstrap over sentence pairs.

    Args:
        predicted: links of every pair.
        gold: as `hfxling.data.pharaoh.read_aligned` gives them.
        samples: resamples.
        seed: of the resampling.
        **fields: of `EvalResult`: dataset, split, direction, model, settings and so on.

    Raises:
        ValueError: as `count_links`; no pairs.
    """
    counts = count_links(predicted, gold)
    if not len(counts):
        raise ValueError("there are no sentence pairs to evaluate links on.")
    sentences = [" ".join(side) for pair in gold for side in (pair.source, pair.target)]
    links = [f"{sorted(pair.sure)} {sorted(pair.possible)}" for pair in gold]
    fields = {"revision": content_hash(sentences, links)} | fields
    values = alignment_scores(counts.sum(0))
    resampled = alignment_scores(_resampled(counts[None], samples, np.random.default_rng(seed))[:, 0])
    return [
        EvalResult(name, float(values[name]), len(counts), low=low, high=high, **fields)
        for name in METRICS
        for low, high in [percentile_interval(resampled[name])]
    ]


def paired_alignment_test(a, b, *, metric: str = "AER", samples: int = 10_000, seed: int = 0) -> PairedTest:
    """Compare two systems on the same sentence pairs by paired bootstrap.

    Every resample draws sentence pairs, the same for both systems, and, where a system was trained with several seeds,
    its runs: the interval says what other text and other seeds would give.

    Args:
        a: (N, 4) counts of the first system from `count_links`, or (runs, N, 4).
        b: the same of the second; the number of runs may differ.
        metric: one of `METRICS`.
        samples: resamples.
        seed: of the resampling.

    Returns:
        The difference a - b in percentage points (mean over runs), its 95% interval, and as p-value twice the share of
        resamples in which the difference is zero or has the other sign, at most 1.

    Raises:
        ValueError: other sentence pairs on both sides, an unknown metric.
    """
    a, b = (np.asarray(x)[None] if np.ndim(x) == 2 else np.asarray(x) for x in (a, b))
    if a.ndim != 3 or a.shape[1:] != b.shape[1:] or a.shape[2] != 4 or not a.size:
        raise ValueError(f"counts of shape {a.shape} and {b.shape} are not of the same sentence pairs (runs, N, 4).")
    if metric not in METRICS:
        raise ValueError(f"metric={metric!r} is not one of {', '.join(METRICS)}.")
    observed = alignment_scores(a.sum(1))[metric].mean() - alignment_scores(b.sum(1))[metric].mean()
    runs = np.concatenate([a, b])
    rng = np.random.default_rng(seed)
    scores = alignment_scores(_resampled(runs, samples, rng))[metric]
    means = [
        (scores[:, part] * rng.multinomial(n, np.full(n, 1 / n), size=samples)).sum(1) / n
        for part, n in ((slice(0, len(a)), len(a)), (slice(len(a), None), len(b)))
    ]
    difference = means[0] - means[1]
    crossing = min(np.count_nonzero(difference <= 0), np.count_nonzero(difference >= 0))
    return PairedTest(float(observed), *percentile_interval(difference), min(1.0, 2 * (1 + crossing) / (samples + 1)))


def _resampled(counts: np.ndarray, samples: int, rng: np.random.Generator) -> np.ndarray:
    """(samples, runs, 4) sums over sentence pairs drawn with replacement, the same for all runs, of (runs, N, 4)."""
    runs, n, _ = counts.shape
    table = counts.transpose(1, 0, 2).reshape(n, runs * 4).astype(np.float64)
    chunks = [
        rng.multinomial(n, np.full(n, 1 / n), size=min(_CHUNK, samples - i)) @ table for i in range(0, samples, _CHUNK)
    ]
    return np.concatenate(chunks).reshape(samples, runs, 4)


def _ratio(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    return np.where(whole > 0, part / np.maximum(whole, 1), 1.0)
