"""A statistical start for the word aligner: words that are linked to each other begin with similar vectors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from scipy.sparse import block_array, coo_array
from scipy.sparse.linalg import eigsh

from hfxling.alignment.pairs import EncodedPairs
from hfxling.alignment.prior import LinkPrior
from hfxling.models.modeling_aligner import AlignerModel

_FEWEST = 0.05  # expected links that a pair of words needs
_SCALE = 0.1 / np.sqrt(3)  # standard deviation of an entry under the uniform start in [-0.1, 0.1]


@torch.no_grad()
def init_from_links(
    model: AlignerModel, pairs: Sequence[EncodedPairs], priors: Sequence[LinkPrior], seed: int = 0
) -> None:
    """Replace the random word vectors by ones that all languages share, read off expected links.

    Two words are the closer, the likelier than by chance they are linked; the leading eigenvectors of that matrix over
    all languages together, those of positive eigenvalues, give the vectors, scaled to the length of random ones. Shared
    pieces begin at zero; special tokens and words without links keep their random vectors. Not part of the paper.

    Args:
        model: changed in place.
        pairs: training text of all its language pairs.
        priors: what was learnt from each of them.
        seed: of the eigenvectors' first guess.
    """
    sizes = model.config.vocab_sizes
    order = list(sizes)
    blocks = [[coo_array((sizes[row], sizes[column])) for column in order] for row in order]
    for corpus, prior in zip(pairs, priors):
        i, j = map(order.index, corpus.languages)
        close = _closeness(prior.link_counts(corpus, [sizes[lang] for lang in corpus.languages]))
        blocks[i][j], blocks[j][i] = blocks[i][j] + close, blocks[j][i] + close.T
    matrix = block_array(blocks, format="csr").astype(np.float32)
    rank = min(model.config.size, matrix.shape[0] - 2)
    values, words = eigsh(
        matrix, k=rank, which="LA", v0=np.random.default_rng(seed).standard_normal(len(matrix.indptr) - 1)
    )
    vectors = words[:, values > 0] * np.sqrt(values[values > 0])
    start = 0
    for language, size in sizes.items():
        part = vectors[start : start + size]
        _write(
            model.embedding.words[f"of_{language}"].weight, np.flatnonzero(np.linalg.norm(part, axis=1) > 1e-6), part
        )
        start += size
    model.embedding.pieces.weight.zero_()


def _closeness(counts):
    """log(1 + how many times likelier than by chance two words are linked), from expected link counts; sparse."""
    rows, columns = (counts.sum(axis) for axis in (1, 0))
    table = counts.tocoo()
    kept = table.data > _FEWEST
    i, j, count = table.row[kept], table.col[kept], table.data[kept]
    return coo_array((np.log1p(count * counts.sum() / (rows[i] * columns[j])), (i, j)), shape=table.shape)


def _write(weight: torch.Tensor, ids: np.ndarray, vectors: np.ndarray) -> None:
    """Put vectors, at the length of random ones, into the rows of their words; missing dimensions are zero."""
    unit = vectors[ids] / np.linalg.norm(vectors[ids], axis=1, keepdims=True)
    rows = torch.zeros(len(ids), weight.shape[1])
    rows[:, : unit.shape[1]] = torch.from_numpy(unit)
    weight[torch.from_numpy(ids)] = rows * (_SCALE * weight.shape[1] ** 0.5)
