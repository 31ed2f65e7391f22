"""A study: a table with one row for each setting, and the paper's figures beside ours.

python recipes/study.py --config recipes/configs/siamese/studies/layers.yaml --base_model ... [--key value ...]

The configuration's `study` entry holds name, title, method, seeds and rows. A row has a label, the keys it sets, the
paper's figures if there are any, and its own seeds if it needs fewer. A `grid` makes a row for every combination of one
entry from each of its lists. All other keys are those of the method's recipe. Results go to `results_dir`
(outputs/studies); a study that was stopped continues where it was.
"""

from __future__ import annotations

import argparse
import copy
import json
import logging
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from transformers import TrainingArguments

from hfxling.arguments import (
    NOT_PUBLISHED,
    as_tokens,
    key,
    parse_arguments,
    read_yaml,
    resolved,
    unknown_key,
    with_underscores,
)
from hfxling.console import run
from hfxling.evaluation.results import (
    EvalResult,
    as_json,
    cpu_minutes,
    format_table,
    package_versions,
    read_results,
    write_results,
)
from hfxling.evaluation.tables import UNTRAINED, averages, learning_curve, study_table
from hfxling.files import atomic_path, files_of
from hfxling.methods import METHODS, method
from hfxling.methods.checks import check_trainer
from hfxling.methods.publishing import Run

ROW_KEYS = ("label", "set", "seeds", "paper")
RECIPE = "recipes/study.py"
log = logging.getLogger("hfxling")


@dataclass
class StudyArguments:
    """The `study` entry of a configuration."""

    name: str = key("name of the results file")
    title: str = key("what is studied, with the number of the paper's table")
    rows: str = key(f"JSON list of {{label, set, seeds, paper}}; the row {UNTRAINED!r} is the untrained model", "[]")
    grid: str = key("JSON list of {label: keys to set}; makes a row for every combination of one label from each", "[]")
    method: str = key(f"one of {', '.join(METHODS)}", "siamese")
    seeds: list[int] = key("seeds with which every row is run", [0, 1, 2])
    paper_columns: list[str] = key("headings of the paper's figures", [])
    show: str = key(
        "JSON {metric, direction or a setting: values}: what the table shows; forward: a row's first one", "{}"
    )
    keep: bool = key("write each run's model and per-item outcomes to OUTPUT_DIR/LABEL-SEED, for later tests", False)
    results_dir: str = key("folder in which NAME.json is written", "outputs/studies", writes="folder")

    def all_rows(self) -> list[dict]:
        """The rows, those of the grid last.

        Raises:
            ValueError: for a malformed row or grid.
        """
        rows, grid = json.loads(self.rows), json.loads(self.grid)
        for name, entries in (("rows", rows), ("grid", grid)):
            if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
                raise ValueError(f"{name}={entries}: give a list of entries with keys.")
        for axis in grid:
            if not all(isinstance(keys, dict) for keys in axis.values()):
                raise ValueError(
                    f"grid: {axis}: give each label the keys that it sets, as in 'worst: {{negatives: worst}}'."
                )
        for row in rows:
            if not isinstance(row.get("set") or {}, dict):
                raise ValueError(f"row {row.get('label')}: set={row['set']}: give the keys that it sets.")
            if not isinstance(row.get("seeds", []), list):
                raise ValueError(f"row {row.get('label')}: seeds={row['seeds']}: give a list of numbers.")
        if not grid:
            return rows
        axes = [axis.items() for axis in grid]
        for choice in product(*axes):
            keys: dict = {}
            for _, of_label in choice:
                keys |= of_label
            rows.append({"label": " ".join(label for label, _ in choice), "set": keys})
        return rows


@dataclass
class Study:
    """A study, as read from its configuration."""

    args: StudyArguments  # the study's own keys
    rows: list[dict]  # what is run
    base: dict[str, Any]  # the method's keys in the configuration, over the method's defaults
    command_line: list[str]  # what is left of the command line; it wins over `base`

    @property
    def path(self) -> Path:
        """Of the results file."""
        return Path(self.args.results_dir) / f"{self.args.name}.json"

    def settings(self) -> list[tuple]:
        """(arguments, training arguments) of every row: row keys win over the command line, and that over the file."""
        types = (method(self.args.method).Arguments, TrainingArguments)
        settings = []
        for row in self.rows:
            words = self.command_line + as_tokens(row.get("set") or {})
            settings.append(parse_arguments(types, words, defaults=self.base))
        return settings

    def description(self) -> dict[str, Any]:
        """The other entries of the results file, from which its table can be made again."""
        show = json.loads(self.args.show)
        return {"title": self.args.title, "rows": self.rows, "paper_columns": self.args.paper_columns, "show": show}


