"""Natural language inference across languages (XNLI; Conneau et al. 2018): reading the data and scoring predictions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hfxling.data.readers import read_lines, suffix_of
from hfxling.files import content_hash

from .averages import macro_average, mean_result
from .results import EvalResult

if TYPE_CHECKING:
    from datasets import Dataset

LABELS = ("entailment", "neutral", "contradiction")  # in the order of facebook/xnli
COLUMNS = ("premise", "hypothesis", "label")


def load_nli(data: str | Path, lang: str, *, split: str = "test", revision: str | None = None) -> Dataset:
    """Read premises, hypotheses and labels of one language.

    Args:
        data: a TSV file (.gz or not) whose header names premise, hypothesis and label, `{lang}` in its path standing
            for the language; or a Hub dataset with a configuration per language, as facebook/xnli has.
        lang: language code.
        split: of a Hub dataset; a local file is one split.
        revision: of a Hub dataset.

    Returns:
        Columns premise, hypothesis and label, an index into `LABELS`. Hub rows without a gold label are left out.

    Raises:
        FileNotFoundError: no such file or dataset.
        ValueError: a missing column, an unknown label or an empty text, with file and line.
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
    """Accuracy per language, then the average over them, each with its 95% interval.

    Args:
        predictions: language -> (N,) indices into `LABELS`.
        datasets: language -> what they were predicted for, from `load_nli`.
        train_lang: language the classifier was fine-tuned on; directions read "en->sw".
        **fields: further `EvalResult` fields: dataset, split, model, model_revision, seed, settings.

    Raises:
        ValueError: predictions of another count than the examples.
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
        same_items = all(labels == gold[0] for labels in gold)  # translations: an item is drawn in all its languages
        value, (low, high) = macro_average(hits, same_items=same_items)
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
