"""The settings of a split, and all options of the disentangler's recipe."""

from __future__ import annotations

from dataclasses import dataclass

from hfxling.arguments import key
from hfxling.encoders.loading import parse_layer
from hfxling.methods.frozen import FROZEN_KEYS, FrozenArguments, check_choices
from hfxling.models.losses import SPLIT_LOSSES
from hfxling.values import check_counts

LEAST_PAIRS = 4  # fewest pairs of a language pair: two to train on, two for validation
OBJECTIVES = {"intra": ("mean", "lang"), "inter": ("cross", "sep"), "both": SPLIT_LOSSES}
CHOICES = {
    "objective": ("auto", *OBJECTIVES),
    "encoder_kind": ("auto", "encoder", "llm"),
    "init": ("share", "default", "published"),
}
# Trainer settings of a split that differ from transformers' defaults; from section 3.1 of the paper if it gives them.
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
    """How sentence vectors are split, and how the split is trained."""

    objective: str = key("intra, inter, both, or auto (chosen by the kind of encoder)", "auto")
    encoder_kind: str = key(
        "encoder or llm; auto finds out from base_model, so say which if there are only vectors", "auto"
    )
    both_sides: bool = key("separate meaning and language on the target side, too (eq. 4: on the source side)", False)
    init: str = key(
        "where training starts: share (half of e is meaning), default (torch's) or published (the split of base_model)",
        "share",
    )
    bias: bool = key("give the linear layer a bias", True)
    normalize_input: bool = key("scale the vectors to length 1 first", False)
    validation_share: float = key("share of the training pairs used for validation (paper: 0.1)", 0.1)
    patience: int = key("stop after this many epochs without a lower loss (paper: 3)", 3)
    geometry_pairs: int = key(
        "validation pairs of each language pair on which similarities are measured (paper: 1,000)", 1000
    )

    def __post_init__(self):
        check_choices(self, CHOICES)
        if self.patience < 1 or self.geometry_pairs < 2 or not 0 < self.validation_share < 1:
            raise ValueError(
                f"patience={self.patience} must be >= 1, geometry_pairs={self.geometry_pairs} >= 2, "
                f"validation_share={self.validation_share} between 0 and 1."
            )

    def head_fields(self) -> dict:
        """The fields of `DisentanglerConfig` that the split determines."""
        return {"bias": self.bias, "normalize_input": self.normalize_input}


@dataclass(frozen=True)
class DisentanglerArguments(SplitSettings, FrozenArguments):
    """The test sets with human scores, and how many splits there are."""

    qe: str | None = key("folder of MLQE; its test20 files (WMT20 QE) are tested on", None)
    qe_split: str = key("which files of the qe folder to test on: test20, or dev for choosing settings", "test20")
    sts: str | None = key("folder of STS17; its files are tested on", None)
    heads: str = key(
        "pair: one head for each language pair; joint: one for all; auto: pair with --qe, else joint", "auto"
    )
    probe_pairs: int = key("validation pairs of each language pair for the language probes; 0: no probes", 500)

    def __post_init__(self):
        FrozenArguments.__post_init__(self)
        SplitSettings.__post_init__(self)
        check_choices(self, {"heads": ("auto", "pair", "joint")})
        if not (self.qe or self.sts or self.test_sources()):
            raise ValueError("nothing to test on: give --qe FOLDER, --sts FOLDER or --test_data.")
        if self.init == "published" and self.base_model is None:
            raise ValueError("init='published' trains the split of a published model further: give --base_model.")
        check_counts(0, probe_pairs=self.probe_pairs)
        parse_layer(self.layer)  # refuses bad values now, not after an hour of encoding

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
