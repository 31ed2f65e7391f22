"""Dual-alignment pre-training step by step: text, training, evaluation."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from transformers import AutoTokenizer, PreTrainedTokenizerBase, TrainingArguments

from hfxling.encoding import token_limit
from hfxling.evaluation.results import EvalResult
from hfxling.models.modeling_dap import DapModel

from .arguments import TRAINING_DEFAULTS, DapArguments, HeldOutArguments, MultiCorpusArguments
from .data import MultiCorpus, load_corpora
from .evaluate import HeldOut, Rankings, SentenceEmbedder
from .train import published_model, train


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

    model: DapModel | None  # None on processes that hold pieces of it only (FSDP)
    results: list[EvalResult]
    reached: dict


def run(args: DapArguments, training_args: TrainingArguments, prepared: Prepared) -> DapRun:
    """Train the encoder and test it on what the untrained one was tested on."""
    held_out, before = prepared.held_out, prepared.before
    fields = {"model": Path(args.base_model).name if Path(args.base_model).exists() else args.base_model}

    def evaluate(model: DapModel) -> list[EvalResult]:
        after = held_out.rank(SentenceEmbedder(model, prepared.tokenizer, prepared.max_length))
        settings = {"stage": "after", "objective": args.objective}
        return held_out.results(after, before, seed=training_args.seed, settings=settings, **fields)

    trained, trainer = train(args, training_args, prepared.corpus, prepared.tokenizer, [evaluate])
    reached = {"steps": trainer.state.global_step, "train_seconds": trainer.seconds, "train_cpu_s": trainer.cpu_seconds}
    model = published_model(trained)
    results = held_out.results(before, settings={"stage": "before"}, **fields)
    return DapRun(model, results + evaluate(trainer.evaluated()), reached)


ARGUMENTS = DapArguments  # for studies
__all__ = ["ARGUMENTS", "TRAINING_DEFAULTS", "DapRun", "Prepared", "prepare", "run", "study_row"]


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
