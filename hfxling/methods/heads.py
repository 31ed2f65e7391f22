"""Code shared by all heads on frozen vectors: the run from text to folder, ranking before and after, assembling."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from transformers import TrainingArguments

from hfxling.data.corpus import Corpus, load_corpus
from hfxling.encoders.frozen import load_tokenizer, token_limit
from hfxling.encoders.identity import model_name
from hfxling.evaluation.results import EvalResult
from hfxling.evaluation.retrieval import Ranking, language_mean, rank_translations, ranking_results
from hfxling.evaluation.short_vectors import MOST, FinalVectors
from hfxling.hub.writing import export
from hfxling.models.stock import StockModel

from .checks import refuse_evaluation
from .frozen import FrozenArguments, PairVectors, frozen_vectors
from .publishing import Run, training_cost

Embed = Callable[[np.ndarray, str], np.ndarray]  # from (N, H) frozen vectors and their language to (N, D)


def rank_pair(
    vectors: PairVectors,
    embed: Embed,
    *,
    similarities: Sequence[str] = ("cosine",),
    centerings: Sequence[str] = ("none",),
) -> list[Ranking]:
    """Rank the translations of a pair's test text, in both directions, by the vectors that `embed` gives.

    The similarities are `methods` of `rank_translations`; the centring "train" subtracts the training text's means.
    """
    source_lang, target_lang = vectors.languages
    test = _embedded(embed, vectors.test, vectors.languages)
    means = None
    if "train" in centerings:
        means = tuple(map(language_mean, _embedded(embed, vectors.train, vectors.languages)))
    rankings = []
    for centering in centerings:
        rankings += rank_translations(
            *test,
            source_lang=source_lang,
            target_lang=target_lang,
            centering=centering,
            means=means,
            methods=similarities,
            csls_k=min(10, len(test[0])),
        )
    return rankings


def _embedded(embed: Embed, sides: Sequence[np.ndarray], languages: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    return embed(sides[0], languages[0]), embed(sides[1], languages[1])


@torch.inference_mode()
def apply_rows(
    function: Callable[[Tensor], Tensor], vectors: np.ndarray, device: torch.device | None = None
) -> np.ndarray:
    """Apply a function of (n, H) float32 tensors to (N, H) vectors, block by block."""
    writable = np.array(vectors, dtype=np.float32)  # a copy: torch warns of read-only arrays, such as mapped files
    mapped = []
    for block in torch.from_numpy(writable).split(65536):
        mapped.append(function(block.to(device)).cpu())
    return torch.cat(mapped).numpy()


def replace_arguments(training_args: TrainingArguments, **changes) -> TrainingArguments:
    """A copy of the Trainer's arguments with other values, which are not checked again."""
    changed = copy.copy(training_args)  # `dataclasses.replace` would drop attributes that are no fields (`run_record`)
    for key, value in changes.items():
        setattr(changed, key, value)
    return changed


def head_trainer_arguments(training_args: TrainingArguments) -> TrainingArguments:
    """The Trainer's arguments for training on cached vectors, without dropping columns or pushing checkpoints."""
    return replace_arguments(training_args, remove_unused_columns=False, push_to_hub=False)


def assemble(cls: type[StockModel], head: nn.Module, frozen: FrozenArguments) -> StockModel:
    """A head on its encoder, ready to be written; the head alone if only vectors were given."""
    if frozen.base_model is None:
        model = cls(head.config)
    else:
        settings = head.config.head_dict()
        # Set by the recipe and the encoder: a siamese head on a single layer is fitted without knowing its number.
        for name in ("hidden_size", "layer", "pooling"):
            settings.pop(name)
        model = cls.from_encoder(
            frozen.base_model,
            layer=frozen.layer_index,
            pooling=frozen.pooling,
            hub_kwargs=frozen.hub_kwargs,
            **settings,
        )
    model.head.load_state_dict(head.state_dict())
    return model.eval()


def write_frozen(frozen: FrozenArguments, model: StockModel, folder: Path) -> None:
    """Write a head on its encoder with the tokenizer, or a head alone if only vectors were given."""
    tokenizer = limit = None
    if frozen.base_model is not None:
        tokenizer = load_tokenizer(frozen.base_model, frozen.hub_kwargs)
        limit = token_limit(tokenizer, model.encoder.config, frozen.max_length)
    export(model, tokenizer, folder, max_length=limit)


@dataclass
class PreparedPairs:
    """The text of runs, and its frozen vectors by language pair."""

    corpus: Corpus
    vectors: list[PairVectors]


Fit = Callable[[Sequence[PairVectors]], tuple[nn.Module, dict]]  # from vectors to a head and what was reached


