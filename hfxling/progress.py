"""Progress bars: one way to show them, and one way to turn them off."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from typing import Any

_TRANSFORMERS = "transformers.utils.logging"
_SHOWN: ContextVar[bool] = ContextVar("hfxling_progress", default=True)


def bar(
    items: Iterable | None = None, *, total: float | None = None, unit: str = "it", label: str = "", **options: Any
):
    """A tqdm bar over items, or one that its caller updates; hidden without a terminal and inside `hidden`."""
    from tqdm.auto import tqdm

    disable = None if _SHOWN.get() else True  # None: only where standard error is a terminal
    return tqdm(items, total=total, unit=f" {unit}", desc=label or None, disable=disable, **options)


def shown() -> bool:
    """Whether to show bars, for libraries that have their own."""
    return _SHOWN.get() and sys.stderr.isatty()


@contextmanager
def hidden(is_hidden: bool = True) -> Iterator[None]:
    """Show no bars inside this block, neither ours nor those of transformers, datasets and sentence-transformers."""
    if not is_hidden:
        yield
        return
    from huggingface_hub.utils import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars

    with without_loading_bars():
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


@contextmanager
def without_loading_bars(*, of_later_imports: bool = False) -> Iterator[None]:
    """Hide the bars of `hide_loading_bars` inside this block."""
    from huggingface_hub.utils import are_progress_bars_disabled, disable_progress_bars

    were_shown = hide_loading_bars(of_later_imports=of_later_imports)
    try:
        yield
    finally:
        if were_shown:
            downloads_are_hidden = are_progress_bars_disabled()
            sys.modules[_TRANSFORMERS].enable_progress_bar()  # which turns on the Hub's, too
            if downloads_are_hidden:
                disable_progress_bars()


def hide_loading_bars(*, of_later_imports: bool = False) -> bool:
    """Hide transformers' bars for loading and saving weights, a second each; returns whether they were shown.

    Bars of downloads stay. If transformers is not imported yet, nothing happens; `of_later_imports` imports it, which
    takes half a second.
    """
    from huggingface_hub.utils import are_progress_bars_disabled, enable_progress_bars

    if of_later_imports:
        import_module(_TRANSFORMERS)
    logging = sys.modules.get(_TRANSFORMERS)
    if logging is None or not logging.is_progress_bar_enabled():
        return False
    downloads_are_shown = not are_progress_bars_disabled()
    logging.disable_progress_bar()  # which turns off the Hub's, too
    if downloads_are_shown:
        enable_progress_bars()
    return True
