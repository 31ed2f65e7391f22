"""Rows of local parallel text: TSV, CSV, JSON lines, Parquet and pairs of line-aligned text files.

Anything wrong with the structure of a file raises a ValueError here: one line that names file, line and remedy. The
text of the sides is checked in `hfxling.data.parallel`.
"""

from __future__ import annotations

import bz2
import csv
import difflib
import gzip
import io
import json
import lzma
import math
import os
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any, BinaryIO

from .codes import same_language

Row = tuple[int, Any, Any, Any]  # line (in Parquet: row) number from 1, source, target, further value or None

BARS = "|||"  # separates the sides of a line for word aligners (fast_align, eflomal, awesome-align)
TABLE_SUFFIXES = (".tsv", ".csv", ".jsonl", ".ndjson", ".json", ".parquet")
# Column pairs of common Hub data sets, source first; columns named after the two languages are preferred.
COLUMN_PAIRS = (("source", "target"), ("sentence1", "sentence2"), ("english", "non_english"), ("anchor", "positive"))
# Control characters that are not white space in Unicode: they mean a binary or broken file.
_CONTROL = bytes(code for code in (*range(32), 127) if not chr(code).isspace())
_CONTROL_CHARACTER = "[" + "".join(f"\\x{code:02x}" for code in _CONTROL) + "]"
# The same characters as JSON escapes.
_ESCAPED_CONTROL = re.compile(r"(?<!\\)\\u00(0[0-8ef]|1[0-9ab]|7f)", re.IGNORECASE)
_LONGEST_CELL = 1_000_000  # letters of a CSV cell; a longer one is taken to have an open quote
# How CC-100, WikiMatrix, CCAligned and others pack their text; read without unpacking.
PACKED_SUFFIXES = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}
_ARCHIVES = {
    b"PK\x03\x04": "a zip archive or spreadsheet",
    b"\x28\xb5\x2f\xfd": "zstandard",
}
_SIGNATURES = {
    **_ARCHIVES,
    b"\xfd7zXZ": "xz; name it .xz",
    b"BZh": "bzip2; name it .bz2",
    b"\xff\xfe": "UTF-16 (little-endian byte order mark)",
    b"\xfe\xff": "UTF-16 (big-endian byte order mark)",
    b"\x1f\x8b": "gzip; name it .gz",
    b"PAR1": "Parquet; name it .parquet",
}


@dataclass(frozen=True)
class Request:
    """The local text to read."""

    paths: tuple[str, ...]  # one table or two text files
    source_lang: str
    target_lang: str
    columns: tuple[str, str] | None = None  # names (in a TSV or CSV also 0-based positions); None to find them
    value_column: str | None = None  # a further column to read
    lines: tuple[int, int] | None = None  # first and last record wanted, from 1
    skip_bad: bool = False  # a malformed pair becomes a row with "" on that side instead of an error

    @property
    def unit(self) -> str:
        """How messages call a row of the file."""
        return "row" if suffix_of(self.paths[0]) == ".parquet" else "line"


def read_rows(request: Request) -> Iterator[Row]:
    """Yield every row of the file or files of a request, sides and value unchanged."""
    path, suffix = request.paths[0], suffix_of(request.paths[0])
    if len(request.paths) == 2:
        return _pair_rows(request.paths)
    if suffix == ".tsv":
        records = ((number, text.split("\t")) for number, text in read_lines(path))
        return _table_rows(path, records, request)
    if suffix == ".csv":
        return _table_rows(path, _csv_records(path), request)
    if suffix not in TABLE_SUFFIXES:
        records = ((number, text.split(BARS)) for number, text in read_lines(path))
        return _table_rows(path, records, request)
    records = _parquet_records(path, request) if suffix == ".parquet" else _json_records(path)
    return _record_rows(path, records, request)


def suffix_of(path: str) -> str:
    """The suffix in small letters; of packed files, the one before `.gz`, `.xz` or `.bz2`."""
    file = Path(path.lower())
    return Path(file.stem).suffix if file.suffix in PACKED_SUFFIXES else file.suffix


