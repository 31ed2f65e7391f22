"""The one way of a finished folder to the Hub: checked, shown, and put there in one commit."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from huggingface_hub import HfApi

from hfxling.evaluation.results import EvalResult, read_results

from . import upload
from .agreement import card_faults
from .card import CardInfo, moved, public_yaml, render_card
from .checks import base_licence, folder_contents, release_faults, text_faults
from .doors import door_faults
from .record import CARD, RECORD, file_faults, is_intact, read_record, sealed
from .upload import Content, Plan

_FAULTS = 8  # shown of many


@dataclass
class Release:
    """Where a folder goes, and what is said of it there.

    Attributes:
        folder: that a recipe, or `hfxling fit`, wrote.
        repo_id: with its namespace.
        names: what readers call what is local in the record: paths of text, the base model.
        base_licence: of the base model, where the Hub does not state one.
        branch: that is written to; further ones of the folder are written beside "main" only.
        create_pr: propose it in a pull request.
        private: create the repository as a private one.
        tag: of the commit.
        collection: title of the collection that the repository is put into.
        dry_run: check and show, change nothing.
        message: of the commit.
    """

    folder: Path
    repo_id: str
    names: Mapping[str, str] = field(default_factory=dict)
    base_licence: str | None = None
    branch: str = "main"
    create_pr: bool = False
    private: bool = False
    tag: str | None = None
    collection: str | None = None
    dry_run: bool = False
    message: str = "Model with its record"


def release(what: Release, tell: Callable[[str], None]) -> str | None:
    """Check a folder, say what changes and upload it.

    Args:
        what: folder and place.
        tell: gets lines for people.

    Returns:
        The commit, or the pull request's address; None for a dry run.

    Raises:
        ValueError: a fault of the folder, each with its file; a branch that changed since the dry run; what the Hub
            refuses.
        FileNotFoundError: no folder, or none with a record.
    """
    api = HfApi()
    upload.check_writer(api, what.repo_id)
    files, branches = checked_files(what, api)
    tell(f"{what.folder}: {len(files)} files, card, licence and doors are in order")
    overlays = {} if what.create_pr or what.branch != "main" else overlaid(files, branches)
    kept = dict.fromkeys((what.branch,), files) | overlays
    plans = [upload.plan_upload(api, what.repo_id, part, branch=branch) for branch, part in kept.items()]
    return put(api, plans, what, tell)


def put(api: HfApi, plans: Sequence[Plan], what: Release, tell: Callable[[str], None]) -> str | None:
    """Show plans, one a branch, and do them; as `release` otherwise."""
    upload.check_tag(api, plans[0], what.tag)
    for plan in plans:
        if not what.dry_run:
            upload.check_unchanged(plan, what.folder)
        tell(plan.text())
    if what.dry_run:
        for plan in plans:
            upload.remember(plan, what.folder)
        return None
    how = {"private": what.private, "create_pr": what.create_pr}
    commits = []
    for plan in plans:
        commits.append(upload.upload(api, replace(plan, is_new=plan.is_new and not commits), what.message, **how))
        upload.forget(plan, what.folder)
    if not what.create_pr:
        for line in upload.mark(api, plans[0], commits[0], tag=what.tag, collection=what.collection):
            tell(line)
    tell(f"{what.repo_id}: {commits[0]}")
    return commits[0]


def overlaid(files: Mapping[str, Content], branches: Sequence[str]) -> dict[str, dict[str, Content]]:
    """By branch the files that it holds: those of the subfolder of its name lie over the root's."""
    return {
        branch: dict(files)
        | {name.removeprefix(f"{branch}/"): path for name, path in files.items() if name.startswith(f"{branch}/")}
        for branch in branches
    }


