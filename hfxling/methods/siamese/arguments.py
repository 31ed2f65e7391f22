"""The settings of a head, and all options of the siamese recipe."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from hfxling.arguments import key
from hfxling.data.sources import SAMPLE, Source
from hfxling.methods.frozen import FROZEN_KEYS, FrozenArguments, check_choices
from hfxling.models.configuration_siamese import SiameseConfig
from hfxling.models.losses import DISTANCES
from hfxling.sentences.neighbours import TIE

from .closed_form import CLOSED_FORMS, PER_LANGUAGE

LOSSES = ("contrastive", "infonce")
AUTO = "auto"
OWN = "own"  # in place of a layer: the head maps the encoder's own sentence vectors, whatever modules make them
FITS = (AUTO, *CLOSED_FORMS, *LOSSES)
INPUTS = ("plain", "centred", "whitened")  # what a trained head starts from
# How a pool of candidates becomes one loss. We read the paper's "worst" as the candidate with the largest loss, that is
# the closest one. Its prose also fits the opposite, the farthest one, which is offered as "easiest".
STRATEGIES = ("random", "worst", "average", "easiest")
CHOICES = {
    "fit": FITS,
    "init": ("identity", "default", "published"),
    "inputs": INPUTS,
    "distance": DISTANCES,
    "negatives": STRATEGIES,
}
GOES_ON = "init='published' trains a published head further: use --fit contrastive or infonce, and --base_model."
# Trainer settings of a head that differ from transformers' defaults (paper, section 4.2).
TRAINING_DEFAULTS = {
    "output_dir": "outputs/siamese",
    "num_train_epochs": 70,
    "per_device_train_batch_size": 64,
    "lr_scheduler_type": "constant",
    "logging_steps": 500,
    "save_steps": 2000,
    "save_total_limit": 1,
    "dataloader_pin_memory": torch.cuda.is_available(),
}


@dataclass(frozen=True)
class HeadSettings:
    """The head and how it is fitted; defaults are the paper's, except where the docs say what measured better."""

    fit: str = key(
        f"one of {', '.join(FITS)}; auto takes what finds most held-out translations, which may be the encoder alone",
        AUTO,
    )
    one_map: bool = key("with --fit auto: consider only heads that need not know a text's language", False)
    head: str = key("form of the head: linear, tanh, relu or tanh2", "linear")
    bias: bool = key("give the head a bias (closed forms always have one)", False)
    init: str = key(
        "where training starts: identity, default (torch's) or published (the head of base_model)", "identity"
    )
    per_language: bool = key("one map for each language (cca, procrustes and ridge always have that)", False)
    normalize_input: bool = key("scale the vectors to length 1 before the head", True)
    center_input: bool | None = key(
        "subtract the languages' means from these vectors and normalise again; default: only with several layers and "
        "one map for each language",
        None,
    )
    input_power: float = key(
        "centred inputs are divided by each layer's covariance to this power: 0 only centres, 0.5 whitens", 0.25
    )
    inputs: str = key(
        "vectors that a trained head gets: plain, centred or whitened; each language by itself with --per_language "
        "true, otherwise both together",
        "plain",
    )
    dropout: float = key("dropout on the head's output (paper: 0.2)", 0.2)
    centering: str = key("none, or train: the model itself subtracts the languages' means", "none")
    distance: str = key("distance of the contrastive loss: euclidean, cosine or manhattan", "euclidean")
    margin: float = key("m of the contrastive loss, eq. 2 (paper: 1.0)", 1.0)
    negatives: str = key("which of a pool is the negative: random, worst (the closest), average or easiest", "worst")
    pool_size: int = key("number of candidates from which a negative is chosen", 8)
    parallel_only: bool = key("contrastive loss without non-parallel pairs", False)
    normalize_output: bool = key("scale the head's output to length 1 before the distance", False)
    temperature: float = key("temperature of the in-batch softmax", 0.05)

    def __post_init__(self):
        check_choices(self, CHOICES)
        if self.is_affine and self.head != "linear":
            raise ValueError(f"head={self.head!r}: closed forms are linear; use --fit contrastive or infonce.")
        if self.one_map and (self.fit in PER_LANGUAGE or self.per_language):
            raise ValueError(
                f"one_map=True: fit={self.fit!r} has a map for each language; use --fit auto or discriminant."
            )
        if self.inputs != "plain" and (self.is_affine or self.init == "published"):
            raise ValueError(
                f"inputs={self.inputs!r}: closed forms and published heads have this step built in; use --fit "
                "contrastive or infonce with --init identity."
            )
        if self.init == "published" and self.is_affine:
            raise ValueError(GOES_ON)
        if not 0 <= self.input_power <= 0.5:
            raise ValueError(f"input_power={self.input_power}: give a number from 0 (centred) to 0.5 (whitened).")
        if not (0 <= self.margin < math.inf and 0 < self.temperature < math.inf and self.pool_size >= 1):
            raise ValueError(
                f"margin={self.margin} must be >= 0, temperature={self.temperature} > 0, pool_size={self.pool_size} "
                ">= 1."
            )
        self.head_config(768, ("zh", "vi"))  # refuses bad values now, not after an hour of encoding

    @property
    def is_affine(self) -> bool:
        """Whether the fit gives affine maps, rather than a head trained by the Trainer."""
        return self.fit == AUTO or self.fit in CLOSED_FORMS

    def head_config(
        self, width: int, languages: Sequence[str], layers: tuple[int, ...] | None = None, **fitted
    ) -> SiameseConfig:
        """The configuration of the head alone.

        Args:
            width: width of the vectors that it maps (of several layers: side by side).
            languages: codes of source and target.
            layers: the layers whose vectors stand side by side; None for a single one.
            **fitted: fields that the fit determined.
        """
        if self.fit == AUTO:  # what may be chosen; the fit says what was chosen
            per_language = not self.one_map
        elif self.is_affine:
            per_language = self.fit in PER_LANGUAGE
        else:
            per_language = self.per_language
        center_input = self.center_input
        if center_input is None:
            center_input = layers is not None and per_language
        settings = {
            "layer": layers,
            "hidden_size": width // len(layers or (1,)),
            "languages": list(languages),
            "per_language": per_language,
            "head": self.head,
            "bias": self.bias or self.is_affine,
            "dropout": self.dropout,
            "normalize_input": self.normalize_input,
            "center_input": center_input,
            "centering": self.centering,
        }
        return SiameseConfig(**settings | fitted)


