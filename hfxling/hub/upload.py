"""Upload files to a repository in one commit: compare with what is there, show the plan, then carry it out."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi, hf_hub_download
from huggingface_hub.errors import (
    HfHubHTTPError,
    HFValidationError,
    HTTPError,
    LocalTokenNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.hf_api import RepoFile
from huggingface_hub.utils import validate_repo_id

from hfxling.encoders.identity import read_json

from .record import CARD, RECORD

_SHOWN = 60  # lines of the card's diff
Content = Path | bytes


@dataclass
class Plan:
    """What an upload would change."""

    repo_id: str  # with its namespace
    kind: str  # "model" or "dataset"
    branch: str  # the branch to write to
    parent: str | None  # the branch's commit that the plan was made for; None if the branch does not exist yet
    is_new: bool  # whether the repository does not exist yet
    files: Mapping[str, Content]  # all files of ours that the branch will hold, by name
    added: list[str] = field(default_factory=list)  # names of `files`
    changed: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)  # names from an earlier upload that are gone now
    card: list[str] = field(default_factory=list)  # its diff
    is_compared: bool = True  # whether the Hub was asked what is there

    @property
    def is_empty(self) -> bool:
        """Whether the branch already holds everything."""
        return self.parent is not None and not (self.added or self.changed or self.removed)

    def text(self) -> str:
        """What changes, for people."""
        where = f"{self.kind} {self.repo_id}, branch {self.branch}"
        if self.is_empty:
            return f"{where}: nothing to do, all is there at {self.parent[:12]} ({counted(len(self.files))})"
        state = f"at {self.parent[:12]}" if self.parent else "a new branch"
        if self.is_new:
            state = "a new repository"
        if not self.is_compared:
            state = "not compared with the Hub, as you are not logged in"
        counts = f"{len(self.added)} new, {len(self.changed)} changed, {len(self.removed)} removed"
        lines = [f"{where}, {state}: {counted(len(self.files))}, {counts}"]
        for mark, names in (("+", self.added), ("~", self.changed)):
            for name in names:
                lines.append(f"  {mark} {name} ({size_of(self.files[name]):,} bytes)")
        for name in self.removed:
            lines.append(f"  - {name}")
        for line in self.card[:_SHOWN]:
            lines.append(f"    {line}")
        if len(self.card) > _SHOWN:
            lines.append(f"    ({len(self.card) - _SHOWN} more lines)")
        return "\n".join(lines)


@dataclass(repr=False)
class Published:
    """What changed on the Hub, or would change.

    Attributes:
        repo_id: name of the repository, with its namespace.
        url: address of the repository, or of the pull request.
        checked: what was checked and found in order.
        plans: one for each branch or repository: new, changed and removed files, and what changes in the card.
        commit: commit of the first plan; None for a dry run and for a pull request.
        marks: lines for the tag and the collection that were made, or would be, and for every further repository.
        is_dry_run: whether nothing was written.
    """

    repo_id: str
    url: str
    checked: str
    plans: list[Plan]
    commit: str | None = None
    marks: list[str] = field(default_factory=list)
    is_dry_run: bool = False

    def table(self) -> str:
        """What was checked, what changes on each branch, and the commit or address."""
        lines = [self.checked]
        for plan in self.plans:
            lines.append(plan.text())
        lines += self.marks
        if not self.is_dry_run:
            lines.append(f"{self.repo_id}: {self.commit or self.url}")
        return "\n".join(lines)

    __repr__ = table  # as `hfxling.verbs.Result`


def counted(count: int) -> str:
    """A number of files in words, such as "2 files"."""
    return f"{count} {'file' if count == 1 else 'files'}"


def size_of(content: Content) -> int:
    """Size in bytes, without reading a file."""
    return len(content) if isinstance(content, bytes) else content.stat().st_size


def read_content(content: Content) -> bytes:
    """The bytes of a file, or bytes as they are."""
    return content if isinstance(content, bytes) else content.read_bytes()


def plan_upload(
    api: HfApi,
    repo_id: str,
    files: Mapping[str, Content],
    *,
    branch: str = "main",
    kind: str = "model",
    is_compared: bool = True,
) -> Plan:
    """Compare files with what a branch holds; with `is_compared=False` all count as new."""
    if not is_compared:
        return Plan(repo_id, kind, branch, None, True, files, sorted(files), is_compared=False)
    try:
        return _plan(api, repo_id, files, branch, kind)
    except (HTTPError, OSError) as error:
        problem = f"the Hub did not say what the repository holds ({one_line(error)})"
        raise ValueError(f"{repo_id}: {problem}; check the name and the connection.") from None


def _plan(api: HfApi, repo_id: str, files: Mapping[str, Content], branch: str, kind: str) -> Plan:
    parent = None
    try:
        parent = held = api.repo_info(repo_id, repo_type=kind, revision=branch).sha
    except RevisionNotFoundError:
        held = api.repo_info(repo_id, repo_type=kind).sha  # a new branch begins with what main holds
    except RepositoryNotFoundError:
        return Plan(repo_id, kind, branch, None, True, files, sorted(files))
    present = {}
    for entry in api.list_repo_tree(repo_id, recursive=True, repo_type=kind, revision=held):
        if isinstance(entry, RepoFile):
            present[entry.path] = entry
    plan = Plan(repo_id, kind, branch, parent, False, files, sorted(files.keys() - present.keys()))
    for name in sorted(files.keys() & present.keys()):
        if not _is_same(files[name], present[name]):
            plan.changed.append(name)
    # Only files that an earlier record names are ours to remove; if nothing changed, the record did not either.
    if RECORD in present and plan.changed:
        recorded = read_json(_remote(plan, RECORD, held, api.token)).get("files")
        if isinstance(recorded, dict):
            plan.removed = sorted((recorded.keys() & present.keys()) - files.keys())
    if CARD in plan.changed:
        old = _remote(plan, CARD, held, api.token).read_text(encoding="utf-8", errors="replace").splitlines()
        new = read_content(files[CARD]).decode().splitlines()
        plan.card = list(difflib.unified_diff(old, new, CARD, CARD, lineterm="", n=0))
    return plan


def _remote(plan: Plan, name: str, revision: str, token: str | None) -> Path:
    return Path(hf_hub_download(plan.repo_id, name, repo_type=plan.kind, revision=revision, token=token))


def _is_same(content: Content, entry: RepoFile) -> bool:
    if size_of(content) != entry.size:
        return False
    data = read_content(content)
    if entry.lfs:
        return hashlib.sha256(data).hexdigest() == entry.lfs.sha256
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest() == entry.blob_id  # as git names a file


def check_repo_id(option: str, repo_id: str) -> None:
    """Refuse an invalid name of a repository."""
    if repo_id.count("/") != 1:
        raise ValueError(f"{option}={repo_id!r}: give the repository as namespace/name.")
    try:
        validate_repo_id(repo_id)
    except HFValidationError as error:
        raise ValueError(f"{option}={repo_id!r}: {error}") from None


def check_writer(api: HfApi, repo_id: str) -> None:
    """Refuse a token that can only read, before anything is computed."""
    try:
        user = api.whoami()
    except LocalTokenNotFoundError:
        raise ValueError(f"there is no token to push to {repo_id}; run hf auth login, or set HF_TOKEN.") from None
    except HfHubHTTPError as error:
        status = error.response.status_code if error.response is not None else None
        if status in (401, 403):
            raise ValueError(f"the token is not valid; run hf auth login again to push to {repo_id}.") from None
        return  # the next request asks the Hub again
    except (HTTPError, OSError):
        return
    role = ((user.get("auth") or {}).get("accessToken") or {}).get("role")
    if role == "read":
        raise ValueError(f"the token can only read; to push to {repo_id}, create one that may write.")


def upload(api: HfApi, plan: Plan, message: str, *, private: bool = False, create_pr: bool = False) -> str:
    """Carry out a plan in one commit on its parent; if there is nothing to do, nothing is written.

    Returns:
        The commit, or the address of the pull request.

    Raises:
        ValueError: if the Hub refuses, the branch has changed since, or the Hub cannot be reached; the branch then
            stays as it is.
    """
    if plan.is_empty:
        return plan.parent
    operations = []
    for name in plan.added + plan.changed:
        operations.append(CommitOperationAdd(path_in_repo=name, path_or_fileobj=plan.files[name]))
    for name in plan.removed:
        operations.append(CommitOperationDelete(path_in_repo=name))
    parent = plan.parent
    options = {"repo_type": plan.kind}
    try:
        if plan.is_new:
            api.create_repo(plan.repo_id, private=private, exist_ok=True, **options)
        if parent is None:
            if plan.branch != "main":
                api.create_branch(plan.repo_id, branch=plan.branch, exist_ok=True, **options)
            parent = api.repo_info(plan.repo_id, revision=plan.branch, **options).sha
        # As the parent is named, the Hub refuses the commit if the branch has moved on.
        options |= {"revision": plan.branch, "parent_commit": parent, "create_pr": create_pr}
        done = api.create_commit(plan.repo_id, operations, commit_message=message, **options)
    except (HTTPError, OSError, ValueError) as error:
        raise ValueError(f"the upload to {plan.repo_id} failed ({_cause(error, plan)})") from None
    return done.pr_url if create_pr else done.oid


def _cause(error: Exception, plan: Plan) -> str:
    status = getattr(getattr(error, "response", None), "status_code", None)
    said = one_line(error)
    if status in (401, 403):
        return f"{status}: the token may not write there: {said}"
    if status in (409, 412):
        return f"{status}: branch {plan.branch} was changed in the meantime; look at it with --dry_run: {said}"
    return said


def one_line(error: Exception) -> str:
    """An error's message in one line."""
    return " ".join(str(error).split())[:300]


