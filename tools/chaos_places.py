"""Locales, and standard output that is closed, full, or read by nobody: tables of `chaos.py`."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from chaos_runs import BROKEN, CLOSED, LOCALE_C, Outcome
from chaos_runs import FULL as FULL_OUTPUT
from chaos_table import WELL, Case, Table

# What shows something on standard output.
SHOWN = [("nearest", {}), ("explain", {}), ("quality", {"output": None}), ("align", {"output": None})]
SHOWN += [("lexicon", {"output": None}), ("compare", {}), ("mine", {"output": None})]
# (program, option, name of what is given): read in the locale C.
ANY_LETTERS = [
    ("encode", "", "câu.zh"),
    ("encode", "model", "mô hình"),
    ("quality", "", "ché.tsv"),
    ("nearest", "candidates", "câu.txt"),
    ("explain", "model", "词"),
    ("mine", "", "câu.zh"),
    ("align", "", "câu.zh"),
    ("lexical", "train_data", "ché.tsv"),
    ("siamese", "base_model", "mô"),
]


def cases(table: Table) -> Iterator[Case]:
    """All of these."""
    for place, told in ((CLOSED, "output"), (FULL_OUTPUT, "disk")):
        for program, options in table.some(SHOWN):
            case = table.case(place, program, options, (told,))
            case.place = place
            yield case
    for program, options in table.some(SHOWN):
        yield read_by_nobody(table, program, options)
    for program, option, name in table.some(ANY_LETTERS):
        yield in_any_letters(table, program, option, name)
    for program in ("nearest", "explain"):
        yield table.case(
            "bytes that are no text", program, {"": ["\udcff", "a"][: 1 + (program == "explain")]}, ("UTF-8",)
        )


def read_by_nobody(table: Table, program: str, options: dict) -> Case:
    """A pipe that is closed on its other side, as `head` closes it: quiet, with the status of a shell."""
    case = table.case(BROKEN, program, options)
    case.place, case.kind, case.told = BROKEN, BROKEN, ()
    return case


def in_any_letters(table: Table, program: str, option: str, name: str) -> Case:
    """A run in the locale C, which names a file in letters that are not ASCII, and writes to one."""
    own = table.good[program][option]
    source, *others = own if isinstance(own, list) else [own]

    def prepare(folder: Path) -> None:
        copy = shutil.copytree if Path(source).is_dir() else shutil.copy
        copy(source, folder / name)

    def check(folder: Path, outcome: Outcome) -> str | None:
        is_there = "output" not in options or (folder / options["output"]).exists()
        return None if is_there and "\ufffd" not in outcome.out + outcome.err else "silent"

    options: dict[str, object] = {option: [name, *others] if others else name}
    if "output" in table.good[program]:
        options["output"] = f"kết{Path(table.good[program]['output']).suffix}"
    case = table.case(f"{option}={name} in the locale C", program, options, (), prepare)
    case.place, case.kind, case.check, case.writes = LOCALE_C, WELL, check, ("out/**/*", "kết*", "cache/**/*")
    return case
