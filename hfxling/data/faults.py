"""Flags for translation errors that hardly change the cosine of two embeddings.

A `FaultFinder` learns from the file that it judges: what the languages look like, how long a translation is compared
with its source, and how sentences end. Wrong rows in that file do little harm, because rows that stand out are put
aside before it learns from the rest again, and no text is judged by a profile that has seen it.
"""

from __future__ import annotations

import math
import random
import re
import unicodedata
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from statistics import median
from typing import Literal, get_args

from .codes import base_code, written_like
from .langid import (
    SCRIPT_OF,
    UNSPACED,
    TrigramProfile,
    count_grams,
    count_scripts,
    is_named_otherwise,
    script_of,
    split_words,
)
from .loops import largest_loop
from .sample import LANGUAGES, sample_texts

Flag = Literal["empty", "copy", "wrong_language", "truncated", "too_long", "repeated"]
FLAGS = get_args(Flag)
SAMPLE = 5_000  # pairs that a finder learns from
_LEAST = 100  # fewest sound pairs from which anything is learned
_LEAST_LONG = 10  # fewest of these whose target is not short
_SHORT = 8  # letters of a target too short to show its language
_FOLDS = 4
_ROUNDS = 2
_LEAST_LETTERS = 8  # the language of shorter texts is uncertain
# The limits were chosen on MLQE dev and NTREX 1090-1543, to flag fewer than 1 % of the good translations in all.
MAX_COPIED = 0.6  # share of the source's characters
MIN_SCRIPT_SHARE = 0.5  # share of the letters in a script of the target language
MAX_OTHER_SCRIPT = 0.2  # share of the letters in a third script; Latin names are no error in any language
MAX_LANGUAGE_DEVIATION = 5.5  # robust standard deviations of the mean log probability of a trigram
MAX_SOURCE_GAIN = 5.0  # nats by which a text is likelier in the source's language
MIN_CUT_EVIDENCE = 2.0  # nats
MAX_LENGTH_DEVIATION = 4.5
_SHARES_LEFT = [0.1 + 0.05 * i for i in range(15)]  # shares of a translation that a cut leaves, all equally likely
_FIRST_WIDE = "\u2e80"  # Han, kana and Hangul come after it, narrow scripts before
_DIGITS = re.compile(r"\d+")
_NUMBER = re.compile(r"\d+(?:[.,]\d{3})*")
_CLOSING_QUOTES = "\"'”’»›」』)]）】〉》*"


class Side:
    """A text, and what is derived from it and needed more than once."""

    def __init__(self, text: str):
        self.text = text
        words = split_words(text)
        content = [word.casefold() for word in words if not word[0].isupper()]  # mostly no names
        self.plain = " ".join(_DIGITS.sub(" ", " ".join(content)).split())  # the part that shows the language
        # Words in small letters; single characters in scripts without spaces.
        self.tokens, self.content = _tokens(map(str.casefold, words)), _tokens(content)
        self.length = sum(map(visible_size, self.tokens))

    @cached_property
    def numbers(self) -> set[int | str]:
        """Values of the numbers; very long ones as their digits."""
        numbers: set[int | str] = set()
        for number in _NUMBER.findall(self.text):
            digits = re.sub(r"\D", "", number)
            # As int, digits of all scripts are equal. int refuses very long ones (sys.get_int_max_str_digits).
            numbers.add(int(digits) if len(digits) < 1000 else digits)
        return numbers