def retrieval_results(
    prepared: PreparedPairs,
    before: Embed,
    after: Sequence[Embed],
    *,
    settings: Mapping,
    model: str,
    seed: int,
    similarities: Sequence[str] = ("cosine",),
    centerings: Sequence[str] = ("none",),
) -> list[EvalResult]:
    """P@1 and P@5 before and after, in both directions, each "after" row tested against its "before".

    `before` gives the frozen vectors as they are compared; `after` has, for every language pair, the function that
    gives the finished model's vectors. A pair without test text has no rows. `similarities` and `centerings` are as for
    `rank_pair`.
    """
    how = {"similarities": similarities, "centerings": centerings}
    results = []
    for pair, vectors, embed in zip(prepared.corpus.pairs, prepared.vectors, after):
        if not len(pair.test):
            continue
        fields = prepared.corpus.test_fields(pair) | {"model": model}
        start, end = rank_pair(vectors, before, **how), rank_pair(vectors, embed, **how)
        results += ranking_results(start, settings={**settings, "stage": "before"}, **fields)
        results += ranking_results(end, baseline=start, settings={**settings, "stage": "after"}, seed=seed, **fields)
    return results


def final_vectors(prepared: PreparedPairs, after: Sequence[Embed], *, model: str, seed: int) -> list[FinalVectors]:
    """A finished model's vectors of all test text and of some training text; arguments as for `retrieval_results`."""
    finished = []
    for pair, vectors, embed in zip(prepared.corpus.pairs, prepared.vectors, after):
        if not len(pair.test):
            continue
        fields = prepared.corpus.test_fields(pair) | {"model": model, "seed": seed}
        test = _embedded(embed, vectors.test, vectors.languages)
        train = _embedded(embed, (vectors.train[0][:MOST], vectors.train[1][:MOST]), vectors.languages)
        finished.append(FinalVectors(tuple(vectors.languages), test, train, fields))
    return finished


def as_it_came(vectors: np.ndarray, language: str) -> np.ndarray:
    """The encoder's vectors, unchanged."""
    return np.asarray(vectors)


def corpus_with_test(recipe: FrozenArguments, training_args: TrainingArguments | None = None) -> Corpus:
    """The text for a head that is fitted in one go and tested before and after."""
    refuse_evaluation(training_args, "a head")
    corpus = load_corpus(recipe)
    if not any(len(pair.test) for pair in corpus.pairs):
        raise ValueError(
            f"{' '.join(recipe.train_data)}: there is no test text; give --test_data, such as my.zh+my.vi@1501-2000 "
            "with --train_data my.zh+my.vi@1-1500."
        )
    return corpus


def prepare_pairs(rows: Sequence[FrozenArguments], training_args: TrainingArguments | None = None) -> PreparedPairs:
    """`prepare` for a method whose runs differ only in the head: text and vectors of all language pairs."""
    corpus = corpus_with_test(rows[0], training_args)
    by_view, _ = frozen_vectors(rows[0], corpus)
    (vectors,) = by_view.values()
    return PreparedPairs(corpus, vectors)


def run_head(
    cls: type[StockModel],
    fit: Fit,
    recipe: FrozenArguments,
    training_args: TrainingArguments,
    prepared: PreparedPairs,
) -> Run:
    """`run` for such a method: fit the head, rank the test text before and after, and say how to write the folder."""
    with training_cost() as cost:
        head, reached = fit(prepared.vectors)
    head.eval()
    reached = {"pairs": sum(len(pair.train[0]) for pair in prepared.vectors)} | reached | cost
    if not training_args.should_save:  # one process evaluates and writes
        return Run([], reached)

    def write(folder: Path) -> None:
        write_frozen(recipe, assemble(cls, head, recipe), folder)

    results, final = _measured(head, recipe, training_args.seed, prepared)
    return Run(results, reached, write, vectors=final)


def measure_head(
    cls: type[StockModel], recipe: FrozenArguments, training_args: TrainingArguments, folder: Path
) -> tuple[Run, Corpus]:
    """`measure` for such a method: the rows of `run_head`, from the encoder and head of a published folder."""
    head = cls.from_pretrained(folder).eval().head
    recipe = recipe.with_encoder_of(folder)
    prepared = prepare_pairs([recipe])
    results, final = _measured(head, recipe, training_args.seed, prepared)
    return Run(results, vectors=final), prepared.corpus


def _measured(
    head: nn.Module, recipe: FrozenArguments, seed: int, prepared: PreparedPairs
) -> tuple[list[EvalResult], Callable[[], list[FinalVectors]]]:
    """The rows of a head, and a function that gives its final vectors."""

    def embed(vectors: np.ndarray, language: str) -> np.ndarray:
        return apply_rows(head, vectors)

    after = [embed] * len(prepared.vectors)
    fields = {"model": model_name(recipe.base_model), "seed": seed}
    settings = {"layer": recipe.layer, "pooling": recipe.pooling}
    results = retrieval_results(prepared, as_it_came, after, settings=settings, **fields)
    return results, partial(final_vectors, prepared, after, **fields)
