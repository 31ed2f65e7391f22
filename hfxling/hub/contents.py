"""What must not be public in a file, whatever its name says: secrets, and pickles, which run code when read."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import pickletools
import re
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from huggingface_hub import get_token

PICKLE_SUFFIXES = {".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle", ".joblib", ".h5", ".hdf5", ".keras", ".dill"}
PICKLE_SUFFIXES |= {".msgpack"}  # no pickle; of a framework that nothing here reads
# What a token begins with, and what the whole of it looks like: of huggingface_hub's documentation, and of the rules
# of gitleaks for what people of this field have in their environment.
SECRETS = [
    (("hf_",), r"hf_[A-Za-z0-9]{16,}"),
    (("api_org_",), r"api_org_[A-Za-z0-9]{16,}"),
    (("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), r"gh._[A-Za-z0-9]{30,}"),
    (("github_pat_",), r"github_pat_\w{22,}"),
    (("glpat-", "gldt-", "glrt-", "glptt-", "glsoat-", "glcbt-"), r"gl[a-z]+-[\w-]{20,}"),
    (("sk-",), r"sk-[\w-]{20,}"),
    (("sk_live_", "rk_live_"), r".k_live_[A-Za-z0-9]{20,}"),
    (("AKIA", "ASIA", "ABIA", "ACCA"), r"A..A[A-Z0-9]{16}"),
    (("aws_secret",), r"aws_secret(?:_access)?_key\W{1,6}[A-Za-z0-9/+]{40}"),
    (("AIza",), r"AIza[\w-]{35}"),
    (("ya29.",), r"ya29\.[\w-]{20,}"),
    (("xoxa-", "xoxb-", "xoxe-", "xoxo-", "xoxp-", "xoxr-", "xoxs-"), r"xox.-[\w-]{10,}"),
    (("hooks.slack.com/",), r"hooks\.slack\.com/services/\w+/\w+/\w+"),
    (("npm_",), r"npm_[A-Za-z0-9]{36}"),
    (("pypi-AgE",), r"pypi-AgE[\w-]{50,}"),
    (("SG.",), r"SG\.[\w-]{20,}\.[\w-]{20,}"),
    (("dckr_pat_",), r"dckr_pat_[\w-]{20,}"),
    (("wandb",), r"wandb\w{0,20}\W{1,6}[0-9a-f]{40}"),
    (("eyJ",), r"eyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{10,}"),
    (("://",), r"://[^\s/:@\"'<>{}$]+:[^\s/:@\"'<>{}$]{6,}@"),
    (("-----BEGIN ",), r"-----BEGIN [A-Z ]*PRIVATE KEY"),
]
_PATTERNS = [(start.encode(), re.compile(pattern.encode())) for starts, pattern in SECRETS for start in starts]
_WORD = re.compile(rb"[A-Za-z0-9_]")
_PADDING = (0, 1, 3)  # zeros after each letter of an ASCII word: in most encodings, in UTF-16, in UTF-32
_LEAST_TOKEN = 8  # letters of the user's own token; a shorter one is a word of a test
_BLOCK = 2**24  # bytes that are looked at together
_OVERLAP = 4096  # of a block with the next one: longer than any token
_MOST = 2**30  # bytes of an archive's content, unpacked
_DEEP = 3  # archives in archives
_NESTED = ("archive", "gzip", "bz2", "xz")


@dataclass(frozen=True)
class Finding:
    """Something in a file that must not be public.

    Attributes:
        what: in words.
        line: where, in a text; None in archives and binary files.
    """

    what: str
    line: int | None = None


PICKLE = "is a pickle, which runs code when it is read; publish safetensors"
OBJECTS = "holds a pickle, which runs code when it is read; publish safetensors, or arrays of numbers"
TOKEN = "holds a token or a key; take it out, and revoke it if it was shown"
TOO_MUCH = f"holds more than {_MOST >> 30} GiB when it is unpacked, and cannot be looked through; publish it unpacked"


def findings(name: str, content: Path | bytes) -> list[Finding]:
    """What of a file must not be public; of each kind the first.

    Args:
        name: of the file.
        content: of the file.
    """
    suffixes = {suffix.lower() for suffix in Path(name).suffixes}
    if suffixes & PICKLE_SUFFIXES:
        return [Finding(PICKLE)]
    with io.BytesIO(content) if isinstance(content, bytes) else content.open("rb") as file:
        return _in_file(file, [_MOST], 0)


def _in_file(file: BinaryIO, room: list[int], depth: int) -> list[Finding]:
    """What is in a file, or in the files that it packs; `room` is how much may still be unpacked."""
    start = file.read(512)
    file.seek(0)
    kind = _kind(start)
    if kind == "safetensors":
        return _in_text(io.BytesIO(file.read(8 + int.from_bytes(start[:8], "little"))), is_line_told=False)
    if kind == "numpy":
        return [Finding(OBJECTS)] if re.search(rb"descr'?\"?: *\[?.*['\"]\|?O", start) else []
    if kind == "parquet":
        return _in_parquet(file)
    if kind in _NESTED:
        if depth == _DEEP:
            return [Finding(TOO_MUCH)]
        by_kind: dict[str, Finding] = {}
        try:
            for part in _unpacked(file, kind, room):
                for finding in _in_file(part, room, depth + 1):
                    by_kind.setdefault(finding.what, Finding(finding.what))
        except _TooMuch:
            by_kind[TOO_MUCH] = Finding(TOO_MUCH)
        except (OSError, EOFError, ValueError, RuntimeError, zipfile.BadZipFile, tarfile.TarError, lzma.LZMAError):
            pass  # no archive after all: whoever reads it gets no file out of it either
        return list(by_kind.values())
    if _is_pickle(start, file):
        return [Finding(OBJECTS)]
    file.seek(0)
    return _in_text(file, is_line_told=depth == 0 and b"\0" not in start)


def _kind(start: bytes) -> str:
    """What the first bytes of a file say that it is."""
    if start.startswith(b"\x93NUMPY"):
        return "numpy"
    if start.startswith(b"PAR1"):
        return "parquet"
    if start.startswith(b"\x1f\x8b"):
        return "gzip"
    if start.startswith(b"BZh"):
        return "bz2"
    if start.startswith(b"\xfd7zXZ"):
        return "xz"
    if start.startswith(b"PK\x03\x04") or start[257:262] == b"ustar":
        return "archive"
    if start[8:10] == b'{"' and int.from_bytes(start[:8], "little") < 10**8:
        return "safetensors"
    return "other"


class _TooMuch(Exception):
    """An archive whose content is larger than may be unpacked."""


def _unpacked(file: BinaryIO, kind: str, room: list[int]) -> Iterator[BinaryIO]:
    """The files in a compressed file, each whole in memory."""
    if kind == "archive" and zipfile.is_zipfile(file):
        file.seek(0)
        with zipfile.ZipFile(file) as archive:
            for entry in archive.infolist():
                with archive.open(entry) as part:
                    yield _bounded(part, room)
        return
    file.seek(0)
    if kind == "archive":
        with tarfile.open(fileobj=file, mode="r:") as archive:
            for entry in archive:
                part = archive.extractfile(entry) if entry.isfile() else None
                if part is not None:
                    yield _bounded(part, room)
        return
    opened = {"gzip": gzip.open, "bz2": bz2.open, "xz": lzma.open}[kind]
    with opened(file) as part:
        yield _bounded(part, room)


def _bounded(part, room: list[int]) -> BinaryIO:
    """The content of a part, where there is room for it."""
    content = part.read(room[0] + 1)
    if len(content) > room[0]:
        raise _TooMuch
    room[0] -= len(content)
    return io.BytesIO(content)


def _in_parquet(file: BinaryIO) -> list[Finding]:
    """Secrets in the texts of a table, whose pages are compressed."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.ParquetFile(file)
        metadata = json.dumps({str(key): str(value) for key, value in (table.schema_arrow.metadata or {}).items()})
        if _first_secret(metadata.encode()) is not None:
            return [Finding(TOKEN)]
        for batch in table.iter_batches(batch_size=10_000):
            if _first_secret(json.dumps(batch.to_pylist(), default=str, ensure_ascii=False).encode()) is not None:
                return [Finding(TOKEN)]
    except (pa.ArrowException, OSError):
        return []  # no table after all
    return []


