"""The text and frozen vectors of a run, and the pairs that a head is trained on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from hfxling.data.corpus import Corpus, PairText
from hfxling.data.documents import join_paragraphs
from hfxling.encoders.frozen import View
from hfxling.methods.frozen import PairVectors, frozen_vectors
from hfxling.methods.heads import corpus_with_test
from hfxling.models.encoder import ENCODER_OF_SEQ2SEQ

from .arguments import SiameseArguments


@dataclass
class Prepared:
    """The part shared by runs on the same text and encoder: the text, and its vectors by (layer, pooling).

    Vectors of several layers are put together when they are asked for.
    """

    corpus: Corpus
    vectors: dict[View, PairVectors]

    def of(self, layer: int | str | tuple[int, ...] | None, pooling: str) -> PairVectors:
        """The vectors of a layer, or of several side by side."""
        if not isinstance(layer, tuple):
            return self.vectors[layer, pooling]
        parts = [self.vectors[each, pooling] for each in layer]
        sides = {}
        for split in ("train", "test"):
            vectors = [getattr(part, split) for part in parts]
            source, target = zip(*vectors)
            sides[split] = np.concatenate(source, axis=1), np.concatenate(target, axis=1)
        return replace(parts[0], layers=layer, **sides)

    @property
    def text(self) -> PairText:
        """The text of the only language pair."""
        return self.corpus.pairs[0]


def prepare(rows: Sequence[SiameseArguments], training_args=None) -> Prepared:
    """Read the text and its frozen vectors, for every row's layer and pooling, in one pass of the encoder."""
    first = rows[0]
    several = [row.layer for row in rows if isinstance(row.layer_index, tuple)]
    if several and first.encoder_config().model_type in ENCODER_OF_SEQ2SEQ:
        raise ValueError(f"layer={several[0]}: the layers of {first.base_model} share a final norm; give one layer.")
    return encode(rows, corpus_with_test(first, training_args))


def encode(rows: Sequence[SiameseArguments], corpus: Corpus, device: str | None = None) -> Prepared:
    """The frozen vectors of a corpus, with or without test text; otherwise as `prepare`."""
    (text,) = corpus.pairs
    if rows[0].paragraphs:
        text.test = join_paragraphs(text.test)
    views: dict = {}
    for row in rows:
        for layer in row.single_layers():
            views[layer, row.pooling] = None
    by_view, _ = frozen_vectors(rows[0], corpus, views, device)
    return Prepared(corpus, {view: vectors for view, (vectors,) in by_view.items()})


def labelled_pairs(
    targets: Sequence, *, pool_size: int = 1, parallel_only: bool = False, seed: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Every parallel pair once, and, unless `parallel_only`, every source once more with a pool of wrong targets.

    Args:
        targets: N target texts; row i is the translation of source i.
        pool_size: K, number of candidates for every source; fewer if there are fewer distinct targets.
        parallel_only: leave out the non-parallel half.
        seed: seed of the drawing.

    Returns:
        `source` (R,) and `target` (R, K) row numbers and `label` (R,), 0 for parallel and 1 for non-parallel, with
        R = 2N or N. Parallel rows repeat their own target K times, so that one reduction over K fits both halves.
    """
    count = len(targets)
    rows = np.arange(count)
    identity = np.unique(np.asarray(targets, dtype=object).astype(str), return_inverse=True)[1]
    distinct = int(identity.max(initial=0)) + 1
    if distinct == 1 and not parallel_only:
        raise ValueError(f"{count} pairs with only one distinct target: non-parallel pairs need at least two.")
    pool_size = min(pool_size, max(1, distinct - 1))
    parallel = np.repeat(rows[:, None], pool_size, axis=1)
    if parallel_only:
        return rows, parallel, np.zeros(count, np.int64)
    rng = np.random.default_rng(seed)
    wrong = rng.integers(count, size=(count, pool_size))
    clash = identity[wrong] == identity[:, None]
    while clash.any():  # a repeated translation is no negative, either
        wrong[clash] = rng.integers(count, size=int(clash.sum()))
        clash = identity[wrong] == identity[:, None]
    label = np.repeat([0, 1], count)
    return np.concatenate([rows, rows]), np.concatenate([parallel, wrong]), label
