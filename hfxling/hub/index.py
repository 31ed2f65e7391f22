"""A card's front matter: what the Hub reads of it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from huggingface_hub import EvalResult as IndexEntry
from huggingface_hub import ModelCardData

from hfxling.evaluation.results import EvalResult

from .snippets import TEI

TAGS = ("sentence-transformers", "sentence-similarity", "feature-extraction", "cross-lingual", "hfxling")
# What data sets that are read from files are called on the Hub.
HUB_IDS = {
    "NTREX-128": "mteb/NTREX",
    "ntrex": "mteb/NTREX",
    "tatoeba": "mteb/tatoeba-bitext-mining",
    "STS17": "mteb/sts17-crosslingual-sts",
    "WMT20 QE": "wmt/wmt20_mlqe_task1",
}
_UNSHOWN = ("stage", "paired", "layer", "pooling")  # the last two stand in the configuration


def metadata(results: Sequence[EvalResult], info) -> ModelCardData:
    """The front matter of a card; `info` is its `CardInfo`."""
    is_based = is_hub_id(info.base_model)
    hub_ids = {data["name"]: data["hub_id"] for data in info.train_data if data.get("hub_id")}
    datasets = [hub_ids.get(data["name"]) or _hub_id(data["name"]) for data in info.train_data]
    return ModelCardData(
        language=list(info.languages),
        license=info.licence,
        library_name="sentence-transformers",
        pipeline_tag="sentence-similarity",
        tags=[*TAGS, f"hfxling-{info.method}", *([TEI] if info.clients.get(TEI) == "" else [])],
        base_model=info.base_model if is_based else None,
        base_model_relation="finetune" if is_based else None,
        datasets=list(dict.fromkeys(filter(None, datasets))) or None,
        model_name=info.repo_id.rsplit("/", 1)[-1],
        eval_results=[_entry(row, hub_id) for row, hub_id in headline(results, hub_ids)] or None,
    )


def headline(results: Sequence[EvalResult], hub_ids: Mapping[str, str]) -> list[tuple[EvalResult, str]]:
    """One row of the trained model for every data set and direction, the first; only of data that the Hub has."""
    found = {}
    for row in results:
        hub_id = hub_ids.get(row.dataset) or _hub_id(row.dataset)
        if stage_of(row) == "after" and hub_id:
            found.setdefault((hub_id, row.split, row.direction), (row, hub_id))
    return list(found.values())


def _hub_id(name: str) -> str | None:
    """The id of a data set by its name, or that of its part for a language pair."""
    return HUB_IDS.get(name) or HUB_IDS.get(name.partition(",")[0])


def _entry(row: EvalResult, hub_id: str) -> IndexEntry:
    return IndexEntry(
        task_type="sentence-similarity",
        task_name="Sentence Similarity",
        dataset_type=hub_id,
        dataset_name=row.dataset,
        dataset_config=row.direction,
        dataset_split=row.split,
        dataset_revision=row.revision,
        metric_type=row.metric,
        metric_value=row.value,
        metric_name=", ".join(filter(None, (metric_of(row), setting_of(row)))),
        metric_args=plain({"n": row.n, "low": row.low, "high": row.high, **conditions(row)}),
    )


def is_hub_id(name: str) -> bool:
    """Whether a name can be a repository's; that of a folder is written so that it cannot (`told_apart`)."""
    return re.fullmatch(r"\w[\w.-]*(/\w[\w.-]*)?", name) is not None


def told_apart(name: str) -> str:
    """A Hub id as it is; ./NAME for a folder that is here and looks like an id."""
    return f"./{name}" if is_hub_id(name) and Path(name).exists() else name


def stage_of(row: EvalResult) -> str:
    """Before or after training."""
    return row.settings.get("stage", "after")


def conditions(row: EvalResult) -> dict:
    """The settings that a card shows beside a number."""
    return {key: value for key, value in row.settings.items() if key not in _UNSHOWN}


def setting_of(row: EvalResult) -> str:
    """E.g. "cosine, centering none"."""
    return ", ".join(str(v) if k == "method" else f"{k} {v}" for k, v in conditions(row).items())


def metric_of(row: EvalResult) -> str:
    """With its unit."""
    return f"{row.metric} ({row.unit})" if row.unit else row.metric


def plain(mapping: Mapping) -> dict:
    """Only what YAML and JSON both know; paths and the like as their text."""
    return json.loads(json.dumps(mapping, default=str))
