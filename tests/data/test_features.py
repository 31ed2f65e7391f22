"""The cache of frozen vectors survives kills and is shared by processes; vectors that users bring are checked."""

import json
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hfxling.data import features
from hfxling.data.features import cached_features, load_vectors

ROOT = Path(__file__).resolve().parents[2]
TEXTS = [f"text {i} " + "x" * (i % 5) for i in range(12)]


def vectors_of(texts):
    return np.array([[len(text), sum(map(ord, text))] for text in texts], np.float32)


class Encoder:
    """Remembers what it was asked for; fails at call number `fail_at`."""

    def __init__(self, fail_at=None):
        self.calls, self.fail_at = [], fail_at

    def __call__(self, texts):
        self.calls.append(texts)
        if len(self.calls) == self.fail_at:
            raise KeyboardInterrupt
        return vectors_of(texts)

    @property
    def seen(self):
        return [text for call in self.calls for text in call]


def cached(texts, encode, folder, key=None, shape=(2,)):
    return cached_features(texts, encode, key=key or {"model": "m", "layer": 7}, shape=shape, cache_dir=folder)


def finished(folder):
    return list(Path(folder).rglob("features.npy"))


def test_every_distinct_text_is_encoded_once_and_rows_follow_the_caller(tmp_path):
    texts = ["b", "aaa", "b", "", "aaa", "cc"]
    encoder = Encoder()
    found = cached(texts, encoder, tmp_path)
    assert encoder.calls == [["aaa", "cc", "b", ""]]  # the longest first
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, vectors_of(texts))


def test_a_second_call_reads_the_file(tmp_path):
    cached(TEXTS, Encoder(), tmp_path)
    again = Encoder()
    found = cached(TEXTS, again, tmp_path)
    assert again.calls == []
    assert isinstance(found, np.memmap)
    np.testing.assert_array_equal(found, vectors_of(TEXTS))
    assert cached([*TEXTS, TEXTS[3]], again, tmp_path).shape == (13, 2)
    assert again.calls == []


@pytest.mark.parametrize("damage", ["empty", "cut", "garbled", "other shape", "other numbers"])
@pytest.mark.parametrize("name", ["features.npy", "features.unfinished.npy"])
def test_a_damaged_file_of_an_earlier_run_is_named(tmp_path, name, damage):
    cached(["a", "bb"], Encoder(), tmp_path)
    path = finished(tmp_path)[0].rename(finished(tmp_path)[0].with_name(name))
    if damage in ("other shape", "other numbers"):
        np.save(path, np.zeros((3, 2), np.float32) if damage == "other shape" else np.zeros((2, 2), np.int64))
    else:
        path.write_bytes({"empty": b"", "cut": path.read_bytes()[:-3], "garbled": b"\x07" * 300}[damage])
    with pytest.raises(ValueError, match=f"{name} is damaged.*; remove the folder"):
        cached(["a", "bb"], Encoder(), tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        {"key": {"model": "m", "layer": 8}},
        {"key": {"model": "m", "layer": 7, "dtype": "bfloat16"}},
        {"texts": [*TEXTS[:-1], "another"]},
        {"texts": TEXTS[::-1]},
        {"texts": [*TEXTS[:-2], "\0".join(TEXTS[-2:])]},
    ],
)
def test_whatever_changes_the_vectors_changes_the_cache(change, tmp_path):
    cached(TEXTS, Encoder(), tmp_path)
    encoder = Encoder()
    arguments = {"texts": TEXTS, "encode": encoder, "folder": tmp_path} | change
    np.testing.assert_array_equal(cached(**arguments), vectors_of(arguments["texts"]))
    assert len(encoder.seen) == len(arguments["texts"])
    assert len(finished(tmp_path)) == 2


def test_another_shape_is_another_cache(tmp_path):
    cached(TEXTS, Encoder(), tmp_path)
    found = cached(TEXTS, lambda texts: vectors_of(texts)[:, None], tmp_path, shape=(1, 2))
    assert found.shape == (12, 1, 2)


def test_no_texts(tmp_path):
    encoder = Encoder()
    assert cached([], encoder, tmp_path).shape == (0, 2)
    assert encoder.calls == []


