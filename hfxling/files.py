"""Writing files and folders so that a final name never holds half a result."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def atomic_path(final: str | Path) -> Iterator[Path]:
    """Yield a scratch path beside `final`; it takes the final name only when the block ends without an error.

    The block may create a file or a folder at the scratch path. An existing file is replaced; an existing folder is
    replaced only after the new one is complete. On an error nothing under the final name changes.
    """
    final = Path(final)
    final.parent.mkdir(parents=True, exist_ok=True)
    scratch_dir = Path(tempfile.mkdtemp(prefix=f".{final.name}.", dir=final.parent))
    scratch = scratch_dir / final.name
    try:
        yield scratch
        if scratch.is_dir() and final.is_dir():
            final.rename(scratch_dir / "replaced")
        os.replace(scratch, final)
    finally:
        shutil.rmtree(scratch_dir, ignore_errors=True)


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
