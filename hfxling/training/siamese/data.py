"""Frozen vectors of a corpus, and the pairs that a head is trained on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hfxling.data.corpus import Corpus
from hfxling.data.coverage import check_coverage
from hfxling.data.features import load_vectors
from hfxling.encoding import frozen_encoder

from .arguments import SiameseArguments


# How a pool of candidates becomes one loss. The paper's "worst" is read as the candidate with the largest loss, the
# closest one; its prose also fits the opposite, the farthest, which is therefore here as "easiest".
def labelled_pairs(
    targets: Sequence, *, pool_size: int = 1, parallel_only: bool = False, seed: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Every parallel pair once, and every source once more with a pool of wrong targets.

    Args:
        targets: N target texts (or anything comparable); row i is the translation of source i.
        pool_size: K candidates for every source; 1 is a plain random non-parallel pair.
        parallel_only: leave the non-parallel half out.
        seed: of the drawing.

    Returns:
        `source` (R,) and `target` (R, K) row numbers and `label` (R,), 0 for parallel and 1 for non-parallel, with
        R = 2N or N. Parallel rows repeat their own target K times, so that one reduction over K fits both halves.

    Raises:
        ValueError: when there is no wrong target to draw: fewer than two distinct targets.
    """
    if pool_size < 1:
        raise ValueError(f"pool_size={pool_size}: a pool needs at least one candidate.")
    count = len(targets)
    rows = np.arange(count)
    own = np.repeat(rows[:, None], pool_size, axis=1)
    if parallel_only:
        return rows, own, np.zeros(count, np.int64)
    identity = np.unique(np.asarray(targets, dtype=object).astype(str), return_inverse=True)[1]
    if identity.max(initial=0) == 0:
        raise ValueError(f"{count} pairs with a single distinct target: non-parallel pairs need at least two.")
    rng = np.random.default_rng(seed)
    wrong = rng.integers(count, size=(count, pool_size))
    while (clash := identity[wrong] == identity[:, None]).any():  # also a repeated translation is no negative
        wrong[clash] = rng.integers(count, size=int(clash.sum()))
    label = np.repeat([0, 1], count)
    return np.concatenate([rows, rows]), np.concatenate([own, wrong]), label


@dataclass
class PairVectors:
    """Frozen vectors of a corpus: (N, H) arrays, rows aligned."""

    train: tuple[np.ndarray, np.ndarray]
    test: tuple[np.ndarray, np.ndarray]

    @property
    def hidden_size(self) -> int:
        """H."""
        return self.train[0].shape[1]


def encode_corpus(args: SiameseArguments, corpus: Corpus, views: Sequence | None = None) -> list[PairVectors]:
    """Frozen vectors of both splits, one `PairVectors` for each (layer, pooling) view, from one pass of the encoder.

    Warns when the encoder's vocabulary does not cover a language or texts are longer than it can read.
    """
    if args.train_vectors:
        return [read_vectors(args, corpus)]
    encoder = frozen_encoder(args, views)
    arrays, coverage = {}, []
    for side, lang in (("source", args.source_lang), ("target", args.target_lang)):
        texts = [*corpus.train[side], *corpus.test[side]]
        found = check_coverage(encoder.tokenizer, texts, lang, encoder.max_length)
        coverage.append(f"{lang} {found.unknown_rate:.1%} unknown, {found.truncated} of {found.total} texts cut")
        for split in ("train", "test"):
            texts = getattr(corpus, split)[side]
            arrays[split, side] = encoder.features(texts, args.cache_dir, f"{lang} {split}")
    corpus.coverage = f"Characters the vocabulary lacks, texts past {encoder.max_length} tokens: {'; '.join(coverage)}."
    return [
        PairVectors(*(tuple(arrays[split, side][:, i] for side in ("source", "target")) for split in ("train", "test")))
        for i in range(len(encoder.views))
    ]


def read_vectors(args: SiameseArguments, corpus: Corpus) -> PairVectors:
    """The vectors that were given in place of the encoder's: one for every pair as it was read, dropped ones included.

    Raises:
        ValueError: for malformed files (see `load_vectors`), different widths, or vectors that are not the encoder's
            where one is given too: the published model would not be the one that was measured.
    """
    train = tuple(load_vectors(path, rows=corpus.read) for path in _two(args.train_vectors))
    test = tuple(load_vectors(path, rows=len(corpus.test)) for path in _two(args.test_vectors))
    widths = {array.shape[1] for array in (*train, *test)}
    if len(widths) > 1:
        raise ValueError(f"the vector files have different widths {sorted(widths)}; all four must agree.")
    if len(corpus.train) < corpus.read:
        train = tuple(array[corpus.train["row"]] for array in train)
    if args.base_model is not None:
        encoder = frozen_encoder(args)
        if widths != {encoder.hidden_size}:
            raise ValueError(f"the vectors are {widths.pop()} wide, those of {args.base_model} {encoder.hidden_size}.")
        for path, side, given in zip(args.test_vectors, ("source", "target"), test):
            cosine = (_unit(encoder(corpus.test[side][:8])[:, 0]) * _unit(given[:8])).sum(1)
            if cosine.min() < 0.995:  # bfloat16 costs 1e-4, the next layer 0.03 or more
                raise ValueError(
                    f"{path}: row {cosine.argmin() + 1} is not what layer {args.layer} ({args.pooling}) of "
                    f"{args.base_model} gives for its text (cosine {cosine.min():.2f}); give the --layer and --pooling "
                    "that the vectors were made with, or leave --base_model out to publish the head alone."
                )
    return PairVectors(train, test)


def _unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def _two(paths: list[str]) -> list[str]:
    if len(paths) != 2:
        raise ValueError(f"{' '.join(paths)}: give two files of vectors, the source's and the target's.")
    return paths
