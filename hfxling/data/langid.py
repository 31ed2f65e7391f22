"""Which language a text is in: scripts, character trigrams learned from text at hand, and what py3langid says.

No model is downloaded. Two languages of one file tell each other apart by what the file itself holds; py3langid (130
languages) recognises third ones that share their script. Neither does alone (`benchmarks/language_id.py`).
"""

from __future__ import annotations

import math
import unicodedata
from collections import Counter
from collections.abc import Iterable
from functools import cache, lru_cache
from itertools import pairwise

from .codes import written_like
from .coverage import script_name
from .invisible import ZERO_WIDTH_SPACE, visible

# Languages whose script is not Latin. Others are taken to be Latin, unless what is written in a file says otherwise.
SCRIPTS = {
    "Arabic": "ar fa ps sd ug ur",
    "Armenian": "hy",
    "Bengali": "as bn",
    "Cyrillic": "ba be bg ce cv kk ky mk mn os ru tg tt uk",
    "Devanagari": "hi mr ne sa",
    "Ethiopic": "am ti",
    "Georgian": "ka",
    "Greek": "el",
    "Gujarati": "gu",
    "Gurmukhi": "pa",
    "Han": "zh",
    "Hangul": "ko",
    "Hebrew": "he yi",
    "Kana": "ja",
    "Kannada": "kn",
    "Khmer": "km",
    "Lao": "lo",
    "Malayalam": "ml",
    "Myanmar": "my",
    "Oriya": "or",
    "Sinhala": "si",
    "Tamil": "ta",
    "Telugu": "te",
    "Thai": "th",
    "Tibetan": "bo dz",
}
SCRIPT_OF: dict[str, str] = {}
for _script, _languages in SCRIPTS.items():
    SCRIPT_OF |= dict.fromkeys(_languages.split(), _script)
UNSPACED = {"Han", "Kana", "Khmer", "Lao", "Myanmar", "Thai", "Tibetan"}
# A Han character stands for about three Latin letters.
_WEIGHT = {"Han": 3, "Kana": 2, "Hangul": 2}
# Codes of py3langid that are not ours.
_LIBRARY_CODES = {"fil": "tl", "nb": "no"}
# Where py3langid names another language with this probability, or gives the text's own no more than that. Of news
# (NTREX-128, lines 1 to 1543, 32 languages) at most .5 % is then taken for another language; of Portuguese it finds
# 98 % in Spanish text, of Malay in Indonesian 31 %.
SURE = 0.8
UNLIKELY = 0.05


class _Blank(dict):
    """A table for str.translate: spaces for punctuation, symbols and control characters, nothing for invisible ones."""

    def __missing__(self, code: int) -> int | None:
        letter = chr(code)
        if letter != ZERO_WIDTH_SPACE and not visible(letter):
            self[code] = None
        else:
            self[code] = 32 if unicodedata.category(letter)[0] in "PSZC" else code
        return self[code]


_BLANK = _Blank()


def split_words(text: str) -> list[str]:
    """Runs of letters, marks and digits, after NFKC."""
    return unicodedata.normalize("NFKC", text).translate(_BLANK).split()


@cache
def script_of(letter: str) -> str | None:
    """The script of a letter, kana as one; None for what is no letter."""
    if unicodedata.category(letter)[0] != "L":
        return None
    script = script_name(letter)
    return "Kana" if script in ("Hiragana", "Katakana") else script


def count_scripts(text: str) -> Counter[str]:
    """Letters by script, in about Latin letters: a Han character counts 3, kana and Hangul 2."""
    counts = Counter(map(script_of, text))
    del counts[None]
    return Counter({script: count * _WEIGHT.get(script, 1) for script, count in counts.items()})


@cache
def _identifier():
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


@lru_cache(maxsize=20_000)
def is_named_otherwise(text: str, language: str) -> bool:
    """Whether py3langid is sure that a text is in another language; never of a language that it does not know.

    Texts that faults are learnt from are asked about twice there, and again when they are judged.
    """
    base = written_like(language)
    code = _LIBRARY_CODES.get(base, base)
    identifier = _identifier()
    if code not in identifier.nb_classes:
        return False
    probabilities = identifier.rank(text)
    named, probability = probabilities[0]
    return dict(probabilities)[code] <= UNLIKELY or (named != code and probability >= SURE)


class TrigramProfile:
    """How likely texts are in the language of those that `count_grams` counted: trigrams, Witten-Bell smoothed."""

    def __init__(self, counts: Counter[str]):
        total = sum(count for gram, count in counts.items() if len(gram) == 1)
        kinds: Counter[str] = Counter(gram[:-1] for gram in counts)  # distinct continuations of each context
        sums: Counter[str] = Counter()
        for gram, count in counts.items():
            sums[gram[:-1]] += count
        self._counts, self._kinds, self._sums = counts, kinds, sums
        self._floor = math.log(0.5 / (total + kinds[""] + 1))
        self._table: dict[str, float] = {}  # of grams that were asked for: a text has few of all that were counted

    def log_probability(self, gram: str) -> float:
        """Of the last letter of some, after the others."""
        stored = self._table.get(gram)
        if stored is None:
            stored = self._table[gram] = self._log_probability(gram)
        return stored

    def _log_probability(self, gram: str) -> float:
        # p(c | context) = (count(context c) + kinds(context) p(c | shorter one)) / (count(context) + kinds(context)).
        if not gram:
            return self._floor
        count, context, shorter = self._counts.get(gram, 0), gram[:-1], gram[1:]
        kinds = self._kinds.get(context, 0)
        if kinds == 0:
            return self.log_probability(shorter)
        both = self._sums[context] + kinds
        if count == 0:
            return math.log(kinds / both) + self.log_probability(shorter)
        lower = math.exp(self.log_probability(shorter)) if context else 1 / (kinds + 1)
        return math.log((count + kinds * lower) / both)

    def score(self, text: str) -> float:
        """Mean log probability of a character, in nats; `text` in words with single spaces between them."""
        grams = _trigrams(text)
        return sum(map(self.log_probability, grams)) / len(grams)


def count_grams(texts: Iterable[str]) -> Counter[str]:
    """Counts of one to three adjacent characters in texts that are words with single spaces between them."""
    counts: Counter[str] = Counter()
    for text in texts:
        padded = f" {text} "
        counts.update(padded)
        counts.update(map("".join, pairwise(padded)))
        counts.update(_trigrams(text))
    return counts


def _trigrams(text: str) -> list[str]:
    padded = f" {text or ' '} "  # one trigram at least, as `score` divides by their number
    return list(map("".join, zip(padded, padded[1:], padded[2:])))
