"""Bad input, tampered folders and kill -9: one line for each, nothing half-written, and the same bytes after a resume.

python tools/chaos.py [--seed N] [--share 0.1] [--kills 1] [--only REGEX] [--keep FOLDER]

A table (`chaos_values.py`, `chaos_files.py`, `chaos_folders.py`) is multiplied with the recipes and commands that read
such a thing, or write on a disk that is full (a small one is mounted, where the system allows that); --share is how
much of the product is run, one of each line at least. The seed draws which, where files are cut and when runs are
killed. Every case is a forked process that has imported everything.

- tracebacks: a traceback, exit status 1, or a signal. endless: more than two minutes.
- silent: exit status 0 though something is wrong.
- unclear: no line or several, a line of more than 600 characters, or one without the words of the table; where a
  warning will do, no such warning.
- half_written: something under a final name, or a scratch folder, that is not complete.
- kills: runs that `kill -9` ended at a random moment; bit_equal: whose weights are, after a resume, those of a run that
  was left alone.
"""

from __future__ import annotations

import os

os.environ |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "HF_HUB_DISABLE_TELEMETRY": "1"}
os.environ.setdefault("OMP_NUM_THREADS", "1")  # threads do not outlive a fork

import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import numpy as np
import torch
from chaos_cases import Case, Table
from chaos_runs import Outcome, as_words, kill, load_everything, run, start, valid

sys.path.append(str(Path(__file__).resolve().parents[1] / "benchmarks"))
from harness import parser, report

from hfxling.console import run as run_recipe
from hfxling.data.sample import sample_texts
from hfxling.methods import METHODS

LONGEST = 600  # characters of a line
_MOUNTS = "HFXLING_CHAOS_MOUNTS"  # set where this process may mount disks of its own
STUDY = "study: {name: s, title: t, method: siamese, seeds: [0], rows: [{label: cca, set: {fit: cca}}]}\n"
STEPS = {"save_strategy": "steps", "save_steps": 3, "save_total_limit": 2}
# Runs to kill: long enough that a kill meets most of their parts.
KILLED = {name: {} for name in METHODS} | {
    "siamese": {"fit": "contrastive", "num_train_epochs": 8} | STEPS,
    "disentangler": {"num_train_epochs": 8, "patience": 20},
    "dap": {"max_steps": 12} | STEPS,
    "aligner": {"num_train_epochs": 4} | STEPS,
    "pretrain": {"max_steps": 12} | STEPS,
    "xnli": {"num_train_epochs": 4},
    "study": {},
    "fit": {},
    "encode": {"": ["train.zh"]},
}


def main(argv: list[str] | None = None) -> dict:
    options = parser(__doc__, "chaos")
    options.add_argument("--seed", type=int, default=0, help="of all that is random")
    options.add_argument("--share", type=float, default=0.1, help="of the recipes and commands of each line (0.1)")
    options.add_argument("--kills", type=int, default=2, help="of each recipe and command that writes (2)")
    options.add_argument("--only", default="", help="regular expression: cases of that name")
    options.add_argument("--keep", type=Path, help="folder to work in, whose models are used again")
    args = options.parse_args(argv)
    torch.set_num_threads(1)
    begun = time.perf_counter()
    load_everything()
    with tempfile.TemporaryDirectory() as temporary:
        work = (args.keep or Path(temporary)).resolve()
        make(work)
        counts = Counter()
        with small_disk(work / "disk") as has_disk:
            for case in Table(work, args.seed, args.share):
                if re.search(args.only, case.name):
                    counts += judged(case, work / "case")
        for program in KILLED:
            for number in range(args.kills if re.search(args.only, f"kill {program}") else 0):
                counts += killed(program, work, Random(f"{args.seed} {program} {number}"))
    names = ("cases", "tracebacks", "endless", "silent", "unclear", "kills", "bit_equal", "half_written")
    figures = {name: counts[name] for name in names}
    settings = {name: getattr(args, name) for name in ("seed", "share", "kills", "only")}
    settings |= {"full_disks": has_disk, "seconds": round(time.perf_counter() - begun)}
    goals = dict.fromkeys(("tracebacks", "endless", "silent", "unclear", "half_written"), "0")
    goals |= {"bit_equal": str(counts["kills"])}
    title = "Bad input, tampered folders, kill -9 and resume"
    path = None if args.only else Path(args.results_dir) / "chaos.json"
    return report("chaos", figures, settings, title=title, path=path, goals=goals)


