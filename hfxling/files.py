"""Write files and folders: a final name never holds half a result, and only files of hfxling are replaced."""

from __future__ import annotations

import errno
import fcntl
import glob
import hashlib
import json
import os
import re
import shutil
import signal
import stat
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

# The ending of temporary folders beside a final name, and the names of what lies in them.
_SCRATCH, _UNLOCKED, _LOCK, _REPLACED = ".hfxling-scratch", ".unlocked", ".lock", ".replaced"
_RUNNING = ".hfxling-running"  # ending of a folder that exists while the file or folder of that name is being made
# Records whose entry "files" says which files of a folder are ours; they and what is rendered from them are ours, too.
_RECORDS = ("results.json", "rounds.json")
_BESIDE_RECORDS = {*_RECORDS, "README.md", ".gitattributes"}
_NO_TEXT = (".gz", ".xz", ".bz2", ".zst", ".zip", ".parquet", ".npy", ".xlsx")  # endings of other files than plain text
_STANDARD_STREAMS = {"/dev/stdout": 1, "/dev/stderr": 2}


@contextmanager
def atomic_path(final: str | Path) -> Iterator[Path]:
    """Yield a scratch path beside `final`; it gets the final name only if the block ends without an error.

    The block may create a file or a folder at the scratch path. An existing file is replaced and keeps its permissions;
    a symbolic link is written through; a device, a pipe or /dev/stdout is written to. An existing folder is replaced
    when the new one is complete, unless it has files that are neither in the new one nor in its own record. On an error
    nothing under the final name changes. All files get the usual permissions of new files. Leftovers of killed runs
    beside the final name are removed first.

    Raises:
        ValueError: if the folder that would be replaced has files that are not ours.
    """
    if is_stream(final):
        with tempfile.TemporaryDirectory(prefix="hfxling-") as folder:
            scratch = Path(folder, Path(final).name)
            yield scratch
            _pour(scratch, str(final))
        return
    final = Path(os.path.realpath(Path(final).expanduser()))
    final.parent.mkdir(parents=True, exist_ok=True)
    _clear_dead(final)
    scratch_dir = Path(tempfile.mkdtemp(prefix=f".{final.name}.", suffix=_SCRATCH, dir=final.parent))
    scratch = scratch_dir / final.name
    with open(scratch_dir / _UNLOCKED, "w") as lock:
        with suppress(OSError):  # a disk without locks: leftovers there are never cleared
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.rename(lock.name, scratch_dir / _LOCK)  # locked before other runs can see it
        try:
            yield scratch
            _share(scratch, os.fstat(lock.fileno()).st_mode)
            if scratch.is_dir() and final.is_dir():
                _refuse_strangers(final, strangers(final) - files_of(scratch))
                final.rename(scratch_dir / _REPLACED)
            elif final.is_file():
                scratch.chmod(stat.S_IMODE(final.stat().st_mode))
            os.replace(scratch, final)
        finally:
            _remove(scratch_dir)


def is_stream(path: str | Path) -> bool:
    """Whether a path is no file or folder on the disk but a device, a pipe, or /dev/stdout."""
    if _descriptor(str(path)) is not None:
        return True
    with suppress(OSError):
        mode = os.stat(path).st_mode
        return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))
    return False


def _descriptor(path: str) -> int | None:
    """The open file that a path such as /dev/stdout or /dev/fd/3 stands for."""
    match = re.fullmatch(r"(?:/dev/fd|/proc/self/fd)/(\d+)", path)
    return int(match[1]) if match else _STANDARD_STREAMS.get(path)


def _pour(scratch: Path, final: str) -> None:
    """Write a file's content to a device, a pipe or an open file."""
    if scratch.is_dir():
        raise ValueError(f"{final} is no place for a folder; name another one.")
    sys.stdout.flush()
    descriptor = _descriptor(final)
    # A copy of the descriptor, as the block closes it.
    with scratch.open("rb") as content, open(final if descriptor is None else os.dup(descriptor), "wb") as stream:
        shutil.copyfileobj(content, stream)


def files_of(folder: Path) -> set[str]:
    """Everything in a folder that is not itself a folder, by its path inside."""
    files = set()
    for path in folder.rglob("*"):
        if path.is_symlink() or not path.is_dir():
            files.add(path.relative_to(folder).as_posix())
    return files


def strangers(folder: Path) -> set[str]:
    """The files of a folder that no record of ours names; all files if it has no record."""
    ours: set[str] = set()
    for name in _RECORDS:
        with suppress(OSError, ValueError, RecursionError):
            content = json.loads((folder / name).read_text(encoding="utf-8"))
            if isinstance(content, dict) and isinstance(content.get("files"), dict | list):
                ours |= {*content["files"]} | _BESIDE_RECORDS
    return files_of(folder) - ours


