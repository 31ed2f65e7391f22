"""What a long run has done so far, kept beside its output until all is done: a run that was stopped goes on."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from hfxling.files import atomic_path, is_stream

PARTS = ".hfxling-parts"  # ends the name of the folder


def parts_beside(output: str | Path | None) -> Path | None:
    """The folder for the parts of what is written there; None where nothing can lie beside it."""
    if output is None or is_stream(output):
        return None
    return Path(output).with_name(f"{Path(output).name}{PARTS}")


def claim(folder: Path, key: Mapping) -> None:
    """Make the folder the place of a key's parts.

    Raises:
        ValueError: it is another key's, or nobody can say whose.
    """
    text = json.dumps(key, sort_keys=True, indent=1, ensure_ascii=False)
    key_file = folder / "key.json"
    has_key = key_file.exists()
    # Scratch is what a run left that was killed while it wrote its key.
    if not has_key and folder.is_dir() and any(path.suffix != ".hfxling-scratch" for path in folder.iterdir()):
        raise ValueError(f"{folder} holds files that are no parts of a run; move them, or give another output.")
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
    """Remove the parts of a run that has ended, and their folder unless something else lies there.

    `patterns` are of the names that the parts have, beside the key's.
    """
    for pattern in ("key.json", *patterns, ".*.hfxling-scratch"):
        for path in folder.glob(pattern):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    with suppress(OSError):
        folder.rmdir()


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Say of a file that cannot be read what to do about it."""
    try:
        yield
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ValueError(
            f"{path} is damaged ({error}); remove the folder {path.parent}, and the run begins anew."
        ) from None
