"""A statistical start for the word aligner: words that occur in the same sentence pairs begin with similar vectors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from hfxling.data.segment import EOS
from hfxling.models.modeling_aligner import AlignerModel

from .aligner_batches import EncodedPairs

INITS = ("random", "cooccurrence")
_SCALE = 0.1 / np.sqrt(3)  # standard deviation of an entry under the uniform start in [-0.1, 0.1]


@torch.no_grad()
def init_from_cooccurrence(model: AlignerModel, pairs: Sequence[EncodedPairs], seed: int = 0) -> None:
    """Replace the random word vectors by latent semantic ones that all languages share.

    A word is the set of sentence pairs that it occurs in, weighted by log inverse frequency; a truncated singular value
    decomposition of these over all languages together gives the vectors, scaled to the length of random ones. Shared
    pieces begin at zero, special tokens and words that do not occur keep their random vectors. Not part of the paper.

    Args:
        model: changed in place.
        pairs: training text of all its language pairs.
        seed: of the decomposition's first guess.
    """
    from scipy.sparse import block_array, csr_array, diags_array
    from scipy.sparse.linalg import svds

    columns: dict[str, list] = {language: [] for language in model.config.languages}
    for corpus in pairs:
        sides = dict(zip(corpus.languages, (corpus.source, corpus.target)))
        for language, blocks in columns.items():
            rows = sides.get(language, [[] for _ in corpus.source])
            blocks.append(_occurrences(rows, model.config.vocab_sizes[language], csr_array))
    matrix = block_array([list(row) for row in zip(*columns.values())], format="csr")
    counts = np.asarray(matrix.sum(0)).ravel()
    matrix = matrix @ diags_array(np.log(matrix.shape[0] / np.maximum(counts, 1)).astype(np.float32))
    rank = min(model.config.size, min(matrix.shape) - 1)
    _, values, words = svds(matrix, k=rank, rng=np.random.default_rng(seed))
    vectors = (words.T * np.sqrt(np.maximum(values, 0))).astype(np.float32)
    start = 0
    for language, size in model.config.vocab_sizes.items():
        occurring = start + np.flatnonzero(counts[start : start + size])
        _write(model.embedding.words[f"of_{language}"].weight, occurring - start, vectors[occurring])
        start += size
    model.embedding.pieces.weight.zero_()


def _occurrences(rows: Sequence[Sequence[int]], words: int, csr_array):
    """(sentences, words) with a one where the sentence holds the word; special tokens count for nothing."""
    distinct = [[word for word in sorted(set(row)) if word > EOS] for row in rows]
    ends = np.cumsum([0, *map(len, distinct)])
    ids = np.fromiter((word for row in distinct for word in row), np.int32, ends[-1])
    return csr_array((np.ones(len(ids), np.float32), ids, ends), (len(rows), words))


def _write(weight: torch.Tensor, ids: np.ndarray, vectors: np.ndarray) -> None:
    """Put vectors, at the length of random ones, into the rows of their words; missing dimensions are zero."""
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    rows = torch.zeros(len(ids), weight.shape[1])
    rows[:, : unit.shape[1]] = torch.from_numpy(unit)
    weight[torch.from_numpy(ids)] = rows * (_SCALE * weight.shape[1] ** 0.5)
