"""Text of one language: files, columns, and what is no text."""

import gzip
import os
from collections import deque

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hfxling.data.sources import load_pairs
from hfxling.data.texts import as_list, read_texts


def test_a_text_file_keeps_its_line_numbers(tmp_path):
    content = "\ufeff 今天。 \n\n\u200b\n明天#1。\n"
    (tmp_path / "a#b.txt").write_text(content, encoding="utf-8")
    with gzip.open(tmp_path / "a.gz", "wt", encoding="utf-8") as file:
        file.write(content)
    for name in ("a#b.txt", "a.gz"):
        found = read_texts(str(tmp_path / name))
        assert (found.lines, found.texts) == ([1, 4], ["今天。", "明天#1。"])


def test_some_lines_of_a_text(tmp_path):
    (tmp_path / "a.txt").write_text("one\n\nthree\nfour\n", encoding="utf-8")
    found = read_texts(f"{tmp_path}/a.txt@2-3")
    assert (found.name, found.lines, found.texts) == (f"{tmp_path}/a.txt@2-3", [3], ["three"])
    with pytest.raises(ValueError, match="is in line 4"):
        read_texts(f"{tmp_path}/a.txt@5-9")
    with pytest.raises(ValueError, match="1 <= first <= last"):
        read_texts(f"{tmp_path}/a.txt@3-2")
    (tmp_path / "a.txt@2-3").write_text("so it is called\n", encoding="utf-8")
    assert read_texts(f"{tmp_path}/a.txt@2-3").texts == ["so it is called"]


def test_a_column_of_a_table(tmp_path):
    (tmp_path / "a.tsv").write_text("x\tone\ny\ttwo\n", encoding="utf-8")
    assert read_texts(f"{tmp_path}/a.tsv#1").texts == ["one", "two"]
    (tmp_path / "a.jsonl").write_text('{"text": "one", "n": 1}\n{"text": null, "n": 2}\n', encoding="utf-8")
    assert read_texts(f"{tmp_path}/a.jsonl").texts == ["one"]
    pq.write_table(pa.table({"vi": ["một", "", "hai"]}), tmp_path / "a.parquet")
    found = read_texts(f"{tmp_path}/a.parquet#vi")
    assert (found.lines, found.texts) == ([1, 3], ["một", "hai"])


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", "\n \n", "no sentence in it"),
        ("a.jsonl", '{"n": 1}\n', "no column"),
        ("a.jsonl#n", '{"n": 1}\n', "row 1: column 'n' holds no text"),
        ("none.txt", None, "is not a file"),
        ("", None, "is a folder"),
    ],
)
def test_what_is_no_text(tmp_path, name, content, message):
    if content is not None:
        (tmp_path / name.partition("#")[0]).write_text(content, encoding="utf-8")
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        read_texts(f"{tmp_path}/{name}")


def test_a_pipe_is_not_read(tmp_path):
    pipe = tmp_path / "a.txt"
    os.mkfifo(pipe)
    with pytest.raises(ValueError, match="is a pipe or a device"):
        read_texts(str(pipe))
    with pytest.raises(ValueError, match="is a pipe or a device"):
        load_pairs([f"{pipe}+{pipe}"], ("zh", "vi"))


@pytest.mark.parametrize(
    ("data", "asked"),
    [
        ("org/name#text", ("org/name", None, None)),
        ("org/name:vi#text", ("org/name", "vi", None)),
        ("org/name:vi@abc", ("org/name", "vi", "abc")),
    ],
)
def test_a_column_of_a_data_set_of_the_hub(data, asked, monkeypatch):
    def load_dataset(name, config, *, revision, split):
        assert (name, config, revision) == asked
        assert split == "train"
        return datasets.Dataset.from_dict({"text": ["một", "hai"]})

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    assert read_texts(data).texts == ["một", "hai"]


def test_what_is_no_file_and_not_on_the_hub_is_one_line(monkeypatch):
    monkeypatch.setattr(datasets, "load_dataset", lambda *_, **__: (_ for _ in ()).throw(ConnectionError("offline\n!")))
    with pytest.raises(
        FileNotFoundError, match=r"^org/name is not a file, and could not be loaded from the Hub \(offline !\)"
    ):
        read_texts("org/name#text")
    for name in ("folder/mine.csv#text", "mine.txt#text"):
        with pytest.raises(FileNotFoundError, match="is not a file"):
            read_texts(name)


def test_texts_of_any_kind_are_a_list():
    rows = datasets.Dataset.from_dict({"text": ["a", "b", "c"]}).select([2, 0])
    for texts in (rows["text"], rows.to_iterable_dataset()["text"], deque("ca"), iter("ca"), ("c", "a")):
        assert as_list(texts) == ["c", "a"]
