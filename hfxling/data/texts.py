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
    """The sentences of a file or data set that have text, and their line numbers."""

    name: str  # the file or data set
    lines: list[int]  # line numbers from 1; row numbers in Parquet and data sets
    texts: list[str]  # without outer white space

    @classmethod
    def of(cls, name: str, numbered: Iterable[tuple[int, str | None]], problem: str) -> Texts:
        """From numbered lines, skipping those without text; `problem` is the error message if none has text."""
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
    """Texts of any kind as a list; a column of `datasets` is read at once, in a hundredth of the time."""
    datasets = sys.modules.get("datasets")  # whoever has a column has imported it
    if datasets is not None and isinstance(texts, datasets.Column):
        return texts[:]
    return list(texts)


def is_dataset(text: Any) -> bool:
    """Whether a text is a `datasets.Dataset`, with columns of texts."""
    datasets = sys.modules.get("datasets")
    return datasets is not None and isinstance(text, datasets.Dataset)


def check_one_split(text: Any) -> None:
    """Refuse other objects of `datasets` than a single split in memory."""
    datasets = sys.modules.get("datasets")
    if datasets is None:
        return
    if isinstance(text, datasets.DatasetDict | datasets.IterableDatasetDict):
        raise ValueError(f"the data set has the splits {', '.join(text)}; give one of them, such as ds[{min(text)!r}].")
    if isinstance(text, datasets.IterableDataset):
        raise ValueError("a streamed data set can be read only once; load it without streaming=True.")


def numbered_distinct(texts: Iterable[Hashable]) -> tuple[list, np.ndarray]:
    """Every distinct text, in the order of first occurrence, and (N,) the place of each text among them."""
    places: dict[str, int] = {}
    rows = [places.setdefault(text, len(places)) for text in texts]
    return list(places), np.array(rows, np.int64)


def distinct_rows(*columns: Sequence[str]) -> np.ndarray:
    """The rows that do not repeat an earlier row in all columns."""
    _, places = numbered_distinct(zip(*columns, strict=True))
    return np.unique(places, return_index=True)[1]


def picked(rows: Iterable[int], *columns: Sequence) -> list[list]:
    """The items of these rows, for every column."""
    return [[column[row] for row in rows] for column in columns]


def file_and_range(text: str) -> tuple[str, range | None]:
    """The file of a text, and the range of lines that `@1-1543` picks from it; None for all lines."""
    match = re.fullmatch(r"(.+)@(\d+-\d+)", text)
    if match is None or Path(text).exists() or hub_parts(match[1]):
        return text, None
    first, last = parse_range(match[2])
    return match[1], range(first, last + 1)


def read_texts(text: str) -> Texts:
    """Read the sentences of a file (or some lines: `a.txt@1-1543`), `table#column` or Hub id, without blank lines."""
    file, picked_lines = file_and_range(text)
    whole = _whole(file)
    if picked_lines is None:
        return whole
    numbered = ((line, sentence) for line, sentence in zip(whole.lines, whole.texts) if line in picked_lines)
    problem = f"{text}: no sentence in these lines; the last sentence of {file} is in line {whole.lines[-1]}."
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
        raise FileNotFoundError(f"{name} is not a file, and could not be loaded from the Hub ({cause}).") from None
    if column not in rows.column_names:
        raise ValueError(
            f"{name} has the columns {', '.join(rows.column_names)}; name one, e.g. #{rows.column_names[0]}."
        )
    return list(enumerate(rows[column], 1))


def check_texts(texts: Sequence[str], name: str = "text") -> None:
    """Refuse texts that encoders cannot read, or not in useful time; `name` is what error messages call them."""
    for number, text in enumerate(texts, 1):
        if not isinstance(text, str):
            raise ValueError(f"{name} {number} is {text!r}; give text.")
        if len(text) > LONGEST:
            raise ValueError(
                f"{name} {number}, {text[:30]!r}..., has {len(text):,} letters; give texts of at most {LONGEST:,}."
            )
        try:
            text.encode()
        except UnicodeEncodeError:  # bytes of a command line that is in another encoding
            raise ValueError(
                f"{name} {number}, {text[:30]!r}, is not UTF-8; give UTF-8, in an environment such as LC_ALL=C.UTF-8."
            ) from None


def spread_rows(count: int, most: int) -> np.ndarray:
    """At most `most` of `count` row numbers, spread over all of a text, as a long one often changes in kind."""
    return np.linspace(0, count - 1, min(most, count)).astype(int)
