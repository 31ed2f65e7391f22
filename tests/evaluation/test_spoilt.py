"""Spoilt copies: what they change, and how their wins are counted."""

import numpy as np
import pytest

from hfxling.evaluation.spoilt import KINDS, Spoiler, spoilt_results

LINES = ["Anh ấy mua 20 quả táo.", "Hôm nay trời mưa to.", "Được!"]


@pytest.fixture
def spoiler():
    return Spoiler(LINES, "vi", seed=3)


def test_every_copy_differs_in_one_way(spoiler):
    line, words = LINES[0], ["Anh", "ấy", "mua", "20", "quả", "táo"]
    shuffled = spoiler.shuffled(line)
    assert shuffled != line
    assert sorted(shuffled[:-1].split()) == sorted(words)
    assert shuffled.endswith(".")
    kept = spoiler.dropped(line)[:-1].split()
    assert len(kept) == 5
    assert set(kept) < set(words)
    changed = spoiler.number(line)
    assert sum(a != b for a, b in zip(changed, line, strict=True)) == 1
    assert changed.replace(changed.split()[3], "20") == line
    assert spoiler.negated(line).replace("không ", "") == line


def test_what_cannot_be_spoilt_is_left_out(spoiler):
    assert spoiler.shuffled(LINES[2]) is None
    assert spoiler.dropped(LINES[2]) is None
    assert spoiler.number(LINES[1]) is None
    assert Spoiler(["de kat"], "nl").negated("de kat") is None  # no word of negation is known


def test_ties_count_as_wins_of_the_copy():
    def by_length(source, target, languages):
        return np.array([float(len(text)) for text in target])

    rows = {
        (row.metric, row.direction): row
        for row in spoilt_results(by_length, (LINES, LINES), ("vi", "id"), tie=0.5, dataset="x", split="test")
    }
    assert {metric for metric, _ in rows} == {f"{kind} copy wins" for kind in KINDS}
    row = rows["shuffled copy wins", "vi->id"]
    assert (row.value, row.n, row.seed) == (100.0, 2, 0)
    assert rows["dropped copy wins", "id->vi"].value == 0.0
    assert rows["negated copy wins", "vi->id"].value == 100.0
