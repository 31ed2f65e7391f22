"""Stretches of a text that say themselves again, in time that hardly grows faster than the text."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np

Loop = tuple[int, int]  # number of copies, characters after the first
_PLACES = 4  # before each three tokens where the same stood: a unit may hold them more than once
_STRETCHED = re.compile(r"(.)\1{4,}", re.DOTALL)
_BASE = np.uint64(0x9E3779B97F4A7C15)  # of the polynomial whose value stands for a stretch, modulo 2 ** 64


def largest_loop(tokens: Sequence[str], size: Callable[[str], int] = len) -> Loop:
    """The longest stretch that says itself again: number of copies, characters after the first; (1, 0) for none.

    Numbers alone (10 000 000) are no loop, nor are fewer than five times the same character inside a word. Units of
    three tokens or more are found where three tokens in a row recur.

    Args:
        tokens: words, or single characters.
        size: of a token, in characters.
    """
    best = _stretched("".join(tokens))  # a loop gives way only to a longer one
    sizes = [size(token) for token in tokens]
    for period in (1, 2):
        run = 0
        for i in range(period, len(tokens) + 1):
            if i < len(tokens) and tokens[i] == tokens[i - period]:
                run += 1
                continue
            if run >= period and not all(token.isdigit() for token in tokens[i - period : i]):
                best = _longer(best, (run // period + 1, sum(sizes[i - run : i])))
            run = 0
    latest: dict[tuple[str, ...], tuple[int, ...]] = {}  # where three tokens stood, the last place first
    links: list[tuple[int, int]] = []  # where three tokens stand that stood before, and how far back
    for i, gram in enumerate(zip(tokens, tokens[1:], tokens[2:])):
        earlier = latest.get(gram, ())
        for place in earlier:
            if i - place > 2:  # shorter periods are done above
                links.append((i, i - place))
        latest[gram] = (i, *earlier[: _PLACES - 1])
    return _longer(best, _longest(tokens, sizes, np.array(links))) if links else best


def _longer(loop: Loop, other: Loop) -> Loop:
    return other if other[1] > loop[1] else loop


def _stretched(text: str) -> Loop:
    """Five times the same character or more, digits apart."""
    best = (1, 0)
    for run in _STRETCHED.finditer(text):
        if not run[1].isdigit():
            best = _longer(best, (len(run[0]), len(run[0]) - 1))
    return best


def _longest(tokens: Sequence[str], sizes: Sequence[int], links: np.ndarray) -> Loop:
    """The largest loop around (L, 2) places and periods, widened as far as tokens are those a period ago."""
    places, periods = links.T
    ids: dict[str, int] = {}
    numbers = np.array([ids.setdefault(token, len(ids) + 1) for token in tokens], np.uint64)
    powers = np.full(len(tokens) + 1, _BASE)
    powers[0] = 1
    powers = np.cumprod(powers)
    # A rolling hash: the sum from i to j is that of the same tokens elsewhere, times a power of the base. Overflow is
    # the arithmetic modulo 2 ** 64 that is wanted.
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(numbers * powers[:-1])])
    right = _same(sums, powers, places, periods, len(tokens) - places, 1)
    left = _same(sums, powers, places, periods, places - periods, -1)
    runs, ends = left + right, places + right
    lengths = np.concatenate([[0], np.cumsum(sizes)])
    words = np.concatenate([[0], np.cumsum([not token.isdigit() for token in tokens])])
    is_loop = (runs >= periods) & (words[ends] > words[ends - periods])
    gains = np.where(is_loop, lengths[ends] - lengths[ends - runs], 0)
    for row in np.argsort(-gains, kind="stable"):
        run, period, end = int(runs[row]), int(periods[row]), int(ends[row])
        if not gains[row]:
            break
        if tokens[end - run : end] == tokens[end - run - period : end - period]:  # equal sums are no proof
            return run // period + 1, int(gains[row])
    return 1, 0


def _same(sums: np.ndarray, powers: np.ndarray, places: np.ndarray, periods: np.ndarray, most: np.ndarray, way: int):
    """(L,) how many tokens from each place on (way 1) or before it (way -1) are those a period ago, `most` at most."""
    # A binary search for all at once: from the highest power of two down, a step is taken where all in it are equal.
    reach = np.zeros_like(places)
    for step in 1 << np.arange(int(most.max(initial=1)).bit_length())[::-1]:
        wider = reach + step
        inside = wider <= most
        ends = np.where(inside, places + way * wider, places)
        low, high = np.minimum(places, ends), np.maximum(places, ends)
        here = sums[high] - sums[low]
        period_ago = sums[high - periods] - sums[low - periods]
        reach = np.where(inside & (here == period_ago * powers[periods]), wider, reach)
    return reach
