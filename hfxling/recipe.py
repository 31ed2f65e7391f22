"""The steps of every recipe: read options, refuse what cannot succeed, prepare, train, measure, write, push."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext

from transformers import TrainingArguments

from hfxling.arguments import parse_arguments
from hfxling.evaluation.results import EvalResult
from hfxling.files import alone_in
from hfxling.methods import method
from hfxling.methods.checkpoints import check_record, run_record
from hfxling.methods.publishing import check_run, publish_run


def run_recipe(name: str, argv: Sequence[str] | None = None, *, description: str = "") -> list[EvalResult]:
    """Train a method's model with the options of a command line, and write it with its card to OUTPUT_DIR/model.

    Args:
        name: name of the method, a key of `hfxling.methods.METHODS`.
        argv: `--config FILE.yaml` and `--key value ...`; by default those of the process.
        description: text that `--help` begins with.

    Returns:
        All rows that were measured, before and after training.

    Raises:
        ValueError: for an unknown method, key or value, malformed text, a push that would fail, a checkpoint of another
            training, or a folder that another run is writing into.
        FileNotFoundError: if a file or model does not exist.
    """
    package = method(name)
    types = (package.Arguments, TrainingArguments)
    args, training_args = parse_arguments(types, argv, defaults=package.TRAINING_DEFAULTS, description=description)
    folders = [(args, training_args)]
    if hasattr(package, "one_by_one"):
        folders = package.one_by_one(args, training_args)
    pushes = [check_run(own_training, own) for own, own_training in folders]  # all of them before the first trains
    results: list[EvalResult] = []
    for (own, own_training), push in zip(folders, pushes):
        prepared = package.prepare([own], own_training)
        own_training.run_record = run_record(own, own_training, prepared.corpus)
        check_record(own_training.resume_from_checkpoint, own_training.run_record)
        folder = own_training.output_dir
        # With several processes, only the one that writes locks the folder against other runs.
        with alone_in(folder, f"output_dir={folder}") if own_training.should_save else nullcontext():
            run = package.run(own, own_training, prepared)
            results += publish_run(name, own, own_training, prepared, run, argv=argv, push=push)
    return results
