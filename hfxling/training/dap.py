"""Dual-alignment pre-training step by step: model, mixed batches, gradient caching, evaluation."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor
from transformers import AutoTokenizer, PreTrainedTokenizerBase, TrainingArguments, set_seed

from hfxling.data.collators import PairCollator
from hfxling.data.mixing import MixedBatches, StreamBatches, TokenLengths, batch_loader
from hfxling.evaluation.results import EvalResult
from hfxling.models.configuration_dap import DapConfig
from hfxling.models.modeling_dap import BatchPart, DapForPreTraining, DapModel

from .distributed import gather_rows
from .frozen import length_sorted, position_limit, token_limit
from .held_out import HeldOut, HeldOutArguments, Rankings
from .multi_corpus import MultiCorpus, MultiCorpusArguments, load_corpora
from .row_adamw import row_adamw
from .trainer import XlingTrainer

if TYPE_CHECKING:
    from torch.utils.data import DataLoader

# Settings of the Trainer that the paper gives (section 4.2); transformers' defaults are others.
TRAINING_DEFAULTS = {
    "max_steps": 100_000,
    "per_device_train_batch_size": 1024,
    "learning_rate": 5e-5,
    "lr_scheduler_type": "linear",
    "logging_steps": 100,
    "save_steps": 5000,
    "save_total_limit": 2,
    "report_to": "none",
    "remove_unused_columns": False,
    "ddp_find_unused_parameters": True,  # the encoder's pooler serves nothing here
}
_MODEL_FIELDS = (
    *("pooling", "objective", "temperature", "margin", "ranking", "project_cls", "rtl_layers", "rtl_direction"),
    *("rtl_ratio", "rtl_weight", "tlm_weight"),
)


@dataclass
class DapArguments(HeldOutArguments, MultiCorpusArguments):
    """The encoder, the objectives and how they are computed; the paper's values are the defaults."""

    base_model: str = field(default="google-bert/bert-base-multilingual-cased", metadata={"help": "Hub id or folder"})
    base_revision: str | None = field(default=None, metadata={"help": "revision of the encoder"})
    pooling: str = field(default="cls", metadata={"help": "cls (paper), mean or last"})
    objective: str = field(default="tr+rtl", metadata={"help": "tr, tr+rtl, tr+tlm or tr+rtl+tlm"})
    temperature: float = field(default=0.05, metadata={"help": "of the ranking softmax"})
    margin: float = field(default=0.0, metadata={"help": "additive margin of the ranking softmax"})
    ranking: str = field(default="both", metadata={"help": "both directions averaged, or forward"})
    project_cls: bool = field(default=False, metadata={"help": "linear layer and tanh on CLS, in training only"})
    rtl_layers: int = field(default=2, metadata={"help": "K, layers of the RTL head"})
    rtl_direction: str = field(default="xx-en", metadata={"help": "xx-en, en-xx or both"})
    rtl_ratio: float = field(default=1.0, metadata={"help": "rho, share of target tokens to reconstruct"})
    rtl_weight: float = field(default=1.0, metadata={"help": "of the RTL loss (paper: 1; released code: 0.1)"})
    tlm_weight: float = field(default=1.0, metadata={"help": "of the TLM loss"})
    language_embeddings: bool | None = field(
        default=None, metadata={"help": "in the RTL head; by default where it reconstructs several languages"}
    )
    shortlist: bool = field(default=True, metadata={"help": "RTL softmax over the ids that the training text has"})
    chunk_size: int | None = field(
        default=None, metadata={"help": "gradient caching: pairs encoded at a time, of per_device_train_batch_size"}
    )
    row_updates: bool = field(
        default=False,
        metadata={"help": "update only the word embeddings that a batch has (RowAdamW); not for FSDP"},
    )
    cache_dir: str = field(default="outputs/lengths", metadata={"help": "where the texts' lengths in tokens are kept"})
    lora: int = field(default=0, metadata={"help": "rank of LoRA adapters (0: train the whole encoder)"})
    lora_alpha: int = field(default=32, metadata={"help": "scale of the adapters"})

    def __post_init__(self):
        super().__post_init__()
        if self.chunk_size is not None and self.chunk_size < 1:
            raise ValueError(f"chunk_size={self.chunk_size}: give at least one pair.")
        if self.lora < 0:
            raise ValueError(f"lora={self.lora}: give a rank, or 0 to train the whole encoder.")
        if self.lora and self.row_updates:
            raise ValueError(f"lora={self.lora}: adapters leave the word embeddings alone; leave row_updates out.")
        if self.chunk_size is not None and self.chunk_size % 2 and self.rtl_direction == "both":
            raise ValueError(f"chunk_size={self.chunk_size}: with rtl_direction='both' it must be even.")
        if self.streaming and self.shortlist and "rtl" in self.objective:
            raise ValueError("a shortlist needs all training text beforehand: give --shortlist false when streaming.")
        DapConfig(**self.model_fields())  # refuses bad values, here and not after an hour of reading

    @property
    def common_first(self) -> list[str]:
        """All languages, the common side first: the order of language embeddings."""
        return [self.pivot, *self.languages]

    def model_fields(self) -> dict:
        """The fields of `DapConfig` that the arguments set."""
        several = self.language_embeddings
        if several is None:
            several = self.rtl_direction != "xx-en"
        return {name: getattr(self, name) for name in _MODEL_FIELDS} | {"languages": self.common_first * several}


