"""Dual-alignment pre-training: translation ranking and representation translation learning (Li et al. 2023).

Besides the files of every method:
mixing.py: batches of many languages with little padding.
row_adamw.py: updates of only those word embeddings that occur in a batch.
finetune.py: the same ranking on a few pairs, for `hfxling fit`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from transformers import PreTrainedTokenizerBase, TrainingArguments

from hfxling.arguments import narrowed
from hfxling.data.corpus import Corpus, load_corpus
from hfxling.data.pharaoh import Link
from hfxling.data.sources import Pair
from hfxling.encoders.frozen import SentenceEmbedder, WordStates, load_tokenizer, token_limit
from hfxling.encoders.identity import model_name
from hfxling.evaluation.results import EvalResult
from hfxling.evaluation.short_vectors import FinalVectors
from hfxling.hub.writing import export
from hfxling.methods.publishing import Run
from hfxling.missing import one_line_where_missing
from hfxling.models.modeling_dap import DapModel

from .arguments import TRAINING_DEFAULTS, DapArguments, DapSettings
from .card import card
from .data import keep_out
from .evaluate import DEVELOPMENT, HeldOut, Rankings
from .train import fit, is_fsdp, published_model

Arguments = DapArguments
__all__ = ["TRAINING_DEFAULTS", "Arguments", "DapSettings", "card", "fit", "measure", "prepare", "run"]


@dataclass
class Prepared:
    """The part shared by runs that differ only in objective or seed."""

    held_out: HeldOut
    corpus: Corpus
    tokenizer: PreTrainedTokenizerBase
    max_length: int  # at inference
    before: Rankings
    links_before: dict[Pair, list[set[Link]]]


def prepare(rows: Sequence[DapArguments], training_args: TrainingArguments) -> Prepared:
    """Read training and test text, and rank and link the test text with the untrained encoder."""
    recipe = rows[0]
    if recipe.gold and is_fsdp(training_args):
        raise ValueError("gold: with FSDP there are no token vectors during training; test the finished folder.")
    held_out = HeldOut(recipe)
    corpus = load_corpus(recipe, tests=held_out.tests())
    if recipe.dev_pairs:
        held_out.sets[DEVELOPMENT] = keep_out(corpus, recipe.dev_pairs)
    with one_line_where_missing(recipe.base_model):
        tokenizer = load_tokenizer(recipe.base_model, recipe.hub_kwargs)
        encoder = DapModel.from_pretrained(recipe.base_model, pooling=recipe.pooling, **recipe.hub_kwargs)
        encoder.config.prompt = recipe.text_prompt
    max_length = token_limit(tokenizer, encoder.encoder.config)
    before = held_out.rank(SentenceEmbedder(encoder.to(training_args.device), tokenizer, max_length))
    links = held_out.link(WordStates(encoder.encoder, tokenizer)) if held_out.gold else {}
    return Prepared(held_out, corpus, tokenizer, max_length, before, links)


def run(recipe: DapArguments, training_args: TrainingArguments, prepared: Prepared) -> Run:
    """Train the encoder, and test it like the untrained one."""
    held_out = prepared.held_out
    # During training, nothing is tested against the untrained encoder.
    curve = partial(_after, recipe, training_args, prepared, held_out.thinned(recipe.curve_pairs), None)
    settings = narrowed(DapSettings, recipe)
    trained, trainer = fit(prepared.corpus, settings, training_args, prepared.tokenizer, [curve])
    results = _before(recipe, prepared)
    # All processes take part in this: if weights are sharded, `trained` is None in all but one.
    results += _after(recipe, training_args, prepared, held_out, prepared.before, trainer.evaluated())
    model = published_model(trained)
    reached = {"objective": recipe.objective, "steps": trainer.state.global_step} | trainer.spent()

    def write(folder: Path) -> None:
        export(model.to("cpu"), prepared.tokenizer, folder, max_length=prepared.max_length)

    final = partial(_final_vectors, recipe, training_args.seed, prepared, model)
    # no model in a process that gets none (FSDP)
    return Run(results, reached, None if model is None else write, curve=trainer.curve, vectors=final)


def _final_vectors(recipe: DapArguments, seed: int, prepared: Prepared, model: DapModel) -> list[FinalVectors]:
    """The finished model's vectors of test text and of some training text."""
    embed = SentenceEmbedder(model, prepared.tokenizer, prepared.max_length)
    fields = {"model": model_name(recipe.base_model), "seed": seed}
    return prepared.held_out.final_vectors(embed, prepared.corpus, fields)


def measure(recipe: DapArguments, training_args: TrainingArguments, folder: Path) -> tuple[Run, Corpus]:
    """What `run` measures, for the model in a published folder, and the text that was read for it."""
    prepared = prepare([recipe], training_args)
    model = DapModel.from_pretrained(folder).to(training_args.device)
    results = _before(recipe, prepared)
    results += _after(recipe, training_args, prepared, prepared.held_out, prepared.before, model)
    final = partial(_final_vectors, recipe, training_args.seed, prepared, model)
    return Run(results, vectors=final), prepared.corpus


def _before(recipe: DapArguments, prepared: Prepared) -> list[EvalResult]:
    fields = {"settings": {"pooling": recipe.pooling, "stage": "before"}, "model": model_name(recipe.base_model)}
    results = prepared.held_out.results(prepared.before, **fields)
    return results + prepared.held_out.link_results(prepared.links_before, **fields)


def _after(
    recipe: DapArguments,
    training_args: TrainingArguments,
    prepared: Prepared,
    tests: HeldOut,
    before: Rankings | None,
    model: DapModel,
) -> list[EvalResult]:
    rankings = tests.rank(SentenceEmbedder(model, prepared.tokenizer, prepared.max_length))
    links = tests.link(WordStates(model.encoder, prepared.tokenizer)) if tests.gold else {}
    fields = {"seed": training_args.seed, "model": model_name(recipe.base_model)}
    fields["settings"] = {"pooling": recipe.pooling, "stage": "after"}
    return tests.results(rankings, before, **fields) + tests.link_results(links, **fields)