def _is_pickle(start: bytes, file: BinaryIO) -> bool:
    """Whether the file is a pickle that names something to be called, of any protocol; text that looks so is none."""
    is_of_new_protocol = start[:1] == b"\x80" and start[1:2] in (b"\2", b"\3", b"\4", b"\5")
    if not is_of_new_protocol and start[:1] not in b"(]}cilI":
        return False
    calls = False
    try:
        for operation, _, _ in pickletools.genops(file):
            calls = calls or operation.name in ("GLOBAL", "STACK_GLOBAL", "INST", "REDUCE", "OBJ", "NEWOBJ")
    except (ValueError, IndexError, OverflowError, MemoryError):
        return is_of_new_protocol and calls
    return is_of_new_protocol or calls


def _in_text(file: BinaryIO, *, is_line_told: bool) -> list[Finding]:
    """The first secret of a text in any encoding."""
    before = b""
    lines = 1
    while block := file.read(_BLOCK):
        data = before + block
        place = _first_secret(data)
        if place is not None:
            return [Finding(TOKEN, lines + data.count(b"\n", 0, place) if is_line_told else None)]
        before = data[-_OVERLAP:]
        lines += data.count(b"\n", 0, len(data) - len(before))
    return []


def _first_secret(data: bytes) -> int | None:
    """Where the first secret begins; tokens are ASCII, so that what they begin with is looked for in any encoding."""
    places = []
    token = (get_token() or "").encode()
    patterns = [*_PATTERNS]
    if len(token) >= _LEAST_TOKEN:
        patterns.append((token, re.compile(re.escape(token))))
    for padding in _PADDING:
        if padding and b"\0" not in data:
            break
        zeros = b"\0" * padding
        for start, pattern in patterns:
            padded = zeros.join(start[at : at + 1] for at in range(len(start)))
            place = data.find(padded)
            while place >= 0:
                if _begins_at(data, place, zeros, pattern):
                    places.append(place)
                    break
                place = data.find(padded, place + 1)
    return min(places, default=None)


def _begins_at(data: bytes, place: int, zeros: bytes, pattern: re.Pattern) -> bool:
    """Whether a secret begins there, and no longer word that only ends as one begins."""
    step = len(zeros) + 1
    before = data[place - step : place - step + 1] if place >= step else b""
    if _WORD.match(before) and data[place : place + 1] != b":":
        return False
    rest = data[place : place + _OVERLAP]
    return bool(pattern.match(rest.replace(zeros, b"") if zeros else rest))
