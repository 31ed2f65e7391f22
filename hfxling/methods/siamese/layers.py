"""The choice of `--layer auto`: which layers of the encoder to read."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any

import numpy as np

from hfxling.arguments import narrowed
from hfxling.models.encoder import ENCODER_OF_SEQ2SEQ

from .arguments import HeadSettings, SiameseArguments
from .choice import ENOUGH, Maps, candidates
from .closed_form import cross_validate, discriminant, tied
from .data import Prepared
from .train import head_inputs, new_head

log = logging.getLogger("hfxling")
FEW = 9  # up to so many layers, including the embeddings, all of them are a set, too
# Standard errors by which a layer has to be ahead of the last one. Of some fifteen layers one is easily ahead by one
# standard error by chance; with few pairs, whose held-out pools are small, that layer may be a poor one.
AHEAD, AHEAD_WITH_FEW_PAIRS = 1.0, 2.0


def layer_sets(depth: int, first: int = 0) -> list[tuple[int, ...]]:
    """Sets of layers that span an encoder of `depth` layers: both ends, with the middle, with the thirds, all or five.

    They begin with the layer `first`, 0 for the embeddings.
    """
    most = depth + 1 - first if depth < FEW else 5
    sets = []
    for count in (2, 3, 4, most):
        layers = np.unique(np.linspace(first, depth, count).round().astype(int))
        sets.append(tuple(layers.tolist()))
    return list(dict.fromkeys(sets)) if depth > first else []


def choose_layers(recipe: SiameseArguments, prepared: Prepared, seed: int) -> dict[str, Any]:
    """The layer or layers with which most translations of held-out training pairs are found.

    Layers are compared by their vectors as they are, by centred ones, and by a closed form, the fastest of its kind:
    `discriminant` if the head will be one map for both languages, else a `tied` CCA. The head that is fitted afterwards
    may be another one. Another layer than the last is chosen only if it is better by more than one standard error
    (paired, over held-out sentences), with fewer than 500 pairs by more than two.
    Sets of layers compete, too, unless the layers of the encoder's family share a final norm.

    Returns:
        `layer`, or several as in "0,3,6"; `single_layer`, the best single one; `layer_scores`, mean reciprocal ranks in
        cross-validation, by layer or layers.
    """
    settings = replace(narrowed(HeadSettings, recipe), init="identity")  # only the inputs of the head matter here
    config = recipe.encoder_config()
    depth, has_sets = config.num_hidden_layers, config.model_type not in ENCODER_OF_SEQ2SEQ
    reciprocal_ranks: dict[str, np.ndarray] = {}
    # In the embeddings, the first and the last token are the same for every sentence.
    first = 0 if recipe.pooling == "mean" else 1
    singles = [str(layer) for layer in range(first, depth + 1)]
    several = [",".join(map(str, layers)) for layers in layer_sets(depth, first)] if has_sets else []
    for layer in [*singles, *several]:
        whole = prepared.of(replace(recipe, layer=layer).layer_index, recipe.pooling)
        _, vectors = whole.draw(recipe.fraction, seed)
        sides = dict(zip(vectors.languages, vectors.train))
        head = new_head(settings, sides, vectors.layers)
        source, target = head_inputs(head, sides)
        form = partial(_forms, head.config.per_language)
        ranks = cross_validate(form, source.astype(np.float64), target.astype(np.float64), seed=seed).values()
        reciprocal_ranks[layer] = max((1 / np.concatenate(folds) for folds in ranks), key=np.mean)
    best = _better(reciprocal_ranks, str(depth), reciprocal_ranks)
    single = _better(reciprocal_ranks, str(depth), singles)
    scores = {layer: float(score.mean()) for layer, score in reciprocal_ranks.items()}
    log.debug("layer %s of %s", best, ", ".join(f"{layer}: {score:.3f}" for layer, score in scores.items()))
    rounded = {layer: round(score, 4) for layer, score in scores.items()}
    return {"layer": best, "single_layer": single, "layer_scores": rounded}


def _forms(per_language: bool, source: np.ndarray, target: np.ndarray) -> Iterator[Maps]:
    yield from islice(candidates(source, target), 2)  # unchanged and centred: few pairs can teach little else
    if per_language:
        yield from tied(source, target, shares=(0.6,), shrinkages=(0.1, 0.3, 1.0), powers=(1.0,))
    else:
        yield from discriminant(source, target)


def _better(scores: Mapping[str, np.ndarray], last: str, names: Iterable[str]) -> str:
    """The best of the names, or `last` if being better may be chance."""
    best = max(names, key=lambda name: scores[name].mean())
    gap = scores[best] - scores[last]
    has_few_pairs = len(gap) < 2 * ENOUGH  # sentences of both directions
    error = gap.std() / np.sqrt(len(gap))
    return best if gap.mean() > (AHEAD_WITH_FEW_PAIRS if has_few_pairs else AHEAD) * error else last
