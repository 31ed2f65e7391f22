"""The siamese method: a linear head on one frozen layer ("mBERT-SF"; Huang et al. 2023).

Besides the files of every method:
closed_form.py: the heads that need no training.
choice.py: the choice among heads, each of which is fitted many times.
layers.py: the choice of layers, which is made before the fit and needs the vectors of all layers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from transformers import TrainingArguments

from hfxling.arguments import narrowed
from hfxling.data.corpus import Corpus, load_corpus
from hfxling.encoders.identity import model_name
from hfxling.evaluation.plots import can_draw, scatter_before_after
from hfxling.evaluation.results import EvalResult
from hfxling.evaluation.retrieval import CENTERINGS
from hfxling.evaluation.short_vectors import FinalVectors
from hfxling.hub.writing import write_branch
from hfxling.methods.frozen import PairVectors
from hfxling.methods.heads import (
    PreparedPairs,
    apply_rows,
    assemble,
    final_vectors,
    retrieval_results,
    write_frozen,
)
from hfxling.methods.publishing import Run, training_cost
from hfxling.models.modeling_siamese import SiameseHead, SiameseModel

from .arguments import AUTO, OWN, TRAINING_DEFAULTS, HeadSettings, SiameseArguments
from .card import card
from .data import Prepared, encode, prepare
from .layers import choose_layers
from .train import fit, plain_output, unit_layers

Arguments = SiameseArguments
SHOWN = 500  # training pairs in the picture if there is no test text
__all__ = ["TRAINING_DEFAULTS", "Arguments", "HeadSettings", "card", "fit", "measure", "prepare", "run"]


def run(recipe: SiameseArguments, training_args: TrainingArguments, prepared: Prepared) -> Run:
    """Fit a head on the run's share of the vectors, and measure retrieval before and after."""
    text, seed, chosen_layers = prepared.text, training_args.seed, {}
    if recipe.layer == AUTO:
        chosen_layers = choose_layers(recipe, prepared, seed)
        recipe = replace(recipe, layer=chosen_layers["layer"])
    rows, vectors = prepared.of(recipe.layer_index, recipe.pooling).draw(recipe.fraction, seed)
    targets = text.train["target"][:]
    texts = [targets[row] for row in rows]
    settings, start = narrowed(HeadSettings, recipe), None
    if settings.init == "published":
        start = SiameseModel.from_pretrained(recipe.base_model, **recipe.hub_kwargs).head
    with training_cost() as cost:
        head, chosen = fit(vectors, texts, settings, training_args, start)
    reached = {"fit": recipe.fit, "pairs": len(rows)} | chosen_layers | chosen | cost
    if not training_args.should_save:  # one process evaluates and writes
        return Run([], reached)
    results, final = _measured(recipe, prepared, vectors, head, seed)
    has_branches = recipe.base_model is not None and head.config.needs_language
    branches = tuple(head.config.languages) if has_branches else ()

    def write(folder: Path) -> None:
        model = assemble(SiameseModel, head, recipe)
        write_frozen(recipe, model, folder)
        for lang in branches:
            write_branch(model.for_language(lang), folder, lang)
        if can_draw():
            shown = vectors.test if len(text.test) else tuple(side[:SHOWN] for side in vectors.train)
            after = [plain_output(model.head, array, lang) for array, lang in zip(shown, recipe.languages)]
            scatter_before_after(folder / "embeddings.png", shown, after, recipe.languages)

    return Run(results, reached, write, branches=branches, vectors=final)


def _measured(
    recipe: SiameseArguments, prepared: Prepared, vectors: PairVectors, head: SiameseHead, seed: int
) -> tuple[list[EvalResult], Callable[[], list[FinalVectors]]]:
    """Retrieval before and after, with every centring, and a function that gives the finished model's vectors."""

    def before(side: np.ndarray, language: str) -> np.ndarray:
        return unit_layers(side, vectors.layers)

    def finished(side: np.ndarray, language: str) -> np.ndarray:
        return apply_rows(partial(head, language=language), side)

    pairs = PreparedPairs(prepared.corpus, [vectors])
    fields = {"model": model_name(recipe.base_model), "seed": seed}
    settings = {"layer": recipe.layer, "pooling": recipe.pooling}
    results = retrieval_results(
        pairs,
        before,
        [partial(plain_output, head)],
        settings=settings,
        similarities=recipe.similarities,
        centerings=CENTERINGS,
        **fields,
    )
    return results, partial(final_vectors, pairs, [finished], **fields)


def measure(recipe: SiameseArguments, training_args: TrainingArguments, folder: Path) -> tuple[Run, Corpus]:
    """Retrieval with the encoder and head of a published folder, and the text that was read for it."""
    if recipe.layer == OWN:  # written by `hfxling fit`, which measures only on text that it left out
        return Run([]), load_corpus(recipe)
    model = SiameseModel.from_pretrained(folder).eval()
    if recipe.layer == AUTO:
        layers = model.config.layer  # those that the run has chosen
        if not isinstance(layers, list):
            layers = [layers]
        recipe = replace(recipe, layer=",".join(map(str, layers)))
    recipe = recipe.with_encoder_of(folder)
    corpus = load_corpus(recipe)
    if not len(corpus.pairs[0].test):
        return Run([]), corpus
    prepared = encode([recipe], corpus)
    _, vectors = prepared.of(recipe.layer_index, recipe.pooling).draw(recipe.fraction, training_args.seed)
    results, final = _measured(recipe, prepared, vectors, model.head, training_args.seed)
    return Run(results, vectors=final), corpus
