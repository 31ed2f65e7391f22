"""Which language a text is in: scripts, character trigrams learned from text at hand, and common words of 43 languages.

No model is downloaded. Two languages of one file tell each other apart by what the file itself holds; the common words
below recognise third languages that share their script.
"""

from __future__ import annotations

import math
import unicodedata
from collections import Counter
from collections.abc import Iterable
from functools import cache
from itertools import pairwise

from .coverage import script_name

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
    "Han": "cmn wuu yue zh",
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
SCRIPT_OF = {language: script for script, languages in SCRIPTS.items() for language in languages.split()}
UNSPACED = {"Han", "Kana", "Khmer", "Lao", "Myanmar", "Thai", "Tibetan"}
# A Han character stands for about three Latin letters.
_WEIGHT = {"Han": 3, "Kana": 2, "Hangul": 2}
# Frequent words that few other languages have, of languages that share a script with many others.
_COMMON_WORDS = """
af die het nie van was vir hulle deur ook maar sy ons word kan moet wat is om te
ca els les amb per una que del dels aquest ha més són també però com va ser seva entre
cs se na je že to jsou jako ale byl která pro jeho nebo podle také už který jsme bylo od
da og det er en af til på som ikke den med har var blev han efter også fra kan
de der die und das ist nicht den mit ein eine für auf von dem sich wird auch werden hat wurde
en the of and to in is that was for with his are this which from were they have had been
es el la los las que una por con para del como más pero fue sus está son se también
et ja on ei oli et see ta kui mis aga oma ka või nad kes pärast tema selle mida
eu eta da bat ez du izan zen dira baina hau egin ere dute baino zuen bere dela duen
fi ja on ei oli että hän se ovat mutta kun joka myös kuin sen olla ole mukaan jonka sekä
fil ang ng mga sa na at ay si kay para hindi ito niya ni siya nang mula kanyang noong upang
fr le la les des est une dans que qui pour pas sur avec plus sont par ce été cette il
hr je se na da su za koji nije kao od ali ili bio je koja iz će također nakon samo
hu az és hogy nem egy is van volt meg csak mint ez de vagy még már azt szerint után amely
id yang dan di untuk dengan dari ini itu tidak pada adalah akan telah oleh dalam bahwa juga sebagai ke mereka
it il che di la per non una con sono del della gli alla nel più anche ha come dei è
lt ir kad yra su buvo iš tai jis bet apie kaip už po ne savo nuo dėl jo tik taip
lv un ir ka no ar par bija kas uz tas arī viņš pēc bet kā lai tika tiek savu vai
ms yang dan di untuk dengan daripada ini itu tidak pada adalah akan telah oleh dalam bahawa juga sebagai ialah mereka
nb og det er en av til på som ikke den med har var ble han etter også fra kan
nl de het een van en is dat niet zijn voor met op aan werd ook maar hij door naar bij
pl się nie na że jest do to jak od po przez ale oraz był tym które jego dla został ich
pt o os que não uma com para por dos da do em mais ao foi são como na mas pelo
ro și de la în nu cu pe care din este pentru mai sunt fost un lui prin sau că într
sk sa na je že to sú ako ale bol ktorá pre jeho alebo podľa tiež už ktorý sme bolo od
sl je se na da so za ki ni kot od ali bil iz bo tudi po samo pri pa njegov
sq të dhe në për një me është nga që u më si ka do janë ishte tij këtë nuk
sv och det är en av till på som inte den med har var han efter också från att ett om
sw ya na wa kwa ni katika la za kuwa hii baada alisema lakini cha yake huo kama watu hiyo pia
tr ve bir bu için ile olarak olan daha çok gibi da de kadar sonra ancak değil oldu ne var onun
vi là của và các có được cho không trong một những với người đã này từ đến khi để cũng
be і не на што з у як да гэта для быў ад яго але па ён ці
bg на и да се за от не са по че като които беше той това със има след
mk на и да се за од не во е што со беше тој кои како дека
ru и в не на что с он по как это из его но был к для от
sr је и у на да се за од су не који са као што би али
uk і не на що з у та як до це для від його але був за він
ar في من على أن إلى التي الذي عن هذا مع كان هذه لم قد ما بعد لا كما
fa در به از که این است را با برای بود شد یک آن می تا کرد هم او شده
ur کے میں کی سے اور کا ہے نے کو پر ہیں کہ یہ تھا وہ اس نہیں کر بھی
hi के में की है और से को का ने पर कि यह हैं नहीं था भी एक लिए इस वह
mr आणि आहे या ते होते नाही हे तो मध्ये की असे त्या च्या होता केली आहेत साठी
ne र को मा छ हो पनि लाई ले भएको थियो छन् यो गर्न का गरेको तथा उनी एक भने
"""


class _Blank(dict):
    """A table for str.translate that turns punctuation, symbols and invisible characters into spaces."""

    def __missing__(self, code: int) -> int:
        self[code] = 32 if unicodedata.category(chr(code))[0] in "PSZC" else code
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
def common_words() -> dict[str, frozenset[str]]:
    """Frequent words of languages that share a script with others, by language code."""
    words_of = {}
    for line in _COMMON_WORDS.strip().split("\n"):
        code, *words = line.split()
        words_of[code] = frozenset(words)
    return words_of


class TrigramProfile:
    """How likely texts are in the language of those that `count_grams` counted: trigrams, Witten-Bell smoothed."""

    def __init__(self, counts: Counter[str]):
        total = sum(count for gram, count in counts.items() if len(gram) == 1)
        kinds: Counter[str] = Counter(gram[:-1] for gram in counts)  # distinct continuations of each context
        sums: Counter[str] = Counter()
        for gram, count in counts.items():
            sums[gram[:-1]] += count
        self._floor = math.log(0.5 / (total + kinds[""] + 1))
        self._backoff = {context: math.log(kinds[context] / (kinds[context] + sums[context])) for context in kinds}
        self._table: dict[str, float] = {}
        for gram in sorted(counts, key=len):
            context = gram[:-1]
            lower = math.exp(self._log(gram[1:])) if context else 1 / (kinds[""] + 1)
            self._table[gram] = math.log((counts[gram] + kinds[context] * lower) / (sums[context] + kinds[context]))

    def _log(self, gram: str) -> float:
        stored = self._table.get(gram)
        if stored is not None:
            return stored
        return self._backoff.get(gram[:-1], 0.0) + self._log(gram[1:]) if gram else self._floor

    def score(self, text: str) -> float:
        """Mean log probability of a character, in nats; `text` in words with single spaces between them."""
        grams = _trigrams(text)
        return sum(map(self._log, grams)) / len(grams)


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
    padded = f" {text or ' '} "
    return list(map("".join, zip(padded, padded[1:], padded[2:])))
