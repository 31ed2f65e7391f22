"""The steps that all recipes share: checks before anything is trained, and then folder, card, table and upload."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from huggingface_hub import HfApi, get_token
from transformers import TrainingArguments

from hfxling.arguments import resolved
from hfxling.data.corpus import TextArguments
from hfxling.encoders.identity import fetch_folder
from hfxling.evaluation.results import EvalResult, filled_columns, format_table, interval_told, p_told, write_results
from hfxling.evaluation.short_vectors import FinalVectors, short_vector_results
from hfxling.files import atomic_path, check_replaceable, weights_hash
from hfxling.hub.card import CardInfo, scrubbed
from hfxling.hub.checks import base_licence, release_faults
from hfxling.hub.folder import check_finite, check_push, publish, stored_tensors
from hfxling.hub.index import told_apart
from hfxling.hub.record import file_hashes
from hfxling.hub.snippets import own_examples
from hfxling.methods import METHODS, method

from .checkpoints import checkpoint_of
from .checks import check_trainer

_OF_COUNTING = ("seed", "hub_model_id")  # arguments of the Trainer that matter to a method without the Trainer, too


@dataclass
class Run:
    """The outcome of a run."""

    results: list[EvalResult]  # all that was measured, before ("stage") and after; empty if nothing is evaluated
    # How far training got and what it chose: steps, seconds, CPU seconds, shrinkage, loss.
    reached: dict[str, Any] = field(default_factory=dict)
    write: Callable[[Path], None] | None = None  # writes the folder "model"; None if nothing was trained
    extra: dict[str, Any] = field(default_factory=dict)  # further entries of results.json
    others: dict[str, Callable[[Path], None]] = field(default_factory=dict)  # write further folders, by name
    branches: Sequence[str] = ()  # subfolders that a push puts on branches of the Hub, see `publish`
    # What was measured during training, with stage "during" and the setting step; studies keep its averages.
    curve: list[EvalResult] = field(default_factory=list)
    # Gives the finished model's vectors of its test sets: the folder's results say how short and coarse they may be.
    vectors: Callable[[], Iterable[FinalVectors]] = tuple  # by default none

    def all_results(self) -> list[EvalResult]:
        """All that was measured, and what shortened and quantised copies of the finished model's vectors find."""
        results = list(self.results)
        for vectors in self.vectors():
            results += short_vector_results(vectors)
        return results


COSTS = ("train_seconds", "train_cpu_s")  # what training took, which differs from run to run


@contextmanager
def training_cost() -> Iterator[dict[str, float]]:
    """Yield a dictionary that has train_seconds (wall) and train_cpu_s of this process once the block has ended."""
    cost: dict[str, float] = {}
    wall, cpu = time.perf_counter(), time.process_time()
    yield cost
    cost["train_seconds"] = round(time.perf_counter() - wall, 1)
    cost["train_cpu_s"] = round(time.process_time() - cpu, 1)


def check_run(training_args: TrainingArguments, recipe: TextArguments | None = None) -> bool:
    """Refuse what cannot succeed, find the checkpoint to resume from, and keep the Trainer from pushing checkpoints.

    Returns whether the finished folder is to be pushed; programs other than recipes have no card and push nothing.

    Raises:
        ValueError: a push without card, repository, token or licence, a token on the command line, no checkpoint to
            resume from, or something that `check_trainer` refuses.
    """
    push = training_args.push_to_hub
    training_args.push_to_hub = False
    if training_args.hub_token:
        raise ValueError("hub_token: do not give tokens on a command line; run hf auth login, or set HF_TOKEN.")
    if push and recipe is None:
        raise ValueError("push_to_hub: this recipe only writes folders; upload one with `hf upload NAME FOLDER`.")
    if push:
        check_push(training_args.hub_model_id)
        base = told_apart(getattr(recipe, "base_model", None) or "precomputed vectors")
        text = {"name": recipe.name, "licence": recipe.licence}
        stated = {"licence": recipe.licence, "base_model": base, "train_data": [text]}
        faults = release_faults(stated, base_licence(base, HfApi()))
        if faults:
            raise ValueError(f"push_to_hub: {'; '.join(faults)}")
    check_trainer(training_args)
    check_replaceable(Path(training_args.output_dir, "model"), vars(recipe).values() if recipe else ())
    training_args.resume_from_checkpoint = checkpoint_of(training_args)
    return push


