"""The word aligner: a contrastive BiLSTM encoder-decoder, trained from scratch (Zhang et al. 2024).

Besides the files of every method:
export.py: the folder, with static vectors beside a network that only this package knows.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import torch
from transformers import TrainingArguments

from hfxling.arguments import narrowed
from hfxling.data.corpus import Corpus
from hfxling.evaluation.results import EvalResult
from hfxling.methods.publishing import Run
from hfxling.models.modeling_aligner import AlignerModel
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

    If there is test text, the results include P@1 on its own Dice dictionary, by which settings are chosen.
    """
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(1)  # LSTMs of this size gain little from more
    settings, vocabularies = narrowed(AlignerSettings, recipe), prepared.vocabularies
    # The statistical links may be there for other runs of a study; a model that is trained further brings its own.
    if not recipe.prior and recipe.model is None:
        prepared = replace(prepared, priors=[], counts={})
    priors = prepared.priors
    torch.manual_seed(training_args.seed)
    model = new_model(settings, vocabularies, priors) if recipe.model is None else load_aligner(recipe.model)[0]
    results = _measured(prepared, model, "before")
    watch = watcher(prepared.tests, vocabularies, priors) if recipe.curve else None
    record = fit(model, prepared.pairs, vocabularies, settings, training_args, priors, watch)
    extra = {"scores": record.pop("scores")}
    curve = record.pop("curve")
    if recipe.curve:
        extra["curve"] = curve
    if not training_args.should_save:  # one process evaluates and writes
        return Run([], record)
    results += _measured(prepared, model, "after")
    results = [replace(row, seed=training_args.seed) for row in results]
    return Run(results, record, lambda folder: export_aligner(model, vocabularies, folder, priors), extra)


def measure(recipe: AlignerArguments, training_args: TrainingArguments, folder: Path) -> tuple[Run, Corpus]:
    """What `run` measures after training, for the aligner in a published folder, and the text that was read for it."""
    model, _ = load_aligner(str(folder))
    prepared = prepare([replace(recipe, model=str(folder))])
    results = []
    if recipe.model is None:
        torch.manual_seed(training_args.seed)  # gives the network from which `run` started
        results = _measured(prepared, new_model(recipe, prepared.vocabularies, prepared.priors), "before")
    results += _measured(prepared, model, "after")
    return Run([replace(row, seed=training_args.seed) for row in results]), prepared.corpus


def _measured(prepared: Prepared, model: AlignerModel, stage: str) -> list[EvalResult]:
    vocabularies = prepared.vocabularies
    segments = " ".join(f"{lang}={vocabulary.segmenter}" for lang, vocabulary in vocabularies.items())
    settings = {"stage": stage, "text": segments}
    results = evaluate(prepared.tests, model, vocabularies, prepared.priors, prepared.counts, **settings)
    if stage == "after" and prepared.held_out:
        dictionaries = dice_dictionaries(prepared.held_out, vocabularies)
        rows = dictionary_evaluator(vocabularies, dictionaries, "Dice, held-out text")(model)
        results += [replace(row, split="test", settings=settings) for row in rows]
    return results
