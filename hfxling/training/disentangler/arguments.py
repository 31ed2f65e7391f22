"""What the disentangler's recipe is told."""

from __future__ import annotations

from dataclasses import dataclass, field

from hfxling.data.parallel import check_languages
from hfxling.models.configuration_disentangler import DisentanglerConfig
from hfxling.models.losses import SPLIT_LOSSES
from hfxling.training.dap.arguments import Source
from hfxling.training.siamese.arguments import SiameseArguments


@dataclass
class PairCorpusArguments:
    """Which text is read, in which language pairs."""

    pairs: list[str] = field(metadata={"help": "language pairs source-target, e.g. en-de ne-en; their text is mixed"})
    train_data: list[str] = field(
        metadata={
            "help": "templates of Hub ids (org/name:config), files, or two aligned files joined by +, with {lang} "
            "(source), {pivot} (target), {pair}; @1-1543 picks lines; en-de=FILE is for one pair only; or sample"
        }
    )
    train_split: str = field(default="train", metadata={"help": "split of a Hub dataset"})
    qe: str | None = field(default=None, metadata={"help": "folder of MLQE: test on its test20 files (WMT20 QE)"})
    sts: str | None = field(default=None, metadata={"help": "folder of STS17: test on its files"})
    test_data: list[str] | None = field(
        default=None, metadata={"help": "templates of parallel test text, on which retrieval is measured"}
    )
    test_split: str = field(default="test", metadata={"help": "split of a Hub dataset"})
    max_train_pairs: int | None = field(default=None, metadata={"help": "use a sample of this many of each pair"})
    min_words: int = field(default=0, metadata={"help": "drop pairs whose shorter side has fewer words"})
    keep_leaks: bool = field(default=False, metadata={"help": "keep training pairs that the test text contains"})
    data_name: str | None = field(default=None, metadata={"help": "name of the data in results and card"})
    data_licence: str | None = field(default=None, metadata={"help": "licence of the training data, for the card"})
    limits: list[str] = field(default_factory=list, metadata={"help": "sentences for the card's list of limits"})

    def __post_init__(self):
        self.language_pairs  # noqa: B018 - refuses bad ones
        for template in (*self.train_data, *(self.test_data or ())):
            _restricted(template)
        if not (self.qe or self.sts or self.test_data):
            raise ValueError("nothing to test on: give --qe FOLDER, --sts FOLDER or --test_data.")

    @property
    def language_pairs(self) -> list[tuple[str, str]]:
        """Source and target language of every pair."""
        pairs = [tuple(pair.partition("-")[::2]) for pair in self.pairs]
        for pair in pairs:
            check_languages(*pair)
        if not pairs or len(set(pairs)) < len(pairs):
            raise ValueError(f"pairs={self.pairs}: give at least one, each once, such as en-de.")
        return pairs


def _restricted(template: str) -> tuple[str | None, Source]:
    """The pair that an entry `en-de=FILE` is for, and its template."""
    pair, mark, rest = template.partition("=")
    return (pair, Source.parse(rest)) if mark and "/" not in pair else (None, Source.parse(template))


OBJECTIVES = {"intra": ("mean", "lang"), "inter": ("cross", "sep"), "both": SPLIT_LOSSES}


CHOICES = {
    "objective": ("auto", "none", *OBJECTIVES),
    "encoder_kind": ("auto", "encoder", "llm"),
    "init": ("share", "default", "published"),
    "encode_dtype": ("float32", "bfloat16"),
}
# Settings of the Trainer that a split wants and transformers' defaults do not give: paper, section 3.1, where it says.
TRAINING_DEFAULTS = {
    "num_train_epochs": 100,  # early stopping ends it
    "per_device_train_batch_size": 512,  # paper
    "per_device_eval_batch_size": 512,
    "learning_rate": 1e-4,  # paper, Adam
    "optim": "adamw_torch_fused",  # without weight decay this is Adam
    "max_grad_norm": 0.0,
    "lr_scheduler_type": "constant",
    "eval_strategy": "epoch",
    "save_strategy": "epoch",
    "logging_strategy": "epoch",
    "load_best_model_at_end": True,
    "metric_for_best_model": "eval_loss",
    "greater_is_better": False,
    "save_total_limit": 1,
    "dataloader_pin_memory": False,  # a batch is 3 MB
    "report_to": "none",
}


