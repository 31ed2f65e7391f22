"""The lexical model: word links counted by a statistical aligner in a few thousand pairs find translations.

Besides the files of every method:
static.py: the same links as dense word vectors, for stock modules.
export.py: the folder, which loads in three ways.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from transformers import TrainingArguments

from hfxling.arguments import narrowed
from hfxling.data.corpus import Corpus, load_corpus
from hfxling.methods.publishing import Run, training_cost

from .arguments import TRAINING_DEFAULTS, LexicalArguments, LinkSettings
from .card import card
from .data import Prepared, link_views, prepare, word_encoder
from .evaluate import cross_validated, evaluate, final_vectors
from .export import SPARSE, export_lexical, load_lexical
from .train import fit

Arguments = LexicalArguments
__all__ = [
    "TRAINING_DEFAULTS",
    "Arguments",
    "LinkSettings",
    "card",
    "fit",
    "link_views",
    "measure",
    "prepare",
    "run",
    "word_encoder",
]


def run(recipe: LexicalArguments, training_args: TrainingArguments, prepared: Prepared) -> Run:
    """Make an encoder from the links, and measure how well it finds translations."""
    settings, seed = narrowed(LinkSettings, recipe), training_args.seed
    with training_cost() as cost:
        model = fit(
            prepared.views, settings, encoder=recipe.encoder, encoder_revision=recipe.encoder_revision, seed=seed
        )
    for name, seconds in prepared.cost.items():  # counting the links is most of the work
        cost[name] = round(cost[name] + seconds, 1)
    size = {"segments": sum(map(sum, model.config.vocab_sizes.values()))}
    reached = size | {"links": sum(map(sum, model.config.links.values())) // 2} | cost
    if not training_args.should_save:  # one process evaluates and writes
        return Run([], reached)
    results = evaluate(model, prepared.corpus, seed=seed)
    if prepared.folds:
        models = (fit(fold.views, settings, seed=seed) for fold in prepared.folds)
        folds = [fold.corpus for fold in prepared.folds]
        results += cross_validated(models, folds, prepared.distractors, seed=seed)
    return Run(
        results,
        reached,
        partial(export_lexical, model),
        branches=(SPARSE,),
        vectors=partial(final_vectors, model, prepared.corpus, seed=seed),
    )


def measure(recipe: LexicalArguments, training_args: TrainingArguments, folder: Path) -> tuple[Run, Corpus]:
    """Retrieval of the test text by a published folder, and the text read; folds would have to be counted again."""
    corpus, model = load_corpus(recipe), load_lexical(folder)
    results = evaluate(model, corpus, seed=training_args.seed)
    return Run(results, vectors=partial(final_vectors, model, corpus, seed=training_args.seed)), corpus
