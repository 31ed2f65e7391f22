"""What a user sees: lines, whatever the locale and the streams are; nothing of what must stay secret."""

import logging
import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest

from hfxling.console import check_words, run, without_secrets
from hfxling.files import uninterrupted

ROOT = Path(__file__).resolve().parents[1]
SHOW = "import sys\nfrom hfxling.console import run\nrun(lambda: print(*sys.argv[1:]))"


def shown(code: str, *words: str, **options) -> subprocess.CompletedProcess:
    """A process that runs code."""
    environment = {"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"]} | options.pop("env", {})
    return subprocess.run([sys.executable, "-c", code, *words], env=environment, timeout=60, **options)


def test_the_locale_c_takes_and_gives_any_text():
    done = shown(SHOW, "今天", env={"LC_ALL": "C"}, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.decode() == "今天\n"


def test_words_that_are_no_text_are_refused():
    check_words(["今天", "a"])
    with pytest.raises(ValueError, match=r"udcff.* is not UTF-8"):
        check_words(["\udcff\udcfe"])


def test_a_closed_error_stream_is_none():
    command = ["sh", "-c", f'{sys.executable} -c "$0" a 2>&-', SHOW]
    done = subprocess.run(command, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "a\n")


def test_a_full_disk_under_standard_output_is_a_line():
    with open("/dev/full", "w") as full:
        done = shown(SHOW, "a", stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("error: the disk is full")


def test_sigterm_takes_back_what_was_begun(tmp_path):
    code = (
        "import time\nfrom tempfile import TemporaryDirectory\nfrom hfxling.console import run\n"
        "def main():\n    with TemporaryDirectory(dir='.'):\n        print('begun', flush=True)\n"
        "        time.sleep(60)\n"
        "run(main)"
    )
    environment = {"PYTHONPATH": str(ROOT)}
    process = subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, env=environment, stdout=subprocess.PIPE)
    process.stdout.readline()
    assert list(tmp_path.iterdir())
    process.terminate()
    assert process.wait(20) == 143
    process.stdout.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("sent", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_within_a_callback_is_not_lost(sent, status):
    """What a weak reference calls lets no exception out."""
    code = (
        "import os, signal, time, weakref\nfrom hfxling.console import run\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a shell's background jobs ignore it
        "class Thing:\n    pass\n"
        f"def killed(_):\n    os.kill(os.getpid(), {int(sent)})\n    time.sleep(0.01)\n"
        "def main():\n    thing = Thing()\n    reference = weakref.ref(thing, killed)\n    del thing\n"
        "    time.sleep(20)\n    print('went on')\n"
        "run(main)"
    )
    done = shown(code, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (status, "")


def test_signals_wait_for_a_block_that_must_not_be_interrupted(ctrl_c):
    done = []

    def interrupted():
        with uninterrupted():
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.05)
            done.append("all of it")

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert done == ["all of it"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_malformed_message_of_a_library_ends_no_run():
    done = []

    def work():
        logging.getLogger("library").warning("%d", "a")
        done.append("all of it")

    assert run(work, []) in (0, None)
    assert done == ["all of it"]


def test_secrets_are_not_repeated():
    text = "model='https://me:secret@host/x' hf_abcdefghijklmnop hf_hub"
    assert without_secrets(text) == "model='https://...@host/x' hf_... hf_hub"
    assert without_secrets("https:/me:secret@host/x: no such file") == "https:/...@host/x: no such file"
    assert without_secrets("'a/b?access_token=abc&x=1'") == "'a/b?access_token=...&x=1'"


def test_other_libraries_do_not_repeat_secrets_either():
    code = (
        "import logging\nfrom hfxling.console import run\n"
        "run(lambda: logging.getLogger('other').warning('no %s here', 'org/a?token=secret'))"
    )
    done = shown(code, capture_output=True, text=True)
    assert done.stderr == "no org/a?token=... here\n"


class OwnError(Exception):
    """As safetensors raises it."""


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (OSError(28, "No space left on device"), "the disk is full; make room"),
        (OwnError("I/O error: No space left on device (os error 28)"), "the disk is full; make room"),
        (RuntimeError("basic_ios::clear: iostream error"), "is the disk full? Make room"),  # torch.save
        (RuntimeError("[enforce fail] . unexpected pos 64 vs 0"), "is the disk full? Make room"),
    ],
)
def test_a_full_disk_is_a_line_whoever_notices(error, message, capsys):
    def full():
        raise error

    with pytest.raises(SystemExit) as stop:
        run(full, [])
    assert stop.value.code == 2
    assert message in capsys.readouterr().err


def test_an_error_of_the_user_ends_in_one_line(capsys):
    def main():
        raise ValueError("line one\n  and two")

    with pytest.raises(SystemExit) as stop:
        run(main)
    assert stop.value.code == 2
    assert capsys.readouterr().err == "error: line one and two\n"


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (FileNotFoundError("gone"), 2, "error: gone\n"),
        (RuntimeError("one\n  and two"), 1, "error: RuntimeError: one and two (--traceback shows all)\n"),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_how_a_program_ends(error, status, said, capsys):
    def main():
        raise error

    with pytest.raises(SystemExit) as stop:
        run(main, [])
    assert stop.value.code == status
    assert capsys.readouterr().err == said
    if said:
        with pytest.raises(SystemExit) as stop:
            run(main, ["--traceback"])
        assert stop.value.code == status
        assert capsys.readouterr().err.startswith("Traceback")
    assert not logging.getLogger("hfxling").handlers


def test_verbose_shows_how_something_was_chosen(capsys):
    def main():
        logging.getLogger("hfxling.somewhere").debug("layer 7 of 12")

    run(main, [])
    assert capsys.readouterr().err == ""
    run(main, ["--verbose"])
    assert capsys.readouterr().err == "layer 7 of 12\n"


def test_messages_go_to_standard_error(capsys):
    logger = logging.getLogger("hfxling.part")

    def main():
        logger.info("written: %s", "x")
        logger.warning("too few")
        sys.stdout.write("a result\n")

    run(main)
    assert capsys.readouterr() == ("a result\n", "written: x\nwarning: too few\n")


def test_a_closed_pipe_is_no_error():
    code = "from hfxling.console import run\nrun(lambda: [print('x' * 1000) for _ in range(1000)])"
    program = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    program.stdout.read(10)
    program.stdout.close()
    assert program.stderr.read() == b""
    program.stderr.close()
    assert program.wait() == 141


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda folder: folder.read_text(), "is a folder; name a file."),
        (lambda folder: (folder / "no" / "file").read_text(), "there is no such file or folder; check the path."),
        (
            lambda folder: (folder / "file" / "x").mkdir(),
            "there is a file where a folder is needed; name another place.",
        ),
        (lambda folder: (folder / "file").mkdir(), "there is a file where a folder is needed; name another place."),
        (lambda folder: (folder / ("x" * 300)).mkdir(), "is too long for a file name; give a shorter one."),
    ],
)
def test_what_the_system_says_of_files_is_one_line_with_a_remedy(make, message, tmp_path, capsys):
    (tmp_path / "file").touch()
    with pytest.raises(SystemExit) as stop:
        run(lambda: make(tmp_path), [])
    assert stop.value.code == 2
    line = capsys.readouterr().err
    assert line.startswith(f"error: {tmp_path}")
    assert line.endswith(f": {message}\n")


def test_warnings_are_lines_without_code_and_advice_for_developers_is_left_out(capsys):
    def main():
        warnings.warn("two\n lines", UserWarning, stacklevel=1)
        warnings.warn("old name", FutureWarning, stacklevel=1)
        warnings.warn("old name", DeprecationWarning, stacklevel=1)
        log = logging.getLogger("transformers.trainer_utils")
        log.warning("mtime may not be reliable on this filesystem, falling back to numerical ordering")

    before = warnings.showwarning
    run(main, [])
    assert warnings.showwarning is before
    assert capsys.readouterr().err == "warning: two lines\n"
