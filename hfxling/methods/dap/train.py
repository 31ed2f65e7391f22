"""Dual-alignment pre-training: the model, gradient caching and the run."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor
from transformers import PreTrainedTokenizerBase, TrainerCallback, TrainingArguments, set_seed

from hfxling.data.corpus import Corpus
from hfxling.data.sources import Pair
from hfxling.encoders.frozen import SentenceEmbedder, position_limit, token_limit
from hfxling.methods.trainer import XlingTrainer
from hfxling.models.modeling_dap import DapModel
from hfxling.models.pretraining_dap import BatchPart, DapForPreTraining, text_ids
from hfxling.models.stock import StockOutput

from .arguments import DapSettings
from .data import PairCollator, mean_texts, mixed_batches, target_ids
from .mixing import batch_loader
from .row_adamw import row_adamw

if TYPE_CHECKING:
    from torch.utils.data import DataLoader

    from hfxling.evaluation.results import EvalResult


class DapTrainer(XlingTrainer):
    """Feeds ready mixed batches, gathers negatives over the processes, and caches gradients if a chunk size is given.

    The encoder gets `chunk_size` pairs at a time, by default the whole batch; `train_dataset` is a `MixedBatches`.
    `curve` has the rows of every evaluation, with the settings step, train_seconds and train_cpu_s.
    """

    def __init__(self, *args, chunk_size: int | None = None, **kwargs):
        super().__init__(*args, **kwargs)
        self.chunk_size = chunk_size
        self.curve: list[EvalResult] = []
        self._began = self._ended = _clocks()
        self._evaluating = np.zeros(2)
        if self.is_fsdp_enabled:
            self.model.one_pass = True
            for name, parameter in self.model.dap.encoder.named_parameters():
                if "pooler" in name.split(
                    "."
                ):  # has no gradient, and FSDP cannot resume an optimizer without its state
                    parameter.requires_grad_(False)

    def train(self, *args, **kwargs):
        """As in the Trainer; afterwards `spent` gives the time it took."""
        self._began = _clocks()
        reached = super().train(*args, **kwargs)
        self._ended = _clocks()
        return reached

    def evaluate(self, *args, **kwargs) -> dict[str, float]:
        """As in the Trainer, but the rows are kept, and the time does not count as training."""
        self._ended = before = _clocks()
        reached = {"stage": "during", "step": self.state.global_step} | self.spent()
        metrics = super().evaluate(*args, **kwargs)
        self.curve += [replace(row, settings=row.settings | reached) for row in self.last_results]
        self._evaluating += _clocks() - before
        return metrics

    def spent(self) -> dict[str, float]:
        """Wall and CPU seconds of training until now or until its end, without evaluations."""
        wall, cpu = self._ended - self._began - self._evaluating
        return {"train_seconds": round(float(wall), 1), "train_cpu_s": round(float(cpu), 1)}

    def evaluated(self) -> DapModel | RootModel:
        """The model for the evaluators: the dual encoder, or a substitute for it if its weights are sharded."""
        if self.is_fsdp_enabled:
            return RootModel(self.model.eval())
        return super().evaluated().dap

    def whole_model(self, build: Callable[[], DapForPreTraining]) -> DapForPreTraining | None:
        """The trained model in evaluation mode; all processes must call this.

        If weights are sharded, they are gathered into a model that `build` makes, and all processes but the main one
        get None.
        """
        if not self.is_fsdp_enabled:
            return self.accelerator.unwrap_model(self.model).eval()
        weights = self.accelerator.get_state_dict(self.model)
        if not self.accelerator.is_main_process:
            return None
        model = build()
        model.load_state_dict(weights)
        return model.eval()

    def get_train_dataloader(self) -> DataLoader:
        """The batches are ready, and every process has its own, so there is nothing to shard or shuffle."""
        workers = self.args.dataloader_num_workers
        pinned = self.args.dataloader_pin_memory and torch.cuda.is_available()
        return batch_loader(self.train_dataset, self.data_collator, num_workers=workers, pin_memory=pinned)

    def _prepare_inputs(self, inputs: dict) -> dict:
        return super()._prepare_inputs(inputs) | {"gather": gather_rows}

    def training_step(self, model, inputs, num_items_in_batch=None) -> Tensor:
        """One batch forward and backward, in chunks if asked for (gradient caching; Gao et al. 2021).

        The sentence vectors of all chunks are computed without a graph; the ranking loss over the whole batch gives
        their gradients; each chunk is then encoded again, with the same dropout, to pass its gradients on.
        """
        if self.chunk_size is None or self.chunk_size >= len(inputs["source"]["input_ids"]):
            return super().training_step(model, inputs, num_items_in_batch)
        model.train()
        inputs = self._prepare_inputs(inputs)
        core, gather = self.accelerator.unwrap_model(model), inputs["gather"]
        chunks = split_batch(inputs, self.chunk_size)
        with self.compute_loss_context_manager():
            vectors, random_states = _embed(model, chunks)
            source, target = zip(*vectors)
            sides = torch.cat(source).requires_grad_(), torch.cat(target).requires_grad_()
            ranking = core.ranking_loss(*sides, text_ids(inputs["source"], inputs["target"]), gather)
        source_slopes, target_slopes = torch.autograd.grad(ranking, sides)
        slopes = zip(source_slopes.split(self.chunk_size), target_slopes.split(self.chunk_size))
        tokens = core.rtl_tokens(inputs["source"], inputs["target"], gather) if core.rtl is not None else None
        losses = {"loss": ranking.detach(), "loss_tr": ranking.detach()}
        for i, (chunk, pair) in enumerate(zip(chunks, slopes)):
            part = BatchPart(*pair, tokens, len(pair[0]) / len(sides[0]))
            random_states[i].restore()
            # The processes' gradients are summed once per batch, with the last chunk.
            is_last = i == len(chunks) - 1
            with nullcontext() if is_last else self.accelerator.no_sync(model):
                with self.compute_loss_context_manager():
                    output = model(**chunk, part=part)
                self.accelerator.backward(output.loss / self.current_gradient_accumulation_steps)
            for name, weight in (("loss_rtl", core.config.rtl_weight), ("loss_tlm", 1.0)):
                if name in output:
                    losses[name] = losses.get(name, 0) + output[name].detach()
                    losses["loss"] = losses["loss"] + weight * output[name].detach()
        self.remember(losses)
        return self.finite(losses["loss"] / self.current_gradient_accumulation_steps)


def _clocks() -> np.ndarray:
    """Wall and CPU seconds of this process."""
    return np.array([time.perf_counter(), time.process_time()])


def gather_rows(rows: Tensor) -> Tensor:
    """The rows of all processes, this one's first: (B, ...) to (world x B, ...); every process must have B of them.

    The gradient of a row is the sum of its gradients from all processes' losses. With losses averaged over the
    processes (as DDP and FSDP average gradients), training is the same as in one process with the whole batch.
    """
    if not (dist.is_available() and dist.is_initialized()) or dist.get_world_size() == 1:
        return rows
    from torch.distributed.nn.functional import all_gather  # not in every build of torch

    parts = list(all_gather(rows))  # unlike that of `torch.distributed` it has a gradient
    own = parts.pop(dist.get_rank())
    return torch.cat([own, *parts])


class RootModel:
    """A `DapModel` with sharded weights (FSDP): it embeds by forward passes of the root, which gathers the weights.

    The root is the wrapped `DapForPreTraining`. All processes must call it equally often, no matter with which texts.
    Vectors have the precision of training.
    """

    def __init__(self, root: torch.nn.Module):
        self.root = root

    def __getattr__(self, name: str):
        return getattr(self.root.dap, name)

    def __call__(self, **inputs: Tensor) -> StockOutput:
        """As `DapModel.forward`."""
        return self.root(inputs)


def split_batch(inputs: dict, size: int) -> list[dict]:
    """Consecutive chunks of at most `size` pairs; entries other than tensors go to every chunk."""
    from accelerate.utils import slice_tensors

    starts = range(0, len(inputs["source"]["input_ids"]), size)
    return [slice_tensors(inputs, slice(start, start + size)) for start in starts]


class RandomState:
    """The state of the random generators, so that a second pass drops out the same units."""

    def __init__(self):
        self.cpu = torch.get_rng_state()
        self.cuda = torch.cuda.get_rng_state() if torch.cuda.is_initialized() else None

    def restore(self) -> None:
        """Set the generators to this state."""
        torch.set_rng_state(self.cpu)
        if self.cuda is not None:
            torch.cuda.set_rng_state(self.cuda)


@torch.no_grad()
def _embed(model: torch.nn.Module, chunks: list[dict]) -> tuple[list[tuple[Tensor, Tensor]], list[RandomState]]:
    """Both sides' sentence vectors of every chunk, and the random state at the start of each chunk."""
    vectors, states = [], []
    for chunk in chunks:
        states.append(RandomState())
        output = model(**chunk, embed_only=True)  # through the wrapper, as the weights may be sharded
        vectors.append((output.source, output.target))
    return vectors, states


