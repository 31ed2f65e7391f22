"""The settings of dual-alignment pre-training, and all that its recipe takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from hfxling.data.corpus import TEXT_KEYS, TextArguments
from hfxling.data.sources import Pair, parse_pair
from hfxling.encoders.prompts import prompt_of
from hfxling.missing import one_line_where_missing
from hfxling.models.configuration_dap import DapConfig

from .mixing import MIXINGS

# Settings of the Trainer that the paper gives (section 4.2); transformers' defaults are others.
TRAINING_DEFAULTS = {
    "output_dir": "outputs/dap",
    "max_steps": 100_000,
    "per_device_train_batch_size": 1024,
    "learning_rate": 5e-5,
    "lr_scheduler_type": "linear",
    "logging_steps": 100,
    "save_steps": 5000,
    "save_total_limit": 2,
    "report_to": "none",
    "remove_unused_columns": False,
    "ddp_find_unused_parameters": True,  # the encoder's pooler serves nothing here
}
_MODEL_FIELDS = (
    *("pooling", "objective", "temperature", "margin", "ranking", "project_cls", "rtl_layers", "rtl_direction"),
    *("rtl_ratio", "rtl_weight", "tlm_weight"),
)


@dataclass(frozen=True)
class DapSettings:
    """How languages are mixed, the encoder, the objectives and how they are computed; defaults are the paper's."""

    max_train_pairs: int | None = field(
        default=1_000_000, metadata={"help": "of each language pair, at most this many (paper: 1,000,000)"}
    )
    streaming: bool = field(default=False, metadata={"help": "read while training; leaks are not looked for"})
    mixing: str = field(default="proportional", metadata={"help": "weights of languages: proportional or temperature"})
    mixing_temperature: float = field(default=5.0, metadata={"help": "weight is size ** (1 / this); 1: proportional"})
    sizes: list[int] | None = field(
        default=None, metadata={"help": "sentence pairs of each language pair, for the weights of streams"}
    )
    bucket: int = field(default=64, metadata={"help": "batches sorted by length together; 1: no sorting"})
    max_length: int = field(default=32, metadata={"help": "tokens kept of a text (paper: 32)"})
    base_model: str = field(default="google-bert/bert-base-multilingual-cased", metadata={"help": "Hub id or folder"})
    base_revision: str | None = field(default=None, metadata={"help": "revision of the encoder"})
    pooling: str = field(default="cls", metadata={"help": "cls (paper), mean or last"})
    prompt: str | None = field(
        default=None,
        metadata={
            "help": "put before every text, now and by the published model; by default what the encoder wants, '' for "
            "none"
        },
    )
    freeze_embeddings: bool = field(
        default=False, metadata={"help": "leave word and position vectors as they are: less memory, fewer updates"}
    )
    objective: str = field(default="tr+rtl", metadata={"help": "tr, tr+rtl, tr+tlm or tr+rtl+tlm"})
    temperature: float = field(default=0.05, metadata={"help": "of the ranking softmax"})
    margin: float = field(default=0.0, metadata={"help": "additive margin of the ranking softmax"})
    ranking: str = field(default="both", metadata={"help": "both directions averaged, or forward"})
    project_cls: bool = field(default=False, metadata={"help": "linear layer and tanh on CLS, in training only"})
    rtl_layers: int = field(default=2, metadata={"help": "K, layers of the RTL head"})
    rtl_direction: str = field(default="xx-en", metadata={"help": "xx-en, en-xx or both"})
    rtl_ratio: float = field(default=1.0, metadata={"help": "rho, share of target tokens to reconstruct"})
    rtl_weight: float = field(default=1.0, metadata={"help": "of the RTL loss (paper: 1; released code: 0.1)"})
    tlm_weight: float = field(default=1.0, metadata={"help": "of the TLM loss"})
    language_embeddings: bool | None = field(
        default=None, metadata={"help": "in the RTL head; by default where it reconstructs several languages"}
    )
    shortlist: bool = field(default=True, metadata={"help": "RTL softmax over the ids that the training text has"})
    chunk_size: int | None = field(
        default=None, metadata={"help": "gradient caching: pairs encoded at a time, of per_device_train_batch_size"}
    )
    row_updates: bool = field(
        default=False,
        metadata={"help": "update only the word embeddings that a batch has (RowAdamW); not for FSDP"},
    )
    cache_dir: str = field(
        default="outputs/lengths",
        metadata={"help": "where the texts' lengths in tokens are kept", "writes": "folder"},
    )
    lora: int = field(default=0, metadata={"help": "rank of LoRA adapters (0: train the whole encoder)"})
    lora_alpha: int = field(default=32, metadata={"help": "scale of the adapters"})

    def __post_init__(self):
        if self.mixing not in MIXINGS:
            raise ValueError(f"mixing={self.mixing!r} is not one of {', '.join(MIXINGS)}.")
        for name in ("mixing_temperature", "bucket", "max_length"):
            if not getattr(self, name) >= 1:  # a NaN neither
                raise ValueError(f"{name}={getattr(self, name)} is below 1.")
        if self.chunk_size is not None and self.chunk_size < 1:
            raise ValueError(f"chunk_size={self.chunk_size}: give at least one pair.")
        if self.lora < 0:
            raise ValueError(f"lora={self.lora}: give a rank, or 0 to train the whole encoder.")
        if self.lora and self.row_updates:
            raise ValueError(f"lora={self.lora}: adapters leave the word embeddings alone; leave row_updates out.")
        if self.chunk_size is not None and self.chunk_size % 2 and self.rtl_direction == "both":
            raise ValueError(f"chunk_size={self.chunk_size}: with rtl_direction='both' it must be even.")
        if self.streaming and self.shortlist and "rtl" in self.objective:
            raise ValueError("a shortlist needs all training text beforehand: give --shortlist false when streaming.")
        DapConfig(**self.model_fields([("zh", "en")]))  # refuses bad values, here and not after an hour of reading

    @property
    def hub_kwargs(self) -> dict:
        """Where of the Hub repository the encoder is."""
        return {"revision": self.base_revision} if self.base_revision else {}

    @property
    def text_prompt(self) -> str | None:
        """What is put before every text: what was given, or what the encoder wants."""
        if self.prompt is not None:
            return self.prompt or None
        with one_line_where_missing(self.base_model):
            return prompt_of(self.base_model, self.base_revision)

    def model_fields(self, pairs: Sequence[Pair]) -> dict:
        """The fields of `DapConfig` that the settings decide, for text of these language pairs."""
        several = self.language_embeddings
        if several is None:
            several = self.rtl_direction != "xx-en"
        fields = {name: getattr(self, name) for name in _MODEL_FIELDS}
        # The common side stands first in the order of language embeddings.
        fields["languages"] = [pairs[0][1], *(source for source, _ in pairs)] if several else []
        return fields


