"""Differences between the sides of a pair: numbers, and markup left over from a web page."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from html.entities import html5

_NUMBER = re.compile(r"\d{2,}")
# 1,000 and 1.000, 7:55 and 7.55. White space counts only before groups of three, else it stands between two numbers.
_BETWEEN_DIGITS = re.compile(r"(?<=\d)[.,:](?=\d)|(?<=\d)\s(?=\d{3}(?!\d))")
_BUDDHIST_ERA = 543  # years by which it is ahead of ours, as counted in Thailand and Laos
_BUDDHIST_YEARS = range(2443, 2644)  # 1900 to 2100
_TAG = re.compile(r"</?[a-z][a-z0-9]*(?:\s[^<>]*=[^<>]*)?\s*/?>", re.IGNORECASE)  # an attribute has a value
_ENTITY = re.compile(r"&(?:#\d+|#x[0-9a-f]+|([a-z][a-z0-9]*));", re.IGNORECASE)


def numbers_differ(source: str, target: str) -> bool:
    """Whether each side has a number of two digits or more that the other one lacks.

    Zeros do not count, so 1.5 million equals 150万. Digits of all scripts are equal, and a year of the Buddhist era
    equals the same year of ours. A number spelt out on one side is no difference, because then only the other side has
    a number. Good translations seldom differ; if they do, it is by units, clocks and decades.

    Example:
        >>> numbers_differ("他 19 岁。", "Anh ấy 94 tuổi.")
        True
    """
    of_source, of_target = _numbers(source), _numbers(target)
    return bool(of_source - of_target) and bool(of_target - of_source)


def _numbers(text: str) -> Counter[str]:
    """Counts of the numbers, written without their zeros."""
    joined = _BETWEEN_DIGITS.sub("", unicodedata.normalize("NFKC", text))
    counts: Counter[str] = Counter()
    for number in _NUMBER.findall(joined):
        digits = "".join(str(unicodedata.decimal(digit)) for digit in number)
        if len(digits) == 4 and int(digits) in _BUDDHIST_YEARS:
            digits = str(int(digits) - _BUDDHIST_ERA)
        counts[digits.replace("0", "")] += 1
    return counts


def markup_differs(source: str, target: str) -> bool:
    """Whether one side has HTML tags or entities, and the other has neither.

    Text whose tags were kept on purpose has them on both sides, so it is not flagged.

    Example:
        >>> markup_differs("他来了。", "<p>Anh ấy đã đến.</p>")
        True
        >>> markup_differs("我 <b>爱</b> 你", "Tôi <b>yêu</b> bạn")
        False
    """
    return _has_markup(source) != _has_markup(target)


def _has_markup(text: str) -> bool:
    if _TAG.search(text):
        return True
    for entity in _ENTITY.finditer(text):
        name = entity[1]
        if name is None or f"{name};" in html5:
            return True
    return False
