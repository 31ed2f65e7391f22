"""Bad input, changed models, tampered folders and runs that are ended: nothing lost, stale or silent, a line for each.

python tools/chaos.py [--seed N] [--share 0.1] [--kills 3] [--only REGEX] [--keep FOLDER]

Tables are multiplied with the recipes and commands that read such a thing: values (`chaos_values.py`), files
(`chaos_files.py`), folders and what earlier runs left (`chaos_folders.py`), places to write to (`chaos_outputs.py`),
models that change behind a cache (`chaos_stale.py`), what is published and verified (`chaos_hub.py`), locales and
closed streams (`chaos_places.py`), questions to the page of `hfxling demo` (`chaos_page.py`); disks that are full, too:
a small one is mounted, where the system allows that.
--share is how much of the product is run, one of each line at least. The seed draws which, where files are cut and when
runs are ended. Every case is a forked process that has imported everything; a stand-in for the Hub is in reach.

- lost: a file that was there before is gone or another, though it is none that this run may write.
- stale: a result of what was read before it changed; the same command in a fresh folder gives another.
- tracebacks: a traceback, exit status 1, or a signal. endless: more than two minutes.
- silent: exit status 0 though something is wrong, or something left this machine that must not.
- unclear: no line or several, a line of more than 600 characters, or one without the words of the table; where a
  warning will do, no such warning; where all is well, an error.
- half_written: something under a final name, or a scratch folder, that is not complete.
- together: runs of which several equal ones were begun at once in one folder: each ends well or says that another
  works there, and what is there in the end is what one alone writes.
- kills: runs that `kill -9`, Ctrl-C or SIGTERM ended at a random moment; bit_equal: whose weights are, after a resume,
  those of a run that was left alone.
"""

from __future__ import annotations

import os

os.environ |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "HF_HUB_DISABLE_TELEMETRY": "1"}
os.environ.setdefault("OMP_NUM_THREADS", "1")  # threads do not outlive a fork

import json
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from fnmatch import fnmatch
from importlib.util import find_spec
from pathlib import Path
from random import Random

import chaos_page
import numpy as np
import torch
from chaos_cases import AllCases
from chaos_runs import BROKEN, Hub, Outcome, as_words, finish, kill, load_everything, run, start, valid
from chaos_table import DISAGREES, ERROR, WARNING, WELL, Case

sys.path.append(str(Path(__file__).resolve().parents[1] / "benchmarks"))
from harness import parser, report

from hfxling.console import run as run_recipe
from hfxling.data.sample import sample_texts
from hfxling.methods import METHODS

FAULTS = ("lost", "stale", "tracebacks", "endless", "silent", "unclear", "half_written")
COUNTS = ("cases", *FAULTS[:-1], "together", "kills", "bit_equal", "half_written")
LONGEST = 600  # characters of a line
_MOUNTS = "HFXLING_CHAOS_MOUNTS"  # set where this process may mount disks of its own
# Options of models that are made here, besides those that every run has.
MADE = {"aligner": {"prior": True}, "fit": {"model": "../../models/encoder", "only": "fused", "choose": "fused"}}
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
    "mine": {},
    "clean": {},
    "evaluate": {},
    "bootstrap": {},
    "export": {},
}
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
# Exit statuses of a run that a signal ended; of SIGTERM's the last where it came before the command had begun.
ENDED = {signal.SIGKILL: (-9, 0), signal.SIGTERM: (143, 0, -15), signal.SIGINT: (130, 0)}
AT_ONCE = 3  # equal runs
TOGETHER = (
    *METHODS,
    "encode",
    "mine",
    "clean",
    "evaluate",
    "fit",
    "align",
    "lexicon",
    "quality",
    "align-documents",
    "bootstrap",
    "export",
)


def main(argv: list[str] | None = None) -> dict:
    options = parser(__doc__, "chaos")
    options.add_argument("--seed", type=int, default=0, help="of all that is random")
    options.add_argument("--share", type=float, default=0.1, help="of the recipes and commands of each line (0.1)")
    options.add_argument("--kills", type=int, default=3, help="of each recipe and command that writes (3)")
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
            for case in AllCases(work, Random(args.seed), args.share):
                if re.search(args.only, case.name):
                    counts += judged(case, work / "case", work)
        if find_spec("gradio") is not None:
            shutil.rmtree(work / "case", ignore_errors=True)
            counts += chaos_page.asked(work / "models" / "lexical", work / "case", args.only)
        rng = Random(args.seed)
        for program in rng.sample(TOGETHER, max(1, round(args.share * len(TOGETHER)))):
            if re.search(args.only, f"together {program}"):
                counts += together(program, work)
        for program in KILLED:
            for number in range(args.kills if re.search(args.only, f"kill {program}") else 0):
                seed = Random(f"{args.seed} {program} {number}")
                counts += killed(program, work, SIGNALS[number % len(SIGNALS)], seed)
        Hub.close()
    figures = {name: counts[name] for name in COUNTS}
    settings = {name: getattr(args, name) for name in ("seed", "share", "kills", "only")}
    settings |= {"full_disks": has_disk, "seconds": round(time.perf_counter() - begun)}
    goals = dict.fromkeys(FAULTS, "0") | {"bit_equal": str(counts["kills"])}
    title = "Bad input, tampered folders, changed models, runs that are ended, and resume"
    path = None if args.only else Path(args.results_dir) / "chaos.json"
    return report("chaos", figures, settings, title=title, path=path, goals=goals, folder="tools")


