"""Writing files and folders so that a final name never holds half a result."""

from __future__ import annotations

import errno
import fcntl
import glob
import hashlib
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

# Of folders beside a final name, and what lies in them.
_SCRATCH, _UNLOCKED, _LOCK, _REPLACED = ".scratch", ".unlocked", ".lock", ".replaced"


@contextmanager
def atomic_path(final: str | Path) -> Iterator[Path]:
    """Yield a scratch path beside `final`; it takes the final name only when the block ends without an error.

    The block may create a file or a folder at the scratch path. An existing file is replaced; an existing folder is
    replaced only after the new one is complete. On an error nothing under the final name changes. Whoever may read what
    this user creates may read all of it. What runs that were killed left beside the final name is cleared first.
    """
    final = Path(final)
    final.parent.mkdir(parents=True, exist_ok=True)
    _clear_dead(final)
    scratch_dir = Path(tempfile.mkdtemp(prefix=f".{final.name}.", suffix=_SCRATCH, dir=final.parent))
    scratch = scratch_dir / final.name
    with open(scratch_dir / _UNLOCKED, "w") as lock:
        with suppress(OSError):  # a disk without locks: nobody clears what is left there
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.rename(lock.name, scratch_dir / _LOCK)  # locked before anybody can see it
        try:
            yield scratch
            _share(scratch, os.fstat(lock.fileno()).st_mode)
            if scratch.is_dir() and final.is_dir():
                final.rename(scratch_dir / _REPLACED)
            os.replace(scratch, final)
        finally:
            shutil.rmtree(scratch_dir, ignore_errors=True)


def _clear_dead(final: Path) -> None:
    """Remove what killed runs left of a file or folder: their locks are open. Running ones keep theirs."""
    for left in final.parent.glob(f".{glob.escape(final.name)}.*{_SCRATCH}"):
        with suppress(OSError), open(left / _LOCK, "r+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if (left / _REPLACED).exists() and not final.exists():  # complete, and killed between two renamings
                os.replace(left / final.name, final)
            shutil.rmtree(left, ignore_errors=True)


def _share(path: Path, mode: int) -> None:
    """Give files that only their owner may read, as safetensors writes them, the mode of any other new file."""
    for file in [path, *path.rglob("*")] if path.is_dir() else [path]:
        if stat.S_IMODE(file.stat().st_mode) == 0o600:
            file.chmod(stat.S_IMODE(mode))


def reserved_array(path: str | Path, shape: tuple[int, ...], dtype: type = np.float32) -> np.ndarray:
    """A new memory-mapped `.npy` of zeros whose place on the disk is taken: to fill it cannot fail.

    Raises:
        ValueError: when the disk has not enough room.
    """
    array = np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=shape)
    if hasattr(os, "posix_fallocate"):
        with open(path, "r+b") as file:
            size = os.fstat(file.fileno()).st_size
            try:
                os.posix_fallocate(file.fileno(), 0, size)
            except OSError as error:
                if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                    raise
                folder = next(above for above in Path(path).absolute().parents if above.suffix != _SCRATCH)
                free = shutil.disk_usage(folder).free
                need = f"{Path(path).name} needs {size / 2**20:,.1f} MiB, {free / 2**20:,.1f} are free"
                raise ValueError(f"{folder}: {need} on this disk; make room, or name another place.") from None
    return array


def free_memory() -> int:
    """Bytes of memory that can be had without swapping; where the system does not say, half of all."""
    table = Path("/proc/meminfo")
    if table.is_file() and (found := re.search(r"MemAvailable:\s+(\d+) kB", table.read_text())):
        return int(found[1]) * 1024
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


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
    """Of all weights in a folder, wherever it lies."""
    digest = hashlib.sha256()
    for path in sorted(Path(folder).rglob("*.safetensors")):
        with open(path, "rb") as weights:
            digest.update(hashlib.file_digest(weights, "sha256").digest())
    return digest.hexdigest()[:16]
