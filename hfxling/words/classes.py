"""Classes of words in the statistical links: stems of whole words, and words written alike in both languages."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

import numpy as np

from hfxling.data.codes import base_code
from hfxling.data.segment import EOS, Vocabulary
from hfxling.data.texts import numbered_distinct

STEM = 4  # letters of a word that count in alphabets, as users of eflomal and fast_align do
_ALPHABETS = ("LATIN", "CYRILLIC", "GREEK")
# Malay words change at the front: a prefix is cut off if four letters remain. Longer prefixes come first; a letter that
# a nasal has replaced (menulis, from tulis) stays lost.
PREFIXED = ("id", "ms")
_PREFIX = re.compile("^(?:memper|diper|meng|meny|peng|peny|mem|men|pem|pen|ber|ter|per|me|di|ke|se|pe)(?=.{4})")


def stem(word: str, lang: str) -> str:
    """The stem of a whole word: in alphabets its first letters, in Indonesian and Malay those after a prefix.

    Vietnamese words are syllables, whose endings tell them apart, so they are left as they are; so are other scripts.
    """
    lang = base_code(lang)
    if lang == "vi" or unicodedata.name(word[0], "").partition(" ")[0] not in _ALPHABETS:
        return word
    return (_PREFIX.sub("", word, count=1) if lang in PREFIXED else word)[:STEM]


def word_classes(vocabulary: Vocabulary) -> np.ndarray:
    """(V,) class of every word id: whole words with one stem share a class; learnt pieces have their own."""
    _, places = numbered_distinct(_spellings(vocabulary))
    return places + 1  # 0 is NULL's


def equal_classes(vocabularies: Sequence[Vocabulary]) -> np.ndarray:
    """(C,) target class that is written like each source class, 0 if there is none."""
    source, target = vocabularies
    source_classes, target_classes = word_classes(source), word_classes(target)
    of_target = dict(zip(_spellings(target)[EOS + 1 :], target_classes[EOS + 1 :]))
    equal = np.zeros(source_classes.max() + 1, int)
    equal[source_classes[EOS + 1 :]] = [of_target.get(key, 0) for key in _spellings(source)[EOS + 1 :]]
    return equal


def _spellings(vocabulary: Vocabulary) -> list[str]:
    """The stem of every whole word; learnt pieces as they are."""
    if vocabulary.segmenter not in ("words", "whitespace"):
        return list(vocabulary.words)
    special, words = vocabulary.words[: EOS + 1], vocabulary.words[EOS + 1 :]
    return [*special, *(stem(word, vocabulary.lang) for word in words)]