def check_tag(api: HfApi, plan: Plan, tag: str | None) -> None:
    """Refuse a tag that is at another commit already, before anything is uploaded."""
    if not tag or plan.is_new:
        return
    refs = api.list_repo_refs(plan.repo_id, repo_type=plan.kind)
    for ref in refs.tags:
        if ref.name == tag and not (plan.is_empty and ref.target_commit == plan.parent):
            raise ValueError(f"tag={tag} is at {ref.target_commit[:12]} in {plan.repo_id} already; choose another one.")


def mark(api: HfApi, plan: Plan, commit: str, *, tag: str | None, collection: str | None) -> list[str]:
    """Tag a commit and put its repository into a collection; returns lines that say what was done."""
    done = []
    try:
        if tag:
            api.create_tag(plan.repo_id, tag=tag, revision=commit, repo_type=plan.kind, exist_ok=True)
            done.append(f"tag {tag} at {commit[:12]}")
        if collection:
            namespace = plan.repo_id.partition("/")[0]
            entry = api.create_collection(collection, namespace=namespace, exists_ok=True)
            api.add_collection_item(entry.slug, plan.repo_id, plan.kind, exists_ok=True)
            done.append(f"collection {entry.slug}")
    except (HTTPError, OSError) as error:
        raise ValueError(
            f"{plan.repo_id}: the files were uploaded, but tag or collection failed ({_cause(error, plan)})"
        ) from None
    return done
