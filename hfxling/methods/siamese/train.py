"""Training a siamese head on cached vectors."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import PrinterCallback, TrainingArguments, set_seed

from hfxling.evaluation.retrieval import language_mean
from hfxling.methods.frozen import Sides, head_trainer_arguments
from hfxling.methods.strength import strength_rotation
from hfxling.methods.trainer import XlingTrainer
from hfxling.models.losses import contrastive_loss, pair_distance, translation_ranking_loss
from hfxling.models.modeling_siamese import SiameseHead, SiameseModel
from hfxling.models.pooling import unit_parts

from .arguments import AUTO, SiameseArguments
from .choice import fit_auto
from .closed_form import WHITENING, Affine, fit_closed_form, shrunken_power, standardised
from .data import PairVectors, labelled_pairs

# Of the in-batch softmax that competes in `--fit auto`.
INFONCE_SETTINGS = {"learning_rate": 1e-3, "lr_scheduler_type": "constant", "warmup_steps": 0, "weight_decay": 0.0}
INFONCE_EPOCHS, INFONCE_STEPS = 30, 1000  # the fewer of both


class HeadObjective(nn.Module):
    """A head and its loss: what the Trainer trains."""

    def __init__(self, head: SiameseHead, args: SiameseArguments):
        super().__init__()
        self.head = head
        self.source_lang, self.target_lang = args.languages
        self.args = args

    def forward(self, source: Tensor, target: Tensor, label: Tensor) -> dict[str, Tensor]:
        """Loss of a batch.

        Args:
            source: (B, H) frozen vectors.
            target: (B, K, H): K candidates, all the same for a parallel pair.
            label: (B,) 0 for parallel, 1 for non-parallel.

        Returns:
            {"loss": scalar}, and for the contrastive loss its two halves `loss_parallel` and `loss_non_parallel`.
        """
        args = self.args
        if args.fit == "contrastive" and args.negatives in ("worst", "easiest") and target.shape[1] > 1:
            target = self.chosen(source, target, largest=args.negatives == "easiest")
        x, y = self.head.project(source, self.source_lang), self.head.project(target, self.target_lang)
        if args.fit == "infonce":
            same = _equal_rows(source) | _equal_rows(target[:, 0])  # a sentence's other translations are no negatives
            forward, backward = (
                translation_ranking_loss(a, b, args.temperature, same=same) for a, b in ((x, y[:, 0]), (y[:, 0], x))
            )
            return {"loss": (forward + backward) / 2}
        losses = contrastive_loss(self.distance(x, y), label[:, None], args.margin).mean(1)
        parts = {"loss_parallel": losses[label == 0], "loss_non_parallel": losses[label == 1]}
        return {"loss": losses.mean()} | {name: part.sum() / len(losses) for name, part in parts.items()}

    def distance(self, x: Tensor, y: Tensor) -> Tensor:
        """(B, K) distances of (B, H) source outputs to their (B, K, H) candidates."""
        if self.args.normalize_output:
            x, y = F.normalize(x, dim=-1), F.normalize(y, dim=-1)
        return pair_distance(x[:, None], y, self.args.distance)

    @torch.no_grad()
    def chosen(self, source: Tensor, target: Tensor, largest: bool) -> Tensor:
        """Of each pool the one candidate (B, 1, H) at the largest or smallest distance, by the head without dropout.

        The loss of a non-parallel pair falls with its distance, so the worst candidate is the closest one. Only the
        chosen one is trained on, which gives the same gradient as the maximum over the pool and costs a fraction.
        """
        was_training = self.head.training
        self.head.eval()
        distance = self.distance(
            self.head.project(source, self.source_lang), self.head.project(target, self.target_lang)
        )
        self.head.train(was_training)
        best = distance.argmax(1) if largest else distance.argmin(1)
        return target[torch.arange(len(target)), best, None]


def _equal_rows(vectors: Tensor) -> Tensor:
    """(B, B) bool, True where two of the (B, H) frozen vectors are those of one text."""
    some = vectors[:, :: max(1, vectors.shape[1] // 16)]  # of the components: enough, and a third of a step's time less
    return (some[:, None] == some).all(-1)


class PairRows(torch.utils.data.Dataset):
    """Row numbers as a dataset; its `collate` gathers the vectors of a whole batch at once.

    Args:
        source: (N, H) vectors, or anything that gives them for an array of row numbers.
        target: (N, H), likewise; row i is parallel to source row i.
        texts: the N target texts: a repeated translation is never drawn as a negative.
        args: which loss and negatives.
        seed: of the drawn negatives.
        batch: numbers of a batch of source vectors, see `labelled_pairs`.
    """

    def __init__(self, source, target, texts: Sequence[str], args: SiameseArguments, seed: int = 0, batch: int = 0):
        self.vectors = source, target
        if args.fit == "infonce":
            rows = np.arange(len(texts))
            self.rows = rows, rows[:, None], np.zeros(len(rows), np.int64)
        else:
            pool = 1 if args.negatives == "random" else args.pool_size
            drawn = {"pool_size": pool, "parallel_only": args.parallel_only, "seed": seed, "batch": batch}
            self.rows = labelled_pairs(texts, **drawn)

    def __len__(self) -> int:
        return len(self.rows[0])

    def __getitem__(self, index: int) -> int:
        return index

    def collate(self, indices: list[int]) -> dict[str, Tensor]:
        """{"source": (B, H), "target": (B, K, H), "label": (B,)}."""
        source, target, label = (rows[indices] for rows in self.rows)
        vectors = [torch.as_tensor(array[rows]) for array, rows in zip(self.vectors, (source, target))]
        return {"source": vectors[0], "target": vectors[1], "label": torch.from_numpy(label)}


def set_affine(head: SiameseHead, maps: dict[str, Affine]) -> None:
    """Put maps into the first layer of a head with bias; a shared head takes the first one."""
    for key, layers in head.maps.items():
        affine = maps.get(key) or next(iter(maps.values()))
        with torch.no_grad():
            layers[0].weight.copy_(torch.from_numpy(affine.weight))
            layers[0].bias.copy_(torch.from_numpy(affine.bias))


def new_head(args: SiameseArguments, sides: dict[str, np.ndarray]) -> SiameseHead:
    """An untrained head as the arguments describe it, or the one that `base_model` was published with.

    Args:
        args: of the run.
        sides: (N, H) vectors of every language, which give the means of centred inputs.

    Raises:
        ValueError: when that is a head of another kind.
    """
    head = SiameseHead(args.head_config(next(iter(sides.values())).shape[1]))
    if args.init == "identity":
        head.init_identity()
    if head.input_centers:
        head.set_input_maps(
            {lang: _input_map(side, head.config.parts, args.input_power) for lang, side in sides.items()}
        )
    if args.init == "published":
        earlier = SiameseModel.from_pretrained(args.base_model, **args.hub_kwargs).head
        if {k: v.shape for k, v in earlier.state_dict().items()} != {k: v.shape for k, v in head.state_dict().items()}:
            raise ValueError(
                f"{args.base_model} has a head of another kind ({earlier.config.head_dict()}); "
                "give the same --head, --bias, --per_language, --center_input and --centering."
            )
        head.load_state_dict(earlier.state_dict())
    return head


def _input_map(vectors: np.ndarray, parts: int, power: float) -> tuple[Tensor, Tensor]:
    """Weight and bias that centre each part of a language's unit vectors, and divide by a power of its covariance.

    A quarter makes the strongest directions of a layer weaker without making noise of the weakest: on NTREX it finds
    more held-out training pairs than centring alone or whitening.
    """
    units = apply_rows(lambda rows: unit_parts(rows, parts), vectors).astype(np.float64)
    blocks = np.split(units, parts, axis=1)
    weights = [shrunken_power(np.cov(block.T, bias=True), WHITENING, -power) for block in blocks]
    weight = torch.block_diag(*map(torch.from_numpy, weights))
    return weight, -weight @ torch.from_numpy(units.mean(0))


def train_head(
    args: SiameseArguments, training_args: TrainingArguments, vectors: PairVectors, target_texts: Sequence[str]
) -> tuple[SiameseHead, dict]:
    """Fit a head on the training vectors, in closed form or with the Trainer.

    Returns:
        The head in evaluation mode with its languages' means, and what the fit chose (shrinkage) or reached (loss).
    """
    set_seed(training_args.seed)
    sides = dict(zip(args.languages, vectors.train))
    head = new_head(args, sides)
    if args.is_affine:
        shown = {"seed": training_args.seed, "progress": not training_args.disable_tqdm}
        if args.fit == AUTO:
            infonce = partial(infonce_maps, args, training_args)
            *maps, chosen = fit_auto(*head_inputs(head, sides), one_map=args.one_map, trained=infonce, **shown)
        else:
            *maps, chosen = fit_closed_form(args.fit, *head_inputs(head, sides), **shown)
        head = with_maps(args, head, dict(zip(args.languages, maps)), per_language=maps[0] is not maps[1])
    elif args.inputs != "plain":
        head, chosen = train_from(args, training_args, head, sides, target_texts)
    else:
        chosen = train_rows(args, training_args, head, vectors.train, target_texts)
    head.eval().to("cpu")
    order_components(head, sides)
    if head.centers:
        plain = {lang: plain_output(head, x, lang) for lang, x in sides.items()}
        head.set_means({lang: torch.from_numpy(language_mean(output)) for lang, output in plain.items()})
    return head, chosen


def order_components(head: SiameseHead, sides: dict[str, np.ndarray]) -> None:
    """Turn the output of a linear head so that its strongest components come first; no cosine changes.

    `truncate_dim` then keeps what matters. After an activation nothing can be turned.

    Args:
        head: in evaluation mode.
        sides: (N, H) training vectors of both languages.
    """
    if head.activation != "linear":
        return
    rotation = torch.from_numpy(strength_rotation(*(plain_output(head, x, lang) for lang, x in sides.items())).copy())
    with torch.no_grad():
        for layers in head.maps.values():
            for parameter in layers[-1].parameters():  # (D, H) weight, and (D,) bias where there is one
                parameter.copy_(rotation @ parameter.double())


def train_rows(
    args: SiameseArguments, training_args: TrainingArguments, head: SiameseHead, sides: Sides, texts: Sequence[str]
) -> dict:
    """Train a head with the Trainer on (N, H) vectors; returns how many steps, and the loss."""
    source, target = (torch.from_numpy(np.array(array)) for array in sides)
    batch = training_args.train_batch_size * source.shape[1]
    rows = PairRows(source, target, texts, args, training_args.seed, batch)
    trainer = XlingTrainer(
        HeadObjective(head, args),
        head_trainer_arguments(training_args),
        train_dataset=rows,
        data_collator=rows.collate,
    )
    if training_args.logging_strategy == "no":
        trainer.remove_callback(PrinterCallback)  # which would print the run's speed all the same
    reached = trainer.train(resume_from_checkpoint=training_args.resume_from_checkpoint)
    if training_args.resume_from_checkpoint:  # the Trainer forgets the losses from before a checkpoint
        return {"steps": reached.global_step}
    return {"steps": reached.global_step, "train_loss": reached.training_loss}


def train_from(
    args: SiameseArguments,
    training_args: TrainingArguments,
    head: SiameseHead,
    sides: dict[str, np.ndarray],
    texts: Sequence[str],
) -> tuple[SiameseHead, dict]:
    """Train a head on centred or whitened vectors, which is then part of its first linear layer."""
    inputs = head_inputs(head, sides)
    starts = standardised(*inputs, shared=not args.per_language, whiten=args.inputs == "whitened")
    width = head.config.input_size
    plain = {"layer": None, "hidden_size": width, "normalize_input": False, "center_input": False}
    inner = SiameseHead(args.head_config(width, **plain))
    inner.load_state_dict(head.state_dict(), strict=False)
    moved = tuple(start(side).astype(np.float32) for start, side in zip(starts, inputs))
    chosen = train_rows(args, training_args, inner, moved, texts)
    maps = {}
    for lang, start in zip(sides, starts):
        layer = inner.maps[lang if args.per_language else "shared"][0].to("cpu")
        weight = layer.weight.detach().numpy().astype(np.float64)
        bias = 0 if layer.bias is None else layer.bias.detach().numpy()
        maps[lang] = Affine(weight @ start.weight, weight @ start.bias + bias)
    return with_maps(args, head, maps, inner), chosen


def infonce_maps(
    args: SiameseArguments, training_args: TrainingArguments, source: np.ndarray, target: np.ndarray
) -> tuple[Affine, Affine]:
    """The maps of a head that in-batch softmax trains on (N, H) vectors as the head takes them, whitened first.

    It competes with settings of its own, `INFONCE_SETTINGS`: those of the run would make the choice depend on them.
    """
    quiet = {"save_strategy": "no", "logging_strategy": "no", "disable_tqdm": True, "resume_from_checkpoint": None}
    steps = min(INFONCE_STEPS, INFONCE_EPOCHS * math.ceil(len(source) / training_args.train_batch_size))
    quick = replace_arguments(training_args, **INFONCE_SETTINGS, **quiet, max_steps=steps)
    plain = {"layer": "last", "normalize_input": False, "center_input": False, "one_map": False}
    args = replace(args, fit="infonce", inputs="whitened", per_language=not args.one_map, **plain)
    sides = dict(zip(args.languages, (np.asarray(side, np.float32) for side in (source, target))))
    set_seed(training_args.seed)
    head, _ = train_from(args, quick, new_head(args, sides), sides, [""] * len(source))
    maps = [head.maps[key][0] for key in (args.languages if args.per_language else ["shared"] * 2)]
    found = {id(m): Affine(*(p.detach().cpu().numpy().astype(np.float64) for p in (m.weight, m.bias))) for m in maps}
    return tuple(found[id(m)] for m in maps)


def replace_arguments(training_args: TrainingArguments, **changes) -> TrainingArguments:
    """A copy of the Trainer's arguments with other values."""
    changed = copy.copy(training_args)
    for key, value in changes.items():
        setattr(changed, key, value)
    return changed


