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

from hfxling.data.corpus import Corpus, load_corpus
from hfxling.encoders.identity import model_name
from hfxling.evaluation.plots import can_draw, scatter_before_after
from hfxling.evaluation.results import EvalResult
from hfxling.evaluation.short_vectors import FinalVectors, short_vector_results
from hfxling.hub.writing import write_branch
from hfxling.methods.frozen import write_frozen
from hfxling.methods.publishing import Run, training_cost
from hfxling.models.modeling_siamese import SiameseHead, SiameseModel

from .arguments import AUTO, TRAINING_DEFAULTS, SiameseArguments
from .card import card
from .data import PairVectors, Prepared, prepare
from .evaluate import evaluate
from .layers import choose_layers
from .train import apply_rows, assemble, plain_output, train_head

Arguments = SiameseArguments
SHOWN = 500  # training pairs in the picture where there is no test text
__all__ = ["TRAINING_DEFAULTS", "Arguments", "card", "measure", "prepare", "run"]


def run(args: SiameseArguments, training_args: TrainingArguments, prepared: Prepared) -> Run:
    """Fit a head on the run's share of the vectors, and measure retrieval before and after."""
    text, chosen_layers = prepared.text, {}
    if args.layer == AUTO:
        args, chosen_layers = choose_layers(args, prepared, training_args.seed)
    rows, vectors = prepared.of(args.layer_index, args.pooling).draw(args.fraction, training_args.seed)
    with training_cost() as cost:
        head, chosen = train_head(args, training_args, vectors, [text.train["target"][int(row)] for row in rows])
    fields = prepared.corpus.test_fields(text) | {"model": model_name(args.base_model), "seed": training_args.seed}
    reached = {"fit": args.fit, "pairs": len(rows)} | chosen_layers | chosen | cost
    if not training_args.should_save:  # one process evaluates and writes
        return Run([], reached)
    results = evaluate(args, vectors, head, **fields) if len(text.test) else []

    has_branches = args.base_model is not None and head.config.needs_language
    branches = tuple(head.config.languages) if has_branches else ()

    def write(folder: Path) -> None:
        model = assemble(args, head)
        write_frozen(args, model, folder)
        for lang in branches:
            write_branch(model.for_language(lang), folder, lang)
        if can_draw():
            shown = vectors.test if len(text.test) else tuple(side[:SHOWN] for side in vectors.train)
            after = [plain_output(model.head, array, lang) for array, lang in zip(shown, args.languages)]
            scatter_before_after(folder / "embeddings.png", shown, after, args.languages)

    final = partial(_final_vectors, args, head, vectors, fields) if len(text.test) else tuple
    return Run(results, reached, write, branches=branches, vectors=final)


def _final_vectors(args: SiameseArguments, head: SiameseHead, vectors: PairVectors, fields: dict) -> list[FinalVectors]:
    """What the finished model gives for both sides of the test and training text."""
    sides = [
        [apply_rows(partial(head, language=lang), side) for side, lang in zip(split, args.languages)]
        for split in (vectors.test, vectors.train)
    ]
    return [FinalVectors(tuple(args.languages), *sides, fields)]


def measure(args: SiameseArguments, training_args: TrainingArguments, folder: Path) -> tuple[list[EvalResult], Corpus]:
    """Retrieval with the encoder and head of a published folder, and the text that was read for it."""
    model = SiameseModel.from_pretrained(folder).eval()
    if args.layer == AUTO:
        layers = model.config.layer
        args = replace(args, layer=",".join(map(str, layers if isinstance(layers, list) else [layers])))
    if args.base_model is not None:  # the folder's own encoder, which stops at the layer
        args = replace(args, base_model=str(folder), base_revision=None)
    corpus = load_corpus(args)
    if not len(corpus.pairs[0].test):
        return [], corpus
    prepared = prepare([args])
    _, vectors = prepared.of(args.layer_index, args.pooling).draw(args.fraction, training_args.seed)
    fields = corpus.test_fields(prepared.text) | {"seed": training_args.seed}
    results = evaluate(args, vectors, model.head, **fields)
    short = short_vector_results(*_final_vectors(args, model.head, vectors, fields))
    return results + short, prepared.corpus
