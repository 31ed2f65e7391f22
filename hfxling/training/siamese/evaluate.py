"""Retrieval before and after."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hfxling.data.corpus import Corpus
from hfxling.encoding import model_name
from hfxling.evaluation.results import EvalResult
from hfxling.evaluation.retrieval import CENTERINGS, Ranking, language_mean, rank_translations, ranking_results
from hfxling.models.modeling_siamese import SiameseHead

from .arguments import SiameseArguments
from .data import PairVectors
from .train import plain_output


def rank_head(
    args: SiameseArguments,
    vectors: PairVectors,
    head: SiameseHead | None,
    *,
    centerings: Sequence[str] = CENTERINGS,
    methods: Sequence[str] = ("cosine",),
) -> list[Ranking]:
    """Test retrieval with the head's output (the frozen vectors themselves for None) under every centring."""

    def apply(pair: tuple[np.ndarray, np.ndarray]) -> list[np.ndarray]:
        if head is None:
            return [np.asarray(array) for array in pair]
        return [plain_output(head, array, lang) for array, lang in zip(pair, args.languages)]

    test = apply(vectors.test)
    means = None
    if "train" in centerings:
        means = tuple(language_mean(array) for array in apply(vectors.train))
    rankings = []
    for centering in centerings:
        rankings += rank_translations(
            *test,
            source_lang=args.source_lang,
            target_lang=args.target_lang,
            centering=centering,
            means=means if centering == "train" else None,
            methods=methods,
            csls_k=min(10, len(test[0])),
        )
    return rankings


def evaluate_head(
    args: SiameseArguments,
    corpus: Corpus,
    vectors: PairVectors,
    head: SiameseHead,
    seed: int,
    methods: Sequence[str] = ("cosine", "csls"),
) -> list[EvalResult]:
    """P@1 and P@5 before and after, both directions, every centring, each "after" row tested against its "before"."""
    before = rank_head(args, vectors, None, methods=methods)
    after = rank_head(args, vectors, head, methods=methods)
    fields = corpus.result_fields()
    name = model_name(args.base_model)
    return ranking_results(before, settings={"stage": "before"}, model=name, **fields) + ranking_results(
        after,
        baseline=before,
        settings={"stage": "after"},
        model=name,
        seed=seed,
        **fields,
    )
