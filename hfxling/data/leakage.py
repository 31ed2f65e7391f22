"""Test sentences inside the training text, found by content: repeated exactly or lightly edited, on either side.

Texts are compared after NFKC and case-folding, without punctuation, symbols, white space and invisible characters, by
the Dice coefficient of their sets of character trigrams; Han characters, kana and Hangul syllables count as two
characters, as they carry that much. One word changed in a sentence of five keeps the coefficient at about 0.65.
"""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from datasets import Dataset
    from scipy.sparse import csr_array

# Of light edits made by a program (a word or three characters dropped, replaced, inserted or swapped) in NTREX, vi-zh
# and Tatoeba lines of 20 characters or more, 0.65 finds 99 %; lines of different NTREX articles stay below it.
THRESHOLD = 0.65
# From how many characters one side alone gives a leak away. Shorter lines recur in independent text ("谢谢", "Yes."; a
# word apart, "Where is my bag?" and "Where is my key?"), so there the other side must match the same test pair too.
LONG_EXACT = 8
LONG_NEAR = 20
_CELLS = 20_000_000  # training rows times test lines compared at a time: some 200 MB
_DOUBLE = ((0x3041, 0x30FF), (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xAC00, 0xD7A3), (0xF900, 0xFAFF), (0x20000, 0x323AF))
_GRAM_BITS = 43  # a trigram is hashed to so many bits, which leaves 20 for the row inside a chunk


class Leak(NamedTuple):
    """A training side and the test line it repeats; `similarity` is 1.0 if exactly."""

    train_row: int
    test_row: int
    side: str
    similarity: float
    train_text: str
    test_text: str


@dataclass(frozen=True)
class LeakReport:
    """What of the training set is in the test set."""

    exact: int  # training rows that repeat a test line exactly on some side
    near: int  # others that are lightly edited
    rows: tuple[int, ...]  # indices of all of them in the training set
    examples: tuple[Leak, ...]  # the least certain first


def find_leaks(train: Dataset, test: Dataset, *, threshold: float = THRESHOLD, max_examples: int = 20) -> LeakReport:
    """Find the training pairs that repeat a test pair.

    A training row leaks if one side repeats a test line of `LONG_EXACT` characters or more, if one side is a light edit
    of a test line and both have `LONG_NEAR` characters, or if both sides match those of one test pair, however short
    they are. Source and target of the test set are searched alike, so pairs of the opposite direction are found too.

    `threshold` is the least Dice coefficient of a match, above 0.5 and at most 1; `max_examples` leaks are quoted.

    Raises:
        ValueError: a threshold outside its range, a missing column or a streamed dataset.
    """
    if not 0.5 < threshold <= 1:
        raise ValueError(f"threshold={threshold} is outside 0.5 < threshold <= 1; the default is {THRESHOLD}")
    for name, dataset in (("train", train), ("test", test)):
        if not hasattr(dataset, "__len__"):
            raise ValueError(f"{name} is streamed, but leaks are sought in whole sets; load it with streaming=False")
        missing = {"source", "target"} - set(dataset.column_names)
        if missing:
            raise ValueError(f"{name} lacks the column(s) {sorted(missing)} among {dataset.column_names}; rename them")
    leaks: dict[int, Leak] = {}  # the surest of every training row
    if len(test):
        for leak in _leaks(train, test, threshold):
            best = leaks.get(leak.train_row)
            if best is None or leak.similarity > best.similarity:
                leaks[leak.train_row] = leak
    exact = sum(leak.similarity == 1.0 for leak in leaks.values())
    examples = sorted(leaks.values(), key=lambda leak: leak.similarity)[:max_examples]
    return LeakReport(exact, len(leaks) - exact, tuple(sorted(leaks)), tuple(examples))


def drop_leaks(
    train: Dataset, test: Dataset, *, threshold: float = THRESHOLD, max_examples: int = 20
) -> tuple[Dataset, LeakReport]:
    """Return the training set without the rows that `find_leaks` reports, and the report. The test set stays whole."""
    report = find_leaks(train, test, threshold=threshold, max_examples=max_examples)
    return train.select(np.setdiff1d(np.arange(len(train)), report.rows)), report


