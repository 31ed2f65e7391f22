"""Text and vectors of a disentangler run: from the frozen encoder through the cache, or from files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hfxling.data.coverage import check_coverage
from hfxling.data.features import load_vectors
from hfxling.encoding import FrozenEncoder, frozen_encoder, model_name

from .batches import Vectors
from .corpus import PairCorpus, load_pair_corpus

if TYPE_CHECKING:
    from .arguments import DisentanglerArguments


@dataclass
class SplitData:
    """Text and vectors of a run: encoded once, shared by all rows and seeds of a study.

    Attributes:
        corpus: the text.
        train: (source, target) vectors of each language pair, (N, D) each.
        scored: the same of each test set with human scores.
        parallel: the same of each parallel test set.
        kind: of the encoder, "encoder" or "llm".
        model: name of the encoder, for the results.
    """

    corpus: PairCorpus
    train: Vectors
    scored: Vectors
    parallel: Vectors
    kind: str
    model: str

    @property
    def hidden_size(self) -> int:
        """D."""
        return self.train[0][0].shape[1]


def encode(args: DisentanglerArguments) -> SplitData:
    """Read all text and the vectors of it, from the encoder through the cache, or from files.

    Warns when the encoder's vocabulary does not cover a language.

    Raises:
        ValueError: for malformed text or vectors (see `load_pair_corpus`, `load_vectors`); rows are named.
        FileNotFoundError: for a file, folder or encoder that is not there.
    """
    corpus = load_pair_corpus(args)
    tests = [(test.source, test.target) for test in corpus.scored]
    tests += [(test["source"], test["target"]) for test in corpus.parallel.values()]
    encoder = None
    if args.train_vectors:
        train, found = _given_vectors(args, corpus, tests)
    else:
        encoder = frozen_encoder(args)
        corpus.coverage = _coverage(encoder, corpus)
        train = [_encoded(args, encoder, pair.train["source"], pair.train["target"]) for pair in corpus.pairs]
        found = [_encoded(args, encoder, *sides) for sides in tests]
    kind = _kind_of(args.pooling, encoder) if args.encoder_kind == "auto" else args.encoder_kind
    split = len(corpus.scored)
    return SplitData(corpus, train, found[:split], found[split:], kind, model_name(args.base_model))


def _encoded(args: DisentanglerArguments, encoder: FrozenEncoder, *sides: Sequence[str]) -> tuple[np.ndarray, ...]:
    """Vectors of both sides, the prompt before every text."""
    prompt = args.prompt or ""
    return tuple(encoder.features([prompt + text for text in side], args.cache_dir)[:, 0] for side in sides)


def _coverage(encoder: FrozenEncoder, corpus: PairCorpus) -> str:
    texts: dict[str, list[str]] = {}
    for pair in corpus.pairs:
        for side, language in zip(("source", "target"), pair.languages):
            texts.setdefault(language, []).extend(pair.train[side])
    found = {lang: check_coverage(encoder.tokenizer, part, lang, encoder.max_length) for lang, part in texts.items()}
    rates = (f"{lang} {c.unknown_rate:.1%} unknown, {c.truncated} of {c.total} texts cut" for lang, c in found.items())
    return f"Characters the vocabulary lacks, texts past {encoder.max_length} tokens: {'; '.join(rates)}."


def _kind_of(pooling: str, encoder: FrozenEncoder | None) -> str:
    """An LLM's vector is that of its last token; vectors without an encoder count as an encoder's unless named."""
    if encoder is None:
        return "encoder"
    is_causal = any(name.endswith("ForCausalLM") for name in encoder.model.config.architectures or ())
    return "llm" if pooling == "last" or is_causal else "encoder"


def _given_vectors(args: DisentanglerArguments, corpus: PairCorpus, tests: Sequence) -> tuple[list, list]:
    """The vectors of `train_vectors` and `test_vectors`: one for every pair as it was read, dropped ones included."""
    names = [test.direction.replace("->", "-") for test in corpus.scored] + list(map("-".join, corpus.parallel))
    of_tests = [_sides("test_vectors", args.test_vectors, name, rows=len(test[0])) for name, test in zip(names, tests)]
    train = []
    for pair in corpus.pairs:
        sides = _sides("train_vectors", args.train_vectors, "-".join(pair.languages), rows=pair.read)
        if len(pair.train) < pair.read:
            sides = tuple(side[np.asarray(pair.train["row"])] for side in sides)
        train.append(sides)
    widths = {side.shape[1] for sides in (*train, *of_tests) for side in sides}
    if len(widths) > 1:
        raise ValueError(f"the vector files have different widths {sorted(widths)}; all must agree.")
    return train, of_tests


def _sides(option: str, entries: Sequence[str], name: str, rows: int) -> tuple[np.ndarray, ...]:
    """Both sides' vectors of the entry NAME=FILE+FILE."""
    named = dict(entry.partition("=")[::2] for entry in entries)
    paths = named.get(name, "").split("+")
    if len(paths) != 2:
        given = " ".join(entries)
        raise ValueError(f"{option}: no entry {name}=SOURCE_FILE+TARGET_FILE among {given}; give two files of vectors.")
    return tuple(load_vectors(path, rows=rows) for path in paths)
