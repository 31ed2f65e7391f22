"""Small faults put into the code on purpose, one at a time: does a test notice?

python tools/mutants.py [--each 8] [--seed N] [--only REGEX] [--fresh]

Of every module of `MODULES` so many mutants are drawn, spread over the kinds of `mutations`: comparisons, arithmetic,
signs, constants, axes, `not`, `and`, the smaller for the larger. The tests beside the module run in a copy of the tree,
each mutant in a forked process that has imported the libraries; a test that fails, an import that does and a test that
takes four times as long kill a mutant. Which ones are drawn hangs on the seed and on the lines, not on their numbers.
results/mutants.json is written after every mutant: those that were killed are not run again while their line is the
same, those that survived are.

Left alone: type hints, messages, decorators, and defaults of dataclass fields (settings, which are measured, not
tested). Survivors that no test could tell from the code, or that none should, have their reason in
`mutants_reasons.py`.

- modules: that mutants of their code of today were run of.
- mutants, killed, killed_percent: of all that were drawn. no_reason: survivors without one.
"""

from __future__ import annotations

import os

os.environ |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "PYTHONDONTWRITEBYTECODE": "1"}
os.environ.setdefault("OMP_NUM_THREADS", "1")  # threads do not outlive a fork

import re
import shutil
import signal
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path

from mutants_reasons import REASONS
from mutants_sites import Mutant, drawn

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "benchmarks"))
from harness import earlier_file, minutes_of, parser, report

CARRIED = ("hfxling", "tests", "benchmarks", "tools", "recipes", "spaces", "docs", "pyproject.toml", "README.md")
LIBRARIES = ("torch", "scipy.sparse", "scipy.stats", "sklearn.linear_model", "transformers", "datasets", "pytest")
LIBRARIES += ("sentence_transformers", "tokenizers", "transformers.modeling_utils", "sklearn.utils.extmath")
_LEXICAL = "tests/methods/lexical/test_train.py"
# The module, and the tests that look at it; those with slow tests last.
MODULES = {
    "hfxling/models/losses.py": "tests/models/test_losses.py tests/models/test_losses_split.py",
    "hfxling/methods/siamese/closed_form.py": "tests/methods/siamese/test_closed_form.py",
    "hfxling/evaluation/retrieval.py": "tests/evaluation/test_retrieval.py",
    "hfxling/evaluation/significance.py": "tests/evaluation/test_significance.py tests/evaluation/test_compare.py",
    "hfxling/data/leakage.py": "tests/data/test_leakage.py",
    "hfxling/words/prior.py": "tests/words/test_prior.py",
    "hfxling/sentences/blocks.py": "tests/sentences/test_blocks.py",
    "hfxling/sentences/beads.py": "tests/sentences/test_beads.py",
    "hfxling/sentences/engine.py": "tests/sentences/test_engine.py tests/sentences/test_engine_terms.py",
    "hfxling/encoders/fusion.py": "tests/encoders/test_fusion.py",
    "hfxling/sentences/neighbours.py": "tests/sentences/test_neighbours.py tests/sentences/test_blocks.py",
    "hfxling/sentences/shards.py": "tests/sentences/test_shards.py",
    "hfxling/models/configuration_lexical.py": "tests/models/test_modeling_lexical.py",
    "hfxling/models/modeling_lexical.py": "tests/models/test_modeling_lexical.py",
    "hfxling/models/lexical_sparse.py": "tests/models/test_lexical_sparse.py",
    "hfxling/models/lexical_vectors.py": "tests/models/test_lexical_vectors.py",
    "hfxling/methods/lexical/arguments.py": _LEXICAL,
    "hfxling/methods/lexical/data.py": f"{_LEXICAL} tests/methods/lexical/test_data.py",
    "hfxling/methods/lexical/evaluate.py": "tests/methods/lexical/test_evaluate.py tests/recipes/test_lexical.py "
    + _LEXICAL,
    "hfxling/methods/lexical/export.py": "tests/methods/lexical/test_export.py tests/recipes/test_lexical.py",
    "hfxling/methods/lexical/static.py": "tests/methods/lexical/test_static.py",
    "hfxling/methods/lexical/train.py": _LEXICAL,
    "hfxling/sentences/precision.py": "tests/sentences/test_precision.py",
    "hfxling/sentences/grow.py": "tests/sentences/test_grow.py",
    "hfxling/sentences/impostors.py": "tests/sentences/test_grow.py",
}


