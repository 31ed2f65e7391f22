"""The word aligner: a contrastive BiLSTM encoder-decoder, trained from scratch (Zhang et al. 2024).

Beside the files of every method:
export.py: the folder, whose static vectors stand beside a network that only we know.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from transformers import TrainingArguments

from hfxling.arguments import narrowed
from hfxling.data.corpus import Corpus
from hfxling.data.segment import Vocabulary
from hfxling.evaluation.results import EvalResult
from hfxling.methods.publishing import Run
from hfxling.words.aligner import load_aligner

from .arguments import TRAINING_DEFAULTS, AlignerArguments, AlignerSettings
from .card import card
from .data import Prepared, prepare
from .evaluate import dice_dictionaries, dictionary_evaluator, evaluate, watcher
from .export import export_aligner
from .train import fit, new_model

Arguments = AlignerArguments
__all__ = ["TRAINING_DEFAULTS", "AlignerSettings", "Arguments", "card", "fit", "measure", "new_model", "prepare", "run"]


def run(recipe: AlignerArguments, training_args: TrainingArguments, prepared: Prepared) -> Run:
    """Train, and measure word translation and alignment before and after.

    Where there is test text, P@1 on its own Dice dictionary is among the results: settings are chosen by that.
    """
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(1)  # LSTMs of this size gain little from more
    settings, vocabularies = narrowed(AlignerSettings, recipe), prepared.vocabularies
    uses_priors = recipe.prior or recipe.model is not None
    priors, counts = (prepared.priors, prepared.counts) if uses_priors else ([], {})
    torch.manual_seed(training_args.seed)
    model = new_model(settings, vocabularies, priors) if recipe.model is None else load_aligner(recipe.model)[0]
    text = text_of(vocabularies)
    results = evaluate(prepared.tests, model, vocabularies, priors, counts, stage="before", text=text)
    watch = watcher(prepared.tests, vocabularies, priors) if recipe.curve else None
    record = fit(model, prepared.pairs, vocabularies, settings, training_args, priors, watch)
    passing = {"scores": record.pop("scores")}
    curve = record.pop("curve")
    if recipe.curve:
        passing["curve"] = curve
    if not training_args.should_save:  # one process evaluates and writes
        return Run([], record)
    results += _after(prepared, model, priors, counts)
    results = [replace(row, seed=training_args.seed) for row in results]
    return Run(results, record, lambda folder: export_aligner(model, vocabularies, folder, priors), passing)


def measure(
    recipe: AlignerArguments, training_args: TrainingArguments, folder: Path
) -> tuple[list[EvalResult], Corpus]:
    """What `run` measures after training, by the aligner in a published folder, and the text that was read for it."""
    model, _ = load_aligner(str(folder))
    prepared = prepare([replace(recipe, model=str(folder))])
    vocabularies, priors, counts = prepared.vocabularies, prepared.priors, prepared.counts
    results = []
    if recipe.model is None:
        torch.manual_seed(training_args.seed)
        untrained, text = new_model(recipe, vocabularies, priors), text_of(vocabularies)
        results = evaluate(prepared.tests, untrained, vocabularies, priors, counts, stage="before", text=text)
    results += _after(prepared, model, priors, counts)
    return [replace(row, seed=training_args.seed) for row in results], prepared.corpus


def text_of(vocabularies: Mapping[str, Vocabulary]) -> str:
    """What the text was cut into, for the rows that hang on it."""
    return " ".join(f"{lang}={vocabulary.segmenter}" for lang, vocabulary in vocabularies.items())


def _after(prepared: Prepared, model, priors: Sequence, counts: Mapping) -> list[EvalResult]:
    text = text_of(prepared.vocabularies)
    results = evaluate(prepared.tests, model, prepared.vocabularies, priors, counts, stage="after", text=text)
    if prepared.held_out:
        dictionaries = dice_dictionaries(prepared.held_out, prepared.vocabularies)
        rows = dictionary_evaluator(prepared.vocabularies, dictionaries, "Dice, held-out text")(model)
        results += [replace(row, split="test", settings={"stage": "after", "text": text}) for row in rows]
    return results
