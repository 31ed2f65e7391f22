"""Training the meaning/language split."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from transformers import EarlyStoppingCallback, TrainingArguments, set_seed

from hfxling.data.sources import Pair, name_of_pair
from hfxling.evaluation.geometry import geometry_results
from hfxling.evaluation.results import EvalResult
from hfxling.methods.frozen import Sides
from hfxling.methods.heads import head_trainer_arguments
from hfxling.models.configuration_disentangler import DisentanglerConfig
from hfxling.models.modeling_disentangler import DisentanglerHead

from .arguments import SplitSettings
from .batches import PairRows, SplitObjective, SplitTrainer, divide

Rows = tuple[np.ndarray, np.ndarray]  # of a language pair, for training and for validation


@dataclass
class FittedSplit:
    """What training gave.

    Attributes:
        head: in evaluation mode, of the epoch with the lowest validation loss.
        objective: that was trained.
        reached: epochs run, epoch kept, validation loss.
        trajectory: (epoch, L_align, L_uniform) of the validation pairs; epoch 0 is the untrained vectors.
        pairs: numbers of the language pairs that it was trained on.
    """

    head: DisentanglerHead
    objective: str
    reached: dict
    trajectory: list[tuple[float, float, float]]
    pairs: list[int]


def default_objective(kind: str) -> str:
    """What the paper found best: both constraints for encoder models, the inter-part ones alone for LLMs' vectors."""
    return "inter" if kind == "llm" else "both"


def new_head(
    settings: SplitSettings, hidden_size: int, start: DisentanglerHead | None = None, **origin
) -> DisentanglerHead:
    """An untrained split, or one with the weights of another.

    Args:
        settings: of the split.
        hidden_size: D.
        start: the split to go on from where `settings.init` is "published".
        **origin: fields of its configuration that say where vectors come from: layer, pooling, prompt.

    Raises:
        ValueError: when that has no bias where one is asked for, or the other way round.
    """
    fields = settings.head_fields() | origin
    head = DisentanglerHead(DisentanglerConfig(**fields, hidden_size=hidden_size))
    if settings.init == "share":
        head.init_share()
    if settings.init == "published":
        if start is None:
            raise ValueError("init='published' goes on with a model's split: give it as --base_model.")
        published = start.config.head_dict()
        if published != published | fields:
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
    """A split for each language pair; several are trained in folders of their own.

    Args:
        vectors: of every language pair.
        pairs: their languages.
        settings: of the splits.
        training_args: of the Trainer.
        **options: further arguments of `fit`.
    """
    splits = []
    rows = division(vectors, settings.validation_share)
    for number, pair in enumerate(pairs):
        own = copy.copy(training_args)
        if len(pairs) > 1:
            own.output_dir = f"{training_args.output_dir}/{name_of_pair(pair)}"
        split = fit([vectors[number]], settings, own, rows=[rows[number]], **options)
        splits.append(replace(split, pairs=[number]))
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
    """Train a split of several language pairs' vectors, with early stopping.

    Args:
        vectors: (N, D) of source and target of every language pair.
        settings: of the split.
        training_args: of the Trainer, the seed among them.
        kind: of the encoder, "encoder" or "llm": the objective "auto" goes by it.
        rows: of every pair for training and for validation; by default those of `division`.
        start: as for `new_head`.
        **origin: as for `new_head`.
    """
    objective = default_objective(kind) if settings.objective == "auto" else settings.objective
    set_seed(training_args.seed)
    head = new_head(settings, vectors[0][0].shape[1], start, **origin)
    used, held = zip(*(division(vectors, settings.validation_share) if rows is None else rows))
    pairs = sample_sides(vectors, held, settings.geometry_pairs)
    place = {"dataset": "validation", "split": "validation"}

    def geometry(model: SplitObjective) -> list[EvalResult]:
        return geometry_results([meaning_of(model.head, sides) for sides in pairs], **place)

    trainer = SplitTrainer(
        SplitObjective(head, objective, settings.both_sides),
        head_trainer_arguments(training_args),
        train_dataset=PairRows(vectors, used),
        eval_dataset=PairRows(vectors, held),
        evaluators=[geometry],
        callbacks=[EarlyStoppingCallback(settings.patience)],
    )
    trainer.train(resume_from_checkpoint=training_args.resume_from_checkpoint)
    untrained = [row.value for row in geometry_results(pairs, **place)]
    trajectory, losses = [(0.0, *untrained)], []
    for entry in trainer.state.log_history:
        if "eval_validation_alignment" in entry:
            values = entry["eval_validation_alignment"], entry["eval_validation_uniformity"]
            trajectory.append((entry["epoch"], *values))
        if "eval_loss" in entry:
            losses.append(entry)
    best = min(losses, key=lambda entry: entry["eval_loss"])
    reached = {"epochs": losses[-1]["epoch"], "best_epoch": best["epoch"], "validation_loss": best["eval_loss"]}
    return FittedSplit(head.eval().to("cpu"), objective, reached, trajectory, list(range(len(vectors))))


@torch.inference_mode()
def split_vectors(head: DisentanglerHead, vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(N, D) vectors e, their meaning parts and their language parts."""
    blocks = torch.from_numpy(np.array(vectors, dtype=np.float32)).split(65536)
    pooled = torch.cat([head.prepare(block) for block in blocks])
    meaning = torch.cat([head(block) for block in pooled.split(65536)])
    return pooled.numpy(), meaning.numpy(), (pooled - meaning).numpy()


def division(vectors: Sequence[Sides], share: float) -> list[Rows]:
    """Training and validation rows of each language pair, the same for every seed: runs compare on the same rows."""
    rng = np.random.default_rng(0)
    return [divide(len(source), share, rng) for source, _ in vectors]


def sample_sides(vectors: Sequence[Sides], rows: Sequence[np.ndarray], limit: int) -> list[list[np.ndarray]]:
    """A sample of the rows of each language pair's vectors, at most `limit` of each."""
    sampled = []
    for sides, part in zip(vectors, rows):
        chosen = np.sort(np.random.default_rng(0).permutation(part)[:limit])
        sampled.append([np.asarray(side[chosen], np.float32) for side in sides])
    return sampled


@torch.inference_mode()
def meaning_of(head: DisentanglerHead, sides: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Meaning parts, on the device where the head is."""
    device = head.linear.weight.device
    return [head(head.prepare(torch.from_numpy(side).to(device))).cpu().numpy() for side in sides]