def build_model(
    settings: DapSettings,
    pairs: Sequence[Pair],
    tokenizer: PreTrainedTokenizerBase,
    shortlist: Tensor | None = None,
    *,
    center_on: Sequence[str] = (),
) -> DapForPreTraining:
    """The model to train, from the encoder that the settings name, with LoRA adapters if asked for.

    With `center_on` the mean vector of these texts is subtracted.
    """
    model = DapForPreTraining.from_encoder(
        settings.base_model,
        shortlist=shortlist,
        hub_kwargs=settings.hub_kwargs,
        mask_token_id=tokenizer.mask_token_id,
        special_token_ids=tokenizer.all_special_ids,
        prompt=settings.text_prompt,
        **settings.model_fields(pairs),
    )
    last_norm = None
    if settings.centering != "none":
        last_norm = _last_norm(model.dap.encoder)
    if center_on:
        is_centered = last_norm is not None and center(model.dap, tokenizer, last_norm, center_on)
        if not is_centered and settings.centering == "train":
            raise ValueError(
                f"centering='train': {model.dap.encoder.config.model_type} has no bias that can hold the mean vector; "
                "leave centering out."
            )
    if settings.freeze_embeddings:
        encoder = model.dap.encoder
        embeddings = encoder.embeddings if hasattr(encoder, "embeddings") else encoder.get_input_embeddings()
        embeddings.requires_grad_(False)
    if settings.lora:
        from peft import LoraConfig, get_peft_model

        adapters = LoraConfig(
            r=settings.lora,
            lora_alpha=2 * settings.lora,
            target_modules="all-linear",
            modules_to_save=None if last_norm is None else [last_norm],  # it has the mean vector
        )
        model.dap.encoder = get_peft_model(model.dap.encoder, adapters)
    return model


