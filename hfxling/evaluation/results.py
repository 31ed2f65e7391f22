"""Result rows, the results.json that holds them, and tables of them."""

from __future__ import annotations

import json
import math
import os
import platform
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from importlib.metadata import PackageNotFoundError, version
from itertools import compress
from pathlib import Path
from typing import Any

from hfxling.files import atomic_path

from .items import Items

PACKAGES = ("hfxling", "torch", "transformers", "sentence-transformers", "datasets", "tokenizers", "numpy")


@dataclass(frozen=True)
class EvalResult:
    """One measured number and everything needed to say what it is.

    `settings` say what else changes the number: centring, method, stage ("before" or "after" training) and so on.
    """

    metric: str  # e.g. "P@1", "AER"
    value: float  # in `unit`
    n: int  # number of items it was measured on: queries, sentence pairs, dictionary words
    dataset: str  # name or Hub id
    split: str  # e.g. "test", or which part of the data was used
    direction: str | None = None  # e.g. "zh->vi"
    unit: str = "%"  # or another unit; "" for plain numbers such as correlations
    low: float | None = None  # lower end of the 95% interval, in `unit`
    high: float | None = None
    revision: str | None = None  # the dataset's commit, or `content_hash` of its texts
    model: str | None = None  # name or Hub id of what was measured
    model_revision: str | None = None  # its commit or content hash
    seed: int | None = None  # of the training run
    settings: dict = field(default_factory=dict)
    items: Items | None = field(default=None, compare=False, repr=False)  # outcomes of the single items

    def __post_init__(self):
        """Make numbers plain: numpy's would become Python objects in a card's YAML, which the Hub cannot read."""
        for name, kind in (("value", float), ("n", int), ("low", float), ("high", float)):
            number = getattr(self, name)
            object.__setattr__(self, name, None if number is None else kind(number))

    @property
    def digits(self) -> int:
        """Number of decimals that its numbers are shown with."""
        return 1 if self.unit == "%" else 3


def package_versions() -> dict[str, str]:
    """Versions of Python and of the packages that results depend on; a package that is not installed is left out."""
    versions = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions


def cpu_seconds() -> float:
    """CPU seconds so far of this process and of the processes that it started and that have ended."""
    return sum(os.times()[:4])


def cpu_minutes(earlier: Mapping | None = None) -> dict[str, float]:
    """The entry of a results file with its CPU minutes, for `extra` of `write_results`.

    They are those of this process and of the processes that it started and that have ended.

    Args:
        earlier: content of the results file that this run continues; its minutes are added. If it does not state them,
            there is no entry, as the total is unknown.
    """
    spent = cpu_seconds() / 60
    if earlier is None:
        return {"cpu_minutes": round(spent, 2)}
    if "cpu_minutes" not in earlier:
        return {}
    return {"cpu_minutes": round(earlier["cpu_minutes"] + spent, 2)}


def write_results(
    path: str | Path,
    rows: Sequence[EvalResult],
    *,
    recipe: str | None = None,
    settings: Mapping | None = None,
    extra: Mapping | None = None,
    with_items: bool = False,
) -> None:
    """Write rows and package versions as JSON, whole or not at all; the file's folder is created.

    `recipe` is the name of the program that measured them, `settings` its resolved configuration, `extra` holds further
    top-level entries. `with_items` keeps the outcome of every item, for `hfxling.evaluation.compare`.

    Raises:
        ValueError: for a NaN or infinite number (the message names its metric), or what JSON cannot hold.
    """
    for row in rows:
        for name, number in (("value", row.value), ("low", row.low), ("high", row.high)):
            if number is not None and not math.isfinite(number):
                label = " ".join(filter(None, (row.metric, row.direction, f"on {row.dataset} {row.split}")))
                raise ValueError(f"{label}: {name} is {number}, but {path} holds only finite numbers.")
    content: dict[str, Any] = {"versions": package_versions()}
    if recipe is not None:
        content["recipe"] = recipe
    if settings is not None:
        content["settings"] = dict(settings)
    content |= extra or {}
    try:
        text = results_text([_compact(row, with_items) for row in rows], content)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}: settings or extra hold what JSON cannot: {error}.") from None
    with atomic_path(path) as scratch:
        scratch.write_text(text, encoding="utf-8")


def results_text(rows: Sequence[Mapping], entries: Mapping) -> str:
    """The text of a results file: its rows first, one per line, then the other entries."""
    lines = ",\n".join(json.dumps(row, ensure_ascii=False, default=_plain) for row in rows)
    text = json.dumps(entries, ensure_ascii=False, indent=2, allow_nan=False, default=_plain)
    others = text.removeprefix("{\n")
    return f'{{"results": [\n{lines}\n],\n{others}\n'