def make(work: Path) -> None:
    """Text, vectors, a model of each method and results, where they are not there yet."""
    make_text(work)
    for program in ("pretrain", *METHODS, "xnli"):
        model = work / "models" / ("encoder" if program == "pretrain" else program)
        if not model.exists():
            more = {"prior": True} if program == "aligner" else {}
            sound(program, work, more, work / "make" / program)
            shutil.copytree(work / "make" / program / "out" / "model", model)
    text = work / "text"
    measured = {"one": {}, "other": {"model": None, "lexical": work / "models" / "lexical"}}
    for name, more in (measured | {"elsewhere": {"data": text / "train.tsv"}}).items():
        if not (text / f"{name}.json").exists():
            sound("evaluate", work, more, work / "make" / name)
            shutil.copy(work / "make" / name / "out" / "results.json", text / f"{name}.json")
    bare = json.loads((text / "one.json").read_text())
    bare["results"] = [{key: value for key, value in row.items() if key != "items"} for row in bare["results"]]
    (text / "bare.json").write_text(json.dumps(bare))


def sound(program: str, work: Path, more: dict, folder: Path) -> Outcome:
    """A run that must end well."""
    outcome = run(as_words(program, valid(work)[program] | more), folder)
    if outcome.status:
        raise ValueError(f"{program} fails on sound text: {outcome.err[-2000:]}")
    return outcome