def _refuse_strangers(folder: Path, names: Iterable[str]) -> None:
    names = sorted(names)
    if names:
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        raise ValueError(
            f"{folder} would be replaced, but it holds files that hfxling did not write ({names[0]}{more}); "
            "name another folder, or an empty one."
        )


def check_place(name: str, place: str | Path, *, is_folder: bool) -> None:
    """Refuse a file or folder that cannot be written, before anything is computed."""
    path = Path(place).expanduser()
    if is_stream(path) and not is_folder:
        return
    if path.exists() and path.is_dir() != is_folder:
        kinds = ("file", "folder") if is_folder else ("folder", "file")
        raise ValueError(f"{name}={place} is a {kinds[0]}; name a {kinds[1]}.")
    above = next(parent for parent in (path, *path.parents) if os.path.lexists(parent))
    if above != path and not above.is_dir():
        raise ValueError(f"{name}={place}: {above} is a file, not a folder; name another place.")
    if not os.access(above if above.is_dir() else above.parent, os.W_OK | os.X_OK):
        raise ValueError(f"{name}={place}: this user may not write to {above}; name another place.")


def check_text_file(name: str, place: str | Path | None) -> None:
    """Refuse a place that is no file, or whose ending promises something other than plain text; None is accepted."""
    if place is None:
        return
    check_place(name, place, is_folder=False)
    ending = Path(place).suffix.lower()
    if ending in _NO_TEXT and not is_stream(place):
        raise ValueError(f"{name}={place}: it is written as plain text; give a name without {ending}.")


def check_replaceable(folder: str | Path, inputs: Iterable[object] = ()) -> None:
    """Refuse, before anything is computed, to replace a folder that is not ours or that is read.

    Args:
        folder: folder that will be written as a whole.
        inputs: files, folders and sources of text that are read; other values are ignored.

    Raises:
        ValueError: if it holds files that no record of ours names, the working directory, or an input.
    """
    place = Path(os.path.realpath(folder))
    if Path.cwd().is_relative_to(place):
        raise ValueError(f"{folder} would be replaced, but it holds the working directory; name another folder.")
    for value in inputs:
        for path in _paths_in(value):
            if path.is_relative_to(place):
                raise ValueError(f"{folder} would be replaced, but {value} in it is an input; name another folder.")
    if place.is_dir():
        _refuse_strangers(place, strangers(place))


@contextmanager
def alone_in(folder: str | Path, told: str) -> Iterator[None]:
    """Lock a folder while a run writes into it; the system releases the lock if the process dies.

    Args:
        folder: folder to lock; it and its parents are created if missing, and removed if they are empty at the end.
        told: beginning of an error message: the option that named the folder.

    Raises:
        ValueError: if another run holds the lock.
    """
    folder = Path(folder)
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    while True:
        with suppress(FileNotFoundError):  # a run that has just ended removed it
            folder.mkdir(parents=True, exist_ok=True)
            handle = os.open(folder, os.O_RDONLY)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # Another run may have removed it between `open` and `flock`: the lock is then on a nameless folder.
                if os.path.samestat(os.fstat(handle), os.stat(folder)):
                    break
            except BlockingIOError:
                os.close(handle)
                raise ValueError(f"{told}: another run writes there; wait for it, or name another.") from None
            os.close(handle)
    try:
        yield
    finally:
        for path in dict.fromkeys([folder, *missing]):
            with suppress(OSError):
                path.rmdir()  # only if it is empty: a refused run leaves nothing
        os.close(handle)


@contextmanager
def alone_with(place: str | Path, told: str) -> Iterator[None]:
    """Lock a file, or a folder that is replaced as a whole, while a run makes it; otherwise as `alone_in`."""
    if is_stream(place):
        yield
        return
    final = Path(os.path.realpath(place))
    with alone_in(final.with_name(f".{final.name}{_RUNNING}"), told):
        yield


