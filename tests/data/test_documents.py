"""Paragraphs of consecutive pairs: in order, in step on both sides, within the range of words."""

import pytest
from datasets import Dataset

from hfxling.data.documents import join_paragraphs


def pairs(lengths, source_lang="en", target_lang="vi"):
    """Pair i has lengths[i] words on the target side, all of them "t<i>", and one word "s<i>." on the source side."""
    rows = [
        {"source": f"s{i}.", "target": " ".join([f"t{i}"] * n), "source_lang": source_lang, "target_lang": target_lang}
        for i, n in enumerate(lengths)
    ]
    return Dataset.from_list(rows)


@pytest.mark.parametrize(
    ("lengths", "sources"),
    [
        ([5, 5, 5, 5], ["s0. s1.", "s2. s3."]),  # until there are enough
        ([5, 5, 5, 4], ["s0. s1."]),  # what is left over is too short
        ([9, 5, 5], ["s1. s2."]),  # the second would carry the first past the most
        ([13, 10], ["s1."]),  # too long alone
        ([5, 13, 5, 7], ["s2. s3."]),
        ([12, 10, 2, 9], ["s0.", "s1.", "s2. s3."]),
    ],
)
def test_groups(lengths, sources):
    found = join_paragraphs(pairs(lengths), min_words=10, max_words=12)
    assert found["source"] == sources
    for row in found:
        numbers = [word.strip("s.") for word in row["source"].split()]
        assert row["target"] == " ".join(" ".join([f"t{i}"] * lengths[int(i)]) for i in numbers)
        assert (row["source_lang"], row["target_lang"]) == ("en", "vi")


def test_the_papers_range_is_the_default():
    assert join_paragraphs(pairs([10] * 7))["source"] == ["s0. s1. s2.", "s3. s4. s5."]


@pytest.mark.parametrize(
    ("lang", "sentences", "joined"),
    [
        ("zh", ["我爱吃苹果。", "你好。"], "我爱吃苹果。你好。"),
        ("zh-tw", ["我愛吃蘋果。", "你好。"], "我愛吃蘋果。你好。"),
        ("th", ["ฉันกินข้าว", "ฝนตก"], "ฉันกินข้าว ฝนตก"),
        ("vi", ["Tôi ăn táo.", "Chào."], "Tôi ăn táo. Chào."),
    ],
)
def test_sentences_meet_as_their_script_asks(lang, sentences, joined):
    rows = [{"source": s, "target": "a b", "source_lang": lang, "target_lang": "en"} for s in sentences]
    assert join_paragraphs(Dataset.from_list(rows), 4, 4)["source"] == [joined]


def test_chinese_words_are_counted_by_character():
    rows = [{"source": "a", "target": "你好吗", "source_lang": "en", "target_lang": "zh"}] * 4
    assert join_paragraphs(Dataset.from_list(rows), 6, 6)["target"] == ["你好吗你好吗"] * 2


def test_no_paragraph_at_all():
    with pytest.raises(ValueError, match="3 pairs give no paragraph of 30 to 50 words"):
        join_paragraphs(pairs([5, 5, 5]))
