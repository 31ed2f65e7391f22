"""Human scores, retrieval, geometry and language probes, before and after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

import numpy as np

from hfxling.evaluation.geometry import geometry_results
from hfxling.evaluation.probes import probe_result
from hfxling.evaluation.results import EvalResult
from hfxling.evaluation.retrieval import ranking_results
from hfxling.evaluation.short_vectors import FinalVectors
from hfxling.evaluation.similarity import correlation_results, cosines
from hfxling.methods.frozen import PairVectors
from hfxling.methods.heads import Embed, as_it_came, final_vectors, rank_pair
from hfxling.models.modeling_disentangler import DisentanglerHead

from .arguments import SplitSettings
from .data import Prepared, number_of_pair
from .train import FittedSplit, division, meaning_of, sample_sides, split_vectors


def evaluate(
    data: Prepared,
    heads: Sequence[FittedSplit],
    settings: SplitSettings,
    *,
    origin: Mapping,
    probe_pairs: int,
    seed: int | None = None,
) -> list[EvalResult]:
    """Correlation with human scores, retrieval, geometry and language probes, before and after.

    Args:
        data: text and vectors.
        heads: the split of each language pair, or one of all; without any the rows are those of the vectors as they
            came alone, stage "before".
        settings: of the split: shares and sizes of the samples.
        origin: layer and pooling, for the rows.
        probe_pairs: validation pairs a language pair that probes read; 0 for no probes.
        seed: of the training run.
    """
    before, after = {**origin, "stage": "before"}, {**origin, "stage": "after"}
    fields: dict = {"model": data.model}
    scores = [cosines(*sides) for sides in data.scored]
    results = correlation_results(data.corpus.scored, scores, settings=before, **fields)
    tested = tested_pairs(data)
    rankings = [rank_pair(vectors, as_it_came) for _, vectors, _ in tested]
    for (_, _, of_text), ranked in zip(tested, rankings):
        results += ranking_results(ranked, settings=before, **of_text, **fields)
    results += _on_validation(data, (), settings, probe_pairs, settings_of_rows=before, **fields)
    if not heads:
        return results
    fields["seed"] = seed
    languages = data.corpus.language_pairs
    split_scores = []
    for test, sides in zip(data.corpus.scored, data.scored):
        head = _head_of(heads, number_of_pair(languages, test.direction))
        split_scores.append(cosines(split_vectors(head, sides[0])[1], split_vectors(head, sides[1])[1]))
    results += correlation_results(data.corpus.scored, split_scores, baseline=scores, settings=after, **fields)
    for (number, vectors, of_text), baseline in zip(tested, rankings):
        ranked = rank_pair(vectors, meaning_by(_head_of(heads, number)))
        results += ranking_results(ranked, baseline=baseline, settings=after, **of_text, **fields)
    return results + _on_validation(data, heads, settings, probe_pairs, settings_of_rows=after, **fields)


def finished_vectors(data: Prepared, heads: Sequence[FittedSplit], seed: int) -> list[FinalVectors]:
    """Meaning parts of every language pair's test text, and of some of its training text."""
    vectors = []
    for number, of_pair, of_text in tested_pairs(data):
        fields = of_text | {"model": data.model, "seed": seed}
        vectors.append(final_vectors(of_pair, meaning_by(_head_of(heads, number)), fields))
    return vectors


def tested_pairs(data: Prepared) -> list[tuple[int, PairVectors, dict]]:
    """Number, vectors and fields of the results of every language pair that has test text."""
    languages = data.corpus.language_pairs
    pairs = []
    for pair, test in zip(data.tested, data.parallel):
        number = languages.index(pair.languages)
        vectors = PairVectors(pair.languages, data.train[number], test)
        pairs.append((number, vectors, data.corpus.test_fields(pair)))
    return pairs


def meaning_by(head: DisentanglerHead) -> Embed:
    """What gives meaning parts."""
    return lambda vectors, language: split_vectors(head, vectors)[1]


def _head_of(heads: Sequence[FittedSplit], pair: int | None) -> DisentanglerHead:
    """The head that serves a language pair: its own, or the only one."""
    return heads[0].head if len(heads) == 1 else next(split.head for split in heads if pair in split.pairs)


def _on_validation(
    data: Prepared,
    heads: Sequence[FittedSplit],
    settings: SplitSettings,
    probe_pairs: int,
    *,
    settings_of_rows: Mapping,
    **fields,
) -> list[EvalResult]:
    """Geometry of held-out training pairs, and what a probe reads off them, of the vectors or of their parts."""
    fields |= {"dataset": data.corpus.name, "split": "validation", "revision": data.corpus.revision()}
    fields["settings"] = dict(settings_of_rows)
    held = [rows for _, rows in division(data.train, settings.validation_share)]
    pairs = sample_sides(data.train, held, settings.geometry_pairs)
    if not heads:
        results = geometry_results(pairs, **fields)
    else:
        meanings = [meaning_of(_head_of(heads, i), sides) for i, sides in enumerate(pairs)]
        results = geometry_results(meanings, baseline=pairs, **fields)
    if not probe_pairs:
        return results
    pairs, languages, groups = sample_sides(data.train, held, probe_pairs), [], []
    for number, (pair, (source, _)) in enumerate(zip(data.corpus.pairs, pairs)):
        for language in pair.languages:
            languages += [language] * len(source)
            groups += [(number, row) for row in range(len(source))]
    groups = np.unique(groups, axis=0, return_inverse=True)[1]
    vectors = np.concatenate(list(chain.from_iterable(pairs)))
    if not heads:
        return [*results, probe_result(vectors, languages, groups, **fields)]
    meanings, own_languages = [], []
    for i, sides in enumerate(pairs):
        for side in sides:
            _, meaning, own_language = split_vectors(_head_of(heads, i), side)
            meanings.append(meaning)
            own_languages.append(own_language)
    meaning, language = np.concatenate(meanings), np.concatenate(own_languages)
    of_language = probe_result(language, languages, groups, metric="language accuracy of the language part", **fields)
    return [*results, probe_result(meaning, languages, groups, baseline=vectors, **fields), of_language]
