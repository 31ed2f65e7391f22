"""Contents of files that are wrong: tables of `chaos.py`."""

from __future__ import annotations

import io
import json

import numpy as np
from chaos_values import METHODS

PAIRS = b"".join(f"这是第{i}句话。\tĐây là câu số {i}.\n".encode() for i in range(40))
_NUL = PAIRS.replace(b"c\xc3\xa2u", b"c\0u", 1)


def _parquet(source: list, target: list) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = io.BytesIO()
    pq.write_table(pa.table({"zh": source, "vi": target}), file)
    return file.getvalue()


def _jsonl(*lines: str) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


_ROW = '{"zh": "今天下雨。", "vi": "Hôm nay trời mưa."}'
# (name, content, words): tables of sentence pairs.
TABLES = [
    ("empty.tsv", b"", ("no sentence pair", "empty.tsv")),
    ("header.tsv", b"zh\tvi\n", ("no sentence pair",)),
    ("side.tsv", PAIRS + b"a\t\n", ("line 41", "empty|holds no text")),
    ("wide.tsv", PAIRS + b"a\tb\tc\n", ("line 41", "too many columns")),
    ("narrow.tsv", PAIRS + b"a\n", ("line 41", "too few columns")),
    ("one.tsv", b"a\nb\n", ("1 column",)),
    ("nul.tsv", _NUL, ("U+0000", "line 1")),
    ("cr.tsv", PAIRS.replace(b"\n", b"\r"), ("\\r", "line")),
    ("latin.tsv", PAIRS + "câu\tcâu\n".encode("latin-1"), ("line 41", "UTF-8")),
    ("utf16.tsv", PAIRS.decode().encode("utf-16"), ("UTF-16",)),
    ("gzip.tsv", b"\x1f\x8b\x08\x00" + PAIRS, ("gzip",)),
    ("broken.tsv.gz", b"\x1f\x8b\x08\x00" + PAIRS, ("damaged .gz",)),
    ("plain.tsv.gz", PAIRS, ("damaged .gz",)),
    ("plain.tsv.xz", PAIRS, ("damaged .xz",)),
    ("zip.tsv", b"PK\x03\x04" + PAIRS, ("zip|control",)),
    ("quote.csv", b'zh,vi\n"a,b\n', ("line 2", "quotes")),
    ("long.csv", b'zh,vi\na,"' + b"b" * 1_100_000 + b'"\n', ("line 2", "1000000")),
    ("invisible.tsv", PAIRS + "\u200b\tb\n".encode(), ("line 41", "zero-width|no text")),
    ("broken.jsonl", _jsonl(_ROW, '{"zh": "a"'), ("line 2", "JSON")),
    ("list.jsonl", _jsonl(_ROW, "[1]"), ("line 2", "a list")),
    ("number.jsonl", _jsonl(_ROW, '{"zh": 3, "vi": "b"}'), ("line 2", "number")),
    ("null.jsonl", _jsonl(_ROW, '{"zh": null, "vi": "b"}'), ("line 2", "null")),
    ("key.jsonl", _jsonl(_ROW, '{"zh": "a", "v": "b"}'), ("line 2", "vi")),
    ("huge.jsonl", _jsonl(_ROW, f'{{"zh": {"9" * 5000}, "vi": "b"}}'), ("line 2",)),
    ("deep.jsonl", _jsonl(_ROW, "[" * 100_000), ("line 2", "JSON|nested")),
    ("nested.jsonl", _jsonl(_ROW, f'{{"zh": {"[" * 60_000}{"]" * 60_000}, "vi": "b"}}'), ("line 2",)),
    ("surrogate.jsonl", _jsonl(_ROW, '{"zh": "\\ud800", "vi": "b"}'), ("line 2", "JSON")),
    ("nan.jsonl", _jsonl(_ROW, '{"zh": NaN, "vi": "b"}'), ("line 2",)),
    ("text.parquet", PAIRS, ("Parquet",)),
    ("cut.parquet", _parquet(["a"] * 50, ["b"] * 50)[:-9], ("Parquet",)),
    ("nul.parquet", _parquet(["a\0", "b"], ["c", "d"]), ("row 1", "U+0000")),
    ("numbers.parquet", _parquet([1, 2], ["c", "d"]), ("row 1", "number")),
    ("nulls.parquet", _parquet(["a", None], ["c", "d"]), ("row 2", "null")),
    ("nobody.tsv", None, ("nobody.tsv", "exist|no such|not a file")),
    ("book.tsv", PAIRS + b"a\t" + b"ten megabytes " * 720_000 + b"\n", ("line 41", "letters", "at most")),
    ("word.tsv", PAIRS + "今".encode() * 3_400_000 + b"\tb\n", ("line 41", "letters", "at most")),
    ("text.docx", PAIRS, (".tsv",)),
]
TABLE_READERS = [*((name, "train_data") for name in METHODS), ("siamese", "test_data"), ("quality", "")]
TABLE_READERS += [("evaluate", "data"), ("fit", ""), ("pretrain", "parallel")]
TABLE_READERS += [("mine", "known"), ("bootstrap", "seed_pairs")]
# (name, content, words): one sentence a line.
LINES = [
    ("empty.txt", b"", ("empty.txt|no line|no sentence|0 lines|no word|no text|no pair|none of 0 pairs",)),
    ("nul.txt", b"a\nb\0\n", ("nul.txt", "line 2", "U+0000")),
    ("latin.txt", "a\ncâu\n".encode("latin-1"), ("latin.txt", "line 2", "UTF-8")),
    ("utf16.txt", "câu\n".encode("utf-16"), ("utf16.txt", "UTF-16")),
    ("broken.txt.gz", b"\x1f\x8b\x08\x00abc", ("broken.txt.gz", "damaged")),
    ("nobody.txt", None, ("nobody.txt", "exist|no such|is not a file")),
    ("folder.txt", "folder", ("folder.txt", "folder|no such")),
    (
        "book.txt",
        PAIRS.replace(b"\t", b" ") + b"ten megabytes " * 720_000 + b"\n",
        ("letters|documents|pieces",),
    ),
]
LINE_READERS = [
    ("nearest", "candidates"),
    ("encode", ""),
    ("align", ""),
    ("lexicon", ""),
    ("fit", ""),
    ("pretrain", "texts"),
]
LINE_READERS += [("lexical", "distractors"), ("mine", ""), ("bootstrap", ""), ("align-documents", "")]


