"""Static word vectors: the log odds of all links, factorised."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from scipy.linalg import eigh
from scipy.sparse import block_array, csr_array
from scipy.sparse.csgraph import shortest_path
from sklearn.utils.extmath import randomized_svd, svd_flip

from hfxling.data.sources import Pair
from hfxling.models.lexical_vectors import Bags
from hfxling.models.modeling_lexical import LexicalModel

from .arguments import LinkSettings

_PRECISION = {"n_oversamples": 128, "n_iter": 4}  # precision of the randomised factorisation
_EXACT = 3000  # linked segments of the smaller side up to which the exact factorisation is faster


def static_vectors(
    model: LexicalModel,
    bags: Sequence[Mapping[str, Bags]],
    counts: Mapping[str, np.ndarray],
    settings: LinkSettings,
    *,
    is_shared: bool,
    seed: int,
) -> dict[str, np.ndarray]:
    """(V, rank) float32 word vectors of every language, components in order of strength; a text's vector is their mean.

    K_st = log(1 + c P(t|s)/bg(t)) plus its mirror is factorised by a truncated SVD in which a segment has the weight
    count ** `settings.static_power`; for small c that is a correspondence analysis of the links. The mean vector of a
    language's training sentences is subtracted from its word vectors, so that sentence vectors are centred. Languages
    with one tokenizer (`is_shared`) get one table: a segment that several languages have gets the mean of its vectors,
    weighted by occurrences. `bags` are the training sentences, pair by pair; `counts` has the counts of all segments of
    a language, none of them 0.
    """
    config = model.config
    weights = {lang: count**settings.static_power for lang, count in counts.items()}
    odds = {}
    for source, target in map(tuple, bags):
        there = _log_odds(model._matrix(source, target, 0), settings.static_mixture)
        back = _log_odds(model._matrix(target, source, 0), settings.static_mixture)
        weighted = (there + back.T) * weights[source][:, None] * weights[target][None]
        odds[source, target] = csr_array(weighted)
    tables = factorise(odds, {lang: sizes[0] for lang, sizes in config.vocab_sizes.items()}, settings, seed)
    sums = {}
    for lang, scaled in tables.items():
        table = scaled / weights[lang][:, None]
        shares = [pair[lang].shares[0] for pair in bags if lang in pair]
        occurrences = sum(part.sum(0) for part in shares)
        sentences = sum(part.shape[0] for part in shares)
        linked = np.zeros(len(table), bool)
        for pair in config.pairs:
            if pair[0] == lang:
                linked |= np.diff(model._matrix(*pair, 0).indptr) > 0
        table[~linked] = 0.0  # no rounding errors for unknown words
        table[linked] -= occurrences @ table / sentences  # the mean of the sentences' vectors
        tables[lang] = table
        sums[lang] = (occurrences + 1e-9) * linked  # more than 0 even for a lexicon's segment that is in no sentence
    if is_shared:
        total = np.maximum(sum(sums.values()), 1e-30)  # it is 0 for a segment that is linked in no language
        one = sum(table * (sums[lang] / total)[:, None] for lang, table in tables.items())
        tables = dict.fromkeys(tables, one)
    return {lang: table.astype(np.float32) for lang, table in tables.items()}


def _log_odds(matrix: csr_array, weight: float) -> csr_array:
    return csr_array((np.log1p(matrix.data * np.float32(weight)), matrix.indices, matrix.indptr), matrix.shape)


def factorise(
    odds: Mapping[Pair, csr_array], sizes: Mapping[str, int], settings: LinkSettings, seed: int
) -> dict[str, np.ndarray]:
    """(V, rank) tables of every language, such that the product of two approximates their matrix as well as possible.

    If no cycle of language pairs has odd length (for instance if all share one language), this is one SVD with the rows
    of some languages and the columns of the others; otherwise it is the positive part of the spectrum of the whole
    symmetric matrix.
    """
    languages, halves = list(sizes), two_halves(odds, sizes)
    rows, columns = halves or (languages, languages)
    blocks = []
    for row in rows:
        blocks.append([_block(odds, sizes, row, column) for column in columns])
    matrix = block_array(blocks, format="csr")
    if halves:
        u, strength, v = strongest_svd(matrix, settings.rank, seed)
    else:
        # The singular values of a symmetric matrix are the absolute eigenvalues. For a negative one the left vector is
        # minus the right one, so it is no product of a table with itself. Twice the rank gives enough positive ones.
        u, strength, v = randomized_svd(matrix, 2 * settings.rank, random_state=seed, **_PRECISION)
        is_positive = (u * v.T).sum(0) > 0
        kept = np.flatnonzero(is_positive)[: settings.rank]
        u, strength, v = u[:, kept], strength[kept], v[kept]
    tables = {}
    for names, table in ((rows, u), (columns, v.T)):
        ends = np.cumsum([sizes[lang] for lang in names])[:-1]
        for lang, part in zip(names, np.split(table * strength**settings.static_decay, ends)):
            tables[lang] = part.copy()
    return {lang: tables[lang] for lang in languages}


def strongest_svd(matrix: csr_array, rank: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The strongest left singular vectors (V, rank), the singular values, and the right singular vectors (rank, W)."""
    rows, columns = matrix.nonzero()
    rows, columns = np.unique(rows), np.unique(columns)  # rows and columns without links stay zero
    linked = csr_array(matrix[rows][:, columns])
    if min(linked.shape) <= _EXACT:
        turned = linked.shape[0] > linked.shape[1]
        short = csr_array(linked.T if turned else linked).astype(np.float64)  # no more rows than columns
        squares, u = eigh((short @ short.T).toarray())  # squares of the singular values, ascending
        kept = np.flatnonzero(squares > 1e-12 * squares[-1])[::-1][:rank]
        u, strength = u[:, kept], np.sqrt(squares[kept])
        u, v = svd_flip(u, (short.T @ u / strength).T)  # eigenvectors may have either sign
        if turned:
            u, v = v.T, u.T
    else:
        u, strength, v = randomized_svd(linked, rank, random_state=seed, **_PRECISION)
    left, right = np.zeros((matrix.shape[0], len(strength))), np.zeros((len(strength), matrix.shape[1]))
    left[rows], right[:, columns] = u, v
    return left, strength, right


def two_halves(odds: Mapping[Pair, csr_array], sizes: Mapping[str, int]) -> tuple[list[str], list[str]] | None:
    """The languages in two groups, with no pair inside either; None if there is no such division.

    It is the two-colouring of the graph whose edges are the pairs.
    """
    languages = list(sizes)
    edges = np.zeros((len(languages), len(languages)))
    for a, b in odds:
        edges[languages.index(a), languages.index(b)] = 1
    steps = shortest_path(edges, directed=False, unweighted=True)
    first = np.isfinite(steps).argmax(0)  # for each language, the first one that it is connected with
    half = dict(zip(languages, steps[first, np.arange(len(languages))] % 2))  # an even or odd number of steps from that
    if any(half[a] == half[b] for a, b in odds):
        return None
    return [lang for lang in languages if half[lang] == 0], [lang for lang in languages if half[lang] == 1]


def _block(odds: Mapping[Pair, csr_array], sizes: Mapping[str, int], row: str, column: str) -> csr_array:
    if (row, column) in odds:
        return odds[row, column]
    if (column, row) in odds:
        return csr_array(odds[column, row].T)
    return csr_array((sizes[row], sizes[column]), dtype=np.float32)
