"""Parts of a long run, kept beside its output until it is done, so that a stopped run can continue."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from hfxling.files import atomic_path, is_stream

PARTS = ".hfxling-parts"  # ending of the folder's name


def parts_beside(output: str | Path | None) -> Path | None:
    """The folder for the parts of an output; None if nothing can lie beside it."""
    if output is None or is_stream(output):
        return None
    return Path(output).with_name(f"{Path(output).name}{PARTS}")


def claim(folder: Path, key: Mapping) -> None:
    """Make the folder the place for the parts of the run with this key.

    Raises:
        ValueError: if it belongs to another key, or does not say to which.
    """
    text = json.dumps(key, sort_keys=True, indent=1, ensure_ascii=False)
    key_file = folder / "key.json"
    has_key = key_file.exists()
    # A run that was killed while it wrote its key leaves only scratch.
    if not has_key and folder.is_dir() and any(path.suffix != ".hfxling-scratch" for path in folder.iterdir()):
        raise ValueError(f"{folder} holds files that are not parts of a run; move them, or give another output.")
    with readable(key_file):
        is_another = has_key and key_file.read_bytes() != text.encode()
    if is_another:
        with readable(key_file):
            before = dict(json.loads(key_file.read_text(encoding="utf-8")))
        names = [name for name in {*key, *before} if key.get(name) != before.get(name)]
        changed = ", ".join(sorted(names))
        raise ValueError(
            f"{folder} holds parts of a run with another {changed}; remove that folder or give another output."
        )
    folder.mkdir(parents=True, exist_ok=True)
    with atomic_path(key_file) as scratch:
        scratch.write_text(text, encoding="utf-8")


def remove_parts(folder: Path, patterns: Sequence[str]) -> None:
    """Remove the parts of a finished run, and their folder unless it holds something else.

    `patterns` match the names of the parts; the key's file is removed, too.
    """
    for pattern in ("key.json", *patterns, ".*.hfxling-scratch"):
        for path in folder.glob(pattern):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    with suppress(OSError):
        folder.rmdir()


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turn errors of reading a file into one that says what to do."""
    try:
        yield
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ValueError(
            f"{path} is damaged ({error}); remove the folder {path.parent}, and the run starts again."
        ) from None
