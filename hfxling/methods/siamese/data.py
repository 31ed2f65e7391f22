"""Frozen vectors of a corpus, and the pairs that a head is trained on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hfxling.data.corpus import Corpus, PairText, load_corpus
from hfxling.data.documents import join_paragraphs
from hfxling.data.sources import name_of_pair
from hfxling.encoders.frozen import View
from hfxling.files import free_memory
from hfxling.methods.checks import refuse_evaluation
from hfxling.methods.frozen import Sides, check_vectors, coverage_line, given_vectors, training_vectors
from hfxling.models.encoder import ENCODER_OF_SEQ2SEQ

from .arguments import SiameseArguments


@dataclass
class PairVectors:
    """Frozen vectors of a corpus: (N, H) arrays, rows aligned; those of several layers side by side."""

    train: Sides
    test: Sides

    @property
    def width(self) -> int:
        """H, or layers * H."""
        return self.train[0].shape[1]

    def draw(self, fraction: float, seed: int) -> tuple[np.ndarray, PairVectors]:
        """The row numbers of a random share of the training pairs, and these vectors with that share alone."""
        count = len(self.train[0])
        rows = np.arange(count)
        if (kept := round(count * fraction)) == count:
            return rows, self
        rows = np.random.default_rng(seed).permutation(count)[:kept]
        return rows, PairVectors(tuple(np.asarray(side)[rows] for side in self.train), self.test)


@dataclass
class Prepared:
    """What runs on the same text and encoder have in common: the text, and its vectors by (layer, pooling).

    Those of several layers are put together when they are asked for.
    """

    corpus: Corpus
    vectors: dict[View, PairVectors]

    def of(self, layer: int | str | tuple[int, ...] | None, pooling: str) -> PairVectors:
        """The vectors of a layer, or of several."""
        if not isinstance(layer, tuple):
            return self.vectors[layer, pooling]
        parts = [self.vectors[each, pooling] for each in layer]
        sides = [[getattr(part, split) for part in parts] for split in ("train", "test")]
        return PairVectors(*(tuple(np.concatenate(side, axis=1) for side in zip(*split)) for split in sides))

    @property
    def text(self) -> PairText:
        """The text of the language pair."""
        return self.corpus.pairs[0]


def prepare(rows: Sequence[SiameseArguments], training_args=None) -> Prepared:
    """Read the text and its frozen vectors: those of every row's layer and pooling from one pass of the encoder.

    Warns when the encoder's vocabulary does not cover a language or texts are longer than it can read.

    Args:
        rows: arguments of runs that share text and encoder.
        training_args: of the Trainer.

    Raises:
        ValueError: no test text, malformed text or vectors (see `load_corpus`, `load_vectors`).
        FileNotFoundError: a file, folder or encoder that is not there.
    """
    args = rows[0]
    refuse_evaluation(training_args, "a head")
    several = [row.layer for row in rows if isinstance(row.layer_index, tuple)]
    if several and args.encoder_config().model_type in ENCODER_OF_SEQ2SEQ:
        raise ValueError(f"layer={several[0]}: the layers of {args.base_model} share a final norm; give a single one.")
    corpus = load_corpus(args)
    (text,) = corpus.pairs
    if not len(text.test):
        raise ValueError(
            f"{' '.join(args.train_data)}: no test text; give --test_data, such as my.zh+my.vi@1501-2000 beside "
            "--train_data my.zh+my.vi@1-1500."
        )
    if args.paragraphs:
        text.test = join_paragraphs(text.test)
    return encode(rows, corpus)


def encode(rows: Sequence[SiameseArguments], corpus: Corpus, device: str | None = None) -> Prepared:
    """The frozen vectors of a corpus, with or without test text; as `prepare` otherwise."""
    args, (text,) = rows[0], corpus.pairs
    views = list(dict.fromkeys((layer, row.pooling) for row in rows for layer in row.single_layers()))
    if args.train_vectors:
        return Prepared(corpus, dict.fromkeys(views, _given(args, text)))
    encoder = args.encoder(views, device)
    sides = dict(zip(args.languages, ("source", "target")))
    corpus.coverage = coverage_line(
        encoder, {lang: [*text.train[side], *text.test[side]] for lang, side in sides.items()}
    )
    arrays = {
        split: [
            encoder.features(getattr(text, split)[side], args.cache_dir, f"{lang} {split}")
            for lang, side in sides.items()
        ]
        for split in ("train", "test")
    }
    vectors = {
        view: PairVectors(*(tuple(side[:, i] for side in arrays[split]) for split in ("train", "test")))
        for i, view in enumerate(views)
    }
    return Prepared(corpus, vectors)


def _given(args: SiameseArguments, text: PairText) -> PairVectors:
    """The vectors that were given in place of the encoder's."""
    train = training_vectors(args, text)
    test = given_vectors("test_vectors", args.test_vectors, name_of_pair(text.languages), len(text.test))
    check_vectors(args, [train, test], [(text.test["source"], text.test["target"], test)])
    return PairVectors(train, test)