def test_an_interrupted_run_goes_on_where_it_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr(features, "CHUNK", 4)
    first, second = Encoder(fail_at=3), Encoder()
    with pytest.raises(KeyboardInterrupt):
        cached(TEXTS, first, tmp_path)
    assert not finished(tmp_path)
    found = cached(TEXTS, second, tmp_path)
    assert second.calls == first.calls[2:]
    np.testing.assert_array_equal(found, vectors_of(TEXTS))
    assert {path.name for path in finished(tmp_path)[0].parent.iterdir()} == {"features.npy", "key.json", "lock"}


def test_another_process_finishes_just_before_this_one_begins(tmp_path, monkeypatch):
    plain = features.hold_lock

    @contextmanager
    def lock(path, wait=True):
        with plain(path, wait) as mine:
            yield mine
        (path.parent / "features.unfinished.npy").unlink(missing_ok=True)
        np.save(path.parent / "features.npy", vectors_of(TEXTS))

    monkeypatch.setattr(features, "hold_lock", lock)
    encoder = Encoder()
    np.testing.assert_array_equal(cached(TEXTS, encoder, tmp_path), vectors_of(TEXTS))
    assert encoder.calls == []


def test_an_unfinished_file_that_is_deleted_is_begun_anew(tmp_path, monkeypatch):
    monkeypatch.setattr(features, "CHUNK", 4)
    with pytest.raises(KeyboardInterrupt):
        cached(TEXTS, Encoder(fail_at=3), tmp_path)
    (left,) = tmp_path.rglob("*.npy")
    left.unlink()
    encoder = Encoder()
    np.testing.assert_array_equal(cached(TEXTS, encoder, tmp_path), vectors_of(TEXTS))
    assert sorted(encoder.seen) == sorted(TEXTS)