def with_maps(
    args: SiameseArguments,
    head: SiameseHead,
    maps: dict[str, Affine],
    others: SiameseHead | None = None,
    **settings,
) -> SiameseHead:
    """The head with these maps in its first layer, as wide as they are; the further layers are those of `others`.

    `settings` are further fields of its configuration.
    """
    width, out = head.config.input_size, len(next(iter(maps.values())).bias)
    settings |= {"center_input": head.config.center_input, "bias": True}
    made = SiameseHead(args.head_config(width, output_size=None if out == width else out, **settings))
    made.input_centers.load_state_dict(head.input_centers.state_dict())
    if others is not None:
        for layers in made.maps.values():
            nn.init.zeros_(layers[-1].bias)
        made.load_state_dict(others.state_dict(), strict=False)
    set_affine(made, maps)
    return made


def head_inputs(head: SiameseHead, sides: dict[str, np.ndarray]) -> list[np.ndarray]:
    """(N, H) frozen vectors of every language as the head's maps take them."""
    return [apply_rows(lambda rows, lang=lang: head.normalized(rows, lang), side) for lang, side in sides.items()]


def unit_layers(vectors: np.ndarray, layer: int | str | tuple[int, ...] | None) -> np.ndarray:
    """The vectors of several layers, each at length 1; those of a single layer as they are."""
    if not isinstance(layer, tuple):
        return np.asarray(vectors)
    return apply_rows(lambda rows: unit_parts(rows, len(layer)), vectors)


def assemble(args: SiameseArguments, head: SiameseHead) -> SiameseModel:
    """The head on its encoder; on nothing where only vectors were given."""
    if args.base_model is None:
        model = SiameseModel(head.config)
    else:
        settings = {k: v for k, v in head.config.head_dict().items() if k not in ("hidden_size", "layer", "pooling")}
        model = SiameseModel.from_encoder(
            args.base_model, layer=args.layer_index, pooling=args.pooling, hub_kwargs=args.hub_kwargs, **settings
        )
    model.head.load_state_dict(head.state_dict())
    return model.eval()


def plain_output(head: SiameseHead, vectors: np.ndarray, lang: str) -> np.ndarray:
    """The head's raw output, before any centring."""
    return apply_rows(lambda rows: head.project(rows, lang), vectors)


@torch.inference_mode()
def apply_rows(function: Callable[[Tensor], Tensor], vectors: np.ndarray) -> np.ndarray:
    """A function of (n, H) float32 tensors on (N, H) vectors, block by block."""
    blocks = torch.from_numpy(np.array(vectors, dtype=np.float32)).split(65536)
    return torch.cat([function(block) for block in blocks]).numpy()
