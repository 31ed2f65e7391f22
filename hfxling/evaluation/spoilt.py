"""Does a score tell a translation from a spoilt copy of it? Measures how often the copy wins or ties.

- shuffled: the words in another order. Words are what stands between white space and punctuation; in Chinese and
  Japanese single characters; in other text without spaces pieces learnt from the test text. Punctuation stays in place.
- dropped: one word left out.
- number: one digit changed to another, if the text has a number.
- negated: a word of negation put before one word: vi không, zh 不, th ไม่, lo ບໍ່, id tidak, en not.
"""

from __future__ import annotations

import random
import unicodedata
from collections.abc import Callable, Sequence

import numpy as np

from hfxling.data.codes import written_like
from hfxling.data.segment import Vocabulary, default_segmenter
from hfxling.data.texts import picked

from .averages import mean_result
from .results import EvalResult

KINDS = ("shuffled", "dropped", "number", "negated")
NEGATION = {"vi": "không", "zh": "不", "th": "ไม่", "lo": "ບໍ່", "id": "tidak", "en": "not"}
UNSPACED = ("zh", "ja", "th", "lo", "km", "my")  # languages that are written without spaces
Texts = Sequence[str]
Scores = Callable[[Texts, Texts, tuple[str, str]], np.ndarray]  # texts, translations and languages to (N,) scores


def spoilt_results(
    scores: Scores, sides: tuple[Texts, Texts], languages: tuple[str, str], *, tie: float, seed: int = 0, **about
) -> list[EvalResult]:
    """How many spoilt copies beat the translation or tie with it, in % of the sentences that can be spoilt in this way.

    Args:
        scores: function that scores texts and their translations, line by line.
        sides: texts of both languages that translate each other.
        languages: codes of both languages; both directions are measured.
        tie: scores that differ by no more than this tie, which counts as a win of the copy.
        seed: seed of the copies.
        **about: fields of `EvalResult`.
    """
    rows = []
    for pair, (source, target) in ((languages, sides), (languages[::-1], sides[::-1])):
        spoiler = Spoiler(target, pair[1], seed)
        right = scores(source, target, pair)
        for kind in KINDS:
            copies = [getattr(spoiler, kind)(text) for text in target]
            if spoilt := [i for i, copy in enumerate(copies) if copy is not None]:
                wrong = scores(*picked(spoilt, source, copies), pair)
                beaten = 100.0 * (wrong >= right[spoilt] - tie)
                rows.append(mean_result(f"{kind} copy wins", beaten, direction="->".join(pair), seed=seed, **about))
    return rows


class Spoiler:
    """Spoilt copies of sentences of one language; None if a sentence cannot be spoilt in that way.

    Args:
        lines: text to learn pieces from, if the language has no spaces between words.
        lang: code of the language.
        seed: seed of all random choices.
    """

    def __init__(self, lines: Texts, lang: str, seed: int = 0):
        self.lang, self.rng = written_like(lang), random.Random(f"{seed} {lang}")
        segmenter = default_segmenter(lang) if self.lang in UNSPACED else "words"
        self.vocabulary = Vocabulary.learn(lines, lang, segmenter=segmenter)

    def words(self, text: str) -> list[tuple[int, int]]:
        """Start and end of each word, without punctuation."""
        spans = self.vocabulary.encode(text).spans
        return [(span.start, span.end) for span in spans if any(map(str.isalnum, span.text))]

    def shuffled(self, text: str) -> str | None:
        """The text with its words in another order."""
        places = self.words(text)
        words = [text[start:end] for start, end in places]
        if len({*words}) < 2:
            return None
        order = words.copy()
        while order == words:
            self.rng.shuffle(order)
        parts = [text[: places[0][0]]]
        next_starts = [start for start, _ in places[1:]] + [len(text)]
        for word, (_, end), next_start in zip(order, places, next_starts):
            parts += [word, text[end:next_start]]  # what is between words stays in place
        return "".join(parts)

    def dropped(self, text: str) -> str | None:
        """The text without one of its words."""
        places = self.words(text)
        if len(places) < 2:
            return None
        start, end = self.rng.choice(places)
        before, after = text[:start], text[end:]
        gap = " " if before.endswith(" ") else ""
        return f"{before.rstrip(' ')}{gap}{after.lstrip(' ')}".strip()

    def number(self, text: str) -> str | None:
        """The text with one digit replaced by another of the same script."""
        places = [i for i, letter in enumerate(text) if letter.isdecimal()]
        if not places:
            return None
        place = self.rng.choice(places)
        value = unicodedata.decimal(text[place])
        other_value = self.rng.choice([digit for digit in range(10) if digit != value])
        other = chr(ord(text[place]) - value + other_value)  # the digits of a script stand in order
        return text[:place] + other + text[place + 1 :]

    def negated(self, text: str) -> str | None:
        """The text with a word of negation before one word."""
        places, word = self.words(text), NEGATION.get(self.lang)
        if not places or word is None:
            return None
        start, _ = self.rng.choice(places)
        space = "" if self.lang in UNSPACED else " "
        return text[:start] + word + space + text[start:]
