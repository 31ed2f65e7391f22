"""Retrieval before and after."""

from __future__ import annotations

import numpy as np

from hfxling.evaluation.results import EvalResult
from hfxling.evaluation.retrieval import CENTERINGS, Ranking, language_mean, rank_translations, ranking_results
from hfxling.models.modeling_siamese import SiameseHead

from .arguments import SiameseArguments
from .data import PairVectors
from .train import plain_output, unit_layers


def rank_head(args: SiameseArguments, vectors: PairVectors, head: SiameseHead | None) -> list[Ranking]:
    """Test retrieval with the head's output (the frozen vectors themselves for None) under every centring."""

    def apply(sides: tuple[np.ndarray, np.ndarray]) -> list[np.ndarray]:
        if head is None:
            return [unit_layers(array, args.layer_index) for array in sides]
        return [plain_output(head, array, lang) for array, lang in zip(sides, args.languages)]

    test, means = apply(vectors.test), tuple(language_mean(array) for array in apply(vectors.train))
    source_lang, target_lang = args.languages
    rankings = []
    for centering in CENTERINGS:
        rankings += rank_translations(
            *test,
            source_lang=source_lang,
            target_lang=target_lang,
            centering=centering,
            means=means if centering == "train" else None,
            methods=args.similarities,
            csls_k=min(10, len(test[0])),
        )
    return rankings


def evaluate(
    args: SiameseArguments, vectors: PairVectors, head: SiameseHead, *, seed: int, **fields
) -> list[EvalResult]:
    """P@1 and P@5 before and after, both directions, every centring, each "after" row tested against its "before".

    Args:
        args: of the run.
        vectors: (N, H) frozen ones; the training text's give the means of centring "train".
        head: trained.
        seed: of the training run.
        **fields: of `EvalResult`: dataset, split, revision, model.
    """
    before, after = rank_head(args, vectors, None), rank_head(args, vectors, head)
    encoder = {"layer": args.layer, "pooling": args.pooling}
    results = ranking_results(before, settings=encoder | {"stage": "before"}, **fields)
    settings = encoder | {"stage": "after"}
    return results + ranking_results(after, baseline=before, settings=settings, seed=seed, **fields)
