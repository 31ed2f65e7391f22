"""Fine-tune an encoder on English natural language inference, and test it in other languages (XNLI).

python examples/xnli.py --config examples/configs/xnli/mbert.yaml [--base_model DIR_OR_HUB_ID] [--key value ...]

The best epoch is chosen on the English development examples alone. OUTPUT_DIR/model is the classifier, for
`AutoModelForSequenceClassification`, with its results.json.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    DataCollatorWithPadding,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    TrainingArguments,
    set_seed,
)

from hfxling.arguments import key, parse_arguments
from hfxling.console import run as run_recipe
from hfxling.data.readers import read_lines, suffix_of
from hfxling.encoders.frozen import token_limit
from hfxling.encoders.identity import model_name
from hfxling.evaluation.averages import macro_average, mean_result
from hfxling.evaluation.results import EvalResult, format_table, interval_told
from hfxling.evaluation.significance import mean_interval
from hfxling.files import content_hash
from hfxling.methods.publishing import Run, check_run, training_cost, write_run
from hfxling.methods.trainer import XlingTrainer
from hfxling.missing import one_line_where_missing
from hfxling.models.loading import quiet_loading

if TYPE_CHECKING:
    from datasets import Dataset


LABELS = ("entailment", "neutral", "contradiction")  # in the order of facebook/xnli
COLUMNS = ("premise", "hypothesis", "label")
# XNLI's languages (Conneau et al. 2018).
XNLI_LANGUAGES = ("en", "ar", "bg", "de", "el", "es", "fr", "hi", "ru", "sw", "th", "tr", "ur", "vi", "zh")
# DAP paper, table 9. It does not state warm-up and schedule; here it is the Trainer's linear decay without warm-up.
TRAINING_DEFAULTS = {
    "output_dir": "outputs/xnli",
    "per_device_train_batch_size": 256,
    "per_device_eval_batch_size": 256,
    "learning_rate": 5e-5,
    "num_train_epochs": 2,
    "weight_decay": 0.0,
    "eval_strategy": "epoch",
    "save_strategy": "epoch",
    "save_total_limit": 2,
    "load_best_model_at_end": True,
    "metric_for_best_model": "accuracy",
    "logging_steps": 50,
    "dataloader_pin_memory": torch.cuda.is_available(),
}


@dataclass
class NliArguments:
    """The encoder and the data."""

    base_model: str = key("Hub id or folder of the encoder")
    base_revision: str | None = key("branch, tag or commit of the encoder on the Hub", None)
    train_data: str = key(
        "TSV file with the columns premise, hypothesis and label ({lang} in its name stands for the language), or Hub "
        "id; such data is not parallel text, so the sources of docs/text.md do not apply",
        "facebook/xnli",
    )
    train_split: str = key("training split, if train_data is a Hub data set", "train")
    train_lang: str = key("language of training and development", "en")
    dev_data: str | None = key("development data; default: train_data, or a share of it if it is a local file", None)
    dev_split: str = key("development split, if dev_data is a Hub data set", "validation")
    dev_share: float = key("share of the premises of a local train_data that is kept for development", 0.1)
    test_data: str | None = key("test data, given like train_data; default: train_data", None)
    test_split: str = key("test split, if test_data is a Hub data set", "test")
    test_langs: list[str] = key("languages to test in", list(XNLI_LANGUAGES))
    dataset_revision: str | None = key("branch, tag or commit of the Hub data sets", None)
    data_name: str = key("name of the data in the results", "xnli")
    max_length: int = key("most tokens of premise and hypothesis together (paper: 128)", 128)
    max_train_rows: int | None = key("train on a random sample of this many examples (it depends on the seed)", None)

    def __post_init__(self):
        if not 0 < self.dev_share < 1:
            raise ValueError(f"dev_share={self.dev_share}: give a share between 0 and 1, e.g. 0.1.")
        if not self.test_langs:
            raise ValueError("test_langs is empty; name the languages to test, e.g. --test_langs en sw ur.")
        if self.max_train_rows is not None and self.max_train_rows < 1:
            raise ValueError(f"max_train_rows={self.max_train_rows}: give 1 or more.")
        if self.test_data is None and suffix_of(self.train_data) == ".tsv":
            raise ValueError(f"train_data={self.train_data} is one file; give --test_data test.{{lang}}.tsv as well.")
        test = self.test_data or self.train_data
        if suffix_of(test) == ".tsv" and "{lang}" not in test and len(self.test_langs) > 1:
            raise ValueError(f"test_data={test} is one file for {len(self.test_langs)} languages; put {{lang}} in it.")


@dataclass
class NliData:
    """Training and development examples in one language, and test examples in all."""

    train: Dataset
    dev: Dataset
    test: dict[str, Dataset]


def load_nli_data(args: NliArguments, seed: int = 0) -> NliData:
    """Read the data that the arguments name; without `dev_data` a local training file is split by premises."""
    revision = args.dataset_revision
    train = load_nli(args.train_data, args.train_lang, split=args.train_split, revision=revision)
    if args.dev_data is None and suffix_of(args.train_data) == ".tsv":
        train, dev = split_by_premise(train, args.dev_share, seed)
    else:
        dev = load_nli(args.dev_data or args.train_data, args.train_lang, split=args.dev_split, revision=revision)
    if args.max_train_rows is not None and args.max_train_rows < len(train):
        train = train.shuffle(seed=seed).select(range(args.max_train_rows))
    test_data = args.test_data or args.train_data
    test = {lang: load_nli(test_data, lang, split=args.test_split, revision=revision) for lang in args.test_langs}
    return NliData(train, dev, test)


def split_by_premise(dataset: Dataset, share: float, seed: int) -> tuple[Dataset, Dataset]:
    """Two parts without a common premise, as every premise comes with a hypothesis of each label."""
    premises = dataset["premise"][:]
    distinct = sorted(set(premises))
    if len(distinct) < 2:
        raise ValueError("all training examples have the same premise; give --dev_data.")
    count = min(max(1, round(share * len(distinct))), len(distinct) - 1)
    kept_out = set(np.random.default_rng(seed).choice(distinct, count, replace=False).tolist())
    rows: tuple[list[int], list[int]] = ([], [])
    for row, premise in enumerate(premises):
        rows[premise in kept_out].append(row)
    return dataset.select(rows[0]), dataset.select(rows[1])


def load_classifier(
    name: str, revision: str | None = None, *, seed: int = 0
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """A sequence classifier with an untrained head on an encoder, in float32, and its tokenizer.

    Args:
        name: Hub id or folder of the encoder.
        revision: branch, tag or commit of the encoder.
        seed: seed of the head's initial weights.

    Raises:
        FileNotFoundError: no such folder or Hub repository.
        ValueError: a checkpoint that lacks weights of its encoder or has NaN, or a tokenizer without padding.
    """
    set_seed(seed)
    # Quiet, as the untrained head would be reported as missing; other missing weights are checked below.
    with quiet_loading(), one_line_where_missing(name):
        model, info = AutoModelForSequenceClassification.from_pretrained(
            name,
            revision=revision,
            trust_remote_code=False,
            output_loading_info=True,
            dtype=torch.float32,
            ignore_mismatched_sizes=True,  # a head for other labels is replaced by a new one
            id2label=dict(enumerate(LABELS)),
            label2id={label: i for i, label in enumerate(LABELS)},
        )
        tokenizer = AutoTokenizer.from_pretrained(name, revision=revision, trust_remote_code=False)
    prefix = f"{model.base_model_prefix}."
    lacking = [*info["missing_keys"], *(key for key, *_ in info["mismatched_keys"])]
    lacking = [key for key in lacking if key.startswith(prefix) and ".pooler." not in key]
    if lacking:
        raise ValueError(f"{name!r} lacks {len(lacking)} weights of its encoder (first: {lacking[0]}); give another.")
    for weight, tensor in model.state_dict().items():
        if not torch.isfinite(tensor).all():
            raise ValueError(f"base_model={name!r}: {weight} holds NaN or infinite numbers; give another.")
    if tokenizer.pad_token_id is None:
        raise ValueError(f"{name!r} has a tokenizer without a padding token; give an encoder's.")
    _draw_empty_pooler(model)
    return model, tokenizer


def _draw_empty_pooler(model: PreTrainedModel) -> None:
    """Initialise a pooler of zeros, which our folders have if the encoder had none, as its output is useless."""
    pooler = getattr(model.base_model, "pooler", None)
    dense = getattr(pooler, "dense", None)
    if dense is not None and not dense.weight.any():
        torch.nn.init.normal_(dense.weight, std=getattr(model.config, "initializer_range", 0.02))


def tokenize(dataset: Dataset, tokenizer: PreTrainedTokenizerBase, max_length: int) -> Dataset:
    """Token ids of (premise, hypothesis) pairs, of which the longer one is cut first, and labels."""

    def encode(batch: dict) -> dict:
        texts = (batch["premise"], batch["hypothesis"])
        return {**tokenizer(*texts, truncation="longest_first", max_length=max_length), "labels": batch["label"]}

    return dataset.map(encode, batched=True, remove_columns=dataset.column_names, desc="tokenize")


def nli_trainer(
    args: NliArguments,
    training_args: TrainingArguments,
    data: NliData,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
) -> XlingTrainer:
    """A Trainer whose best checkpoint is the one with the highest accuracy on the development examples."""
    limit = token_limit(tokenizer, model.config, args.max_length)
    return XlingTrainer(
        model,
        training_args,
        train_dataset=tokenize(data.train, tokenizer, limit),
        eval_dataset=tokenize(data.dev, tokenizer, limit),
        data_collator=DataCollatorWithPadding(tokenizer),
        compute_metrics=lambda output: {"accuracy": float((output.predictions.argmax(-1) == output.label_ids).mean())},
        processing_class=tokenizer,
    )


def fit(trainer: XlingTrainer, checkpoint: str | None = None) -> dict[str, float]:
    """Train, and load the best epoch's model. Returns its development accuracy in percent and the steps."""
    set_seed(trainer.args.seed)
    reached = trainer.train(resume_from_checkpoint=checkpoint)
    chosen = {"steps": reached.global_step}
    if trainer.state.best_metric is not None:
        chosen |= {"dev_accuracy": 100 * trainer.state.best_metric, "best_step": trainer.state.best_global_step}
    return chosen


