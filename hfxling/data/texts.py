"""Text of one language: FILE (a sentence a line), TABLE#COLUMN, or a Hub id, ORG/NAME[:CONFIG][@REVISION][#COLUMN]."""

from __future__ import annotations

import re
import sys
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .parallel import A_PIPE, BLANK, LONGEST, parse_range
from .readers import TABLE_SUFFIXES, Request, read_lines, read_rows, suffix_of
from .sources import hub_parts

COLUMN = "text"


@dataclass(frozen=True)
class Texts:
    """Sentences of a file or data set that hold text, and where they stand."""

    name: str  # what was read
    lines: list[int]  # numbers from 1; in Parquet and data sets of rows
    texts: list[str]  # without outer white space

    @classmethod
    def of(cls, name: str, numbered: Iterable[tuple[int, str | None]], problem: str) -> Texts:
        """Out of numbered lines, those without text passed over; `problem` is the error where none has any."""
        lines, texts = [], []
        for number, line in numbered:
            text = (line or "").strip(BLANK)
            if text:
                lines.append(number)
                texts.append(text)
        if not texts:
            raise ValueError(problem)
        return cls(name, lines, texts)


def as_list(texts: Iterable[str]) -> list[str]:
    """Texts of any kind as a list; a column of `datasets` is read at once, which takes a hundredth of the time."""
    datasets = sys.modules.get("datasets")  # whoever has a column has imported it
    if datasets is not None and isinstance(texts, datasets.Column):
        return texts[:]
    return list(texts)


def is_dataset(text: Any) -> bool:
    """Whether a text is a `datasets.Dataset`, with columns of texts."""
    datasets = sys.modules.get("datasets")
    return datasets is not None and isinstance(text, datasets.Dataset)


def check_one_split(text: Any) -> None:
    """Refuse what `datasets` gives where a split in memory is wanted."""
    datasets = sys.modules.get("datasets")
    if datasets is None:
        return
    if isinstance(text, datasets.DatasetDict | datasets.IterableDatasetDict):
        raise ValueError(f"a data set with the splits {', '.join(text)}: give one of them, such as ds[{min(text)!r}].")
    if isinstance(text, datasets.IterableDataset):
        raise ValueError("a data set that is streamed is read but once: load it without streaming=True.")


def numbered_distinct(texts: Iterable[Hashable]) -> tuple[list, np.ndarray]:
    """Every text once, in the order of the first times, and (N,) the place of each text among them."""
    places: dict[str, int] = {}
    rows = [places.setdefault(text, len(places)) for text in texts]
    return list(places), np.array(rows, np.int64)


def distinct_rows(*columns: Sequence[str]) -> np.ndarray:
    """The rows that no row before has, text by text."""
    _, places = numbered_distinct(zip(*columns, strict=True))
    return np.unique(places, return_index=True)[1]


def picked(rows: Iterable[int], *columns: Sequence) -> list[list]:
    """Of every column the items of these rows."""
    return [[column[row] for row in rows] for column in columns]


def file_and_range(text: str) -> tuple[str, range | None]:
    """A text's file, and the numbers of the lines that `@1-1543` picks of it; None for all of them."""
    match = re.fullmatch(r"(.+)@(\d+-\d+)", text)
    if match is None or Path(text).exists() or hub_parts(match[1]):
        return text, None
    first, last = parse_range(match[2])
    return match[1], range(first, last + 1)


def read_texts(text: str) -> Texts:
    """Read the sentences of a file (`a.txt@1-1543`: of some lines), `table#column` or Hub id, without blank ones."""
    file, picked_lines = file_and_range(text)
    whole = _whole(file)
    if picked_lines is None:
        return whole
    numbered = ((line, sentence) for line, sentence in zip(whole.lines, whole.texts) if line in picked_lines)
    problem = f"{text}: no sentence in these lines; {file} ends with line {whole.lines[-1]}."
    return Texts.of(text, numbered, problem)


def _whole(data: str) -> Texts:
    path, column = data, ""
    if "#" in data and not Path(data).exists():
        path, _, column = data.rpartition("#")
    if Path(path).is_file():
        if suffix_of(path) in TABLE_SUFFIXES:
            column = column or COLUMN
            rows = read_rows(Request((path,), "", "", (column, column)))
            rows = [(number, text) for number, text, _, _ in rows]
        else:
            rows = list(read_lines(path))
    elif hub := hub_parts(path, is_bare=bool(column) and suffix_of(path) not in TABLE_SUFFIXES):
        rows = _from_hub(*hub, column or COLUMN)
    else:
        if Path(path).exists() and not Path(path).is_dir():
            raise ValueError(f"{path} {A_PIPE}")
        kind = "is a folder" if Path(path).is_dir() else "is not a file"
        raise FileNotFoundError(f"{path} {kind}; give a text file, TABLE#COLUMN or a Hub id such as org/name#text.")
    for number, text in rows:
        if not isinstance(text, str | None):
            raise ValueError(f"{path}, row {number}: column {column!r} holds no text; name another one with #COLUMN.")
    return Texts.of(path, rows, f"{path}: no sentence in it; give one a line.")


def _from_hub(name: str, config: str | None, revision: str | None, column: str) -> list[tuple]:
    from datasets import load_dataset

    try:
        rows = load_dataset(name, config, revision=revision, split="train")
    except (OSError, ValueError) as error:
        cause = " ".join(str(error).split())
        raise FileNotFoundError(f"{name} is neither a file nor to be had from the Hub ({cause}).") from None
    if column not in rows.column_names:
        raise ValueError(
            f"{name} has the columns {', '.join(rows.column_names)}; name one, e.g. #{rows.column_names[0]}."
        )
    return list(enumerate(rows[column], 1))


def check_texts(texts: Sequence[str], name: str = "text") -> None:
    """Refuse texts that no encoder reads, or not in any useful time; `name` is what errors call them."""
    for number, text in enumerate(texts, 1):
        if not isinstance(text, str):
            raise ValueError(f"{name} {number} is {text!r}; give text.")
        if len(text) > LONGEST:
            raise ValueError(
                f"{name} {number}, {text[:30]!r}..., has {len(text):,} letters; give texts of at most {LONGEST:,}."
            )
        try:
            text.encode()
        except UnicodeEncodeError:  # bytes of a command line in another encoding
            raise ValueError(
                f"{name} {number}, {text[:30]!r}, is not UTF-8; give UTF-8, in an environment such as LC_ALL=C.UTF-8."
            ) from None


def spread_rows(count: int, most: int) -> np.ndarray:
    """At most so many of `count` row numbers, from all of a text: a long one is often of several kinds in turn."""
    return np.linspace(0, count - 1, min(most, count)).astype(int)