class FaultFinder:
    """Judges the pairs of one file. `FaultFinder.fit` makes one; without it only what holds for any file is known."""

    def __init__(self, source_lang: str, target_lang: str):
        self._languages = (source_lang, target_lang)
        base = written_like(target_lang)
        self._scripts = {SCRIPT_OF.get(base, "Latin")} | ({"Han"} if base == "ja" else set())
        self.language: _LanguageModel | None = None
        self._length = _CutModel()

    @classmethod
    def fit(cls, pairs: Iterable[tuple[str, str]], source_lang: str, target_lang: str, *, seed: int = 0) -> FaultFinder:
        """Learn from `SAMPLE` pairs drawn from all, or from all if they are fewer.

        With fewer than `_LEAST` sound pairs the embedded corpus is used in addition if it has both languages; otherwise
        only scripts, py3langid, copies, loops, extreme lengths and missing final marks are judged.

        The pairs are source and target texts, most of them good. They are read once, and only the sample is kept. From
        pairs of the same form only one is used; if hardly any others are left, nothing is learnt.
        """
        finder = cls(source_lang, target_lang)
        sides = _readable(draw_sample(pairs, seed))
        pair = base_code(source_lang), base_code(target_lang)
        if len(sides) < _LEAST and {*pair} <= {*LANGUAGES}:
            sides += _readable(zip(*(sample_texts(language, generated=0) for language in pair)))
        sides = _unlike([pair for pair in sides if not _is_copy(*pair) and not _is_looped(*pair)])
        # The first round has limits for any two languages; from what it accepts, the second one learns closer limits.
        for _ in range(_ROUNDS):
            sound = [pair for pair in sides if not any(finder._stands_out(*pair))]
            long = [target for _, target in sound if len(target.plain) > _SHORT]
            if len(sound) < _LEAST or len(long) < _LEAST_LONG:
                break
            finder._length = _CutModel(sound)
            finder.language = _LanguageModel(sound)
        return finder

    def flags(self, source: str, target: str) -> tuple[str, ...]:
        """The names of a translation's faults, in the order of `FLAGS`; () for a sound one."""
        sides = Side(source), Side(target)
        if not sides[0].tokens or not sides[1].tokens:
            # If neither side has a word, signs against signs ("…") are a translation.
            is_empty = not target.strip() or sides[0].tokens
            return ("empty",) if is_empty else ()
        faults = _is_copy(*sides), *self._stands_out(*sides), _is_looped(*sides)
        return tuple(name for name, is_wrong in zip(FLAGS[1:], faults) if is_wrong)

    def is_foreign(self, text: str) -> bool:
        """Whether a text, judged by itself, is not in the target language: the flag `wrong_language`."""
        return self._is_foreign(Side(text))

    def _stands_out(self, source: Side, target: Side) -> tuple[bool, bool, bool]:
        """Faults that can be seen after learning: whether a translation is in another language, cut, or too long."""
        is_cut, is_too_long = self._length.is_cut(source, target), self._length.is_too_long(source, target)
        return self._is_foreign(target), is_cut, is_too_long

    def _is_foreign(self, target: Side) -> bool:
        scripts = count_scripts(target.plain)
        letters = scripts.total()
        if letters < _LEAST_LETTERS:
            return False
        native = sum(scripts[script] for script in self._scripts)
        # Names and terms in Latin script occur in text of any language.
        others = letters - sum(scripts[script] for script in {*self._scripts, "Latin"})
        if native < MIN_SCRIPT_SHARE * letters or others > MAX_OTHER_SCRIPT * letters:
            return True
        if is_named_otherwise(target.text, self._languages[1]):
            return True
        return self.language is not None and self.language.is_foreign(target)


def draw_sample(pairs: Iterable[tuple[str, str]], seed: int) -> list[tuple[str, str]]:
    """Reservoir sampling: every pair has the same chance, whatever the number of pairs."""
    rng = random.Random(seed)
    reservoir = []
    for count, pair in enumerate(pairs):
        if count < SAMPLE:
            reservoir.append(pair)
            continue
        slot = rng.randrange(count + 1)
        if slot < SAMPLE:
            reservoir[slot] = pair
    return reservoir


def _readable(pairs: Iterable[tuple[str, str]]) -> list[tuple[Side, Side]]:
    readable = []
    for source, target in pairs:
        sides = Side(source), Side(target)
        if sides[0].tokens and sides[1].tokens:
            readable.append(sides)
    return readable


def _unlike(pairs: Iterable[tuple[Side, Side]]) -> list[tuple[Side, Side]]:
    """The pairs without those whose translation begins or ends like another one for half its length.

    There may be so many lines of one form ("Order 123 is on its way", "Order 124 ...") that all other text would seem
    foreign beside them.
    """
    left = list(pairs)
    for step in (1, -1):  # from the beginning, and from the end
        earlier, unlike = "", []
        for pair in sorted(left, key=lambda pair: pair[1].plain[::step]):
            text = pair[1].plain[::step]
            half = text[: math.ceil(len(text) / 2)]
            if not earlier.startswith(half):
                unlike.append(pair)
                earlier = text
        left = unlike
    return left


@lru_cache(maxsize=100_000)
def visible_size(token: str) -> int:
    """Number of characters, where a wide one (Han, kana, Hangul) counts as three."""
    if max(token) < _FIRST_WIDE:  # true of nearly all
        return len(token)
    return sum(3 if letter >= _FIRST_WIDE else 1 for letter in token)


