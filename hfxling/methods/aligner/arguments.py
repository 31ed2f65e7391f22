"""The settings of a word aligner, and all that its recipe takes."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from hfxling.arguments import key
from hfxling.data.corpus import TEXT_KEYS, TextArguments
from hfxling.data.sources import pair_files
from hfxling.models.configuration_aligner import AlignerConfig
from hfxling.models.modeling_aligner import DIRECTIONS, SIDES
from hfxling.values import check_counts, check_least, named_entries

# What one pass over a batch updates: everything at once, or as Wada et al.'s scripts do one encoded side and one
# decoder direction after the other.
UPDATES = {
    "one": ((SIDES, DIRECTIONS),),
    "four": tuple(((side,), (direction,)) for side in SIDES for direction in DIRECTIONS),
}
# Settings of the Trainer that the aligner wants and transformers' defaults do not give. Adam without weight decay,
# clipped at 5, batches of 16: Wada et al. Their learning rate is 1e-3, the paper's 2e-5; docs/results.md compares.
TRAINING_DEFAULTS = {
    "output_dir": "outputs/aligner",
    "num_train_epochs": 200,
    "per_device_train_batch_size": 16,
    "learning_rate": 4e-3,
    "lr_scheduler_type": "constant",
    "max_grad_norm": 5.0,
    "optim": "adamw_torch_fused",
    "logging_steps": 100,
    "save_steps": 2000,
    "save_total_limit": 1,
    "dataloader_pin_memory": torch.cuda.is_available(),
}


@dataclass(frozen=True)
class AlignerSettings:
    """The vocabularies, the network and how it is trained."""

    vocab_size: int | None = key("words of a language at most; default by segmenter", None)
    min_count: int | None = key("occurrences a word needs; default by segmenter", None)
    pieces: int = key("subword pieces that the languages share, at most (eq. 10)", 8000)
    segmenters: list[str] = key("e.g. zh=characters vi=unigram, where it is not words (learnt ones without spaces)", [])
    max_words: int = key("segments kept of a training sentence", 150)
    size: int = key("width of embeddings and states (paper: 500)", 500)
    layers: int = key("of encoder and decoders", 1)
    dropout: float = key("on embeddings and decoder outputs", 0.5)
    contrastive_weight: float = key("0 is the base model (Wada et al.)", 1.0)
    temperature: float = key("of the contrastive loss (paper: 0.5)", 0.5)
    negatives: str = key("inter or inter+intra", "inter")
    contrastive_pooling: str = key("avg or max", "avg")
    prior: bool = key("attention starts from the links of a statistical aligner (not in the paper)", False)
    updates: str = key("per batch: one, or four as Wada et al.'s scripts", "one")
    cpu_seconds: float | None = key("stop training after this much CPU time", None)
    evaluate_every: int = key("epochs between two scores; the best state is kept", 5)

    def __post_init__(self):
        if self.updates not in UPDATES:
            raise ValueError(f"updates={self.updates!r} is not one of {', '.join(UPDATES)}.")
        check_counts(1, evaluate_every=self.evaluate_every, max_words=self.max_words)
        check_counts(1, vocab_size=self.vocab_size, min_count=self.min_count)
        check_least(0, cpu_seconds=self.cpu_seconds)
        # These refuse bad values, here and not after the text was read.
        self.segmenter_choices()
        AlignerConfig(vocab_sizes={"lo": 5, "zh": 5}, **self.network())

    def network(self) -> dict:
        """The fields of `AlignerConfig` that do not follow from the text."""
        names = ("size", "layers", "dropout", "contrastive_weight", "temperature", "negatives", "contrastive_pooling")
        return {name: getattr(self, name) for name in names}

    def segmenter_choices(self) -> dict[str, str]:
        """Language code -> segmenter."""
        return named_entries("segmenters", self.segmenters, "lo=whitespace")


@dataclass(frozen=True)
class AlignerArguments(AlignerSettings, TextArguments):
    """The model to go on training, and what it is tested on."""

    model: str | None = key("folder or Hub id of an aligner to go on training", None)
    dictionaries: list[str] = key("for testing, e.g. lo-zh=lo-zh.tsv; word TAB translation lines", [])
    gold: list[str] = key("gold links for testing, e.g. zh-en=gold.tsv: source, target, links", [])
    curve: bool = key("keep P@1 on the dictionaries and AER at every score; the state is not chosen by them", False)

    def __post_init__(self):
        TextArguments.__post_init__(self)
        AlignerSettings.__post_init__(self)
        pair_files("dictionaries", self.dictionaries)  # both refuse what is none
        pair_files("gold", self.gold)

    def shared_key(self) -> tuple:
        """The same for runs that share text and vocabularies."""
        names = (
            *TEXT_KEYS,
            "model",
            "vocab_size",
            "min_count",
            "pieces",
            "segmenters",
            "max_words",
            "dictionaries",
            "gold",
        )
        return self.key_of(names)
