"""What words count by in the statistical links: stems of whole words, and which are written alike in both languages."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

import numpy as np

from hfxling.data.codes import base_code
from hfxling.data.segment import EOS, Vocabulary
from hfxling.data.texts import numbered_distinct

STEM = 4  # letters that count of a word in an alphabet, as eflomal's and fast_align's users stem
_ALPHABETS = ("LATIN", "CYRILLIC", "GREEK")
# Malay words change in front: a prefix is cut off where four letters stay. Longer ones first; what a nasal swallowed
# (menulis, of tulis) stays lost.
PREFIXED = ("id", "ms")
_PREFIX = re.compile("^(?:memper|diper|meng|meny|peng|peny|mem|men|pem|pen|ber|ter|per|me|di|ke|se|pe)(?=.{4})")


def stem(word: str, lang: str) -> str:
    """What a whole word counts by: of an alphabet its first letters, in Indonesian and Malay those behind a prefix.

    Vietnamese words are syllables, whose endings tell them apart; other scripts are left alone, too.
    """
    lang = base_code(lang)
    if lang == "vi" or unicodedata.name(word[0], "").partition(" ")[0] not in _ALPHABETS:
        return word
    return (_PREFIX.sub("", word, count=1) if lang in PREFIXED else word)[:STEM]


def word_classes(vocabulary: Vocabulary) -> np.ndarray:
    """(V,) class of every word id: whole words of one stem share one. Learnt pieces are short as they are."""
    _, places = numbered_distinct(_spellings(vocabulary))
    return places + 1  # 0 is NULL's


def equal_classes(vocabularies: Sequence[Vocabulary]) -> np.ndarray:
    """(C,) target class that is written as each source class, 0 where there is none."""
    source, target = vocabularies
    source_classes, target_classes = word_classes(source), word_classes(target)
    of_target = dict(zip(_spellings(target)[EOS + 1 :], target_classes[EOS + 1 :]))
    equal = np.zeros(source_classes.max() + 1, int)
    equal[source_classes[EOS + 1 :]] = [of_target.get(key, 0) for key in _spellings(source)[EOS + 1 :]]
    return equal


def _spellings(vocabulary: Vocabulary) -> list[str]:
    """What every word counts by."""
    if vocabulary.segmenter not in ("words", "whitespace"):
        return list(vocabulary.words)
    special, words = vocabulary.words[: EOS + 1], vocabulary.words[EOS + 1 :]
    return [*special, *(stem(word, vocabulary.lang) for word in words)]
