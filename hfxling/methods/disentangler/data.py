"""Text and vectors of a disentangler run, from the frozen encoder (through the cache) or from files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from transformers import PreTrainedConfig, TrainingArguments

from hfxling.data.corpus import load_corpus
from hfxling.data.scored import read_qe, read_sts17
from hfxling.data.sources import Pair, name_of_pair
from hfxling.encoders.identity import model_name
from hfxling.methods.frozen import Sides, frozen_vectors
from hfxling.methods.heads import PreparedPairs

from .arguments import LEAST_PAIRS, DisentanglerArguments


@dataclass
class Prepared(PreparedPairs):
    """Text and vectors of runs: encoded once, shared by all rows and seeds of a study."""

    scored: list[Sides]  # (source, target) vectors of each test set with human scores, (N, D) each
    kind: str  # kind of the encoder, "encoder" or "llm"
    model: str  # name of the encoder, for the results

    @property
    def train(self) -> list[Sides]:
        """(source, target) training vectors of each language pair, (N, D) each."""
        return [pair.train for pair in self.vectors]


def check_training(training_args: TrainingArguments) -> None:
    """Refuse, before anything is encoded, settings with which early stopping cannot work."""
    if not training_args.load_best_model_at_end:
        raise ValueError("early stopping needs load_best_model_at_end with evaluation and checkpoints every epoch.")
    if not (training_args.num_train_epochs or training_args.max_steps > 0):
        raise ValueError("num_train_epochs=0: a split that is not trained splits nothing; give more than 0.")


def prepare(rows: Sequence[DisentanglerArguments], training_args=None) -> Prepared:
    """Read all text and get its vectors, from the encoder (through the cache) or from files."""
    first = rows[0]
    if training_args is not None:
        check_training(training_args)
    scored = []
    if first.qe:
        scored += read_qe(first.qe, split=first.qe_split)
    if first.sts:
        scored += read_sts17(first.sts)
    if first.one_head_a_pair:
        scored = [test for test in scored if number_of_pair(first.language_pairs, test.direction) is not None]
        if not (scored or first.test_sources()):
            raise ValueError(f"there is no test set for {', '.join(first.pairs)}; give others, or --heads joint.")
    corpus = load_corpus(first, scored=scored)
    for pair in corpus.pairs:
        if len(pair.train) < LEAST_PAIRS:
            name = name_of_pair(pair.languages)
            raise ValueError(
                f"pair {name}: {len(pair.train)} of {pair.read} training pairs are left, and at least {LEAST_PAIRS} "
                "are needed, two of them for validation; give more text."
            )
    by_view, scored_vectors = frozen_vectors(first, corpus)
    (pairs,) = by_view.values()
    kind = first.encoder_kind
    if kind == "auto":
        kind = kind_of(first.pooling, None if first.train_vectors else first.encoder_config())
    return Prepared(corpus, pairs, scored_vectors, kind, model_name(first.base_model))


def number_of_pair(pairs: Sequence[Pair], direction: str) -> int | None:
    """Number of the pair that a test set such as "en->de" or "en-es-wmt" is for, in either direction; None if none."""
    languages = set(direction.replace("->", "-").split("-")[:2])
    for number, pair in enumerate(pairs):
        if set(pair) == languages:
            return number
    return None


def kind_of(pooling: str, config: PreTrainedConfig | None) -> str:
    """Kind of the encoder: "llm" if it is causal or pools by the last token, else (and without config) "encoder"."""
    if config is None:
        return "encoder"
    is_causal = any(name.endswith("ForCausalLM") for name in config.architectures or ())
    return "llm" if is_causal or pooling == "last" else "encoder"
