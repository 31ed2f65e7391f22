"""Find what disagrees between a model's folder, its record, its card, and figures that are measured again."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import chain
from pathlib import Path

from hfxling.evaluation.results import EvalResult, read_results

from .card import CardInfo, render_card, stray_scores
from .record import CARD, RECORD, file_faults, is_intact

# Codes of few bits may flip with the last bits of a float, which differ by processor: up to COARSE items may differ.
CODES, COARSE = ("int8", "binary"), 2
_COUNTED = ("name", "pairs", "revision", "dropped", "leaks")  # fields of a training data entry that reading it gives


def card_faults(text: str, rows: Sequence[EvalResult], card: Mapping) -> list[str]:
    """Numbers of a card that the record does not give: in front matter, tables, and the prose around them.

    Sentences may be added to a card by hand; scores may not.
    """
    try:
        rendered = render_card(rows, CardInfo.from_record(card))
    except (TypeError, ValueError, KeyError, AttributeError) as error:  # of another version, or a number without a row
        return [f"{RECORD}: no card can be rendered from it ({error})"]
    wanted = [line for _, line in _held(rendered)]
    held = list(_held(text))
    lines = [line for _, line in held]
    faults = []
    for kind, start, stop, first, last in SequenceMatcher(None, wanted, lines, autojunk=False).get_opcodes():
        if kind == "equal":
            continue
        for number, line in held[first:last]:
            faults.append(f"{CARD}, line {number}: {line.strip()[:160]!r} is not what {RECORD} says")
        for line in wanted[start + last - first : stop]:  # a changed line is one fault; the rest are missing
            faults.append(f"{CARD}: lacks {line.strip()[:160]!r}")
    return faults + _score_faults(text, rendered)


def _held(text: str) -> Iterator[tuple[int, str]]:
    """Line number and text of the front matter and of every table."""
    fences = 0  # the front matter is between the first two
    for number, line in enumerate(text.splitlines(), 1):
        if line == "---":
            fences += 1
        if fences == 1 or line.startswith("|"):
            yield number, line


def _score_faults(text: str, rendered: str) -> list[str]:
    """Decimals and percentages in lines that were added to a card, if the rendered card has them nowhere."""
    rendered_lines = {*rendered.splitlines()}
    held = {number for number, _ in _held(text)}
    faults = []
    for number, line in enumerate(text.splitlines(), 1):
        if line in rendered_lines or number in held:
            continue
        stray = stray_scores(re.sub(r"https?://\S+", "", line), rendered)
        if stray:
            faults.append(f"{CARD}, line {number}: {stray[0]} is in no row of {RECORD}; measure it or leave it out")
    return faults


def text_faults(recorded: Sequence[Mapping], found: Sequence[Mapping]) -> list[str]:
    """Training text that is not what the card says."""
    faults = []
    by_name = {entry["name"]: entry for entry in found}
    for entry in recorded:
        other = by_name.get(entry["name"])
        if other is None:
            faults.append(f"training data {entry['name']!r}: the recorded settings read none of that name")
            continue
        for key in _COUNTED:
            if key in entry and entry[key] != other.get(key):
                faults.append(
                    f"training data {entry['name']!r}: {key} {entry[key]} is recorded, {other.get(key)} found"
                )
    return faults


@dataclass
class Agreement:
    """Outcome of measuring again."""

    agree: int  # number of rows in which every number is the same
    faults: list[str]  # a line for each number that differs
    unmeasured: list[EvalResult]  # rows that were not measured again, such as those of models trained for a fold


def compare_rows(recorded: Sequence[EvalResult], found: Sequence[EvalResult], tolerance: float = 2e-6) -> Agreement:
    """Compare recorded rows with measured ones of the same metric, data, direction and settings.

    `tolerance` is the largest difference that counts as equal, in the rows' units; stored numbers have six decimals.
    """
    measured: dict[tuple, list[EvalResult]] = defaultdict(list)
    for row in found:
        measured[_figure(row)].append(row)
    agree = 0
    faults: list[str] = []
    unmeasured: list[EvalResult] = []
    other_texts: set[tuple] = set()  # texts that already have a fault
    for row in recorded:
        others = measured.get(_figure(row))
        if not others:
            unmeasured.append(row)
            continue
        other = others.pop(0)
        if row.revision != other.revision:
            text = (row.dataset, row.split, row.direction and frozenset(row.direction.split("->")))
            if text not in other_texts:
                faults.append(
                    f"{row.dataset}, {row.split}: other text ({row.revision} is recorded, {other.revision} was read)"
                )
            other_texts.add(text)
            continue
        allowed = tolerance
        if row.settings.get("precision") in CODES:
            allowed = max(tolerance, COARSE * 100 / row.n)
        differing = []
        for name, a, b in _numbers(row, other):
            if not _equal(a, b, allowed):
                differing.append(f"{_label(row)}: {name} {a} is recorded, {b} measured")
        if not differing:
            agree += 1
        faults += differing
    for row in chain.from_iterable(measured.values()):
        faults.append(f"{_label(row)}: {RECORD} has no such row")
    return Agreement(agree, faults, unmeasured)


def _figure(row: EvalResult) -> tuple:
    """What a row measures; without its settings "paired" and "range", which are results themselves."""
    settings = []
    for key, value in sorted(row.settings.items()):
        if key not in ("paired", "range"):
            settings.append((key, str(value)))
    return row.metric, row.unit, row.dataset, row.split, row.direction, tuple(settings)


def _label(row: EvalResult) -> str:
    settings = ", ".join(f"{key} {value}" for key, value in row.settings.items() if key != "paired")
    words = [row.metric]
    if row.direction:
        words.append(row.direction)
    words.append(f"on {row.dataset} {row.split}")
    if settings:
        words.append(f"({settings})")
    return " ".join(words)


def _numbers(row: EvalResult, other: EvalResult) -> Iterator[tuple[str, object, object]]:
    for name in ("value", "low", "high", "n"):
        yield name, getattr(row, name), getattr(other, name)
    test, other_test = row.settings.get("paired") or {}, other.settings.get("paired") or {}
    for name in sorted({*test, *other_test}):
        yield f"paired {name}", test.get(name), other_test.get(name)


def _equal(a: object, b: object, tolerance: float) -> bool:
    if isinstance(a, int | float) and isinstance(b, int | float):
        return abs(a - b) <= tolerance
    return a == b


def folder_faults(folder: Path, record: Mapping) -> list[str]:
    """A line for every file, every line of the card, and the record itself, if it is not what the record says."""
    faults = file_faults(folder, record.get("files"))
    if "files" in record and not is_intact(record):
        faults.append(f"{RECORD}: was changed after it was written")
    if not (folder / CARD).is_file():
        return [*faults, f"{CARD}: is missing"]
    text = (folder / CARD).read_text(encoding="utf-8")
    return faults + card_faults(text, read_results(folder / RECORD), record["card"])