def publish_run(
    name: str,
    recipe: TextArguments,
    training_args: TrainingArguments,
    prepared: Any,
    run: Run,
    *,
    argv: Sequence[str] | None = None,
    push: bool = False,
    command: Sequence[str] | None = None,
    shown: bool = True,
) -> list[EvalResult]:
    """Write OUTPUT_DIR/model with its card, and push the finished folder if asked to.

    The card says that `command` was run; by default that is the method's recipe with `argv`, by default the arguments
    of this process. With `shown` the table of before and after is printed, and also what was reached and the folder.
    """
    if not training_args.should_save or run.write is None:  # one process writes
        return run.results
    of_trainer = resolved(training_args)
    if METHODS[name].is_counted:
        of_trainer = {key: value for key, value in of_trainer.items() if key in _OF_COUNTING}
    of_method = method(name).card(recipe, prepared, run)
    configuration = dict(of_method.get("configuration", {}))  # settings that the card states even if they are defaults
    for key, value in (resolved(recipe) | of_trainer).items():
        if value != []:
            configuration[key] = value
    program = f"recipes/{name}.py" if command is None else " ".join(command[:2])
    command = command or ["accelerate", "launch", program, *(sys.argv[1:] if argv is None else argv)]
    shared = {
        "repo_id": training_args.hub_model_id or of_method["repo_id"],
        "method": name,
        "licence": recipe.licence or "other",
        "train_data": prepared.corpus.card_entries(recipe.licence),
        "examples": own_examples(prepared.corpus.pairs),
        "limits": [*recipe.limits, *of_method["limits"]],
        "training_command": scrubbed(shlex.join(command), get_token()),
        "configuration": configuration,
    }
    extra = {"reached": run.reached} | run.extra
    base = getattr(recipe, "base_model", None)
    if base is not None:
        weights, _ = fetch_folder(base, recipe.base_revision, ["*.safetensors"])
        extra["base_weights"] = weights_hash(weights)
    folder = publish(
        Path(training_args.output_dir) / "model",
        run.write,
        run.all_results(),
        CardInfo(**of_method | shared),
        recipe=program,
        extra=extra,
        push=push,
        private=bool(training_args.hub_private_repo),
        branches=run.branches,
    )
    if shown:
        _tell(before_and_after(run.results), run, folder)
    return run.results


def write_run(name: str, recipe: Any, training_args: TrainingArguments, run: Run, table: str) -> list[EvalResult]:
    """Write the folders of a run that has no card, each with its results.json, and print a table of its results."""
    if not training_args.should_save or run.write is None:  # one process writes
        return run.results
    settings = resolved(recipe, training_args)
    for folder, write in ({"model": run.write} | run.others).items():
        with atomic_path(Path(training_args.output_dir) / folder) as scratch:
            write(scratch)
            check_finite(stored_tensors(scratch))
            extra = {"reached": run.reached} | run.extra | {"files": file_hashes(scratch)}
            write_results(scratch / "results.json", run.results, recipe=name, settings=settings, extra=extra)
    _tell(table, run, Path(training_args.output_dir) / "model")
    return run.results


def _tell(table: str, run: Run, folder: Path) -> None:
    if table:
        sys.stdout.write(f"{table}\n")
    reached = ", ".join(f"{key} {_shown(value)}" for key, value in run.reached.items())
    sys.stdout.write(f"{reached}\nmodel folder: {folder}\n")


def _shown(value: object) -> str:
    """A value as shown to people: six digits of a number, the entries of a list."""
    if isinstance(value, float):
        return f"{value:.6g}"
    return " ".join(map(_shown, value)) if isinstance(value, list | tuple) else str(value)


def before_and_after(results: Sequence[EvalResult]) -> str:
    """A table of what was measured before and after training, with P@1 of all P@k, and without columns of no use."""
    lines: dict[tuple, dict[str, EvalResult]] = {}
    for row in results:
        if row.metric.startswith("P@") and not row.metric.startswith("P@1"):
            continue
        how = [row.settings.get(name) for name in ("method", "centering", "decoding")]
        lines.setdefault((row.dataset, row.direction, row.metric, *how, row.n), {})[row.settings["stage"]] = row
    if not lines:
        return ""
    header = ["test set", "direction", "metric", "similarity", "centring", "decoding", "n"]
    header += ["before", "after", "95 %", "p"]
    table = []
    for key, stages in lines.items():
        digits = 1 if next(iter(stages.values())).unit == "%" else 3
        cells = list(key)
        for stage in ("before", "after"):
            cells.append(f"{stages[stage].value:.{digits}f}" if stage in stages else None)
        interval = p_value = None
        if "after" in stages:
            after = stages["after"]
            paired = after.settings.get("paired")
            if after.low is not None:
                interval = interval_told(after.low, after.high, digits)
            if paired:
                p_value = p_told(paired["p_value"]).removeprefix("= ")
        table.append([*cells, interval, p_value])
    return format_table(*filled_columns(header, table))
