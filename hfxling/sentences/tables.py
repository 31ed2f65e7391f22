"""Tables of sentences in files: TSV or Parquet, by the file's ending."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from hfxling.files import atomic_path, is_stream

Columns = Mapping[str, Sequence]
_WHOLE_NUMBERS = {"line", "source_line", "target_line", "source_document", "target_document"}
_NUMBERS = {"score", "links", "words"}  # all others hold text
_BREAKS = re.compile(r"[\t\r\n]+")


def check_table(path: str | Path, what: str = "pairs", name: str = "output") -> None:
    """Raise ValueError for a file with another ending; a device or pipe may have any name, and gets TSV."""
    if not is_stream(path) and Path(path).suffix.lower() not in (".tsv", ".parquet"):
        raise ValueError(f"{name}={str(path)!r}: {what} are written as .tsv or .parquet; give a name with that ending.")


def columns_of(names: Sequence[str], rows: Sequence[tuple]) -> dict[str, list]:
    """Rows as columns with these names."""
    columns = {}
    for place, name in enumerate(names):
        columns[name] = [row[place] for row in rows]
    return columns


def to_tsv(columns: Columns, *, header: bool = True) -> tuple[str, int]:
    """One line for each row, and how many texts have tabs or line breaks, which become spaces."""
    lines = ["\t".join(columns) + "\n"] if header else []
    changed = 0
    for row in zip(*columns.values()):
        cells = []
        for value in row:
            cell = _cell(value)
            plain = _BREAKS.sub(" ", cell)
            changed += plain != cell
            cells.append(plain)
        lines.append("\t".join(cells) + "\n")
    return "".join(lines), changed


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return "" if np.isnan(value) else f"{value:.6f}"
    return str(value)


def write_tables(*tables: tuple[str | Path, Columns, bool]) -> int:
    """Write all of some tables or, on an error, none.

    Args:
        *tables: file, columns, and whether a TSV gets a line with their names.

    Returns:
        How many texts a TSV could not hold as they are; see `to_tsv`.
    """
    changed = 0
    # Streams cannot be taken back, so they come last and are finished first: if one breaks, no file is written.
    streams_last = sorted(tables, key=lambda table: is_stream(table[0]))
    with ExitStack() as all_of_them:
        for path, columns, header in streams_last:
            scratch = all_of_them.enter_context(atomic_path(path))
            if Path(path).suffix.lower() == ".parquet":
                _write_parquet(scratch, columns)
            else:
                text, changed_here = to_tsv(columns, header=header)
                scratch.write_text(text, encoding="utf-8", newline="\n")
                changed += changed_here
    return changed


def _write_parquet(path: Path, columns: Columns) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    arrays = {}
    for name, values in columns.items():
        kind = pa.string()
        if name in _WHOLE_NUMBERS:
            kind = pa.int64()
        elif name in _NUMBERS:
            kind = pa.float64()
        arrays[name] = pa.array(values, kind, from_pandas=True)
    pq.write_table(pa.table(arrays), path)
