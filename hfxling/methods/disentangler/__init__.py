"""The disentangler: a frozen encoder's sentence vectors split into meaning and language (Nonomura et al.).

Besides the files of every method:
batches.py: vectors of many language pairs, read from disk in blocks.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

from transformers import TrainingArguments

from hfxling.arguments import narrowed
from hfxling.data.corpus import Corpus
from hfxling.data.sources import Pair, Source, name_of_pair
from hfxling.evaluation.plots import can_draw, plot_trajectory
from hfxling.methods.checkpoints import newest_checkpoint
from hfxling.methods.heads import assemble, replace_arguments, write_frozen
from hfxling.methods.publishing import Run, training_cost
from hfxling.models.modeling_disentangler import DisentanglerModel

from .arguments import TRAINING_DEFAULTS, DisentanglerArguments, SplitSettings
from .card import card
from .data import Prepared, check_training, kind_of, prepare
from .evaluate import evaluate, finished_vectors
from .train import fit, fit_heads

Arguments = DisentanglerArguments
__all__ = [
    "TRAINING_DEFAULTS",
    "Arguments",
    "SplitSettings",
    "card",
    "check_training",
    "fit",
    "kind_of",
    "measure",
    "one_by_one",
    "prepare",
    "run",
]


def one_by_one(
    recipe: DisentanglerArguments, training_args: TrainingArguments
) -> list[tuple[DisentanglerArguments, TrainingArguments]]:
    """The arguments for each folder that a recipe writes: one for each language pair, or one for all together.

    The folder of a language pair has its name and is in `output_dir`; on the Hub it is `hub_model_id` with that name.

    Raises:
        ValueError: a single checkpoint was given, to resume several heads from.
    """
    if not recipe.one_head_a_pair or len(recipe.pairs) == 1:
        return [(recipe, training_args)]
    if str(training_args.resume_from_checkpoint or "").lower() not in ("", "false", "true"):
        raise ValueError(
            f"resume_from_checkpoint={training_args.resume_from_checkpoint}: which of {len(recipe.pairs)} heads is it "
            "for? Give the option without a value, or give only one of --pairs."
        )
    folders = []
    for text, pair in zip(recipe.pairs, recipe.language_pairs):
        train_data, test_data = _sources_of(pair, recipe.train_data), _sources_of(pair, recipe.test_data)
        of_pair = replace(recipe, pairs=[text], train_data=train_data, test_data=test_data)
        name = name_of_pair(pair)
        training = replace_arguments(training_args, output_dir=str(Path(training_args.output_dir) / name))
        if training_args.hub_model_id:
            training.hub_model_id = f"{training_args.hub_model_id}-{name.replace(':', '-')}"
        if newest_checkpoint(Path(training.output_dir)) is None:
            training.resume_from_checkpoint = None  # the run was killed before this head's first checkpoint
        folders.append((of_pair, training))
    return folders


def _sources_of(pair: Pair, sources: list[str] | None) -> list[str] | None:
    """The sources of text that are not for other language pairs."""
    return sources and [text for text in sources if Source.parse(text).is_for(pair)]


def run(recipe: DisentanglerArguments, training_args: TrainingArguments, prepared: Prepared) -> Run:
    """Train, and evaluate before and after; several heads are measured but not written (see `one_by_one`)."""
    settings, seed = narrowed(SplitSettings, recipe), training_args.seed
    options = {"kind": prepared.kind} | recipe.origin()
    if settings.init == "published":
        options["start"] = DisentanglerModel.from_pretrained(recipe.base_model, **recipe.hub_kwargs).head
    with training_cost() as cost:
        pairs = prepared.corpus.language_pairs
        if recipe.one_head_a_pair:
            splits = fit_heads(prepared.train, pairs, settings, training_args, **options)
            heads = [split.head for split in splits]
        else:
            splits = [fit(prepared.train, settings, training_args, **options)]
            heads = [splits[0].head] * len(pairs)
    first, is_several = splits[0], len(splits) > 1
    reached = dict(first.reached)
    if is_several:
        for name in reached:
            reached[name] = [split.reached[name] for split in splits]
    reached = {"objective": first.objective} | reached | cost
    if not training_args.should_save:  # one process evaluates and writes
        return Run([], reached)

    def write(folder: Path) -> None:
        write_frozen(recipe, assemble(DisentanglerModel, first.head, recipe), folder)
        if can_draw():
            plot_trajectory(folder / "trajectory.png", {first.objective: [point[1:] for point in first.trajectory]})

    results = evaluate(prepared, heads, settings, seed=seed, **_rows_of(recipe))
    final = partial(finished_vectors, prepared, heads, seed)
    if is_several:
        return Run(results, reached, vectors=final)
    return Run(results, reached, write, {"trajectory": first.trajectory}, vectors=final)


def _rows_of(recipe: DisentanglerArguments) -> dict:
    """Arguments of `evaluate`: what result rows say about the vectors, and the number of pairs that probes read."""
    return {"origin": {"layer": recipe.layer, "pooling": recipe.pooling}, "probe_pairs": recipe.probe_pairs}


def measure(recipe: DisentanglerArguments, training_args: TrainingArguments, folder: Path) -> tuple[Run, Corpus]:
    """What `run` measures, for the encoder and split of a published folder, and the text that was read for it."""
    model, seed = DisentanglerModel.from_pretrained(folder).eval(), training_args.seed
    recipe = recipe.with_encoder_of(folder)
    prepared = prepare([recipe])
    heads = [model.head] * len(prepared.vectors)
    results = evaluate(prepared, heads, narrowed(SplitSettings, recipe), seed=seed, **_rows_of(recipe))
    return Run(results, vectors=partial(finished_vectors, prepared, heads, seed)), prepared.corpus
