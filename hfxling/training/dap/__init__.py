"""Dual-alignment pre-training: translation ranking and representation translation learning (Li et al. 2023).

Beside the files of every method:
mixing.py: batches of many languages without padding work.
collators.py: their sentences as encoder inputs.
distributed.py: negatives of all processes.
row_adamw.py: updates of only the word vectors that a batch has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from transformers import AutoTokenizer, PreTrainedTokenizerBase, TrainingArguments

from hfxling.data.corpus import Corpus, load_corpus
from hfxling.encoding import SentenceEmbedder, model_name, token_limit
from hfxling.evaluation.results import EvalResult
from hfxling.evaluation.short_vectors import FinalVectors
from hfxling.hub.export import export
from hfxling.missing import one_line_where_missing
from hfxling.models.modeling_dap import DapModel
from hfxling.training.publishing import Run

from .arguments import TRAINING_DEFAULTS, DapArguments
from .card import card
from .evaluate import HeldOut, Rankings
from .train import published_model, train

Arguments = DapArguments
__all__ = ["TRAINING_DEFAULTS", "Arguments", "card", "prepare", "run"]


@dataclass
class Prepared:
    """What runs that differ in objective or seed only have in common."""

    held_out: HeldOut
    corpus: Corpus
    tokenizer: PreTrainedTokenizerBase
    max_length: int  # at inference
    before: Rankings


def prepare(rows: Sequence[DapArguments], training_args: TrainingArguments) -> Prepared:
    """Read training and test text and rank the test text with the encoder as it is.

    Args:
        rows: arguments of runs that share text and encoder.
        training_args: names the device.

    Raises:
        ValueError: malformed text (see `load_corpus`), a pair without any.
        FileNotFoundError: a file, folder or encoder that is not there.
    """
    args = rows[0]
    held_out = HeldOut(args)
    corpus = load_corpus(args, tests=held_out.tests(), streaming=args.streaming)
    with one_line_where_missing(args.base_model):
        tokenizer = AutoTokenizer.from_pretrained(args.base_model, trust_remote_code=False, **args.hub_kwargs)
        encoder = DapModel.from_pretrained(args.base_model, pooling=args.pooling, **args.hub_kwargs)
    max_length = token_limit(tokenizer, encoder.encoder.config)
    before = held_out.rank(SentenceEmbedder(encoder.to(training_args.device), tokenizer, max_length))
    return Prepared(held_out, corpus, tokenizer, max_length, before)


def run(args: DapArguments, training_args: TrainingArguments, prepared: Prepared) -> Run:
    """Train the encoder and test it on what the untrained one was tested on."""
    held_out, before = prepared.held_out, prepared.before
    fields = {"model": model_name(args.base_model)}

    def evaluate(model: DapModel) -> list[EvalResult]:
        after = held_out.rank(SentenceEmbedder(model, prepared.tokenizer, prepared.max_length))
        settings = {"pooling": args.pooling, "stage": "after"}
        return held_out.results(after, before, seed=training_args.seed, settings=settings, **fields)

    trained, trainer = train(args, training_args, prepared.corpus, prepared.tokenizer, [evaluate])
    start = {"pooling": args.pooling, "stage": "before"}
    results = held_out.results(before, settings=start, **fields) + evaluate(trainer.evaluated())
    model = published_model(trained)
    reached = {"objective": args.objective, "steps": trainer.state.global_step} | trainer.cost

    def write(folder: Path) -> None:
        export(model.to("cpu"), prepared.tokenizer, folder, max_length=prepared.max_length)

    def final() -> list[FinalVectors]:
        embed = SentenceEmbedder(model, prepared.tokenizer, prepared.max_length)
        return held_out.final_vectors(embed, prepared.corpus, fields | {"seed": training_args.seed})

    # no model where others hold its pieces (FSDP)
    return Run(results, reached, None if model is None else write, vectors=final)
