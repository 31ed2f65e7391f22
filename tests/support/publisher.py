"""One process that talks to the stand-in Hub for many tests: to start one and import everything takes seconds."""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]


class Done(NamedTuple):
    """How a program ended."""

    returncode: int
    stdout: str
    stderr: str


class Publisher:
    """Runs programs in a process whose Hub is the stand-in and that can import hfxling.

    Its cache lies below `home`; programs must not count on an empty one. It is a process of `python`, which also opens
    what is published here.
    """

    def __init__(self, hub, home: Path, python: str = sys.executable):
        self.env = hub.env(home) | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
        command = [python, __file__, python]
        self.process = subprocess.Popen(command, env=self.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, code: str, *words: object, cwd: Path, **environment: str) -> Done:
        """As `python -c CODE WORDS` there, with further variables of the environment."""
        job = {"code": code, "words": [str(word) for word in words], "cwd": str(cwd), "environment": environment}
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        return Done(*json.loads(self.process.stdout.readline()))

    def script(self, path: Path, *words: object, cwd: Path, **environment: str) -> Done:
        """As `python PATH WORDS` there."""
        return self.run(
            f"import runpy; runpy.run_path({str(path)!r}, run_name='__main__')", *words, cwd=cwd, **environment
        )

    def command(self, *words: object, cwd: Path, **environment: str) -> Done:
        """As `hfxling WORDS` there."""
        return self.run("from hfxling.cli import main; main()", *words, cwd=cwd, **environment)

    def close(self) -> None:
        """End the process."""
        self.process.stdin.close()
        self.process.kill()
        self.process.wait()


def _run(job: dict) -> Done:
    """Run a program in this process, with standard output and error in files."""
    os.chdir(job["cwd"])
    earlier = dict(os.environ)
    os.environ.update(job["environment"])
    sys.argv = ["-c", *job["words"]]
    status = 0
    kept = os.dup(1), os.dup(2)
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        os.dup2(out.fileno(), 1)
        os.dup2(err.fileno(), 2)
        try:
            exec(compile(job["code"], "<program>", "exec"), {"__name__": "__main__"})
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else int(end.code is not None)
        except BaseException:
            traceback.print_exc()
            status = 1
        with contextlib.suppress(ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        for number, descriptor in enumerate(kept, 1):
            os.dup2(descriptor, number)
            os.close(descriptor)
        os.environ.clear()
        os.environ.update(earlier)
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read())
    return Done(status, *texts)


if __name__ == "__main__":
    sys.executable = sys.argv[1]
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        answers.write(json.dumps(_run(json.loads(line))) + "\n")
        answers.flush()
