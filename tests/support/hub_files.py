"""Files as the Hub describes and sends them: git and LFS hashes, trees, byte ranges, what it refuses in a card."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import PurePosixPath
from typing import NamedTuple

import yaml

LFS_SUFFIXES = (".arrow", ".bin", ".bz2", ".gz", ".npy", ".npz", ".onnx", ".parquet", ".pt", ".pth", ".safetensors")
LFS_SIZE = 10 * 1024 * 1024  # bytes; the Hub keeps larger files out of git whatever their name
GITATTRIBUTES = "".join(f"*{suffix} filter=lfs diff=lfs merge=lfs -text\n" for suffix in LFS_SUFFIXES).encode()


class Reply(NamedTuple):
    status: int
    body: bytes
    headers: dict[str, str]


def json_reply(value: object, status: int = 200, headers: dict[str, str] | None = None) -> Reply:
    return Reply(status, json.dumps(value).encode(), {"Content-Type": "application/json"} | (headers or {}))


def git_oid(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def in_lfs(path: str, size: int) -> bool:
    return size > 0 and (path.endswith(LFS_SUFFIXES) or size > LFS_SIZE)


def file_entry(path: str, data: bytes) -> dict:
    """A file as the tree endpoints describe it; git holds only a pointer to what is in LFS."""
    entry = {"type": "file", "path": path, "size": len(data), "oid": git_oid(data)}
    if in_lfs(path, len(data)):
        sha256 = hashlib.sha256(data).hexdigest()
        pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{sha256}\nsize {len(data)}\n".encode()
        info = {"oid": sha256, "sha256": sha256, "size": len(data), "pointerSize": len(pointer)}
        entry |= {"oid": git_oid(pointer), "lfs": info}
    return entry


def etag_of(path: str, data: bytes) -> str:
    entry = file_entry(path, data)
    return entry["lfs"]["oid"] if "lfs" in entry else entry["oid"]


def tree_of(files: dict[str, bytes]) -> dict[str, dict]:
    """Every folder and file by path."""
    folders = {str(folder) for path in files for folder in PurePosixPath(path).parents} - {"."}
    tree = {path: {"type": "directory", "path": path, "size": 0, "oid": git_oid(path.encode())} for path in folders}
    return dict(sorted((tree | {path: file_entry(path, data) for path, data in files.items()}).items()))


def part_of(data: bytes, wanted: str, headers: dict[str, str]) -> Reply:
    """The bytes a Range header asks for; all of them where it is absent or not understood."""
    match = re.fullmatch(r"bytes=(?:(\d+)-(\d*)|-(\d+))", wanted)
    if match is None:
        return Reply(200, data, headers)
    first, last, suffix = match.groups()
    start = int(first) if first else max(len(data) - int(suffix), 0)
    stop = min(int(last) + 1, len(data)) if last else len(data)
    if start >= stop:
        return Reply(416, b"", headers | {"Content-Range": f"bytes */{len(data)}"})
    return Reply(206, data[start:stop], headers | {"Content-Range": f"bytes {start}-{stop - 1}/{len(data)}"})


def card_problem(readme: str) -> str:
    """What the Hub refuses in a card's YAML block; of its schema only the ids, into which a local path easily slips."""
    block = re.match(r"\s*---[ \t]*\r?\n(.*?)^---", readme, re.DOTALL | re.MULTILINE)
    try:
        metadata = yaml.safe_load(block[1]) if block else None
    except yaml.YAMLError as problem:
        return f"bad YAML: {problem}"
    for key in ("base_model", "datasets"):
        values = (metadata or {}).get(key) or []
        for value in [values] if isinstance(values, str) else values:
            if not re.fullmatch(r"\w[\w.-]*(/\w[\w.-]*)?", value):
                return f'"{key}" with value "{value}" is not valid. Use an id from the Hub.'
    return ""


def card_data(readme: bytes) -> dict:
    """The front matter of a card; {} where there is none that can be read."""
    block = re.match(r"\s*---[ \t]*\r?\n(.*?)^---", readme.decode(errors="replace"), re.DOTALL | re.MULTILINE)
    try:
        return yaml.safe_load(block[1]) or {} if block else {}
    except yaml.YAMLError:
        return {}
