"""A pseudo-dictionary out of parallel text: words that nearly always occur together (Wada et al. 2021)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def dice_dictionary(
    source: Sequence[Sequence[str]],
    target: Sequence[Sequence[str]],
    *,
    min_dice: float = 0.8,
    min_count: int = 3,
    max_pairs: int = 5000,
) -> list[tuple[str, str]]:
    """Word pairs by Dice coefficient, 2 n(s, t) / (n(s) + n(t)), counted in sentence pairs.

    The defaults are those of the ancestor's script. It serves to choose between models without gold links: P@1 against
    it rises while training helps. Pairs of one spelling (numbers, names) say nothing of a model whose words share their
    pieces' vectors: an untrained one finds them.

    Args:
        source: words of each source sentence.
        target: words of each target sentence, row by row its translation.
        min_dice: least coefficient, 0..1.
        min_count: least number of sentence pairs that have both words.
        max_pairs: pairs at most, those that occur together most often.

    Returns:
        (source word, target word), the most frequent first; a word may be in several.

    Raises:
        ValueError: unequal numbers of sentences.
    """
    if len(source) != len(target):
        raise ValueError(f"{len(source)} source and {len(target)} target sentences; give them pair by pair.")
    (source_words, left), (target_words, right) = _occurrences(source), _occurrences(target)
    together = (left.T @ right).tocoo()
    counts = together.data
    totals = left.sum(0)[together.coords[0]] + right.sum(0)[together.coords[1]]
    dice = 2 * counts / totals
    same = np.array(source_words)[together.coords[0]] == np.array(target_words)[together.coords[1]]
    kept = np.flatnonzero((counts >= min_count) & (dice >= min_dice) & ~same)
    rows, columns = together.coords[0][kept], together.coords[1][kept]
    order = np.lexsort((columns, rows, -dice[kept], -counts[kept]))[:max_pairs]
    return [(source_words[rows[i]], target_words[columns[i]]) for i in order]


def _occurrences(sentences: Sequence[Sequence[str]]):
    """The words, sorted, and a sparse (sentences, words) matrix of ones."""
    from scipy.sparse import csr_array

    words = sorted(set().union(*sentences))
    index = {word: i for i, word in enumerate(words)}
    columns, ends = [], [0]
    for sentence in sentences:
        columns += sorted({index[word] for word in sentence})
        ends.append(len(columns))
    ones = np.ones(len(columns), np.int64)
    return words, csr_array((ones, np.array(columns, np.int64), np.array(ends)), (len(ends) - 1, len(words)))