@dataclass
class DisentanglerArguments(PairCorpusArguments):
    """The encoder, the split and how it is trained."""

    base_model: str | None = field(default=None, metadata={"help": "Hub id or folder of the frozen encoder"})
    base_revision: str | None = field(default=None, metadata={"help": "revision of the encoder"})
    layer: str = field(default="last", metadata={"help": "hidden_states index, 'last', or 'all' for their mean"})
    pooling: str = field(default="mean", metadata={"help": "mean, cls or last"})
    prompt: str | None = field(default=None, metadata={"help": "put before every text, the published model does too"})
    encode_dtype: str = field(default="float32", metadata={"help": "float32 or bfloat16, for the encoder's pass"})
    max_length: int | None = field(default=None, metadata={"help": "tokens kept of a text"})
    cache_dir: str = field(default="outputs/features", metadata={"help": "where frozen vectors are kept"})
    train_vectors: list[str] | None = field(
        default=None, metadata={"help": "PAIR=FILE+FILE: vectors of source and target in place of the encoder's"}
    )
    test_vectors: list[str] | None = field(
        default=None,
        metadata={"help": "the same of every test set, by its file's name (en-de, en-es-wmt) or pair"},
    )
    objective: str = field(default="auto", metadata={"help": "intra, inter, both, or auto: by the kind of encoder"})
    encoder_kind: str = field(default="auto", metadata={"help": "encoder or llm, where it cannot be seen (vectors)"})
    both_sides: bool = field(default=False, metadata={"help": "separate parts on the target side too (eq. 4: source)"})
    init: str = field(
        default="share", metadata={"help": "share: half of e is meaning; default (torch's); published: base_model's"}
    )
    bias: bool = field(default=True, metadata={"help": "bias in the linear layer"})
    normalize_input: bool = field(default=False, metadata={"help": "length-normalise the vectors first"})
    validation_share: float = field(default=0.1, metadata={"help": "of the training pairs (paper: 0.1)"})
    patience: int = field(default=3, metadata={"help": "stop after as many epochs without a lower loss (paper: 3)"})
    geometry_pairs: int = field(default=1000, metadata={"help": "validation pairs a language pair (paper: 1,000)"})
    probe_pairs: int = field(default=500, metadata={"help": "the same for the language probes; 0: no probes"})

    layer_index = SiameseArguments.layer_index

    def __post_init__(self):
        super().__post_init__()
        for name, allowed in CHOICES.items():
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name}={getattr(self, name)!r} is not one of {', '.join(allowed)}.")
        if self.base_model is None and not (self.train_vectors and self.test_vectors):
            raise ValueError("give --base_model (Hub id or folder), or --train_vectors and --test_vectors.")
        if (self.train_vectors is None) != (self.test_vectors is None):
            raise ValueError("--train_vectors and --test_vectors belong together: give both or neither.")
        if self.init == "published" and self.base_model is None:
            raise ValueError("init='published' goes on with a model's split: give it as --base_model.")
        if self.patience < 1 or self.geometry_pairs < 2 or not 0 < self.validation_share < 1:
            raise ValueError(
                f"patience={self.patience} must be >= 1, geometry_pairs={self.geometry_pairs} >= 2, "
                f"validation_share={self.validation_share} between 0 and 1."
            )
        DisentanglerConfig(**self.head_settings())  # refuses bad values, here and not after an hour of encoding

    def head_settings(self) -> dict:
        """The fields of `DisentanglerConfig` that the arguments set."""
        names = ("pooling", "prompt", "bias", "normalize_input")
        return {"layer": self.layer_index} | {name: getattr(self, name) for name in names}


SOURCE_KEYS = (
    *PairCorpusArguments.__dataclass_fields__,
    *("base_model", "base_revision", "layer", "pooling", "prompt", "encode_dtype", "max_length", "encoder_kind"),
    *("train_vectors", "test_vectors"),
)
