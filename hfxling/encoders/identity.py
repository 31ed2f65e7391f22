"""A model's identity: its name in results, and a commit or hash that changes whenever its vectors may change."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from huggingface_hub import snapshot_download
from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

# Files of a model's folder that do not change its vectors.
_BESIDE_THE_MODEL = {"README.md", "results.json", "rounds.json", ".gitattributes"}
_PICTURES = {".png", ".svg"}
_WEIGHTS = {".safetensors", ".bin", ".pt"}
_ASKED_FOR = ("modules.json", "config.json", "config_sentence_transformers.json")  # one of them is in every repository
# For `cached_file`: a missing file or connection is no error.
_QUIETLY = {"_raise_exceptions_for_missing_entries": False, "_raise_exceptions_for_connection_errors": False}


def model_name(model: str | Path | None) -> str:
    """The name of a model in results: a Hub id as it is, the last part of a folder's path, "vectors" for None.

    A folder without weights is a variant of the model above it and is named by both parts. So is a folder called
    "model", the name that commands and recipes give to what they write.
    """
    if model is None:
        return "vectors"
    folder = Path(os.path.abspath(model))
    if not folder.exists():
        return str(model)
    is_door = folder.is_dir() and not _has_weights(folder.rglob("*")) and _has_weights(folder.parent.glob("*"))
    if is_door or folder.name == "model":
        return f"{folder.parent.name}/{folder.name}"
    return folder.name


def identity(model: str | Path, revision: str | None = None) -> str:
    """A Hub model's commit, or a hash of everything in a folder or file that decides its vectors, wherever it lies.

    The commit comes from the Hub, or from its cache without a network; FileNotFoundError if neither has the model.
    """
    path = Path(model)
    if path.is_file():
        return content_hash_of([path], path.parent)
    if not path.is_dir():
        return _commit(str(model), revision)
    files = [file for file in path.rglob("*") if file.is_file()]
    if not _has_weights(files):  # the folder of a variant: the weights lie above
        files += [file for file in path.parent.glob("*") if file.is_file()]
    kept = [file for file in files if file.name not in _BESIDE_THE_MODEL and file.suffix not in _PICTURES]
    return content_hash_of(kept, path.absolute().parent)


def fetch_folder(name: str, revision: str | None = None, files: Sequence[str] | None = None) -> tuple[Path, str | None]:
    """A local folder as it is, or the files of a repository and its commit; from the cache if there is no network.

    `files` are patterns of the names to fetch, by default all.
    """
    if Path(name).is_dir():
        return Path(name).resolve(), None
    try:
        folder = Path(snapshot_download(name, revision=revision, allow_patterns=files))
    except (HfHubHTTPError, LocalEntryNotFoundError, ValueError, OSError) as error:
        cause = " ".join(str(error).split())[:200]
        where = f"{name}@{revision}" if revision else name
        raise FileNotFoundError(
            f"{where} is not a folder, and neither the Hub nor its cache has it ({cause}); check the name and the "
            "connection."
        ) from None
    return folder, folder.name


def training_text(name: str, revision: str | None = None) -> set[str]:
    """Hashes (`hfxling.files.content_hash`) of the text that a model was made from, if its folder says so."""
    record = json_of(name, "results.json", revision)
    try:
        return {text["revision"] for text in record["card"]["train_data"]}
    except (TypeError, KeyError):  # no record, or none of ours
        return set()


def json_of(name: str, file: str, revision: str | None = None, kind: type = dict) -> Any:
    """`read_json` for a file of a folder or Hub model; also empty if the file cannot be fetched."""
    from transformers.utils import cached_file  # slow to load

    try:
        path = cached_file(name, file, revision=revision, **_QUIETLY)
    except (OSError, ValueError):  # no such model, about which loading gives a better error; or one in memory
        path = None
    return kind() if path is None else read_json(path, kind)


def read_json(path: str | Path, kind: type = dict) -> Any:
    """The object (or list, as `kind` says) in a JSON file; an empty one if there is none."""
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return kind()
    return content if isinstance(content, kind) else kind()


def modules_of(name: str, revision: str | None = None) -> list[dict]:
    """The modules of a sentence-transformers folder or Hub model, in order; [] if it has none."""
    modules = json_of(name, "modules.json", revision, list)
    return modules if all(isinstance(module, dict) for module in modules) else []


def needs_code(name: str, revision: str | None = None) -> bool:
    """Whether a sentence-transformers model needs `trust_remote_code`, for a module or encoder of its own."""
    types = [str(module.get("type", "")) for module in modules_of(name, revision)]
    if any(not kind.startswith("sentence_transformers.") for kind in types):
        return True
    if types and not types[0].endswith(".Transformer"):
        return False
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES  # slow to load

    config = json_of(name, "config.json", revision)
    return "AutoConfig" in config.get("auto_map", {}) and config.get("model_type") not in CONFIG_MAPPING_NAMES


def content_hash_of(files: Iterable[Path], root: Path) -> str:
    """16 hex digits of SHA-256 that change with any file's content or its place below `root`."""
    digest = hashlib.sha256()
    for file in sorted(files):
        path = os.path.relpath(os.path.abspath(file), os.path.abspath(root))
        # Without its first folder, the model's own: one that is moved or copied stays the same model.
        path = path.partition(os.sep)[2] or path
        with open(file, "rb") as content:
            digest.update(path.encode() + b"\0" + hashlib.file_digest(content, "sha256").digest())
    return digest.hexdigest()[:16]


def _commit(name: str, revision: str | None) -> str:
    from transformers.utils import cached_file

    for file in _ASKED_FOR:
        try:
            path = cached_file(name, file, revision=revision, **_QUIETLY)
        except OSError:  # no such repository, or no name of one
            break
        if path is not None:
            return Path(path).parent.name
    problem = "is not a folder, and neither the Hub nor its cache has it"
    raise FileNotFoundError(f"model={name!r} {problem}; check the name and the connection.")


def _has_weights(files: Iterable[Path]) -> bool:
    return any(file.suffix in _WEIGHTS for file in files)
