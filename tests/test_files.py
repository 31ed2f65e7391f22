"""A final name never holds half a result."""

import errno
import json
import os
import shutil
import signal
import stat
import subprocess
import sys

import numpy as np
import pytest

from hfxling.files import (
    alone_with,
    atomic_path,
    check_apart,
    check_replaceable,
    reserved_array,
    scratch_in,
)


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
    (final / "rounds.json").write_text(json.dumps({"files": ["old"]}))
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
    scratch = tmp_path / ".out.abc.hfxling-scratch"
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
    with pytest.raises(ValueError, match=r"b\.npy needs 3\.8 MiB, but .* are free on this disk; make room"):
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
    assert "features.unfinished.npy needs 0.5 MiB, but 0.2 are free on this disk; make room" in cache
    assert "No space left on device" in file


def written(path, text="new"):
    with atomic_path(path) as scratch:
        scratch.write_text(text)


def test_a_folder_with_files_of_others_is_not_replaced(tmp_path):
    final = tmp_path / "out"
    (final / "deep").mkdir(parents=True)
    for name in ("mine.txt", "deep/model"):
        (final / name).write_text("mine")

    def replace():
        with atomic_path(final) as scratch:
            (scratch / "deep").mkdir(parents=True)
            (scratch / "deep/model").write_text("new")

    with pytest.raises(ValueError, match=r"did not write \(mine.txt\)"):
        replace()
    assert (final / "deep/model").read_text() == "mine"
    with pytest.raises(ValueError, match=r"deep/model and 1 more"):
        check_replaceable(final)
    (final / "results.json").write_text(json.dumps({"files": {"mine.txt": "hash"}}))
    with pytest.raises(ValueError, match="deep/model"):
        check_replaceable(final)
    replace()  # the one is named by the record, the other one is in the new folder
    assert [path.name for path in sorted(final.rglob("*"))] == ["deep", "model"]


def test_a_folder_that_is_read_or_worked_in_is_not_replaced(tmp_path, monkeypatch):
    (tmp_path / "out").mkdir()
    (tmp_path / "out/a.zh").write_text("text")
    (tmp_path / "link").symlink_to(tmp_path / "out")
    for value in ("out/a.zh", ["zh-vi=out/a.zh+b@1-9"], "link/a.zh", "out/a.{source}"):
        monkeypatch.chdir(tmp_path)
        with pytest.raises(ValueError, match="in it is an input"):
            check_replaceable("out", [value])
    monkeypatch.chdir(tmp_path / "out")
    for place in (".", "..", tmp_path):
        with pytest.raises(ValueError, match="working directory"):
            check_replaceable(place)
    check_replaceable("new", ["a.zh", None, 3])


def test_what_is_read_is_not_written_over(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("a.tsv", "b.tsv"):
        (tmp_path / name).write_text("text")
    (tmp_path / "soft").symlink_to("a.tsv")
    os.link("a.tsv", "hard")
    for output in ("a.tsv", "./a.tsv", str(tmp_path / "a.tsv"), "soft", "hard"):
        for value in ("a.tsv", "soft", ["x", "b.tsv+a.tsv"], "zh-vi=a.tsv@1-2#1,0", "{source}.tsv"):
            with pytest.raises(ValueError, match=r"^output=.* is read"):
                check_apart({"output": output}, [value])
    with pytest.raises(ValueError, match="is the same file as output"):
        check_apart({"output": "new", "spans": "./new"}, [])
    check_apart({"output": "new", "spans": "other"}, ["a.tsv", 3, None, "a" * 5000, "null\0byte"])
    check_apart({"output": "/dev/stdout", "spans": "/dev/stdout"}, ["/dev/stdout"])


def test_links_modes_and_pipes_stay_what_they_are(tmp_path, capfd):
    (tmp_path / "real").write_text("old")
    (tmp_path / "real").chmod(0o640)
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "dangling").symlink_to("later")
    for name in ("link", "dangling"):
        written(tmp_path / name)
        assert (tmp_path / name).is_symlink()
        assert (tmp_path / name).read_text() == "new"
    assert (tmp_path / "real").stat().st_mode & 0o777 == 0o640
    os.mkfifo(tmp_path / "pipe")
    reader = subprocess.Popen(["cat", str(tmp_path / "pipe")], stdout=subprocess.PIPE)
    written(tmp_path / "pipe", "through")
    assert reader.communicate()[0] == b"through"
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    written("/dev/null")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    sys.stdout.write("before ")
    written("/dev/stdout", "shown")
    assert capfd.readouterr().out == "before shown"
    with pytest.raises(ValueError, match="no place for a folder"), atomic_path("/dev/null") as scratch:
        scratch.mkdir()


def test_a_scratch_folder_goes_and_with_it_those_of_the_killed(tmp_path):
    (tmp_path / ".onnx.dead.hfxling-scratch").mkdir()
    (tmp_path / ".onnx.mine").write_text("mine")
    with scratch_in(tmp_path, "onnx") as scratch:
        assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == [scratch.name]
        (scratch / "graph").write_text("x")
    assert [path.name for path in tmp_path.iterdir()] == [".onnx.mine"]


def test_a_signal_does_not_stop_the_removal_of_what_was_begun(tmp_path, monkeypatch, ctrl_c):
    """SIGTERM while scratch files go: all of them go first."""
    remove = shutil.rmtree

    def interrupted(folder, **options):
        os.kill(os.getpid(), signal.SIGINT)
        remove(folder, **options)

    monkeypatch.setattr(shutil, "rmtree", interrupted)
    with pytest.raises(KeyboardInterrupt), atomic_path(tmp_path / "out.txt") as scratch:
        scratch.write_text("x")
    assert [path.name for path in tmp_path.iterdir()] == ["out.txt"]


def test_who_holds_a_place_is_alone_there_and_leaves_nothing(tmp_path):
    place = tmp_path / "new" / "deeper" / "out.tsv"
    same = tmp_path / "new" / "." / "deeper" / "out.tsv"
    with alone_with(place, "the first"):
        with pytest.raises(ValueError, match="the second: another run writes there"), alone_with(same, "the second"):
            pass
        with alone_with(place.with_name("other.tsv"), "output"):
            pass
    assert list(tmp_path.iterdir()) == []
    with alone_with("/dev/stdout", "output"), alone_with("/dev/stdout", "output"):
        pass
