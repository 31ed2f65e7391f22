"""Progress bars: one way to show them, one way to turn them off."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

_SHOWN: ContextVar[bool] = ContextVar("hfxling_progress", default=True)


def bar(
    items: Iterable | None = None, *, total: float | None = None, unit: str = "it", label: str = "", **options: Any
):
    """A tqdm bar over items, or one to be updated by hand; hidden where nobody watches and inside `hidden`.

    Args:
        items: what is gone through; None for a bar that its caller updates.
        total: how many there are, where `items` does not say.
        unit: of an item, such as "pairs".
        label: what goes on.
        **options: of tqdm.
    """
    from tqdm.auto import tqdm

    disable = None if _SHOWN.get() else True  # None: only where standard error is a terminal
    return tqdm(items, total=total, unit=f" {unit}", desc=label or None, disable=disable, **options)


def shown() -> bool:
    """Whether bars are to be shown: for libraries that have their own."""
    import sys

    return _SHOWN.get() and sys.stderr.isatty()


@contextmanager
def hidden(is_hidden: bool = True) -> Iterator[None]:
    """No bars inside this block, neither ours nor those of transformers, datasets and sentence-transformers."""
    if not is_hidden:
        yield
        return
    from huggingface_hub.utils import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars

    token = _SHOWN.set(False)
    was_disabled = are_progress_bars_disabled()
    if not was_disabled:
        disable_progress_bars()
    try:
        yield
    finally:
        _SHOWN.reset(token)
        if not was_disabled:
            enable_progress_bars()
