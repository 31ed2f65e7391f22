"""Numbers and markup of a source and of its translation."""

import pytest

from hfxling.data.differences import markup_differs, numbers_differ


@pytest.mark.parametrize(
    ("source", "target", "differ"),
    [
        ("他 19 岁。", "Anh ấy 94 tuổi.", True),
        ("他 19 岁。", "Anh ấy 19 tuổi.", False),
        ("1.5 million", "150万", False),
        ("1,000,000 people", "1.000.000 orang", False),
        ("at 7:55", "lúc 7.55", False),
        ("ປີ ໒໐໑໒", "2012年", False),
        ("ปี ๒๕๖๑", "2018年", False),  # the same year in the Thai calendar
        ("ปี ๒๕๖๑", "2019年", True),
        ("nineteen", "19", False),  # spelt out
        ("3 dogs", "4 dogs", False),  # one digit is often a word on the other side
        ("12 of 12", "12", False),
        ("12 or 13", "12", False),
        ("12 or 13", "12 or 14", True),
        (
            "On 5 May 2010 12 people died.",
            "2010年5月5日，12人死亡。",
            False,
        ),  # two numbers, though only space is between
        ("1 000 000 hommes", "1.000.000 orang", False),
        ("9" * 9_000, "8" * 9_000, True),
        ("", "", False),
    ],
)
def test_numbers(source, target, differ):
    assert numbers_differ(source, target) is differ
    assert numbers_differ(target, source) is differ


@pytest.mark.parametrize(
    "text",
    [
        "<p>Xin chào</p>",
        'Xin <a href="/vi/chao">chào</a>',
        "Xin<br/>chào",
        '<seg id="1">Xin chào',
        "Xin <unk> chào",
        "Xin&nbsp;chào",
        "&quot;Xin chào&QUOT;",
        "Xin chào&#8230;",
        "Xin chào&#x2026;",
    ],
)
def test_markup_on_one_side(text):
    assert markup_differs("你好", text)
    assert markup_differs(text, "你好")
    assert not markup_differs("<b>你好</b>", text)


@pytest.mark.parametrize(
    "text",
    ["a < b và c > d", "x <y và z> w", "tôi <3 bạn", "AT&T; R&D; &nosuch;", "5 & 6; 7", "<<Báo>> <Báo Nhân dân>", ""],
)
def test_what_is_no_markup(text):
    assert not markup_differs("你好", text)