def is_packed(path: str) -> bool:
    """Whether a file is compressed, judging by its name."""
    return Path(path.lower()).suffix in PACKED_SUFFIXES


def has_bars(path: str) -> bool:
    """Whether a file's first line has both sides, with ||| between them."""
    return any(f" {BARS} " in line for _, line in islice(read_lines(path), 1))


def kind_of(value: Any) -> str:
    """Description of a value that is not text, for error messages."""
    names = {dict: "an object", list: "a list", str: "a string", bool: "a truth value", type(None): "null"}
    return names.get(type(value), f"a number ({value})" if isinstance(value, (int, float)) else type(value).__name__)


def finite(value: Any) -> float:
    """A value as a number; NaN if it is not one."""
    try:
        return math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


# Which column is which -----------------------------------------------------------------------------


def flat(record: dict[str, Any]) -> dict[str, Any]:
    """The record with the languages of its `translation` dictionary as top-level keys, which win over others."""
    inner = record.get("translation")
    return {**record, **inner} if isinstance(inner, dict) else record


def find_keys(record: dict[str, Any], request: Request, place: str) -> tuple[str, str, str | None]:
    """The keys of source, target and value (None if not asked for) in flat records like this one."""
    pair = request.columns or _known_pair(record, request)
    if pair is None or not {*pair, request.value_column} - {None} <= record.keys():
        raise _column_error(place, record, request)
    return *pair, request.value_column


def _positions(cells: list[str], request: Request, place: str) -> tuple[int, int, int | None, bool]:
    """Positions of source, target and value in a TSV or CSV with this first row, and whether that is a header."""
    cells = [cell.strip() for cell in cells]
    known = _known_pair(cells, request)
    wanted = (*(request.columns or known or ("0", "1")), request.value_column)
    named = {name for name in wanted if name is not None and not name.isdecimal()}
    if not named <= set(cells):
        raise _column_error(place, cells, request)
    places = []
    for name in wanted:
        if name is None:
            places.append(None)
        else:
            places.append(cells.index(name) if name in named else int(name))
    source, target, value = places
    need = 1 + max(source, target, value or 0)
    if need > len(cells):
        raise ValueError(f"{place}: {len(cells)} column(s) where {need} are needed; check the separator (tab or comma)")
    return source, target, value, bool(named or known)


def _known_pair(names: Iterable[str], request: Request) -> tuple[str, str] | None:
    """The two of `names` that usually hold source and target, or None."""
    by_plain_name = {_plain(name): name for name in names}
    by_code = {name.replace("_", "-"): name for name in by_plain_name}  # zho_Hans means zh, too
    of_languages = []
    for lang in (request.source_lang, request.target_lang):
        of_languages.append(by_code.get(same_language(lang.casefold(), by_code), lang))
    for pair in (of_languages, *COLUMN_PAIRS):
        if pair[0] == "english" and request.source_lang != "en":  # only for a pair with English in it
            if request.target_lang != "en":
                continue
            pair = pair[::-1]
        source, target = by_plain_name.get(_plain(pair[0])), by_plain_name.get(_plain(pair[1]))
        if source is not None and target is not None:
            return source, target
    return None


def _plain(name: str) -> str:
    return name.casefold().replace("-", "_")


def _column_error(place: str, names: Iterable[str], request: Request) -> ValueError:
    """The error for a missing column: the one that was named, or any known pair."""
    names = [name[:30] for name in names]
    for name in (*(request.columns or ()), request.value_column):
        if name is not None and name not in names:
            near = difflib.get_close_matches(name, names, n=2, cutoff=0.5)
            remedy = f"did you mean {' or '.join(map(repr, near))}?" if near else "name one of them"
            return ValueError(f"{place}: no column {name!r} among {names[:20]}; {remedy}")
    what = f"{place}: none of the columns {names[:20]} is known to hold {request.source_lang} or {request.target_lang}"
    return ValueError(f"{what}; name them with source_column and target_column")


# Text files -----------------------------------------------------------------------------


