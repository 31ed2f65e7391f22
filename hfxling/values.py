"""Checks of what is given as plain values: numbers that have a least one, and entries such as zh=FILE."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Real


def check_least(least: float, **values: float | None) -> None:
    """Refuse what is no number, or one below the least; None is what is not given.

    Raises:
        ValueError: for each of these, NaN among them.
    """
    for name, value in values.items():
        if value is not None and not (isinstance(value, Real) and value >= least):
            raise ValueError(f"{name}={value!r}: give {least} or more.")


def named_entries(option: str, entries: Iterable[str], example: str) -> dict[str, str]:
    """Name -> value of entries NAME=VALUE, such as the example.

    Raises:
        ValueError: an entry of another form, a name that is given twice.
    """
    values = {}
    for entry in entries:
        name, _, value = entry.partition("=")
        if not (name and value):
            raise ValueError(f"{option}: {entry!r} is not of the form {example}.")
        if name in values:
            raise ValueError(f"{option}: {name} is given twice; give one entry of each.")
        values[name] = value
    return values
