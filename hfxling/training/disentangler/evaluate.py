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

from .arguments import DisentanglerArguments
from .data import Prepared
from .train import FittedSplit, division, meaning_of, sample_sides, split_vectors


def evaluate(
    args: DisentanglerArguments, data: Prepared, fitted: FittedSplit | None = None, seed: int | None = None
) -> list[EvalResult]:
    """Correlation with human scores, retrieval, geometry and language probes, before and after.

    Args:
        args: sizes of the samples.
        data: text and vectors.
        fitted: the split; None gives the rows of the vectors as they came alone, stage "before".
        seed: of the training run.
    """
    before = [cosines(*sides) for sides in data.scored]
    about, start = {"model": data.model}, {"layer": args.layer, "pooling": args.pooling}
    results = correlation_results(data.corpus.scored, before, settings=start | {"stage": "before"}, **about)
    rankings = [_ranked(pair, sides) for pair, sides in zip(data.tested, data.parallel)]
    for fields, found in zip(_retrieval_fields(data), rankings):
        results += ranking_results(found, settings=start | {"stage": "before"}, **fields, **about)
    results += _on_validation(args, data, None, about)
    if fitted is None:
        return results
    about["seed"] = seed
    after = [cosines(*(split_vectors(fitted.head, side)[1] for side in sides)) for sides in data.scored]
    results += correlation_results(
        data.corpus.scored, after, baseline=before, settings=start | {"stage": "after"}, **about
    )
    for pair, fields, found, sides in zip(data.tested, _retrieval_fields(data), rankings, data.parallel):
        ranked = _ranked(pair, [split_vectors(fitted.head, side)[1] for side in sides])
        results += ranking_results(ranked, baseline=found, settings=start | {"stage": "after"}, **fields, **about)
    return results + _on_validation(args, data, fitted, about)


def final_vectors(data: Prepared, fitted: FittedSplit, seed: int) -> list[FinalVectors]:
    """Meaning parts of every language pair's test text, and of some of its training text."""
    found, trained = [], dict(zip((pair.languages for pair in data.corpus.pairs), data.train))
    for pair, fields, test in zip(data.tested, _retrieval_fields(data), data.parallel):
        parts = (test, [side[:MOST] for side in trained[pair.languages]])
        sides = [[split_vectors(fitted.head, side)[1] for side in part] for part in parts]
        found.append(FinalVectors(pair.languages, *sides, fields | {"model": data.model, "seed": seed}))
    return found


def _on_validation(args: DisentanglerArguments, data: Prepared, fitted: FittedSplit | None, about: dict) -> list:
    """Geometry of held-out training pairs, and what a probe reads off them, of the vectors or of their parts."""
    fields = {"dataset": data.corpus.name, "split": "validation", "revision": data.corpus.revision(), **about}
    fields["settings"] = {
        "layer": args.layer,
        "pooling": args.pooling,
        "stage": "before" if fitted is None else "after",
    }
    held = [rows for _, rows in division(args, data)]
    pairs = sample_sides(data, held, args.geometry_pairs)
    if fitted is None:
        results = geometry_results(pairs, **fields)
    else:
        results = geometry_results([meaning_of(fitted.head, sides) for sides in pairs], baseline=pairs, **fields)
    if not args.probe_pairs:
        return results
    pairs, languages, groups = sample_sides(data, held, args.probe_pairs), [], []
    for number, (pair, (source, _)) in enumerate(zip(data.corpus.pairs, pairs)):
        for language in pair.languages:
            languages += [language] * len(source)
            groups += [(number, row) for row in range(len(source))]
    groups = np.unique(groups, axis=0, return_inverse=True)[1]
    vectors = np.concatenate([side for sides in pairs for side in sides])
    if fitted is None:
        return [*results, probe_result(vectors, languages, groups, **fields)]
    _, meaning, language = split_vectors(fitted.head, vectors)
    of_language = probe_result(language, languages, groups, metric="language accuracy of the language part", **fields)
    return [*results, probe_result(meaning, languages, groups, baseline=vectors, **fields), of_language]


def _ranked(pair: PairText, sides: Sequence[np.ndarray]) -> list:
    source_lang, target_lang = pair.languages
    return rank_translations(*map(np.asarray, sides), source_lang=source_lang, target_lang=target_lang)


def _retrieval_fields(data: Prepared) -> list[dict]:
    return [data.corpus.test_fields(pair) for pair in data.tested]
