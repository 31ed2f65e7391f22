"""What a user sees: lines, whatever the locale and the streams are; nothing of what must stay secret."""

import os
import signal
import subprocess
import sys
import time
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


def test_signals_wait_for_a_block_that_must_not_be_interrupted():
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


def test_a_full_disk_is_a_line_whoever_notices(capsys):
    class OwnError(Exception):
        """As safetensors raises it."""

    def fails():
        raise OwnError("I/O error: No space left on device (os error 28)")

    with pytest.raises(SystemExit) as stop:
        run(fails, [])
    assert stop.value.code == 2
    assert capsys.readouterr().err.startswith("error: the disk is full")


@pytest.mark.parametrize("message", ["basic_ios::clear: iostream error", "[enforce fail] . unexpected pos 64 vs 0"])
def test_what_torch_says_of_a_full_disk_is_a_line(message, capsys):
    def fails():
        raise RuntimeError(message)

    with pytest.raises(SystemExit) as stop:
        run(fails, [])
    assert stop.value.code == 2
    assert "is the disk full?" in capsys.readouterr().err