def checked_files(what: Release, api: HfApi) -> tuple[dict[str, Content], list[str]]:
    """The files as they are published, and the folder's further branches.

    Raises:
        ValueError: whatever stands against publishing them.
    """
    record, folder = read_record(what.folder), what.folder
    faults = file_faults(folder, record.get("files"))
    if not faults and not is_intact(record):
        faults.append(f"{RECORD}: was changed after it was written")
    if not (folder / CARD).is_file():
        faults.append(f"{CARD}: is missing")
    refuse(folder, faults)
    rows = read_results(folder / RECORD)
    faults = card_faults((folder / CARD).read_text(encoding="utf-8"), rows, record["card"])
    refuse(folder, faults)
    files, card = renamed(folder_contents(folder), rows, record, what, api)
    refuse(folder, text_faults(files) + release_faults(card, card.get("base_licence")))
    refuse(folder, door_faults(folder, card["method"]))
    return files, list(record.get("branches", ()))


def renamed(
    files: Mapping[str, Content], rows: Sequence[EvalResult], record: Mapping, what: Release, api: HfApi
) -> tuple[dict[str, Content], dict]:
    """The files with the repository's own id and public names in record, card and configuration; fields of the card."""
    files = dict(files)
    told = _named({name: value for name, value in record.items() if name != "files"}, what.names)
    told["files"] = record["files"]
    base = told["card"]["base_model"]
    base = base.removeprefix("./") if base.removeprefix("./") in what.names.values() else base
    told["card"] |= {"repo_id": what.repo_id, "base_model": base}
    told["card"]["base_licence"] = _licence_of_base(base, what, record["card"].get("base_licence"), api)
    if told == record:
        return files, told["card"]
    before = render_card(rows, CardInfo(**record["card"]))
    after = render_card([EvalResult(**row) for row in told["results"]], CardInfo(**told["card"]))
    files[CARD] = moved(_bytes(files[CARD]).decode("utf-8"), before, after).encode()
    files["config.yaml"] = public_yaml(told["card"]["configuration"]).encode()
    files[RECORD] = _record_text(told, files)
    return files, told["card"]


def _named(value, names: Mapping[str, str]):
    """The same content with public names in its texts: each in place of a whole name, or of what a path begins with."""
    if isinstance(value, dict):
        return {key: _named(each, names) for key, each in value.items()}
    if isinstance(value, list):
        return [_named(each, names) for each in value]
    for local, public in names.items() if isinstance(value, str) else ():
        end = "" if local.endswith("/") else r"(?![\w-])"
        value = re.sub(rf"(?<![\w./-])(?:\./)?{re.escape(local)}{end}", lambda _, public=public: public, value)
    return value


def _licence_of_base(base: str, what: Release, recorded: str | None, api: HfApi) -> str | None:
    """What the Hub states of the base model, or else what it is said to be under; ValueError where these differ."""
    stated = base_licence(base, api)
    if stated and what.base_licence not in (None, stated):
        raise ValueError(f"base_licence={what.base_licence!r}: the Hub states {stated} of {base}; leave it out.")
    return stated or what.base_licence or recorded


def _record_text(told: dict, files: Mapping[str, Content]) -> bytes:
    """A record as it is written, a row a line, with the hash of the configuration and sealed again."""
    about = {key: value for key, value in told.items() if key not in ("results", "digest")}
    about["files"] = dict(about["files"]) | {"config.yaml": hashlib.sha256(files["config.yaml"]).hexdigest()}
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in told["results"])
    text = f'{{"results": [\n{lines}\n],\n{json.dumps(about, ensure_ascii=False, indent=2)[2:]}\n'
    return sealed(text).encode()


def _bytes(content: Content) -> bytes:
    return content if isinstance(content, bytes) else content.read_bytes()


def refuse(folder: Path, faults: Sequence[str]) -> None:
    """Raise the ValueError that names them."""
    if faults:
        more = f"; and {len(faults) - _FAULTS} more" * (len(faults) > _FAULTS)
        raise ValueError(f"{folder} is not published: {'; '.join(faults[:_FAULTS])}{more}")
