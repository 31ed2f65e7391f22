"""Publish a finished folder on the Hub: check it, show what changes, and upload it in one commit."""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from huggingface_hub import HfApi, get_token

from hfxling.evaluation.results import read_results

from . import upload
from .adapter import adapter_alone, adapter_faults
from .agreement import folder_faults
from .card import moved, public_yaml
from .checks import ADAPTER, base_licence, code_faults, folder_contents, release_faults, text_faults
from .doors import door_faults
from .index import eval_results_file
from .record import CARD, RECORD, read_record, record_text
from .upload import Content, Plan, Published, counted, read_content
from .variants import in_repositories

logger = logging.getLogger(__name__)

EVAL_RESULTS = ".eval_results/hfxling.yaml"
_FAULTS = 8  # faults that a message shows
_NO_LICENCE = (None, "unknown", "other")


@dataclass
class Release:
    """Where a folder goes and what is stated about it there; fields are as the parameters of `hfxling.publish`.

    `names` maps local names to public ones. The folder's variants go to branches (only if `branch` is "main"), or with
    `in_repositories` to repositories of their own.
    """

    folder: Path
    repo_id: str
    names: Mapping[str, str] = field(default_factory=dict)
    licence: str | None = None
    base_licence: str | None = None
    space: str | None = None
    in_repositories: bool = False
    branch: str = "main"
    create_pr: bool = False
    adapter: bool = False
    private: bool = False
    tag: str | None = None
    collection: str | None = None
    dry_run: bool = False
    trust_remote_code: bool = False
    message: str = "Model with its record"

    @property
    def asks_hub(self) -> bool:
        """Whether to ask the Hub what is there: not for a dry run without a login."""
        return not self.dry_run or get_token() is not None


def release(what: Release) -> Published:
    """Check a folder and upload it.

    Raises:
        ValueError: if the folder has faults (the message names each with its file), or the Hub refuses.
        FileNotFoundError: if there is no such folder, or it has no record.
    """
    api = HfApi()
    if what.asks_hub:
        upload.check_writer(api, what.repo_id)
    files, branches = checked_files(what, api)
    if what.adapter:
        refuse(what.folder, adapter_faults(what.folder))
        files, branches = adapter_alone(files), []
    plans = []
    if what.in_repositories:
        if not branches:
            raise ValueError(f"variants='repositories': {what.folder} has no variants; leave the option out.")
        for repo_id, part in in_repositories(what.folder, files, branches, what.repo_id).items():
            plans.append(upload.plan_upload(api, repo_id, part, is_compared=what.asks_hub))
    else:
        contents = {what.branch: files}
        if what.branch == "main" and not what.create_pr:
            contents |= overlaid(files, branches)
        for branch, part in contents.items():
            plans.append(upload.plan_upload(api, what.repo_id, part, branch=branch, is_compared=what.asks_hub))
    return put(api, plans, what, f"{what.folder}: {counted(len(files))}, card, licence and loading are in order")


def put(api: HfApi, plans: list[Plan], what: Release, checked: str) -> Published:
    """Carry out plans, one per branch or repository, the main one first; a dry run only shows them.

    Errors are those of `release`.
    """
    first = plans[0]
    kind = "datasets/" if first.kind == "dataset" else ""
    published = Published(what.repo_id, f"{api.endpoint}/{kind}{what.repo_id}", checked, plans)
    marked = [plan for plan in plans if plan.branch == first.branch]  # one per repository
    for plan in marked:
        upload.check_tag(api, plan, what.tag)
    if what.dry_run:
        published.is_dry_run = True
        if what.tag:
            published.marks.append(f"tag {what.tag}")
        if what.collection:
            published.marks.append(f"collection {what.collection!r}: {', '.join(plan.repo_id for plan in marked)}")
        return published
    logger.info("%s; now uploading to %s", checked, what.repo_id)
    done = []
    for plan in plans:
        done.append(upload.upload(api, plan, what.message, private=what.private, create_pr=what.create_pr))
    if what.create_pr and not first.is_empty:
        published.url = done[0]
        return published
    published.commit = done[0]
    for plan, commit in zip(plans, done):
        if plan.branch != first.branch:
            continue
        lines = upload.mark(api, plan, commit, tag=what.tag, collection=what.collection)
        if plan is not first:
            lines.insert(0, f"{plan.repo_id}: {commit}")
        published.marks += [line for line in lines if line not in published.marks]  # one collection holds them all
    return published


def overlaid(files: Mapping[str, Content], branches: Sequence[str]) -> dict[str, dict[str, Content]]:
    """The files of each branch: those in the subfolder of its name replace the root's, also in its record."""
    contents = {}
    for branch in branches:
        record = json.loads(read_content(files[RECORD]))
        contents[branch] = dict(files)
        for name, content in files.items():
            if name.startswith(f"{branch}/"):
                root_name = name.removeprefix(f"{branch}/")
                contents[branch][root_name] = content
                if name in record["files"]:
                    record["files"][root_name] = record["files"][name]
        contents[branch][RECORD] = record_text(record)
    return contents


