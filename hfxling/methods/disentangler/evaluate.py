"""Human scores, retrieval, geometry and language probes, before and after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain

import numpy as np

from hfxling.evaluation.geometry import geometry_results
from hfxling.evaluation.probes import probe_result
from hfxling.evaluation.results import EvalResult
from hfxling.evaluation.short_vectors import FinalVectors
from hfxling.evaluation.similarity import correlation_results, cosines
from hfxling.methods.heads import Embed, as_it_came, final_vectors, retrieval_results
from hfxling.models.modeling_disentangler import DisentanglerHead

from .arguments import SplitSettings
from .data import Prepared, number_of_pair
from .train import division, language_of, meaning_of, sample_sides


def evaluate(
    data: Prepared,
    heads: Sequence[DisentanglerHead],
    settings: SplitSettings,
    *,
    origin: Mapping,
    probe_pairs: int,
    seed: int | None = None,
) -> list[EvalResult]:
    """Correlation with human scores, retrieval, geometry and language probes, before and after.

    `heads` has the head of every language pair, which may be the same one for all; `origin` (layer and pooling) goes
    into the rows. Probes read `probe_pairs` validation pairs of each language pair; 0 for no probes.
    """
    before = {"settings": {**origin, "stage": "before"}, "model": data.model}
    after = {"settings": {**origin, "stage": "after"}, "model": data.model, "seed": seed}
    scores, split_scores = [], []
    for test, (source, target) in zip(data.corpus.scored, data.scored):
        number = number_of_pair(data.corpus.language_pairs, test.direction)
        head = heads[number or 0]  # a test set may be for no pair only if there is one head for all
        scores.append(cosines(source, target))
        split_scores.append(cosines(meaning_of(head, source), meaning_of(head, target)))
    results = correlation_results(data.corpus.scored, scores, **before)
    results += correlation_results(data.corpus.scored, split_scores, baseline=scores, **after)
    results += retrieval_results(data, as_it_came, _embeds(heads), settings=origin, model=data.model, seed=seed)

    # The rest reads held-out training pairs.
    fields = {"dataset": data.corpus.name, "split": "validation", "revision": data.corpus.revision()}
    before, after = before | fields, after | fields
    held = [rows for _, rows in division(data.train, settings.validation_share)]
    pairs = sample_sides(data.train, held, settings.geometry_pairs)
    meanings = []
    for head, sides in zip(heads, pairs):
        meanings.append([meaning_of(head, side) for side in sides])
    results += geometry_results(pairs, **before)
    results += geometry_results(meanings, baseline=pairs, **after)
    if probe_pairs:
        results += _probes(data, heads, sample_sides(data.train, held, probe_pairs), before, after)
    return results


def _probes(
    data: Prepared,
    heads: Sequence[DisentanglerHead],
    pairs: Sequence[Sequence[np.ndarray]],
    before: Mapping,
    after: Mapping,
) -> list[EvalResult]:
    """How well a probe recognises the language from vectors, from their meaning parts and from their language parts."""
    languages, groups, meanings, language_parts = [], [], [], []
    for number, (pair, head, sides) in enumerate(zip(data.corpus.pairs, heads, pairs)):
        for language, side in zip(pair.languages, sides):
            languages += [language] * len(side)
            groups += [(number, row) for row in range(len(side))]
            meanings.append(meaning_of(head, side))
            language_parts.append(language_of(head, side))
    # Both sentences of a pair get the same number, so a probe is never tested on translations of what it was fitted on.
    groups = np.unique(groups, axis=0, return_inverse=True)[1]
    vectors = np.concatenate(list(chain.from_iterable(pairs)))
    meaning, language = np.concatenate(meanings), np.concatenate(language_parts)
    of_language = "language accuracy of the language part"
    return [
        probe_result(vectors, languages, groups, **before),
        probe_result(meaning, languages, groups, baseline=vectors, **after),
        probe_result(language, languages, groups, metric=of_language, **after),
    ]


def finished_vectors(data: Prepared, heads: Sequence[DisentanglerHead], seed: int) -> list[FinalVectors]:
    """Meaning parts of every language pair's test text, and of some of its training text."""
    return final_vectors(data, _embeds(heads), model=data.model, seed=seed)


def _embeds(heads: Sequence[DisentanglerHead]) -> list[Embed]:
    """The functions that give the meaning parts of every language pair."""
    return [partial(_meaning, head) for head in heads]


def _meaning(head: DisentanglerHead, vectors: np.ndarray, language: str) -> np.ndarray:
    return meaning_of(head, vectors)
