"""A written folder measured again, from nothing but its results.json and the text that this names."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from transformers import TrainingArguments

from hfxling.data.corpus import Corpus
from hfxling.evaluation.results import EvalResult

from . import method
from .tested import tested_again


def measured_again(
    record: Mapping, folder: Path, *, root: Path, cache_dir: Path, device: str | None = None
) -> tuple[list[EvalResult], Corpus]:
    """The rows that the method and the test of `hfxling fit` give for the folder, and the text that was read.

    The relative paths of text in `record`, the content of the folder's results.json, begin at `root`.

    Raises:
        ValueError: a method, or settings, that this hfxling does not know; text that is malformed or of none of the
            pairs; weights that do not fit.
        FileNotFoundError: text that is not there.
    """
    package, settings = method(record["card"]["method"]), record.get("settings", {})
    names = package.Arguments.__dataclass_fields__
    options = {name: value for name, value in settings.items() if name in names}
    if "cache_dir" in names:
        options["cache_dir"] = str(cache_dir.resolve())
    folder = folder.resolve()
    with TemporaryDirectory(prefix="hfxling-") as scratch, contextlib.chdir(root):
        training = {"seed": settings.get("seed", 42), "use_cpu": device == "cpu", "report_to": "none"}
        recipe = package.Arguments(**options)
        results, corpus = package.measure(recipe, TrainingArguments(output_dir=scratch, **training), folder)
        results += tested_again(record, folder, corpus, seed=training["seed"], device=device)
        return results, corpus