def read_results(path: str | Path) -> list[EvalResult]:
    """Read the rows of a file written by `write_results`.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if it is not JSON, has no list of results, or a row has missing, unknown or mistyped fields.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such results file; run the evaluation that writes it.")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:  # UnicodeDecodeError and numbers of thousands of digits among them
        raise ValueError(f"{path}: not a results file ({error}); run the evaluation again.") from None
    rows = content.get("results") if isinstance(content, dict) else None
    if not isinstance(rows, list):
        raise ValueError(f"{path}: not a results file of hfxling, as it has no list 'results'; give another file.")
    return [_read_row(row, f"{path}: results[{i}]") for i, row in enumerate(rows)]


def filled_columns(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> tuple[list[str], list[list]]:
    """Headers and rows without the columns that are None in every row."""
    is_filled = [column.count(None) < len(column) for column in zip(*rows)]
    return list(compress(headers, is_filled)), [list(compress(row, is_filled)) for row in rows]


def format_table(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """An aligned Markdown table that also reads well as plain text.

    Floats show two decimals, None an empty cell. Columns of numbers are flushed right. Wide East Asian characters count
    two columns, combining marks (Thai and Lao vowels, tones) none.
    """
    right = [_is_of_numbers(column) for column in zip(*rows)] or [False] * len(headers)
    cells = [list(map(_cell, row)) for row in (headers, *rows)]
    widths, rule = [], "|"
    for column, flush in zip(zip(*cells, strict=True), right):
        width = max(3, *map(_display_width, column))
        widths.append(width)
        end = ":" if flush else "-"  # a colon makes Markdown flush the column right
        rule += "-" * (width + 1) + end + "|"
    lines = ["| " + " | ".join(map(_pad, row, widths, right)) + " |" for row in cells]
    return "\n".join([lines[0], rule, *lines[1:]])


def p_told(p_value: float) -> str:
    """The text after "p": "= 0.012" or "< 0.001", as no p-value is 0."""
    return "< 0.001" if p_value < 0.001 else f"= {p_value:.3f}"


def interval_told(low: float, high: float, digits: int = 1) -> str:
    """Both ends of an interval, with "to" between them instead of a hyphen if the first is negative."""
    return f"{low:.{digits}f}{' to ' if low < 0 else '-'}{high:.{digits}f}"


def _compact(row: EvalResult, with_items: bool) -> dict:
    """A row as one line of the file: without empty fields, numbers with six decimals."""
    content = vars(row) | {"items": row.items.pack() if with_items and row.items else None}
    compact = {}
    for name, value in content.items():
        if value is not None:
            compact[name] = round(value, 6) if isinstance(value, float) else value
    return compact


def as_json(content):
    """Content as it would be read back from a results file."""
    return json.loads(json.dumps(content, default=_plain))


def _plain(value):
    """What json.dumps cannot write by itself: numpy and torch scalars, paths."""
    if hasattr(value, "item"):
        return value.item()
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"{type(value).__name__} {value!r}")


_FIELDS = {field.name for field in fields(EvalResult)}


def _read_row(row, where: str) -> EvalResult:
    if not isinstance(row, dict):
        raise ValueError(f"{where} is not an object with the fields of a result.")
    unknown = sorted(set(row) - _FIELDS)
    missing = [name for name in ("metric", "value", "n", "dataset", "split") if name not in row]
    if unknown or missing:
        what = f"unknown field {unknown[0]!r}" if unknown else f"no {missing[0]!r}"
        raise ValueError(f"{where} has {what}; it was not written by this version of hfxling.")
    numbers = [row["value"], row["n"]]
    for end in ("low", "high"):
        if row.get(end) is not None:
            numbers.append(row[end])
    if not all(_is_number(number) and math.isfinite(number) for number in numbers):
        raise ValueError(f"{where}: value, n, low and high must be finite numbers, got {numbers}.")
    texts = [row[name] for name in ("metric", "dataset", "split")]
    if not all(isinstance(text, str) for text in texts):
        raise ValueError(f"{where}: metric, dataset and split must be texts, got {texts}.")
    if not isinstance(row.get("settings", {}), dict):
        raise ValueError(f"{where}: settings must be an object, got {row['settings']!r}.")
    try:
        items = Items.unpack(row["items"]) if "items" in row else None
    except ValueError as error:
        raise ValueError(f"{where}: {error}; measure it again.") from None
    return EvalResult(**row | {"items": items})


def _is_number(value) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_of_numbers(column: Sequence[object]) -> bool:
    """Whether a column holds only numbers and empty cells."""
    values = [value for value in column if value is not None]
    return bool(values) and all(map(_is_number, values))


def _cell(value) -> str:
    if value is None:
        return ""
    text = f"{value:.2f}" if isinstance(value, float) else str(value)
    return text.replace("|", "\\|").replace("\n", " ")


def _display_width(text: str) -> int:
    width = len(text)
    for letter in text:
        if unicodedata.category(letter) in ("Mn", "Me", "Cf"):
            width -= 1
        if unicodedata.east_asian_width(letter) in ("W", "F"):
            width += 1
    return width


def _pad(text: str, width: int, right: bool) -> str:
    gap = " " * (width - _display_width(text))
    return gap + text if right else text + gap
