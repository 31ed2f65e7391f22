"""Frozen vectors of a corpus, from an encoder or from files."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Self

import numpy as np
from transformers import AutoConfig, PreTrainedConfig

from hfxling.arguments import key
from hfxling.data.corpus import TEXT_KEYS, Corpus, TextArguments
from hfxling.data.coverage import check_coverage
from hfxling.data.features import load_vectors
from hfxling.data.parallel import sides_of
from hfxling.data.sources import Pair, joined_files, name_of_pair
from hfxling.encoders.frozen import DTYPES, FrozenEncoder, View
from hfxling.encoders.loading import parse_layer
from hfxling.encoders.pooling import pooled_by
from hfxling.encoders.prompts import prompt_of
from hfxling.missing import one_line_where_missing
from hfxling.models.pooling import POOLING_MODES
from hfxling.sentences.neighbours import unit_or_zero

logger = logging.getLogger(__name__)
_TOKEN = {"cls": "first", "last": "last"}  # mode of pooling -> the token that it takes

Sides = tuple[np.ndarray, np.ndarray]  # (N, H) vectors of the source and of the target


class EncoderSettings:
    """Base of settings with an encoder, given by `base_model`, `base_revision` and `prompt`."""

    @property
    def hub_kwargs(self) -> dict:
        """Keyword arguments that say at which revision of its Hub repository the encoder is."""
        return {"revision": self.base_revision} if self.base_revision else {}

    @property
    def text_prompt(self) -> str | None:
        """The text put before every sentence: the prompt that was given, or the encoder's own."""
        if self.prompt is not None:
            return self.prompt or None  # "" asks for none
        if self.base_model is None:
            return None
        with one_line_where_missing(self.base_model):
            return prompt_of(self.base_model, self.base_revision)


@dataclass(frozen=True)
class FrozenArguments(EncoderSettings, TextArguments):
    """The frozen encoder, or vectors to use in its place."""

    base_model: str | None = key("Hub id or folder of the frozen encoder", None)
    base_revision: str | None = key("branch, tag or commit of the encoder on the Hub", None)
    layer: str = key("layer to read: hidden_states index, 'last', or 'all' for the mean of all layers", "last")
    pooling: str = key("how token vectors become a sentence vector: mean, cls or last", "mean")
    encode_dtype: str = key("float32 or bfloat16: the number format in which the encoder computes", "float32")
    max_length: int | None = key("most tokens read of a text; the rest is cut off", None)
    prompt: str | None = key(
        "text put before every sentence, here and by the published model; default: the encoder's own, '' for none",
        None,
    )
    cache_dir: str = key("folder in which frozen vectors are cached", "outputs/features", writes="folder")
    train_vectors: list[str] | None = key(
        "files of training vectors to use instead of the encoder's: FILE+FILE (source, target), or zh-vi=FILE+FILE for "
        "one language pair",
        None,
    )
    test_vectors: list[str] | None = key(
        "the same for the test text, or NAME=FILE+FILE for a named test set (en-es-wmt)", None
    )

    def __post_init__(self):
        super().__post_init__()
        check_choices(self, {"pooling": POOLING_MODES, "encode_dtype": DTYPES})
        if self.base_model is None and self.train_vectors is None:
            raise ValueError("give --base_model (Hub id or folder), or --train_vectors and --test_vectors.")
        if (self.train_vectors is None) != (self.test_vectors is None):
            raise ValueError("--train_vectors and --test_vectors belong together: give both or neither.")

    @property
    def layer_index(self) -> int | str | None:
        """The layer as `load_encoder` takes it."""
        return parse_layer(self.layer)

    def shared_key(self) -> tuple:
        """The same for runs that share text and vectors."""
        return self.key_of((*FROZEN_KEYS, "layer", "pooling"))

    def is_possible(self) -> bool:
        """Whether the encoder has the layer: a study of layers leaves out those that a smaller encoder lacks."""
        layer = self.layer_index
        if layer is None or isinstance(layer, str) or self.base_model is None:
            return True
        deepest = max(layer) if isinstance(layer, tuple) else layer  # a siamese head may read several
        return deepest <= self.encoder_config().num_hidden_layers

    def with_encoder_of(self, folder: Path) -> Self:
        """These arguments with a published folder's own encoder, cut after the layer; unchanged without an encoder."""
        return self if self.base_model is None else replace(self, base_model=str(folder), base_revision=None)

    def encoder_config(self) -> PreTrainedConfig:
        """The encoder's configuration."""
        with one_line_where_missing(self.base_model):
            return AutoConfig.from_pretrained(self.base_model, trust_remote_code=False, **self.hub_kwargs)

    def encoder(self, views: Sequence[View] | None = None, device: str | None = None) -> FrozenEncoder:
        """The frozen encoder, with the arguments' own view or several; by default on a GPU if there is one."""
        return FrozenEncoder(
            self.base_model,
            views or [(self.layer_index, self.pooling)],
            dtype=self.encode_dtype,
            max_length=self.max_length,
            device=device,
            hub_kwargs=self.hub_kwargs,
            prompt=self.text_prompt,
        )