def checked_files(what: Release, api: HfApi) -> tuple[dict[str, Content], list[str]]:
    """The files as they will be published, and the folder's further branches; refuses faults."""
    folder = what.folder
    record = read_record(folder)
    refuse(folder, folder_faults(folder, record))
    rows = read_results(folder / RECORD)
    files, card = renamed(folder_contents(folder), record, what, api)
    shown = eval_results_file(rows, card["train_data"])
    if shown is not None:
        files[EVAL_RESULTS] = shown.encode()
    refuse(folder, text_faults(files) + release_faults(card, card.get("base_licence")))
    if not what.trust_remote_code:
        refuse(folder, code_faults(files))
    refuse(folder, door_faults(folder, card["method"]))
    return files, list(record.get("branches", ()))


def renamed(
    files: Mapping[str, Content], record: Mapping, what: Release, api: HfApi
) -> tuple[dict[str, Content], dict]:
    """The files, with the repository's id, public names and licences in record, card and configuration; the card."""
    files = dict(files)
    public = _named({name: value for name, value in record.items() if name != "files"}, what.names)
    public["files"] = dict(record["files"])  # files keep their names
    card = public["card"]
    base = card["base_model"]
    if base.removeprefix("./") in what.names.values():
        base = base.removeprefix("./")
    card["repo_id"] = what.repo_id
    card["base_model"] = base
    if card.get("lexical") and "/" not in card["lexical"]:
        card["lexical"] = f"{what.repo_id.partition('/')[0]}/{card['lexical']}"
    if what.space is not None:
        card["space"] = what.space
    card["base_licence"] = _licence_of_base(base, what, record["card"].get("base_licence"), api)
    if what.licence is not None:
        _state_licence(public, what.licence)
    if public == record:  # every file stays byte-identical
        return files, card
    files[CARD] = moved(read_content(files[CARD]).decode("utf-8"), record, public).encode()
    files["config.yaml"] = public_yaml(card["configuration"]).encode()
    if ADAPTER in files:
        adapter = json.loads(read_content(files[ADAPTER]))
        files[ADAPTER] = json.dumps(adapter | {"base_model_name_or_path": base}, indent=2).encode()
    for name in ("config.yaml", ADAPTER):
        if isinstance(files.get(name), bytes):
            public["files"][name] = hashlib.sha256(files[name]).hexdigest()
    files[RECORD] = record_text(public)
    return files, card


def _state_licence(record: dict, licence: str) -> None:
    """Write the licence of model and text into a record that states none yet."""
    card = record["card"]
    entries = [card, *card["train_data"]]
    for entry in entries:
        stated = entry.get("licence")
        if stated not in (*_NO_LICENCE, licence):
            raise ValueError(
                f"licence={licence!r}: {RECORD} states {stated}; leave it out, or train with that licence."
            )
    for entry in entries:
        entry["licence"] = licence
    for settings in (record.get("settings"), card.get("configuration")):
        if settings is not None and "data_licence" in settings:
            settings["data_licence"] = licence


def _named(value, names: Mapping[str, str]):
    """The same content with public names in its texts; each replaces a whole name, or the beginning of a path."""
    if isinstance(value, dict):
        return {key: _named(each, names) for key, each in value.items()}
    if isinstance(value, list):
        return [_named(each, names) for each in value]
    if not isinstance(value, str):
        return value
    for local, public in names.items():
        value = _whole_name(local, value).sub(lambda _, public=public: public, value)
    return value


def _whole_name(name: str, text: str) -> re.Pattern:
    """A pattern of a name in a text, with the "./" that distinguishes a folder from an id in records (`told_apart`)."""
    word = re.escape(name)
    end = "" if name.endswith("/") else r"(?![\w-])"  # not inside a longer word
    if name.isalpha() and name != text:  # it might be a word in a sentence, such as "encoder"
        places = [rf"\./{word}{end}", rf"(?<=[\"']){word}(?=[\"'])", rf"{word}(?=/)"]
    else:
        places = [rf"(?:\./)?{word}{end}"]
    return re.compile(rf"(?<![\w./-])(?:{'|'.join(places)})")  # nor inside a longer path


def _licence_of_base(base: str, what: Release, recorded: str | None, api: HfApi) -> str | None:
    """The licence that the Hub states for the base, or else the given or recorded one; ValueError if they differ."""
    stated = base_licence(base, api)
    if stated and what.base_licence not in (None, stated):
        raise ValueError(f"base_licence={what.base_licence!r}: the Hub states {stated} for {base}; leave it out.")
    return stated or what.base_licence or recorded


def refuse(folder: Path, faults: Sequence[str]) -> None:
    """Raise a ValueError that names the faults, if there are any."""
    if faults:
        shown = list(faults[:_FAULTS])
        if len(faults) > _FAULTS:
            shown.append(f"and {len(faults) - _FAULTS} more")
        raise ValueError(f"{folder} is not published: {'; '.join(shown)}")
