"""Frozen vectors: an encoder or files that are named, and the vectors of a corpus that they give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

import numpy as np
from transformers import AutoConfig, PreTrainedConfig

from hfxling.data.corpus import TEXT_KEYS, Corpus, PairText, TextArguments
from hfxling.data.coverage import check_coverage
from hfxling.data.features import load_vectors
from hfxling.data.sources import Pair, name_of_pair
from hfxling.encoders.frozen import DTYPES, FrozenEncoder, View
from hfxling.encoders.prompts import prompt_of
from hfxling.missing import one_line_where_missing
from hfxling.models.pooling import POOLING_MODES

Sides = tuple[np.ndarray, np.ndarray]  # (N, H) vectors of the source and of the target


@dataclass(frozen=True)
class FrozenArguments(TextArguments):
    """The frozen encoder, or vectors in its place."""

    base_model: str | None = field(default=None, metadata={"help": "Hub id or folder of the frozen encoder"})
    base_revision: str | None = field(default=None, metadata={"help": "revision of the encoder"})
    layer: str = field(default="last", metadata={"help": "hidden_states index, 'last', or 'all' for their mean"})
    pooling: str = field(default="mean", metadata={"help": "mean, cls or last"})
    encode_dtype: str = field(default="float32", metadata={"help": "float32 or bfloat16, for the encoder's pass"})
    max_length: int | None = field(default=None, metadata={"help": "tokens kept of a text"})
    prompt: str | None = field(
        default=None,
        metadata={
            "help": "put before every text, now and by the published model; by default what the encoder wants, '' for "
            "none"
        },
    )
    cache_dir: str = field(
        default="outputs/features", metadata={"help": "where frozen vectors are kept", "writes": "folder"}
    )
    train_vectors: list[str] | None = field(
        default=None,
        metadata={"help": "vectors in place of the encoder's: FILE+FILE (source, target), zh-vi=FILE+FILE of a pair"},
    )
    test_vectors: list[str] | None = field(
        default=None, metadata={"help": "the same of the test text; NAME=FILE+FILE of a test set (en-es-wmt)"}
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
        """The layer as `load_encoder` takes it.

        Raises:
            ValueError: neither a number nor 'last' nor 'all'.
        """
        if self.layer in ("last", "all"):
            return None if self.layer == "last" else "all"
        if not self.layer.isdigit():
            raise ValueError(f"layer={self.layer!r}: give a number (0 = embedding output), 'last' or 'all'.")
        return int(self.layer)

    @property
    def hub_kwargs(self) -> dict:
        """Where of the Hub repository the encoder is."""
        return {"revision": self.base_revision} if self.base_revision else {}

    @property
    def text_prompt(self) -> str | None:
        """What is put before every text: what was given, or what the encoder wants."""
        if self.prompt is not None or self.base_model is None:
            return self.prompt or None
        with one_line_where_missing(self.base_model):
            return prompt_of(self.base_model, self.base_revision)

    def shared_key(self) -> tuple:
        """The same for runs that share text and vectors."""
        return self.key_of((*FROZEN_KEYS, "layer", "pooling"))

    def is_possible(self) -> bool:
        """Whether the encoder is deep enough: a study of layers leaves out those that a smaller one lacks."""
        layer = self.layer_index
        if layer is None or isinstance(layer, str) or self.base_model is None:
            return True
        return (max(layer) if isinstance(layer, tuple) else layer) <= self.encoder_config().num_hidden_layers

    def encoder_config(self) -> PreTrainedConfig:
        """The encoder's configuration."""
        with one_line_where_missing(self.base_model):
            return AutoConfig.from_pretrained(self.base_model, trust_remote_code=False, **self.hub_kwargs)

    def encoder(self, views: Sequence[View] | None = None, device: str | None = None) -> FrozenEncoder:
        """The frozen encoder, with the arguments' own view or several; by default on a GPU when there is one."""
        return FrozenEncoder(
            self.base_model,
            views or [(self.layer_index, self.pooling)],
            dtype=self.encode_dtype,
            max_length=self.max_length,
            device=device,
            hub_kwargs=self.hub_kwargs,
            prompt=self.text_prompt,
        )


# What decides the text and the encoder of a run, the layer and pooling that are read off it apart.
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
    """Refuse a value that is none of its field's choices."""
    for name, allowed in choices.items():
        if getattr(settings, name) not in allowed:
            raise ValueError(f"{name}={getattr(settings, name)!r} is not one of {', '.join(allowed)}.")


def coverage_line(encoder: FrozenEncoder, texts: Mapping[str, Sequence[str]]) -> str:
    """How the encoder's vocabulary covers each language's texts, for the card; bad coverage is warned of.

    Args:
        encoder: with a tokenizer.
        texts: by language code.
    """
    rates = []
    for lang, part in texts.items():
        coverage = check_coverage(encoder.tokenizer, part, lang, encoder.max_length)
        cut = f"{coverage.truncated} of {coverage.total} texts cut"
        rates.append(f"{lang} {coverage.unknown_rate:.1%} unknown, {cut}")
    return f"Characters the vocabulary lacks, texts past {encoder.max_length} tokens: {'; '.join(rates)}."


@dataclass(frozen=True, eq=False)
class PairVectors:
    """Frozen vectors of a language pair's text: what a head is fitted on and tested with.

    Attributes:
        languages: codes of source and target.
        train: (N, H) of the training text's source and target, row by row translations.
        test: the same of the test text; none where there is no such text.
        layers: where the vectors of several layers stand side by side, (N, layers * H), which.
        prompt: was put before every text.
    """

    languages: Pair
    train: Sides
    test: Sides
    layers: tuple[int, ...] | None = None
    prompt: str | None = None

    @property
    def width(self) -> int:
        """H, or layers * H."""
        return self.train[0].shape[1]

    def draw(self, fraction: float, seed: int) -> tuple[np.ndarray, PairVectors]:
        """The row numbers of a random share of the training pairs, and these vectors with that share alone."""
        count = len(self.train[0])
        kept = round(count * fraction)
        if kept == count:
            return np.arange(count), self
        rows = np.random.default_rng(seed).permutation(count)[:kept]
        train = np.asarray(self.train[0])[rows], np.asarray(self.train[1])[rows]
        return rows, replace(self, train=train)


