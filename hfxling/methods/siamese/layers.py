"""Which layers of the encoder to read: the choice of `--layer auto`."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import islice

import numpy as np

from hfxling.models.encoder import ENCODER_OF_SEQ2SEQ

from .arguments import SiameseArguments
from .choice import Maps, candidates
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
    """The arguments with the layer or layers by which most translations of held-out training pairs are found.

    By their vectors as they are, centred, and behind a closed form: `discriminant` where the head will be one map for
    both languages, else a `tied` CCA, the quickest of each kind; the head that is fitted afterwards may be another one.
    The last layer is left only for one that is better by more than a standard error (paired, over held-out sentences).

    Returns:
        The arguments, and {"layer", "single_layer", "layer_scores"}: what was chosen, the same among single layers, and
        mean reciprocal ranks in cross-validation by layer or layers.
    """
    found: dict[str, np.ndarray] = {}
    config = args.encoder_config()
    depth, norm = config.num_hidden_layers, config.model_type in ENCODER_OF_SEQ2SEQ
    for layers in [*((layer,) for layer in range(depth + 1)), *([] if norm else layer_sets(depth))]:
        tried = replace(args, layer=",".join(map(str, layers)))
        _, vectors = prepared.of(tried.layer_index, args.pooling).draw(args.fraction, seed)
        sides = dict(zip(args.languages, vectors.train))
        head = new_head(tried, sides)
        source, target = (side.astype(np.float64) for side in head_inputs(head, sides))
        ranks = cross_validate(partial(_forms, head.config.per_language), source, target, seed=seed).values()
        found[tried.layer] = max((1 / np.concatenate(folds) for folds in ranks), key=np.mean)
    best, single = (_better(found, str(depth), names) for names in (found, map(str, range(depth + 1))))
    scores = {layer: float(score.mean()) for layer, score in found.items()}
    log.info("layer %s of %s", best, ", ".join(f"{layer}: {score:.3f}" for layer, score in scores.items()))
    about = {"layer": best, "single_layer": single, "layer_scores": {k: round(v, 4) for k, v in scores.items()}}
    return replace(args, layer=best), about


def _forms(per_language: bool, source: np.ndarray, target: np.ndarray) -> Iterator[Maps]:
    yield from islice(candidates(source, target), 2)  # as it came, and centred: of few pairs little else can be learnt
    if per_language:
        yield from tied(source, target, shares=(0.6,), shrinkages=(0.1, 0.3, 1.0), powers=(1.0,))
    else:
        yield from discriminant(source, target)


def _better(found: Mapping[str, np.ndarray], last: str, names: Iterable[str]) -> str:
    """The best of the names, or `last` where that may be chance."""
    best = max(names, key=lambda name: found[name].mean())
    gap = found[best] - found[last]
    return best if gap.mean() > gap.std() / np.sqrt(len(gap)) else last
