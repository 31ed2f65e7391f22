"""Human scores, retrieval, geometry and language probes, before and after."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hfxling.evaluation.geometry import geometry_results
from hfxling.evaluation.probes import probe_result
from hfxling.evaluation.results import EvalResult
from hfxling.evaluation.retrieval import rank_translations, ranking_results
from hfxling.evaluation.similarity import correlation_results, cosines
from hfxling.files import content_hash

from .arguments import DisentanglerArguments
from .data import SplitData
from .train import FittedSplit, _division, _meaning, _sides, split_vectors


def evaluate(
    args: DisentanglerArguments, data: SplitData, fitted: FittedSplit | None = None, seed: int | None = None
) -> list[EvalResult]:
    """Correlation with human scores, retrieval, geometry and language probes, before and after.

    Args:
        args: sizes of the samples.
        data: text and vectors.
        fitted: the split; None gives the rows of the vectors as they came alone, stage "before".
        seed: of the training run.
    """
    before = [cosines(*sides) for sides in data.scored]
    about = {"model": data.model}
    results = correlation_results(data.corpus.scored, before, settings={"stage": "before"}, **about)
    rankings = [_ranked(languages, sides) for languages, sides in zip(data.corpus.parallel, data.parallel)]
    for fields, found in zip(_retrieval_fields(data), rankings):
        results += ranking_results(found, settings={"stage": "before"}, **fields, **about)
    results += _on_validation(args, data, None, about)
    if fitted is None:
        return results
    about["seed"] = seed
    after = [cosines(*(split_vectors(fitted.head, side)[1] for side in sides)) for sides in data.scored]
    results += correlation_results(data.corpus.scored, after, baseline=before, settings={"stage": "after"}, **about)
    for fields, found, languages, sides in zip(_retrieval_fields(data), rankings, data.corpus.parallel, data.parallel):
        ranked = _ranked(languages, [split_vectors(fitted.head, side)[1] for side in sides])
        results += ranking_results(ranked, baseline=found, settings={"stage": "after"}, **fields, **about)
    return results + _on_validation(args, data, fitted, about)


def _on_validation(args: DisentanglerArguments, data: SplitData, fitted: FittedSplit | None, about: dict) -> list:
    """Geometry of held-out training pairs, and what a probe reads off them, of the vectors or of their parts."""
    fields = {"dataset": data.corpus.name, "split": "validation", "revision": data.corpus.revision(), **about}
    fields["settings"] = {"stage": "before" if fitted is None else "after"}
    held = [rows for _, rows in _division(args, data)]
    pairs = _sides(data, held, args.geometry_pairs)
    if fitted is None:
        results = geometry_results(pairs, **fields)
    else:
        results = geometry_results([_meaning(fitted.head, sides) for sides in pairs], baseline=pairs, **fields)
    if not args.probe_pairs:
        return results
    pairs, languages, groups = _sides(data, held, args.probe_pairs), [], []
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


def _ranked(languages: tuple[str, str], sides: Sequence[np.ndarray]) -> list:
    return rank_translations(*map(np.asarray, sides), source_lang=languages[0], target_lang=languages[1])


def _retrieval_fields(data: SplitData) -> list[dict]:
    return [
        {"dataset": data.corpus.name, "split": "test", "revision": content_hash(test["source"], test["target"])}
        for test in data.corpus.parallel.values()
    ]
