"""A final name never holds half a result."""

import errno
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from hfxling.files import atomic_path, free_memory, reserved_array


def test_a_file_appears_only_when_the_block_ends(tmp_path):
    final = tmp_path / "deep" / "a.txt"
    with atomic_path(final) as scratch:
        scratch.write_text("new")
        assert not final.exists()
    assert final.read_text() == "new"
    assert [path.name for path in final.parent.iterdir()] == ["a.txt"]


@pytest.mark.parametrize("folder", [False, True])
def test_an_error_leaves_the_old_one_untouched(folder, tmp_path):
    final = tmp_path / "out"
    if folder:
        final.mkdir()
        (final / "old").write_text("old")
    else:
        final.write_text("old")

    def fail():
        with atomic_path(final) as scratch:
            if folder:
                scratch.mkdir()
                (scratch / "half").write_text("half")
            else:
                scratch.write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert ((final / "old") if folder else final).read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_folder_is_replaced_whole(tmp_path):
    final = tmp_path / "out"
    final.mkdir()
    (final / "old").write_text("old")
    with atomic_path(final) as scratch:
        scratch.mkdir()
        (scratch / "new").write_text("new")
    assert [path.name for path in final.iterdir()] == ["new"]


def test_others_may_read_what_was_written_for_its_owner_alone(tmp_path):
    before = os.umask(0o027)
    try:
        with atomic_path(tmp_path / "model") as scratch:
            (scratch / "deep").mkdir(parents=True)
            for name in ("weights", "deep/weights", "script"):
                (scratch / name).touch()
                (scratch / name).chmod(0o600 if name != "script" else 0o700)  # as safetensors does
        with atomic_path(tmp_path / "one") as scratch:
            scratch.touch(mode=0o600)
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.rglob("*") if path.is_file()}
    assert modes == {"weights": 0o640, "script": 0o700, "one": 0o640}
    assert (tmp_path / "model" / "deep" / "weights").stat().st_mode & 0o777 == 0o640


HOLD = """
import sys, time
from hfxling.files import atomic_path
with atomic_path(sys.argv[1]) as scratch:
    scratch.mkdir()
    (scratch / "half").write_text("half")
    print("there", flush=True)
    time.sleep(60)
"""


def test_the_next_run_clears_what_a_killed_one_left_and_no_running_one(tmp_path):
    final = tmp_path / "model[1]"
    dead, alive = (subprocess.Popen([sys.executable, "-c", HOLD, str(final)], stdout=subprocess.PIPE) for _ in range(2))
    try:
        for run in (dead, alive):
            assert run.stdout.readline() == b"there\n"
        assert len(list(tmp_path.iterdir())) == 2
        dead.send_signal(signal.SIGKILL)
        dead.wait()
        (tmp_path / ".model[1].mine").mkdir()  # not ours
        with atomic_path(final) as scratch:
            scratch.mkdir()
        left = {path.name for path in tmp_path.iterdir()} - {".model[1].mine", "model[1]"}
        assert len(left) == 1
        assert (tmp_path / left.pop() / "model[1]" / "half").read_text() == "half"
    finally:
        for run in (dead, alive):
            run.kill()
            run.wait()
            run.stdout.close()


def test_a_folder_whose_writer_was_killed_between_two_renamings_is_not_lost(tmp_path):
    scratch = tmp_path / ".out.abc.scratch"
    for name in ("out", ".replaced"):
        (scratch / name).mkdir(parents=True)
    (scratch / "out" / "new").write_text("new")
    (scratch / ".lock").touch()
    with pytest.raises(RuntimeError), atomic_path(tmp_path / "out"):
        raise RuntimeError
    assert [path.name for path in tmp_path.rglob("*")] == ["out", "new"]


def test_the_place_of_an_array_is_taken(tmp_path, monkeypatch):
    array = reserved_array(tmp_path / "a.npy", (1000, 1000))
    assert array.shape == (1000, 1000)
    assert array.dtype == np.float32
    assert not array.any()
    assert (tmp_path / "a.npy").stat().st_blocks * 512 >= 4_000_000

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(ValueError, match=r"b\.npy needs 3\.8 MiB, .* are free on this disk; make room"):
        reserved_array(tmp_path / "b.npy", (1000, 1000))


FILL = """
import sys
import numpy as np
from hfxling.data.features import cached_features
from hfxling.files import atomic_path

def encode(texts):
    return np.ones((len(texts), 16), np.float32)

for place in ("cache", "file"):
    try:
        if place == "cache":
            cached_features([str(i) for i in range(9000)], encode, key={}, shape=(16,), cache_dir=sys.argv[1])
        with atomic_path(sys.argv[1] + "/file") as scratch:
            scratch.write_bytes(bytes(2**20))
    except (ValueError, OSError) as error:
        print(error)
"""


def test_a_disk_that_is_really_full(tmp_path):
    """On a disk of 256 KiB: memory-mapped files whose place is not taken end the process by a bus error there."""
    own = ["unshare", "--map-root-user", "--mount", "sh", "-c"]
    mount = f"mount -t tmpfs -o size=256k tmpfs '{tmp_path}'"
    try:
        able = subprocess.run([*own, mount], capture_output=True).returncode == 0
    except FileNotFoundError:
        able = False
    if not able:
        pytest.skip("this system mounts no disk for a process alone")
    run = [*own, f'{mount} && "$0" -c "$1" "$2" && find "$2" -name "file*" -o -name "*.npy"', sys.executable, FILL]
    done = subprocess.run([*run, str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    cache, file = done.stdout.splitlines()  # and no file is there
    assert "features.unfinished.npy needs 0.5 MiB, 0.2 are free on this disk; make room" in cache
    assert "No space left on device" in file


def test_free_memory_is_some_of_it():
    assert 2**20 < free_memory() <= os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