def make_text(work: Path) -> None:
    """Text and vectors."""
    text = work / "text"
    text.mkdir(parents=True, exist_ok=True)
    for name, first, last in (("train", 0, 160), ("test", 160, 190)):
        sides = {lang: sample_texts(lang, "train")[first:last] for lang in ("zh", "vi")}
        for lang, lines in sides.items():
            (text / f"{name}.{lang}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
            parts = ("\n".join(lines[i : i + 8]) for i in range(0, len(lines), 8))
            (text / f"docs.{lang}").write_text("\n\n".join(parts) + "\n", encoding="utf-8")
        rows = "".join(f"{zh}\t{vi}\n" for zh, vi in zip(*sides.values()))
        (text / f"{name}.tsv").write_text(rows, encoding="utf-8")
        (work / "vectors").mkdir(exist_ok=True)
        vectors = np.random.default_rng(1).standard_normal((last - first, 16)).astype(np.float32)
        np.save(work / "vectors" / f"{name}.npy", vectors)
    (text / "english.vi").write_text("".join(f"{line}\n" for line in sample_texts("en", "train")[:160]))
    some = np.load(work / "vectors" / "train.npy")
    for name, direction in (("ray", 1), ("away", -1)):  # all of them near one, or near its opposite
        np.save(work / "vectors" / f"{name}.npy", (some / 9 + direction).astype(np.float32))
    np.save(work / "vectors" / "hub.npy", np.vstack([np.ones_like(some[:1]), some[1:]]))
    labels = ("entailment", "neutral", "contradiction")
    rows = "".join(f"{labels[i % 3]}\ta b {i}\tc d {i}\n" for i in range(24))
    (text / "nli.tsv").write_text(f"label\tpremise\thypothesis\n{rows}", encoding="utf-8")
    (text / "study.yaml").write_text(STUDY, encoding="utf-8")
    (work / "file").write_text("a file")


@contextmanager
def small_disk(place: Path) -> Iterator[bool]:
    """Whether a small disk could be mounted there, for nobody but this process and those that it starts."""
    place.mkdir(parents=True, exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(place)]
    is_mounted = _MOUNTS in os.environ and not subprocess.run(mount).returncode
    try:
        yield is_mounted
    finally:
        if is_mounted:
            subprocess.run(["umount", str(place)], check=True)


def with_mounts() -> None:
    """Begin anew in a mount namespace of its own, where the system lets anybody have one."""
    if (
        _MOUNTS not in os.environ
        and not subprocess.run(["unshare", "-rm", "true"], stderr=subprocess.DEVNULL).returncode
    ):
        os.execvpe("unshare", ["unshare", "-rm", sys.executable, *sys.argv], os.environ | {_MOUNTS: "own"})


def judged(case: Case, folder: Path) -> Counter:
    """Run a case; print it where it is not as it should be."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    if case.prepare:
        case.prepare(folder)
    outcome = run(case.words, folder)
    fault = fault_of(outcome, case)
    left = outcome.status != 0 and (half_written(folder) or half_written(folder.parent / "disk"))
    if fault or left:
        told = " / ".join(outcome.lines(case.kind)) or repr(outcome.err[-300:])
        print(f"{fault or 'half_written'}: {case.name}: {told}", flush=True)
    return Counter({"cases": 1, "half_written": int(bool(left))} | ({fault: 1} if fault else {}))


def fault_of(outcome: Outcome, case: Case) -> str | None:
    """What is wrong with the way in which a run ended that should have been refused, or warned; None for nothing."""
    wanted, lines = (0 if case.kind == "warning" else 2), outcome.lines(case.kind)
    if outcome.status is None:
        return "endless"
    if "Traceback" in outcome.err or outcome.status not in (0, wanted):
        return "tracebacks"
    if outcome.status != wanted:
        return "silent"
    found = [line for line in lines if len(line) <= LONGEST and tells(line, case.told)]
    return None if found and (len(lines) == 1 or case.kind == "warning") else "unclear"


def tells(line: str, told: tuple[str, ...]) -> bool:
    """Whether a line has one of the words of each of the alternatives."""
    return all(any(word.casefold() in line.casefold() for word in words.split("|")) for words in told)


def half_written(folder: Path) -> bool:
    """Whether a run that failed left something that looks complete, or a scratch folder."""
    names = ("out.npy", "out.tsv", "out.parquet", "out.dropped.tsv", "out.json", "out/model", "out/results.json")
    finals = [folder / name for name in (*names, "out/pairs.tsv")]
    return any(path.exists() for path in finals) or any(folder.rglob("*.hfxling-scratch"))


def killed(program: str, work: Path, rng: Random) -> Counter:
    """Kill a run at a random moment, start it again, and compare what it wrote with that of a run left alone."""
    options = valid(work)[program] | KILLED[program]
    if program == "encode":
        options[""] = work / "text" / "train.zh"
    words, folders = as_words(program, options), [work / "whole" / program, work / "case"]
    if not folders[0].exists():
        whole = sound(program, work, options, folders[0])
        (folders[0] / "seconds").write_text(str(whole.seconds))
    seconds = float((folders[0] / "seconds").read_text())
    shutil.rmtree(folders[1], ignore_errors=True)
    folders[1].mkdir(parents=True)
    pid = start(words, folders[1])
    time.sleep(seconds * rng.uniform(0.05, 0.95))
    kill(pid)
    half = bool(different(*folders)) and any((folders[1] / name).exists() for name in ("out/model", "out.npy"))
    resumes = any((folders[1] / "out").glob("checkpoint-*/trainer_state.json"))
    outcome = run([*words, *(["--resume_from_checkpoint"] if resumes else [])], folders[1])
    wrong = different(*folders) or [path.name for path in folders[1].rglob("*.hfxling-scratch")]
    if wrong or outcome.status or half:
        print(f"kill {program}: {outcome.status} {wrong} {' / '.join(outcome.lines())}", flush=True)
    return Counter(kills=1, bit_equal=int(not wrong and outcome.status == 0), half_written=int(half))


def different(whole: Path, other: Path) -> list[str]:
    """Weights and vectors that are not the same bytes, checkpoints apart."""
    found = [path for kind in ("*.safetensors", "*.npy") for path in whole.rglob(kind)]
    names = [path.relative_to(whole) for path in found if "model" in path.parts or path.parent == whole]
    study = whole / "out" / "s.json"
    if study.exists():  # it says how long it took, too
        return [] if values_of(study) == values_of(other / "out" / "s.json") else ["s.json"]
    assert names, f"nothing to compare in {whole}"
    return [str(name) for name in names if not same(whole / name, other / name)]


def values_of(results: Path) -> list[float]:
    """Of a results file; none where there is no such file."""
    return [row["value"] for row in json.loads(results.read_text())["results"]] if results.exists() else []


def same(one: Path, other: Path) -> bool:
    """Whether both are there, with the same bytes."""
    return other.is_file() and one.read_bytes() == other.read_bytes()


if __name__ == "__main__":
    with_mounts()
    run_recipe(main)
