"""The disentangler step by step: vectors, split, evaluation. The recipe and the studies are made of these steps."""

from __future__ import annotations

import json
import time
from dataclasses import replace

from transformers import TrainingArguments

from hfxling.evaluation.results import EvalResult

from .arguments import SOURCE_KEYS, TRAINING_DEFAULTS, DisentanglerArguments
from .data import SplitData, encode
from .evaluate import evaluate
from .train import fit

# What studies need of a method (see `study.py`), and what decides the text and the vectors of a row.
ARGUMENTS = DisentanglerArguments
__all__ = ["ARGUMENTS", "TRAINING_DEFAULTS", "run", "study_row"]


def run(args: DisentanglerArguments, training_args: TrainingArguments, data: SplitData) -> list[EvalResult]:
    """Train, unless the objective is "none", and evaluate; "after" rows say how long the training took."""
    if args.objective == "none":
        return evaluate(args, data)
    start = time.process_time()
    fitted = fit(args, training_args, data)
    spent = fitted.about | {"train_cpu_s": round(time.process_time() - start, 1), "objective": fitted.objective}
    return [
        replace(row, settings=row.settings | spent) if row.settings["stage"] == "after" else row
        for row in evaluate(args, data, fitted, training_args.seed)
    ]


def study_row(args: DisentanglerArguments, training_args: TrainingArguments, cache: dict) -> list[EvalResult]:
    """One run of a study; text and vectors are shared by all runs that read the same."""
    key = json.dumps([getattr(args, name) for name in SOURCE_KEYS])
    if key not in cache:
        cache[key] = encode(args)
    return run(args, training_args, cache[key])
