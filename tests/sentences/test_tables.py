"""Rows stay rows, whatever is in their cells; of several files all appear or none."""

import math

import pyarrow.parquet as pq
import pytest

from hfxling.sentences import tables

ROWS = {"score": [1.0, math.nan], "source": ["a\tb\nc", "d\re\r\nf"], "source_line": [1, None]}


def test_a_row_stays_a_row():
    text, changed = tables.to_tsv(ROWS)
    assert text == "score\tsource\tsource_line\n1.000000\ta b c\t1\n\td e f\t\n"
    assert changed == 2
    assert tables.to_tsv({"source": []}, header=False) == ("", 0)


def test_parquet_keeps_what_a_cell_holds(tmp_path):
    assert tables.write_tables((tmp_path / "a.parquet", ROWS, True)) == 0
    assert pq.read_table(tmp_path / "a.parquet").to_pylist() == [
        {"score": 1.0, "source": "a\tb\nc", "source_line": 1},
        {"score": None, "source": "d\re\r\nf", "source_line": None},
    ]


def test_all_files_appear_or_none(tmp_path, monkeypatch):
    def fails(path, columns):
        raise OSError("disk full")

    monkeypatch.setattr(tables, "_write_parquet", fails)
    with pytest.raises(OSError, match="disk full"):
        tables.write_tables((tmp_path / "a.tsv", ROWS, True), (tmp_path / "b.parquet", ROWS, True))
    assert list(tmp_path.iterdir()) == []


def test_other_names_are_refused():
    tables.check_table("pairs.TSV")
    tables.check_table("/dev/stdout")
    with pytest.raises(ValueError, match=r"dropped=.*: rows are written as .* give a name with that ending"):
        tables.check_table("pairs.csv", "rows", "dropped")
