"""Retrieval by sparse and by static vectors."""

from __future__ import annotations

import numpy as np

from hfxling.data.corpus import Corpus
from hfxling.evaluation.results import EvalResult
from hfxling.evaluation.retrieval import Ranking, gold_ranks, ranking_results
from hfxling.models.modeling_lexical import ROLES, LexicalModel


def evaluate(model: LexicalModel, corpus: Corpus, *, seed: int, **fields) -> list[EvalResult]:
    """P@1 and P@5 of every language pair with test text, both directions: sparse inner product and static cosine.

    There is nothing to measure before: without text there are no links.

    Args:
        model: with its static vectors.
        corpus: whose test text is ranked.
        seed: of the run.
        **fields: further ones of `EvalResult`.
    """
    results = []
    for text in corpus.pairs:
        if len(text.test):
            sides = list(text.test["source"]), list(text.test["target"])
            about = corpus.test_fields(text) | {"seed": seed, "settings": {"stage": "after"}} | fields
            results += ranking_results(rank(model, sides, text.languages), **about)
    return results


def rank(model: LexicalModel, sides: tuple[list[str], list[str]], languages: tuple[str, str]) -> list[Ranking]:
    """How the sentences rank each other's translations, by both kinds of vectors."""
    rankings = []
    for queries, candidates in ((0, 1), (1, 0)):
        order = queries, candidates
        vectors = [model.encode(sides[side], languages[side], role) for side, role in zip(order, ROLES)]
        ranks, _ = gold_ranks(*vectors, method="dot")
        name = "->".join(languages[side] for side in order)
        rankings.append(Ranking(name, ranks, {"method": "sparse, inner product"}))
    static = [static_sentences(model, texts, lang) for texts, lang in zip(sides, languages)]
    blank = [
        np.abs(vectors).sum(1, keepdims=True) == 0 for vectors in static
    ]  # their neighbours are a matter of chance
    source, target = (
        np.hstack([x, b * (side == 0), b * (side == 1)]) for side, (x, b) in enumerate(zip(static, blank))
    )
    for name, ranks in zip(("->".join(languages), "->".join(languages[::-1])), gold_ranks(source, target)):
        rankings.append(Ranking(name, ranks, {"method": "static, cosine"}))
    return rankings


def static_sentences(model: LexicalModel, texts: list[str], language: str) -> np.ndarray:
    """(N, rank) means of static word vectors: what the stock door gives, but for its unit length."""
    return model._read(texts, language).shares[0] @ model.static[language]
