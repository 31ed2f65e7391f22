"""Studies: one configuration, a run for every row and seed, one results file and one table.

A method's module under `hfxling.training` takes part by three names: `ARGUMENTS` (its dataclass), `TRAINING_DEFAULTS`,
and `study_row(args, training_args, cache) -> list[EvalResult]`, which measures before and after one training run and
keeps in `cache` (a dict) what the next run can use again.
"""

from __future__ import annotations

import copy
import difflib
import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from importlib import import_module
from pathlib import Path
from types import ModuleType

import numpy as np
import yaml
from transformers import TrainingArguments

from hfxling.arguments import as_tokens, parse_arguments, resolved
from hfxling.evaluation.results import EvalResult, as_json, format_table, package_versions, read_results, write_results

METHODS = ("siamese", "dap", "disentangler", "aligner")
UNTRAINED = "no training"
COSTS = {"steps": "steps", "train_cpu_s": "CPU s", "train_seconds": "wall s"}  # settings of a row: column
ROW_KEYS = ("label", "set", "seeds", "paper", "fraction", "paragraphs")


@dataclass
class StudyArguments:
    """The `study` entry of a configuration."""

    name: str = field(metadata={"help": "of the results file"})
    title: str = field(metadata={"help": "what is studied, with the paper's table"})
    rows: str = field(metadata={"help": "JSON list of {label, set, seeds, paper, ...}"})
    method: str = field(default="siamese", metadata={"help": f"one of {', '.join(METHODS)}"})
    seeds: list[int] = field(default_factory=lambda: [0, 1, 2], metadata={"help": "runs of every row"})
    paper_columns: list[str] = field(default_factory=list, metadata={"help": "what the rows' paper figures are"})
    metrics: list[str] = field(default_factory=list, metadata={"help": "shown in the table; all where none is named"})
    results_dir: str = field(default="results", metadata={"help": "where NAME.json is written"})


def read_study(argv: list[str]) -> tuple[StudyArguments, list[dict], dict, list[str]]:
    """The study, its rows, the other keys of its configuration, and what is left of the command line.

    Raises:
        FileNotFoundError: no such configuration.
        ValueError: a broken or unknown key, rows without labels of their own.
    """
    argv = [part for word in argv for part in (word.split("=", 1) if word.startswith("--config=") else [word])]
    if "--config" not in argv[:-1]:
        raise ValueError("give --config recipes/configs/METHOD_study_NAME.yaml.")
    at = argv.index("--config")
    path, rest = Path(argv[at + 1]), argv[:at] + argv[at + 2 :]
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such configuration; the studies are in recipes/configs/.")
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: not valid YAML ({error}).") from None
    entry = content.pop("study", None) if isinstance(content, dict) else None
    if not isinstance(entry, dict) or not isinstance(entry.get("rows"), list):
        raise ValueError(f"{path}: has no 'study' entry with rows; to train one model use the method's own recipe.")
    check_keys(entry, StudyArguments.__dataclass_fields__, f"{path}, study")
    own, other = [], []
    for i, word in enumerate(rest):  # the study's own keys may be given on the command line, too
        named = next((w for w in reversed(rest[: i + 1]) if w.startswith("--")), "")
        (own if named[2:].split("=")[0] in StudyArguments.__dataclass_fields__ else other).append(word)
    entry["rows"] = json.dumps(entry["rows"])
    (study,) = parse_arguments((StudyArguments,), own, defaults=entry)
    if study.method not in METHODS:
        raise ValueError(f"{path}: method {study.method!r} is not one of {', '.join(METHODS)}.")
    rows, known = json.loads(study.rows), model_keys(study.method)
    check_keys(content, known, str(path))
    for number, row in enumerate(rows, 1):
        check_keys(row, ROW_KEYS, f"{path}, row {number}")
        check_keys(row.get("set") or {}, known, f"{path}, row {number}")
    if len({row.get("label") for row in rows} - {None}) < len(rows):
        raise ValueError(f"{path}: every row needs a label of its own.")
    defaults = method_module(study.method).TRAINING_DEFAULTS
    return study, rows, defaults | {"output_dir": "outputs/study", "save_strategy": "no"} | content, other


def method_module(method: str) -> ModuleType:
    """The module that takes part in studies for a method."""
    return import_module(f"hfxling.training.{method}")


def model_keys(method: str) -> set[str]:
    """All keys that a row may set."""
    return {f.name for f in (*fields(method_module(method).ARGUMENTS), *fields(TrainingArguments))}


def check_keys(given: Iterable[str], known: Iterable[str], where: str) -> None:
    """Refuse an unknown key and name the nearest known one."""
    for key in given:
        if key not in known:
            near = difflib.get_close_matches(str(key), list(known), n=1, cutoff=0.0)
            raise ValueError(f"unknown key {key!r} in {where}; the nearest known one is {near[0]!r}.")


def row_settings(rows: Sequence[dict], base: dict, command_line: list[str], method: str) -> list[tuple]:
    """(arguments, training arguments) of every row: the row's keys win over the command line, that over the file."""
    types = (method_module(method).ARGUMENTS, TrainingArguments)
    return [parse_arguments(types, command_line + as_tokens(row.get("set") or {}), defaults=base) for row in rows]


