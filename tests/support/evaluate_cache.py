"""A cache of its own for the library evaluate."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def evaluate_cache(folder: Path) -> Iterator[pytest.MonkeyPatch]:
    """evaluate copies scripts and data to this folder, imports them from there, and forgets them afterwards."""
    forget_scripts()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("evaluate.config.HF_METRICS_CACHE", str(folder))
        patch.setattr("evaluate.config.HF_MODULES_CACHE", folder / "modules")
        patch.setattr("evaluate.config.HF_EVALUATE_OFFLINE", True)
        others = [place for place in sys.path if not Path(place, "evaluate_modules").is_dir()]
        patch.setattr(sys, "path", others)  # evaluate adds the folder
        yield patch
    forget_scripts()


def forget_scripts() -> None:
    """Those that were imported from another folder would be in the way."""
    for name in [*sys.modules]:
        if name.partition(".")[0] == "evaluate_modules":
            del sys.modules[name]
