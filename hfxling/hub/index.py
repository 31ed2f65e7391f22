"""A card's front matter, which the Hub reads."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml
from huggingface_hub import EvalResult as IndexEntry
from huggingface_hub import EvalResultEntry, ModelCardData, eval_result_entries_to_yaml

from hfxling.encoders.identity import modules_of, read_json
from hfxling.evaluation.results import EvalResult

from .snippets import TEI, Examples, both_sides, example, is_sparse_encoder

TAGS = ("sentence-transformers", "sentence-similarity", "feature-extraction", "cross-lingual", "hfxling")
SPARSE_TAGS = ("sparse-encoder", "sparse")
# Hub ids of data sets that are read from files.
HUB_IDS = {
    "NTREX-128": "mteb/NTREX",
    "ntrex": "mteb/NTREX",
    "tatoeba": "mteb/tatoeba-bitext-mining",
    "STS17": "mteb/sts17-crosslingual-sts",
    "WMT20 QE": "wmt/wmt20_mlqe_task1",
}
_UNSHOWN = ("stage", "paired", "layer", "pooling")  # the configuration states layer and pooling


def metadata(results: Sequence[EvalResult], info) -> ModelCardData:
    """The front matter of a card; `info` is its `CardInfo`."""
    is_based = is_hub_id(info.base_model)
    hub_ids = _hub_ids(info.train_data)
    tags = [*TAGS, *info.tags, f"hfxling-{info.method}"]
    if TEI in info.clients and not info.clients[TEI].fault:
        tags.append(TEI)
    has_dense = "dense" in tags or not set(SPARSE_TAGS) & set(tags)
    return ModelCardData(
        language=list(info.languages),
        license=info.licence,
        library_name="sentence-transformers",
        pipeline_tag="sentence-similarity" if has_dense else "feature-extraction",
        tags=tags,
        widget=[widget_example(info.languages, info.examples)] if has_dense else None,
        base_model=info.base_model if is_based else None,
        base_model_relation=info.relation if is_based else None,
        datasets=list(dict.fromkeys(filter(None, hub_ids.values()))) or None,
        model_name=info.repo_id.rsplit("/", 1)[-1],
        eval_results=[_entry(row, hub_id) for row, hub_id in headline(results, hub_ids)] or None,
    )


def widget_example(languages: Sequence[str], examples: Examples) -> dict[str, str | list[str]]:
    """The sentences that the Hub's widget compares: one of the first language with two of the second."""
    source, target = both_sides(languages)
    sentences = [example(target, examples, number) for number in (0, 1)]
    return {"source_sentence": example(source, examples), "sentences": sentences}


def headline(results: Sequence[EvalResult], hub_ids: Mapping[str, str]) -> list[tuple[EvalResult, str]]:
    """The trained model's first row for every data set and direction; only for data sets of the Hub."""
    first_rows = {}
    for row in results:
        hub_id = hub_ids.get(row.dataset) or _hub_id(row.dataset)
        if stage_of(row) == "after" and hub_id:
            first_rows.setdefault((hub_id, row.split, row.direction), (row, hub_id))
    return list(first_rows.values())


def _hub_ids(train_data: Sequence[Mapping]) -> dict[str, str | None]:
    """The Hub id of every training text, by name."""
    return {data["name"]: data.get("hub_id") or _hub_id(data["name"]) for data in train_data}


def eval_results_file(results: Sequence[EvalResult], train_data: Sequence[Mapping]) -> str | None:
    """The content of .eval_results/hfxling.yaml, which the Hub shows beside its benchmarks; None if there is none.

    Figures on a collection that the model also learnt from (such as other lines of NTREX) are left out, as figures on a
    part of a benchmark do not belong beside those on the whole.
    """
    hub_ids = _hub_ids(train_data)
    entries = []
    for row, hub_id in headline(results, hub_ids):
        if hub_id in hub_ids.values():
            continue
        notes = [metric_of(row), row.direction, setting_of(row), f"n = {row.n}"]
        if row.low is not None:
            notes.append(f"95 % interval {row.low:.1f} to {row.high:.1f}")
        task = [(row.direction or "default").replace("->", "-"), row.split]
        entry = EvalResultEntry(
            hub_id,
            "-".join(filter(None, task)),
            round(row.value, 4),
            dataset_revision=row.revision if is_commit(row.revision) else None,
            notes=", ".join(filter(None, notes)),
        )
        entries.append(entry)
    if not entries:
        return None
    return yaml.safe_dump(eval_result_entries_to_yaml(entries), sort_keys=False, allow_unicode=True)