class DapTrainer(XlingTrainer):
    """Feeds ready mixed batches, gathers negatives over the processes and caches gradients where a chunk size is given.

    Args:
        chunk_size: pairs that go through the encoder at a time; None for the whole batch at once.
        *args: as for `XlingTrainer`; `train_dataset` is a `MixedBatches` or `StreamBatches`.
        **kwargs: as for `XlingTrainer`.
    """

    def __init__(self, *args, chunk_size: int | None = None, **kwargs):
        super().__init__(*args, **kwargs)
        self.chunk_size = chunk_size

    def get_train_dataloader(self) -> DataLoader:
        """Batches are ready and every process has its own: nothing is left to shard or to shuffle."""
        workers = self.args.dataloader_num_workers
        pinned = self.args.dataloader_pin_memory and torch.cuda.is_available()
        return batch_loader(self.train_dataset, self.data_collator, num_workers=workers, pin_memory=pinned)

    def _prepare_inputs(self, inputs: dict) -> dict:
        return super()._prepare_inputs(inputs) | {"gather": gather_rows}

    def training_step(self, model, inputs, num_items_in_batch=None) -> Tensor:
        """One batch forward and backward, in chunks where asked for (gradient caching; Gao et al. 2021).

        The sentence vectors of all chunks are computed without a graph, the ranking loss over the whole batch gives
        their gradients, and each chunk is then encoded again, with the same dropout, to pass its share on.
        """
        if self.chunk_size is None or self.chunk_size >= len(inputs["source"]["input_ids"]):
            return super().training_step(model, inputs, num_items_in_batch)
        model.train()
        inputs = self._prepare_inputs(inputs)
        core, gather = self.accelerator.unwrap_model(model), inputs["gather"]
        chunks = split_batch(inputs, self.chunk_size)
        with self.compute_loss_context_manager():
            vectors, random_states = _embed(model, chunks)
            sides = [torch.cat(side).requires_grad_() for side in zip(*vectors)]
            ranking = core.ranking_loss(*sides, gather)
        slopes = zip(*(slope.split(self.chunk_size) for slope in torch.autograd.grad(ranking, sides)))
        tokens = core.rtl_tokens(inputs["source"], inputs["target"], gather) if core.rtl is not None else None
        losses = {"loss": ranking.detach(), "loss_tr": ranking.detach()}
        for i, (chunk, pair) in enumerate(zip(chunks, slopes)):
            part = BatchPart(*pair, tokens, len(pair[0]) / len(sides[0]))
            random_states[i].restore()
            synchronize = nullcontext() if i == len(chunks) - 1 else self.accelerator.no_sync(model)
            with synchronize:
                with self.compute_loss_context_manager():
                    output = model(**chunk, part=part)
                self.accelerator.backward(output.loss / self.current_gradient_accumulation_steps)
            for name, weight in (("loss_rtl", core.config.rtl_weight), ("loss_tlm", core.config.tlm_weight)):
                if name in output:
                    losses[name] = losses.get(name, 0) + output[name].detach()
                    losses["loss"] = losses["loss"] + weight * output[name].detach()
        self.remember(losses)
        return losses["loss"] / self.current_gradient_accumulation_steps


def split_batch(inputs: dict, size: int) -> list[dict]:
    """Consecutive chunks of at most `size` pairs; what is not a tensor goes to every chunk."""

    def part(value, start: int):
        if isinstance(value, dict):
            return {key: part(inner, start) for key, inner in value.items()}
        return value[start : start + size] if isinstance(value, Tensor) else value

    count = len(inputs["source"]["input_ids"])
    return [{key: part(value, start) for key, value in inputs.items()} for start in range(0, count, size)]


class RandomState:
    """The random generators' state, so that a second pass drops out the same units."""

    def __init__(self):
        self.cpu = torch.get_rng_state()
        self.cuda = torch.cuda.get_rng_state() if torch.cuda.is_initialized() else None

    def restore(self) -> None:
        """Go back to it."""
        torch.set_rng_state(self.cpu)
        if self.cuda is not None:
            torch.cuda.set_rng_state(self.cuda)


