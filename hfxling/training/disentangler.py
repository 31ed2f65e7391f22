"""The disentangler step by step: vectors, split, evaluation. The recipe and the studies are made of these steps."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from transformers import EarlyStoppingCallback, TrainingArguments, set_seed

from hfxling.evaluation.geometry import geometry_results
from hfxling.evaluation.probes import probe_result
from hfxling.evaluation.results import EvalResult, content_hash
from hfxling.evaluation.retrieval import rank_translations, ranking_results
from hfxling.evaluation.similarity import correlation_results, cosines
from hfxling.models.configuration_disentangler import DisentanglerConfig
from hfxling.models.modeling_disentangler import DisentanglerHead, DisentanglerModel

from .pair_corpus import PairCorpusArguments
from .siamese import SiameseArguments, trainer_arguments
from .split import OBJECTIVES, PairRows, SplitObjective, SplitTrainer, divide
from .split_data import SplitData, encode

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


@dataclass
class FittedSplit:
    """What training gave.

    Attributes:
        head: in evaluation mode, of the epoch with the lowest validation loss.
        objective: that was trained.
        about: epochs run, epoch kept, validation loss.
        trajectory: (epoch, L_align, L_uniform) of the validation pairs; epoch 0 is the untrained vectors.
    """

    head: DisentanglerHead
    objective: str
    about: dict
    trajectory: list[tuple[float, float, float]]


def default_objective(kind: str) -> str:
    """What the paper found best: both constraints for encoder models, the inter-part ones alone for LLMs' vectors."""
    return "inter" if kind == "llm" else "both"


def new_head(args: DisentanglerArguments, hidden_size: int) -> DisentanglerHead:
    """An untrained split, or the one that `base_model` was published with.

    Raises:
        ValueError: when that has no bias where one is asked for, or the other way round.
    """
    head = DisentanglerHead(DisentanglerConfig(**args.head_settings(), hidden_size=hidden_size))
    if args.init == "share":
        head.init_share()
    if args.init == "published":
        hub_kwargs = {"revision": args.base_revision} if args.base_revision else {}
        earlier = DisentanglerModel.from_pretrained(args.base_model, **hub_kwargs)
        wanted = earlier.config.head_dict() | args.head_settings()
        if earlier.config.head_dict() != wanted:
            raise ValueError(f"{args.base_model} was published with other settings: {earlier.config.head_dict()}.")
        head.load_state_dict(earlier.head.state_dict())
    return head


# What studies need of a method (see `study.py`), and what decides the text and the vectors of a row.
ARGUMENTS = DisentanglerArguments
SOURCE_KEYS = (
    *PairCorpusArguments.__dataclass_fields__,
    *("base_model", "base_revision", "layer", "pooling", "prompt", "encode_dtype", "max_length", "encoder_kind"),
    *("train_vectors", "test_vectors"),
)


def fit(args: DisentanglerArguments, training_args: TrainingArguments, data: SplitData) -> FittedSplit:
    """Train the split with early stopping.

    Raises:
        ValueError: for settings that early stopping cannot work with, too few pairs, or objective "none".
    """
    if not training_args.load_best_model_at_end:
        raise ValueError("early stopping needs load_best_model_at_end with evaluation and checkpoints every epoch.")
    objective = default_objective(data.kind) if args.objective == "auto" else args.objective
    if objective not in OBJECTIVES:
        raise ValueError(f"objective={objective!r} trains nothing; choose one of {', '.join(OBJECTIVES)}.")
    set_seed(training_args.seed)
    head = new_head(args, data.hidden_size)
    used, held = zip(*_division(args, data))
    pairs = _sides(data, held, args.geometry_pairs)
    place = {"dataset": "validation", "split": "validation"}
    trainer = SplitTrainer(
        SplitObjective(head, objective, args.both_sides),
        trainer_arguments(training_args),
        train_dataset=PairRows(data.train, used),
        eval_dataset=PairRows(data.train, held),
        evaluators=[lambda model: geometry_results([_meaning(model.head, sides) for sides in pairs], **place)],
        callbacks=[EarlyStoppingCallback(args.patience)],
    )
    trainer.train(resume_from_checkpoint=training_args.resume_from_checkpoint)
    start = [row.value for row in geometry_results(pairs, **place)]
    logged = [entry for entry in trainer.state.log_history if "eval_validation_alignment" in entry]
    epochs = [(row["epoch"], row["eval_validation_alignment"], row["eval_validation_uniformity"]) for row in logged]
    losses = [entry for entry in trainer.state.log_history if "eval_loss" in entry]
    best = min(losses, key=lambda entry: entry["eval_loss"])
    about = {"epochs": losses[-1]["epoch"], "best_epoch": best["epoch"], "validation_loss": best["eval_loss"]}
    return FittedSplit(head.eval().to("cpu"), objective, about, [(0.0, *start), *epochs])