def read_lines(path: str) -> Iterator[tuple[int, str]]:
    r"""Yield (line number, text without line end) of a UTF-8 file, split on \n only.

    Raises:
        FileNotFoundError: no such file.
        ValueError: a folder, a damaged .gz, .xz or .bz2 file, or content that is not UTF-8 text; the line is named.
    """
    if os.path.isdir(path):
        raise ValueError(f"{path} is a folder; name a text file")
    if not os.path.exists(path):
        raise FileNotFoundError(f"{path} does not exist; check the path")
    number = offset = 0
    try:
        with _opened(path) as file:
            for number, raw in enumerate(file, 1):
                try:
                    text = raw.decode()
                except UnicodeDecodeError as error:
                    what = f"line {number}: byte {offset + error.start} of the file is not UTF-8{_looks_like(raw)}"
                    is_archive = raw.startswith(tuple(_ARCHIVES))
                    remedy = "unpack it, or pack it with gzip" if is_archive else "convert the file to UTF-8"
                    raise ValueError(f"{path}, {what}; {remedy}") from None
                if len(raw.translate(None, _CONTROL)) != len(raw):
                    what = f"line {number}: {_first_control(raw)}{_looks_like(raw)}"
                    raise ValueError(f"{path}, {what}; remove it, or give a text file")
                offset += len(raw)
                if number == 1 and b"\r" in raw.rstrip(b"\r") and not raw.endswith(b"\n"):
                    what = "lines end with \\r and not with \\n, as on old Macs"
                    raise ValueError(f"{path}, line 1: {what}; convert the file, for instance with tr '\\r' '\\n'")
                yield number, (text.removeprefix("\ufeff") if number == 1 else text).rstrip("\r\n")
    except (EOFError, zlib.error, lzma.LZMAError, OSError) as error:
        if not is_packed(path) or getattr(error, "errno", None) is not None:  # a fault of the disk, not of the content
            raise
        kind = Path(path.lower()).suffix
        raise ValueError(f"{path}, after line {number}: damaged {kind} ({error}); fetch or compress it again") from None


def _opened(path: str) -> BinaryIO:
    if not is_packed(path):
        return open(path, "rb")
    unpacked = PACKED_SUFFIXES[Path(path.lower()).suffix](path)
    return io.BufferedReader(unpacked)  # many times faster, line by line, than the module's own buffer


def _looks_like(raw: bytes) -> str:
    for signature, kind in _SIGNATURES.items():
        if raw.startswith(signature):
            return f" (it looks like {kind})"
    return " (it looks like UTF-16)" if raw.count(0) > len(raw) // 4 else ""


def _pair_rows(paths: tuple[str, ...]) -> Iterator[Row]:
    sides = [read_lines(path) for path in paths]
    for count, lines in enumerate(zip_longest(*sides), 1):
        if None in lines:
            counted = []
            for path, line, side in zip(paths, lines, sides):
                length = (count - 1 if line is None else count) + sum(1 for _ in side)
                counted.append(f"{path} has {length} lines")
            both = " and ".join(counted)
            ended = paths[lines.index(None)]
            raise ValueError(f"{both}: {ended} ends first, after line {count - 1}; give files aligned line by line")
        (_, source), (_, target) = lines
        yield count, source, target, None


def _csv_records(path: str) -> Iterator[tuple[int, list[str]]]:
    """For every record of a CSV file the number of its first line and its cells; a quoted cell may span lines."""
    csv.field_size_limit(_LONGEST_CELL)
    reader = csv.reader((text + "\n" for _, text in read_lines(path)), strict=True)
    while True:
        start = reader.line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            what = f"line {start}: the CSV record that starts here is malformed ({error})"
            raise ValueError(f"{path}, {what}; close its quotes and double those inside the text") from None
        yield start, cells


