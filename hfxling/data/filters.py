"""Filters for sentence pairs to train on: length in words, duplicates, untranslated copies."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

from .codes import written_like
from .invisible import visible

if TYPE_CHECKING:
    from datasets import Dataset

# Average letters of a word in scripts without spaces between words. Vowel signs and tone marks do not count (so only
# Unicode's Lo and Lm do). As found by ICU 78's dictionary word breaker in NTREX-128 (Thai, Lao, Khmer) and TALPCo
# (Burmese).
LETTERS_PER_WORD = {"th": 3.0, "lo": 3.2, "km": 2.8, "my": 1.8}
_UNSPACED_LETTER = re.compile(r"(?=[^\W\d_])[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]")
_HAN_OR_KANA = re.compile(
    r"[\u3005-\u3007\u3041-\u3096\u30a1-\u30fa\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af]"
)
_LETTER_OR_DIGIT = re.compile(r"[^\W_]")


def word_counts(texts: Iterable[str], lang: str) -> np.ndarray:
    """(N,) number of words of each text of one language, by `count_words`."""
    return np.array([count_words(text, lang) for text in texts])


def count_words(text: str, lang: str) -> int:
    """Approximate number of words in a text.

    Each run between white space that has a letter or a digit counts as one word (in Vietnamese these are syllables). In
    Chinese and Japanese every Han character and every kana counts as one, which gives about 1.6 (zh) and 1.8 (ja) times
    the number of words. Thai, Lao, Khmer and Burmese words are estimated: the number of letters divided by
    `LETTERS_PER_WORD`, rounded, at least 1. Words of other scripts in such text are added: "我用 iPhone" has 3.
    """
    base = written_like(lang)
    words = 0
    if base in ("zh", "ja"):
        text, words = _HAN_OR_KANA.subn(" ", text)
    elif base in LETTERS_PER_WORD:
        text, letters = _UNSPACED_LETTER.subn(" ", text)
        words = max(1, round(letters / LETTERS_PER_WORD[base])) if letters else 0
    for run in text.split():
        if _LETTER_OR_DIGIT.search(run):
            words += 1
    return words


def filter_parallel(
    dataset: Dataset,
    *,
    min_words: int = 0,
    max_words: int | None = None,
    drop_duplicates: bool = True,
    drop_identical: bool = True,
) -> tuple[Dataset, dict[str, int]]:
    """Drop pairs that are too short or too long, repeat an earlier pair, or have the same text on both sides.

    Two texts are the same if they are equal after NFKC, case-folding, collapsing white space and removing invisible
    characters. A dropped pair is counted under the first reason that applies: identical, too_short, too_long,
    duplicate.

    Args:
        dataset: data set with columns source, target, source_lang, target_lang; other columns are kept.
        min_words: fewest words (`count_words`) that the shorter side may have. Siamese paper: 5.
        max_words: most words that the longer side may have; None for any number.
        drop_duplicates: drop pairs whose two sides have occurred together before.
        drop_identical: drop pairs whose target is the same text as the source.

    Returns:
        The data set without those pairs, and the number of pairs dropped for each reason.

    Raises:
        ValueError: for limits that no pair can meet, or a missing column.
    """
    gate = PairGate(min_words, max_words, drop_duplicates, drop_identical)
    columns = ["source", "target", "source_lang", "target_lang"]
    missing = set(columns) - set(dataset.column_names)
    if missing:
        raise ValueError(f"the data set lacks {sorted(missing)}; load it with load_parallel or rename its columns")
    dropped = dict.fromkeys(("identical", "too_short", "too_long", "duplicate"), 0)
    kept = []
    index = 0
    for batch in dataset.select_columns(columns).iter(10_000):
        for row in zip(*batch.values()):
            reason = gate.reason(*row)
            if reason is None:
                kept.append(index)
            else:
                dropped[reason] += 1
            index += 1
    return dataset.select(kept), dropped


class PairGate:
    """Decides pair by pair what is dropped; arguments and errors as for `filter_parallel`."""

    def __init__(
        self,
        min_words: int = 0,
        max_words: int | None = None,
        drop_duplicates: bool = True,
        drop_identical: bool = True,
    ):
        if min_words < 0 or (max_words is not None and max_words < max(1, min_words)):
            limits = f"min_words={min_words}, max_words={max_words}"
            raise ValueError(f"{limits}: needs 0 <= min_words <= max_words, max_words >= 1")
        self.min_words, self.max_words = min_words, max_words
        self.drop_duplicates, self.drop_identical = drop_duplicates, drop_identical
        self.seen: set[bytes] = set()

    def reason(self, source: str, target: str, source_lang: str, target_lang: str) -> str | None:
        """The first of `reasons`, or None if there is none."""
        reasons = self.reasons(source, target, source_lang, target_lang)
        return reasons[0] if reasons else None

    def reasons(self, source: str, target: str, source_lang: str, target_lang: str) -> list[str]:
        """Why a pair is dropped, or [] if it is kept; the pair is remembered."""
        reasons = []
        plain_source, plain_target = plain(source), plain(target)
        if self.drop_identical and plain_source == plain_target:
            reasons.append("identical")
        if self.min_words or self.max_words:
            words = count_words(source, source_lang), count_words(target, target_lang)
            if min(words) < self.min_words:
                reasons.append("too_short")
            if self.max_words and max(words) > self.max_words:
                reasons.append("too_long")
        if self.drop_duplicates:
            # 16 bytes stand for the pair, so that text of any length fits in memory; no two pairs will ever share them.
            key = hashlib.blake2b(f"{plain_source}\t{plain_target}".encode(), digest_size=16).digest()
            if key in self.seen:
                reasons.append("duplicate")
            self.seen.add(key)
        return reasons


def plain(text: str) -> str:
    """The text as it is compared: two texts count as the same if this is equal."""
    return " ".join(visible(unicodedata.normalize("NFKC", text)).casefold().split())


def top_count(top: float | str, total: int) -> int:
    """How many of `total` pairs to keep, at least one: 5000 is a count, 0.8 a share."""
    number = top
    if isinstance(top, str):
        with suppress(ValueError):
            number = float(top)
            number = int(top)  # a whole number is a count; for any other this fails, and the float stays
    if isinstance(number, int) and not isinstance(number, bool) and number >= 1:
        return number
    if isinstance(number, float) and 0 < number < 1:
        return max(1, round(number * total))
    raise ValueError(
        f"top={top}: give a count of pairs, such as 5000, or a share of them between 0 and 1, such as 0.8."
    )


def check_top(top: float | str | None) -> None:
    """Raise the ValueError of `top_count` for values that are wrong for any total."""
    if top is not None:
        top_count(top, 1)