def _tokens(words: Iterable[str]) -> list[str]:
    """The words, but in a script without spaces, where "words" are whole phrases, the single characters."""
    tokens: list[str] = []
    for word in words:
        if {script_of(word[0]), script_of(word[-1])} & UNSPACED:
            tokens.extend(word)
        else:
            tokens.append(word)
    return tokens


def _is_copy(source: Side, target: Side) -> bool:
    """Whether most of the source, apart from names and numbers, stands untranslated in the translation."""
    if source.tokens == target.tokens and sum(not token.isdigit() for token in source.tokens) >= 4:
        return True
    wanted = _units(source.content)
    if len(wanted) < 3:
        return False
    shared = Counter(wanted) & Counter(_units(target.tokens))
    return sum(len(unit) * count for unit, count in shared.items()) > MAX_COPIED * sum(map(len, wanted))


def _units(tokens: Sequence[str]) -> list[str]:
    """Words other than numbers, and trigrams of the single characters."""
    units, letters = [], []
    for token in tokens:
        if len(token) == 1:
            letters.append(token)
        elif not token.isdigit():
            units.append(token)
    return units + list(map("".join, zip(letters, letters[1:], letters[2:])))


def _is_looped(source: Side, target: Side) -> bool:
    """Whether a translation repeats itself, and much more so than its source."""
    copies, size = largest_loop(target.tokens, visible_size)
    if not ((copies >= 4 and size >= 3) or (copies >= 3 and size >= 4) or size >= 15):
        return False
    source_size = largest_loop(source.tokens, visible_size)[1]
    return source_size < 2 or size > 3 * source_size


class _LanguageModel:
    """Profiles of the target side, each learned from three quarters of it, and one of the source side."""

    def __init__(self, pairs: Sequence[tuple[Side, Side]]):
        sources = [source.plain for source, _ in pairs]
        targets = [target for _, target in pairs]
        folds: list[list[str]] = [[] for _ in range(_FOLDS)]
        for target in targets:
            folds[_fold(target)].append(target.plain)
        counts = [count_grams(texts) for texts in folds]
        total = sum(counts, Counter())
        self._profiles = [TrigramProfile(total - count) for count in counts]  # each from all folds but its own
        self._source = TrigramProfile(count_grams(sources))
        long = [target for target in targets if len(target.plain) > _SHORT]
        self._scale = _Scale.fit([(self.score(target), len(target.plain)) for target in long])

    def score(self, side: Side) -> float:
        """How likely a text is in the target language, by a profile that has not seen it."""
        return self._profiles[_fold(side)].score(side.plain)

    def is_foreign(self, target: Side) -> bool:
        """Whether the text stands out, or is likelier in the source's language."""
        score, size = self.score(target), len(target.plain)
        deviation = -self._scale.deviation(score, size)
        gain = (self._source.score(target.plain) - score) * size
        return deviation > MAX_LANGUAGE_DEVIATION or gain > MAX_SOURCE_GAIN


def _fold(side: Side) -> int:
    """The fold of a text, by its content, so that all its repetitions are judged by a profile that has seen none."""
    return zlib.crc32(side.plain.encode()) % _FOLDS


@dataclass(frozen=True)
class _Scale:
    """A robust mean, and a variance that falls with the length n as `fixed` + `falling` / n."""

    center: float
    fixed: float
    falling: float

    @classmethod
    def fit(cls, items: Sequence[tuple[float, int]]) -> _Scale:
        """From values and lengths; the variance's line goes through a point for short and a point for long texts."""
        center = median(value for value, _ in items)
        items = sorted(items, key=lambda item: item[1])
        half = len(items) // 2
        points = []
        for part in (items[:half], items[half:]):
            # For a normal distribution, the median of absolute deviations times this is the standard deviation.
            spread = 1.4826 * median(abs(value - center) for value, _ in part)
            points.append((median(1 / n for _, n in part), spread**2))
        (x1, y1), (x2, y2) = points
        falling = max(0.0, (y1 - y2) / (x1 - x2)) if x1 > x2 else 0.0
        fixed = y2 - falling * x2
        if fixed < 0:  # a variance would be negative for long texts: take a line through the origin instead
            fixed, falling = 0.0, (y1 + y2) / (x1 + x2)
        return cls(center, max(fixed, 1e-4), falling)

    def deviation(self, value: float, n: int) -> float:
        return (value - self.center) / self.spread(n)

    def spread(self, n: int) -> float:
        return math.sqrt(self.fixed + self.falling / max(n, 1))


