"""The settings of a split, and all that the disentangler's recipe takes."""

from __future__ import annotations

from dataclasses import dataclass

from hfxling.arguments import key
from hfxling.encoders.loading import parse_layer
from hfxling.methods.frozen import FROZEN_KEYS, FrozenArguments, check_choices
from hfxling.models.losses import SPLIT_LOSSES
from hfxling.values import check_counts

LEAST_PAIRS = 4  # of a language pair: two to train on, two for validation
OBJECTIVES = {"intra": ("mean", "lang"), "inter": ("cross", "sep"), "both": SPLIT_LOSSES}
CHOICES = {
    "objective": ("auto", *OBJECTIVES),
    "encoder_kind": ("auto", "encoder", "llm"),
    "init": ("share", "default", "published"),
}
# Settings of the Trainer that a split wants and transformers' defaults do not give: paper, section 3.1, where it says.
TRAINING_DEFAULTS = {
    "output_dir": "outputs/disentangler",
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
}


@dataclass(frozen=True)
class SplitSettings:
    """The split and how it is trained."""

    objective: str = key("intra, inter, both, or auto: by the kind of encoder", "auto")
    encoder_kind: str = key("encoder or llm, where it cannot be seen (vectors)", "auto")
    both_sides: bool = key("separate parts on the target side too (eq. 4: source)", False)
    init: str = key("share: half of e is meaning; default (torch's); published: base_model's", "share")
    bias: bool = key("bias in the linear layer", True)
    normalize_input: bool = key("length-normalise the vectors first", False)
    validation_share: float = key("of the training pairs (paper: 0.1)", 0.1)
    patience: int = key("stop after as many epochs without a lower loss (paper: 3)", 3)
    geometry_pairs: int = key("validation pairs a language pair (paper: 1,000)", 1000)

    def __post_init__(self):
        check_choices(self, CHOICES)
        if self.patience < 1 or self.geometry_pairs < 2 or not 0 < self.validation_share < 1:
            raise ValueError(
                f"patience={self.patience} must be >= 1, geometry_pairs={self.geometry_pairs} >= 2, "
                f"validation_share={self.validation_share} between 0 and 1."
            )

    def head_fields(self) -> dict:
        """The fields of `DisentanglerConfig` that the split decides."""
        return {"bias": self.bias, "normalize_input": self.normalize_input}


@dataclass(frozen=True)
class DisentanglerArguments(SplitSettings, FrozenArguments):
    """The test sets with human scores, and how many splits there are."""

    qe: str | None = key("folder of MLQE: test on its test20 files (WMT20 QE)", None)
    qe_split: str = key("of the qe folder: test20, or dev to choose settings by", "test20")
    sts: str | None = key("folder of STS17: test on its files", None)
    heads: str = key("pair: one a language pair; joint: one for all; auto: pair with --qe", "auto")
    probe_pairs: int = key("the same for the language probes; 0: no probes", 500)

    def __post_init__(self):
        FrozenArguments.__post_init__(self)
        SplitSettings.__post_init__(self)
        check_choices(self, {"heads": ("auto", "pair", "joint")})
        if not (self.qe or self.sts or self.test_sources()):
            raise ValueError("nothing to test on: give --qe FOLDER, --sts FOLDER or --test_data.")
        if self.init == "published" and self.base_model is None:
            raise ValueError("init='published' goes on with a model's split: give it as --base_model.")
        check_counts(0, probe_pairs=self.probe_pairs)
        parse_layer(self.layer)  # refuses bad values, before an hour of encoding

    @property
    def one_head_a_pair(self) -> bool:
        """Whether every language pair has a head of its own, which is then tested on that pair alone."""
        return self.heads == "pair" or (self.heads == "auto" and self.qe is not None)

    def origin(self) -> dict:
        """The fields of `DisentanglerConfig` that say where the vectors come from."""
        return {"layer": self.layer_index, "pooling": self.pooling, "prompt": self.text_prompt}

    def shared_key(self) -> tuple:
        """The same for runs that share text and vectors."""
        names = (*FROZEN_KEYS, "layer", "pooling", "encoder_kind", "qe", "qe_split", "sts", "one_head_a_pair")
        return self.key_of(names)