def test_an_unfinished_file_that_is_deleted_under_way_is_begun_anew(tmp_path, monkeypatch):
    monkeypatch.setattr(features, "CHUNK", 4)
    encoder = Encoder()

    def encode(texts):
        if len(encoder.calls) == 2:
            (left,) = tmp_path.rglob("*.npy")
            left.unlink()
        return encoder(texts)

    np.testing.assert_array_equal(cached(TEXTS, encode, tmp_path), vectors_of(TEXTS))


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (lambda x: x[:, :1], r"shape \(12, 1\), not \(12, 2\), for 12 texts, first 'text 4 xxxx'"),
        (lambda x: x[:-1], r"shape \(11, 2\), not \(12, 2\)"),
        (lambda x: np.where(x == 11, np.nan, x), "NaN or infinite values for 2 texts, first 'text 4 xxxx'"),
        (lambda x: np.where(x == 7, np.inf, x), "NaN or infinite values for 2 texts, first 'text 0 '"),
    ],
)
def test_what_the_encoder_may_not_return(broken, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        cached(TEXTS, lambda texts: broken(vectors_of(texts)), tmp_path)
    assert not finished(tmp_path)


# Runs the cache in a process of its own: {"name", "folder", "texts", ...} as its argument, one line a text encoded in
# folder/NAME.log, the result in folder/NAME.npy.
WORKER = """
import json, os, signal, sys, time
from pathlib import Path
import numpy as np
from hfxling.data import features

job = json.loads(sys.argv[1])
folder, calls = Path(job["folder"]), []
features.CHUNK = 4

def encode(texts):
    calls.append(texts)
    (folder / (job["name"] + ".started")).touch()
    if job.get("kill_at") == len(calls):
        os.kill(os.getpid(), signal.SIGKILL)
    while "wait_for" in job and not (folder / (job["wait_for"] + ".started")).exists():
        time.sleep(0.01)
    with open(folder / (job["name"] + ".log"), "a") as log:
        log.writelines(text + "\\n" for text in texts)
    return np.array([[len(text), sum(map(ord, text))] for text in texts], np.float32)

key = {"model": "m", "layer": 7}
found = features.cached_features(job["texts"], encode, key=key, shape=(2,), cache_dir=folder / "cache")
np.save(folder / (job["name"] + ".npy"), found)
"""


def start(folder, name, **job):
    job = {"name": name, "folder": str(folder), "texts": TEXTS, **job}
    return subprocess.Popen(
        [sys.executable, "-c", WORKER, json.dumps(job)], cwd=ROOT, stderr=subprocess.DEVNULL, start_new_session=True
    )


def logged(folder, name):
    return (folder / f"{name}.log").read_text().splitlines()


def test_a_killed_process_leaves_its_finished_chunks(tmp_path, monkeypatch):
    monkeypatch.setattr(features, "CHUNK", 4)
    assert start(tmp_path, "first", kill_at=3).wait(60) == -signal.SIGKILL
    second = Encoder()
    found = cached(TEXTS, second, tmp_path / "cache")
    assert len(logged(tmp_path, "first")) == 8
    assert sorted(logged(tmp_path, "first") + second.seen) == sorted(TEXTS)
    np.testing.assert_array_equal(found, vectors_of(TEXTS))


def test_two_processes_share_the_texts(tmp_path):
    # Each holds its first chunk until the other one has begun, so that neither can do everything.
    processes = [start(tmp_path, "a", wait_for="b"), start(tmp_path, "b", wait_for="a")]
    assert [process.wait(60) for process in processes] == [0, 0]
    shares = [logged(tmp_path, name) for name in "ab"]
    assert all(shares)
    assert sorted(shares[0] + shares[1]) == sorted(TEXTS)
    for name in "ab":
        np.testing.assert_array_equal(np.load(tmp_path / f"{name}.npy"), vectors_of(TEXTS))


def test_the_chunk_of_a_process_that_dies_is_taken_over(tmp_path, monkeypatch):
    monkeypatch.setattr(features, "CHUNK", 4)
    other = start(tmp_path, "other", wait_for="never")
    while not (tmp_path / "other.started").exists():
        assert other.poll() is None
    calls = []

    def encode(texts):
        if not calls:
            other.kill()
            other.wait()
        calls.append(texts)
        return vectors_of(texts)

    np.testing.assert_array_equal(cached(TEXTS, encode, tmp_path / "cache"), vectors_of(TEXTS))
    longest = sorted(TEXTS, key=len, reverse=True)
    assert [sorted(call) for call in calls] == [sorted(longest[i : i + 4]) for i in (4, 8, 0)]


VALUES = [[1.0, 2.0], [3.0, 0.5], [0.0, 1.0]]


def write(path, content):
    """Content as the suffix says: an array, a pyarrow table or text."""
    if isinstance(content, np.ndarray):
        np.save(path, content)
    elif isinstance(content, dict):
        pq.write_table(pa.table(content), path, row_group_size=2)
    elif isinstance(content, bytes):
        path.write_bytes(content)
    else:
        path.write_text(content, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "content", "column"),
    [
        ("v.npy", np.array(VALUES, np.float32), None),
        ("v.npy", np.array(VALUES, np.float64), None),
        ("v.npy", np.array(VALUES, np.float16), None),
        ("v.parquet", {"embedding": VALUES, "text": ["a", "b", "c"]}, None),
        ("v.parquet", {"anything": VALUES}, None),
        ("v.parquet", {"a": [[1.0]] * 3, "b": VALUES}, "b"),
        ("v.parquet", {"vector": pa.array(VALUES, pa.list_(pa.float32(), 2))}, None),
        ("v.jsonl", "".join(f"{row}\n" for row in VALUES), None),
        ("v.jsonl", "".join(json.dumps({"index": 0, "embedding": row}) + "\n" for row in VALUES), None),
        ("v.jsonl", "".join(json.dumps({"x": row, "y": 1}) + "\n" for row in VALUES), "x"),
    ],
)
def test_vectors_of_the_user(name, content, column, tmp_path):
    found = load_vectors(write(tmp_path / name, content), rows=3, column=column)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, np.array(VALUES, np.float32))


