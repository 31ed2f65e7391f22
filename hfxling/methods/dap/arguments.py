"""The settings of dual-alignment pre-training, and all options of its recipe."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hfxling.arguments import key
from hfxling.data.corpus import TEXT_KEYS, TextArguments
from hfxling.data.sources import Pair, pair_files
from hfxling.methods.frozen import EncoderSettings, check_choices
from hfxling.models.configuration_dap import DapConfig
from hfxling.values import check_counts, check_least

from .mixing import MIXINGS

# Trainer settings from the paper (section 4.2) that differ from transformers' defaults.
TRAINING_DEFAULTS = {
    "output_dir": "outputs/dap",
    "max_steps": 100_000,
    "per_device_train_batch_size": 1024,
    "learning_rate": 5e-5,
    "lr_scheduler_type": "linear",
    "logging_steps": 100,
    "save_steps": 5000,
    "save_total_limit": 2,
    "remove_unused_columns": False,
    "ddp_find_unused_parameters": True,  # the encoder's pooler is not used here
}
CENTERINGS = ("none", "train", "auto")
_MODEL_FIELDS = (
    *("pooling", "objective", "temperature", "margin", "ranking", "project_cls", "rtl_layers", "rtl_direction"),
    *("rtl_ratio", "rtl_weight"),
)


@dataclass(frozen=True)
class DapSettings(EncoderSettings):
    """How languages are mixed, the encoder, the objectives and how they are computed; defaults are the paper's."""

    max_train_pairs: int | None = key("most training pairs of each language pair (paper: 1,000,000)", 1_000_000)
    mixing: str = key("how often each language is drawn: proportional (to its size) or temperature", "proportional")
    mixing_temperature: float = key("--mixing temperature weights by size ** (1 / this); 1 is proportional", 5.0)
    bucket: int = key("number of batches sorted by length together, fewer if there is little text; 1: no sorting", 64)
    max_length: int = key("most tokens read of a text (paper: 32); the rest is cut off", 32)
    base_model: str = key("Hub id or folder of the encoder", "google-bert/bert-base-multilingual-cased")
    base_revision: str | None = key("branch, tag or commit of the encoder on the Hub", None)
    pooling: str = key("how token vectors become a sentence vector: cls (paper), mean or last", "cls")
    prompt: str | None = key(
        "text put before every sentence, here and by the published model; default: the encoder's own, '' for none",
        None,
    )
    centering: str = key(
        "train: subtract the training text's mean vector before training begins; auto: do so if the encoder has a bias "
        "that can hold it; or none",
        "none",
    )
    freeze_embeddings: bool = key("do not train word and position embeddings: less memory, fewer updates", False)
    objective: str = key("what to train on: tr, tr+rtl, tr+tlm or tr+rtl+tlm", "tr+rtl")
    temperature: float = key("temperature of the ranking softmax", 0.05)
    margin: float = key("additive margin of the ranking softmax", 0.0)
    ranking: str = key("both (the mean of both directions) or forward (source to target only)", "both")
    project_cls: bool = key("put a linear layer and tanh on the CLS vector, in training only", False)
    rtl_layers: int = key("K, number of layers of the RTL head", 2)
    rtl_direction: str = key("which side RTL reconstructs: xx-en (the target), en-xx (the source) or both", "xx-en")
    rtl_ratio: float = key("rho, share of target tokens to reconstruct", 1.0)
    rtl_weight: float = key("weight of the RTL loss (paper: 1; released code: 0.1)", 1.0)
    shortlist: bool = key("compute the RTL softmax only over token ids that occur in the training text", True)
    chunk_size: int | None = key(
        "gradient caching: encode this many pairs of a batch (per_device_train_batch_size) at a time", None
    )
    row_updates: bool = key("update only the word embeddings that occur in a batch (RowAdamW); not for FSDP", False)
    cache_dir: str = key("folder in which the texts' lengths in tokens are cached", "outputs/lengths", writes="folder")
    lora: int = key("rank of LoRA adapters; 0: train the whole encoder", 0)

    def __post_init__(self):
        check_choices(self, {"mixing": MIXINGS, "centering": CENTERINGS})
        check_least(1, mixing_temperature=self.mixing_temperature)
        check_counts(1, bucket=self.bucket, max_length=self.max_length, chunk_size=self.chunk_size)
        check_counts(0, lora=self.lora)
        if self.lora and self.row_updates:
            raise ValueError(f"lora={self.lora}: adapters do not change word embeddings; leave row_updates out.")
        if self.chunk_size is not None and self.chunk_size % 2 and self.rtl_direction == "both":
            raise ValueError(f"chunk_size={self.chunk_size}: with rtl_direction='both' it must be even.")
        DapConfig(**self.model_fields([("zh", "en")]))  # refuses bad values now, not after an hour of reading

    def model_fields(self, pairs: Sequence[Pair]) -> dict:
        """The fields of `DapConfig` that the settings determine, for text of these language pairs."""
        fields = {name: getattr(self, name) for name in _MODEL_FIELDS}
        if self.rtl_direction != "xx-en":  # several languages to reconstruct: the head gets language embeddings
            fields["languages"] = [pairs[0][1], *(source for source, _ in pairs)]  # the common side first
        return fields


@dataclass(frozen=True)
class DapArguments(DapSettings, TextArguments):
    """What the encoder is tested on."""

    tatoeba: str | None = key("folder or Hub id of the Tatoeba test sets", None)
    gold: list[str] = key(
        "gold word links to test on, e.g. zh-en=FILE; each line has source, target and links, with tabs between", []
    )
    dev_pairs: int = key("training pairs of each language to hold out and test on, for choosing settings; 0: none", 0)
    curve_pairs: int | None = key(
        "pairs of each Tatoeba language to test on during training (--eval_strategy), and a quarter as many with gold "
        "links; default: all",
        None,
    )

    def __post_init__(self):
        TextArguments.__post_init__(self)
        DapSettings.__post_init__(self)
        if len({target for _, target in self.language_pairs}) > 1:
            raise ValueError(f"pairs={self.pairs}: all must have the same target language, such as zh-en and vi-en.")
        if self.dev_pairs < 0 or (self.curve_pairs is not None and self.curve_pairs < 4):
            raise ValueError(f"dev_pairs={self.dev_pairs} must be >= 0, curve_pairs={self.curve_pairs} >= 4.")
        pair_files("gold", self.gold)  # refuses malformed entries

    @property
    def pivot(self) -> str:
        """The target language that all pairs share."""
        return self.language_pairs[0][1]

    def shared_key(self) -> tuple:
        """The same for runs that share text and untrained encoder."""
        names = (*TEXT_KEYS, "tatoeba", "gold", "dev_pairs", "base_model", "base_revision", "pooling", "prompt")
        return self.key_of(names)
