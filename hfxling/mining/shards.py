"""Neighbours of both sides shard by shard, each kept on disk when it is done: a search that was stopped goes on."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from hfxling.files import atomic_path

from .neighbours import Neighbours, Vectors, best_first

_TIE = 1e-6  # of the scores of two shards


def search(
    source: list[Vectors],
    target: list[Vectors],
    k: int,
    folder: str | Path,
    key: Mapping,
    *,
    shard: int = 100_000,
    done: Callable[[int], None] = lambda rows: None,
    **options,
) -> tuple[Neighbours, Neighbours]:
    """The same as `both_ways`, the source's shards one after the other.

    Args:
        source: parts of one side's vectors (one, or several whose inner products add up).
        target: the same of the other side.
        k: neighbours.
        folder: where shards are kept; the caller removes it when it has what it wants.
        key: everything that shards hang on (texts, model, settings), as JSON can hold it.
        shard: source rows, about.
        done: told the number of rows of every finished shard, also of those found in the folder.
        **options: of `both_ways`.

    Raises:
        ValueError: the folder holds shards of another key or damaged ones, and as `both_ways`.
    """
    from .blocks import both_ways  # torch with it

    folder, count = Path(folder), source[0].shape[0]
    claim(folder, {**key, "k": k, "shard": shard})
    backward, merged = _load(folder / "backward.npz")
    found = []
    shards = max(1, min(-(-count // shard), count // k))  # even, and none with fewer than k sources
    for number, (start, end) in enumerate(pairwise(np.linspace(0, count, shards + 1).astype(int))):
        path = folder / f"forward_{number}.npz"
        if number >= merged:
            part = [x[start:end] for x in source]
            ahead, back = both_ways(_one(part), _one(target), k, **options)
            _save(path, ahead, number + 1)
            back = Neighbours(back.rows + start, back.scores)
            backward = back if backward is None else merge(backward, back, k)
            _save(folder / "backward.npz", backward, number + 1)
        found.append(_load(path)[0])
        done(len(found[-1].rows))
    return Neighbours(*map(np.concatenate, zip(*found))), backward


def merge(one: Neighbours, other: Neighbours, k: int) -> Neighbours:
    """The k best of the neighbours that two searches found for the same vectors."""
    return Neighbours(*best_first(*map(np.hstack, zip(one, other)), k, _TIE))


def claim(folder: Path, key: Mapping) -> None:
    """Make the folder the place of a key's shards.

    Raises:
        ValueError: it is another key's, or nobody can say whose.
    """
    text, about = json.dumps(key, sort_keys=True, indent=1, ensure_ascii=False), folder / "key.json"
    if about.exists() and about.read_bytes() != text.encode():
        with _whole(about):
            before = dict(json.loads(about.read_text(encoding="utf-8")))
        changed = ", ".join(sorted(name for name in {*key, *before} if key.get(name) != before.get(name)))
        raise ValueError(
            f"{folder} holds shards of a search with another {changed}; remove that folder or give another output."
        )
    folder.mkdir(parents=True, exist_ok=True)
    with atomic_path(about) as scratch:
        scratch.write_text(text, encoding="utf-8")


def clear(folder: str | Path) -> None:
    """Remove the shards of a search that has ended."""
    shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _whole(path: Path) -> Iterator[None]:
    """Say of a file that cannot be read what to do about it."""
    try:
        yield
    except (OSError, ValueError, TypeError, KeyError, EOFError, RecursionError, BadZipFile) as error:
        told = f"{path} is damaged ({error})"
        raise ValueError(f"{told}; remove the folder {path.parent}, and the search begins anew.") from None


def _one(parts: list[Vectors]) -> Vectors | list[Vectors]:
    return parts[0] if len(parts) == 1 else parts


def _save(path: Path, found: Neighbours, merged: int) -> None:
    with atomic_path(path) as scratch, scratch.open("wb") as file:
        np.savez(file, rows=found.rows, scores=found.scores, merged=merged)


def _load(path: Path) -> tuple[Neighbours | None, int]:
    if not path.exists():
        return None, 0
    with _whole(path), np.load(path) as stored:
        return Neighbours(stored["rows"], stored["scores"]), int(stored["merged"])
