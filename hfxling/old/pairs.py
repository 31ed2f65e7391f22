"""Sentence pairs that one already has: how the commands read them, and what they are warned of."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from typing import Any

from hfxling.data.filters import check_top, top_count
from hfxling.data.parallel import BLANK
from hfxling.data.readers import Request, csv_records, read_lines, read_rows, suffix_of, table_rows
from hfxling.data.sources import Source
from hfxling.data.warn import COVERAGE_TEXTS, warn_of_coverage, warn_of_hubs, warn_of_languages

__all__ = [
    "COVERAGE_TEXTS",
    "check_top",
    "read_request",
    "read_sides",
    "top_count",
    "warn_of_coverage",
    "warn_of_hubs",
    "warn_of_languages",
]


def read_request(data: str, languages: tuple[str, str], human: str | None = None) -> Request:
    """What to read from a file or two, with a column of human scores where there is one.

    Raises:
        FileNotFoundError: no such file.
        ValueError: lines or a language pair are picked, or columns of two files.
    """
    source = Source.parse(data)
    if source.lines or source.only_for:
        raise ValueError(f"{data}: files are read whole, one language pair at a time; leave @ and = out")
    paths = source.files(languages)
    if not paths:
        raise FileNotFoundError(f"{data} is not a file; give a TSV, CSV, JSONL or Parquet file, or FILE+FILE")
    if len(paths) == 2 and (human or source.columns):
        raise ValueError(f"{data}: two text files have no columns, of human scores or others; give one table")
    return Request(paths, *languages, source.fill(languages).columns, human, None, True)


def read_sides(request: Request, *, skip_bad: bool) -> Iterator[tuple[int, str, str, Any]]:
    """Yield (line, source, target, human score) of every line but a header; what is no text is an empty side.

    With `skip_bad` both sides of a line with the wrong number of columns are empty, too.

    Raises:
        ValueError: as `read_rows`; no line at all.
    """
    number = 0
    for number, *sides, human in _padded_rows(request) if skip_bad else read_rows(request):
        yield number, *(side.strip() if isinstance(side, str) and side.strip(BLANK) else "" for side in sides), human
    if not number:
        raise ValueError(f"{' and '.join(request.paths)}: no sentence pair in it; give at least one")


def _padded_rows(request: Request) -> Iterator[tuple]:
    """Rows of a TSV or CSV, empty where they have not as many columns as the first one; others as they are."""
    path = request.paths[0]
    if len(request.paths) == 2 or suffix_of(path) not in (".tsv", ".csv"):
        return read_rows(request)
    lines = ((number, text.split("\t")) for number, text in read_lines(path))
    records = csv_records(path) if suffix_of(path) == ".csv" else lines
    first = [*islice(records, 1)]
    same = ((number, cells if len(cells) == len(first[0][1]) else [""] * len(first[0][1])) for number, cells in records)
    return table_rows(path, chain(first, same), request)
