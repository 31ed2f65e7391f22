"""The disentangler: a frozen encoder's sentence vectors split into meaning and language (Nonomura et al.).

Beside the files of every method:
batches.py: vectors of many language pairs, read from disk in blocks.
"""

from __future__ import annotations

from pathlib import Path

from transformers import TrainingArguments

from hfxling.evaluation.plots import plot_trajectory
from hfxling.training.frozen import write_frozen
from hfxling.training.publishing import Run, training_cost

from .arguments import TRAINING_DEFAULTS, DisentanglerArguments
from .card import card
from .data import Prepared, prepare
from .evaluate import evaluate, final_vectors
from .train import assemble, fit

Arguments = DisentanglerArguments
__all__ = ["TRAINING_DEFAULTS", "Arguments", "card", "prepare", "run"]


def run(args: DisentanglerArguments, training_args: TrainingArguments, prepared: Prepared) -> Run:
    """Train, and evaluate before and after."""
    with training_cost() as cost:
        fitted = fit(args, training_args, prepared)
    reached = {"objective": fitted.objective} | fitted.about | cost
    if not training_args.should_save:  # one process evaluates and writes
        return Run([], reached)

    def write(folder: Path) -> None:
        write_frozen(args, assemble(args, prepared.hidden_size, fitted), folder)
        plot_trajectory(folder / "trajectory.png", {fitted.objective: [point[1:] for point in fitted.trajectory]})

    results = evaluate(args, prepared, fitted, training_args.seed)
    extra = {"trajectory": fitted.trajectory}
    return Run(results, reached, write, extra, vectors=lambda: final_vectors(prepared, fitted, training_args.seed))
