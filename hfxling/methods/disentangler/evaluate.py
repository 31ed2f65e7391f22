"""Human scores, retrieval, geometry and language probes, before and after."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hfxling.data.corpus import PairText
from hfxling.evaluation.geometry import geometry_results
from hfxling.evaluation.probes import probe_result
from hfxling.evaluation.results import EvalResult
from hfxling.evaluation.retrieval import rank_translations, ranking_results
from hfxling.evaluation.short_vectors import MOST, FinalVectors
from hfxling.evaluation.similarity import correlation_results, cosines
from hfxling.models.modeling_disentangler import DisentanglerHead

from .arguments import DisentanglerArguments
from .data import Prepared, number_of_pair
from .train import FittedSplit, division, meaning_of, sample_sides, split_vectors


def evaluate(
    args: DisentanglerArguments, data: Prepared, heads: Sequence[FittedSplit] = (), seed: int | None = None
) -> list[EvalResult]:
    """Correlation with human scores, retrieval, geometry and language probes, before and after.

    Args:
        args: sizes of the samples.
        data: text and vectors.
        heads: the split of each language pair, or one of all; without any the rows are those of the vectors as they
            came alone, stage "before".
        seed: of the training run.
    """
    before = [cosines(*sides) for sides in data.scored]
    about, start = {"model": data.model}, {"layer": args.layer, "pooling": args.pooling}
    results = correlation_results(data.corpus.scored, before, settings=start | {"stage": "before"}, **about)
    rankings = [_ranked(pair, sides) for pair, sides in zip(data.tested, data.parallel)]
    for fields, found in zip(_retrieval_fields(data), rankings):
        results += ranking_results(found, settings=start | {"stage": "before"}, **fields, **about)
    results += _on_validation(args, data, (), about)
    if not heads:
        return results
    about["seed"] = seed
    languages = [pair.languages for pair in data.corpus.pairs]
    numbers = [number_of_pair(languages, test.direction) for test in data.corpus.scored]
    after = [
        cosines(*(split_vectors(_head_of(heads, number), side)[1] for side in sides))
        for sides, number in zip(data.scored, numbers)
    ]
    results += correlation_results(
        data.corpus.scored, after, baseline=before, settings=start | {"stage": "after"}, **about
    )
    for pair, fields, found, sides in zip(data.tested, _retrieval_fields(data), rankings, data.parallel):
        head = _head_of(heads, languages.index(pair.languages))
        ranked = _ranked(pair, [split_vectors(head, side)[1] for side in sides])
        results += ranking_results(ranked, baseline=found, settings=start | {"stage": "after"}, **fields, **about)
    return results + _on_validation(args, data, heads, about)


def final_vectors(data: Prepared, heads: Sequence[FittedSplit], seed: int) -> list[FinalVectors]:
    """Meaning parts of every language pair's test text, and of some of its training text."""
    found, languages = [], [pair.languages for pair in data.corpus.pairs]
    for pair, fields, test in zip(data.tested, _retrieval_fields(data), data.parallel):
        number = languages.index(pair.languages)
        head, parts = _head_of(heads, number), (test, [side[:MOST] for side in data.train[number]])
        sides = [[split_vectors(head, side)[1] for side in part] for part in parts]
        found.append(FinalVectors(pair.languages, *sides, fields | {"model": data.model, "seed": seed}))
    return found


def _head_of(heads: Sequence[FittedSplit], pair: int | None) -> DisentanglerHead:
    """The head that serves a language pair: its own, or the only one."""
    return heads[0].head if len(heads) == 1 else next(split.head for split in heads if pair in split.pairs)


def _on_validation(args: DisentanglerArguments, data: Prepared, heads: Sequence[FittedSplit], about: dict) -> list:
    """Geometry of held-out training pairs, and what a probe reads off them, of the vectors or of their parts."""
    fields = {"dataset": data.corpus.name, "split": "validation", "revision": data.corpus.revision(), **about}
    fields["settings"] = {
        "layer": args.layer,
        "pooling": args.pooling,
        "stage": "after" if heads else "before",
    }
    held = [rows for _, rows in division(args, data)]
    pairs = sample_sides(data.train, held, args.geometry_pairs)
    if not heads:
        results = geometry_results(pairs, **fields)
    else:
        meanings = [meaning_of(_head_of(heads, i), sides) for i, sides in enumerate(pairs)]
        results = geometry_results(meanings, baseline=pairs, **fields)
    if not args.probe_pairs:
        return results
    pairs, languages, groups = sample_sides(data.train, held, args.probe_pairs), [], []
    for number, (pair, (source, _)) in enumerate(zip(data.corpus.pairs, pairs)):
        for language in pair.languages:
            languages += [language] * len(source)
            groups += [(number, row) for row in range(len(source))]
    groups = np.unique(groups, axis=0, return_inverse=True)[1]
    vectors = np.concatenate([side for sides in pairs for side in sides])
    if not heads:
        return [*results, probe_result(vectors, languages, groups, **fields)]
    parts = [split_vectors(_head_of(heads, i), side)[1:] for i, sides in enumerate(pairs) for side in sides]
    meaning, language = (np.concatenate(part) for part in zip(*parts))
    of_language = probe_result(language, languages, groups, metric="language accuracy of the language part", **fields)
    return [*results, probe_result(meaning, languages, groups, baseline=vectors, **fields), of_language]


def _ranked(pair: PairText, sides: Sequence[np.ndarray]) -> list:
    source_lang, target_lang = pair.languages
    return rank_translations(*map(np.asarray, sides), source_lang=source_lang, target_lang=target_lang)


def _retrieval_fields(data: Prepared) -> list[dict]:
    return [data.corpus.test_fields(pair) for pair in data.tested]
