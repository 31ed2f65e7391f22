"""Packages that only some verbs need, which pip installs with an extra of hfxling."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

EXTRAS = {"accelerate": "train", "datasets": "train", "peft": "train", "evaluate": "eval"}


@contextmanager
def extra_named(who: str) -> Iterator[None]:
    """Say of a package that `who` needs, and that is missing, which extra installs it."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name not in EXTRAS:
            raise
        message = f"{who} needs the package {error.name}: pip install 'hfxling[{EXTRAS[error.name]}]'."
        raise ModuleNotFoundError(message, name=error.name) from None
