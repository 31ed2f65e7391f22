"""What the siamese recipe is told."""

from __future__ import annotations

from dataclasses import dataclass, field

from hfxling.data.corpus import CorpusArguments
from hfxling.models.configuration_siamese import SiameseConfig
from hfxling.models.losses import DISTANCES
from hfxling.models.pooling import POOLING_MODES

from .closed_form import CLOSED_FORMS, PER_LANGUAGE

STRATEGIES = ("random", "worst", "average", "easiest")


LOSSES = ("contrastive", "infonce")


@dataclass
class LossSettings:
    """What a head is trained for; defaults are the paper's, except where the docs say what measured better.

    Attributes:
        loss: "contrastive" (eq. 2) or "infonce" (in-batch softmax, both directions).
        distance: "euclidean", "cosine" or "manhattan".
        margin: m of eq. 2, in the unit of the distance.
        negatives: how a pool of wrong targets becomes one loss: "random" (a pool of one), "worst" (the largest loss),
            "average" or "easiest" (the smallest).
        pool_size: candidates in that pool.
        parallel_only: leave non-parallel pairs out.
        normalize_output: length-normalise before the distance.
        temperature: of the softmax.
    """

    loss: str = "contrastive"
    distance: str = "euclidean"
    margin: float = 1.0
    negatives: str = "worst"
    pool_size: int = 8
    parallel_only: bool = False
    normalize_output: bool = False
    temperature: float = 0.05

    def __post_init__(self):
        if self.loss not in LOSSES:
            raise ValueError(f"loss={self.loss!r} is not one of {', '.join(LOSSES)}.")
        if self.negatives not in STRATEGIES:
            raise ValueError(f"negatives={self.negatives!r} is not one of {', '.join(STRATEGIES)}.")
        if self.margin < 0 or self.temperature <= 0:
            raise ValueError(f"margin={self.margin} must be >= 0 and temperature={self.temperature} > 0.")


FITS = (*CLOSED_FORMS, *LOSSES)
CHOICES = {
    "fit": FITS,
    "init": ("identity", "default", "published"),
    "pooling": POOLING_MODES,
    "distance": DISTANCES,
    "encode_dtype": ("float32", "bfloat16"),
}
# Settings of the Trainer that a head wants and transformers' defaults do not give (paper, section 4.2).
TRAINING_DEFAULTS = {
    "num_train_epochs": 70,
    "per_device_train_batch_size": 64,
    "lr_scheduler_type": "constant",
    "logging_steps": 500,
    "save_steps": 2000,
    "save_total_limit": 1,
    "report_to": "none",
}


@dataclass
class SiameseArguments(CorpusArguments):
    """The encoder, the head and how it is fitted."""

    base_model: str | None = field(default=None, metadata={"help": "Hub id or folder of the frozen encoder"})
    base_revision: str | None = field(default=None, metadata={"help": "revision of the encoder"})
    layer: str = field(default="7", metadata={"help": "hidden_states index, 'last', or 'all' for their mean"})
    pooling: str = field(default="mean", metadata={"help": "mean, cls or last"})
    encode_dtype: str = field(default="float32", metadata={"help": "float32 or bfloat16, for the encoder's pass"})
    max_length: int | None = field(default=None, metadata={"help": "tokens kept of a text"})
    cache_dir: str = field(default="outputs/features", metadata={"help": "where frozen vectors are kept"})
    train_vectors: list[str] | None = field(
        default=None, metadata={"help": "two files of vectors (source, target) in place of the encoder's"}
    )
    test_vectors: list[str] | None = field(default=None, metadata={"help": "the same for the test text"})
    fit: str = field(default="cca", metadata={"help": f"one of {', '.join(FITS)}"})
    head: str = field(default="linear", metadata={"help": "linear, tanh, relu or tanh2"})
    bias: bool = field(default=False, metadata={"help": "bias in the head (closed forms always have one)"})
    init: str = field(
        default="identity", metadata={"help": "identity, default (torch's), or published: the head of base_model"}
    )
    per_language: bool = field(default=False, metadata={"help": "one map a language (cca, procrustes, ridge: always)"})
    normalize_input: bool = field(default=True, metadata={"help": "length-normalise the vectors before the head"})
    dropout: float = field(default=0.2, metadata={"help": "on the head's output (paper: 0.2)"})
    centering: str = field(default="none", metadata={"help": "none, or train: the model carries the languages' means"})
    distance: str = field(default="euclidean", metadata={"help": "euclidean, cosine or manhattan"})
    margin: float = field(default=1.0, metadata={"help": "of the contrastive loss (paper: 1.0)"})
    negatives: str = field(default="worst", metadata={"help": "random, worst, average or easiest"})
    pool_size: int = field(default=8, metadata={"help": "candidates a negative is chosen from"})
    parallel_only: bool = field(default=False, metadata={"help": "contrastive loss without non-parallel pairs"})
    normalize_output: bool = field(default=False, metadata={"help": "length-normalise before the distance"})
    temperature: float = field(default=0.05, metadata={"help": "of the in-batch softmax"})

    def __post_init__(self):
        for name, allowed in CHOICES.items():
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name}={getattr(self, name)!r} is not one of {', '.join(allowed)}.")
        if self.fit in CLOSED_FORMS and self.head != "linear":
            raise ValueError(f"head={self.head!r}: closed forms are linear; use --fit contrastive or infonce.")
        if self.init == "published" and (self.fit in CLOSED_FORMS or self.base_model is None):
            raise ValueError(
                "init='published' goes on training a head: use --fit contrastive or infonce, --base_model."
            )
        if self.base_model is None and self.train_vectors is None:
            raise ValueError("give --base_model (Hub id or folder), or --train_vectors and --test_vectors.")
        if (self.train_vectors is None) != (self.test_vectors is None):
            raise ValueError("--train_vectors and --test_vectors belong together: give both or neither.")
        self.loss_settings()  # these two refuse bad values, here and not after an hour of encoding
        SiameseConfig(layer=self.layer_index, **self.head_settings())

    @property
    def languages(self) -> list[str]:
        """Source and target language."""
        return [self.source_lang, self.target_lang]

    @property
    def layer_index(self) -> int | str | None:
        """The layer as `load_encoder` takes it."""
        if self.layer in ("last", "all"):
            return None if self.layer == "last" else "all"
        if not self.layer.isdigit():
            raise ValueError(f"layer={self.layer!r}: give a number (0 = embedding output), 'last' or 'all'.")
        return int(self.layer)

    def loss_settings(self) -> LossSettings:
        """The fields that the loss needs."""
        loss = self.fit if self.fit in LOSSES else "contrastive"
        names = ("distance", "margin", "negatives", "pool_size", "parallel_only", "normalize_output", "temperature")
        return LossSettings(loss=loss, **{name: getattr(self, name) for name in names})

    def head_settings(self) -> dict:
        """The fields of `SiameseConfig` that the head needs."""
        closed = self.fit in CLOSED_FORMS
        return {
            "languages": self.languages,
            "per_language": self.fit in PER_LANGUAGE or (self.per_language and not closed),
            "head": self.head,
            "bias": self.bias or closed,
            "dropout": self.dropout,
            "normalize_input": self.normalize_input,
            "centering": self.centering,
        }
