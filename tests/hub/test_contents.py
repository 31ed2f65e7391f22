"""Pickles, archives and secrets are found by what is in a file, whatever it is called."""

import bz2
import gzip
import io
import lzma
import pickle
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.numpy import save

from hfxling.hub.checks import code_faults, folder_contents, text_faults
from hfxling.hub.contents import ARCHIVE, OBJECTS, PICKLE, TOKEN, findings

SECRET = b"hf_" + b"abcdefghijklmnopqrstuvwxyz"
TEXT = b"one\ntwo " + SECRET + b"\n"


def zipped(name: str, data: bytes) -> bytes:
    with io.BytesIO() as file:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(name, data)
        return file.getvalue()


def tarred(name: str, data: bytes) -> bytes:
    with io.BytesIO() as file:
        with tarfile.open(fileobj=file, mode="w:gz") as archive:
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
        return file.getvalue()


def parquet(text: str) -> bytes:
    with io.BytesIO() as file:
        pq.write_table(pa.table({"source": ["a", text]}), file, compression="zstd")
        return file.getvalue()


def saved(write, value) -> bytes:
    with io.BytesIO() as file:
        write(file, value)
        return file.getvalue()


def named(value: object) -> str:
    """A case by its strings: packed bytes hold the time, which two workers of the tests may see differently."""
    return value if isinstance(value, str) else "-"


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.tsv", TEXT),
        ("big.tsv", b"x" * 16_777_200 + b"\n" + SECRET),  # over the edge of what is looked at together
        ("a.tsv.gz", gzip.compress(TEXT)),
        ("a.parquet", parquet(SECRET.decode())),
        ("latin.txt", "é ".encode("latin-1") + SECRET),
        ("utf16.txt", ("é " + SECRET.decode()).encode("utf-16")),
        ("utf16be.txt", SECRET.decode().encode("utf-16-be")),
        ("header.safetensors", save({"a": np.zeros(1, np.float32)}, {"note": SECRET.decode()})),
        ("no_suffix", TEXT),
    ],
    ids=named,
)
def test_a_token_is_found_in_any_file(name, data):
    assert [finding.what for finding in findings(name, data)] == [TOKEN]


@pytest.mark.parametrize(
    "text",
    [
        "glpat-abcdefghij0123456789",
        "github_pat_11ABCDEFG0abcdefghijkl_mnopqrstuvwxyz",
        "ghp_" + "a1" * 18,
        "AKIAIOSFODNN7EXAMPLE",
        "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        "AIza" + "a" * 35,
        "xoxb-123456789012-abcdefghij",
        "sk-proj-abcdefghijklmnopqrstuv",
        "https://me:secret99@huggingface.co/org/x",
        "-----BEGIN OPENSSH PRIVATE KEY-----",
    ],
)
def test_tokens_of_many_kinds(text):
    (finding,) = findings("notes.txt", f"first line\nkey: {text}\n".encode())
    assert (finding.what, finding.line) == (TOKEN, 2)


@pytest.mark.parametrize(
    "text",
    [
        "see https://huggingface.co/org/x and me@example.org",
        "risk-averse people who ask-a-question-of-many-words",
        "hf_hub_download and sk-learn, glpat-, AKIA",
        "ngân hàng 今天下雨 a/b:c@d",
        "(a) list] of }things. cold",
    ],
)
def test_plain_text_is_left_alone(text):
    assert findings("notes.txt", text.encode()) == []


class Evil:
    def __reduce__(self):
        return print, ("run",)


@pytest.mark.parametrize(
    ("name", "data", "what"),
    [
        ("EVIL.PKL", b"x", PICKLE),
        ("x.pt", b"x", PICKLE),
        ("x.pth.tar", b"x", PICKLE),
        ("weights.dat", pickle.dumps(Evil()), OBJECTS),
        ("weights.txt", pickle.dumps(Evil(), protocol=0), OBJECTS),
        ("weights.safetensors", pickle.dumps({"a": 1}, protocol=2), OBJECTS),
        ("objects.npy", saved(lambda file, value: np.save(file, value), np.array([Evil()], object)), OBJECTS),
        ("weights.dat", saved(lambda file, value: torch.save(value, file), {"a": torch.zeros(1)}), ARCHIVE),
        ("weights.gz", gzip.compress(pickle.dumps(Evil())), OBJECTS),
        ("a.zip", zipped("a.npy", saved(np.save, np.array([Evil()], object))), ARCHIVE),
        ("a.tar.gz", tarred("b.txt", TEXT), ARCHIVE),
        ("a.gz.gz", gzip.compress(gzip.compress(TEXT)), ARCHIVE),
        ("a.bz2", bz2.compress(TEXT), ARCHIVE),
        ("a.xz", lzma.compress(TEXT), ARCHIVE),
    ],
    ids=named,
)
def test_pickles_and_archives_are_found_by_what_they_are(name, data, what):
    assert [finding.what for finding in findings(name, data)] == [what]


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.npy", saved(np.save, np.zeros(3))),
        ("a.safetensors", save({"a": np.zeros(3, np.float32)})),
        ("broken.gz", b"\x1f\x8b\x08 no gzip"),
        ("broken.parquet", b"PAR1 no table"),
    ],
    ids=named,
)
def test_numbers_and_damaged_files_are_no_pickles(name, data):
    assert findings(name, data) == []


def test_a_link_out_of_the_folder_is_refused(tmp_path):
    folder = tmp_path / "model"
    (folder / "sub").mkdir(parents=True)
    (tmp_path / "secret").write_text("x")
    (folder / "real").write_text("x")
    (folder / "sub" / "out").symlink_to(tmp_path / "secret")
    (folder / "sub" / "in").symlink_to(folder / "real")
    (fault,) = text_faults({name: folder / name for name in ("real", "sub/out", "sub/in")})
    assert fault == "sub/out: is a link to a file elsewhere; put the file itself there"


def test_a_link_to_a_folder_is_refused_and_not_passed_over(tmp_path):
    folder = tmp_path / "model"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub" / "real").write_text("x")
    (folder / "out").symlink_to(tmp_path)
    (folder / "sub" / "in").symlink_to(folder / "sub")
    (folder / "gone").symlink_to(tmp_path / "nowhere")
    contents = folder_contents(folder)
    assert {"gone", "out", "sub/in", "sub/real"} == {*contents}
    told = "is a link that leads to no file; put the files themselves there, or remove it"
    assert text_faults(contents) == [f"gone: {told}", f"out: {told}", f"sub/in: {told}"]


def test_code_that_is_not_ours_is_told_from_our_own():
    from hfxling import models

    own = Path(models.__file__).with_name("losses.py")
    files = {"losses.py": own, "sparse/losses.py": own.read_bytes(), "pooling.py": own.read_bytes() + b"\n"}
    faults = code_faults(files | {"evil.py": b"print(1)", "x.so": b"", "README.md": b""})
    assert [fault.partition(":")[0] for fault in faults] == ["pooling.py", "evil.py", "x.so"]
    assert all("--trust_remote_code" in fault for fault in faults)
