"""On a cluster the same as in one process, whoever dies."""

import os
import signal
import threading
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array, random_array

ray = pytest.importorskip("ray", reason="needs ray: pip install 'hfxling[ray]'")

from hfxling.data.features import cached_features  # noqa: E402
from hfxling.sentences.ray import Encoder, connect, tiles  # noqa: E402
from hfxling.sentences.shards import search  # noqa: E402

pytestmark = pytest.mark.slow
TEXTS = [f"{'word ' * (i % 7)}{i}" for i in range(3000)]


@pytest.fixture(scope="module", autouse=True)
def cluster():
    """Two workers on this machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("RAY_ADDRESS", raising=False)
        connect(workers=2)
        yield
    ray.shutdown()


def workers(doing: str) -> list[int]:
    """Processes under this one whose title says that they do it."""
    above, found = {}, []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit():
                above[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                if doing in (entry / "cmdline").read_text():
                    found.append(int(entry.name))
        except OSError:  # it has ended
            continue

    def is_ours(pid: int) -> bool:
        return pid == os.getpid() or (pid in above and is_ours(above[pid]))

    return [pid for pid in found if is_ours(pid)]


class Killer(threading.Thread):
    """Ends one worker as `kill -9` does as soon as there is one that works."""

    def __init__(self, doing: str):
        super().__init__(daemon=True)
        self.doing, self.killed = doing, []
        self.start()

    def run(self):
        begun = time.monotonic()
        while not self.killed and time.monotonic() - begun < 60:
            self.killed = workers(self.doing)[:1]
            time.sleep(0.01)
        for pid in self.killed:
            os.kill(pid, signal.SIGKILL)


def dense(count: int, seed: int) -> list:
    return [np.random.default_rng(seed).standard_normal((count, 64)).astype(np.float32)]


def sparse(count: int, seed: int) -> list:
    return [csr_array(random_array((count, 5000), density=0.01, format="csr", rng=seed, dtype=np.float32))]


@pytest.mark.parametrize("make", [dense, sparse])
def test_one_worker_is_killed_and_the_neighbours_are_the_same(tmp_path, make):
    sides, counted = [make(4000, 0), make(3000, 1)], []
    expected = search(*sides, 4, tmp_path / "local", {}, shard=500)
    killer = Killer("ray::of_tile")
    found = search(*sides, 4, tmp_path / "ray", {}, shard=500, run=tiles, done=counted.append)
    killer.join()
    assert killer.killed
    assert sum(counted) == 4000 * 3000
    for side, other in zip(found, expected):
        assert side.rows.tobytes() == other.rows.tobytes()
        assert side.scores.tobytes() == other.scores.tobytes()
    files = [{path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in ("local", "ray")]
    assert files[0] == files[1]


def slow_lengths(seconds: float, batch: list[str]) -> np.ndarray:
    time.sleep(seconds)
    return np.array([[len(text), text.count("o")] for text in batch], np.float32)


def made(seconds: float):
    return partial(slow_lengths, seconds)


def test_one_encoder_is_killed_and_the_vectors_are_the_same(tmp_path):
    settings = {"key": {"model": "lengths"}, "shape": (2,)}
    expected = cached_features(TEXTS, made(0), cache_dir=tmp_path / "local", **settings)
    killer = Killer("ray::MapWorker(MapBatches(_Worker)).submit")
    found = cached_features(TEXTS, Encoder(partial(made, 0.5)), cache_dir=tmp_path / "ray", **settings)
    killer.join()
    assert killer.killed
    assert found.tobytes() == expected.tobytes()


def failing(batch: list[str]) -> np.ndarray:
    raise ValueError(f"{len(batch)} texts: no.")


def test_what_goes_wrong_in_a_worker_is_said_as_here(tmp_path, refusal):
    encoder = Encoder(lambda: failing)
    encoder.expect([["a", "b"]])
    assert refusal(lambda: encoder(["a", "b"])) == "error: 2 texts: no."
    sides = [dense(50, 0), dense(40, 1)]
    sides[1][0][3] = 0
    assert "1 of 40 target vectors are zero" in refusal(lambda: search(*sides, 4, tmp_path, {}, run=tiles))


def test_no_cluster_at_the_address(monkeypatch, refusal):
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    monkeypatch.setattr(ray, "init", lambda **_: (_ for _ in ()).throw(ConnectionError("nobody\nthere")))
    assert "RAY_ADDRESS='127.0.0.1:1': no Ray cluster there (nobody)" in refusal(connect)
