"""Retrieval by sparse and by static vectors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from hfxling.data.corpus import Corpus
from hfxling.data.parallel import sides_of
from hfxling.evaluation.results import EvalResult
from hfxling.evaluation.retrieval import Ranking, gold_ranks, ranking_results, unlike_blanks
from hfxling.evaluation.short_vectors import MOST, FinalVectors
from hfxling.evaluation.spoilt import spoilt_results
from hfxling.models.modeling_lexical import ROLES, LexicalModel
from hfxling.sentences.neighbours import TIE, unit_or_zero

SPOILT = 500  # most test pairs that are spoilt


def evaluate(model: LexicalModel, corpus: Corpus, *, seed: int) -> list[EvalResult]:
    """P@1 and P@5 of every language pair with test text, both directions, by sparse inner product and static cosine.

    There is nothing to measure before training, because without text there are no links.
    """
    results = []
    for text in corpus.pairs:
        if len(text.test):
            of_text = corpus.test_fields(text) | {"seed": seed, "settings": {"stage": "after"}}
            sides = sides_of(text.test)
            results += ranking_results(rank(model, sides, text.languages), **of_text)
            results += spoilt(model, sides, text.languages, **of_text)
    return results


def spoilt(
    model: LexicalModel, sides: tuple, languages: tuple[str, str], settings: Mapping, **fields
) -> list[EvalResult]:
    """How often altered copies of the first translations score higher, by both kinds of vectors."""

    def cosines(source: Sequence[str], target: Sequence[str], pair: tuple[str, str]) -> np.ndarray:
        vectors = []
        for texts, lang in zip((source, target), pair):
            vectors.append(unit_or_zero(static_sentences(model, texts, lang)))
        return np.einsum("ij,ij->i", *vectors, dtype=np.float64)

    def links(source: Sequence[str], target: Sequence[str], pair: tuple[str, str]) -> np.ndarray:
        # NaN for a text without known segments, so that any other text beats it.
        return np.nan_to_num(model.score(source, target, pair), nan=-np.inf)

    first, rows = (sides[0][:SPOILT], sides[1][:SPOILT]), []
    for kind, scores, tie in (("sparse, inner product", links, TIE["dot"]), ("static, cosine", cosines, TIE["cosine"])):
        how = dict(settings) | {"method": kind}
        rows += spoilt_results(scores, first, languages, tie=tie, settings=how, **fields)
    return rows


def cross_validated(
    models: Iterable[LexicalModel], folds: Sequence[Corpus], others: Mapping[str, Sequence[str]], *, seed: int
) -> list[EvalResult]:
    """P@1 and P@5 of every language pair over all folds of its training text, without and with further candidates.

    `models` has a model for each fold, which has not seen that fold's test text; `others` are further candidates by
    language.
    """
    by_kind: dict[tuple, list[Ranking]] = {}
    for model, fold in zip(models, folds, strict=True):
        for text in fold.pairs:
            sides = sides_of(text.test)
            rankings = rank(model, sides, text.languages)
            if set(others) & set(text.languages):
                rankings += rank(model, sides, text.languages, others)
            for ranking in rankings:
                kind = text.languages, ranking.direction, str(ranking.settings)
                by_kind.setdefault(kind, []).append(ranking)
    results = []
    for (languages, _, _), rankings in by_kind.items():
        text = next(text for text in folds[0].pairs if text.languages == languages)
        joined = replace(rankings[0], ranks=np.concatenate([ranking.ranks for ranking in rankings]))
        distractors = joined.settings.get("distractors")
        name = f"{folds[0].name} + {distractors}" if distractors else folds[0].name
        results += ranking_results(
            [joined],
            dataset=name,
            split=f"training pairs, left out in {len(folds)} folds",
            revision=text.revision("train"),
            seed=seed,
            settings={"stage": "after"},
        )
    return results


def final_vectors(model: LexicalModel, corpus: Corpus, *, seed: int) -> list[FinalVectors]:
    """Static vectors of every language pair's test text, and of some of its training text."""
    vectors = []
    for text in corpus.pairs:
        if len(text.test):
            some = text.train.select(range(min(MOST, len(text.train))))
            parts = []
            for part in (text.test, some):
                sides = zip(sides_of(part), text.languages)
                parts.append([static_sentences(model, side, lang) for side, lang in sides])
            vectors.append(FinalVectors(text.languages, *parts, corpus.test_fields(text) | {"seed": seed}))
    return vectors


def rank(
    model: LexicalModel,
    sides: tuple[list[str], list[str]],
    languages: tuple[str, str],
    others: Mapping[str, Sequence[str]] | None = None,
) -> list[Ranking]:
    """Ranks of the sentences' translations, by sparse vectors and then by static ones, in both directions.

    `others` are further candidates by language; a direction without any is left out.
    """
    sparse, static = [], []
    for query, candidate in ((0, 1), (1, 0)):
        query_lang, candidate_lang = languages[query], languages[candidate]
        settings, further = {}, []
        if others:
            further = others.get(candidate_lang)
            if not further:  # nothing would change in this direction
                continue
            settings = {"distractors": len(further)}
        direction = f"{query_lang}->{candidate_lang}"
        queries, candidates = (sides[query], query_lang), ([*sides[candidate], *further], candidate_lang)
        vectors = model.encode(*queries, ROLES[0]), model.encode(*candidates, ROLES[1])
        ranks = gold_ranks(*vectors, method="dot")[0]
        sparse.append(Ranking(direction, ranks, {"method": "sparse, inner product"} | settings))
        vectors = static_sentences(model, *queries), static_sentences(model, *candidates)
        ranks = gold_ranks(*unlike_blanks(*vectors))[0]
        static.append(Ranking(direction, ranks, {"method": "static, cosine"} | settings))
    return [*sparse, *static]


def static_sentences(model: LexicalModel, texts: list[str], language: str) -> np.ndarray:
    """(N, rank) means of static word vectors, as stock modules give them, but not scaled to unit length."""
    return model._read(texts, language).shares[0] @ model.static[language]