def run_study(study: StudyArguments, rows: list[dict], base: dict, command_line: list[str]) -> list[EvalResult]:
    """Run every row with every seed, seed by seed; results/NAME.json is written anew after each run.

    A study that was stopped goes on: runs that the file holds are not repeated, if nothing but rows was added since.
    """
    module, settings = method_module(study.method), row_settings(rows, base, command_line, study.method)
    path, cache = Path(study.results_dir) / f"{study.name}.json", {}
    before: dict[tuple, EvalResult] = {}
    after: list[EvalResult] = []
    for result in finished_runs(path, resolved(*settings[0]), rows, study.seeds):
        if result.settings["stage"] == "before":
            before[_place(result)] = result
        else:
            after.append(result)
    done = {(result.seed, result.settings["row"]) for result in after}
    about = {"title": study.title, "rows": rows, "paper_columns": study.paper_columns, "metrics": study.metrics}
    for seed in study.seeds:
        for row, (args, training_args) in zip(rows, settings):
            if (seed, row["label"]) in done or seed not in row.get("seeds", study.seeds):
                continue
            training_args = copy.copy(training_args)
            training_args.seed = seed
            found = module.study_row(args, training_args, cache)
            for result in found:
                if result.settings.get("stage") == "before":  # the same for every run: listed once
                    before.setdefault(_place(result), result)
                else:
                    labelled = result.settings | {"stage": "after", "row": row["label"]}
                    after.append(replace(result, seed=seed, settings=labelled))
            kept = [*before.values(), *after]
            write_results(path, kept, recipe="recipes/study.py", settings=resolved(*settings[0]), extra=about)
            sys.stderr.write(f"{study.name}: seed {seed}, {row['label']} done\n")
    results = [*before.values(), *after]
    header, table = study_table(results, rows, study.paper_columns, study.metrics)
    sys.stdout.write(f"\n{study.title}\n\n{format_table(header, table)}\n\n")
    figures = {line[0]: dict(zip(header[2:], line[2:])) for line in table}
    last = {"name": study.name, "figures": figures, "settings": {"seeds": study.seeds}}
    sys.stdout.write(json.dumps(last, ensure_ascii=False) + "\n")
    return results


def finished_runs(path: Path, settings: dict, rows: Sequence[dict], seeds: Sequence[int]) -> list[EvalResult]:
    """What an earlier start of the same study measured: the untrained results and those of its whole runs."""
    if not path.is_file():
        return []
    results, content = read_results(path), json.loads(path.read_text(encoding="utf-8"))
    current = {"settings": as_json(settings), "versions": package_versions()}
    if any(content.get(key) != value for key, value in current.items()):
        return []
    earlier = {row["label"]: row.get("set") for row in content.get("rows", [])}
    same = {row["label"] for row in rows if row["label"] in earlier and earlier[row["label"]] == row.get("set")}
    return [
        result
        for result in results
        if result.settings["stage"] == "before" or (result.settings["row"] in same and result.seed in seeds)
    ]


def study_table(
    results: Sequence[EvalResult], rows: Sequence[dict], paper: Sequence[str], metrics: Sequence[str] = ()
) -> tuple[list, list[list]]:
    """Header and one line a row: mean over the seeds, their standard deviation, the 95% interval; the paper's last.

    Columns are the test sets and metrics (only those named, where some are), or the averages alone where a test set
    has some, and what a run cost. The interval is the bootstrap's over test items, averaged over the seeds.
    """
    averaged = {row.dataset for row in results if "avg" in row.metric}
    shown = [row for row in results if row.dataset not in averaged or "avg" in row.metric]
    shown = [row for row in shown if not metrics or row.metric in metrics]
    columns = list(dict.fromkeys(_column(row) for row in shown))
    cells: dict[tuple, list[EvalResult]] = {}
    for row in shown:
        cells.setdefault((row.settings.get("row", UNTRAINED), _column(row)), []).append(row)
    costs = [name for name in COSTS if any(name in row.settings for row in shown)]
    untrained = [UNTRAINED] * any(row.settings["stage"] == "before" for row in results)
    labels = list(dict.fromkeys([*untrained, *(row["label"] for row in rows)]))
    figures = {row["label"]: row.get("paper") or [] for row in rows}
    table = []
    for label in labels:
        found = [cells.get((label, column), []) for column in columns]
        runs = max(found, key=len)
        if runs:
            spent = [
                np.mean([row.settings[name] for row in runs]) if name in runs[0].settings else "" for name in costs
            ]
            published = [*figures.get(label, []), *[None] * len(paper)][: len(paper)]
            table.append([label, len(runs), *map(cell, found), *(x and f"{x:.0f}" for x in spent), *published])
    header = ["", "seeds", *columns, *(COSTS[name] for name in costs), *(f"paper {name}" for name in paper)]
    return header, table


def cell(rows: list[EvalResult], *, interval: bool = True) -> str:
    """One figure over the seeds: mean, standard deviation and, if wanted, the mean 95% interval over test items."""
    if not rows:
        return ""
    values = [row.value for row in rows]
    digits = 1 if rows[0].unit == "%" else 3
    text = f"{np.mean(values):.{digits}f}" + (f" ±{np.std(values, ddof=1):.{digits}f}" if len(values) > 1 else "")
    lows, highs = ([getattr(row, end) for row in rows] for end in ("low", "high"))
    if None in lows + highs or not interval:
        return text
    return f"{text} ({np.mean(lows):.{digits}f}-{np.mean(highs):.{digits}f})"


def _column(row: EvalResult) -> str:
    return " ".join(filter(None, (row.dataset, row.metric, row.direction, row.settings.get("decoding"))))


def _place(row: EvalResult) -> tuple:
    return (row.dataset, row.direction, row.metric, row.model, json.dumps(row.settings, sort_keys=True))
