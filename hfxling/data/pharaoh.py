"""Word links as text: `i-j` (sure) and `ipj` (possible), where i and j are 0-based positions of words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from .readers import read_lines

Link = tuple[int, int]

# No sentence has more words than nine digits can count. A score, as from `hfxling align --with_scores`, is ignored.
_LINK = re.compile(r"(\d{1,9})([-p])(\d{1,9})(?::[\d.]{1,9})?")


@dataclass(frozen=True)
class AlignedPair:
    """A sentence pair, each side in words, with gold links."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    sure: frozenset[Link]  # links that the annotators were sure of
    possible: frozenset[Link]  # all links, including the sure ones


def parse_links(text: str, where: str = "links") -> tuple[frozenset[Link], frozenset[Link]]:
    """Sure links, and all links, of a line such as "0-0 1p2"."""
    sure, possible = set(), set()
    for word in text.split():
        match = _LINK.fullmatch(word)
        if match is None:
            raise ValueError(
                f"{where}: {word[:40]!r} is not a link; write i-j (sure) or ipj (possible), counted from 0."
            )
        link = int(match[1]), int(match[3])
        possible.add(link)
        if match[2] == "-":
            sure.add(link)
    return frozenset(sure), frozenset(possible)


def format_links(links: Iterable[Link]) -> str:
    """Links as "0-0 1-2", sorted."""
    return " ".join(f"{i}-{j}" for i, j in sorted(links))


def texts_of(pairs: Sequence[AlignedPair]) -> tuple[list[str], list[str]]:
    """Source and target sentences."""
    return [" ".join(pair.source) for pair in pairs], [" ".join(pair.target) for pair in pairs]


def read_links(path: str | Path) -> list[tuple[frozenset[Link], frozenset[Link]]]:
    """For every line of a Pharaoh file the sure links and all links; an empty line is a pair without links."""
    return [parse_links(text, where) for where, text in _lines(path)]


def read_aligned(path: str | Path) -> list[AlignedPair]:
    """Read a table of source words TAB target words TAB links, with spaces between words."""
    if pairs := [_aligned(text, where) for where, text in _lines(path)]:
        return pairs
    raise ValueError(f"{path}: no sentence pair; give lines of source, target and links with tabs between them.")


def _aligned(text: str, where: str) -> AlignedPair:
    cells = text.split("\t")
    if len(cells) != 3:
        raise ValueError(f"{where}: {len(cells)} columns; give source, target and links with tabs between them.")
    source, target = tuple(cells[0].split()), tuple(cells[1].split())
    sure, possible = parse_links(cells[2], where)
    for i, j in sorted(possible):
        if i >= len(source) or j >= len(target):
            sizes = f"{len(source)} source and {len(target)} target words"
            raise ValueError(f"{where}: link {i}-{j} does not fit {sizes}; links are counted from 0.")
    return AlignedPair(source, target, sure, possible)


def _lines(path: str | Path) -> Iterator[tuple[str, str]]:
    """Every line, with its file and number for error messages."""
    if not Path(path).is_file():
        raise FileNotFoundError(f"{path}: no such file of word links; check the path.")
    return ((f"{path}, line {number}", text) for number, text in read_lines(str(path)))
