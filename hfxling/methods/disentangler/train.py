"""Training the meaning/language split."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from transformers import EarlyStoppingCallback, TrainerState, TrainingArguments, set_seed

from hfxling.data.sources import Pair, name_of_pair
from hfxling.evaluation.geometry import geometry_results
from hfxling.evaluation.results import EvalResult
from hfxling.methods.frozen import Sides
from hfxling.methods.heads import apply_rows, head_trainer_arguments, replace_arguments
from hfxling.models.configuration_disentangler import DisentanglerConfig
from hfxling.models.modeling_disentangler import DisentanglerHead

from .arguments import LEAST_PAIRS, SplitSettings
from .batches import PairRows, SplitObjective, SplitTrainer

Rows = tuple[np.ndarray, np.ndarray]  # rows of a language pair for training and for validation


@dataclass
class FittedSplit:
    """The outcome of training."""

    head: DisentanglerHead  # in evaluation mode, from the epoch with the lowest validation loss
    objective: str  # the objective that was trained
    reached: dict  # epochs run, epoch kept, validation loss
    # (epoch, L_align, L_uniform) of the validation pairs; epoch 0 is the untrained vectors.
    trajectory: list[tuple[float, float, float]]


class Patience(EarlyStoppingCallback):
    """Early stopping that, in a resumed run, also counts the epochs without gain before the checkpoint."""

    def on_train_begin(self, args, state: TrainerState, control, **kwargs):
        """Count the epochs before the checkpoint, too."""
        super().on_train_begin(args, state, control, **kwargs)
        self.early_stopping_patience_counter = epochs_without_gain(state)


def epochs_without_gain(state: TrainerState) -> int:
    """Number of evaluations since the one with the lowest validation loss."""
    losses = [entry["eval_loss"] for entry in state.log_history if "eval_loss" in entry]
    return len(losses) - 1 - int(np.argmin(losses)) if losses else 0


def default_objective(kind: str) -> str:
    """The paper's best objective: both constraints for encoder models, only the inter-part ones for LLMs' vectors."""
    return "inter" if kind == "llm" else "both"


def new_head(
    settings: SplitSettings, hidden_size: int, start: DisentanglerHead | None = None, **origin
) -> DisentanglerHead:
    """An untrained split of D-dimensional vectors; if `settings.init` is "published", it has the weights of `start`.

    `origin` has the fields of its configuration that say where vectors come from: layer, pooling, prompt.
    """
    fields = settings.head_fields() | origin
    head = DisentanglerHead(DisentanglerConfig(**fields, hidden_size=hidden_size))
    if settings.init == "share":
        head.init_share()
    if settings.init == "published":
        published = start.config.head_dict()
        if any(published.get(name) != value for name, value in fields.items()):
            raise ValueError(f"init='published': base_model was published with other settings: {published}.")
        head.load_state_dict(start.state_dict())
    return head


def fit_heads(
    vectors: Sequence[Sides],
    pairs: Sequence[Pair],
    settings: SplitSettings,
    training_args: TrainingArguments,
    **options,
) -> list[FittedSplit]:
    """A split for each language pair; several are trained in separate folders. `options` are those of `fit`."""
    splits = []
    rows = division(vectors, settings.validation_share)
    for number, pair in enumerate(pairs):
        arguments = training_args
        if len(pairs) > 1:
            arguments = replace_arguments(training_args, output_dir=f"{training_args.output_dir}/{name_of_pair(pair)}")
        splits.append(fit([vectors[number]], settings, arguments, rows=[rows[number]], **options))
    return splits


def fit(
    vectors: Sequence[Sides],
    settings: SplitSettings,
    training_args: TrainingArguments,
    *,
    kind: str = "encoder",
    rows: Sequence[Rows] | None = None,
    start: DisentanglerHead | None = None,
    **origin,
) -> FittedSplit:
    """Train a split of several language pairs' (N, D) vectors, with early stopping.

    The objective "auto" depends on the `kind` of encoder, "encoder" or "llm". `rows` are every pair's rows for training
    and for validation, by default those of `division`. `start` and `origin` are as for `new_head`.
    """
    objective = default_objective(kind) if settings.objective == "auto" else settings.objective
    checkpoint = training_args.resume_from_checkpoint
    if checkpoint is not None:
        state = TrainerState.load_from_json(str(Path(checkpoint) / "trainer_state.json"))
        if epochs_without_gain(state) >= settings.patience:  # it had already stopped, so train no further step
            training_args = replace_arguments(training_args, max_steps=state.global_step)
    set_seed(training_args.seed)
    head = new_head(settings, vectors[0][0].shape[1], start, **origin)
    if rows is None:
        rows = division(vectors, settings.validation_share)
    used, held = zip(*rows)
    sampled = sample_sides(vectors, held, settings.geometry_pairs)
    fields = {"dataset": "validation", "split": "validation"}

    def geometry(model: SplitObjective) -> list[EvalResult]:
        meanings = []
        for source, target in sampled:
            meanings.append((meaning_of(model.head, source), meaning_of(model.head, target)))
        return geometry_results(meanings, **fields)

    trainer = SplitTrainer(
        SplitObjective(head, objective, settings.both_sides),
        head_trainer_arguments(training_args),
        train_dataset=PairRows(vectors, used),
        eval_dataset=PairRows(vectors, held),
        evaluators=[geometry],
        callbacks=[Patience(settings.patience)],
    )
    trainer.train(resume_from_checkpoint=checkpoint)
    untrained = [row.value for row in geometry_results(sampled, **fields)]
    trajectory = [(0.0, *untrained)]
    losses = []
    for entry in trainer.state.log_history:
        if "eval_validation_alignment" in entry:
            values = entry["eval_validation_alignment"], entry["eval_validation_uniformity"]
            trajectory.append((entry["epoch"], *values))
        if "eval_loss" in entry:
            losses.append(entry)
    best = min(losses, key=lambda entry: entry["eval_loss"])
    reached = {"epochs": losses[-1]["epoch"], "best_epoch": best["epoch"], "validation_loss": best["eval_loss"]}
    return FittedSplit(head.eval().to("cpu"), objective, reached, trajectory)


def meaning_of(head: DisentanglerHead, vectors: np.ndarray) -> np.ndarray:
    """(N, D) meaning parts of vectors, computed on the head's device."""
    return apply_rows(lambda rows: head(head.prepare(rows)), vectors, head.linear.weight.device)


