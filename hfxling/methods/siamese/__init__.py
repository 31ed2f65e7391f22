"""The siamese method: a linear head on one frozen layer ("mBERT-SF"; Huang et al. 2023).

Beside the files of every method:
closed_form.py: the heads that need no training.
choice.py: the choice among heads, which are fitted many times over.
layers.py: the choice of layers, which comes before the fit and needs vectors of all of them.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

from transformers import TrainingArguments

from hfxling.arguments import narrowed
from hfxling.data.corpus import Corpus, load_corpus
from hfxling.encoders.identity import model_name
from hfxling.evaluation.plots import can_draw, scatter_before_after
from hfxling.evaluation.results import EvalResult
from hfxling.evaluation.short_vectors import FinalVectors, short_vector_results
from hfxling.hub.writing import write_branch
from hfxling.methods.frozen import PairVectors
from hfxling.methods.heads import apply_rows, assemble, final_vectors, write_frozen
from hfxling.methods.publishing import Run, training_cost
from hfxling.models.encoder import ENCODER_OF_SEQ2SEQ
from hfxling.models.modeling_siamese import SiameseHead, SiameseModel

from .arguments import AUTO, TRAINING_DEFAULTS, HeadSettings, SiameseArguments
from .card import card
from .data import Prepared, prepare
from .evaluate import evaluate
from .layers import LayerChoice, choose_layers
from .train import fit, plain_output

Arguments = SiameseArguments
SHOWN = 500  # training pairs in the picture where there is no test text
__all__ = ["TRAINING_DEFAULTS", "Arguments", "HeadSettings", "card", "fit", "layers_for", "measure", "prepare", "run"]


def run(recipe: SiameseArguments, training_args: TrainingArguments, prepared: Prepared) -> Run:
    """Fit a head on the run's share of the vectors, and measure retrieval before and after."""
    text, seed, chosen_layers = prepared.text, training_args.seed, {}
    if recipe.layer == AUTO:
        choice = layers_for(recipe, prepared, seed)
        recipe, chosen_layers = replace(recipe, layer=choice.layer), choice.record()
    rows, vectors = prepared.of(recipe.layer_index, recipe.pooling).draw(recipe.fraction, seed)
    texts = [text.train["target"][int(row)] for row in rows]
    settings, start = narrowed(HeadSettings, recipe), None
    if settings.init == "published":
        start = SiameseModel.from_pretrained(recipe.base_model, **recipe.hub_kwargs).head
    with training_cost() as cost:
        head, chosen = fit(vectors, texts, settings, training_args, start)
    reached = {"fit": recipe.fit, "pairs": len(rows)} | chosen_layers | chosen | cost
    if not training_args.should_save:  # one process evaluates and writes
        return Run([], reached)
    results, final = [], tuple
    if len(text.test):
        fields = prepared.corpus.test_fields(text) | {"model": model_name(recipe.base_model), "seed": seed}
        results = evaluate(vectors, head, **_rows_of(recipe), **fields)
        final = partial(_final_vectors, vectors, head, fields)

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


def layers_for(recipe: SiameseArguments, prepared: Prepared, seed: int) -> LayerChoice:
    """The layers that `--layer auto` reads; a family whose layers share a final norm has single ones only."""
    config = recipe.encoder_config()
    return choose_layers(
        prepared,
        narrowed(HeadSettings, recipe),
        depth=config.num_hidden_layers,
        pooling=recipe.pooling,
        sets=config.model_type not in ENCODER_OF_SEQ2SEQ,
        fraction=recipe.fraction,
        seed=seed,
    )


def _rows_of(recipe: SiameseArguments) -> dict:
    """What the result rows say of the vectors, and how these are compared."""
    return {"settings": {"layer": recipe.layer, "pooling": recipe.pooling}, "similarities": recipe.similarities}


def _final_vectors(vectors: PairVectors, head: SiameseHead, fields: dict) -> list[FinalVectors]:
    """What the finished model gives for both sides of the test and training text."""
    return [final_vectors(vectors, lambda side, lang: apply_rows(partial(head, language=lang), side), fields)]


def measure(
    recipe: SiameseArguments, training_args: TrainingArguments, folder: Path
) -> tuple[list[EvalResult], Corpus]:
    """Retrieval with the encoder and head of a published folder, and the text that was read for it."""
    model = SiameseModel.from_pretrained(folder).eval()
    if recipe.layer == AUTO:
        layers = model.config.layer
        recipe = replace(recipe, layer=",".join(map(str, layers if isinstance(layers, list) else [layers])))
    if recipe.base_model is not None:  # the folder's own encoder, which stops at the layer
        recipe = replace(recipe, base_model=str(folder), base_revision=None)
    corpus = load_corpus(recipe)
    if not len(corpus.pairs[0].test):
        return [], corpus
    prepared = prepare([recipe])
    _, vectors = prepared.of(recipe.layer_index, recipe.pooling).draw(recipe.fraction, training_args.seed)
    fields = corpus.test_fields(prepared.text) | {"seed": training_args.seed}
    results = evaluate(vectors, model.head, **_rows_of(recipe), **fields)
    return results + short_vector_results(*_final_vectors(vectors, model.head, fields)), prepared.corpus