def predict(trainer: XlingTrainer, datasets: Mapping[str, Dataset], max_length: int) -> dict[str, np.ndarray]:
    """Language -> (N,) predicted indices into `LABELS`, in the examples' order."""
    predictions = {}
    limit = token_limit(trainer.processing_class, trainer.model.config, max_length)
    for lang, dataset in datasets.items():
        tokens = tokenize(dataset, trainer.processing_class, limit)
        order = np.argsort([len(ids) for ids in tokens["input_ids"]], kind="stable")  # batches with little padding
        logits = trainer.predict(tokens.select(order)).predictions
        predictions[lang] = np.empty(len(order), np.int64)
        predictions[lang][order] = logits.argmax(-1)
    return predictions


def run(args: NliArguments, training_args: TrainingArguments, data: NliData) -> Run:
    """Fine-tune, keep the best epoch by development accuracy, and test in every language."""
    model, tokenizer = load_classifier(args.base_model, args.base_revision, seed=training_args.seed)
    trainer = nli_trainer(args, training_args, data, model, tokenizer)
    with training_cost() as cost:
        chosen = fit(trainer, training_args.resume_from_checkpoint)
    predictions = predict(trainer, {"dev": data.dev, **data.test}, args.max_length)
    state = trainer.accelerator.get_state_dict(trainer.model_wrapped)
    if not training_args.should_save:  # one process evaluates and writes
        return Run([], chosen | cost)
    settings = {"fine_tuned_on": f"{len(data.train)} examples ({args.train_lang})", **chosen}
    about = {"dataset": args.data_name, "model": model_name(args.base_model), "settings": settings}
    about |= {"seed": training_args.seed, "train_lang": args.train_lang}
    results = nli_results({args.train_lang: predictions.pop("dev")}, {args.train_lang: data.dev}, split="dev", **about)
    results += nli_results(predictions, data.test, split="test", **about)

    def write(folder: Path) -> None:
        model.save_pretrained(folder, state_dict=state)
        if tokenizer.is_fast:  # truncation and padding of the last call would be saved as the model's own
            tokenizer.backend_tokenizer.no_truncation()
            tokenizer.backend_tokenizer.no_padding()
        tokenizer.save_pretrained(folder)

    return Run(results, settings | cost, write)