def read_study(argv: list[str]) -> Study:
    """Read the configuration that `--config` names.

    Raises:
        FileNotFoundError: no such configuration.
        ValueError: a broken or unknown key, or rows without labels of their own.
    """
    finder = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    finder.add_argument("--config", nargs="?")
    named, rest = finder.parse_known_args(argv)
    if named.config is None:
        raise ValueError("give --config recipes/configs/METHOD/studies/NAME.yaml.")
    path = Path(named.config)
    content = read_yaml(path)
    entry = content.pop("study", None)
    if not isinstance(entry, dict) or not any(isinstance(entry.get(key), list) for key in ("rows", "grid")):
        raise ValueError(f"{path}: has no 'study' entry with rows or grid; to train one model use the method's recipe.")
    study_keys = StudyArguments.__dataclass_fields__
    check_keys(entry, study_keys, f"{path}, study")
    of_study, of_recipe = [], []  # the command line may give the study's keys, too
    words = of_recipe
    for word in map(with_underscores, rest):
        if word.startswith("--"):  # the values that follow go where their option goes
            words = of_study if word[2:].split("=")[0] in study_keys else of_recipe
        words.append(word)
    for name in ("rows", "grid", "show"):
        if name in entry:
            entry[name] = json.dumps(entry[name])
    (args,) = parse_arguments((StudyArguments,), of_study, defaults=entry)
    if not re.fullmatch(r"\w[\w.-]*", args.name):
        raise ValueError(f"study: name={args.name!r}: use only letters, digits, _, . and -; it names the results file.")
    module = method(args.method)
    rows = args.all_rows()
    keys = module.Arguments.__dataclass_fields__.keys() | TrainingArguments.__dataclass_fields__.keys()
    check_keys(content, keys, str(path))
    for number, row in enumerate(rows, 1):
        check_keys(row, ROW_KEYS, f"{path}, row {number}")
        check_keys(row.get("set") or {}, keys, f"{path}, row {number}")
    labels = {row["label"] for row in rows if row.get("label") is not None}
    if len(labels) < len(rows):
        raise ValueError(f"{path}: every row needs a label of its own.")
    base = module.TRAINING_DEFAULTS | {"output_dir": "outputs/study", "save_strategy": "no"} | content
    return Study(args, rows, base, of_recipe)


def check_keys(given: Iterable[str], known: Iterable[str], where: str) -> None:
    """Refuse an unknown key and name the nearest known one."""
    for name in given:
        if name not in known:
            raise ValueError(f"{unknown_key(str(name), known, where)}.")


def run_study(study: Study) -> list[EvalResult]:
    """Run every row with every seed, seed by seed, and report; the results file is rewritten after each run.

    Rows that share text and encoder are prepared together, once. A study that was stopped continues: runs that the file
    holds are not repeated, provided that only rows were added since. Rows whose layer the encoder lacks are left out.

    Raises:
        ValueError: no row is left, or the method's `prepare` or `run` refuses something.
    """
    args, module = study.args, method(study.args.method)
    settings = study.settings()
    for _, training_args in settings:
        check_trainer(training_args)
    possible = _possible(study.rows, settings)
    if not possible:
        raise ValueError(f"study {args.name}: the encoder has none of the layers that the rows name.")
    groups: dict[tuple, list] = {}  # the recipes that are prepared together
    for _, recipe, _ in possible:
        groups.setdefault(recipe.shared_key(), []).append(recipe)
    before, after = finished_runs(study, resolved(*settings[0]))
    earlier = None
    if after:
        log.info("%s: %d rows taken from %s; remove it to measure anew", args.name, len(after), study.path)
        earlier = json.loads(study.path.read_text(encoding="utf-8"))
    finished = {(result.seed, result.settings["row"]) for result in after}
    prepared = {}
    for seed in args.seeds:
        for row, recipe, training_args in possible:
            label = row["label"]
            is_wanted = label != UNTRAINED and seed in row.get("seeds", args.seeds)
            if not is_wanted or (seed, label) in finished:
                continue
            training_args = copy.copy(training_args)
            training_args.seed = seed
            key = recipe.shared_key()
            if key not in prepared:
                prepared[key] = module.prepare(groups[key], training_args)
            run = module.run(recipe, training_args, prepared[key])
            if args.keep:
                _keep(Path(training_args.output_dir) / f"{label}-{seed}".replace("/", "-"), run)
            for result in [*run.results, *averages(run.curve)]:
                if result.settings["stage"] == "before":  # the same for every run, so listed once
                    before.setdefault(_place(result), result)
                else:
                    # a row of the curve was measured before the run had reached what `reached` says
                    reached = {} if result.settings["stage"] == "during" else run.reached
                    labelled = result.settings | reached | {"row": label}
                    after.append(replace(result, seed=seed, settings=labelled))
            results = [*before.values(), *after]
            extra = study.description() | cpu_minutes(earlier)
            write_results(study.path, results, recipe=RECIPE, settings=resolved(*settings[0]), extra=extra)
            log.info("%s: seed %d, %s done", args.name, seed, label)
    results = [*before.values(), *after]
    report(study, results)
    return results