def make(work: Path) -> None:
    """Text, vectors, a model of each method and results, where they are not there yet."""
    make_text(work)
    for program in ("pretrain", *METHODS, "xnli", "fit"):
        model = work / "models" / {"pretrain": "encoder", "fit": "fused"}.get(program, program)
        if not model.exists():
            sound(program, work, MADE.get(program, {}), work / "make" / program)
            shutil.copytree(work / "make" / program / "out" / "model", model)
    if not (work / "models" / "fit").exists():
        for name in ("model", "lexical"):
            shutil.copytree(work / "make" / "fit" / "out" / name, work / "models" / "fit" / name)
    if not (work / "models" / "links").exists():
        shutil.copytree(work / "make" / "fit" / "out" / "lexical" / "model", work / "models" / "links")
    text = work / "text"
    measured = {"one": {}, "other": {"model": None, "lexical": work / "models" / "lexical"}}
    for name, more in (measured | {"elsewhere": {"data": text / "train.tsv"}}).items():
        if not (text / f"{name}.json").exists():
            sound("evaluate", work, more, work / "make" / name)
            shutil.copy(work / "make" / name / "out" / "results.json", text / f"{name}.json")
    bare = json.loads((text / "one.json").read_text())
    bare["results"] = [{key: value for key, value in row.items() if key != "items"} for row in bare["results"]]
    (text / "bare.json").write_text(json.dumps(bare))
    other = json.loads((text / "other.json").read_text())
    other["results"] = [row | {"value": row["value"] + 1} for row in other["results"]]
    (text / "contradicted.json").write_text(json.dumps(other))


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


def judged(case: Case, folder: Path, work: Path) -> Counter:
    """Run a case; print it where it is not as it should be."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    if case.prepare:
        case.prepare(folder)
    before, given = contents(folder), stamps(work)
    outcome = run(case.words, folder, place=case.place)
    fault = fault_of(outcome, case)
    lost = changed(before, contents(folder), () if outcome.status else case.writes)
    lost += changed(given, stamps(work), ())
    if lost:
        fault = "lost"
    elif outcome.status not in (0, None) and (half_written(folder, before) or half_written(folder.parent / "disk")):
        fault = "half_written"
    elif not fault and case.check:
        fault = case.check(folder, outcome)
    if fault:
        told = " / ".join([*lost[:3], *outcome.lines(case.kind)]) or repr(outcome.err[-300:])
        print(f"{fault}: {case.name}: {told}", flush=True)
    return Counter({"cases": 1} | ({fault: 1} if fault else {}))


def contents(folder: Path) -> dict[str, object]:
    """What every file of a folder holds, pipes and what a run says apart."""
    found: dict[str, object] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            found[name] = os.readlink(path)
        elif path.is_file() and name not in ("stdout", "stderr"):
            found[name] = path.read_bytes()
    return found


def stamps(work: Path) -> dict[str, object]:
    """Sizes and times of the text, vectors and models that all runs share."""
    paths = [path for name in ("text", "vectors", "models") for path in (work / name).rglob("*")]
    return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in paths if path.is_file()}


def changed(before: dict, after: dict, may_change: tuple[str, ...]) -> list[str]:
    """Names that are gone, or hold something else."""
    names = [name for name, content in before.items() if after.get(name) != content]
    return [name for name in names if not any(fnmatch(name, pattern) for pattern in may_change)]


def fault_of(outcome: Outcome, case: Case) -> str | None:
    """What is wrong with the way in which a run ended; None for nothing."""
    wanted = {ERROR: (2,), WARNING: (0,), WELL: (0,), DISAGREES: (1, 2), BROKEN: (141,)}[case.kind]
    if outcome.status is None:
        return "endless"
    if "Traceback" in outcome.err or outcome.status not in (0, 2, *wanted):
        return "tracebacks"
    if outcome.status not in wanted:
        return "unclear" if outcome.status else "silent"
    if case.kind == WELL:
        return None if tells(outcome.out + outcome.err, case.told) else "unclear"
    if case.kind == BROKEN:
        return "unclear" if outcome.lines() else None
    lines = outcome.lines(case.kind)
    if case.kind == DISAGREES:
        lines = [line for line in outcome.out.splitlines() if line.startswith("DISAGREES")] + outcome.lines()
    found = [line for line in lines if len(line) <= LONGEST and tells(line, case.told)]
    return None if found and (len(lines) == 1 or case.kind != ERROR) else "unclear"


def tells(line: str, told: tuple[str, ...]) -> bool:
    """Whether a line has one of the words of each of the alternatives."""
    return all(any(word.casefold() in line.casefold() for word in words.split("|")) for words in told)


def half_written(folder: Path, before: Collection[str] = ()) -> bool:
    """Whether a run that failed left something that looks complete and was not there, or a scratch folder."""
    names = ("out.npy", "out.tsv", "out.parquet", "out.dropped.tsv", "out.json", "out/model", "out/results.json")
    earlier = {part for name in before for part in (name, *map(str, Path(name).parents))}
    finals = [name for name in (*names, "out/pairs.tsv") if name not in earlier]
    return any((folder / name).exists() for name in finals) or any(folder.rglob("*.hfxling-scratch"))


def whole_run(program: str, work: Path) -> tuple[list[str], Path]:
    """Words of a run that writes, and the folder of one that was left alone, with its seconds."""
    options = valid(work).get(program, {}) | KILLED.get(program, {})
    if program == "encode":
        options[""] = work / "text" / "train.zh"
    if program == "export":
        options[""] = "model"
    folder = work / "whole" / program
    words = as_words(program, options)
    if not folder.exists():
        prepared(program, work, folder)
        outcome = run(words, folder)
        if outcome.status:
            raise ValueError(f"{program} fails on sound text: {outcome.err[-2000:]}")
        (folder / "seconds").write_text(str(outcome.seconds))
    return words, folder


def prepared(program: str, work: Path, folder: Path) -> None:
    """A folder to run in, anew; with the model, where that is written into."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    if program == "export":
        shutil.copytree(work / "models" / "dap", folder / "model")


