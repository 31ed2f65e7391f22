"""A model's variants as repositories of their own: its part for one language, or its sparse vectors.

A folder has each variant in a subfolder of its name, with modules of its own; everything else, such as encoder and
tokenizer, is shared with the folder. On branches the files of the subfolder replace those of the root
(`hfxling.hub.release`). Here each variant gets a repository with the files that it needs, a card that names it, and a
record. Only the card of the whole model has the figures.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from hfxling.encoders.fusion import FILE as FUSION

from .card import CardInfo, moved, render_card
from .index import SPARSE_TAGS, folder_tags
from .record import CARD, RECORD, record_text
from .served import variant_id
from .snippets import OF_FOLDER, clients_of, is_sparse_encoder, part_snippets, width_of
from .upload import Content, check_repo_id, read_content

# What only the whole model reads: module folders such as 1_Pooling and zh_0_StaticEmbedding, the router, ONNX, ...
_OF_WHOLE = re.compile(r"(\w+_)?\d+_[A-Z]\w*/|router_config\.json$|onnx/|embeddings\.png$|\.eval_results/")


def in_repositories(
    folder: Path, files: Mapping[str, Content], names: Sequence[str], repo_id: str
) -> dict[str, dict[str, Content]]:
    """The files of each repository: first that of the whole model, then one per variant.

    `files` are the published files of the folder, `names` those of the variants; `repo_id` is the whole model's.
    """
    ids = {name: variant_id(repo_id, name) for name in names}
    for variant_repo in ids.values():
        check_repo_id("repo", variant_repo)
    record = json.loads(read_content(files[RECORD]))
    repositories = {repo_id: _whole(folder, files, record, ids)}
    for name in names:
        repositories[ids[name]] = _variant(folder, files, record, ids, name)
    return repositories


def _whole(folder: Path, files: Mapping[str, Content], record: Mapping, ids: Mapping[str, str]) -> dict[str, Content]:
    """The model without the subfolders of its variants, with a card that names their repositories."""
    repo_id = record["card"]["repo_id"]
    kept = {name: content for name, content in files.items() if name.partition("/")[0] not in ids}
    loading = {}
    for title, snippet in record["card"]["loading"].items():
        for name in ids:
            snippet = snippet.replace(_on_branch(name), f'"{variant_id("{repo}", name)}"')
        loading[title] = _without_folder_comment(snippet)
    card = record["card"] | {
        "loading": loading,
        "clients": _as_dicts(clients_of(folder, repo_id)),
        "tags": [tag for tag in record["card"]["tags"] if tag not in SPARSE_TAGS],
        "variants": {ids[name]: _described(folder / name, name) for name in ids},
    }
    hashes = {name: value for name, value in record["files"].items() if name in kept}
    whole_record = record | {"card": card, "files": hashes, "branches": []}
    kept[CARD] = moved(read_content(files[CARD]).decode("utf-8"), record, whole_record).encode()
    kept[RECORD] = record_text(whole_record)
    return kept


def _variant(
    folder: Path, files: Mapping[str, Content], record: Mapping, ids: Mapping[str, str], name: str
) -> dict[str, Content]:
    """The files of a variant: those of its subfolder, and those of the root that are not only for the whole model."""
    kept: dict[str, Content] = {}
    hashes = {}
    for path, content in files.items():
        if path == FUSION or path.partition("/")[0] in ids or _OF_WHOLE.match(path):
            continue
        kept[path] = content
        if path in record["files"]:
            hashes[path] = record["files"][path]
    for path, content in files.items():
        if path.startswith(f"{name}/"):
            kept[path.removeprefix(f"{name}/")] = content
            hashes[path.removeprefix(f"{name}/")] = record["files"][path]
    card = record["card"]
    repo_id = card["repo_id"]
    relatives = {repo_id: "the whole model, with its figures"}
    for other in ids:
        if other != name:
            relatives[ids[other]] = _described(folder / other, other)
    changes = {
        "repo_id": ids[name],
        "part_of": repo_id,
        "variants": relatives,
        "clients": _as_dicts(clients_of(folder / name)),
        "tags": folder_tags(folder / name),
        "width": width_of(folder / name),
        "lexical": None,
    }
    if is_sparse_encoder(folder / name):
        changes["loading"] = _snippets_of(card["loading"], name)
    else:  # of one language
        other = next(other for other in ids if other != name)
        needs_code = any(client["needs_code"] for client in changes["clients"].values())
        changes["languages"] = [name]
        changes["loading"] = part_snippets(name, other, ids[other], flag=needs_code, examples=card.get("examples"))
    variant_card = card | changes
    variant_record = record | {"card": variant_card, "files": hashes, "branches": [], "results": []}
    kept[CARD] = render_card([], CardInfo.from_record(variant_card)).encode()
    kept[RECORD] = record_text(variant_record)
    return kept


def _on_branch(name: str) -> str:
    """How a snippet names a variant that is on a branch."""
    return f'"{{repo}}", revision="{name}"'


def _snippets_of(loading: Mapping[str, str], name: str) -> dict[str, str]:
    """The snippets that load a variant from its own repository."""
    own = {}
    for title, snippet in loading.items():
        if _on_branch(name) in snippet:
            own[title] = _without_folder_comment(snippet.replace(_on_branch(name), '"{repo}"'))
    return own


def _without_folder_comment(snippet: str) -> str:
    """A snippet without the line that says how a variant in a subfolder is loaded."""
    lines = [line for line in snippet.splitlines() if not line.startswith(OF_FOLDER)]
    return "\n".join(lines)


def _described(subfolder: Path, name: str) -> str:
    if is_sparse_encoder(subfolder):
        return "its sparse vectors, for `SparseEncoder`"
    return f"its part for texts in {name} alone, which needs no language named"


def _as_dicts(clients: Mapping) -> dict[str, dict]:
    return {name: asdict(client) for name, client in clients.items()}