# The options that determine the text and the encoder of a run, except for layer and pooling.
FROZEN_KEYS = (
    *TEXT_KEYS,
    "base_model",
    "base_revision",
    "encode_dtype",
    "max_length",
    "prompt",
    "train_vectors",
    "test_vectors",
)


def check_choices(settings: object, choices: Mapping[str, Sequence[str]]) -> None:
    """Refuse a value that is not among its field's choices."""
    for name, allowed in choices.items():
        if getattr(settings, name) not in allowed:
            raise ValueError(f"{name}={getattr(settings, name)!r} is not one of {', '.join(allowed)}.")


@dataclass(frozen=True, eq=False)
class PairVectors:
    """Frozen vectors of a language pair's text, on which a head is fitted and tested."""

    languages: Pair  # codes of source and target
    train: Sides  # (N, H) vectors of the training text's source and target, row by row translations
    test: Sides  # the same for the test text; without rows if there is no test text
    layers: tuple[int, ...] | None = None  # the layers whose vectors stand side by side, (N, layers * H); None for one
    prompt: str | None = None  # the text put before every sentence

    def draw(self, fraction: float, seed: int) -> tuple[np.ndarray, PairVectors]:
        """The row numbers of a random share of the training pairs, and a copy with only that share."""
        count = len(self.train[0])
        kept = round(count * fraction)
        if kept < 1:
            raise ValueError(f"fraction={fraction}: no pair of {count} is left; give a larger share.")
        if kept == count:
            return np.arange(count), self
        rows = np.random.default_rng(seed).permutation(count)[:kept]
        train = np.asarray(self.train[0])[rows], np.asarray(self.train[1])[rows]
        return rows, replace(self, train=train)


FrozenVectors = tuple[dict[View, list[PairVectors]], list[Sides]]


def frozen_vectors(
    frozen: FrozenArguments, corpus: Corpus, views: Sequence[View] | None = None, device: str | None = None
) -> FrozenVectors:
    """The frozen vectors of all text, from one pass of the encoder, or from files.

    Sets the corpus' `coverage`, and warns if the encoder's vocabulary does not cover a language.

    Args:
        frozen: the encoder, or the files.
        corpus: the text, with or without test text.
        views: (layer, pooling) of every kind of vector; by default that of `frozen`.
        device: device of the encoder.

    Returns:
        The vectors of every language pair's text, by (layer, pooling), and those of both sides of every test set with
        human scores.

    Raises:
        ValueError: malformed vectors.
        FileNotFoundError: a missing file or encoder.
    """
    views = list(views or [(frozen.layer_index, frozen.pooling)])
    if frozen.train_vectors:
        return _from_files(frozen, corpus, views)
    _warn_of_pooling(frozen, views)
    prompt = frozen.text_prompt
    encoder = frozen.encoder(views, device)
    corpus.coverage = _coverage_line(encoder, corpus)
    by_view: dict[View, list[PairVectors]] = {view: [] for view in views}
    for pair in corpus.pairs:
        arrays = {}  # (N, views, H) by split and side
        for split, dataset in (("train", pair.train), ("test", pair.test)):
            for lang, side in zip(pair.languages, ("source", "target")):
                arrays[split, side] = encoder.features(dataset[side][:], frozen.cache_dir, f"{lang} {split}")
        for number, view in enumerate(views):
            train = arrays["train", "source"][:, number], arrays["train", "target"][:, number]
            test = arrays["test", "source"][:, number], arrays["test", "target"][:, number]
            by_view[view].append(PairVectors(pair.languages, train, test, prompt=prompt))
    scored = []
    for test in corpus.scored:
        source = encoder.features(test.source, frozen.cache_dir)[:, 0]
        target = encoder.features(test.target, frozen.cache_dir)[:, 0]
        scored.append((source, target))
    return by_view, scored


def _warn_of_pooling(frozen: FrozenArguments, views: Sequence[View]) -> None:
    """Warn that an encoder does not itself pool by the mean, if that default was kept."""
    own = pooled_by(frozen.base_model, frozen.base_revision).mode
    if own != "mean" and all(pooling == "mean" for _, pooling in views):
        logger.warning(
            "%s pools by its %s token, not by the mean; give --pooling %s", frozen.base_model, _TOKEN[own], own
        )