def summary(results: Sequence[EvalResult]) -> str:
    """A table with a row for each language, and the average last."""
    table = [
        [x.split, x.direction, x.metric.removeprefix("accuracy "), x.n, x.value, interval_told(x.low, x.high)]
        for x in results
    ]
    return format_table(["split", "direction", "metric", "n", "%", "95 %"], table)


def load_nli(data: str | Path, lang: str, *, split: str = "test", revision: str | None = None) -> Dataset:
    """Read premises, hypotheses and labels of one language.

    Args:
        data: a TSV file (.gz or not) whose header names premise, hypothesis and label, where `{lang}` in its path
            stands for the language; or a Hub data set with a configuration for each language, such as facebook/xnli.
        lang: language code.
        split: split of a Hub data set; a local file has no splits.
        revision: branch, tag or commit of a Hub data set.

    Returns:
        Columns premise, hypothesis and label, an index into `LABELS`. Hub rows without a gold label are left out.

    Raises:
        FileNotFoundError: no such file or data set.
        ValueError: a missing column, an unknown label or an empty text; file and line are named.
    """
    from datasets import Dataset

    path = str(data).replace("{lang}", lang)
    if suffix_of(path) != ".tsv" and not Path(path).exists():
        return _load_hub(path, lang, split, revision)
    if not Path(path).is_file():
        raise FileNotFoundError(f"{path}: no such TSV file with the columns {', '.join(COLUMNS)}, nor a Hub dataset.")
    rows = list(_tsv_rows(path))
    if not rows:
        raise ValueError(f"{path}: no example in it; need a header and lines with {', '.join(COLUMNS)}.")
    return Dataset.from_dict(dict(zip(COLUMNS, map(list, zip(*rows)))))


