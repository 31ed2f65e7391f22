"""Whether one side of a pair has markup that the other one lacks: what is left of the page that it was taken from."""

from __future__ import annotations

import re
from html.entities import html5

_TAG = re.compile(r"</?[a-z][a-z0-9]*(?:\s[^<>]*=[^<>]*)?\s*/?>", re.IGNORECASE)  # an attribute has a value
_ENTITY = re.compile(r"&(?:#\d+|#x[0-9a-f]+|([a-z][a-z0-9]*));", re.IGNORECASE)


def markup_differs(source: str, target: str) -> bool:
    """Whether one side has HTML tags or entities, and the other none of either.

    Text whose tags were kept on purpose has them on both sides.

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
