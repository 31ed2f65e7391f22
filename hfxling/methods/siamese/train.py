"""Training a siamese head on cached vectors."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import TrainingArguments, set_seed

from hfxling.evaluation.retrieval import language_mean
from hfxling.methods.frozen import PairVectors
from hfxling.methods.heads import apply_rows, head_trainer_arguments, replace_arguments
from hfxling.methods.trainer import XlingTrainer
from hfxling.models.losses import contrastive_loss, pair_distance, translation_ranking_loss
from hfxling.models.modeling_siamese import SiameseHead
from hfxling.models.pooling import unit_parts

from .arguments import AUTO, HeadSettings
from .choice import fit_auto
from .closed_form import WHITENING, Affine, eigen, fit_closed_form, shrunken_power, standardised, strength_rotation
from .data import labelled_pairs

# Settings of the in-batch softmax that competes in `--fit auto`.
INFONCE_SETTINGS = {"learning_rate": 1e-3, "lr_scheduler_type": "constant", "warmup_steps": 0, "weight_decay": 0.0}
INFONCE_EPOCHS, INFONCE_STEPS = 30, 1000  # whichever ends first


class HeadObjective(nn.Module):
    """A head and its loss, as the Trainer needs them. `languages` are those of source and target."""

    def __init__(self, head: SiameseHead, settings: HeadSettings, languages: Sequence[str]):
        super().__init__()
        self.head, self.settings = head, settings
        self.source_lang, self.target_lang = languages

    def forward(self, source: Tensor, target: Tensor, label: Tensor) -> dict[str, Tensor]:
        """Loss of a batch, and for the contrastive loss its two halves `loss_parallel` and `loss_non_parallel`.

        Takes (B, H) source vectors, (B, K, H) candidates (all the same for a parallel pair), and (B,) labels, 0 for a
        parallel pair and 1 for another one.
        """
        settings = self.settings
        if settings.fit == "contrastive" and settings.negatives in ("worst", "easiest") and target.shape[1] > 1:
            target = self.chosen(source, target, largest=settings.negatives == "easiest")
        x, y = self.head.project(source, self.source_lang), self.head.project(target, self.target_lang)
        if settings.fit == "infonce":
            same = _equal_rows(source) | _equal_rows(target[:, 0])  # other translations of a sentence are no negatives
            y = y[:, 0]
            forward = translation_ranking_loss(x, y, settings.temperature, same=same)
            backward = translation_ranking_loss(y, x, settings.temperature, same=same)
            return {"loss": (forward + backward) / 2}
        losses = contrastive_loss(self.distance(x, y), label[:, None], settings.margin).mean(1)
        return {
            "loss": losses.mean(),
            "loss_parallel": losses[label == 0].sum() / len(losses),
            "loss_non_parallel": losses[label == 1].sum() / len(losses),
        }

    def distance(self, x: Tensor, y: Tensor) -> Tensor:
        """(B, K) distances of (B, H) source outputs to their (B, K, H) candidates."""
        if self.settings.normalize_output:
            x, y = F.normalize(x, dim=-1), F.normalize(y, dim=-1)
        return pair_distance(x[:, None], y, self.settings.distance)

    @torch.no_grad()
    def chosen(self, source: Tensor, target: Tensor, largest: bool) -> Tensor:
        """The candidate (B, 1, H) of each pool at the largest or smallest distance, by the head without dropout.

        The loss of a non-parallel pair falls with its distance, so the worst candidate is the closest one. Training
        uses only the chosen one, which gives the same gradient as the maximum over the pool at a fraction of the cost.
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
    """(B, B) bool, True if two of the (B, H) frozen vectors are of the same text."""
    some = vectors[:, :: max(1, vectors.shape[1] // 16)]  # enough components, and a step takes a third less time
    return (some[:, None] == some).all(-1)


class PairRows(torch.utils.data.Dataset):
    """Row numbers as a dataset; its `collate` gathers the vectors of a whole batch at once.

    Source and target are (N, H) vectors, or anything that gives vectors for an array of row numbers. A translation that
    is repeated among the N target texts is never drawn as a negative.
    """

    def __init__(self, source, target, texts: Sequence[str], settings: HeadSettings, seed: int = 0):
        self.vectors = source, target
        if settings.fit == "infonce":
            rows = np.arange(len(texts))
            self.rows = rows, rows[:, None], np.zeros(len(rows), np.int64)
        else:
            pool_size = 1 if settings.negatives == "random" else settings.pool_size
            self.rows = labelled_pairs(texts, pool_size=pool_size, parallel_only=settings.parallel_only, seed=seed)

    def __len__(self) -> int:
        return len(self.rows[0])

    def __getitem__(self, index: int) -> int:
        return index

    def collate(self, indices: list[int]) -> dict[str, Tensor]:
        """{"source": (B, H), "target": (B, K, H), "label": (B,)}."""
        source, target, label = self.rows
        return {
            "source": torch.as_tensor(self.vectors[0][source[indices]]),
            "target": torch.as_tensor(self.vectors[1][target[indices]]),
            "label": torch.from_numpy(label[indices]),
        }


def new_head(
    settings: HeadSettings,
    sides: dict[str, np.ndarray],
    layers: tuple[int, ...] | None = None,
    start: SiameseHead | None = None,
) -> SiameseHead:
    """An untrained head by the settings; if `settings.init` is "published", it has the weights of `start`.

    The (N, H) vectors of every language give the means of centred inputs.
    """
    width = next(iter(sides.values())).shape[1]
    head = SiameseHead(settings.head_config(width, list(sides), layers))
    if settings.init == "identity":
        head.init_identity()
    if head.input_centers:
        maps = {}
        for lang, side in sides.items():
            maps[lang] = _input_map(side, head.config.parts, settings.input_power)
        head.set_input_maps(maps)
    if settings.init == "published":
        if _shapes(start) != _shapes(head):
            raise ValueError(
                f"init='published': the head of base_model has other settings ({start.config.head_dict()}); "
                "give the same --head, --bias, --per_language, --center_input and --centering."
            )
        head.load_state_dict(start.state_dict())
    return head


def _shapes(head: SiameseHead) -> dict[str, torch.Size]:
    return {name: tensor.shape for name, tensor in head.state_dict().items()}


def _input_map(vectors: np.ndarray, parts: int, power: float) -> tuple[Tensor, Tensor]:
    """Weight and bias that centre each part of a language's unit vectors, and divide by a power of its covariance.

    A power of a quarter weakens the strongest directions of a layer without amplifying the noise in the weakest: on
    NTREX it finds more held-out training pairs than centring alone or whitening.
    """
    units = apply_rows(lambda rows: unit_parts(rows, parts), vectors).astype(np.float64)
    blocks = np.split(units, parts, axis=1)
    weights = [shrunken_power(eigen(np.cov(block.T, bias=True)), WHITENING, -power) for block in blocks]
    weight = torch.block_diag(*map(torch.from_numpy, weights))
    return weight, -weight @ torch.from_numpy(units.mean(0))


def fit(
    vectors: PairVectors,
    texts: Sequence[str],
    settings: HeadSettings,
    training_args: TrainingArguments,
    start: SiameseHead | None = None,
) -> tuple[SiameseHead, dict]:
    """Fit a head to the training text's vectors, in closed form or with the Trainer.

    `texts` are the N target texts, so that a repeated translation is never drawn as a negative. `start` is the head to
    train further if `settings.init` is "published".

    Returns:
        The head in evaluation mode, and what the fit chose (shrinkage) or reached (loss).
    """
    set_seed(training_args.seed)
    sides = dict(zip(vectors.languages, vectors.train))
    head = new_head(settings, sides, vectors.layers, start)
    head.config.prompt = vectors.prompt
    if settings.is_affine:
        inputs, progress = head_inputs(head, sides), not training_args.disable_tqdm
        shown = {"seed": training_args.seed, "progress": progress}
        if settings.fit == AUTO:
            infonce = partial(infonce_maps, settings, training_args)
            *maps, chosen = fit_auto(*inputs, one_map=settings.one_map, trained=infonce, **shown)
        else:
            *maps, chosen = fit_closed_form(settings.fit, *inputs, **shown)
        head = with_maps(head, dict(zip(sides, maps)), per_language=maps[0] is not maps[1])
    elif settings.inputs != "plain":
        head, chosen = train_from(settings, training_args, head, sides, texts)
    else:
        chosen = train_rows(settings, training_args, head, sides, texts)
    head.eval().to("cpu")
    order_components(head, sides)
    if head.centers:
        means = {}
        for lang, side in sides.items():
            means[lang] = torch.from_numpy(language_mean(plain_output(head, side, lang)))
        head.set_means(means)
    return head, chosen


def order_components(head: SiameseHead, sides: dict[str, np.ndarray]) -> None:
    """Rotate the output of a linear head so that its strongest components come first; no cosine changes.

    `truncate_dim` then keeps what matters. After an activation nothing can be rotated.
    """
    if head.activation != "linear":
        return
    outputs = [plain_output(head, side, lang) for lang, side in sides.items()]
    rotation = torch.from_numpy(strength_rotation(*outputs).copy())
    with torch.no_grad():
        for layers in head.maps.values():
            for parameter in layers[-1].parameters():  # (D, H) weight, and (D,) bias if there is one
                parameter.copy_(rotation @ parameter.double())


def train_rows(
    settings: HeadSettings,
    training_args: TrainingArguments,
    head: SiameseHead,
    sides: dict[str, np.ndarray],
    texts: Sequence[str],
) -> dict:
    """Train a head with the Trainer on (N, H) vectors of both languages; returns the number of steps and the loss."""
    source, target = (torch.from_numpy(np.array(array)) for array in sides.values())
    rows = PairRows(source, target, texts, settings, training_args.seed)
    trainer = XlingTrainer(
        HeadObjective(head, settings, list(sides)),
        head_trainer_arguments(training_args),
        train_dataset=rows,
        data_collator=rows.collate,
    )
    reached = trainer.train(resume_from_checkpoint=training_args.resume_from_checkpoint)
    if training_args.resume_from_checkpoint:  # the Trainer forgets the losses from before a checkpoint
        return {"steps": reached.global_step}
    return {"steps": reached.global_step, "train_loss": reached.training_loss}


def train_from(
    settings: HeadSettings,
    training_args: TrainingArguments,
    head: SiameseHead,
    sides: dict[str, np.ndarray],
    texts: Sequence[str],
) -> tuple[SiameseHead, dict]:
    """Train a head on centred or whitened vectors; that map then becomes part of its first linear layer."""
    inputs = head_inputs(head, sides)
    starts = standardised(*inputs, shared=not settings.per_language, whiten=settings.inputs == "whitened")
    width = head.config.input_size
    inner = SiameseHead(
        settings.head_config(width, list(sides), hidden_size=width, normalize_input=False, center_input=False)
    )
    inner.load_state_dict(head.state_dict(), strict=False)
    moved = {}
    for lang, start, side in zip(sides, starts, inputs):
        moved[lang] = start(side).astype(np.float32)
    chosen = train_rows(settings, training_args, inner, moved, texts)
    maps = {}
    for lang, start in zip(sides, starts):
        trained = _affine(inner.maps[lang if settings.per_language else "shared"][0])
        maps[lang] = Affine(trained.weight @ start.weight, trained.weight @ start.bias + trained.bias)
    return with_maps(head, maps, inner), chosen


def _affine(layer: nn.Linear) -> Affine:
    weight = layer.weight.detach().cpu().double().numpy()
    bias = np.zeros(len(weight)) if layer.bias is None else layer.bias.detach().cpu().double().numpy()
    return Affine(weight, bias)


def infonce_maps(
    settings: HeadSettings, training_args: TrainingArguments, source: np.ndarray, target: np.ndarray
) -> tuple[Affine, Affine]:
    """The maps of a head trained by in-batch softmax on (N, H) vectors as the head takes them, whitened first.

    It competes with fixed settings, `INFONCE_SETTINGS`, so that the choice does not depend on those of the run.
    """
    steps = min(INFONCE_STEPS, INFONCE_EPOCHS * math.ceil(len(source) / training_args.train_batch_size))
    quick = replace_arguments(
        training_args,
        **INFONCE_SETTINGS,
        save_strategy="no",
        logging_strategy="no",
        disable_tqdm=True,
        resume_from_checkpoint=None,
        max_steps=steps,
    )
    per_language = not settings.one_map
    settings = replace(
        settings,
        fit="infonce",
        inputs="whitened",
        per_language=per_language,
        normalize_input=False,
        center_input=False,
        one_map=False,
    )
    sides = {"source": np.asarray(source, np.float32), "target": np.asarray(target, np.float32)}
    set_seed(training_args.seed)
    texts = [""] * len(source)  # only their number matters, as in-batch softmax draws no negatives among them
    head, _ = train_from(settings, quick, new_head(settings, sides), sides, texts)
    maps = {key: _affine(layers[0]) for key, layers in head.maps.items()}
    return (maps["source"], maps["target"]) if per_language else (maps["shared"], maps["shared"])


def with_maps(head: SiameseHead, maps: dict[str, Affine], others: SiameseHead | None = None, **fields) -> SiameseHead:
    """A head with these maps by language in its first layer, as wide as they are.

    It keeps the configuration of `head`, except for `fields`, and its centred inputs; further layers are from `others`.
    """
    shared = next(iter(maps.values()))  # the map for a head with one map for both languages
    width = len(shared.bias)
    fields |= {"bias": True, "output_size": None if width == head.config.input_size else width}
    config = copy.deepcopy(head.config)
    for name, value in fields.items():
        setattr(config, name, value)
    widened = SiameseHead(config)
    widened.input_centers.load_state_dict(head.input_centers.state_dict())
    if others is not None:
        for layers in widened.maps.values():
            nn.init.zeros_(layers[-1].bias)  # `others` may have no bias
        widened.load_state_dict(others.state_dict(), strict=False)
    for key, layers in widened.maps.items():
        affine = maps.get(key, shared)
        with torch.no_grad():
            layers[0].weight.copy_(torch.from_numpy(affine.weight))
            layers[0].bias.copy_(torch.from_numpy(affine.bias))
    return widened


def head_inputs(head: SiameseHead, sides: dict[str, np.ndarray]) -> list[np.ndarray]:
    """(N, H) frozen vectors of every language, as the head's maps take them."""
    inputs = []
    for lang, side in sides.items():
        inputs.append(apply_rows(partial(head.normalized, language=lang), side))
    return inputs


def unit_layers(vectors: np.ndarray, layers: tuple[int, ...] | None) -> np.ndarray:
    """The vectors of several layers, each scaled to length 1; those of a single layer unchanged."""
    if layers is None:
        return np.asarray(vectors)
    return apply_rows(lambda rows: unit_parts(rows, len(layers)), vectors)


def plain_output(head: SiameseHead, vectors: np.ndarray, language: str) -> np.ndarray:
    """The head's raw output, before any centring."""
    return apply_rows(lambda rows: head.project(rows, language), vectors)