def _possible(rows: Sequence[dict], settings: Sequence[tuple]) -> list[tuple]:
    """The rows whose layers the encoder has, each with its arguments and training arguments."""
    possible = []
    for row, (recipe, training_args) in zip(rows, settings):
        if recipe.is_possible():
            possible.append((row, recipe, training_args))
    return possible


def _keep(folder: Path, run: Run) -> None:
    with atomic_path(folder) as scratch:
        scratch.mkdir()
        if run.write is not None:
            run.write(scratch / "model")
        extra = {"reached": run.reached, "files": sorted(files_of(scratch))}
        write_results(scratch / "results.json", [*run.results, *run.curve], extra=extra, with_items=True)


def report(study: Study, results: Sequence[EvalResult]) -> None:
    """Print the table, the gain from more text if shares of it were studied, and the figures as JSON."""
    args = study.args
    header, table = study_table(results, study.rows, args.paper_columns, json.loads(args.show))
    sys.stdout.write(f"\n{args.title}\n\n{format_table(header, table)}\n\n")
    figures: dict[str, Any] = {line[0]: dict(zip(header[2:], line[2:])) for line in table}
    gains = learning_curve(results, study.rows)
    if gains:
        sys.stdout.write(f"another 1,000 pairs, points of P@1: {gains}\n\n")
        figures["another_1000_pairs"] = [round(gains.gain, 2), round(gains.gain_low, 2), round(gains.gain_high, 2)]
    last = {"name": args.name, "figures": figures, "settings": {"seeds": args.seeds}}
    sys.stdout.write(json.dumps(last, ensure_ascii=False) + "\n")


def finished_runs(study: Study, settings: dict) -> tuple[dict[tuple, EvalResult], list[EvalResult]]:
    """What an earlier start of the same study measured: the untrained results by place, and those of its runs.

    Rows marked as stale (a fix may have changed them) are measured again.
    """
    before: dict[tuple, EvalResult] = {}
    if not study.path.is_file():
        return before, []
    content = json.loads(study.path.read_text(encoding="utf-8"))
    earlier = {row["label"]: row.get("set") or {} for row in content.get("rows", [])}
    now = {row["label"]: row.get("set") or {} for row in study.rows}
    keys_of_rows = set().union(*earlier.values(), *now.values())
    if _shared(content.get("settings", {}), keys_of_rows) != _shared(as_json(settings), keys_of_rows):
        return before, []
    earlier_versions, versions = content.get("versions", {}), package_versions()
    for name in earlier_versions.keys() & versions.keys() - {"hfxling"}:
        if earlier_versions[name] != versions[name]:
            return before, []
    unchanged = {label for label, keys in now.items() if earlier.get(label) == keys}
    after = []
    for result in read_results(study.path):
        if result.settings["stage"] == "before":
            before[_place(result)] = result
            continue
        is_wanted = result.settings["row"] in unchanged and result.seed in study.args.seeds
        if is_wanted and "stale" not in result.settings:
            after.append(result)
    return before, after


def _shared(settings: dict, keys_of_rows: set[str]) -> dict:
    """The settings that determine all rows' figures: neither a row's own nor where and how it ran."""
    others = keys_of_rows | NOT_PUBLISHED | {"seed"}
    return {key: value for key, value in settings.items() if key not in others}


def _place(row: EvalResult) -> tuple:
    settings = json.dumps(row.settings, sort_keys=True)
    return (row.dataset, row.direction, row.metric, row.n, row.revision, row.model, settings)


def main(argv: list[str] | None = None) -> list[EvalResult]:
    return run_study(read_study(list(sys.argv[1:] if argv is None else argv)))


if __name__ == "__main__":
    run(main)
