"""Which layer of an encoder words are read from, found without gold links."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Literal

from hfxling.missing import one_line_where_missing

from .encoder import LAYERS, WordEncoder, load_config
from .joint import JointAligner
from .links import agreement

logger = logging.getLogger(__name__)
AGREEMENT = "agreement"
Layer = int | Literal["agreement"]
_PAIRS = 200  # that agreement is measured on, the first ones


def open_word_encoder(
    model: Any,
    languages: Sequence[str],
    source: Sequence[str],
    target: Sequence[str],
    *,
    revision: str | None = None,
    layer: Layer | None = None,
    units: str = "words",
    **options,
) -> WordEncoder:
    """An encoder at its layer: a given one, that which is known for its depth, or the one that `agreed_layer` finds.

    Args:
        model: as for `WordEncoder`.
        languages: codes of source and target.
        source: N texts.
        target: their translations.
        revision: of the model on the Hub.
        layer: counted from 0, or "agreement"; by default known ones, and by agreement where nothing is known.
        units: between which links will be.
        **options: as for `WordEncoder`.

    Raises:
        FileNotFoundError: no such model.
        ValueError: a layer that there is not; and as `WordEncoder`.
    """
    if layer is not None and layer != AGREEMENT and not isinstance(layer, int):
        raise ValueError(f"layer={layer!r}: give a number from 0, or {AGREEMENT}.")
    depth = _depth(model, revision)
    if layer is None and depth not in LAYERS:
        layer = AGREEMENT
    if layer == AGREEMENT:
        encoder = WordEncoder(model, revision, layer=depth, **options)
        layer = agreed_layer(encoder, languages, source[:_PAIRS], target[:_PAIRS], units=units)
        logger.info("%s: words are read from layer %d of %d, whose links agree most", encoder.name, layer, depth)
    return WordEncoder(model, revision, layer=layer, **options)


def _depth(model: Any, revision: str | None) -> int | None:
    """How many layers an encoder has; None for a loaded model that does not start with one."""
    if hasattr(model, "prompts"):
        encoder = getattr(model[0], "auto_model", None)
        return None if encoder is None else encoder.config.num_hidden_layers
    with one_line_where_missing(str(model), "model"):
        return load_config(str(model), {"revision": revision} if revision else {}).num_hidden_layers


def agreed_layer(
    encoder: WordEncoder, languages: Sequence[str], source: Sequence[str], target: Sequence[str], *, units: str
) -> int:
    """The layer by which the best partners of both directions agree most (`links.agreement`); of equal ones the lower.

    On xlwa-dev (en-it, en-ru, en-et, en-bg) it is within 0.8 points of AER of the best of multilingual-e5-small's
    layers 5 to 9.
    """
    units = "characters" if units == "segments" else units  # segments are learnt, an encoder alone has none
    layers = range(1, encoder.layer + 1)
    by_layer = encoder.pieces_of_layers([*source, *target], layers)
    scores = {}
    for layer, pieces in zip(layers, by_layer):
        encoder.kept = pieces
        encoder.means.clear()
        aligner = JointAligner(languages, [], encoder, units=units)
        scores[layer] = agreement(line.soft for line in aligner(source, target))
    return max(scores, key=scores.get)