class _CutModel:
    """Tells cut translations from whole ones by their length, final mark, last word and numbers.

    Naive Bayes: the likelihood ratios of the four, cut against whole, are multiplied.

    Args:
        pairs: pairs to learn from; without any, the values are wide enough for any two languages.
    """

    def __init__(self, pairs: Sequence[tuple[Side, Side]] = ()):
        self.scale = _ANY_LANGUAGES
        if pairs:
            self.scale = _Scale.fit([(_ratio(source, target), source.length) for source, target in pairs])
        # Only pairs of ordinary length, or it would learn from cut translations what a whole one looks like.
        typical = [pair for pair in pairs if abs(self._deviation(*pair)) < 1.5]
        # All counts begin with 1 in 4, so that no share is 0 or 1. Ends are counted by whether the source has a mark.
        unmarked, ends = {False: 1, True: 1}, {False: 4, True: 4}
        missing_numbers, numbers = 1, 4
        for source, target in typical:
            is_source_marked = ends_marked(source.text)
            ends[is_source_marked] += 1
            if not ends_marked(target.text):
                unmarked[is_source_marked] += 1
            numbers += len(source.numbers)
            missing_numbers += len(source.numbers - target.numbers)
        self.unmarked = {is_marked: unmarked[is_marked] / ends[is_marked] for is_marked in ends}
        self.missing = missing_numbers / numbers
        self.last: Counter[str] = Counter()
        self.words: Counter[str] = Counter()
        for _, target in typical:
            self.last[target.tokens[-1]] += 1
            self.words.update(target.tokens)
        self.ends_per_word = len(typical) / max(self.words.total(), 1)

    def _deviation(self, source: Side, target: Side) -> float:
        return self.scale.deviation(_ratio(source, target), source.length)

    def is_cut(self, source: Side, target: Side) -> bool:
        """Whether a cut explains the pair much better than no cut."""
        deviation = self._deviation(source, target)
        if deviation > 0:
            return False
        spread = self.scale.spread(source.length)
        # If only a share of a translation is left, the log ratio of lengths changes by the log of that share.
        cut_density = sum(_density(deviation - math.log(share) / spread) for share in _SHARES_LEFT) / len(_SHARES_LEFT)
        length = cut_density / _density(deviation)
        # Assumed: 6 in 10 cut translations end without a mark, and a cut one lacks each number with probability 1/2.
        unmarked = self.unmarked[ends_marked(source.text)]
        ending = 0.4 / (1 - unmarked) if ends_marked(target.text) else 0.6 / unmarked
        # A frequent word that is hardly ever the last one ("the") speaks for a cut.
        expected = self.words[target.tokens[-1]] * self.ends_per_word
        last = (expected + 1) / (self.last[target.tokens[-1]] + 1)
        missing = len(source.numbers - target.numbers)
        present = len(source.numbers) - missing
        # Logarithms, because a row of a table may have hundreds of numbers.
        numbers = missing * math.log(0.5 / self.missing) + present * math.log(0.5 / (1 - self.missing))
        return math.log(length * ending * last) + numbers > MIN_CUT_EVIDENCE

    def is_too_long(self, source: Side, target: Side) -> bool:
        """Whether the translation is longer than any good one."""
        return self._deviation(source, target) > MAX_LENGTH_DEVIATION


# Characters as `visible_size` counts them differ by less than a factor of two between any two languages of NTREX.
_ANY_LANGUAGES = _Scale(0.0, 0.12, 3.0)


def _ratio(source: Side, target: Side) -> float:
    return math.log(target.length / source.length)


def _density(deviation: float) -> float:
    """Student's t with 5 degrees of freedom, up to a constant; its tails allow for the rare free translation."""
    return (1 + deviation * deviation / 5) ** -3


def ends_marked(text: str) -> bool:
    """Whether a text ends with a mark that can end a sentence, inside or outside quotes."""
    text = text.rstrip()
    body = text.rstrip(_CLOSING_QUOTES).rstrip()
    if not body:
        return False
    category = unicodedata.category(body[-1])
    if body != text and category[0] in "LMN":  # a closing quote is itself such a mark
        return True
    return category == "Po" and body[-1] not in ",،、，/&@#%*"