def main(argv: list[str] | None = None) -> dict:
    options = parser(__doc__, "mutants")
    options.add_argument("--each", type=int, default=8, help="mutants of a module (8)")
    options.add_argument("--seed", type=int, default=0, help="of which are drawn")
    options.add_argument("--only", default="", help="regular expression: modules of that name; others keep their rows")
    options.add_argument("--fresh", action="store_true", help="run those again that were killed before")
    args = options.parse_args(argv)
    path = Path(args.results_dir) / "mutants.json"
    before = earlier_file(path).get("mutants", [])
    kept = kept_ids(args)
    rows = [row for row in before if row["id"] in kept]
    known = {row["id"]: row for row in before if row["status"] != "survived" and not args.fresh}
    for name in LIBRARIES:
        import_module(name)
    with tempfile.TemporaryDirectory() as folder:
        copy = carried(Path(folder))
        for module, tests in MODULES.items():
            if not re.search(args.only, module):
                continue
            mutants = drawn(module, (ROOT / module).read_text(encoding="utf-8"), args.each, args.seed)
            limit = None
            for mutant in mutants:
                row = known.get(mutant.id)
                if row is None:
                    limit = limit or 20 + 4 * sound(copy, tests)
                    row = judged(copy, mutant, tests.split(), limit)
                    print(f"{row['status']}: {module}:{mutant.line}: {mutant.was} -> {mutant.becomes}", flush=True)
                rows.append(row | mutant.place())
                done = {row["id"] for row in rows}
                told(path, rows + [row for row in before if row["id"] not in done], args, quiet=True)
    told(path, rows, args, quiet=True)  # without those that are not drawn any more
    return told(path, rows, args)


def kept_ids(args) -> set[str]:
    """The mutants of modules that are not run now, as far as they are drawn of their code of today."""
    ids = set()
    for module in MODULES:
        if not re.search(args.only, module):
            text = (ROOT / module).read_text(encoding="utf-8")
            ids |= {mutant.id for mutant in drawn(module, text, args.each, args.seed)}
    return ids


def carried(folder: Path) -> Path:
    """A copy of the tree to spoil."""
    for name in CARRIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(ROOT / name, folder / name)
    return folder


def sound(copy: Path, tests: str) -> float:
    """Seconds of the tests on sound code.

    Raises:
        ValueError: they fail.
    """
    begun = time.perf_counter()
    if status := tested(copy, tests.split(), 600):
        raise ValueError(f"{tests} end with {status} on sound code; see {copy / 'stdout'}.")
    return time.perf_counter() - begun


def judged(copy: Path, mutant: Mutant, tests: list[str], limit: float) -> dict:
    """The row of a mutant: killed by a test, by time, or survived."""
    file, begun = copy / mutant.module, time.perf_counter()
    sane = file.read_bytes()
    file.write_text(mutant.spoil(), encoding="utf-8")
    try:
        status = tested(copy, tests, limit)
    finally:
        file.write_bytes(sane)
    told = "killed by time" if status is None else "killed" if status else "survived"
    return {"id": mutant.id, "status": told, "seconds": round(time.perf_counter() - begun, 1)}


def tested(copy: Path, tests: list[str], limit: float) -> int | None:
    """Exit status of pytest in a fork, 0 if all tests pass; None if it ran past its time."""
    pid = os.fork()
    if not pid:
        _test(copy, tests)
    begun = time.monotonic()
    while time.monotonic() - begun < limit:
        done, state = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(state)
        time.sleep(0.02)
    os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return None


def _test(copy: Path, tests: list[str]) -> None:
    """Run the tests of the copy in this process, and end it."""
    status = 70
    try:
        os.setsid()  # a signal is for it and those that it starts
        os.chdir(copy)
        output = os.open(copy / "stdout", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for number in (1, 2):
            os.dup2(output, number)
        for name in [name for name in sys.modules if name.partition(".")[0] in ("hfxling", "harness")]:
            del sys.modules[name]  # that of the tree itself
        sys.dont_write_bytecode = True
        sys.path.insert(0, str(copy))
        os.environ["PYTHONPATH"] = str(copy)
        import pytest

        kinds = "not hub and not gpu and not shared and not slow"
        status = int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-m", kinds, *tests]))
        import hfxling

        if not Path(hfxling.__file__).is_relative_to(copy):
            status = 71
    finally:
        os._exit(status)


def told(path: Path, rows: list[dict], args, *, quiet: bool = False) -> dict:
    """Write the rows; at the end print the figures, too."""
    survivors = [row for row in rows if row["status"] == "survived"]
    for row in survivors:
        row["reason"] = REASONS.get(row["id"], "")
    killed = len(rows) - len(survivors)
    faults = killed + sum("equivalent" not in row["reason"] for row in survivors)
    modules = len({row["module"] for row in rows})
    figures = {
        "modules": modules,
        "mutants": len(rows),
        "killed": killed,
        "killed_percent": round(100 * killed / max(1, len(rows)), 1),
    }
    figures["killed_percent_of_faults"] = round(100 * killed / max(1, faults), 1)  # equivalent ones are none
    figures["no_reason"] = sum(not row["reason"] for row in survivors)
    settings = {"each": args.each, "seed": args.seed}
    if quiet:
        from hfxling.evaluation.results import write_results

        about = {"title": TITLE, "figures": figures, "mutants": rows} | minutes_of(path)
        write_results(path, [], recipe="tools/mutants.py", settings=settings, extra=about)
        return figures
    for row in survivors:
        print(f"{row['module']}:{row['line']}: {row['was']} -> {row['becomes']}: {row['reason'] or 'no reason'}")
    goals = {"killed_percent": "95", "no_reason": "0"}
    return report("mutants", figures, settings, title=TITLE, goals=goals)


TITLE = "Faults put into the code on purpose"

if __name__ == "__main__":
    main()
