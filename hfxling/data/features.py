"""Frozen vectors: computed once and memory-mapped, keyed by everything that changes them; or read from user files."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from hfxling.files import atomic_path, reserved_array
from hfxling.progress import bar

from .texts import numbered_distinct

SHORTEST = 1e-9  # length of the shortest vector that float32 can still scale to length 1
CHUNK = 1024  # number of texts after which a killed run can continue


def cached_features(
    texts: Sequence[str],
    encode: Callable[[list[str]], np.ndarray],
    *,
    key: dict,
    shape: tuple[int, ...],
    cache_dir: str | Path,
    description: str = "encode",
) -> np.ndarray:
    """Vectors of texts; each distinct text is encoded once.

    Several processes may call this at the same time; they share the chunks. A killed run leaves its finished chunks,
    and the next one continues from there.

    Args:
        texts: N texts; repetitions cost nothing.
        encode: maps a list of n texts to an (n, *shape) float array; it gets texts of similar length together. If it
            has a method `expect`, that is told all batches beforehand.
        key: everything besides the texts that changes the vectors (model, revision, layers, pooling, dtype, ...).
        shape: shape of one text's entry, such as (H,) or (views, H).
        cache_dir: folder of the cache, with a sub-folder for each key.
        description: label of the progress bar.

    Returns:
        (N, *shape) float32 array, memory-mapped if all texts are distinct.

    Raises:
        ValueError: if `encode` returns another shape, or NaN or infinite values (the first such text is named), or if
            the file of an earlier run is damaged.
    """
    if not len(texts):
        return np.empty((0, *shape), np.float32)
    unique, rows = numbered_distinct(texts)
    digest = hashlib.sha256(json.dumps([key, list(shape)], sort_keys=True, default=str).encode())
    for text in unique:
        data = text.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8) + data)  # with its length, or "ab", "c" would be as "a", "bc"
    folder = Path(cache_dir) / digest.hexdigest()[:32]
    final = folder / "features.npy"
    if not final.exists():
        _fill(folder, unique, encode, key, (len(unique), *shape), description)
    vectors = _opened(final, (len(unique), *shape), "r")
    return vectors if len(unique) == len(texts) else vectors[rows]


def _fill(folder: Path, texts: list[str], encode: Callable, key: dict, shape: tuple, description: str) -> None:
    """Encode what is missing, chunk by chunk, then give the file its final name.

    The unfinished file itself says what is missing: its rows begin as NaN, which no encoder may return. A chunk that
    another process holds is left to it and checked again later. The file is finished only after a check of all chunks.
    """
    folder.mkdir(parents=True, exist_ok=True)
    final, unfinished = folder / "features.npy", folder / "features.unfinished.npy"
    order = sorted(range(len(texts)), key=lambda i: -len(texts[i]))  # longest first: memory trouble shows at once
    chunks = {start: order[start : start + CHUNK] for start in range(0, len(order), CHUNK)}
    looked_at = chunks  # all of them, or those that other processes held
    with bar(total=len(texts), unit="texts", label=description) as encoded:
        while True:
            with hold_lock(folder / "lock"):
                if final.exists():
                    return
                if not unfinished.exists():
                    _blank(unfinished, shape)
                    (folder / "key.json").write_text(json.dumps(key, indent=2, default=str, ensure_ascii=False))
                vectors = _opened(unfinished, shape, "r+")  # again, as another process may have replaced it
                missing = [start for start in looked_at if np.isnan(vectors[chunks[start]]).any()]
                number_missing = sum(len(chunks[start]) for start in missing)
                encoded.update(len(texts) - number_missing - encoded.n)
                if not missing and looked_at is chunks:
                    os.replace(unfinished, final)
                    for left in folder.glob("*.lock"):
                        left.unlink()
                    return
            if hasattr(encode, "expect"):  # it works ahead
                encode.expect([[texts[i] for i in chunks[start]] for start in missing])
            held_by_others = []
            for start in missing:
                rows = chunks[start]
                with hold_lock(folder / f"{start}.lock", wait=False) as mine:
                    if not mine:
                        held_by_others.append(start)
                    elif unfinished.exists() and np.isnan(vectors[rows]).any():
                        vectors[rows] = _checked(encode([texts[i] for i in rows]), rows, texts, shape[1:])
                        vectors.flush()
                        encoded.update(len(rows))
            if held_by_others and held_by_others == missing:  # if one of them dies, its lock opens
                time.sleep(0.2)
            looked_at = held_by_others or chunks


def _opened(path: Path, shape: tuple[int, ...], mode: str) -> np.ndarray:
    """An array that this module wrote; ValueError if the file is damaged."""
    try:
        # First read-only: opened for writing, a file that was cut off would be lengthened and would pass as whole.
        vectors, why = np.lib.format.open_memmap(path, mode="r"), ""
    except (ValueError, EOFError) as error:
        vectors, why = None, f" ({error})"
    if vectors is None or vectors.shape != shape or vectors.dtype != np.float32:
        raise ValueError(f"{path} is damaged{why}; remove the folder {path.parent} to compute the vectors again.")
    return vectors if mode == "r" else np.lib.format.open_memmap(path, mode=mode)


def _blank(path: Path, shape: tuple[int, ...]) -> None:
    with atomic_path(path) as scratch:
        vectors = reserved_array(scratch, shape)
        for start in range(0, len(vectors), CHUNK):
            vectors[start : start + CHUNK] = np.nan
        vectors.flush()


def _checked(vectors: np.ndarray, rows: list[int], texts: list[str], shape: tuple[int, ...]) -> np.ndarray:
    vectors = np.asarray(vectors, dtype=np.float32)
    wanted = (len(rows), *shape)
    if vectors.shape != wanted:
        what = f"for {len(rows)} texts, first {texts[rows[0]][:60]!r}"
        raise ValueError(f"the encoder returned an array of shape {vectors.shape}, not {wanted}, {what}.")
    bad = np.flatnonzero(~np.isfinite(vectors).all(axis=tuple(range(1, vectors.ndim))))
    if len(bad):
        text = texts[rows[bad[0]]]
        raise ValueError(f"the encoder returned NaN or infinite values for {len(bad)} texts, first {text[:60]!r}.")
    return vectors


@contextmanager
def hold_lock(path: Path, wait: bool = True) -> Iterator[bool]:
    """Hold a file lock, which the system releases if the process dies; yields whether it was obtained."""
    with open(path, "w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
            mine = True
        except BlockingIOError:
            mine = False
        yield mine


def load_vectors(path: str | Path, *, rows: int | None = None, column: str | None = None) -> np.ndarray:
    """Load vectors from a file that the user already has.

    Args:
        path: `.npy` (memory-mapped), `.parquet` (a column of equally long lists) or `.jsonl` (one object a line, as
            embedding APIs return them: `{"embedding": [...]}`, or a bare list).
        rows: number of vectors that the file must have, one for each text.
        column: column or JSON key; by default "embedding", "embeddings", "vector" or the only one there is.

    Returns:
        (N, D) float32 array.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: for an unknown suffix, a wrong count or shape, or NaN, infinite or zero vectors; rows are named.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file; give a .npy, .parquet or .jsonl file of vectors.")
    readers = {".npy": _read_npy, ".parquet": _read_parquet, ".jsonl": _read_jsonl}
    if path.suffix not in readers:
        raise ValueError(f"{path}: vectors are read from .npy, .parquet or .jsonl, not {path.suffix or 'no suffix'!r}.")
    vectors = readers[path.suffix](path, column)
    if vectors.ndim != 2 or not np.issubdtype(vectors.dtype, np.floating):
        raise ValueError(f"{path}: need a two-dimensional float array, got {vectors.dtype} of shape {vectors.shape}.")
    if not len(vectors):
        raise ValueError(f"{path}: no vectors; give one for each text.")
    if rows is not None and len(vectors) != rows:
        raise ValueError(f"{path}: {len(vectors)} vectors for {rows} texts; give one for each text, in the same order.")
    for start in range(0, len(vectors), 65536):  # a memory-mapped file may be larger than memory
        with np.errstate(over="ignore"):  # values beyond float32 become infinite and are reported
            block = np.asarray(vectors[start : start + 65536], dtype=np.float32)
        lengths = np.sqrt(np.einsum("ij,ij->i", block, block, dtype=np.float64))  # float32 cannot hold every square
        bad = start + np.flatnonzero(~np.isfinite(lengths) | (lengths < SHORTEST))
        if len(bad):
            listed = ", ".join(map(str, bad[:5] + 1))
            raise ValueError(f"{path}: NaN, infinite, all-zero or tiny vectors in rows {listed}; compute them again.")
    return vectors if vectors.dtype == np.float32 else vectors.astype(np.float32)


