"""What `chaos.py` runs: every recipe and command in a forked process that has imported everything, and what it said."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from hfxling.cli import main  # the command line itself is what is tried here
from hfxling.commands import COMMANDS, load_verb
from hfxling.console import run as run_recipe
from hfxling.methods import METHODS

if TYPE_CHECKING:
    from hub_server import HubServer

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ("pretrain", "xnli")
RECIPES = (*METHODS, *EXAMPLES, "study")
TIMEOUT = 120  # seconds, of one that should refuse what it is given
# Where a run may take place besides here.
CLOSED, FULL, BROKEN = "closed output", "full output", "broken output"
HOME, LOCALE_C, HUB = "own home", "locale C", "Hub"


def program_module(name: str) -> str:
    """Where a recipe or an example stands."""
    return f"{'examples' if name in EXAMPLES else 'recipes'}.{name}"


@dataclass
class Outcome:
    """How a run ended: exit status (negative: the signal that ended it; None: it ran past its time), and its words."""

    status: int | None
    out: str
    err: str
    seconds: float

    def lines(self, kind: str = "error") -> list[str]:
        """The errors, or warnings, that it told of."""
        return [line for line in self.err.splitlines() if line.startswith(f"{kind}: ")]


def load_everything() -> None:
    """Import whatever a recipe or command may need, so that a fork starts in no time."""
    sys.path.insert(0, str(ROOT))
    for name in RECIPES:
        import_module(program_module(name))
    for name in COMMANDS:
        load_verb(name)
    for name in ("sentence_transformers", "datasets", "pyarrow.parquet", "hfxling.encoders", "hfxling.fit"):
        import_module(name)


def start(words: Sequence[str], folder: Path, place: str = "", name: str = "") -> int:
    """Fork, and run words as `hfxling WORDS`, or as a recipe where the first one names one; gives the process' id.

    What it says goes to the files stdoutNAME and stderrNAME of the folder.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        while os.getpgid(pid) != pid:  # until then a signal to its group would find nobody
            time.sleep(0.001)
        return pid
    status = 70
    try:
        os.setsid()  # a signal is for it and those that it starts
        os.chdir(folder)
        for number, stream in ((1, "stdout"), (2, "stderr")):
            os.dup2(os.open(folder / f"{stream}{name}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        _take_place(place, folder)
        logging.getLogger("hfxling").handlers.clear()  # those of the benchmark itself
        program, *argv = words
        sys.argv = [program, *argv]
        if program in RECIPES:
            run_recipe(lambda: import_module(program_module(program)).main(argv), argv)
        else:
            main([program, *argv])
        status = 0
    except SystemExit as stop:
        status = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except KeyboardInterrupt:  # before the command has begun, or after its end
        status = 130
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, AttributeError):
                stream.flush()
        os._exit(status)


def _take_place(place: str, folder: Path) -> None:
    """Close or replace standard output, or move home."""
    if place == CLOSED:
        os.close(1)
        sys.stdout = None
    elif place == FULL:
        os.dup2(os.open("/dev/full", os.O_WRONLY), 1)
    elif place == BROKEN:
        reader, writer = os.pipe()
        os.close(reader)
        os.dup2(writer, 1)
        sys.stdout = open(1, "w", closefd=False, encoding="utf-8")  # noqa: SIM115 - one that knows it is no file
    elif place == HOME:
        os.environ["HOME"] = str(folder)


def finish(pid: int, folder: Path, timeout: float = TIMEOUT, name: str = "") -> Outcome:
    """Wait for a run, at most so many seconds."""
    begun, code = time.monotonic(), None
    while code is None and time.monotonic() - begun < timeout:
        done, state = os.waitpid(pid, os.WNOHANG)
        code = os.waitstatus_to_exitcode(state) if done else None
        if not done:
            time.sleep(0.01)
    if code is None:
        kill(pid)
    out, err = ((folder / f"{stream}{name}").read_text(errors="replace") for stream in ("stdout", "stderr"))
    return Outcome(code, out, err, time.monotonic() - begun)


def kill(pid: int, number: int = signal.SIGKILL) -> int:
    """End a run, as `kill -9` does, with all that it started; gives its exit status."""
    os.killpg(pid, number)
    for _ in range(100 * TIMEOUT):
        done, state = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(state)
        time.sleep(0.01)
    os.killpg(pid, signal.SIGKILL)  # it does not end
    os.waitpid(pid, 0)
    raise TimeoutError(f"signal {number} is ignored")


def run(words: Sequence[object], folder: Path, timeout: float = TIMEOUT, place: str = "") -> Outcome:
    """Start and finish."""
    folder.mkdir(parents=True, exist_ok=True)
    words = [str(word) for word in words]
    if place == HUB:
        return Hub.open().run(words, folder, timeout)
    if place == LOCALE_C:
        return in_locale_c(words, folder, timeout)
    return finish(start(words, folder, place), folder, timeout)


def in_locale_c(words: list[str], folder: Path, timeout: float) -> Outcome:
    """A process of its own, as Python decodes a command line when it starts."""
    program = [str(ROOT / program_module(words[0]).replace(".", "/")) + ".py"] if words[0] in RECIPES else None
    command = [sys.executable, *(program or ["-m", "hfxling", words[0]]), *words[1:]]
    environment = os.environ | {"LC_ALL": "C", "PYTHONPATH": str(ROOT)}
    begun = time.monotonic()
    with (folder / "stdout").open("wb") as out, (folder / "stderr").open("wb") as err:
        done = subprocess.run(
            command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=err, timeout=timeout
        )
    out, err = ((folder / stream).read_text(encoding="utf-8", errors="replace") for stream in ("stdout", "stderr"))
    return Outcome(done.returncode, out, err, time.monotonic() - begun)


class Hub:
    """A stand-in for the Hub, and a process that has imported everything with its address and forks runs.

    Attributes:
        server: the stand-in, to put repositories into.
    """

    opened: Hub | None = None

    def __init__(self):
        sys.path.append(str(ROOT / "tests" / "support"))
        from hub_server import HubServer

        self.server: HubServer = HubServer().__enter__()
        self.home = tempfile.TemporaryDirectory()
        environment = self.server.env(Path(self.home.name)) | {"PYTHONPATH": str(ROOT)}
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen([sys.executable, __file__], env=environment, **pipes)

    @classmethod
    def open(cls) -> Hub:
        """The only one, begun where it is first needed."""
        cls.opened = cls.opened or cls()
        return cls.opened

    @classmethod
    def close(cls) -> None:
        """End it where it was begun."""
        if cls.opened is not None:
            cls.opened.process.stdin.close()
            cls.opened.process.wait()
            cls.opened.server.__exit__()
            cls.opened.home.cleanup()
            cls.opened = None

    def run(self, words: list[str], folder: Path, timeout: float) -> Outcome:
        """Run words with the Hub in reach."""
        self.process.stdin.write(json.dumps({"words": words, "folder": str(folder), "timeout": timeout}) + "\n")
        self.process.stdin.flush()
        while True:
            line = self.process.stdout.readline()
            if line.startswith("{"):
                return Outcome(**json.loads(line))
            if not line:
                raise RuntimeError("the process that runs commands beside the Hub has ended")


def serve() -> None:
    """Run what standard input asks for, a line of JSON each."""
    load_everything()
    for line in sys.stdin:
        job = json.loads(line)
        outcome = run(job["words"], Path(job["folder"]), job["timeout"])
        print(json.dumps(asdict(outcome)), flush=True)


def as_words(program: str, options: dict) -> list[str]:
    """A command line; None leaves an option out, "" stands for words without a key."""
    words = [program]
    for key, value in options.items():
        values = [str(v) for v in (value if isinstance(value, (list, tuple)) else [value])]
        if value is not None:
            words += values if key == "" else [f"--{key}", *values]
    return words


ENCODER = {
    "tokenizer": "bpe",
    "vocab_size": 900,
    "hidden_size": 16,
    "layers": 2,
    "heads": 2,
    "intermediate_size": 16,
    "max_length": 64,
}
QUICK = {"use_cpu": True, "disable_tqdm": True, "output_dir": "out"}
HEAD = {"layer": "1", "pairs": "zh-vi", "num_train_epochs": 1, "cache_dir": "cache"} | QUICK


def valid(work: Path) -> dict[str, dict]:
    """Options with which every recipe and command ends well, by its name. Long because every one has its entry."""
    text, model = work / "text", work / "models"
    tables = {"train_data": text / "train.tsv", "test_data": text / "test.tsv"}
    encoder = {"base_model": model / "encoder"}
    pair = {"source_lang": "zh", "target_lang": "vi"}
    heads = {name: tables | encoder | HEAD for name, method in METHODS.items() if method.is_head}
    heads["siamese"]["fit"] = "cca"
    heads["disentangler"]["probe_pairs"] = 4
    return (
        heads
        | {
            "pretrain": {"texts": [text / "train.zh", text / "train.vi"], "max_steps": 2, "save_strategy": "no"}
            | ENCODER
            | QUICK,
            "dap": {"max_steps": 2, "per_device_train_batch_size": 8, "save_strategy": "no", "pairs": "zh-vi"}
            | tables
            | encoder
            | QUICK
            | {"cache_dir": "cache"},
            "aligner": {"pairs": "zh-vi", "size": 8, "num_train_epochs": 1, "evaluate_every": 1} | tables | QUICK,
            "lexical": {"pairs": "zh-vi", "rank": 8, "views": "fine"} | tables | QUICK,
            "xnli": {
                "train_data": text / "nli.tsv",
                "test_data": text / "nli.tsv",
                "train_lang": "en",
                "test_langs": "en",
                "num_train_epochs": 1,
                "per_device_train_batch_size": 8,
            }
            | encoder
            | QUICK,
            "study": {"config": text / "study.yaml", "results_dir": "out"} | encoder | tables | HEAD,
            "fit": {
                "": [text / "train.zh", text / "train.vi"],
                "languages": ["zh", "vi"],
                "only": "static",
                "output": "out",
            },
            "encode": {"": text / "test.zh", "model": model / "siamese", "output": "out.npy", "language": "zh"},
            "nearest": {"": "今天下雨。", "model": model / "siamese", "candidates": text / "test.vi"},
            "evaluate": {"task": "retrieval", "model": model / "siamese", "data": text / "test.tsv", "output": "out"}
            | pair,
            "quality": {"": text / "test.tsv", "model": model / "siamese", "output": "out.tsv"} | pair,
            "align": {"": [text / "test.zh", text / "test.vi"], "model": model / "aligner", "output": "out.tsv"},
            "lexicon": {
                "": [text / "train.zh", text / "train.vi"],
                "model": model / "aligner",
                "output": "out.tsv",
                "min_count": 1,
            },
            "explain": {"": ["今天下雨。", "Hôm nay trời mưa."], "model": model / "lexical"},
        }
        | valid_of_heaps(text, model, pair)
    )


def valid_of_heaps(text: Path, model: Path, pair: dict) -> dict[str, dict]:
    """The same of those that find, clean and compare pairs."""
    return {
        "mine": {"": [text / "train.zh", text / "train.vi"], "model": model / "siamese", "output": "out.tsv"}
        | pair
        | {"cache_dir": "cache"},
        "clean": {"": text / "train.tsv", "model": model / "siamese", "output": "out.tsv", "cache_dir": "cache"} | pair,
        "bootstrap": {
            "": [text / "train.zh", text / "train.vi"],
            "seed_pairs": text / "train.tsv@1-120",
            "rounds": 1,
            "output": "out",
        }
        | pair,
        "align-documents": {
            "": [text / "docs.zh", text / "docs.vi"],
            "model": model / "siamese",
            "output": "out.tsv",
        },
        "compare": {"": [text / "one.json", text / "other.json"]},
    }


if __name__ == "__main__":
    serve()
