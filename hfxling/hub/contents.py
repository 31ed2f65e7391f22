"""Find what must not be public in a file, whatever its name: secrets, and pickles, which run code when read."""

from __future__ import annotations

import gzip
import io
import json
import pickletools
import re
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from huggingface_hub import get_token

PICKLE_SUFFIXES = {".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle", ".joblib", ".h5", ".hdf5", ".keras", ".dill"}
PICKLE_SUFFIXES |= {".msgpack"}  # no pickle, but of a framework that nothing here reads
# How tokens begin and continue, from huggingface_hub's documentation and from gitleaks' rules for what people of this
# field have in their environment.
SECRETS = [
    (("hf_", "api_org_"), r"[A-Za-z0-9]{16,}"),
    (("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), r"[A-Za-z0-9]{30,}"),
    (("github_pat_",), r"\w{22,}"),
    (("glpat-", "gldt-", "glrt-", "glptt-", "glsoat-", "glcbt-", "sk-", "ya29.", "dckr_pat_"), r"[\w-]{20,}"),
    (("sk_live_", "rk_live_"), r"[A-Za-z0-9]{20,}"),
    (("AKIA", "ASIA", "ABIA", "ACCA"), r"[A-Z0-9]{16}"),
    (("aws_secret",), r"(?:_access)?_key\W{1,6}[A-Za-z0-9/+]{40}"),
    (("AIza",), r"[\w-]{35}"),
    (("xoxa-", "xoxb-", "xoxe-", "xoxo-", "xoxp-", "xoxr-", "xoxs-"), r"[\w-]{10,}"),
    (("hooks.slack.com/",), r"services/\w+/\w+/\w+"),
    (("npm_",), r"[A-Za-z0-9]{36}"),
    (("pypi-AgE",), r"[\w-]{50,}"),
    (("SG.",), r"[\w-]{20,}\.[\w-]{20,}"),
    (("wandb",), r"\w{0,20}\W{1,6}[0-9a-f]{40}"),
    (("eyJ",), r"[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{10,}"),
    (("://",), r"[^\s/:@\"'<>{}$]+:[^\s/:@\"'<>{}$]{6,}@"),
    (("-----BEGIN ",), r"[A-Z ]*PRIVATE KEY"),
]
_LEAST_TOKEN = 8  # letters of the user's own token; a shorter one is a word in a test
_BLOCK = 2**24  # bytes that are searched at once
_OVERLAP = 4096  # bytes that a block shares with the next one: longer than any token
_ARCHIVE = re.compile(rb"PK\x03\x04|\xfd7zXZ|BZh[1-9]1AY&SY|.{257}ustar", re.DOTALL)  # zip, xz, bzip2, tar


@dataclass(frozen=True)
class Finding:
    """Something in a file that must not be public."""

    what: str  # in words
    line: int | None = None  # line number in a text; None in archives and binary files


PICKLE = "is a pickle, which runs code when it is read; publish safetensors"
OBJECTS = "holds a pickle, which runs code when it is read; publish safetensors, or arrays of numbers"
TOKEN = "holds a token or a key; remove it, and revoke it if anybody saw it"
ARCHIVE = "is an archive, which cannot be checked; publish the files in it"


def findings(name: str, content: Path | bytes) -> list[Finding]:
    """What must not be public in a file, by its name and content; the first finding of each kind."""
    suffixes = {suffix.lower() for suffix in Path(name).suffixes}
    if suffixes & PICKLE_SUFFIXES:
        return [Finding(PICKLE)]
    with io.BytesIO(content) if isinstance(content, bytes) else content.open("rb") as file:
        return _in_file(file)


def _in_file(file: BinaryIO, *, is_unpacked: bool = False) -> list[Finding]:
    """Findings in a file, or in the file that gzip packed."""
    start = file.read(512)
    file.seek(0)
    header_size = int.from_bytes(start[:8], "little")
    if start[8:10] == b'{"' and header_size < 10**8:  # safetensors: what follows are numbers
        return _in_text(io.BytesIO(file.read(8 + header_size)), is_line_told=False)
    if start.startswith(b"\x93NUMPY"):
        # A dtype "O" in the header, or a field of it, holds Python objects, which numpy stores as a pickle.
        return [Finding(OBJECTS)] if re.search(rb"descr'?\"?: *\[?.*['\"]\|?O", start) else []
    if start.startswith(b"PAR1"):
        return _in_parquet(file)
    is_gzip = start.startswith(b"\x1f\x8b")
    if _ARCHIVE.match(start) or (is_gzip and is_unpacked):
        return [Finding(ARCHIVE)]
    if is_gzip:
        try:
            with gzip.open(file) as unpacked:
                return _in_file(unpacked, is_unpacked=True)
        except (OSError, EOFError, zlib.error):
            return []  # damaged: nobody else can read it either
    if _is_pickle(start, file):
        return [Finding(OBJECTS)]
    file.seek(0)
    return _in_text(file, is_line_told=b"\0" not in start)


def _in_parquet(file: BinaryIO) -> list[Finding]:
    """Secrets in the texts of a Parquet table, whose pages are compressed."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.ParquetFile(file)
        metadata = table.schema_arrow.metadata or {}
        described = json.dumps({str(key): str(value) for key, value in metadata.items()})
        if _first_secret(described.encode()) is not None:
            return [Finding(TOKEN)]
        for batch in table.iter_batches(batch_size=10_000):
            if _first_secret(json.dumps(batch.to_pylist(), default=str, ensure_ascii=False).encode()) is not None:
                return [Finding(TOKEN)]
    except (pa.ArrowException, OSError):
        return []  # no table after all
    return []


def _is_pickle(start: bytes, file: BinaryIO) -> bool:
    """Whether the file is a pickle (of any protocol) that calls something; text that only looks so does not count."""
    is_of_new_protocol = start[:1] == b"\x80" and start[1:2] in (b"\2", b"\3", b"\4", b"\5")
    if not is_of_new_protocol and start[:1] not in b"(]}cilI":  # what a pickle of protocol 0 or 1 may begin with
        return False
    calls = False
    try:
        for operation, _, _ in pickletools.genops(file):
            calls = calls or operation.name in ("GLOBAL", "STACK_GLOBAL", "INST", "REDUCE", "OBJ", "NEWOBJ")
    except (ValueError, IndexError, OverflowError, MemoryError):
        return is_of_new_protocol and calls
    return is_of_new_protocol or calls


def _in_text(file: BinaryIO, *, is_line_told: bool) -> list[Finding]:
    """The first secret in a text. Secrets are ASCII, so removing zero bytes shows them in UTF-16 and UTF-32, too."""
    before = b""
    lines = 1
    while block := file.read(_BLOCK):
        data = before + block
        place = _first_secret(data)
        if place is not None:
            return [Finding(TOKEN, lines + data.count(b"\n", 0, place) if is_line_told else None)]
        if b"\0" in data and _first_secret(data.replace(b"\0", b"")) is not None:
            return [Finding(TOKEN)]
        before = data[-_OVERLAP:]
        lines += data.count(b"\n", 0, len(data) - len(before))
    return []


def _pattern(start: str, rest: str) -> tuple[bytes, re.Pattern]:
    """The beginning of a secret, and a pattern of the whole; a beginning of letters must begin a word."""
    escaped = re.escape(start)
    is_word = re.match(r"\w", start) is not None
    alone = rf"(?<!\w{escaped})" if is_word else ""
    return start.encode(), re.compile(f"{escaped}{alone}{rest}".encode())


_PATTERNS = [_pattern(start, rest) for starts, rest in SECRETS for start in starts]


def _first_secret(data: bytes) -> int | None:
    """The position of the first secret; the user's own token is one."""
    patterns = [*_PATTERNS]
    token = get_token() or ""
    if len(token) >= _LEAST_TOKEN:
        patterns.append(_pattern(token, ""))
    places = []
    for start, pattern in patterns:
        match = pattern.search(data) if start in data else None  # much faster where nothing is found
        if match:
            places.append(match.start())
    return min(places, default=None)
