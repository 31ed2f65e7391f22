"""Stretches of a text that repeat themselves, found in time that hardly grows faster than the text."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate

Loop = tuple[int, int]  # number of copies, characters after the first
_PLACES = 4  # earlier places of the same three tokens that are looked at: a unit may hold them more than once
_STRETCHED = re.compile(r"(.)\1{4,}", re.DOTALL)


def largest_loop(tokens: Sequence[str], size: Callable[[str], int] = len) -> Loop:
    """The longest stretch that repeats itself: number of copies, and characters after the first; (1, 0) for none.

    Numbers alone (10 000 000) are no loop, and neither is the same character fewer than five times inside a word. Units
    of three tokens or more are found where three tokens in a row recur. Tokens are words or single characters; `size`
    gives the size of a token in characters.
    """
    sizes = [size(token) for token in tokens]
    best = _stretched("".join(tokens))
    for period in (1, 2):
        for start, end in _runs(tokens, period):
            unit = tokens[end - period : end]
            if end - start >= period and not all(token.isdigit() for token in unit):
                best = _longer(best, ((end - start) // period + 1, sum(sizes[start:end])))
    return _longer(best, _longest(tokens, sizes, _recurrences(tokens)))


def _runs(tokens: Sequence[str], period: int) -> Iterator[tuple[int, int]]:
    """Start and end of every stretch whose tokens equal those one period earlier."""
    start = None
    for i in range(period, len(tokens)):
        if tokens[i] != tokens[i - period]:
            if start is not None:
                yield start, i
            start = None
        elif start is None:
            start = i
    if start is not None:
        yield start, len(tokens)


def _recurrences(tokens: Sequence[str]) -> list[tuple[int, int]]:
    """Places of three tokens that occurred before, three or more back, and how far back."""
    latest: dict[tuple[str, ...], list[int]] = defaultdict(list)
    links = []
    for i, gram in enumerate(zip(tokens, tokens[1:], tokens[2:])):
        for place in latest[gram]:
            if i - place > 2:
                links.append((i, i - place))
        latest[gram] = [i, *latest[gram][: _PLACES - 1]]
    return links


def _longer(loop: Loop, other: Loop) -> Loop:
    return other if other[1] > loop[1] else loop


def _stretched(text: str) -> Loop:
    """The longest run of five or more of the same character, digits excepted."""
    best = (1, 0)
    for run in _STRETCHED.finditer(text):
        if not run[1].isdigit():
            best = _longer(best, (len(run[0]), len(run[0]) - 1))
    return best


def _longest(tokens: Sequence[str], sizes: Sequence[int], links: Sequence[tuple[int, int]]) -> Loop:
    """The largest loop around places and periods, widened while tokens equal those a period earlier; places ascend."""
    best = (1, 0)
    lengths = [0, *accumulate(sizes)]
    end_of: dict[int, int] = {}  # period -> end of its last stretch
    for place, period in links:
        if place < end_of.get(period, 0):
            continue
        start = end = place
        while start > period and tokens[start - 1] == tokens[start - 1 - period]:
            start -= 1
        while end < len(tokens) and tokens[end] == tokens[end - period]:
            end += 1
        end_of[period] = end
        if end - start >= period and not all(token.isdigit() for token in tokens[end - period : end]):
            best = _longer(best, ((end - start) // period + 1, lengths[end] - lengths[start]))
    return best
