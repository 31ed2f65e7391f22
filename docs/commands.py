"""The commands that make the results files, and the CPU minutes that they took."""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import yaml

from hfxling.evaluation.results import EvalResult

RECIPE = "recipes/study.py"  # of studies
FOLDERS = ("benchmarks", "tools")  # of the scripts that write results files
# What tells the training runs of a file apart, by the program that wrote it; every row says the CPU seconds of its run.
# A study has one run for all test sets. The baselines learn from the text of each test set anew. Sparse and static
# vectors of links_with_encoder.py are of the same links.
RUNS = {
    RECIPE: ("row", "seed"),
    "benchmarks/aligner_paper.py": ("row", "seed"),
    "benchmarks/align_baselines.py": ("row", "seed", "dataset"),
    "benchmarks/lexicon_baselines.py": ("row", "seed", "dataset"),
    "benchmarks/links_with_encoder.py": ("model", "pairs", "dataset"),
}


def made_by(stem: str, about: Mapping[str, str], content: dict, rows: Sequence[EvalResult], root: Path) -> str:
    """What stands under a table: the command that makes it, its CPU minutes, and what is to be run before it.

    Args:
        stem: of the results file.
        about: its entry in docs/results/questions.yaml.
        content: of the file.
        rows: those of the file.
        root: of the repository.
    """
    command = command_of(stem, about, content["recipe"], root)
    told = f"`{command}` makes this table{minutes_told(content, rows)}."
    before = about.get("before", "").strip()
    if not before:
        return told
    if "\n" not in before:
        return f"{told} Before it comes `{before}`."
    return f"{told} Before it comes:\n\n```bash\n{before}\n```"


def command_of(stem: str, about: Mapping[str, str], recipe: str, root: Path) -> str:
    """The command that makes a results file.

    Args:
        stem: of the file.
        about: its entry in docs/results/questions.yaml; a `command` of it wins.
        recipe: the program that wrote the file.
        root: of the repository.

    Raises:
        ValueError: none is known.
    """
    if "command" in about:
        return about["command"]
    if recipe == RECIPE:
        path = study_configurations(root).get(stem)
        if path is not None:
            return f"python {RECIPE} --config {path} --results_dir results"
        wanted = f"no recipes/configs/*/studies/*.yaml has this name, so add 'command: python {RECIPE} --config ...'"
    else:
        for folder in FOLDERS:
            if (root / folder / f"{stem}.py").is_file():
                return f"python {folder}/{stem}.py"
        wanted = f"no script has this name, so add 'command: python {recipe} ...' with the options of its settings"
    raise ValueError(f"results/{stem}.json: which command makes it? {wanted} to {stem} in docs/results/questions.yaml.")


@cache
def study_configurations(root: Path) -> dict[str, str]:
    """Path of every study's configuration, by the study's name."""
    found = {}
    for path in sorted((root / "recipes" / "configs").glob("*/studies/*.yaml")):
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        found[content["study"]["name"]] = path.relative_to(root).as_posix()
    return found


def minutes_told(content: dict, rows: Sequence[EvalResult]) -> str:
    """How many CPU minutes a table took: as its file says, or else those of training; or that they are not known."""
    if "cpu_minutes" in content:
        return f", in {shown(content['cpu_minutes'])}"
    training = training_minutes(content["recipe"], rows)
    if training is not None:
        return f", in {shown(training)} of training, and testing beside"
    return "; CPU minutes were not recorded"


def training_minutes(recipe: str, rows: Sequence[EvalResult]) -> float | None:
    """CPU minutes of all training runs by what rows say; None where a row says nothing, or runs are not known apart."""
    names = RUNS.get(recipe)
    if names is None:
        return None
    seconds: dict[tuple, float] = {}
    for row in rows:
        if row.settings["stage"] == "before":
            continue
        known = vars(row) | row.settings
        spent = known.get("train_cpu_s", known.get("cpu_seconds"))
        if spent is None:
            return None
        run = tuple(known.get(name) for name in names)
        seconds[run] = max(spent, seconds.get(run, 0.0))  # a curve has the seconds until each point
    return sum(seconds.values()) / 60 if seconds else None


def shown(minutes: float) -> str:
    """To a minute, or a tenth of one where they are few."""
    if minutes < 1:
        return "less than a CPU minute"
    return f"{minutes:.1f} CPU minutes" if minutes < 10 else f"{minutes:,.0f} CPU minutes"