def _table_rows(path: str, records: Iterator[tuple[int, list[str]]], request: Request) -> Iterator[Row]:
    """The rows of a TSV or CSV for a request, without the header if there is one."""
    width = 0
    for number, cells in records:
        if not width:
            source, target, value, is_header = _positions(cells, request, f"{path}, line {number}")
            width = len(cells)
            if is_header:
                continue
        if len(cells) != width and request.skip_bad:
            cells = [""] * width
        elif len(cells) != width:
            what = f"too {'many' if len(cells) > width else 'few'} columns: {len(cells)} where line 1 has {width}"
            raise ValueError(f"{path}, line {number}: {what}; remove stray separators or fill in what is missing")
        yield number, cells[source], cells[target], None if value is None else cells[value]


# Records with names -----------------------------------------------------------------------------


def _record_rows(path: str, records: Iterator[tuple[int, dict[str, Any]]], request: Request) -> Iterator[Row]:
    keys = None
    for number, record in records:
        if keys is None:  # the first record decides for all
            keys = find_keys(record, request, f"{path}, {request.unit} {number}")
        source, target, value = keys
        try:
            yield number, record[source], record[target], None if value is None else record[value]
        except KeyError as error:
            what = f"{path}, {request.unit} {number}: no key {error} among {list(record)[:20]}"
            raise ValueError(f"{what}; add it or remove the record") from None


def _json_records(path: str) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, text in read_lines(path):
        try:
            record = json.loads(text)
            if "\\u" in text:  # an escape can spell what UTF-8 cannot: half a surrogate pair, or a control character
                json.dumps(record, ensure_ascii=False).encode()
                bad = _ESCAPED_CONTROL.search(text)
                if bad:
                    raise ValueError(f"control character {bad.group()}")
        except (ValueError, RecursionError) as error:
            what = f"line {number}: not valid JSON text ({error})"
            raise ValueError(f"{path}, {what}; write one JSON object per line") from None
        if not isinstance(record, dict):
            what = f"line {number}: {kind_of(record)} instead of a JSON object"
            raise ValueError(f"{path}, {what}; write one object per line")
        yield number, flat(record)


def _parquet_records(path: str, request: Request) -> Iterator[tuple[int, dict[str, Any]]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(path)
        blank: dict[str, Any] = {}  # a row without values, in which the columns are looked up
        for field in file.schema_arrow:
            blank[field.name] = dict.fromkeys(field.type.names) if pa.types.is_struct(field.type) else None
        columns = {"translation", *find_keys(flat(blank), request, path)} & blank.keys()
        number = 0
        for batch in file.iter_batches(columns=sorted(columns)):
            _check_text(batch, path, number)
            yield from enumerate(_batch_rows(batch), number + 1)
            number += len(batch)
    except (pa.ArrowException, OSError) as error:
        cause = str(error).partition("\n")[0]
        raise ValueError(f"{path} is not a readable Parquet file ({cause}); fetch or write it again") from None


def _check_text(batch: Any, path: str, before: int) -> None:
    """Refuse control characters in a batch's columns of text; `before` rows of the file were read before it."""
    import pyarrow as pa
    import pyarrow.compute as pc

    columns = []
    for column in batch.columns:
        columns += column.flatten() if pa.types.is_struct(column.type) else [column]
    for column in columns:
        if pa.types.is_dictionary(column.type) and pa.types.is_string(column.type.value_type):
            column = column.dictionary_decode()
        if pa.types.is_string_view(column.type):
            column = column.cast(pa.string())
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            rows = pc.index(pc.match_substring_regex(column, _CONTROL_CHARACTER), True).as_py()
            if rows >= 0:
                what = f"row {before + rows + 1}: {_first_control(column[rows].as_py().encode())}"
                raise ValueError(f"{path}, {what}; remove it, or the row")


def _first_control(data: bytes) -> str:
    code = next(code for code in data if code in _CONTROL)
    return f"control character U+{code:04X} is not text"


def _batch_rows(batch: Any) -> Iterator[dict[str, Any]]:
    columns = [column.to_numpy(zero_copy_only=False).tolist() for column in batch.columns]  # to_pylist: thrice the time
    for values in zip(*columns):
        yield flat(dict(zip(batch.schema.names, values)))
