"""Word counts and the pair filter."""

import pytest
from datasets import Dataset

from hfxling.data.filters import count_words, filter_parallel


@pytest.mark.parametrize(
    ("text", "lang", "words"),
    [
        ("It's a well-known fact - isn't it ?", "en", 6),
        ("Tôi không biết .", "vi", 3),
        ("我爱吃苹果。", "zh", 5),
        ("我爱吃苹果。", "cmn", 5),
        ("我用 iPhone 15！", "zh-tw", 4),
        ("りんごを食べる", "ja", 7),
        ("ฉันชอบกินแอปเปิ้ล", "th", 4),  # ฉัน ชอบ กิน แอปเปิ้ล
        ("ຂ້ອຍມັກກິນໝາກໂປ່ມ", "lo", 4),  # ຂ້ອຍ ມັກ ກິນ ໝາກໂປ່ມ
        ("ຂ້ອຍມັກກິນໝາກໂປ່ມ", "lao", 4),
        ("ผมใช้โทรศัพท์ iPhone", "th", 4),
        ("ไป", "th", 1),
        ("", "th", 0),
        ("。！ …", "zh", 0),
        ("... _ -", "en", 0),
    ],
)
def test_count_words(text, lang, words):
    assert count_words(text, lang) == words


def dataset_of(*pairs, langs=("en", "zh")):
    columns = dict(zip(("source", "target"), zip(*pairs)))
    return Dataset.from_dict(
        {**columns, "source_lang": [langs[0]] * len(pairs), "target_lang": [langs[1]] * len(pairs)}
    )


PAIRS = [
    ("Good morning to all of you.", "各位早上好。"),
    ("Same here", "same  ＨＥＲＥ"),
    ("Good  MORNING to all of you.", "各位早上好。"),
    ("Good morning to all of you.", "大家早上好。"),
    ("No.", "不是这样的。"),
    ("No no no no no.", "不"),
    ("one two three four five six seven eight nine", "一二三四五"),
]
NONE = {"identical": 0, "too_short": 0, "too_long": 0, "duplicate": 0}


@pytest.mark.parametrize(
    ("settings", "kept", "counts"),
    [
        ({}, [0, 3, 4, 5, 6], {"identical": 1, "duplicate": 1}),
        ({"drop_duplicates": False}, [0, 2, 3, 4, 5, 6], {"identical": 1}),
        ({"drop_identical": False}, [0, 1, 3, 4, 5, 6], {"duplicate": 1}),
        ({"min_words": 5}, [0, 3, 6], {"identical": 1, "too_short": 2, "duplicate": 1}),
        ({"max_words": 8}, [0, 3, 4, 5], {"identical": 1, "too_long": 1, "duplicate": 1}),
    ],
)
def test_filter_keeps_order_and_counts_each_pair_once(settings, kept, counts):
    dataset = dataset_of(*PAIRS).add_column("n", list(range(len(PAIRS))))
    filtered, dropped = filter_parallel(dataset, **settings)
    assert [row["n"] for row in filtered] == kept
    assert dropped == {**NONE, **counts}


def test_nothing_left_is_an_empty_dataset():
    filtered, dropped = filter_parallel(dataset_of(("a", "b")), min_words=9)
    assert (len(filtered), filtered.column_names[:2], dropped["too_short"]) == (0, ["source", "target"], 1)


@pytest.mark.parametrize("limits", [{"min_words": -1}, {"min_words": 5, "max_words": 4}, {"max_words": 0}])
def test_limits_nothing_can_meet(limits):
    with pytest.raises(ValueError, match="needs 0 <= min_words <= max_words"):
        filter_parallel(dataset_of(("a", "b")), **limits)


def test_missing_column_is_named():
    with pytest.raises(ValueError, match=r"lacks \['target_lang'\]"):
        filter_parallel(dataset_of(("a", "b")).remove_columns("target_lang"))


def test_characters_that_nobody_sees_make_no_other_text():
    pairs = [
        ("Pem\u00adba\u00adngun\u00adan ini.", "这个"),
        ("\ufeffPembangunan ini.", "这\u2060个"),
        ("这个", "这\u200b个"),
    ]
    filtered, dropped = filter_parallel(dataset_of(*pairs))
    assert filtered["source"] == [pairs[0][0]]
    assert dropped == NONE | {"duplicate": 1, "identical": 1}