def language_of(head: DisentanglerHead, vectors: np.ndarray) -> np.ndarray:
    """(N, D) language parts: the vectors minus their meaning parts."""
    return apply_rows(head.prepare, vectors, head.linear.weight.device) - meaning_of(head, vectors)


def division(vectors: Sequence[Sides], share: float) -> list[Rows]:
    """Training and validation rows of each language pair, in order, at least two of both.

    They are the same for every seed, so that runs are compared on the same rows.
    """
    rng = np.random.default_rng(0)
    rows = []
    for source, _ in vectors:
        count = len(source)
        if count < LEAST_PAIRS:
            raise ValueError(f"{count} pairs, validation_share={share}: need at least {LEAST_PAIRS} pairs.")
        held_out = np.zeros(count, bool)
        number_held = int(np.clip(round(count * share), 2, count - 2))
        held_out[rng.permutation(count)[:number_held]] = True
        rows.append((np.flatnonzero(~held_out), np.flatnonzero(held_out)))
    return rows


def sample_sides(vectors: Sequence[Sides], rows: Sequence[np.ndarray], limit: int) -> list[list[np.ndarray]]:
    """A sample of the rows of each language pair's vectors, at most `limit` of each."""
    sampled = []
    for sides, part in zip(vectors, rows):
        chosen = np.sort(np.random.default_rng(0).permutation(part)[:limit])
        sampled.append([np.asarray(side[chosen], np.float32) for side in sides])
    return sampled