def test_a_float32_array_stays_on_disk(tmp_path):
    assert isinstance(load_vectors(write(tmp_path / "v.npy", np.ones((3, 2), np.float32))), np.memmap)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("v.txt", "1 2", r"v\.txt: vectors are read from \.npy, \.parquet or \.jsonl, not '\.txt'"),
        ("v.npy", np.ones(3), r"two-dimensional float array, got float64 of shape \(3,\)"),
        ("v.npy", np.ones((3, 2), np.int64), "two-dimensional float array, got int64"),
        ("v.npy", np.ones((4, 2)), "4 vectors for 3 texts"),
        ("v.npy", np.ones((0, 2)), "no vectors; give one for each text"),
        ("v.npy", np.array([[1, 1], [np.nan, 1], [np.inf, 1]]), "all-zero or tiny vectors in rows 2, 3;"),
        ("v.npy", np.array([[1, 1], [1, 1], [0, 0]]) + 0.0, "all-zero or tiny vectors in rows 3;"),
        ("v.npy", np.full((3, 2), 1e300), "all-zero or tiny vectors in rows 1, 2, 3;"),
        ("v.npy", np.array([[1], [1, 2], None], dtype=object), r"v\.npy: not a readable \.npy array"),
        ("v.npy", "not an array", r"v\.npy: not a readable \.npy array"),
        ("v.parquet", {"embedding": [[1.0], [1.0, 2.0], [1.0]]}, r"different widths \(1, 2\)"),
        ("v.parquet", {"embedding": [[1.0], None, [1.0]]}, r"different widths \(1, 0\); .* a missing one counts as 0"),
        ("v.parquet", {"embedding": pa.array([], pa.list_(pa.float32()))}, "no vectors"),
        ("v.parquet", {"embedding": ["a", "b", "c"]}, "column 'embedding' holds string; name one with a list"),
        ("v.parquet", {"embedding": [["a"], ["b"], ["c"]]}, "column 'embedding' holds list<element: string>"),
        ("v.parquet", {"a": VALUES, "b": VALUES}, "no column 'embedding'; name one of a, b"),
        ("v.parquet", "PAR1", r"v\.parquet: not a readable Parquet file"),
        ("v.jsonl", "[1, 2]\n[1]\n", "line 2: 1 numbers, but line 1 has 2"),
        ("v.jsonl", "[1, 2]\n[1, \n", r"v\.jsonl, line 2: not JSON"),
        ("v.jsonl", "[1, 2]\n\n[1, 2]\n", "line 2: not JSON"),
        ("v.jsonl", b"[1, 2]\n\xff\xff\n", "line 2: not JSON in UTF-8"),
        ("v.jsonl", "[[1, 2], [1]]\n", r"line 1: '\[\[1, 2\], \[1\]\]' is not a vector"),
        ("v.jsonl", '{"embedding": "abc"}\n', "line 1: 'abc' is not a vector"),
        ("v.jsonl", '{"embedding": null}\n', "line 1: 'None' is not a vector"),
        ("v.jsonl", '[1, 2]\n{"a": [1, 2], "b": 1}\n', "line 2: no column 'embedding'; name one of a, b"),
        ("v.jsonl", "", "no vectors; give one for each text"),
        ("v.jsonl", '["1", "2"]\n', "line 1: .* is not a vector; give a list of numbers"),
        ("v.jsonl", "[1, 2]\n[true, 2.0]\n", r"line 2: '\[True, 2.0\]' is not a vector"),
        ("v.jsonl", "[" * 100_000, "line 1: not JSON"),
        ("v.jsonl", f"[{'9' * 5000}]", "line 1: not JSON"),
        ("v.jsonl", f"[{'9' * 400}]", "line 1: .* is not a vector"),
        ("v.npy", np.array([[1, 1], [1e-12, 0], [0, 1e-30]]), "all-zero or tiny vectors in rows 2, 3;"),
    ],
)
def test_vectors_that_are_refused(name, content, message, tmp_path):
    with pytest.raises(ValueError, match=message) as error:
        load_vectors(write(tmp_path / name, content), rows=3)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["missing.npy", "."])
def test_a_file_that_is_not_there(name, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no such file; give a \.npy, \.parquet or \.jsonl file"):
        load_vectors(tmp_path / name)


def test_a_column_that_is_not_there(tmp_path):
    path = write(tmp_path / "v.parquet", {"embedding": VALUES})
    with pytest.raises(ValueError, match="no column 'vectors'; name one of embedding"):
        load_vectors(path, column="vectors")