def _read_npy(path: Path, _column: str | None) -> np.ndarray:
    try:
        return np.lib.format.open_memmap(path, mode="r")
    except (ValueError, EOFError, OSError) as error:
        raise ValueError(f"{path}: not a readable .npy array ({error}); save it again with numpy.save.") from None


def _pick(names: Sequence[str], column: str | None, where: Path | str) -> str:
    candidates = [column] if column else ["embedding", "embeddings", "vector"]
    if not column and len(names) == 1:
        candidates += names
    matching = [name for name in candidates if name in names]
    if not matching:
        raise ValueError(f"{where}: no column {column or 'embedding'!r}; name one of {', '.join(names) or 'none'}.")
    return matching[0]


def _read_parquet(path: Path, column: str | None) -> np.ndarray:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(path)
        name = _pick(file.schema_arrow.names, column, path)
        lists = file.read(columns=[name]).column(0)
    except (pa.ArrowInvalid, OSError) as error:
        raise ValueError(f"{path}: not a readable Parquet file ({error}).") from None
    kind = getattr(lists.type, "value_type", None)  # None where the column holds no lists
    if kind is None or not (pa.types.is_floating(kind) or pa.types.is_integer(kind)):
        raise ValueError(f"{path}: column {name!r} holds {lists.type}; name one with a list of numbers in each row.")
    widths = pc.list_value_length(lists).fill_null(0).unique().to_pylist() or [0]
    if len(widths) > 1:
        listed = ", ".join(map(str, widths[:5]))
        raise ValueError(
            f"{path}: the vectors have different widths ({listed}); all need the same, and a missing one counts as 0."
        )
    blocks = [np.asarray(chunk.flatten(), dtype=np.float32).reshape(len(chunk), widths[0]) for chunk in lists.chunks]
    return np.concatenate([np.empty((0, widths[0]), np.float32), *blocks])


def _read_jsonl(path: Path, column: str | None) -> np.ndarray:
    rows: list[np.ndarray] = []
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            where = f"{path}, line {number}"
            rows.append(_json_vector(line, where, column))
            if len(rows[-1]) != len(rows[0]):
                raise ValueError(f"{where}: {len(rows[-1])} numbers, but line 1 has {len(rows[0])}; all need the same.")
    return np.stack(rows) if rows else np.empty((0, 0), np.float32)


def _json_vector(line: bytes, where: str, column: str | None) -> np.ndarray:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):  # UnicodeDecodeError among them
        raise ValueError(f"{where}: not JSON in UTF-8; give a list of numbers, or an object with one.") from None
    if isinstance(entry, dict):
        entry = entry[_pick(list(entry), column, where)]
    try:
        is_numbers = isinstance(entry, list) and {*map(type, entry)} <= {int, float}  # neither words nor truth values
        with np.errstate(over="ignore"):
            vector = np.array(entry, dtype=np.float32) if is_numbers else None
    except OverflowError:  # a whole number beyond all floats
        vector = None
    if vector is None:
        raise ValueError(f"{where}: {str(entry)[:40]!r} is not a vector; give a list of numbers.")
    return vector
