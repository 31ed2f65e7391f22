"""Find test sentences in the training text by content: repeated exactly or lightly edited, on either side.

Texts are compared after NFKC and case-folding, without punctuation, symbols, white space and invisible characters. The
measure is the Dice coefficient of their sets of character trigrams. Han characters, kana and Hangul syllables count as
two characters, because they carry that much. If one word of five changes, the coefficient is about 0.65.
"""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from .parallel import sides_of

if TYPE_CHECKING:
    from datasets import Dataset
    from scipy.sparse import csr_array

# 0.65 finds 99 % of light edits made by a program (a word or three characters dropped, replaced, inserted or swapped)
# in NTREX, vi-zh and Tatoeba lines of 20 characters or more; lines of different NTREX articles stay below it.
THRESHOLD = 0.65
# Number of characters from which a match of one side alone is a leak. Shorter lines recur in independent text ("谢谢",
# "Yes."; or a word apart, "Where is my bag?" and "Where is my key?"): there both sides must match the same test pair.
LONG_EXACT = 8
LONG_NEAR = 20
_CELLS = 20_000_000  # training rows times test lines compared at a time: about 300 MB
_DOUBLE = ((0x3041, 0x30FF), (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xAC00, 0xD7A3), (0xF900, 0xFAFF), (0x20000, 0x323AF))
_GRAM_BITS = 43  # bits of a hashed trigram, which leaves 20 for the row inside a chunk


def drop_leaks(train: Dataset, test: Dataset) -> tuple[Dataset, np.ndarray]:
    """The training set without the pairs that repeat a test pair, and the rows of those, (L,).

    A training row leaks if one side repeats a test line of `LONG_EXACT` characters or more, if one side is a light edit
    of a test line and both have `LONG_NEAR` characters or more, or if both sides match those of one test pair, however
    short they are. Each side is compared with source and target of the test set, so pairs of the opposite direction are
    found, too.

    Raises:
        ValueError: a missing column.
    """
    for name, dataset in (("train", train), ("test", test)):
        missing = {"source", "target"} - set(dataset.column_names)
        if missing:
            raise ValueError(f"{name} lacks columns {sorted(missing)}; rename some of {dataset.column_names}")
    if not len(test):
        return train, np.empty(0, np.int64)
    is_leak = np.zeros(len(train), bool)
    source, target = sides_of(test)
    index = _Index(source + target)
    step = max(1, min(10_000, _CELLS // (2 * len(test))))
    for start in range(0, len(train), step):
        chunk = train[start : start + step]
        matches = {}
        for side in ("source", "target"):
            rows, lines, is_long = index.match(chunk[side])
            # A match as one number: the training row and the test pair, whichever of its sides matched.
            matches[side] = rows, rows * len(test) + lines % len(test), is_long
        both = np.intersect1d(matches["source"][1], matches["target"][1])
        for rows, keys, is_long in matches.values():
            is_leak[start + rows[is_long | np.isin(keys, both)]] = True
    return train.select(np.flatnonzero(~is_leak)), np.flatnonzero(is_leak)


class _Index:
    """Trigrams of the test lines, with which chunks of training text are compared."""

    def __init__(self, lines: Sequence[str]):
        rows, grams, self.length = _trigrams(lines)
        distinct, columns = np.unique(grams, return_inverse=True)
        self.vocabulary = np.append(distinct, np.uint64(1 << _GRAM_BITS))  # greater than any trigram of other texts
        self.size = np.bincount(rows, minlength=len(lines))
        self.lines_of_gram = _binary(columns, rows, (len(self.vocabulary), len(lines)))

    def match(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """For all M matches: row of `texts`, test line, and whether both are long enough, (M,) each."""
        rows, grams, length = _trigrams(texts)
        size = np.bincount(rows, minlength=len(texts))
        columns = np.searchsorted(self.vocabulary, grams)
        known = self.vocabulary[columns] == grams
        shared = _binary(rows[known], columns[known], (len(texts), len(self.vocabulary))) @ self.lines_of_gram
        # Two lines with a and b trigrams reach the threshold t only if they share t(a + b)/2 of them, which is at least
        # tb/(2 - t): a bound that needs only the test line, and leaves few entries to look at.
        least = THRESHOLD / (2 - THRESHOLD) * self.size
        entries = np.flatnonzero(shared.data >= least[shared.indices])
        rows, lines = np.searchsorted(shared.indptr, entries, side="right") - 1, shared.indices[entries]
        similarity = 2 * shared.data[entries] / (size[rows] + self.size[lines])
        is_match = similarity >= THRESHOLD
        rows, lines, similarity = rows[is_match], lines[is_match], similarity[is_match]
        needed = np.where(similarity == 1, LONG_EXACT, LONG_NEAR)
        return rows, lines, np.minimum(length[rows], self.length[lines]) >= needed


def _binary(rows: np.ndarray, columns: np.ndarray, shape: tuple[int, int]) -> csr_array:
    from scipy.sparse import csr_array

    return csr_array((np.ones(len(rows), np.float32), (rows, columns)), shape=shape)


def _trigrams(texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The set of trigrams of each text: (G,) row and (G,) hash, in order of rows, and (N,) characters of each text."""
    folded = [f"\0{unicodedata.normalize('NFKC', text).casefold()}\0" for text in texts]
    codes = np.frombuffer("".join(folded).encode("utf-32-le"), np.uint32)
    rows = np.repeat(np.arange(len(folded)), list(map(len, folded)))
    weight = _weights()[np.minimum(codes, len(_weights()) - 1)]
    codes, rows = np.repeat(codes, weight).astype(np.uint64), np.repeat(rows, weight)
    # A code point has 21 bits, so three of them are one number of 63.
    grams = (codes[:-2] << np.uint64(42)) | (codes[1:-1] << np.uint64(21)) | codes[2:]
    grams = (grams * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(64 - _GRAM_BITS)  # Fibonacci hashing
    inside = rows[:-2] == rows[2:]
    keys = np.sort((rows[:-2][inside].astype(np.uint64) << np.uint64(_GRAM_BITS)) | grams[inside])
    # Each key once; np.unique takes forty times as long. The first key is kept, as it differs from its own complement.
    keys = keys[np.diff(keys, prepend=~keys[:1]) != 0]
    length = np.bincount(rows, minlength=len(folded)) - 2  # less the two end marks
    return (keys >> np.uint64(_GRAM_BITS)).astype(np.int64), keys & np.uint64((1 << _GRAM_BITS) - 1), length


@functools.cache
def _weights() -> np.ndarray:
    """How many characters a code point counts for: 0, 1 or 2; letters, marks, digits and the end mark NUL count."""
    beyond = 0x323B0  # the last entry, 0, stands for everything from here on
    counted = [unicodedata.category(chr(code))[0] in "LMN" for code in range(beyond)]
    weights = np.array([*counted, False], np.uint8)
    for first, last in _DOUBLE:
        weights[first : last + 1] *= 2
    weights[0] = 1
    return weights