def is_commit(revision: str | None) -> bool:
    """Whether a row's revision is a commit of the Hub, not the hash of a text."""
    return re.fullmatch(r"[0-9a-f]{40}", revision or "") is not None


def folder_tags(folder: Path) -> list[str]:
    """The Hub's tags for the kinds of vectors that a folder gives."""
    if is_sparse_encoder(folder):
        return [*SPARSE_TAGS]
    types = _module_types(folder)
    tags = ["dense"] if types else []
    if any(name.endswith("StaticEmbedding") for name in types):
        tags.append("static-embeddings")
    if (folder / "sparse" / "modules.json").is_file():
        tags += SPARSE_TAGS
    return tags


def _module_types(folder: Path) -> list[str]:
    """The types of the sentence-transformers modules in a folder, including those behind routers."""
    types = []
    for module in modules_of(str(folder)):
        types.append(module["type"])
        routes = read_json(folder / module.get("path", "") / "router_config.json")
        types += routes.get("types", {}).values()
    return types


def _hub_id(name: str) -> str | None:
    """The id of a data set by its name, or that of its part for a language pair."""
    return HUB_IDS.get(name) or HUB_IDS.get(name.partition(",")[0])


def _entry(row: EvalResult, hub_id: str) -> IndexEntry:
    return IndexEntry(
        task_type="sentence-similarity",
        task_name="Sentence Similarity",
        dataset_type=hub_id,
        dataset_name=row.dataset,
        dataset_split=row.split,
        dataset_revision=row.revision if is_commit(row.revision) else None,
        metric_type=row.metric,
        metric_value=row.value,
        metric_name=", ".join(filter(None, (metric_of(row), row.direction, setting_of(row)))),
        metric_args=plain({"n": row.n, "low": row.low, "high": row.high, **conditions(row)}),
    )


def is_hub_id(name: str) -> bool:
    """Whether a name can be that of a repository; names of folders are written so that they cannot (`told_apart`)."""
    return re.fullmatch(r"\w[\w.-]*(/\w[\w.-]*)?", name) is not None


def told_apart(name: str) -> str:
    """A Hub id as it is, also of a folder in the Hub's cache or a clone; ./NAME for a folder that looks like an id."""
    cached = re.search(r"(?:^|/)models--([\w.-]+?)--([\w.-]+)/snapshots/[0-9a-f]{40}/?$", name)
    if cached:
        return f"{cached[1]}/{cached[2]}"
    settings = Path(name, ".git", "config")
    if settings.is_file():
        text = settings.read_text(encoding="utf-8", errors="replace")
        place = r"^\s*url = (?:\w+://)?(?:[^\s/@]*@)?huggingface\.co[:/]([\w.-]+/[\w.-]+?)(?:\.git)?/?$"
        cloned = re.search(place, text, re.MULTILINE)
        if cloned:
            return cloned[1]
    return f"./{name}" if is_hub_id(name) and Path(name).exists() else name


def hub_id_of(name: str) -> str | None:
    """The Hub id that a model's name is or stands for; None for a folder's path, which means nothing to others."""
    name = told_apart(name)
    return name if is_hub_id(name) else None


def stage_of(row: EvalResult) -> str:
    """The stage of a row: "before" or "after" training."""
    return row.settings.get("stage", "after")


def conditions(row: EvalResult) -> dict:
    """The settings that a card shows beside a number."""
    return {key: value for key, value in row.settings.items() if key not in _UNSHOWN}


def setting_of(row: EvalResult) -> str:
    """E.g. "cosine, centering none", or "sparse, candidates 73" for one of several models that were compared."""
    parts = []
    for name, value in conditions(row).items():
        parts.append(str(value) if name in ("method", "row") else f"{name} {value}")
    return ", ".join(parts)


def metric_of(row: EvalResult) -> str:
    """The metric with its unit."""
    return f"{row.metric} ({row.unit})" if row.unit else row.metric


def plain(mapping: Mapping) -> dict:
    """A copy with only what YAML and JSON both know; paths and the like become text."""
    return json.loads(json.dumps(mapping, default=str))