@torch.no_grad()
def _embed(model: torch.nn.Module, chunks: list[dict]) -> tuple[list[tuple[Tensor, Tensor]], list[RandomState]]:
    """Both sides' sentence vectors of every chunk, and the random state that each started from."""
    vectors, states = [], []
    for chunk in chunks:
        states.append(RandomState())
        output = model(**chunk, embed_only=True)  # through the wrapper, which may hold the weights in pieces
        vectors.append((output.source, output.target))
    return vectors, states


def build_model(
    args: DapArguments, tokenizer: PreTrainedTokenizerBase, shortlist: Tensor | None = None
) -> DapForPreTraining:
    """The model to train, from the encoder that the arguments name, with LoRA adapters where asked for."""
    model = DapForPreTraining.from_encoder(
        args.base_model,
        shortlist=shortlist,
        hub_kwargs={"revision": args.base_revision} if args.base_revision else None,
        mask_token_id=tokenizer.mask_token_id,
        special_token_ids=tokenizer.all_special_ids,
        **args.model_fields(),
    )
    if args.lora:
        from peft import LoraConfig, get_peft_model

        linear = ["query", "key", "value", "dense"]
        adapters = LoraConfig(r=args.lora, lora_alpha=args.lora_alpha, target_modules=linear)
        model.dap.encoder = get_peft_model(model.dap.encoder, adapters)
    return model


def published_model(model: DapForPreTraining) -> DapModel:
    """The dual encoder without what only training needs; adapters are merged into the weights."""
    if hasattr(model.dap.encoder, "merge_and_unload"):
        model.dap.encoder = model.dap.encoder.merge_and_unload()
    return model.dap.eval()


def target_ids(args: DapArguments, tokenizer: PreTrainedTokenizerBase, corpus: MultiCorpus) -> Tensor | None:
    """Every token id that RTL may have to predict; None where the softmax runs over the whole vocabulary."""
    if not args.shortlist or "rtl" not in args.objective:
        return None
    sides = {"xx-en": ["target"], "en-xx": ["source"], "both": ["source", "target"]}[args.rtl_direction]
    found = np.zeros(len(tokenizer), bool)
    for dataset in corpus.train:
        for block in dataset.select_columns(sides).iter(batch_size=10_000):
            for side in sides:
                ids = tokenizer(block[side], return_attention_mask=False, verbose=False)["input_ids"]
                found[np.concatenate([np.asarray(row) for row in ids])] = True
    return torch.from_numpy(np.flatnonzero(found))