@contextmanager
def scratch_in(folder: Path, name: str) -> Iterator[Path]:
    """A temporary folder inside a locked one (`alone_in`); so earlier ones there are leftovers, and are removed."""
    for left in folder.glob(f".{name}.*{_SCRATCH}"):
        shutil.rmtree(left, ignore_errors=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{name}.", suffix=_SCRATCH, dir=folder))
    try:
        yield scratch
    finally:
        _remove(scratch)


def _remove(folder: Path) -> None:
    """Remove a folder completely, even if a signal comes."""
    with uninterrupted():
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Delay Ctrl-C and SIGTERM until this block is done, for steps that must all happen."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    caught: list[int] = []
    previous = {}
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not None:  # None: a handler outside Python, which could not be restored
            previous[number] = signal.signal(number, lambda caught_number, _: caught.append(caught_number))
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
        if caught:
            signal.raise_signal(caught[0])


def check_apart(outputs: Mapping[str, str | Path], inputs: Iterable[object]) -> None:
    """Refuse to overwrite inputs, and to write one file twice; links are followed.

    Args:
        outputs: files that will be written, by the option that names each.
        inputs: what is read, as for `check_replaceable`.

    Raises:
        ValueError: if an output is an input or another output.
    """
    places: dict[Path, str] = {}
    for name, place in outputs.items():
        if is_stream(place):
            continue
        path = Path(os.path.realpath(place))
        if path in places:
            raise ValueError(f"{name}={place} is the same file as {places[path]}; give each output its own file.")
        places[path] = name
    for value in inputs:
        for path in _paths_in(value):
            for place, name in places.items():
                if path == place or (place.exists() and path.samefile(place)):
                    raise ValueError(f"{name}={outputs[name]} is read, too ({value}); give another file to write to.")


def _paths_in(value: object) -> set[Path]:
    """Every file or folder that a value may name, such as a.txt, a.txt+b.txt@1-9, zh-vi=x.tsv#1,0 or {source}.txt."""
    if isinstance(value, list | tuple):
        return set().union(*map(_paths_in, value))
    if not isinstance(value, str | os.PathLike) or not str(value):
        return set()
    names = {os.fspath(value), *re.split(r"[+=]", os.fspath(value))}
    names |= {re.split(r"[@#]", name)[0] for name in names}
    existing = set()
    for name in names:
        pattern = re.sub(r"\{\w+\}", "*", glob.escape(name))
        with suppress(OSError, ValueError):  # sentences and the like: too long, or with a null byte
            for path in glob.glob(pattern) if "*" in pattern else [name]:
                if os.path.exists(path):
                    existing.add(Path(os.path.realpath(path)))
    return existing


def _clear_dead(final: Path) -> None:
    """Remove what killed runs left of a file or folder, whose locks are free; running ones still hold theirs."""
    for left in final.parent.glob(f".{glob.escape(final.name)}.*{_SCRATCH}"):
        with suppress(OSError), open(left / _LOCK, "r+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if (left / _REPLACED).exists() and not final.exists():  # complete, but killed between the two renames
                os.replace(left / final.name, final)
            shutil.rmtree(left, ignore_errors=True)


def _share(path: Path, mode: int) -> None:
    """Give files that only their owner may read (as safetensors writes them) the mode of other new files."""
    for file in [path, *path.rglob("*")] if path.is_dir() else [path]:
        if stat.S_IMODE(file.stat().st_mode) == 0o600:
            file.chmod(stat.S_IMODE(mode))


def reserved_array(path: str | Path, shape: tuple[int, ...]) -> np.ndarray:
    """A new memory-mapped float32 `.npy` of zeros with its disk space reserved, so that filling it cannot fail."""
    array = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=shape)
    if hasattr(os, "posix_fallocate"):
        with open(path, "r+b") as file:
            size = os.fstat(file.fileno()).st_size
            try:
                os.posix_fallocate(file.fileno(), 0, size)
            except OSError as error:
                if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                    raise
                folder = Path(path).absolute().parent
                while folder.suffix == _SCRATCH:  # a folder that the user never named
                    folder = folder.parent
                free = shutil.disk_usage(folder).free
                need = f"{Path(path).name} needs {size / 2**20:,.1f} MiB, but {free / 2**20:,.1f} are free on this disk"
                raise ValueError(f"{folder}: {need}; make room, or name another place.") from None
    return array


def content_hash(*columns: Iterable[str]) -> str:
    """16 hex digits of SHA-256 that change with any text, the order of texts, or the order of columns."""
    digest = hashlib.sha256()
    for column in columns:
        if isinstance(column, str):
            raise TypeError("content_hash takes columns of texts, not a single text.")
        for text in column:
            data = text.encode("utf-8", "surrogatepass")
            digest.update(b"%d:" % len(data) + data)  # the length keeps ("ab", "c") and ("a", "bc") apart
        digest.update(b";")
    return digest.hexdigest()[:16]


def weights_hash(folder: str | Path) -> str:
    """16 hex digits of SHA-256 of all weights in a folder, wherever it lies."""
    digest = hashlib.sha256()
    for path in sorted(Path(folder).rglob("*.safetensors")):
        with open(path, "rb") as weights:
            digest.update(hashlib.file_digest(weights, "sha256").digest())
    return digest.hexdigest()[:16]
