"""Which layers of the encoder to read: the choice of `--layer auto`."""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial

import numpy as np

from hfxling.models.encoder import ENCODER_OF_SEQ2SEQ

from .arguments import SiameseArguments
from .closed_form import cross_validate, discriminant, tied
from .data import Prepared
from .train import head_inputs, new_head

log = logging.getLogger("hfxling")
FEW = 9  # up to so many layers, embeddings included, all of them are a set, too


def layer_sets(depth: int) -> list[tuple[int, ...]]:
    """Sets of layers that span an encoder of so many: both ends, with the middle, with the thirds, and all or five."""
    spans = (np.linspace(0, depth, count).round().astype(int) for count in (2, 3, 4, depth + 1 if depth < FEW else 5))
    return list(dict.fromkeys(tuple(dict.fromkeys(span.tolist())) for span in spans if depth))


def choose_layers(args: SiameseArguments, prepared: Prepared, seed: int) -> tuple[SiameseArguments, dict]:
    """The arguments with the layer or layers by which a closed form finds most translations of held-out training pairs.

    The closed form is `discriminant` where the head will be one map for both languages, else a `tied` CCA: the quickest
    of each kind; the head that is fitted afterwards may be another one.

    Returns:
        The arguments, and {"layer", "layer_scores"}: mean reciprocal ranks in cross-validation by layer or layers.
    """
    scores: dict[str, float] = {}
    config = args.encoder_config()
    depth, norm = config.num_hidden_layers, config.model_type in ENCODER_OF_SEQ2SEQ
    for layers in [*((layer,) for layer in range(depth + 1)), *([] if norm else layer_sets(depth))]:
        tried = replace(args, layer=",".join(map(str, layers)))
        _, vectors = prepared.of(tried.layer_index, args.pooling).draw(args.fraction, seed)
        sides = dict(zip(args.languages, vectors.train))
        head = new_head(tried, sides)
        source, target = (side.astype(np.float64) for side in head_inputs(head, sides))
        form = tied if head.config.per_language else discriminant
        form = partial(tied, shares=(0.6,), shrinkages=(0.1, 0.3, 1.0), powers=(1.0,)) if form is tied else discriminant
        ranks = cross_validate(form, source, target, seed=seed)
        scores[tried.layer] = max(float(np.mean([(1 / fold).mean() for fold in found])) for found in ranks.values())
    best = max(scores, key=scores.get)
    log.info("layer %s of %s", best, ", ".join(f"{layer}: {score:.3f}" for layer, score in scores.items()))
    return replace(args, layer=best), {"layer": best, "layer_scores": {k: round(v, 4) for k, v in scores.items()}}