def _coverage_line(encoder: FrozenEncoder, corpus: Corpus) -> str:
    """How the encoder's vocabulary covers each language's texts, for the card; warns of bad coverage."""
    texts: dict[str, list[str]] = {}
    for pair in corpus.pairs:
        for lang, side in zip(pair.languages, ("source", "target")):
            texts.setdefault(lang, []).extend(pair.train[side][:] + pair.test[side][:])
    rates = []
    for lang, part in texts.items():
        coverage = check_coverage(encoder.tokenizer, part, lang, encoder.max_length)
        cut = f"{coverage.truncated} of {coverage.total} texts cut"
        rates.append(f"{lang} {coverage.unknown_rate:.1%} unknown, {cut}")
    return f"Characters the vocabulary lacks, texts past {encoder.max_length} tokens: {'; '.join(rates)}."


def _from_files(frozen: FrozenArguments, corpus: Corpus, views: Sequence[View]) -> FrozenVectors:
    """The vectors from the files of `train_vectors` and `test_vectors`, the same for every view."""
    pairs, scored = [], []
    given, tests = [], []  # all vectors; (source texts, target texts, vectors) of every test set
    for test in corpus.scored:
        sides = _read_vectors("test_vectors", frozen.test_vectors, test.direction.replace("->", "-"), len(test.source))
        scored.append(sides)
        tests.append((test.source, test.target, sides))
    for pair in corpus.pairs:
        name = name_of_pair(pair.languages)
        train = _read_vectors("train_vectors", frozen.train_vectors, name, pair.read)
        if len(pair.train) < pair.read:  # some pairs were dropped since
            rows = np.asarray(pair.train["row"])
            train = train[0][rows], train[1][rows]
        test = train[0][:0], train[1][:0]
        if len(pair.test):
            test = _read_vectors("test_vectors", frozen.test_vectors, name, len(pair.test))
            tests.append((*sides_of(pair.test), test))
        pairs.append(PairVectors(pair.languages, train, test, prompt=frozen.text_prompt))
        given.append(train)
    given += [vectors for _, _, vectors in tests]
    _check_vectors(frozen, given, tests)
    return dict.fromkeys(views, pairs), scored


def _read_vectors(option: str, entries: Sequence[str], name: str, rows: int) -> Sides:
    """The vectors of a pair or test set from the files that `train_vectors` or `test_vectors` name."""
    named = {}
    for entry in entries:
        if "=" in entry:
            key, _, files = entry.partition("=")
        else:
            key, files = name, entry
        if key in named:
            raise ValueError(f"{option}: {key} is given twice; give one entry for each.")
        named[key] = files
    paths = joined_files(named.get(name, ""))
    if len(paths) != 2:
        listed = " ".join(entries)
        raise ValueError(
            f"{option}: no entry {name}=SOURCE_FILE+TARGET_FILE among {listed}; give two files of vectors."
        )
    return load_vectors(paths[0], rows=rows), load_vectors(paths[1], rows=rows)


def _check_vectors(frozen: FrozenArguments, given: Sequence[Sides], tests: Sequence[tuple]) -> None:
    """Refuse given vectors of different widths.

    If the encoder is given, too, also refuse vectors that are not the encoder's, because the published model would not
    be the measured one.
    """
    widths = {array.shape[1] for array in chain.from_iterable(given)}
    if len(widths) > 1:
        raise ValueError(f"the vector files have different widths {sorted(widths)}; all must agree.")
    if frozen.base_model is None:
        return
    encoder = frozen.encoder()
    if widths != {encoder.hidden_size}:
        raise ValueError(
            f"the vectors have width {widths.pop()}, but those of {frozen.base_model} have width {encoder.hidden_size}."
        )
    for *texts, vectors in tests:
        for side, lines, rows in zip(("source", "target"), texts, vectors):
            cosine = (unit_or_zero(encoder(lines[:8])[:, 0]) * unit_or_zero(rows[:8])).sum(1)
            if cosine.min() < 0.995:  # bfloat16 costs 1e-4, the next layer 0.03 or more
                raise ValueError(
                    f"test_vectors, {side}: row {cosine.argmin() + 1} is not what layer {frozen.layer} "
                    f"({frozen.pooling}) of {frozen.base_model} gives for its text (cosine {cosine.min():.2f}); give "
                    "the --layer and --pooling that the vectors were made with, or leave --base_model out to publish "
                    "the head alone."
                )