def nli_hash(dataset: Dataset) -> str:
    """Content hash of texts and labels."""
    return content_hash(dataset["premise"], dataset["hypothesis"], map(str, dataset["label"]))


def nli_results(
    predictions: Mapping[str, np.ndarray],
    datasets: Mapping[str, Dataset],
    *,
    train_lang: str = "en",
    **fields,
) -> list[EvalResult]:
    """Accuracy of each language and then their average, each with its 95% interval.

    Args:
        predictions: language -> (N,) indices into `LABELS`.
        datasets: language -> the examples, from `load_nli`.
        train_lang: language on which the classifier was fine-tuned; directions are written "en->sw".
        **fields: further `EvalResult` fields: dataset, split, model, model_revision, seed, settings.

    Raises:
        ValueError: another number of predictions than of examples.
    """
    rows, hits, hashes = [], [], []
    for lang, predicted in predictions.items():
        labels = np.asarray(datasets[lang]["label"])
        if np.shape(predicted) != labels.shape:
            raise ValueError(f"{lang}: predictions of shape {np.shape(predicted)} for {len(labels)} examples.")
        hits.append(100.0 * (np.asarray(predicted) == labels))
        hashes.append(nli_hash(datasets[lang]))
        about = {"direction": f"{train_lang}->{lang}", "revision": hashes[-1]}
        rows.append(mean_result("accuracy", hits[-1], **about, **fields))
    if len(hits) > 1:
        gold = [datasets[lang]["label"][:] for lang in predictions]
        value, (low, high) = macro_average(hits)
        if all(labels == gold[0] for labels in gold):  # translations, so an item is drawn in all languages at once
            low, high = mean_interval(np.mean(hits, axis=0))
        settings = {**fields.pop("settings", {}), "languages": list(predictions)}
        about = {"direction": f"{train_lang}->xx", "low": low, "high": high, "revision": content_hash(hashes)}
        rows.append(
            EvalResult(f"accuracy avg-{len(hits)}", value, sum(map(len, hits)), **about, **fields, settings=settings)
        )
    return rows


