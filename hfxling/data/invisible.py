"""Differences that nobody sees: invisible characters, even inside words, and letters written as several characters."""

from __future__ import annotations

import re
import unicodedata

ZERO_WIDTH_SPACE = "\u200b"  # a word boundary marked by the writer, in scripts without spaces
JOINERS = "\u200c\u200d"  # they change the spelling
# Soft hyphens, direction marks, word joiners and byte order marks. They come from web pages and typeset books and are
# no part of a word. Written as the inside of a regular expression's set.
_MARKS = "\u00ad\u061c\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff"
MARKS = f"[{_MARKS}]"
MARKS_AND_SPACES = f"[{ZERO_WIDTH_SPACE}{_MARKS}]"
_MARKS_AND_SPACES = re.compile(MARKS_AND_SPACES)
_ANY = re.compile(f"[{JOINERS}{ZERO_WIDTH_SPACE}{_MARKS}]")


def visible(text: str) -> str:
    """The text without any invisible characters; joiners are removed, too.

    Example:
        >>> visible("pem\u00adba\u00adngun\u00adan")
        'pembangunan'
    """
    return _ANY.sub("", text)


def as_seen(text: str) -> str:
    """The text as encoders have learnt to read it: in NFC, and without invisible characters other than joiners.

    Example:
        >>> as_seen("Vie\u0323\u0302t \u00adNam")
        'Việt Nam'
    """
    return unicodedata.normalize("NFC", _MARKS_AND_SPACES.sub("", text))
