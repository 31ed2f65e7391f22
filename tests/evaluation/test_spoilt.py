"""Spoilt copies: each differs from the sentence as it says, and only so; their wins are counted."""

from collections import Counter

import numpy as np
import pytest

from hfxling.evaluation.spoilt import NEGATION, Spoiler, spoilt_results

LINES = {
    "vi": ["Hôm nay, trời mưa 25 phút.", "Tôi thích mèo."],
    "zh": ["今天下雨25分钟。", "我喜欢猫。"],
    "lo": ["ມື້ນີ້ຝົນຕົກ 25 ນາທີ.", "ຂ້ອຍມັກແມວ."],
}


@pytest.mark.parametrize("lang", LINES)
def test_copies(lang):
    lines = LINES[lang]
    spoiler = Spoiler(lines, lang)
    for line in lines:
        shuffled, dropped, negated = (getattr(spoiler, kind)(line) for kind in ("shuffled", "dropped", "negated"))
        assert shuffled != line
        assert Counter(shuffled) == Counter(line)
        assert shuffled[-1] == dropped[-1] == negated[-1] == line[-1]
        gone = Counter(line) - Counter(dropped)
        assert not Counter(dropped) - Counter(line)
        assert gone
        word = NEGATION[lang]
        assert negated.count(word) == line.count(word) + 1
        assert negated.replace(word + " " * (lang == "vi"), "", 1) == line
    numbers = spoiler.number(lines[0])
    assert len(numbers) == len(lines[0])
    assert sum(one != other for one, other in zip(numbers, lines[0])) == 1
    assert spoiler.number(lines[1]) is None


def test_words_keep_their_gaps():
    spoiler = Spoiler(LINES["vi"], "vi")
    assert [spoiler.words("Ai, đó?")[i] for i in (0, 1)] == [(0, 2), (4, 6)]
    assert spoiler.shuffled("Ai, đó?") == "đó, Ai?"
    assert spoiler.dropped("Ai, đó?") in (", đó?", "Ai, ?")
    assert spoiler.shuffled("Ai?") is spoiler.dropped("Ai?") is None


def test_digits_stay_in_their_script():
    thai, wide = (
        Spoiler(["ราคา ๒๕ บาท"], "th").number("ราคา ๒๕ บาท"),
        Spoiler(["他有２５岁"], "zh").number("他有２５岁"),
    )
    for text, spoilt, first, last in (("ราคา ๒๕ บาท", thai, "๐", "๙"), ("他有２５岁", wide, "０", "９")):
        (changed,) = [(old, new) for old, new in zip(text, spoilt, strict=True) if old != new]
        assert all(first <= digit <= last for digit in changed)


def test_what_cannot_be_spoilt_is_left_out():
    spoiler = Spoiler(["de kat"], "nl")
    assert spoiler.negated("de kat") is None  # no word of negation is known
    assert spoiler.number("de kat") is None


def test_ties_are_misses():
    """A system that counts letters cannot tell a shuffled copy from the translation, and likes nothing shorter."""

    def size(source, target, languages):
        return np.array([float(len(text)) for text in target])

    rows = spoilt_results(size, (LINES["zh"], LINES["vi"]), ("zh", "vi"), tie=1e-6, seed=3, dataset="x", split="test")
    found = {(row.metric, row.direction): (row.value, row.n) for row in rows}
    assert found["shuffled copy wins", "zh->vi"] == found["negated copy wins", "vi->zh"] == (100.0, 2)
    assert found["dropped copy wins", "zh->vi"] == (0.0, 2)
    assert found["number copy wins", "vi->zh"] == (100.0, 1)
    assert {row.seed for row in rows} == {3}
