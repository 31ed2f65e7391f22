"""The settings of a word aligner, and all options of its recipe."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from hfxling.arguments import key
from hfxling.data.corpus import TEXT_KEYS, TextArguments
from hfxling.data.sources import pair_files
from hfxling.models.configuration_aligner import AlignerConfig
from hfxling.models.modeling_aligner import DIRECTIONS, SIDES
from hfxling.values import check_counts, check_least, named_entries

# What one pass over a batch updates: everything at once, or, as in Wada et al.'s scripts, one encoded side and one
# decoder direction after the other.
UPDATES = {
    "one": ((SIDES, DIRECTIONS),),
    "four": tuple(((side,), (direction,)) for side in SIDES for direction in DIRECTIONS),
}
# Trainer settings of the aligner that differ from transformers' defaults. Adam without weight decay,
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

    vocab_size: int | None = key("most words in a language's vocabulary; the default depends on the segmenter", None)
    min_count: int | None = key("least occurrences of a word; the default depends on the segmenter", None)
    pieces: int = key("most subword pieces, which the languages share (eq. 10)", 8000)
    segmenters: list[str] = key(
        "how to cut a language's text, e.g. zh=characters vi=unigram; default: words (learnt ones if the language "
        "writes no spaces)",
        [],
    )
    max_words: int = key("most segments read of a training sentence", 150)
    size: int = key("width of embeddings and states (paper: 500)", 500)
    layers: int = key("number of layers of the encoder and of the decoders", 1)
    dropout: float = key("dropout on embeddings and decoder outputs", 0.5)
    contrastive_weight: float = key("weight of the contrastive loss; 0 is the base model (Wada et al.)", 1.0)
    temperature: float = key("temperature of the contrastive loss (paper: 0.5)", 0.5)
    negatives: str = key(
        "negatives of the contrastive loss (eq. 12): inter (sentences of the other language) or inter+intra (of the "
        "own language, too)",
        "inter",
    )
    contrastive_pooling: str = key("how states become a sentence vector for the contrastive loss: avg or max", "avg")
    prior: bool = key("start the attention from the links of a statistical aligner (not in the paper)", False)
    updates: str = key("updates per batch: one, or four as in Wada et al.'s scripts", "one")
    cpu_seconds: float | None = key("stop training after this many seconds of CPU time", None)
    evaluate_every: int = key("number of epochs between two scores; the state with the best score is kept", 5)

    def __post_init__(self):
        if self.updates not in UPDATES:
            raise ValueError(f"updates={self.updates!r} is not one of {', '.join(UPDATES)}.")
        check_counts(1, evaluate_every=self.evaluate_every, max_words=self.max_words)
        check_counts(1, vocab_size=self.vocab_size, min_count=self.min_count)
        check_least(0, cpu_seconds=self.cpu_seconds)
        # These refuse bad values now, before the text is read.
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
    """The model to train further, and what it is tested on."""

    model: str | None = key("folder or Hub id of an aligner to train further", None)
    dictionaries: list[str] = key(
        "word lists to test on, e.g. lo-zh=lo-zh.tsv; each line has a word, a tab and its translation", []
    )
    gold: list[str] = key(
        "gold word links to test on, e.g. zh-en=gold.tsv; each line has source, target and links, with tabs between", []
    )
    curve: bool = key(
        "at every score also record P@1 on the dictionaries and AER; the best state is not chosen by them", False
    )

    def __post_init__(self):
        TextArguments.__post_init__(self)
        AlignerSettings.__post_init__(self)
        pair_files("dictionaries", self.dictionaries)  # both calls refuse malformed entries
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
