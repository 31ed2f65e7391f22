"""What `chaos.py` runs: every recipe and command in a forked process that has imported everything, and what it said."""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from hfxling.cli import COMMANDS, load_verb, main
from hfxling.console import run as run_recipe
from hfxling.methods import METHODS

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ("pretrain", "xnli")
RECIPES = (*METHODS, *EXAMPLES, "study")
TIMEOUT = 120  # seconds, of one that should refuse what it is given


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


def start(words: Sequence[str], folder: Path) -> int:
    """Fork, and run words as `hfxling WORDS`, or as a recipe where the first one names one; gives the process' id."""
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        return pid
    os.setsid()  # a signal is for it and those that it starts
    os.chdir(folder)
    for number, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    logging.getLogger("hfxling").handlers.clear()  # those of the benchmark itself
    status = 70
    try:
        name, *argv = words
        sys.argv = [name, *argv]
        if name in RECIPES:
            run_recipe(lambda: import_module(program_module(name)).main(argv), argv)
        else:
            main([name, *argv])
        status = 0
    except SystemExit as stop:
        status = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(status)


def finish(pid: int, folder: Path, timeout: float = TIMEOUT) -> Outcome:
    """Wait for a run, at most so many seconds."""
    begun, code = time.monotonic(), None
    while code is None and time.monotonic() - begun < timeout:
        done, state = os.waitpid(pid, os.WNOHANG)
        code = os.waitstatus_to_exitcode(state) if done else None
        if not done:
            time.sleep(0.01)
    if code is None:
        kill(pid)
    out, err = ((folder / name).read_text(errors="replace") for name in ("stdout", "stderr"))
    return Outcome(code, out, err, time.monotonic() - begun)


def kill(pid: int) -> None:
    """End a run as `kill -9` does, with all that it started."""
    os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def run(words: Sequence[object], folder: Path, timeout: float = TIMEOUT) -> Outcome:
    """Start and finish."""
    folder.mkdir(parents=True, exist_ok=True)
    return finish(start([str(word) for word in words], folder), folder, timeout)


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
    return {
        "pretrain": {"texts": [text / "train.zh", text / "train.vi"], "max_steps": 2, "save_strategy": "no"}
        | ENCODER
        | QUICK,
        "siamese": {"fit": "cca"} | tables | encoder | HEAD,
        "disentangler": {"probe_pairs": 4} | tables | encoder | HEAD,
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
    } | valid_of_heaps(text, model, pair)


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