def together(program: str, work: Path) -> Counter:
    """Begin equal runs at once in one folder: each ends well or gives way, and one run's result is there."""
    words, whole = whole_run(program, work)
    folder = work / "case"
    prepared(program, work, folder)
    pids = [start(words, folder, name=str(number)) for number in range(AT_ONCE)]
    outcomes = [finish(pid, folder, name=str(number)) for number, pid in enumerate(pids)]
    counts = Counter(cases=1, together=1)
    for outcome in outcomes:
        case = Case(program, words, ("another|at the same time|writes there",), kind=ERROR if outcome.status else WELL)
        fault = fault_of(outcome, case if outcome.status else Case(program, words, kind=WELL))
        if fault:
            counts[fault] += 1
            print(f"{fault}: together {program}: {outcome.status} {' / '.join(outcome.lines())}", flush=True)
    wrong = different(whole, folder) or [path.name for path in folder.rglob("*.hfxling-scratch")]
    if wrong or all(outcome.status for outcome in outcomes):
        counts["half_written"] += 1
        print(f"half_written: together {program}: {wrong}", flush=True)
    return counts


def killed(program: str, work: Path, number: signal.Signals, rng: Random) -> Counter:
    """End a run at a random moment, start it again, and compare what it wrote with that of a run left alone."""
    words, whole = whole_run(program, work)
    seconds = float((whole / "seconds").read_text())
    folder = work / "case"
    prepared(program, work, folder)
    pid = start(words, folder)
    time.sleep(seconds * rng.uniform(0.05, 0.95))
    status = kill(pid, number)
    err = (folder / "stderr").read_text(errors="replace")
    is_clean = status in ENDED[number] and "Traceback" not in err and "error: " not in err
    left = number != signal.SIGKILL and any(any(folder.rglob(f"*.hfxling-{kind}")) for kind in ("scratch", "running"))
    finals = ("out/model", "out.npy", "out.tsv", "model/onnx/model.onnx")
    half = left or (bool(different(whole, folder)) and any((folder / name).exists() for name in finals))
    resumes = any((folder / "out").glob("checkpoint-*/trainer_state.json"))
    outcome = run([*words, *(["--resume_from_checkpoint"] if resumes else [])], folder)
    wrong = different(whole, folder) or [path.name for path in folder.rglob("*.hfxling-scratch")]
    if wrong or outcome.status or half or not is_clean:
        told = f"{status}, {outcome.status} {wrong} {' / '.join(outcome.lines())} {'' if is_clean else err[-300:]!r}"
        print(f"kill {program} by {number.name}: {told}", flush=True)
    is_equal = not wrong and outcome.status == 0
    return Counter(kills=1, bit_equal=int(is_equal), half_written=int(half), tracebacks=int(not is_clean))


def different(whole: Path, other: Path) -> list[str]:
    """Weights and vectors that are not the same bytes, checkpoints apart."""
    found = [path for kind in ("*.safetensors", "*.npy", "*.tsv", "*.onnx") for path in whole.rglob(kind)]
    names = [
        path.relative_to(whole) for path in found if "model" in path.parts or path.parent.name in (whole.name, "out")
    ]
    results = whole / "out" / "results.json"
    if results.exists() and not names:  # it says how long it took, too
        return [] if values_of(results) == values_of(other / "out" / "results.json") else ["results.json"]
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
