"""Sentences: neighbours, margins, pairs."""

from __future__ import annotations

from importlib import import_module

_PUBLIC = {
    "mine_vectors": ".engine",
    "Mined": ".engine",
    "select": ".engine",
    "rescored": ".engine",
    "paired_margins": ".engine",
    "both_ways": ".blocks",
    "strongest": ".engine",
}
__all__ = sorted(_PUBLIC)


def __getattr__(name: str):
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_PUBLIC[name], __name__), name)
