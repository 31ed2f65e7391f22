"""A Python that starts in a third of the time: its processes are forked from one that has imported torch and the like.

Nothing of Hugging Face is imported there, since those libraries read the environment when they are imported, and
nothing of hfxling. `WarmPython` starts that process. `path` is a program that takes a command line as python does, and
runs it with the environment, folder and standard files that it has itself.
"""

from __future__ import annotations

import gc
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from types import ModuleType

LIBRARIES = (
    *("torch", "torch._dynamo", "torch.distributed.fsdp", "torch.distributed.tensor", "torch.export"),
    *("torch.distributed.checkpoint", "torch.nn.attention.flex_attention", "torch.utils.data"),
    *("jinja2", "numpy", "pandas", "pyarrow.parquet", "yaml"),
    *("scipy.optimize", "scipy.sparse", "scipy.stats", "sklearn.linear_model", "sklearn.metrics"),
)
STREAMS = ((1, "strict"), (2, "backslashreplace"))
PROGRAM = """#!{python} -IS
import json, os, signal, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect({address!r})
    signal.signal(signal.SIGTERM, lambda number, _: server.send(bytes([number])))
    job = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
    socket.send_fds(server, [len(job).to_bytes(8, "big")], [0, 1, 2])
    server.sendall(job)
    status = int(server.recv(8))
if status < 0:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.kill(os.getpid(), -status)
sys.exit(status)
"""


class WarmPython:
    """The process that has imported everything, and the program that asks it; ends with the context."""

    def __enter__(self) -> WarmPython:
        self._folder = tempfile.TemporaryDirectory(prefix="hfxling-")  # a socket's name must be short
        address = f"{self._folder.name}/socket"
        self.path = f"{self._folder.name}/python"
        Path(self.path).write_text(PROGRAM.format(python=sys.executable, address=address), encoding="utf-8")
        Path(self.path).chmod(0o755)
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        environment["OMP_NUM_THREADS"] = "1"
        command = [sys.executable, "-P", __file__, address]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self._server = subprocess.Popen(command, env=environment, start_new_session=True, **pipes)
        self._server.stdout.readline()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stdin.close()
        self._server.stdout.close()
        self._server.wait()
        self._folder.cleanup()


def serve(address: str) -> list:
    """Wait for jobs until standard input is at its end; a job is returned in the process that is to do it."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen(16)
    os.write(1, b"listening\n")
    for name in LIBRARIES:
        import_module(name)
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000)  # importing makes much that stays
    while True:
        ready, _, _ = select.select([listener, 0], [], [])
        if 0 in ready:
            os._exit(0)
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            return taken(connection)
        connection.close()
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def taken(connection: socket.socket) -> list:
    """Fork the process of a job, and wait for it here: it is killed when whoever asks is, who is told how it ended."""
    size, files, *_ = socket.recv_fds(connection, 8, 3)
    with connection.makefile("rb") as content:
        job = json.loads(content.read(int.from_bytes(size, "big")))
    process = os.fork()
    if process == 0:
        connection.close()
        for number, file in enumerate(files):
            os.dup2(file, number)
            os.close(file)
        return job
    for file in files:
        os.close(file)
    threading.Thread(target=pass_signals, args=(connection, process), daemon=True).start()
    _, status = os.waitpid(process, 0)
    with suppress(BrokenPipeError):
        connection.sendall(str(os.waitstatus_to_exitcode(status)).encode())
    os._exit(0)


def pass_signals(connection: socket.socket, process: int) -> None:
    """Pass signals on to a process, and kill it when nobody is at the other end any more."""
    asked = True
    while asked:
        asked = connection.recv(1)
        with suppress(ProcessLookupError):
            os.kill(process, asked[0] if asked else signal.SIGKILL)


def run(words: list[str], folder: str, environment: dict[str, str]) -> None:
    """What python does with [-P] [-u] and -c CODE, -m MODULE or PATH, and further words."""
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    tempfile.tempdir = None  # TMPDIR may be another one
    # Python looks at the files when it starts: whether they can be sought in, for one.
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout, sys.stderr = (os.fdopen(n, "w", 1, errors=errors, closefd=False) for n, errors in STREAMS)
    sys.path[:0] = filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))
    options = set()
    while words[0] in ("-P", "-u"):
        options.add(words.pop(0))
    kind = words.pop(0) if words[0] in ("-c", "-m") else "path"
    if "-P" not in options:
        first = {"-c": "", "-m": folder, "path": os.path.dirname(os.path.abspath(words[0]))}
        sys.path.insert(0, first[kind])
    sys.argv = words
    if kind == "path":
        runpy.run_path(words[0], run_name="__main__")
    elif kind == "-m":
        runpy.run_module(words[0], run_name="__main__", alter_sys=True)
    else:
        sys.argv = ["-c", *words[1:]]
        main = sys.modules["__main__"] = ModuleType("__main__")
        exec(compile(words[0], "<string>", "exec"), main.__dict__)


if __name__ == "__main__":
    run(*serve(sys.argv[1]))