def _leaks(train: Dataset, test: Dataset, threshold: float) -> Iterator[Leak]:
    test_lines = [*test["source"], *test["target"]]
    index = _Index(test_lines, threshold)
    step = max(1, min(10_000, _CELLS // len(test_lines)))
    for start in range(0, len(train), step):
        chunk = train[start : start + step]
        matches, keys = {}, {}
        for side in ("source", "target"):
            matches[side] = rows, lines, _, _ = index.match(chunk[side])
            # A match as one number: the training row and the test pair, whichever side of it was met.
            keys[side] = rows * len(test) + lines % len(test)
        both = np.intersect1d(keys["source"], keys["target"])
        for side, (rows, lines, similarity, is_long) in matches.items():
            for i in np.flatnonzero(is_long | np.isin(keys[side], both)):
                text, line = chunk[side][rows[i]], test_lines[lines[i]]
                # Sets of trigrams do not tell "no, no" from "no, no, no".
                is_exact = similarity[i] == 1 and _plain(text) == _plain(line)
                score = 1.0 if is_exact else min(float(similarity[i]), 0.999)
                yield Leak(start + int(rows[i]), int(lines[i]) % len(test), side, score, text, line)


class _Index:
    """Trigrams of the test lines, to be met by chunks of training text.

    Two lines with a and b trigrams reach the threshold t only if they share t(a + b)/2 of them, at least tb/(2 - t).
    So of a test line, the commonest third of the trigrams can be left out of the product with the training text, where
    they are most of the work: a match still shows in the others. The few pairs left are compared in full.
    """

    def __init__(self, lines: Sequence[str], threshold: float):
        rows, grams, self.length = _trigrams(lines)
        self.threshold = threshold
        self.vocabulary, columns = np.unique(grams, return_inverse=True)
        self.size = np.bincount(rows, minlength=len(lines))
        self.all = _binary(rows, columns, (len(lines), len(self.vocabulary)))
        self.left_out = self.size // 3
        self.least = threshold / (2 - threshold) * self.size - self.left_out
        commonest_first = np.lexsort((-np.bincount(columns)[columns], rows))
        rank = np.arange(len(rows)) - np.repeat(np.cumsum(self.size) - self.size, self.size)
        rare = commonest_first[rank >= self.left_out[rows]]
        self.rare = _binary(rows[rare], columns[rare], self.all.shape).T.tocsr()

    def match(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """(M,) row of `texts`, (M,) test line, (M,) Dice coefficient, (M,) whether long enough, of all matches."""
        rows, grams, length = _trigrams(texts)
        size = np.bincount(rows, minlength=len(texts))
        columns = np.minimum(np.searchsorted(self.vocabulary, grams), len(self.vocabulary) - 1)
        known = self.vocabulary[columns] == grams
        chunk = _binary(rows[known], columns[known], (len(texts), len(self.vocabulary)))
        shared = chunk @ self.rare
        at = np.flatnonzero(shared.data >= self.least[shared.indices])
        rows, lines = np.searchsorted(shared.indptr, at, side="right") - 1, shared.indices[at]
        enough = self.threshold * (size[rows] + self.size[lines]) / 2 - self.left_out[lines]
        candidate = shared.data[at] >= enough
        rows, lines = rows[candidate], lines[candidate]
        overlap = chunk[rows].multiply(self.all[lines]).sum(axis=1)
        similarity = 2 * overlap / (size[rows] + self.size[lines])
        is_match = similarity >= self.threshold
        rows, lines, similarity = rows[is_match], lines[is_match], similarity[is_match]
        needed = np.where(similarity == 1, LONG_EXACT, LONG_NEAR)
        return rows, lines, similarity, np.minimum(length[rows], self.length[lines]) >= needed


def _binary(rows: np.ndarray, columns: np.ndarray, shape: tuple[int, int]) -> csr_array:
    from scipy.sparse import csr_array

    return csr_array((np.ones(len(rows), np.float32), (rows, columns)), shape=shape)


def _trigrams(texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The set of trigrams of each text: (G,) row and (G,) hash, in order of rows, and (N,) characters of each text."""
    folded = [f"\0{_folded(text)}\0" for text in texts]
    codes = np.frombuffer("".join(folded).encode("utf-32-le"), np.uint32)
    rows = np.repeat(np.arange(len(folded)), list(map(len, folded)))
    weight = _weights()[np.minimum(codes, len(_weights()) - 1)]
    codes, rows = np.repeat(codes, weight).astype(np.uint64), np.repeat(rows, weight)
    grams = (codes[:-2] << np.uint64(42)) | (codes[1:-1] << np.uint64(21)) | codes[2:]
    grams = (grams * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(64 - _GRAM_BITS)  # Fibonacci hashing
    inside = rows[:-2] == rows[2:]
    keys = np.sort((rows[:-2][inside].astype(np.uint64) << np.uint64(_GRAM_BITS)) | grams[inside])
    keys = keys[np.diff(keys, prepend=~keys[:1]) != 0]  # np.unique takes forty times as long
    length = np.bincount(rows, minlength=len(folded)) - 2  # less the two end marks
    return (keys >> np.uint64(_GRAM_BITS)).astype(np.int64), keys & np.uint64((1 << _GRAM_BITS) - 1), length


def _folded(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()


def _plain(text: str) -> str:
    """The text as it is compared."""
    return "".join(character for character in _folded(text) if _weights()[min(ord(character), len(_weights()) - 1)])


@functools.cache
def _weights() -> np.ndarray:
    """How many characters a code point counts for: 0, 1 or 2; letters, marks, digits and the end mark NUL count."""
    beyond = 0x323B0  # the last entry stands for everything from here on
    weights = np.array([unicodedata.category(chr(code))[0] in "LMN" for code in range(beyond)] + [False], np.uint8)
    for first, last in _DOUBLE:
        weights[first : last + 1] *= 2
    weights[0] = 1
    return weights