def _check_memory(pool_size: int, pairs: int, batch: int) -> None:
    """Refuse a pool whose row numbers and batches are more than there is memory for."""
    per_candidate = 5 * 8 * pairs + 4 * 4 * batch  # parallel, drawn, joined; vectors, outputs, gradients
    free = free_memory()
    if pool_size > 1 and per_candidate * pool_size > 0.8 * free:
        need, most = per_candidate * pool_size / 2**30, max(1, int(0.8 * free / per_candidate))
        raise ValueError(
            f"pool_size={pool_size}: {pairs} pairs take {need:.1f} GiB of memory, {free / 2**30:.1f} are free; "
            f"give {most} or fewer, or a smaller per_device_train_batch_size."
        )


def labelled_pairs(
    targets: Sequence,
    *,
    pool_size: int = 1,
    parallel_only: bool = False,
    seed: int = 0,
    batch: int = 0,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Every parallel pair once, and every source once more with a pool of wrong targets.

    Args:
        targets: N target texts (or anything comparable); row i is the translation of source i.
        pool_size: K candidates for every source, fewer where there are fewer distinct targets; 1 is a plain random
            non-parallel pair.
        parallel_only: leave the non-parallel half out.
        seed: of the drawing.
        batch: numbers that one candidate adds to a batch of vectors, for the memory that the pool takes.

    Returns:
        `source` (R,) and `target` (R, K) row numbers and `label` (R,), 0 for parallel and 1 for non-parallel, with
        R = 2N or N. Parallel rows repeat their own target K times, so that one reduction over K fits both halves.

    Raises:
        ValueError: when there is no wrong target to draw: fewer than two distinct targets; candidates that memory does
            not hold.
    """
    if pool_size < 1:
        raise ValueError(f"pool_size={pool_size}: a pool needs at least one candidate.")
    count = len(targets)
    rows = np.arange(count)
    identity = np.unique(np.asarray(targets, dtype=object).astype(str), return_inverse=True)[1]
    distinct = int(identity.max(initial=0)) + 1
    if distinct == 1 and not parallel_only:
        raise ValueError(f"{count} pairs with a single distinct target: non-parallel pairs need at least two.")
    pool_size = min(pool_size, max(1, distinct - 1))
    _check_memory(pool_size, count, batch)
    own = np.repeat(rows[:, None], pool_size, axis=1)
    if parallel_only:
        return rows, own, np.zeros(count, np.int64)
    rng = np.random.default_rng(seed)
    wrong = rng.integers(count, size=(count, pool_size))
    while (clash := identity[wrong] == identity[:, None]).any():  # also a repeated translation is no negative
        wrong[clash] = rng.integers(count, size=int(clash.sum()))
    label = np.repeat([0, 1], count)
    return np.concatenate([rows, rows]), np.concatenate([own, wrong]), label
