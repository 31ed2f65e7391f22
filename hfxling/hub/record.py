"""The record of a folder (results.json): hashes of its files, and a hash of the record itself."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from hfxling.evaluation.results import read_results, results_text

RECORD, CARD = "results.json", "README.md"
_UNRECORDED = {RECORD, CARD, ".gitattributes"}
_SEAL = "digest"


def folder_files(folder: Path) -> dict[str, Path]:
    """Every file of a folder by its path inside, sorted; without hidden folders such as .cache and .git."""
    files = {}
    for path in folder.rglob("*"):
        name = path.relative_to(folder)
        if path.is_file() and not any(part.startswith(".") for part in name.parts[:-1]):
            files[name.as_posix()] = path
    return dict(sorted(files.items()))


def file_hashes(folder: Path) -> dict[str, str]:
    """SHA-256 of every file, except the record, which holds the hashes, and the card, which is rendered from it."""
    hashes = {}
    for name, path in folder_files(folder).items():
        if name not in _UNRECORDED:
            with path.open("rb") as file:
                hashes[name] = hashlib.file_digest(file, "sha256").hexdigest()
    return hashes


def sealed(text: str) -> str:
    """The text of a results.json with the hash of its content as its last entry."""
    content = json.loads(text)
    if _SEAL in content:
        raise ValueError(f"this record already has an entry {_SEAL!r}; leave it out.")
    # The text is extended, not dumped again, so that each row keeps its own line.
    return text.rstrip().removesuffix("}").rstrip() + f',\n  "{_SEAL}": "{_digest(content)}"\n}}\n'


def record_text(record: Mapping) -> bytes:
    """The text of a record as it is written, one row per line, sealed again."""
    entries = {key: value for key, value in record.items() if key not in ("results", _SEAL)}
    return sealed(results_text(record["results"], entries)).encode()


def is_intact(content: Mapping) -> bool:
    """Whether the content of a results.json is what was sealed."""
    return content.get(_SEAL) == _digest(content)


def _digest(content: Mapping) -> str:
    unsealed = {key: value for key, value in content.items() if key != _SEAL}
    return hashlib.sha256(json.dumps(unsealed, sort_keys=True, ensure_ascii=False).encode()).hexdigest()[:16]


def read_record(folder: Path) -> dict:
    """The content of a folder's results.json."""
    if not (folder / RECORD).is_file():
        raise FileNotFoundError(f"{folder}: no {RECORD} there; give a folder that a recipe or `hfxling fit` wrote.")
    read_results(folder / RECORD)  # refuses what is no results file
    content = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    if "card" not in content:
        problem = "has no card, so it is that of an encoder or a study"
        raise ValueError(f"{folder / RECORD} {problem}; give a model's folder.")
    _check_entries(folder / RECORD, content)
    return content


def _check_entries(path: Path, content: Mapping) -> None:
    """Refuse a record whose entries have the wrong types: anybody may have written it."""
    kinds = {"card": dict, "files": dict, "settings": dict, "branches": list, "results": list}
    for name, kind in kinds.items():
        if content.get(name) is not None and not isinstance(content[name], kind):
            raise ValueError(f"{path}: {name!r} is a {type(content[name]).__name__}; fetch or write the folder again.")
    card = content["card"] or {}
    data = card.get("train_data")
    if not isinstance(data, list) or not all(isinstance(entry, dict) and "name" in entry for entry in data):
        raise ValueError(f"{path}: its card has no list of training data; fetch or write the folder again.")
    for name in ("method", "base_model"):
        if not isinstance(card.get(name), str):
            raise ValueError(f"{path}: its card names no {name}; fetch or write the folder again.")
    for name in (*(content.get("files") or ()), *(content.get("branches") or ())):
        if not isinstance(name, str) or Path(name).is_absolute() or ".." in Path(name).parts:
            raise ValueError(f"{path}: {name!r} is no file of the folder; fetch or write the folder again.")


def file_faults(folder: Path, recorded: Mapping[str, str] | None) -> list[str]:
    """A line for every file that is not what was recorded."""
    if recorded is None:
        return [
            f"{RECORD}: has no hashes of the files, as an older hfxling wrote the folder; write it again with its "
            "recipe."
        ]
    hashes = file_hashes(folder)
    lines = [f"{name}: is missing" for name in sorted(recorded.keys() - hashes.keys())]
    lines += [f"{name}: is not recorded, so it was added later" for name in sorted(hashes.keys() - recorded.keys())]
    for name in sorted(hashes.keys() & recorded.keys()):
        if hashes[name] != recorded[name]:
            lines.append(f"{name}: is not what was recorded (SHA-256 {hashes[name][:12]}...)")
    return lines
