"""Checks of plain values: numbers with a minimum, seeds, and entries such as zh=FILE."""

from __future__ import annotations

import math
from collections.abc import Iterable
from numbers import Integral, Real


def check_least(least: float, **values: float | None) -> None:
    """Refuse what is no finite number, or is below the minimum; None means not given."""
    for name, value in values.items():
        if value is not None and not (isinstance(value, Real) and least <= value < math.inf):
            raise ValueError(f"{name}={value!r}: give {least} or more.")


def check_counts(least: int, **values: int | None) -> None:
    """Refuse what is no whole number, or is below the minimum; None means not given."""
    for name, value in values.items():
        if value is not None and not isinstance(value, Integral):
            raise ValueError(f"{name}={value!r}: give a whole number, {least} or more.")
        check_least(least, **{name: value})


def check_seed(seed: int) -> None:
    """Refuse what numpy does not take as a seed: everything but whole numbers from 0 to 2^32 - 1."""
    if not (isinstance(seed, Integral) and 0 <= seed < 2**32):
        raise ValueError(f"seed={seed!r}: give a whole number from 0 to 4294967295.")


def named_entries(option: str, entries: Iterable[str], example: str) -> dict[str, str]:
    """Name -> value from entries NAME=VALUE, such as the example; other forms and repeated names are refused."""
    if isinstance(entries, str):  # would be read letter by letter
        entries = [entries]
    values = {}
    for entry in entries:
        name, _, value = entry.partition("=")
        if not (name and value):
            raise ValueError(f"{option}: {entry!r} is not of the form {example}.")
        if name in values:
            raise ValueError(f"{option}: {name} is given twice; give each name once.")
        values[name] = value
    return values