def _tsv_rows(path: str) -> Iterator[tuple[str, str, int]]:
    lines = read_lines(path)
    header = next(lines, (0, ""))[1].split("\t")
    if not set(COLUMNS) <= set(header):
        raise ValueError(f"{path}, line 1: columns {header[:10]} lack one of {', '.join(COLUMNS)}; name them so.")
    places = [header.index(name) for name in COLUMNS]
    for number, line in lines:
        cells = line.split("\t")
        if len(cells) != len(header):
            raise ValueError(f"{path}, line {number}: {len(cells)} columns where the header has {len(header)}.")
        premise, hypothesis, label = (cells[place].strip() for place in places)
        if label not in LABELS:
            raise ValueError(f"{path}, line {number}: label {label!r} is not one of {', '.join(LABELS)}.")
        if not premise or not hypothesis:
            side = "hypothesis" if premise else "premise"
            raise ValueError(f"{path}, line {number}: the {side} is empty; fill it in or remove the line.")
        yield premise, hypothesis, LABELS.index(label)


def _load_hub(name: str, lang: str, split: str, revision: str | None) -> Dataset:
    import datasets

    place = f"{name}, configuration {lang}, split {split}"
    try:
        dataset = datasets.load_dataset(name, lang, split=split, revision=revision)
    except FileNotFoundError as error:  # DatasetNotFoundError is one
        cause = " ".join(str(error).split())
        raise FileNotFoundError(f"{place}: no such file, no such dataset of the Hub ({cause}); check it.") from None
    except (ValueError, OSError) as error:
        cause = " ".join(str(error).split())
        raise ValueError(f"{place}: could not be loaded from the Hub ({cause}); check language and split.") from None
    if not set(COLUMNS) <= set(dataset.column_names):
        raise ValueError(f"{place}: columns {dataset.column_names} lack one of {', '.join(COLUMNS)}.")
    names = _label_names(dataset, place)
    dataset = dataset.select_columns(list(COLUMNS)).filter(lambda label: label != -1, input_columns="label")
    if tuple(names) == LABELS:
        return dataset
    features = dataset.features.copy() | {"label": datasets.ClassLabel(names=list(LABELS))}
    return dataset.map(lambda row: {"label": LABELS.index(names[row["label"]])}, features=datasets.Features(features))


def _label_names(dataset: Dataset, place: str) -> Sequence[str]:
    names = getattr(dataset.features["label"], "names", None)
    if names is None or set(names) != set(LABELS):
        found = names or dataset.features["label"]
        raise ValueError(f"{place}: labels {found} are not {', '.join(LABELS)}; give a dataset that names them so.")
    return names


def main(argv: list[str] | None = None) -> list[EvalResult]:
    """Read examples, fine-tune, write the classifier, print the table."""
    types = (NliArguments, TrainingArguments)
    args, training_args = parse_arguments(types, argv, defaults=TRAINING_DEFAULTS, description=__doc__)
    check_run(training_args)
    finished = run(args, training_args, load_nli_data(args, training_args.seed))
    return write_run("examples/xnli.py", args, training_args, finished, summary(finished.results))


if __name__ == "__main__":
    run_recipe(main)
