"""The siamese method step by step: vectors, head, evaluation. The recipe and the studies are made of these steps."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from transformers import TrainingArguments, set_seed

from hfxling.data.coverage import check_coverage
from hfxling.data.features import load_vectors
from hfxling.evaluation.results import EvalResult
from hfxling.evaluation.retrieval import CENTERINGS, Ranking, language_mean, rank_translations, ranking_results
from hfxling.models.configuration_siamese import SiameseConfig
from hfxling.models.losses import DISTANCES
from hfxling.models.modeling_siamese import SiameseHead, SiameseModel
from hfxling.models.pooling import POOLING_MODES

from .closed_form import CLOSED_FORMS, PER_LANGUAGE, fit_closed_form
from .corpus import Corpus, CorpusArguments
from .frozen import FrozenEncoder
from .heads import LOSSES, HeadObjective, LossSettings, PairRows, set_affine
from .trainer import XlingTrainer

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


ARGUMENTS = SiameseArguments  # for studies


@dataclass
class PairVectors:
    """Frozen vectors of a corpus: (N, H) arrays, rows aligned."""

    train: tuple[np.ndarray, np.ndarray]
    test: tuple[np.ndarray, np.ndarray]

    @property
    def hidden_size(self) -> int:
        """H."""
        return self.train[0].shape[1]


def encode_corpus(args: SiameseArguments, corpus: Corpus, views: Sequence | None = None) -> list[PairVectors]:
    """Frozen vectors of both splits, one `PairVectors` for each (layer, pooling) view, from one pass of the encoder.

    Warns when the encoder's vocabulary does not cover a language or texts are longer than it can read.
    """
    if args.train_vectors:
        return [read_vectors(args, corpus)]
    encoder = frozen_encoder(args, views)
    arrays, coverage = {}, []
    for side, lang in (("source", args.source_lang), ("target", args.target_lang)):
        texts = [*corpus.train[side], *corpus.test[side]]
        found = check_coverage(encoder.tokenizer, texts, lang, encoder.max_length)
        coverage.append(f"{lang} {found.unknown_rate:.1%} unknown, {found.truncated} of {found.total} texts cut")
        for split in ("train", "test"):
            texts = getattr(corpus, split)[side]
            arrays[split, side] = encoder.features(texts, args.cache_dir, f"{lang} {split}")
    corpus.coverage = f"Characters the vocabulary lacks, texts past {encoder.max_length} tokens: {'; '.join(coverage)}."
    return [
        PairVectors(*(tuple(arrays[split, side][:, i] for side in ("source", "target")) for split in ("train", "test")))
        for i in range(len(encoder.views))
    ]


def frozen_encoder(args: SiameseArguments, views: Sequence | None = None) -> FrozenEncoder:
    """The encoder that the arguments name."""
    with one_line_where_missing(args.base_model):
        return FrozenEncoder(
            args.base_model,
            views or [(args.layer_index, args.pooling)],
            dtype=args.encode_dtype,
            max_length=args.max_length,
            hub_kwargs={"revision": args.base_revision} if args.base_revision else None,
        )


@contextmanager
def one_line_where_missing(base_model: str) -> Iterator[None]:
    """Turn what transformers says of a folder or Hub repository that is not there into one line."""
    try:
        yield
    except OSError as error:
        cause = str(error).partition("\n")[0]
        raise FileNotFoundError(
            f"base_model={base_model!r} is neither the folder of an encoder with its tokenizer nor to be had from "
            f"the Hub ({cause}); check the name and the connection."
        ) from None


def read_vectors(args: SiameseArguments, corpus: Corpus) -> PairVectors:
    """The vectors that were given in place of the encoder's: one for every pair as it was read, dropped ones included.

    Raises:
        ValueError: for malformed files (see `load_vectors`), different widths, or vectors that are not the encoder's
            where one is given too: the published model would not be the one that was measured.
    """
    train = tuple(load_vectors(path, rows=corpus.read) for path in _two(args.train_vectors))
    test = tuple(load_vectors(path, rows=len(corpus.test)) for path in _two(args.test_vectors))
    widths = {array.shape[1] for array in (*train, *test)}
    if len(widths) > 1:
        raise ValueError(f"the vector files have different widths {sorted(widths)}; all four must agree.")
    if len(corpus.train) < corpus.read:
        train = tuple(array[corpus.train["row"]] for array in train)
    if args.base_model is not None:
        encoder = frozen_encoder(args)
        if widths != {encoder.hidden_size}:
            raise ValueError(f"the vectors are {widths.pop()} wide, those of {args.base_model} {encoder.hidden_size}.")
        for path, side, given in zip(args.test_vectors, ("source", "target"), test):
            cosine = (_unit(encoder(corpus.test[side][:8])[:, 0]) * _unit(given[:8])).sum(1)
            if cosine.min() < 0.995:  # bfloat16 costs 1e-4, the next layer 0.03 or more
                raise ValueError(
                    f"{path}: row {cosine.argmin() + 1} is not what layer {args.layer} ({args.pooling}) of "
                    f"{args.base_model} gives for its text (cosine {cosine.min():.2f}); give the --layer and --pooling "
                    "that the vectors were made with, or leave --base_model out to publish the head alone."
                )
    return PairVectors(train, test)


def new_head(args: SiameseArguments, hidden_size: int) -> SiameseHead:
    """An untrained head as the arguments describe it."""
    head = SiameseHead(SiameseConfig(hidden_size=hidden_size, layer=None, **args.head_settings()))
    if args.init == "identity":
        head.init_identity()
    if args.init == "published":
        hub_kwargs = {"revision": args.base_revision} if args.base_revision else {}
        earlier = SiameseModel.from_pretrained(args.base_model, **hub_kwargs).head
        if {k: v.shape for k, v in earlier.state_dict().items()} != {k: v.shape for k, v in head.state_dict().items()}:
            raise ValueError(
                f"{args.base_model} has a head of another kind ({earlier.config.head_dict()}); "
                "give the same --head, --bias, --per_language and --centering."
            )
        head.load_state_dict(earlier.state_dict())
    return head


def fit_head(
    args: SiameseArguments, training_args: TrainingArguments, vectors: PairVectors, target_texts: Sequence[str]
) -> tuple[SiameseHead, dict]:
    """Fit a head on the training vectors, in closed form or with the Trainer.

    Returns:
        The head in evaluation mode with its languages' means, and what the fit chose (shrinkage) or reached (loss).
    """
    set_seed(training_args.seed)
    head = new_head(args, vectors.hidden_size)
    if args.fit in CLOSED_FORMS:
        source, target = (_unit(array) if args.normalize_input else np.asarray(array) for array in vectors.train)
        of_source, of_target, chosen = fit_closed_form(args.fit, source, target, seed=training_args.seed)
        set_affine(head, {args.source_lang: of_source, args.target_lang: of_target})
    else:
        settings = args.loss_settings()
        source, target = (torch.from_numpy(np.array(array)) for array in vectors.train)
        rows = PairRows(source, target, target_texts, settings, seed=training_args.seed)
        trainer = XlingTrainer(
            HeadObjective(head, args.languages, settings),
            trainer_arguments(training_args),
            train_dataset=rows,
            data_collator=rows.collate,
        )
        reached = trainer.train(resume_from_checkpoint=training_args.resume_from_checkpoint)
        chosen = {"steps": reached.global_step}
        if not training_args.resume_from_checkpoint:  # the Trainer forgets the losses from before a checkpoint
            chosen["train_loss"] = reached.training_loss
    head.eval().to("cpu")
    if head.centers:
        plain = {lang: plain_output(head, x, lang) for lang, x in zip(args.languages, vectors.train)}
        head.set_means({lang: torch.from_numpy(language_mean(output)) for lang, output in plain.items()})
    return head, chosen


def trainer_arguments(training_args: TrainingArguments) -> TrainingArguments:
    """The Trainer's arguments for training on cached vectors: it neither drops columns nor pushes checkpoints."""
    changed = copy.copy(training_args)
    changed.remove_unused_columns = False
    changed.push_to_hub = False
    return changed


