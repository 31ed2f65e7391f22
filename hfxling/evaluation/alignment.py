"""Alignment error rate, precision, recall and F1 of word links against gold ones (Och & Ney 2003)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from hfxling.data.pharaoh import AlignedPair, Link
from hfxling.files import content_hash

from .results import EvalResult
from .significance import jackknife_error, ratio_interval

METRICS = ("AER", "precision", "recall", "F1")


def count_links(predicted: Iterable[Iterable[Link]], gold: Sequence[AlignedPair]) -> np.ndarray:
    """(N, 4) counts per sentence pair: found links that are sure, that are possible, all found, all sure links."""
    predicted = [set(links) for links in predicted]
    if len(predicted) != len(gold):
        raise ValueError(f"{len(predicted)} lines of links for {len(gold)} gold pairs; give one line for each pair.")
    for number, (links, pair) in enumerate(zip(predicted, gold), 1):
        for i, j in links:
            if not (0 <= i < len(pair.source) and 0 <= j < len(pair.target)):
                sizes = f"{len(pair.source)} source and {len(pair.target)} target words"
                raise ValueError(f"pair {number}: link {i}-{j} does not fit {sizes}; links are counted from 0.")
    rows = []
    for links, pair in zip(predicted, gold):
        rows.append((len(links & pair.sure), len(links & pair.possible), len(links), len(pair.sure)))
    return np.array(rows, np.int64).reshape(-1, 4)


def alignment_scores(counts) -> dict[str, np.ndarray]:
    """The `METRICS` in percent, shape (...), from (..., 4) sums of `count_links` over sentence pairs.

    Precision counts a possible link as right; recall asks only for the sure ones:
    AER = 1 - (|A & S| + |A & P|) / (|A| + |S|).
    If there is nothing to divide by, precision and recall are 100 and AER is 0.
    """
    sure_hits, possible_hits, links, sure = np.moveaxis(np.asarray(counts, np.float64), -1, 0)
    precision, recall = _ratio(possible_hits, links), _ratio(sure_hits, sure)
    error = 1 - _ratio(sure_hits + possible_hits, links + sure)
    harmonic = np.where(precision + recall > 0, 2 * precision * recall / np.maximum(precision + recall, 1e-300), 0)
    return {name: 100 * value for name, value in zip(METRICS, (error, precision, recall, harmonic))}


def alignment_results(
    predicted: Iterable[Iterable[Link]],
    gold: Sequence[AlignedPair],
    **fields,
) -> list[EvalResult]:
    """AER, precision, recall and F1 in percent as result rows, with 95% intervals by the jackknife over sentence pairs.

    `fields` are those of `EvalResult`: dataset, split, direction, model, settings and so on.
    """
    counts = count_links(predicted, gold)
    if not len(counts):
        raise ValueError("there are no sentence pairs to evaluate links on; give some.")
    sentences, links = [], []
    for pair in gold:
        sentences += [" ".join(pair.source), " ".join(pair.target)]
        links.append(f"{sorted(pair.sure)} {sorted(pair.possible)}")
    fields = {"revision": content_hash(sentences, links)} | fields
    values = alignment_scores(counts.sum(0))
    errors = jackknife_error(lambda sums: np.stack([*alignment_scores(sums).values()], -1), counts)
    rows = []
    for name, error in zip(METRICS, errors):
        low, high = ratio_interval(values[name], error, len(counts))
        rows.append(EvalResult(name, float(values[name]), len(counts), low=low, high=high, **fields))
    return rows


def _ratio(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    return np.where(whole > 0, part / np.maximum(whole, 1), 1.0)
