"""What the DAP recipe is told."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from hfxling.data.parallel import check_languages, load_parallel
from hfxling.models.configuration_dap import DapConfig

from .mixing import COLUMNS, MIXINGS

if TYPE_CHECKING:
    from datasets import Dataset, IterableDataset

    AnyDataset = Dataset | IterableDataset


if TYPE_CHECKING:
    from datasets import Dataset


PLACEHOLDERS = ("{lang}", "{pivot}", "{pair}")


@dataclass
class MultiCorpusArguments:
    """Which text is read, in which languages, and how it is mixed."""

    languages: list[str] = field(metadata={"help": "language codes of the source sides, e.g. zh vi th"})
    train_data: list[str] = field(
        metadata={
            "help": "templates of Hub ids (org/name:config), files, or two aligned files joined by +, with {lang}, "
            "{pivot}, {pair}; @1-1543 picks lines, #1,0 the columns of source and target; or sample"
        }
    )
    pivot: str = field(default="en", metadata={"help": "language code of the target side of every pair"})
    train_split: str = field(default="train", metadata={"help": "split of Hub datasets"})
    max_pairs: int = field(default=1_000_000, metadata={"help": "pairs kept of a language (paper: 1,000,000)"})
    min_words: int = field(default=0, metadata={"help": "drop pairs whose shorter side has fewer words"})
    keep_leaks: bool = field(default=False, metadata={"help": "keep training pairs that the test text contains"})
    streaming: bool = field(default=False, metadata={"help": "read while training; leaks are not looked for"})
    mixing: str = field(default="proportional", metadata={"help": "weights of languages: proportional or temperature"})
    mixing_temperature: float = field(default=5.0, metadata={"help": "weight is size ** (1 / this); 1: proportional"})
    sizes: list[int] | None = field(
        default=None, metadata={"help": "pairs of each language, for the weights, where streams do not tell"}
    )
    bucket: int = field(default=64, metadata={"help": "batches sorted by length together; 1: no sorting"})
    max_length: int = field(default=32, metadata={"help": "tokens kept of a text (paper: 32)"})
    data_name: str | None = field(default=None, metadata={"help": "name of the data in results and card"})
    data_licence: str | None = field(default=None, metadata={"help": "licence of the training data, for the card"})

    def __post_init__(self):
        if not self.languages or not self.train_data:
            raise ValueError("languages and train_data: give at least one of each.")
        for language in self.languages:
            check_languages(language, self.pivot)
        if twice := {language for language in self.languages if self.languages.count(language) > 1}:
            raise ValueError(f"languages={self.languages}: {', '.join(sorted(twice))} more than once.")
        if self.mixing not in MIXINGS:
            raise ValueError(f"mixing={self.mixing!r} is not one of {', '.join(MIXINGS)}.")
        for name in ("max_pairs", "mixing_temperature", "bucket", "max_length"):
            if not getattr(self, name) >= 1:
                raise ValueError(f"{name}={getattr(self, name)} is below 1.")
        for template in self.train_data:
            Source.parse(template)
            if len(self.languages) > 1 and template != "sample" and not re.search(r"\{(lang|pair)\}", template):
                raise ValueError(
                    f"train_data={template!r}: needs {{lang}} or {{pair}}, as there are several languages."
                )
        if self.sizes is not None and len(self.sizes) != len(self.languages):
            raise ValueError(f"sizes={self.sizes}: give one for each of the {len(self.languages)} languages.")


class Source(NamedTuple):
    """A template, taken apart."""

    data: str
    lines: str | None = None
    columns: tuple[str, str] | tuple[None, None] = (None, None)

    @classmethod
    def parse(cls, template: str) -> Source:
        """Split off `#source,target` and `@first-last`.

        Raises:
            ValueError: for a placeholder that is none of `PLACEHOLDERS`.
        """
        if unknown := set(re.findall(r"\{[^{}]*\}|[{}]", template)) - set(PLACEHOLDERS):
            names = ", ".join(PLACEHOLDERS)
            raise ValueError(f"train_data={template!r}: {', '.join(sorted(unknown))} is not one of {names}.")
        data, columns, lines = template, (None, None), None
        if match := re.fullmatch(r"(.+)#([^#,/]+),([^#,/]+)", data):
            data, columns = match[1], (match[2], match[3])
        if match := re.fullmatch(r"(.+)@(\d+-\d+)", data):
            data, lines = match[1], match[2]
        return cls(data, lines, columns)

    def fill(self, lang: str, pivot: str) -> Source:
        """The source of one language; {pair} is both codes in alphabetical order."""
        values = zip(PLACEHOLDERS, (lang, pivot, "-".join(sorted((lang, pivot)))))
        data, source, target = self.data, *self.columns
        for name, value in values:
            data = data.replace(name, value)
            source, target = (column and column.replace(name, value) for column in (source, target))
        return Source(data, self.lines, (source, target))

    def load(self, lang: str, pivot: str, *, split: str, streaming: bool) -> AnyDataset:
        """What `load_parallel` makes of it."""
        data, config = self.data, None
        if not Path(data).exists():
            if "+" in data:
                data = data.split("+")
            elif ":" in data:
                data, _, config = data.partition(":")
        source_column, target_column = self.columns
        return load_parallel(
            data,
            lang,
            pivot,
            split=split,
            config=config,
            source_column=source_column,
            target_column=target_column,
            lines=self.lines,
            streaming=streaming,
        ).select_columns(COLUMNS)


@dataclass
class HeldOutArguments:
    """What is tested on."""

    test_data: list[str] = field(
        default_factory=list, metadata={"help": "templates as in train_data; sample: the embedded corpus' test text"}
    )
    test_split: str = field(default="test", metadata={"help": "split of Hub datasets and of the sample"})
    tatoeba: str | None = field(default=None, metadata={"help": "folder or Hub id of the Tatoeba test sets"})


# Settings of the Trainer that the paper gives (section 4.2); transformers' defaults are others.
TRAINING_DEFAULTS = {
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


@dataclass
class DapArguments(HeldOutArguments, MultiCorpusArguments):
    """The encoder, the objectives and how they are computed; the paper's values are the defaults."""

    base_model: str = field(default="google-bert/bert-base-multilingual-cased", metadata={"help": "Hub id or folder"})
    base_revision: str | None = field(default=None, metadata={"help": "revision of the encoder"})
    pooling: str = field(default="cls", metadata={"help": "cls (paper), mean or last"})
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
    cache_dir: str = field(default="outputs/lengths", metadata={"help": "where the texts' lengths in tokens are kept"})
    lora: int = field(default=0, metadata={"help": "rank of LoRA adapters (0: train the whole encoder)"})
    lora_alpha: int = field(default=32, metadata={"help": "scale of the adapters"})

    def __post_init__(self):
        super().__post_init__()
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
        DapConfig(**self.model_fields())  # refuses bad values, here and not after an hour of reading

    @property
    def common_first(self) -> list[str]:
        """All languages, the common side first: the order of language embeddings."""
        return [self.pivot, *self.languages]

    def model_fields(self) -> dict:
        """The fields of `DapConfig` that the arguments set."""
        several = self.language_embeddings
        if several is None:
            several = self.rtl_direction != "xx-en"
        return {name: getattr(self, name) for name in _MODEL_FIELDS} | {"languages": self.common_first * several}
