"""Numbers of a source and of its translation."""

import pytest

from hfxling.data.numbers import numbers_differ


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
        ("9" * 9_000, "8" * 9_000, True),
        ("", "", False),
    ],
)
def test_numbers(source, target, differ):
    assert numbers_differ(source, target) is differ
    assert numbers_differ(target, source) is differ