def mixed_batches(
    args: DapArguments, training_args: TrainingArguments, tokenizer: PreTrainedTokenizerBase, corpus: MultiCorpus
) -> MixedBatches | StreamBatches:
    """The training text as batches for this process; where no `max_steps` is given it is set from the epochs."""
    accumulation = training_args.gradient_accumulation_steps
    world = training_args.world_size
    batch_size = training_args.per_device_train_batch_size * world
    if training_args.max_steps < 1:
        if args.streaming:
            raise ValueError("a stream has no epochs: give --max_steps.")
        pairs = sum(map(len, corpus.train))
        epochs = training_args.num_train_epochs
        training_args.max_steps = max(1, int(pairs * epochs) // (batch_size * accumulation))
    settings = {
        "batch_size": batch_size,
        "batches": training_args.max_steps * accumulation,
        "seed": training_args.data_seed if training_args.data_seed is not None else training_args.seed,
        "bucket": args.bucket,
        "rank": training_args.process_index,
        "world": world,
        "measure": TokenLengths(tokenizer, args.max_length),
    }
    if args.streaming:
        return StreamBatches(corpus.train, corpus.weights(args), **settings)
    return MixedBatches(corpus.train, corpus.weights(args), cache_dir=args.cache_dir, **settings)


def train(
    args: DapArguments,
    training_args: TrainingArguments,
    corpus: MultiCorpus,
    tokenizer: PreTrainedTokenizerBase,
    evaluators: Sequence = (),
) -> tuple[DapForPreTraining, DapTrainer]:
    """Train on the corpus; the model comes back in evaluation mode."""
    set_seed(training_args.seed)
    model = build_model(args, tokenizer, target_ids(args, tokenizer, corpus))
    max_length = token_limit(tokenizer, model.dap.encoder.config, args.max_length)
    positions = position_limit(model.dap.encoder.config)
    if "tlm" in args.objective and positions and 2 * max_length - 1 > positions:
        raise ValueError(f"max_length={max_length}: TLM joins both sides, and the encoder has {positions} positions.")
    optimizer = None
    if args.row_updates:
        if training_args.fsdp or os.environ.get("ACCELERATE_USE_FSDP", "false").lower() == "true":
            raise ValueError("row_updates=True: FSDP cuts the embeddings into flat pieces; leave row_updates out.")
        model.row_gradients = True
        optimizer = row_adamw(training_args, [model.dap.encoder.get_input_embeddings().weight])
    trainer = DapTrainer(
        model,
        training_args,
        train_dataset=mixed_batches(args, training_args, tokenizer, corpus),
        data_collator=PairCollator(tokenizer, max_length, languages=model.config.languages or None),
        chunk_size=args.chunk_size,
        evaluators=evaluators,
        optimizer_cls_and_kwargs=optimizer,
    )
    begin = time.perf_counter(), time.process_time()
    trainer.train(resume_from_checkpoint=training_args.resume_from_checkpoint)
    trainer.seconds, trainer.cpu_seconds = (
        round(now - then, 1) for now, then in zip((time.perf_counter(), time.process_time()), begin)
    )
    return model.eval(), trainer


@dataclass
class Prepared:
    """What runs that differ in objective or seed only have in common."""

    held_out: HeldOut
    corpus: MultiCorpus
    tokenizer: PreTrainedTokenizerBase
    max_length: int  # at inference
    before: Rankings


def prepare(args: DapArguments, device: str | torch.device = "cpu") -> Prepared:
    """Read training and test text and rank the test text with the encoder as it is."""
    held_out = HeldOut(args, args.languages, args.pivot)
    corpus = load_corpora(args, held_out.guard())
    hub_kwargs = {"revision": args.base_revision} if args.base_revision else {}
    tokenizer = AutoTokenizer.from_pretrained(args.base_model, trust_remote_code=False, **hub_kwargs)
    encoder = DapModel.from_pretrained(args.base_model, pooling=args.pooling, **hub_kwargs).to(device)
    max_length = token_limit(tokenizer, encoder.encoder.config)
    before = held_out.rank(SentenceEmbedder(encoder, tokenizer, max_length))
    return Prepared(held_out, corpus, tokenizer, max_length, before)


@dataclass
class DapRun:
    """What a run leaves: the model to publish, all that was measured, and how far training got."""

    model: DapModel
    results: list[EvalResult]
    reached: dict


def run(args: DapArguments, training_args: TrainingArguments, prepared: Prepared) -> DapRun:
    """Train the encoder and test it on what the untrained one was tested on."""
    held_out, before = prepared.held_out, prepared.before
    fields = {"model": Path(args.base_model).name if Path(args.base_model).exists() else args.base_model}

    def evaluate(model: DapForPreTraining) -> list[EvalResult]:
        after = held_out.rank(SentenceEmbedder(model.dap, prepared.tokenizer, prepared.max_length))
        settings = {"stage": "after", "objective": args.objective}
        return held_out.results(after, before, seed=training_args.seed, settings=settings, **fields)

    trained, trainer = train(args, training_args, prepared.corpus, prepared.tokenizer, [evaluate])
    reached = {"steps": trainer.state.global_step, "train_seconds": trainer.seconds, "train_cpu_s": trainer.cpu_seconds}
    model = published_model(trained)
    results = held_out.results(before, settings={"stage": "before"}, **fields)
    return DapRun(model, results + evaluate(trained), reached)


ARGUMENTS = DapArguments  # for studies


def study_row(args: DapArguments, training_args: TrainingArguments, cache: dict) -> list[EvalResult]:
    """One run of a study; text and the untrained encoder's rankings are shared."""
    names = (*MultiCorpusArguments.__dataclass_fields__, *HeldOutArguments.__dataclass_fields__)
    key = json.dumps([getattr(args, name) for name in (*names, "base_model", "base_revision", "pooling")])
    if key not in cache:
        cache[key] = prepare(args, training_args.device)
    done = run(args, training_args, cache[key])
    return [
        replace(row, settings=row.settings | done.reached) if row.settings["stage"] == "after" else row
        for row in done.results
    ]


class SentenceEmbedder:
    """Texts to (N, H) unit sentence vectors by a dual encoder, length-sorted and without padding work.

    Args:
        model: on the device where it is.
        tokenizer: its tokenizer.
        max_length: tokens kept of a text, see `token_limit`.
    """

    def __init__(self, model: DapModel, tokenizer: PreTrainedTokenizerBase, max_length: int | None = None):
        self.model, self.tokenizer = model, tokenizer
        self.max_length = token_limit(tokenizer, model.encoder.config, max_length)

    @torch.inference_mode()
    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        """(N, H) float32, in the texts' order."""
        vectors = np.empty((len(texts), self.model.config.hidden_size), np.float32)
        ids = self.tokenizer(list(texts), truncation=True, max_length=self.max_length)["input_ids"]
        for rows, inputs in length_sorted(self.tokenizer, ids, self.model.device):
            vectors[rows] = self.model(**inputs).sentence_embedding.float().cpu().numpy()
        return vectors
