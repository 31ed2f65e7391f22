"""Dual-alignment pre-training: translation ranking and representation translation learning (Li et al. 2023).

Beside the files of every method:
mixing.py: batches of many languages without padding work.
collators.py: their sentences as encoder inputs.
distributed.py: negatives of all processes.
row_adamw.py: updates of only the word vectors that a batch has.
links.py: word links by the token vectors, against gold ones.
finetune.py: the same ranking on the few pairs that one has, for `hfxling fit`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from transformers import AutoTokenizer, PreTrainedTokenizerBase, TrainingArguments

from hfxling.data.corpus import Corpus, load_corpus
from hfxling.data.pharaoh import Link
from hfxling.data.sources import Pair
from hfxling.encoders.frozen import SentenceEmbedder, WordStates, token_limit
from hfxling.encoders.identity import model_name
from hfxling.evaluation.results import EvalResult
from hfxling.evaluation.short_vectors import FinalVectors, short_vector_results
from hfxling.hub.writing import export
from hfxling.methods.publishing import Run
from hfxling.missing import one_line_where_missing
from hfxling.models.modeling_dap import DapModel

from .arguments import TRAINING_DEFAULTS, DapArguments
from .card import card
from .data import keep_out
from .evaluate import DEVELOPMENT, HeldOut, Rankings
from .train import published_model, train

Arguments = DapArguments
__all__ = ["TRAINING_DEFAULTS", "Arguments", "card", "measure", "prepare", "run"]


@dataclass
class Prepared:
    """What runs that differ in objective or seed only have in common."""

    held_out: HeldOut
    corpus: Corpus
    tokenizer: PreTrainedTokenizerBase
    max_length: int  # at inference
    before: Rankings
    links_before: dict[Pair, list[set[Link]]]


def prepare(rows: Sequence[DapArguments], training_args: TrainingArguments) -> Prepared:
    """Read training and test text and rank and link the test text with the encoder as it is.

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
    if args.dev_pairs:
        held_out.sets[DEVELOPMENT] = keep_out(corpus, args.dev_pairs)
    with one_line_where_missing(args.base_model):
        tokenizer = AutoTokenizer.from_pretrained(args.base_model, trust_remote_code=False, **args.hub_kwargs)
        encoder = DapModel.from_pretrained(args.base_model, pooling=args.pooling, **args.hub_kwargs)
        encoder.config.prompt = args.text_prompt
    max_length = token_limit(tokenizer, encoder.encoder.config)
    before = held_out.rank(SentenceEmbedder(encoder.to(training_args.device), tokenizer, max_length))
    links = held_out.link(WordStates(encoder.encoder, tokenizer)) if held_out.gold else {}
    return Prepared(held_out, corpus, tokenizer, max_length, before, links)


def run(args: DapArguments, training_args: TrainingArguments, prepared: Prepared) -> Run:
    """Train the encoder and test it on what the untrained one was tested on."""
    held_out = prepared.held_out
    curve = partial(_after, args, training_args, prepared, held_out.thinned(args.curve_pairs), None)
    trained, trainer = train(args, training_args, prepared.corpus, prepared.tokenizer, [curve])
    results = _before(args, prepared)
    results += _after(args, training_args, prepared, held_out, prepared.before, trainer.evaluated())
    model = published_model(trained)
    reached = {"objective": args.objective, "steps": trainer.state.global_step} | trainer.spent()

    def write(folder: Path) -> None:
        export(model.to("cpu"), prepared.tokenizer, folder, max_length=prepared.max_length)

    final = partial(_final_vectors, args, training_args.seed, prepared, model)
    # no model where others hold its pieces (FSDP)
    return Run(results, reached, None if model is None else write, curve=trainer.curve, vectors=final)


def _final_vectors(args: DapArguments, seed: int, prepared: Prepared, model: DapModel) -> list[FinalVectors]:
    """What the finished model gives for test text and some training text."""
    embed = SentenceEmbedder(model, prepared.tokenizer, prepared.max_length)
    fields = {"model": model_name(args.base_model), "seed": seed}
    return prepared.held_out.final_vectors(embed, prepared.corpus, fields)


def measure(args: DapArguments, training_args: TrainingArguments, folder: Path) -> tuple[list[EvalResult], Corpus]:
    """What `run` measures, by the model in a published folder, and the text that was read for it."""
    prepared = prepare([args], training_args)
    model = DapModel.from_pretrained(folder).to(training_args.device)
    results = _before(args, prepared)
    results += _after(args, training_args, prepared, prepared.held_out, prepared.before, model)
    for vectors in _final_vectors(args, training_args.seed, prepared, model):
        results += short_vector_results(vectors)
    return results, prepared.corpus


def _before(args: DapArguments, prepared: Prepared) -> list[EvalResult]:
    fields = {"settings": {"pooling": args.pooling, "stage": "before"}, "model": model_name(args.base_model)}
    results = prepared.held_out.results(prepared.before, **fields)
    return results + prepared.held_out.link_results(prepared.links_before, **fields)


def _after(
    args: DapArguments,
    training_args: TrainingArguments,
    prepared: Prepared,
    tests: HeldOut,
    before: Rankings | None,
    model: DapModel,
) -> list[EvalResult]:
    found = tests.rank(SentenceEmbedder(model, prepared.tokenizer, prepared.max_length))
    links = tests.link(WordStates(model.encoder, prepared.tokenizer)) if tests.gold else {}
    fields = {"seed": training_args.seed, "model": model_name(args.base_model)}
    fields["settings"] = {"pooling": args.pooling, "stage": "after"}
    return tests.results(found, before, **fields) + tests.link_results(links, **fields)