@dataclass(frozen=True)
class SiameseArguments(HeadSettings, FrozenArguments):
    """The layer, the share of the text and how the head is tested."""

    layer: str = key(
        "layer to read: hidden_states index, 'last', or 'all' for the mean of all layers; 0,3,6: several side by side; "
        "auto: those that find most translations among the training pairs",
        "7",
    )
    fraction: float = key("share of the training pairs to use, drawn anew for every seed", 1.0)
    paragraphs: bool = key("test on paragraphs of 30 to 50 words (paper, Table 12)", False)
    similarities: list[str] = key("how to compare test sentences: cosine, csls or both", ["cosine", "csls"])

    def __post_init__(self):
        FrozenArguments.__post_init__(self)
        HeadSettings.__post_init__(self)
        if len(self.pairs) != 1:
            raise ValueError(f"pairs={self.pairs}: a head is for one language pair; give one, such as zh-vi.")
        if self.layer == AUTO and self.base_model is None:
            raise ValueError("layer='auto' chooses among an encoder's layers; give --base_model and no vectors.")
        if self.train_vectors and (self.layer == AUTO or self.layers):
            raise ValueError(
                f"layer={self.layer!r}: several layers are read from the encoder; leave --train_vectors out."
            )
        if self.init == "published" and self.base_model is None:
            raise ValueError(GOES_ON)
        if not self.similarities or not set(self.similarities) <= set(TIE):
            raise ValueError(f"similarities={self.similarities}: give one or more of {', '.join(TIE)}.")
        if not 0 < self.fraction <= 1:
            raise ValueError(f"fraction={self.fraction}: give a share above 0 and at most 1.")
        # Refuses bad values now, not after an hour of encoding.
        self.head_config(768, self.languages, self.layers, prompt=self.prompt)

    @property
    def layer_index(self) -> int | str | tuple[int, ...] | None:
        """The layer as `load_encoder` takes it, several as a tuple; "auto" and "own" are kept as they are."""
        numbers = self.layer.split(",")
        if len(numbers) > 1 and all(number.strip().isdigit() for number in numbers):
            return tuple(sorted({int(number) for number in numbers}))
        return self.layer if self.layer in (AUTO, OWN) else super().layer_index

    @property
    def layers(self) -> tuple[int, ...] | None:
        """The layers whose vectors stand side by side; None for a single one."""
        return self.layer_index if isinstance(self.layer_index, tuple) else None

    def single_layers(self) -> list[int | str | None]:
        """The layers that are read from the encoder."""
        if self.layer == OWN:
            raise ValueError(f"layer={OWN!r} is for hfxling fit only; give a number, 'last', 'all' or 'auto'.")
        if self.layer_index == AUTO:
            return list(range(self.encoder_config().num_hidden_layers + 1))
        return list(self.layers or [self.layer_index])

    def test_sources(self) -> list[str]:
        """By default the test split of those training data that have splits: the sample, data sets of the Hub."""
        if self.test_data is not None:
            return self.test_data
        (pair,) = self.language_pairs
        with_splits = []
        for text in dict.fromkeys(self.train_data):
            source = Source.parse(text)
            if source.data == SAMPLE or not source.files(pair):
                with_splits.append(text)
        return with_splits

    def shared_key(self) -> tuple:
        """The same for runs that share text and encoder."""
        return self.key_of((*FROZEN_KEYS, "paragraphs"))