@dataclass(frozen=True)
class DapArguments(DapSettings, TextArguments):
    """What the encoder is tested on."""

    tatoeba: str | None = field(default=None, metadata={"help": "folder or Hub id of the Tatoeba test sets"})
    gold: list[str] = field(
        default_factory=list, metadata={"help": "gold word links to test on, e.g. zh-en=FILE: source, target, links"}
    )
    dev_pairs: int = field(
        default=0, metadata={"help": "training pairs of each language kept out and tested on, to choose settings by"}
    )
    curve_pairs: int | None = field(
        default=None,
        metadata={
            "help": "what --eval_strategy tests: pairs of each Tatoeba language, a quarter as many with gold links"
        },
    )

    def __post_init__(self):
        TextArguments.__post_init__(self)
        DapSettings.__post_init__(self)
        if len({target for _, target in self.language_pairs}) > 1:
            raise ValueError(f"pairs={self.pairs}: all must have one target language, such as zh-en and vi-en.")
        if self.sizes is not None and (len(self.sizes) != len(self.pairs) or min(self.sizes) < 1):
            raise ValueError(f"sizes={self.sizes}: give one of 1 or more for each of the {len(self.pairs)} pairs.")
        if self.dev_pairs < 0 or (self.curve_pairs is not None and self.curve_pairs < 4):
            raise ValueError(f"dev_pairs={self.dev_pairs} must be >= 0, curve_pairs={self.curve_pairs} >= 4.")
        if self.dev_pairs and self.streaming:
            raise ValueError("a stream cannot be divided: leave dev_pairs out, or give --streaming false.")
        self.gold_files()  # refuses what is none

    @property
    def pivot(self) -> str:
        """The target language that all pairs share."""
        return self.language_pairs[0][1]

    def gold_files(self) -> dict[Pair, str]:
        """(source, target) language -> file of gold links.

        Raises:
            ValueError: an entry that is not of the form zh-en=FILE.
        """
        files = {}
        for entry in self.gold:
            pair, _, path = entry.partition("=")
            if not pair or not path:
                raise ValueError(f"gold: {entry!r} is not of the form zh-en=FILE.")
            files[parse_pair(pair)] = path
        return files

    def shared_key(self) -> tuple:
        """The same for runs that share text and untrained encoder."""
        names = (
            *TEXT_KEYS,
            "tatoeba",
            "gold",
            "dev_pairs",
            "streaming",
            "base_model",
            "base_revision",
            "pooling",
            "prompt",
        )
        return self.key_of(names)