def _last_norm(encoder: torch.nn.Module) -> str | None:
    """The name of the last layer norm that has a bias; None if there is none."""
    last = None
    for name, module in encoder.named_modules():
        if isinstance(module, torch.nn.LayerNorm) and module.bias is not None:
            last = name
    return last


@torch.no_grad()
def center(model: DapModel, tokenizer: PreTrainedTokenizerBase, norm: str, texts: Sequence[str]) -> bool:
    """Subtract the mean pooled vector of some texts from all vectors, by the bias of the encoder's last layer norm.

    An encoder's vectors have much in common. This carries no information and costs the first steps of training, and
    with few pairs there are no others. Returns whether the bias of that `norm` shifts the vectors; if not, it is left
    unchanged.
    """
    bias = model.encoder.get_submodule(norm).bias
    embed = SentenceEmbedder(model.eval(), tokenizer, output="pooled")
    mean = embed(texts).mean(axis=0)
    few = texts[:8]
    before = embed(few)
    earlier = bias.clone()
    bias -= torch.from_numpy(mean).to(bias)
    goes_by_it = np.allclose(embed(few), before - mean, atol=1e-2 * np.abs(before).max())
    if not goes_by_it:
        bias.copy_(earlier)
    return goes_by_it


def published_model(model: DapForPreTraining | None) -> DapModel | None:
    """The dual encoder without the parts needed only in training; adapters are merged into the weights."""
    if model is None:
        return None
    if hasattr(model.dap.encoder, "merge_and_unload"):
        model.dap.encoder = model.dap.encoder.merge_and_unload()
    return model.dap.eval()


def is_fsdp(training_args: TrainingArguments) -> bool:
    """Whether weights are sharded."""
    return bool(training_args.fsdp) or os.environ.get("ACCELERATE_USE_FSDP", "false").lower() == "true"


def fit(
    corpus: Corpus,
    settings: DapSettings,
    training_args: TrainingArguments,
    tokenizer: PreTrainedTokenizerBase,
    evaluators: Sequence = (),
    callbacks: Sequence[TrainerCallback] = (),
) -> tuple[DapForPreTraining | None, DapTrainer]:
    """Train an encoder on sentence pairs; evaluators are called with the dual encoder.

    Returns:
        The model that `DapTrainer.whole_model` gives, and the Trainer.
    """
    set_seed(training_args.seed)
    pairs = corpus.language_pairs
    shortlist = target_ids(corpus, settings, tokenizer)
    center_on = mean_texts(corpus) if settings.centering != "none" else ()
    model = build_model(settings, pairs, tokenizer, shortlist, center_on=center_on)
    if training_args.bf16 and training_args.device.type == "cpu":
        # torch's fused attention is four times slower there than the separate products
        model.dap.encoder.set_attn_implementation("eager")
    max_length = token_limit(tokenizer, model.dap.encoder.config, settings.max_length)
    positions = position_limit(model.dap.encoder.config)
    if "tlm" in settings.objective and positions and 2 * max_length - 1 > positions:
        raise ValueError(f"max_length={max_length}: TLM joins both sides, and the encoder has {positions} positions.")
    optimizer = None
    if settings.row_updates:
        if is_fsdp(training_args):
            raise ValueError("row_updates=True does not work with FSDP, which flattens embeddings; leave it out.")
        model.row_gradients = True
        optimizer = row_adamw(training_args, [model.dap.encoder.get_input_embeddings().weight])
    trainer = DapTrainer(
        model,
        training_args,
        train_dataset=mixed_batches(corpus, settings, training_args, tokenizer),
        data_collator=PairCollator(tokenizer, max_length, languages=model.config.languages, prompt=model.config.prompt),
        chunk_size=settings.chunk_size,
        evaluators=evaluators,
        optimizer_cls_and_kwargs=optimizer,
        callbacks=list(callbacks),
    )
    trainer.train(resume_from_checkpoint=training_args.resume_from_checkpoint)
    return trainer.whole_model(lambda: build_model(settings, pairs, tokenizer, shortlist)), trainer
