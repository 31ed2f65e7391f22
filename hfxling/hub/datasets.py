"""Publish sentence pairs as a data set of the Hub: a card with counts, then an upload like any other."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from huggingface_hub import DatasetCardData, HfApi

from hfxling.data.licences import release_fault
from hfxling.data.parallel import load_parallel, sides_of
from hfxling.data.readers import TABLE_SUFFIXES
from hfxling.encoders.protocol import languages_of
from hfxling.evaluation.results import format_table
from hfxling.files import content_hash

from . import upload
from .card import template
from .checks import text_faults
from .record import CARD, folder_files
from .release import Release, put, refuse
from .upload import Published

_SIZES = ((10**3, "n<1K"), (10**4, "1K<n<10K"), (10**5, "10K<n<100K"), (10**6, "100K<n<1M"), (10**7, "1M<n<10M"))


def release_dataset(what: Release, *, languages: Sequence[str]) -> Published:
    """Count files of pairs, write their card and upload both; otherwise as `hfxling.hub.release.release`.

    The `folder` may also be a file; the `licence` is that of the text, the languages are source and target.
    """
    languages_of(None, languages)  # refuses what is no language
    fault = release_fault(what.licence, {"the text": what.licence})
    if fault:
        raise ValueError(f"licence={what.licence!r}: {fault}")
    api = HfApi()
    if what.asks_hub:
        upload.check_writer(api, what.repo_id)
    files = _tables(what.folder)
    card = dataset_card(what.repo_id, files, languages, what.licence)
    contents = dict(files) | {CARD: card.encode()}
    refuse(what.folder, text_faults(contents))
    plan = upload.plan_upload(
        api, what.repo_id, contents, branch=what.branch, kind="dataset", is_compared=what.asks_hub
    )
    return put(api, [plan], what, f"{what.folder}: {upload.counted(len(files))}, card and licence are in order")


def _tables(place: Path) -> dict[str, Path]:
    """Files of pairs, by the names under which `load_dataset` finds them."""
    files = {place.name: place} if place.is_file() else folder_files(place)
    tables = {name: path for name, path in files.items() if name.removesuffix(".gz").endswith(TABLE_SUFFIXES)}
    if not tables:
        raise ValueError(f"{place}: no file of pairs in it; give {', '.join(TABLE_SUFFIXES)}, plain or as .gz.")
    return tables


def dataset_card(repo_id: str, files: dict[str, Path], languages: Sequence[str], licence: str) -> str:
    """The card's Markdown with front matter, counts and hashes."""
    rows: list[list] = []
    total = 0
    for name, path in files.items():
        pairs = load_parallel(path, *languages)
        source, target = sides_of(pairs)
        distinct = len({*source}), len({*target})
        characters = sum(map(len, source)), sum(map(len, target))
        rows.append([name, len(pairs), *distinct, *characters, content_hash(source, target)])
        total += len(pairs)
    size = next((label for least, label in _SIZES if total < least), "n>10M")
    data = DatasetCardData(
        language=list(languages), license=licence, size_categories=[size], task_categories=["translation"],
        tags=["hfxling", "bitext"], configs=[{"config_name": "default", "data_files": sorted(files)}],
    )  # fmt: skip
    values = {"repo_id": repo_id, "name": repo_id.rpartition("/")[2], "total": total}
    values |= {"source": languages[0], "target": languages[1], "files": sorted(files)}
    one, other = languages
    head = ["File", "Pairs", f"Distinct {one}", f"Distinct {other}", f"Characters {one}", f"Characters {other}", "Hash"]
    values["counts"] = format_table(head, rows)
    return f"---\n{data.to_yaml()}\n---\n\n{template('dataset_card').render(values)}"