def evaluate(
    args: DisentanglerArguments, data: SplitData, fitted: FittedSplit | None = None, seed: int | None = None
) -> list[EvalResult]:
    """Correlation with human scores, retrieval, geometry and language probes, before and after.

    Args:
        args: sizes of the samples.
        data: text and vectors.
        fitted: the split; None gives the rows of the vectors as they came alone, stage "before".
        seed: of the training run.
    """
    before = [cosines(*sides) for sides in data.scored]
    about = {"model": data.model}
    results = correlation_results(data.corpus.scored, before, settings={"stage": "before"}, **about)
    rankings = [_ranked(languages, sides) for languages, sides in zip(data.corpus.parallel, data.parallel)]
    for fields, found in zip(_retrieval_fields(data), rankings):
        results += ranking_results(found, settings={"stage": "before"}, **fields, **about)
    results += _on_validation(args, data, None, about)
    if fitted is None:
        return results
    about["seed"] = seed
    after = [cosines(*(split_vectors(fitted.head, side)[1] for side in sides)) for sides in data.scored]
    results += correlation_results(data.corpus.scored, after, baseline=before, settings={"stage": "after"}, **about)
    for fields, found, languages, sides in zip(_retrieval_fields(data), rankings, data.corpus.parallel, data.parallel):
        ranked = _ranked(languages, [split_vectors(fitted.head, side)[1] for side in sides])
        results += ranking_results(ranked, baseline=found, settings={"stage": "after"}, **fields, **about)
    return results + _on_validation(args, data, fitted, about)


def run(args: DisentanglerArguments, training_args: TrainingArguments, data: SplitData) -> list[EvalResult]:
    """Train, unless the objective is "none", and evaluate; "after" rows say how long the training took."""
    if args.objective == "none":
        return evaluate(args, data)
    start = time.process_time()
    fitted = fit(args, training_args, data)
    spent = fitted.about | {"train_cpu_s": round(time.process_time() - start, 1), "objective": fitted.objective}
    return [
        replace(row, settings=row.settings | spent) if row.settings["stage"] == "after" else row
        for row in evaluate(args, data, fitted, training_args.seed)
    ]


def study_row(args: DisentanglerArguments, training_args: TrainingArguments, cache: dict) -> list[EvalResult]:
    """One run of a study; text and vectors are shared by all runs that read the same."""
    key = json.dumps([getattr(args, name) for name in SOURCE_KEYS])
    if key not in cache:
        cache[key] = encode(args)
    return run(args, training_args, cache[key])


@torch.inference_mode()
def split_vectors(head: DisentanglerHead, vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(N, D) vectors e, their meaning parts and their language parts."""
    blocks = torch.from_numpy(np.array(vectors, dtype=np.float32)).split(65536)
    pooled = torch.cat([head.prepare(block) for block in blocks])
    meaning = torch.cat([head(block) for block in pooled.split(65536)])
    return pooled.numpy(), meaning.numpy(), (pooled - meaning).numpy()


def _on_validation(args: DisentanglerArguments, data: SplitData, fitted: FittedSplit | None, about: dict) -> list:
    """Geometry of held-out training pairs, and what a probe reads off them, of the vectors or of their parts."""
    fields = {"dataset": data.corpus.name, "split": "validation", "revision": data.corpus.revision(), **about}
    fields["settings"] = {"stage": "before" if fitted is None else "after"}
    held = [rows for _, rows in _division(args, data)]
    pairs = _sides(data, held, args.geometry_pairs)
    if fitted is None:
        results = geometry_results(pairs, **fields)
    else:
        results = geometry_results([_meaning(fitted.head, sides) for sides in pairs], baseline=pairs, **fields)
    if not args.probe_pairs:
        return results
    pairs, languages, groups = _sides(data, held, args.probe_pairs), [], []
    for number, (pair, (source, _)) in enumerate(zip(data.corpus.pairs, pairs)):
        for language in pair.languages:
            languages += [language] * len(source)
            groups += [(number, row) for row in range(len(source))]
    groups = np.unique(groups, axis=0, return_inverse=True)[1]
    vectors = np.concatenate([side for sides in pairs for side in sides])
    if fitted is None:
        return [*results, probe_result(vectors, languages, groups, **fields)]
    _, meaning, language = split_vectors(fitted.head, vectors)
    of_language = probe_result(language, languages, groups, metric="language accuracy of the language part", **fields)
    return [*results, probe_result(meaning, languages, groups, baseline=vectors, **fields), of_language]


def _division(args: DisentanglerArguments, data: SplitData) -> list[tuple[np.ndarray, np.ndarray]]:
    """Training and validation rows of each language pair, the same for every seed: runs compare on the same rows."""
    rng = np.random.default_rng(0)
    return [divide(len(source), args.validation_share, rng) for source, _ in data.train]


def _sides(data: SplitData, rows: Sequence[np.ndarray], limit: int) -> list[list[np.ndarray]]:
    """The vectors of a sample of the rows, at most `limit` of each language pair."""
    chosen = [np.sort(np.random.default_rng(0).permutation(part)[:limit]) for part in rows]
    return [[np.asarray(side[part], np.float32) for side in sides] for sides, part in zip(data.train, chosen)]


@torch.inference_mode()
def _meaning(head: DisentanglerHead, sides: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Meaning parts, on the device where the head is."""
    features = [torch.from_numpy(side).to(head.linear.weight.device) for side in sides]
    return [head(head.prepare(side)).cpu().numpy() for side in features]


def _ranked(languages: tuple[str, str], sides: Sequence[np.ndarray]) -> list:
    return rank_translations(*map(np.asarray, sides), source_lang=languages[0], target_lang=languages[1])


def _retrieval_fields(data: SplitData) -> list[dict]:
    return [
        {"dataset": data.corpus.name, "split": "test", "revision": content_hash(test["source"], test["target"])}
        for test in data.corpus.parallel.values()
    ]
