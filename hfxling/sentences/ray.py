"""Mining past one machine: ray.data encodes text, tiles of the search are Ray's tasks. Extra `ray`.

The cluster is the one that RAY_ADDRESS names, whose machines need hfxling, or one that is started here for as long as
the process runs. The computation is the same as in one process, so the result is the same, byte for byte, if the number
of threads is the same (Ray gives each task one). If a worker dies, another one does its work again.
"""

from __future__ import annotations

import logging
import os
import pickle
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import ray
import ray.data

from .neighbours import Neighbours, Vectors
from .shards import Tile, of_tile

Encode = Callable[[list[str]], Vectors]
_AHEAD = 2  # submitted tiles for each tile that can be worked on at once


def connect(workers: int | None = None) -> None:
    """Join the cluster that RAY_ADDRESS names, or start one here, with `workers` or one for each processor."""
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    if ray.is_initialized():
        return
    options = {"log_to_driver": False, "logging_level": logging.ERROR}
    if not (address := os.environ.get("RAY_ADDRESS")):
        # A cluster that we start reports nothing to Ray's makers, and does not tell us that the arguments of workers
        # are where Ray itself put them (unless the user's environment says otherwise).
        os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_BACKEND_LOG_LEVEL": "fatal"} | os.environ
        ray.init(address="local", num_cpus=workers, include_dashboard=False, **options)
        return
    try:
        ray.init(address=address, **options)
    except (ConnectionError, ValueError, RuntimeError) as error:
        problem = f"RAY_ADDRESS={address!r}: no Ray cluster there ({next(iter(str(error).splitlines()), '')})"
        raise ValueError(f"{problem}; start one (ray start --head), or unset it to take this machine.") from error


def _slots(device: str | None) -> tuple[int, dict]:
    """How many tasks the cluster works on at once, and what each of them needs in addition to a processor."""
    resources = ray.cluster_resources()
    if resources.get("GPU") and (device is None or device.startswith("cuda")):
        return int(resources["GPU"]), {"num_gpus": 1}
    return max(1, int(resources.get("CPU", 1))), {}


def tiles(
    source: list[Vectors], target: list[Vectors], places: Sequence[Tile], k: int, options: dict
) -> Iterator[tuple[Neighbours, Neighbours]]:
    """The neighbours in each tile, in order, each tile a task; the `run` of `hfxling.sentences.shards.search`."""
    connect()
    slots, need = _slots(options.get("device"))
    task = ray.remote(of_tile).options(**need)
    shards: list[dict] = [{}, {}]
    waiting: deque = deque()
    for place in places:
        tile = []
        for side, held, rows in zip((source, target), shards, place):
            key = (rows.start, rows.stop)
            if key not in held:
                if side is source:  # tiles come row by row: no later tile needs the last shard
                    held.clear()
                held[key] = ray.put([_part(vectors, rows) for vectors in side])
            tile.append(held[key])
        waiting.append(task.remote(*tile, k, options))
        if len(waiting) > _AHEAD * slots:
            yield _result(waiting.popleft())
    while waiting:
        yield _result(waiting.popleft())


def _part(vectors: Vectors, rows: slice) -> Vectors:
    """Some rows of vectors; those of an array are read into memory even if it is a file."""
    part = vectors[rows]
    return np.asarray(part) if isinstance(vectors, np.ndarray) else part


def _result(task: ray.ObjectRef) -> tuple[Neighbours, Neighbours]:
    with _as_here():
        return ray.get(task)


class Encoder:
    """Encodes batches of text on the cluster; batches that were announced beforehand run side by side.

    Args:
        make: makes the encoding function, once in each worker; has to be picklable, and to do the same everywhere.
        device: device to encode on.
    """

    def __init__(self, make: Callable[[], Encode], device: str | None = None):
        self.make, self.device = make, device
        self._results, self._left = iter(()), 0

    def expect(self, batches: Sequence[list[str]]) -> None:
        """Begin with batches that will be asked for in this order; some may be left out."""
        if not batches:
            return
        connect()
        slots, need = _slots(self.device)
        context = ray.data.DataContext.get_current()
        context.enable_progress_bars, context.execution_options.preserve_order = False, True
        data = ray.data.from_items([{"texts": list(batch)} for batch in batches], override_num_blocks=len(batches))
        pool = ray.data.ActorPoolStrategy(size=min(slots, len(batches)))
        options = {"batch_size": 1, "compute": pool, "fn_constructor_args": (self.make,)} | need
        self._results, self._left = iter(data.map_batches(_Worker, **options).iter_rows()), len(batches)

    def __call__(self, texts: list[str]) -> Vectors:
        """Vectors of a batch."""
        with _as_here():
            for row in self._results:
                self._left -= 1
                if not self._left:  # Ray keeps the workers until somebody reads past the end
                    next(self._results, None)
                if list(row["texts"]) == list(texts):
                    outcome = pickle.loads(row["outcome"])
                    if isinstance(outcome, Exception):
                        raise outcome
                    return outcome
        self.expect([texts])
        return self(texts)


class _Worker:
    """What encodes, in a process of its own."""

    def __init__(self, make: Callable[[], Encode]):
        self.make, self.encode = make, None

    def __call__(self, batch: dict) -> dict:
        (texts,) = batch["texts"]
        try:
            self.encode = self.encode or self.make()
            outcome = self.encode(list(texts))
        except Exception as error:  # raised where the outcome is read, as Ray would report it at length
            outcome = error
        return {"texts": [list(texts)], "outcome": np.array([pickle.dumps(outcome, protocol=5)], dtype=object)}


@contextmanager
def _as_here() -> Iterator[None]:
    """Raise what went wrong in a task as if it had gone wrong here."""
    try:
        yield
    except ray.exceptions.RayTaskError as error:
        raise error.cause or error from None
    except ray.exceptions.RayError as error:
        told = next(iter(str(error).splitlines()), "")
        raise ValueError(f"Ray: {told}; where workers lack memory, give a smaller --shard or --memory.") from error