def _npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    return file.getvalue()


def _vectors(kind: str, value: float = 0.0) -> bytes:
    array = np.random.default_rng(0).standard_normal((160, 16)).astype(np.float32)
    if kind == "row":
        array[7] = value
    return _npy(array * value if kind == "scale" else array)


# (name, content, words): vectors of the 160 training pairs, source side.
VECTORS = [
    ("nan.npy", _vectors("row", np.nan), ("nan.npy", "rows 8")),
    ("infinite.npy", _vectors("row", np.inf), ("infinite.npy", "rows 8")),
    ("zero.npy", _vectors("row", 0), ("zero.npy", "rows 8")),
    ("tiny.npy", _vectors("scale", 1e-30), ("tiny.npy|vectors", "small|short|length|tiny")),
    ("fewer.npy", _npy(np.ones((50, 16), np.float32)), ("fewer.npy", "50", "160")),
    ("flat.npy", _npy(np.ones(160, np.float32)), ("flat.npy", "two-dimensional")),
    ("whole.npy", _npy(np.ones((160, 16), np.int64)), ("whole.npy", "float")),
    ("words.npy", _npy(np.full((160, 16), "a")), ("words.npy", "float")),
    ("things.npy", _npy(np.full((160, 16), None)), ("things.npy", "float|array")),
    ("truth.npy", _npy(np.ones((160, 16), bool)), ("truth.npy", "float")),
    ("narrow.npy", _npy(np.random.default_rng(0).standard_normal((160, 8)).astype(np.float32)), ("width|dimensions",)),
    ("cut.npy", _vectors("")[:-40], ("cut.npy", ".npy array")),
    ("text.npy", PAIRS, ("text.npy", ".npy array")),
    ("words.jsonl", _jsonl(*['["1", "2"]'] * 160), ("words.jsonl", "line 1", "numbers")),
    ("truth.jsonl", _jsonl(*["[true, false]"] * 160), ("truth.jsonl", "line 1", "numbers")),
    ("ragged.jsonl", _jsonl("[1, 2]", "[1]"), ("ragged.jsonl", "line 2")),
    ("deep.jsonl", _jsonl("[" * 100_000), ("deep.jsonl", "line 1")),
    ("huge.jsonl", _jsonl(f"[{'9' * 5000}]"), ("huge.jsonl", "line 1")),
    ("key.jsonl", _jsonl('{"a": [1], "b": [2]}'), ("key.jsonl", "embedding")),
    ("text.parquet", PAIRS, ("text.parquet", "Parquet")),
    ("words.parquet", _parquet([["a"]], [["b"]]), ("words.parquet",)),
    ("vectors.csv", b"1,2\n", (".npy",)),
    ("nobody.npy", None, ("nobody.npy", "no such file")),
]
# (program, option, content, words): further files that some read.
FILES = [
    ("lexicon", "dictionary", b"word\n", ("line 1", "TAB")),
    ("lexicon", "dictionary", b"\xff\xfe", ("UTF-8",)),
    ("lexicon", "dictionary", b"", ("no entries",)),
    ("quality", "calibration", b"{}", ("calibration",)),
    ("quality", "calibration", b'{"kind": 3}', ("calibration",)),
    ("quality", "calibration", b"[" * 100_000, ("calibration",)),
    ("aligner", "gold", b"a b\tc d\t5-0\n", ("line 1",)),
    ("aligner", "dictionaries", b"word\n", ("line 1", "TAB")),
    ("lexical", "lexicon", b"word\n", ("line 1", "TAB")),
    ("xnli", "train_data", b"label\tpremise\thypothesis\nmaybe\ta\tb\n", ("maybe",)),
    ("xnli", "train_data", b"premise\thypothesis\na\tb\n", ("label",)),
    ("xnli", "train_data", b"label\tpremise\thypothesis\n", ("no |empty|give",)),
    ("disentangler", "qe", "folder", ("test20",)),
    ("disentangler", "sts", "folder", ("STS17",)),
]
_RESULTS = json.dumps({"results": [{"metric": "P@1", "value": 3}]}).encode()
FILES += [
    ("clean", "", b"", ("no sentence pair",)),
    ("clean", "", PAIRS + "c\u00e2u\tc\u00e2u\n".encode("latin-1"), ("line 41", "UTF-8")),
    ("clean", "", PAIRS.decode().encode("utf-16"), ("UTF-16",)),
    ("clean", "", b"a\nb\n", ("1 column",)),
    ("clean", "", _NUL, ("U+0000", "line 1")),
    ("clean", "", None, ("given", "exist")),
    ("clean", "", "folder", ("given", "folder")),
    ("clean", "", b"a\tb\n" * 30, ("k=4", "distinct texts")),
    ("mine", "", b"a\nb\nc\n", ("k=4", "3 sentences")),
    ("align-documents", "", b"\n\n\n", ("no sentence",)),
    ("align-documents", "", b"a\n\nb\n", ("2", "documents", "pair_documents")),
    ("compare", "", b"{}", ("given", "results")),
    ("compare", "", b"[]", ("given", "results")),
    ("compare", "", b"", ("given", "results file")),
    ("compare", "", b"\xff\xfe", ("given", "results file")),
    ("compare", "", b"[" * 100_000, ("given", "results file")),
    ("compare", "", b'{"results": [' + b"9" * 5000 + b"]}", ("given",)),
    ("compare", "", b'{"results": [3]}', ("given", "results[0]")),
    ("compare", "", b'{"results": []}', ("given", "no row")),
    ("compare", "", _RESULTS, ("given", "results[0]")),
]
_BOMB = "[&a [x,x,x,x,x,x,x,x,x],&b [*a,*a,*a,*a,*a,*a,*a,*a,*a]"
_BOMB += "".join(f",&{new} [{','.join([f'*{old}'] * 9)}]" for old, new in zip("bcdefghij", "cdefghijk")) + "]"
# (content of a YAML file, words).
YAMLS = [
    (f"layer: {_BOMB}\n", ("given.yaml|aliases",)),
    (f"layer: {'[' * 20_000}\n", ("nested",)),
    (f"layer: {'[' * 20_000}{']' * 20_000}\n", ("nested",)),
    (f"layer: {'{a: ' * 20_000}\n", ("nested",)),
    ("layer: [1, 2]\n", ("layer", "list")),
    ("pairs: no\n", ("pairs", "no")),
    ("base_model: no\n", ("base_model", "no")),
    ("pooling: {mean: 1}\n", ("pooling",)),
    ("- a\n", ("key: value",)),
    ("a: [\n", ("YAML",)),
    ("layr: 3\n", ("layr", "layer")),
    ("\x00", ("YAML",)),
    ("a: &x [*x]\n", ("a",)),
    ("3: 4\n", ("3",)),
    ("", ("key: value",)),
    ("output_dir:\n  - a\n  - b\n", ("output_dir", "list")),
]
STUDIES = [
    ("study: 3\n", ("study",)),
    ("study: {name: ../../escape, title: t, rows: [{label: a}]}\n", ("name", "escape")),
    ("study: {name: /tmp/escape, title: t, rows: [{label: a}]}\n", ("name", "escape")),
    ('study: {name: "a\\0b", title: t, rows: [{label: a}]}\n', ("name",)),
    (f"study: {_BOMB}\n", ("aliases|nested|given.yaml",)),
    ("study: {name: s, title: t}\n", ("rows",)),
    ("study: {name: s, title: t, rows: [3]}\n", ("row",)),
    ("study: {name: s, title: t, rows: [{label: a}, {label: a}]}\n", ("label",)),
    ("study: {name: s, title: t, rows: [{set: {fit: cca}}]}\n", ("label",)),
    ("study: {name: s, title: t, rows: [{label: a, set: 3}]}\n", ("set",)),
    ("study: {name: s, title: t, rows: [{label: a, set: {fitt: cca}}]}\n", ("fitt", "fit")),
    ("study: {name: s, title: t, method: magic, rows: [{label: a}]}\n", ("magic", "siamese")),
    ("study: {name: s, title: t, seeds: [x], rows: [{label: a}]}\n", ("seeds",)),
    ("study: {name: s, title: t, rows: [{label: a, seeds: 3}]}\n", ("seeds",)),
    ("study: {name: s, title: t, grid: [3]}\n", ("grid",)),
    ("study: {name: s, title: t, rows: [{label: a, set: {max_steps: 0}}]}\n", ("max_steps",)),
]