def pair_vectors(
    frozen: FrozenArguments, corpus: Corpus, views: Sequence[View] | None = None, device: str | None = None
) -> dict[View, list[PairVectors]]:
    """The frozen vectors of every language pair's text, from one pass of the encoder, or from files.

    Sets the corpus' `coverage`, and warns where the encoder's vocabulary does not cover a language.

    Args:
        frozen: the encoder, or the files.
        corpus: with or without test text.
        views: (layer, pooling) of every kind of vector; by default that of `frozen`.
        device: of the encoder.

    Raises:
        ValueError: malformed vectors.
        FileNotFoundError: a file or encoder that is not there.
    """
    views = list(views or [(frozen.layer_index, frozen.pooling)])
    prompt = frozen.text_prompt
    if frozen.train_vectors:
        ready, sides, tests = [], [], []
        for pair in corpus.pairs:
            test = given_vectors("test_vectors", frozen.test_vectors, name_of_pair(pair.languages), len(pair.test))
            train = training_vectors(frozen, pair)
            ready.append(PairVectors(pair.languages, train, test, prompt=prompt))
            sides += [train, test]
            tests.append((pair.test["source"], pair.test["target"], test))
        check_vectors(frozen, sides, tests)
        return dict.fromkeys(views, ready)
    encoder = frozen.encoder(views, device)
    texts: dict[str, list[str]] = {}
    for pair in corpus.pairs:
        for lang, side in zip(pair.languages, ("source", "target")):
            texts.setdefault(lang, []).extend([*pair.train[side], *pair.test[side]])
    corpus.coverage = coverage_line(encoder, texts)
    by_view: dict[View, list[PairVectors]] = {view: [] for view in views}
    for pair in corpus.pairs:
        arrays = {}  # (N, views, H) by split
        for split in ("train", "test"):
            dataset = getattr(pair, split)
            arrays[split] = []
            for lang, side in zip(pair.languages, ("source", "target")):
                arrays[split].append(encoder.features(dataset[side], frozen.cache_dir, f"{lang} {split}"))
        for number, view in enumerate(views):
            train = arrays["train"][0][:, number], arrays["train"][1][:, number]
            test = arrays["test"][0][:, number], arrays["test"][1][:, number]
            by_view[view].append(PairVectors(pair.languages, train, test, prompt=prompt))
    return by_view


def given_vectors(option: str, entries: Sequence[str], name: str, rows: int) -> Sides:
    """The vectors of a pair or test set from the files that `train_vectors` or `test_vectors` name.

    Raises:
        ValueError: no entry of that name; malformed files (see `load_vectors`).
        FileNotFoundError: a file that is not there.
    """
    named = {}
    for entry in entries:
        if "=" in entry:
            key, _, files = entry.partition("=")
            named[key] = files
        else:
            named[name] = entry
    paths = named.get(name, "").split("+")
    if len(paths) != 2:
        listed = " ".join(entries)
        raise ValueError(
            f"{option}: no entry {name}=SOURCE_FILE+TARGET_FILE among {listed}; give two files of vectors."
        )
    return load_vectors(paths[0], rows=rows), load_vectors(paths[1], rows=rows)


def training_vectors(frozen: FrozenArguments, pair: PairText) -> Sides:
    """The rows of `train_vectors` that are left of a pair: one was given for every pair as it was read."""
    sides = given_vectors("train_vectors", frozen.train_vectors, name_of_pair(pair.languages), pair.read)
    if len(pair.train) == pair.read:
        return sides
    rows = np.asarray(pair.train["row"])
    return sides[0][rows], sides[1][rows]


def check_vectors(frozen: FrozenArguments, given: Sequence[Sides], tests: Sequence[tuple]) -> None:
    """Refuse given vectors that do not belong together.

    Args:
        frozen: the encoder, where one is given too.
        given: all of them.
        tests: (source texts, target texts, their vectors) of every test set.

    Raises:
        ValueError: different widths; vectors that are not the encoder's where one is given too: the published model
            would not be the one that was measured.
    """
    widths = {array.shape[1] for array in chain.from_iterable(given)}
    if len(widths) > 1:
        raise ValueError(f"the vector files have different widths {sorted(widths)}; all must agree.")
    if frozen.base_model is None:
        return
    encoder = frozen.encoder()
    if widths != {encoder.hidden_size}:
        raise ValueError(f"the vectors are {widths.pop()} wide, those of {frozen.base_model} {encoder.hidden_size}.")
    for *texts, vectors in tests:
        for side, lines, rows in zip(("source", "target"), texts, vectors):
            cosine = (unit(encoder(lines[:8])[:, 0]) * unit(rows[:8])).sum(1)
            if cosine.min() < 0.995:  # bfloat16 costs 1e-4, the next layer 0.03 or more
                raise ValueError(
                    f"test_vectors, {side}: row {cosine.argmin() + 1} is not what layer {frozen.layer} "
                    f"({frozen.pooling}) of {frozen.base_model} gives for its text (cosine {cosine.min():.2f}); give "
                    "the --layer and --pooling that the vectors were made with, or leave --base_model out to publish "
                    "the head alone."
                )


def unit(vectors: np.ndarray) -> np.ndarray:
    """Rows of length 1."""
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
