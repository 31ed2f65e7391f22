"""Neighbours of both sides tile by tile; each tile is kept on disk when it is done, so a stopped search continues.

A tile is a shard of the source against a shard of the target. Its vectors' nearest neighbours are a Parquet file, and
the files of one side's shard are merged into one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

from hfxling.files import atomic_path
from hfxling.parts import claim, readable, remove_parts

from .neighbours import TIE, Neighbours, Vectors, best_first, joined, one_or_all

_FILES = ("tile_*_*.parquet", "forward_*.parquet", "backward_*.parquet")

Tile = tuple[slice, slice]  # rows of the source and of the target
Run = Callable[[list[Vectors], list[Vectors], Sequence[Tile], int, dict], Iterator[tuple[Neighbours, Neighbours]]]


def one_by_one(
    source: list[Vectors], target: list[Vectors], tiles: Sequence[Tile], k: int, options: dict
) -> Iterator[tuple[Neighbours, Neighbours]]:
    """What `both_ways` finds in each tile, one after the other, in this process."""
    for rows, columns in tiles:
        yield of_tile([x[rows] for x in source], [x[columns] for x in target], k, options)


def of_tile(source: list[Vectors], target: list[Vectors], k: int, options: dict) -> tuple[Neighbours, Neighbours]:
    """What `both_ways` finds in one tile."""
    from .blocks import both_ways  # torch with it

    return both_ways(one_or_all(source), one_or_all(target), k, **options)


def search(
    source: list[Vectors],
    target: list[Vectors],
    k: int,
    folder: str | Path,
    key: Mapping,
    *,
    shard: int = 100_000,
    done: Callable[[int], None] = lambda pairs: None,
    run: Run = one_by_one,
    **options,
) -> tuple[Neighbours, Neighbours]:
    """The result of `both_ways`, computed one row of tiles after the other.

    Args:
        source: parts of one side's vectors (one, or several whose inner products add up).
        target: the same for the other side.
        k: number of neighbours.
        folder: where tiles are kept; the caller removes it in the end.
        key: everything that tiles depend on (texts, model, settings), as values that JSON can hold.
        shard: approximate number of rows of a side in a tile.
        done: called with the number of pairs of vectors of every finished tile, also of those found in the folder.
        run: gives the neighbours found in each of some tiles, in order; on a cluster `hfxling.sentences.ray.tiles`.
        **options: options of `both_ways`.

    Raises:
        ValueError: the folder holds damaged tiles or tiles of another key; and as `both_ways`.
    """
    folder = Path(folder)
    claim(folder, {**key, "k": k, "shard": shard})
    rows, columns = _shards(source[0].shape[0], shard, k), _shards(target[0].shape[0], shard, k)
    missing = []
    for i in range(len(rows)):
        for j in range(len(columns)):
            if not ((folder / f"forward_{i}.parquet").exists() or (folder / f"tile_{i}_{j}.parquet").exists()):
                missing.append((i, j))
    tie = TIE["cosine" if isinstance(one_or_all(source), np.ndarray) else "dot"]  # as `both_ways` compares them
    neighbours = run(source, target, [(rows[i], columns[j]) for i, j in missing], k, options)
    to_search = {*missing}
    for i, part in enumerate(rows):
        for j, other in enumerate(columns):
            if (i, j) in to_search:
                _save(folder / f"tile_{i}_{j}.parquet", *next(neighbours))
            done((part.stop - part.start) * (other.stop - other.start))
        _merge_row(folder, i, rows, columns, k, tie)
    sides = []
    for name, parts in (("forward", rows), ("backward", columns)):
        loaded = []
        for i in range(len(parts)):
            (of_part,), _ = _load(folder / f"{name}_{i}.parquet")
            loaded.append(of_part)
        sides.append(joined(loaded))
    return tuple(sides)


def _shards(count: int, size: int, k: int) -> list[slice]:
    """Even shards of about that size, none with fewer than k rows."""
    shards = max(1, min(-(-count // size), count // k))
    ends = np.linspace(0, count, shards + 1).astype(int).tolist()
    return [slice(start, stop) for start, stop in pairwise(ends)]


def _merge_row(folder: Path, i: int, rows: Sequence[slice], columns: Sequence[slice], k: int, tie: float) -> None:
    """Merge a row of tiles for the source's shard, and each tile for the target's; may be stopped at any time.

    The forward file is written last: if it is there, the row is done. A target's file says how many rows are merged in
    it, so that a row that was stopped half way is not merged into it twice.
    """
    forward_path = folder / f"forward_{i}.parquet"
    if not forward_path.exists():
        forward = None
        for j, part in enumerate(columns):
            (of_source, of_target), _ = _load(folder / f"tile_{i}_{j}.parquet")
            of_source = Neighbours(of_source.rows + part.start, of_source.scores)
            forward = of_source if forward is None else merge(forward, of_source, k, tie)
            backward = Neighbours(of_target.rows + rows[i].start, of_target.scores)
            backward_path = folder / f"backward_{j}.parquet"
            merged = 0
            if backward_path.is_file():
                (before,), merged = _load(backward_path)
                backward = merge(before, backward, k, tie)
            if merged <= i:
                _save(backward_path, backward, merged=i + 1)
        _save(forward_path, forward)
    for path in folder.glob(f"tile_{i}_*.parquet"):
        path.unlink()


def merge(one: Neighbours, other: Neighbours, k: int, tie: float) -> Neighbours:
    """The k best of the neighbours that two searches found for the same vectors; scores tie within `tie`."""
    rows = np.hstack([one.rows, other.rows])
    scores = np.hstack([one.scores, other.scores])
    return Neighbours(*best_first(rows, scores, k, tie))


def clear(folder: str | Path) -> None:
    """Remove the tiles of a search that has ended, and its folder unless something else lies there."""
    folder = Path(folder)
    for model in (folder / "model", folder):  # the dense model's own search lies inside
        remove_parts(model, _FILES)


def _save(path: Path, *sides: Neighbours, merged: int = 0) -> None:
    """Neighbours of one or two sides, one below the other, and how many rows of tiles are merged in them."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    k, columns = sides[0].rows.shape[1], {}
    for name, arrays in zip(Neighbours._fields, zip(*sides)):
        values = pa.array(np.concatenate(arrays).ravel())
        columns[name] = pa.FixedSizeListArray.from_arrays(values, k)
    metadata = {"counts": json.dumps([len(side.rows) for side in sides]), "merged": str(merged)}
    with atomic_path(path) as scratch:
        pq.write_table(pa.table(columns).replace_schema_metadata(metadata), scratch, use_dictionary=False)


def _load(path: Path) -> tuple[list[Neighbours], int]:
    """What `_save` wrote."""
    import pyarrow.parquet as pq

    with readable(path):
        table = pq.read_table(path)
        metadata = table.schema.metadata or {}
        counts, merged = json.loads(metadata[b"counts"]), json.loads(metadata[b"merged"])
        parts = []
        for name in Neighbours._fields:
            lists = table.column(name).combine_chunks()
            array = lists.values.to_numpy().reshape(-1, lists.type.list_size)
            parts.append(np.split(array, np.cumsum(counts)[:-1]))
        return [Neighbours(*side) for side in zip(*parts)], merged
