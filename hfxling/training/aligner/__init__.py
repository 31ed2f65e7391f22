"""The word aligner step by step: text, vocabularies, batches, training under a CPU budget, the best state kept."""

from __future__ import annotations

import dataclasses
import json

import torch
from transformers import TrainingArguments

from hfxling.data.corpus import CorpusArguments
from hfxling.evaluation.results import EvalResult

from .arguments import TRAINING_DEFAULTS, AlignerArguments
from .data import encode_pairs, learn_corpus_vocabularies, learn_priors, load_corpora
from .evaluate import dice_dictionaries, dictionary_counts, dictionary_evaluator, evaluate
from .train import fit, new_model

ARGUMENTS = AlignerArguments  # for studies
__all__ = ["ARGUMENTS", "TRAINING_DEFAULTS", "study_row"]


def study_row(args: AlignerArguments, training_args: TrainingArguments, cache: dict) -> list[EvalResult]:
    """One run of a study; text, vocabularies and the statistical aligners are shared.

    Where there is test text, P@1 on its own Dice dictionary is among the results: settings are chosen by that.
    """
    names = [*CorpusArguments.__dataclass_fields__, "extra_pairs", "vocab_size", "min_count", "pieces", "segmenters"]
    key = json.dumps([getattr(args, name) for name in [*names, "max_words"]])
    if key not in cache:
        corpora = load_corpora(args, training_args.seed)
        vocabularies = learn_corpus_vocabularies(args, corpora)
        pairs = encode_pairs(corpora, vocabularies, max_words=args.max_words)
        held_out = [side for side in encode_pairs(corpora, vocabularies, split="test") if side.source]
        priors, counts = learn_priors(pairs, vocabularies), dictionary_counts(args, pairs, vocabularies)
        cache[key] = vocabularies, pairs, held_out, priors, counts
    vocabularies, pairs, held_out, priors, counts = cache[key]
    torch.manual_seed(training_args.seed)
    model = new_model(args, vocabularies, pairs, priors).eval()
    used = priors if args.prior else []
    record = fit(args, training_args, model, vocabularies, pairs, used)
    spent = {"stage": "after", "steps": record["steps"], "train_cpu_s": round(record["cpu_seconds"], 1)}
    known = counts if args.prior else None
    results = evaluate(args, model, vocabularies, used, known, **spent, **args.network())
    if held_out:
        dice = dictionary_evaluator(vocabularies, dice_dictionaries(held_out, vocabularies), "Dice, held-out text")
        results += [dataclasses.replace(row, split="test", settings=row.settings | spent) for row in dice(model)]
    return results
