"""Training the meaning/language split."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from transformers import EarlyStoppingCallback, TrainingArguments, set_seed

from hfxling.data.sources import name_of_pair
from hfxling.evaluation.geometry import geometry_results
from hfxling.methods.frozen import Sides, head_trainer_arguments
from hfxling.models.configuration_disentangler import DisentanglerConfig
from hfxling.models.modeling_disentangler import DisentanglerHead, DisentanglerModel

from .arguments import DisentanglerArguments
from .batches import PairRows, SplitObjective, SplitTrainer, divide
from .data import Prepared


@dataclass
class FittedSplit:
    """What training gave.

    Attributes:
        head: in evaluation mode, of the epoch with the lowest validation loss.
        objective: that was trained.
        about: epochs run, epoch kept, validation loss.
        trajectory: (epoch, L_align, L_uniform) of the validation pairs; epoch 0 is the untrained vectors.
        pairs: numbers of the language pairs that it was trained on.
    """

    head: DisentanglerHead
    objective: str
    about: dict
    trajectory: list[tuple[float, float, float]]
    pairs: list[int]


def default_objective(kind: str) -> str:
    """What the paper found best: both constraints for encoder models, the inter-part ones alone for LLMs' vectors."""
    return "inter" if kind == "llm" else "both"


def new_head(args: DisentanglerArguments, hidden_size: int) -> DisentanglerHead:
    """An untrained split, or the one that `base_model` was published with.

    Raises:
        ValueError: when that has no bias where one is asked for, or the other way round.
    """
    head = DisentanglerHead(DisentanglerConfig(**args.head_settings(), hidden_size=hidden_size))
    if args.init == "share":
        head.init_share()
    if args.init == "published":
        earlier = DisentanglerModel.from_pretrained(args.base_model, **args.hub_kwargs)
        wanted = earlier.config.head_dict() | args.head_settings()
        if earlier.config.head_dict() != wanted:
            raise ValueError(f"{args.base_model} was published with other settings: {earlier.config.head_dict()}.")
        head.load_state_dict(earlier.head.state_dict())
    return head


def fit_heads(args: DisentanglerArguments, training_args: TrainingArguments, data: Prepared) -> list[FittedSplit]:
    """A split for each language pair, or one for all of them, as the arguments ask for."""
    if not args.one_head_a_pair:
        return [fit(args, training_args, data)]
    found = []
    for number, pair in enumerate(data.corpus.pairs):
        own = copy.copy(training_args)
        if len(data.corpus.pairs) > 1:
            own.output_dir = f"{training_args.output_dir}/{name_of_pair(pair.languages)}"
        found.append(fit(args, own, data, [number]))
    return found


def fit(
    args: DisentanglerArguments, training_args: TrainingArguments, data: Prepared, pairs: Sequence[int] | None = None
) -> FittedSplit:
    """Train a split of the numbered language pairs, by default of all, with early stopping."""
    objective = default_objective(data.kind) if args.objective == "auto" else args.objective
    set_seed(training_args.seed)
    head = new_head(args, data.hidden_size)
    numbers = list(range(len(data.train)) if pairs is None else pairs)
    vectors, divided = [data.train[i] for i in numbers], division(args, data)
    used, held = zip(*(divided[i] for i in numbers))
    pairs = sample_sides(vectors, held, args.geometry_pairs)
    place = {"dataset": "validation", "split": "validation"}
    trainer = SplitTrainer(
        SplitObjective(head, objective, args.both_sides),
        head_trainer_arguments(training_args),
        train_dataset=PairRows(vectors, used),
        eval_dataset=PairRows(vectors, held),
        evaluators=[lambda model: geometry_results([meaning_of(model.head, sides) for sides in pairs], **place)],
        callbacks=[EarlyStoppingCallback(args.patience)],
    )
    trainer.train(resume_from_checkpoint=training_args.resume_from_checkpoint)
    start = [row.value for row in geometry_results(pairs, **place)]
    logged = [entry for entry in trainer.state.log_history if "eval_validation_alignment" in entry]
    epochs = [(row["epoch"], row["eval_validation_alignment"], row["eval_validation_uniformity"]) for row in logged]
    losses = [entry for entry in trainer.state.log_history if "eval_loss" in entry]
    best = min(losses, key=lambda entry: entry["eval_loss"])
    about = {"epochs": losses[-1]["epoch"], "best_epoch": best["epoch"], "validation_loss": best["eval_loss"]}
    return FittedSplit(head.eval().to("cpu"), objective, about, [(0.0, *start), *epochs], numbers)


def assemble(args: DisentanglerArguments, hidden_size: int, fitted: FittedSplit) -> DisentanglerModel:
    """The split on its encoder; on nothing where only vectors were given."""
    settings = args.head_settings()
    if args.base_model is None:
        model = DisentanglerModel(DisentanglerConfig(hidden_size=hidden_size, **settings))
    else:
        model = DisentanglerModel.from_encoder(args.base_model, hub_kwargs=args.hub_kwargs, **settings)
    model.head.load_state_dict(fitted.head.state_dict())
    return model.eval()


@torch.inference_mode()
def split_vectors(head: DisentanglerHead, vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(N, D) vectors e, their meaning parts and their language parts."""
    blocks = torch.from_numpy(np.array(vectors, dtype=np.float32)).split(65536)
    pooled = torch.cat([head.prepare(block) for block in blocks])
    meaning = torch.cat([head(block) for block in pooled.split(65536)])
    return pooled.numpy(), meaning.numpy(), (pooled - meaning).numpy()


def division(args: DisentanglerArguments, data: Prepared) -> list[tuple[np.ndarray, np.ndarray]]:
    """Training and validation rows of each language pair, the same for every seed: runs compare on the same rows."""
    rng = np.random.default_rng(0)
    return [divide(len(source), args.validation_share, rng) for source, _ in data.train]


def sample_sides(vectors: Sequence[Sides], rows: Sequence[np.ndarray], limit: int) -> list[list[np.ndarray]]:
    """A sample of the rows of each language pair's vectors, at most `limit` of each."""
    chosen = [np.sort(np.random.default_rng(0).permutation(part)[:limit]) for part in rows]
    return [[np.asarray(side[part], np.float32) for side in sides] for sides, part in zip(vectors, chosen)]


@torch.inference_mode()
def meaning_of(head: DisentanglerHead, sides: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Meaning parts, on the device where the head is."""
    features = [torch.from_numpy(side).to(head.linear.weight.device) for side in sides]
    return [head(head.prepare(side)).cpu().numpy() for side in features]
