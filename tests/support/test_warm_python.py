"""A forked Python does what a fresh one does."""

import json
import os
import subprocess
import sys
import time

import pytest

TELL = """
import json, os, sys, tempfile
sys.stderr.write("said")
known = sorted({"hfxling", "transformers", "huggingface_hub", "torch"} & {*sys.modules})
place = [sys.path[0] == PLACE, os.getcwd(), tempfile.gettempdir()]
print(json.dumps([sys.argv, place, os.environ.get("WORD"), sys.stdin.read(), known, __name__]))
sys.exit(int(os.environ["STATUS"]))
"""


@pytest.mark.parametrize("how", ["-c", "-m", "path", "-P"])
def test_words_environment_folder_files_and_status_are_its_own(how, warm_python, tmp_path):
    text = TELL.replace("PLACE", "''" if how == "-c" else repr(str(tmp_path)))
    (tmp_path / "tell.py").write_text(text, encoding="utf-8")
    command = {"-c": ["-c", text], "-m": ["-m", "tell"], "path": ["tell.py"], "-P": ["-P", "tell.py"]}[how]
    options = {"cwd": tmp_path, "input": "in", "capture_output": True, "text": True}
    ended = []
    for python in (sys.executable, warm_python):
        environment = os.environ | {"WORD": "ขอ", "STATUS": "3", "PYTHONPATH": "", "TMPDIR": str(tmp_path)}
        done = subprocess.run([python, *command, "a", "b c"], env=environment, **options)
        *told, known, name = json.loads(done.stdout)
        assert known == ([] if python == sys.executable else ["torch"])
        ended.append((done.returncode, done.stderr, told, name))
    assert ended[0] == ended[1]


def test_an_error_is_shown_and_a_signal_passed_on(warm_python):
    done = subprocess.run([warm_python, "-c", "1 / 0"], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.endswith("ZeroDivisionError: division by zero\n")
    done = subprocess.run([warm_python, "-c", "import os; os.kill(os.getpid(), 9)"])
    assert done.returncode == -9
    code = "import signal, time; signal.signal(15, lambda *_: exit(5)); print(1); time.sleep(60)"
    with subprocess.Popen([warm_python, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        process.stdout.readline()
        process.terminate()
    assert process.returncode == 5
    with subprocess.Popen([warm_python, "-c", "import time; time.sleep(60)"], stdout=subprocess.PIPE) as process:
        process.terminate()
    assert process.returncode == -15


def test_what_is_killed_ends(warm_python):
    code = "import os, time; print(os.getpid(), flush=True); time.sleep(60)"
    with subprocess.Popen([warm_python, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        number = int(process.stdout.readline())
        process.kill()
    for _ in range(500):
        try:
            os.kill(number, 0)
        except ProcessLookupError:
            return
        time.sleep(0.01)
    pytest.fail("it goes on")
