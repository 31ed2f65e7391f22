"""Which language a text is in, by its scripts, by character trigrams learned from the text at hand, and by py3langid.

No model is downloaded. The two languages of a file are told apart by what the file itself holds; py3langid (130
languages) recognises third languages that share their script. Neither is enough alone (`benchmarks/language_id.py`).
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

# Languages whose script is not Latin. Others are taken to be Latin, unless the text of a file shows otherwise.
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
# Our codes that differ from py3langid's.
_LIBRARY_CODES = {"fil": "tl", "nb": "no"}
# A text is in another language if py3langid names another one with probability SURE, or gives its own one no more than
# UNLIKELY. Of news (NTREX-128, lines 1 to 1543, 32 languages) at most .5 % is then taken for another language; of
# Portuguese in Spanish text 98 % is found, of Malay in Indonesian 31 %.
SURE = 0.8
UNLIKELY = 0.05


class _Blank(dict):
    """Table for str.translate: punctuation, symbols and control characters become spaces, invisible ones nothing."""

    def __missing__(self, code: int) -> int | None:
        letter = chr(code)
        if letter != ZERO_WIDTH_SPACE and not visible(letter):
            self[code] = None
        else:
            self[code] = 32 if unicodedata.category(letter)[0] in "PSZC" else code
        return self[code]


_BLANK = _Blank()


def split_words(text: str) -> list[str]:
    """The words of a text, which are runs of letters, marks and digits, after NFKC."""
    return unicodedata.normalize("NFKC", text).translate(_BLANK).split()


@cache
def script_of(letter: str) -> str | None:
    """The script of a letter, with both kana as one; None for other characters."""
    if unicodedata.category(letter)[0] != "L":
        return None
    script = script_name(letter)
    return "Kana" if script in ("Hiragana", "Katakana") else script


def count_scripts(text: str) -> Counter[str]:
    """Number of letters by script, in terms of Latin letters: a Han character counts 3, kana and Hangul 2."""
    counts = Counter(map(script_of, text))
    del counts[None]
    return Counter({script: count * _WEIGHT.get(script, 1) for script, count in counts.items()})


@cache
def _identifier():
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


@lru_cache(maxsize=20_000)
def is_named_otherwise(text: str, language: str) -> bool:
    """Whether py3langid is sure that a text is in another language; False for a language that it does not know.

    Cached, because texts from which faults are learnt are looked up twice there, and again when they are judged.
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
    """Probability of texts in the language of those that `count_grams` counted: trigrams, Witten-Bell smoothed."""

    def __init__(self, counts: Counter[str]):
        total = sum(count for gram, count in counts.items() if len(gram) == 1)
        kinds: Counter[str] = Counter(gram[:-1] for gram in counts)  # distinct continuations of each context
        sums: Counter[str] = Counter()
        for gram, count in counts.items():
            sums[gram[:-1]] += count
        self._counts, self._kinds, self._sums = counts, kinds, sums
        self._floor = math.log(0.5 / (total + kinds[""] + 1))
        self._table: dict[str, float] = {}  # only of grams that were needed: a text has few of those counted

    def log_probability(self, gram: str) -> float:
        """Log probability of a gram's last letter after the others."""
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
        """Mean log probability of a character, in nats; `text` is words with single spaces between them."""
        grams = _trigrams(text)
        return sum(map(self.log_probability, grams)) / len(grams)


def count_grams(texts: Iterable[str]) -> Counter[str]:
    """Counts of one to three adjacent characters in texts, which are words with single spaces between them."""
    counts: Counter[str] = Counter()
    for text in texts:
        padded = f" {text} "
        counts.update(padded)
        counts.update(map("".join, pairwise(padded)))
        counts.update(_trigrams(text))
    return counts


def _trigrams(text: str) -> list[str]:
    padded = f" {text or ' '} "  # at least one trigram, as `score` divides by their number
    return list(map("".join, zip(padded, padded[1:], padded[2:])))
