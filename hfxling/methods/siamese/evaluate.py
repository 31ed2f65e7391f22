"""Retrieval before and after."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hfxling.evaluation.results import EvalResult
from hfxling.evaluation.retrieval import CENTERINGS
from hfxling.methods.frozen import PairVectors
from hfxling.methods.heads import Embed, before_and_after
from hfxling.models.modeling_siamese import SiameseHead

from .train import plain_output, unit_layers


def embedder(head: SiameseHead | None, layers: tuple[int, ...] | None = None) -> Embed:
    """What of the frozen vectors is compared: the head's raw output, or for None they themselves."""

    def embed(vectors: np.ndarray, language: str) -> np.ndarray:
        if head is None:
            return unit_layers(vectors, layers)
        return plain_output(head, vectors, language)

    return embed


def evaluate(
    vectors: PairVectors, head: SiameseHead, *, settings: dict, similarities: Sequence[str], seed: int, **fields
) -> list[EvalResult]:
    """P@1 and P@5 before and after, both directions, every centring, each "after" row tested against its "before".

    Args:
        vectors: (N, H) frozen ones; the training text's give the means of centring "train".
        head: trained.
        settings: of all rows: layer and pooling.
        similarities: how test sentences are compared: cosine, csls.
        seed: of the training run.
        **fields: of `EvalResult`: dataset, split, revision, model.
    """
    before, after = embedder(None, vectors.layers), embedder(head)
    how = {"similarities": similarities, "centerings": CENTERINGS}
    return before_and_after(vectors, before, after, settings=settings, seed=seed, **how, **fields)