def rank_head(
    args: SiameseArguments,
    vectors: PairVectors,
    head: SiameseHead | None,
    *,
    centerings: Sequence[str] = CENTERINGS,
    methods: Sequence[str] = ("cosine",),
) -> list[Ranking]:
    """Test retrieval with the head's output (the frozen vectors themselves for None) under every centring."""

    def apply(pair: tuple[np.ndarray, np.ndarray]) -> list[np.ndarray]:
        if head is None:
            return [np.asarray(array) for array in pair]
        return [plain_output(head, array, lang) for array, lang in zip(pair, args.languages)]

    test = apply(vectors.test)
    means = None
    if "train" in centerings:
        means = tuple(language_mean(array) for array in apply(vectors.train))
    rankings = []
    for centering in centerings:
        rankings += rank_translations(
            *test,
            source_lang=args.source_lang,
            target_lang=args.target_lang,
            centering=centering,
            means=means if centering == "train" else None,
            methods=methods,
            csls_k=min(10, len(test[0])),
        )
    return rankings


def evaluate_head(
    args: SiameseArguments,
    corpus: Corpus,
    vectors: PairVectors,
    head: SiameseHead,
    seed: int,
    methods: Sequence[str] = ("cosine", "csls"),
) -> list[EvalResult]:
    """P@1 and P@5 before and after, both directions, every centring, each "after" row tested against its "before"."""
    before = rank_head(args, vectors, None, methods=methods)
    after = rank_head(args, vectors, head, methods=methods)
    fields = corpus.result_fields()
    name = model_name(args)
    return ranking_results(before, settings={"stage": "before"}, model=name, **fields) + ranking_results(
        after,
        baseline=before,
        settings={"stage": "after"},
        model=name,
        seed=seed,
        **fields,
    )


def model_name(args: SiameseArguments) -> str:
    """The encoder's name without the folders above it."""
    if args.base_model is None:
        return "vectors"
    return Path(args.base_model).name if Path(args.base_model).exists() else args.base_model


@torch.inference_mode()
def plain_output(head: SiameseHead, vectors: np.ndarray, lang: str) -> np.ndarray:
    """The head's raw output, before any centring."""
    blocks = torch.from_numpy(np.array(vectors, dtype=np.float32)).split(65536)
    return torch.cat([head.project(block, lang) for block in blocks]).numpy()


def _unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def _two(paths: list[str]) -> list[str]:
    if len(paths) != 2:
        raise ValueError(f"{' '.join(paths)}: give two files of vectors, the source's and the target's.")
    return paths
