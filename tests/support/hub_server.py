"""A stand-in for the Hugging Face Hub: the HTTP interface behind push, pull and load_dataset, kept in memory.

Models and datasets with commits, branches, tags, LFS, private repositories, pull requests (as refs alone) and
collections; no spaces, Xet or .gitignore rules. Every token is good for everything but one that begins with "read";
writing without one is refused, as on the Hub.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from hub_files import (
    GITATTRIBUTES,
    Reply,
    card_data,
    card_problem,
    etag_of,
    file_entry,
    git_oid,
    in_lfs,
    json_reply,
    part_of,
    tree_of,
)
from publisher import Publisher


class Refusal(Exception):
    """Raised by an endpoint; `code` is what the client maps to its own error classes."""

    def __init__(self, status: int, message: str, code: str = "", commit: str = ""):
        headers = {"X-Error-Message": message, "X-Error-Code": code, "X-Repo-Commit": commit}
        self.reply = json_reply({"error": message}, status, {name: text for name, text in headers.items() if text})


class Commit(NamedTuple):
    oid: str
    parent: str | None
    title: str
    date: str
    files: dict[str, bytes]


class Repo:
    """One repository. Commits (oldest first) are never changed; branches and tags name their oids."""

    def __init__(self, kind: str, repo_id: str, private: bool = False):
        self.repo_id, self.private = repo_id, private
        self.web_path = repo_id if kind == "models" else f"{kind}/{repo_id}"
        self.commits: dict[str, Commit] = {}
        self.branches: dict[str, str] = {}
        self.tags: dict[str, str] = {}
        self.commit("main", {".gitattributes": GITATTRIBUTES}, "initial commit")

    def at(self, revision: str) -> Commit:
        oid = self.branches.get(revision) or self.tags.get(revision) or revision
        if oid not in self.commits:
            raise Refusal(404, f"Invalid rev id: {revision}", "RevisionNotFound")
        return self.commits[oid]

    def commit(self, branch: str, files: dict[str, bytes], title: str) -> Commit:
        parent = self.branches.get(branch)
        content = sorted((path, git_oid(data)) for path, data in files.items())
        oid = hashlib.sha1(json.dumps([self.web_path, parent, title, content]).encode()).hexdigest()
        self.commits[oid] = Commit(oid, parent, title, datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"), files)
        self.branches[branch] = oid
        return self.commits[oid]


class HubServer:
    """Serves on a free loopback port while its context is open.

    `fault(method, path)` is asked about every request: None lets it pass, a number answers with that status, "drop"
    closes the connection before anything is done, "truncate" does what was asked but sends half of the answer, "flip"
    all of it with a wrong bit.
    `requests` lists what came in as (method, path), faults included.
    """

    def __init__(self):
        self.lock = threading.Lock()
        self.clear()

    def clear(self) -> None:
        """Forget everything."""
        self.repos: dict[tuple[str, str], Repo] = {}
        self.lfs: dict[str, bytes] = {}
        self.collections: dict[str, list[dict]] = {}
        self.requests: list[tuple[str, str]] = []
        self.fault: Callable[[str, str], int | str | None] = lambda method, path: None

    def __enter__(self) -> HubServer:
        self._listener = Listener(("127.0.0.1", 0), Handler)
        self._listener.hub = self
        self.url = f"http://127.0.0.1:{self._listener.server_port}"
        threading.Thread(target=self._listener.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.fault = lambda method, path: "drop"  # connections that clients keep alive outlast the listener
        self._listener.shutdown()
        self._listener.server_close()

    def env(self, tmp_path: Path) -> dict[str, str]:
        """The environment for a client process, which reads it at import; its caches lie below `tmp_path`."""
        outer = ("HF_", "HUGGINGFACE_", "TRANSFORMERS_", "SENTENCE_TRANSFORMERS_")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(outer)}
        address = {"HF_ENDPOINT": self.url, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
        switches = ("HF_HUB_DISABLE_XET", "HF_HUB_DISABLE_TELEMETRY", "HF_HUB_DISABLE_PROGRESS_BARS")
        home = {"HF_HOME": str(tmp_path / "hf_home"), "HF_TOKEN": "any"}
        return kept | address | home | dict.fromkeys(switches, "1")

    def repo(self, repo_id: str, repo_type: str = "model") -> Repo:
        return self.repos[f"{repo_type}s", repo_id]

    def files(self, repo_id: str, revision: str = "main", repo_type: str = "model") -> dict[str, bytes]:
        """Path -> content, with the .gitattributes every repository is born with."""
        return dict(self.repo(repo_id, repo_type).at(revision).files)

    def put(self, repo_id: str, files: dict[str, bytes], repo_type: str = "model") -> Commit:
        """Add files to main in one commit, without a client; creates the repository where it is missing."""
        key = (f"{repo_type}s", repo_id)
        repo = self.repos.setdefault(key, Repo(*key))
        return repo.commit("main", repo.at("main").files | files, "put")


ROUTES: list[tuple[str, re.Pattern, bool, Callable]] = []
REPO = r"/(?P<repo_id>[^/]+(?:/[^/]+)?)"
API, WEB = r"/api/(?P<kind>models|datasets)" + REPO, r"(?:/(?P<kind>datasets))?" + REPO
REVISION = r"/(?P<revision>[^/]+)"


def route(method: str, pattern: str, token: bool = False) -> Callable:
    """Register an endpoint; the pattern's groups become its arguments, `kind` and `repo_id` together its `repo`."""

    def register(endpoint: Callable) -> Callable:
        ROUTES.append((method, re.compile(pattern), token, endpoint))
        return endpoint

    return register


class Listener(ThreadingHTTPServer):
    request_queue_size = 128
    hub: HubServer


class Handler(BaseHTTPRequestHandler):
    """One connection. An endpoint returns JSON content or a `Reply`; `self.hub` is locked while it runs."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def handle_request(self) -> None:
        self.hub: HubServer = self.server.hub
        url = urlsplit(self.path)
        self.query = parse_qs(url.query)
        self.body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.hub.requests.append((self.command, unquote(url.path)))
        fault = self.hub.fault(self.command, unquote(url.path))
        if isinstance(fault, int):
            self.send(Refusal(fault, "injected fault").reply)
        elif fault == "drop":
            self.close_connection = True
        else:
            reply = self.answer(url.path)
            if fault == "flip" and reply.body:
                place = min(
                    len(reply.body) // 2 | 3, len(reply.body) - 1
                )  # a float's exponent: no vector stays as it was
                reply = reply._replace(
                    body=reply.body[:place] + bytes([reply.body[place] ^ 1]) + reply.body[place + 1 :]
                )
            self.send(reply, half=fault == "truncate")

    do_GET = do_HEAD = do_POST = do_PUT = handle_request

    def log_message(self, *_: object) -> None: ...

    def send(self, reply: Reply, half: bool = False) -> None:
        self.send_response(reply.status)
        closing = {"Connection": "close"} if half else {}
        for name, text in (reply.headers | {"Content-Length": str(len(reply.body))} | closing).items():
            self.send_header(name, text)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(reply.body[: len(reply.body) // 2] if half else reply.body)

    def answer(self, path: str) -> Reply:
        method = "GET" if self.command == "HEAD" else self.command
        for expected, pattern, token, endpoint in ROUTES:
            if expected == method and (match := pattern.fullmatch(path)):
                arguments = {name: unquote(text or "") for name, text in match.groupdict().items()}
                try:
                    with self.hub.lock:
                        reply = self.call(endpoint, token, arguments)
                except Refusal as refusal:
                    return refusal.reply
                except (AttributeError, KeyError, TypeError, ValueError) as problem:
                    return Refusal(400, f"Malformed request: {problem!r}").reply
                return reply if isinstance(reply, Reply) else json_reply(reply)
        return Refusal(404, f"The stand-in Hub does not serve {method} {path}").reply

    def call(self, endpoint: Callable, token: bool, arguments: dict) -> Reply | dict | list:
        has_token = self.headers.get("Authorization", "").startswith("Bearer ")
        if token and not has_token:
            raise Refusal(401, "Invalid username or password.")
        if token and self.headers["Authorization"].startswith("Bearer read"):
            raise Refusal(403, "You don't have the rights to write here.")
        if "repo_id" in arguments:
            repo = self.hub.repos.get((arguments.pop("kind") or "models", arguments.pop("repo_id")))
            if repo is None or (repo.private and not has_token):
                raise Refusal(404, "Repository not found", "RepoNotFound")
            arguments["repo"] = repo
        return endpoint(self, **arguments)

    @route("POST", "/api/repos/create", token=True)
    def create(self) -> Reply:
        wanted = json.loads(self.body)
        kind, owner = wanted.get("type") or "model", wanted.get("organization") or "user"
        if kind not in ("model", "dataset"):
            raise Refusal(400, f"The stand-in Hub has no repositories of type {kind}")
        key = (f"{kind}s", f"{owner}/{wanted['name']}")
        exists = {"error": "This repo exists already"} if key in self.hub.repos else {}
        private = wanted.get("private") is True or wanted.get("visibility") == "private"
        repo = self.hub.repos.setdefault(key, Repo(*key, private))
        return json_reply({"url": f"{self.hub.url}/{repo.web_path}"} | exists, 409 if exists else 200)

    @route("POST", "/api/validate-yaml")
    def validate_yaml(self) -> Reply:
        problem = card_problem(json.loads(self.body)["content"])
        errors = [{"message": problem}] if problem else []
        return json_reply({"warnings": [], "errors": errors}, 400 if problem else 200)

    @route("POST", API + "/preupload" + REVISION, token=True)
    def preupload(self, repo: Repo, revision: str) -> dict:
        answers, present = [], repo.at(revision).files
        for file in json.loads(self.body)["files"]:
            path, mode = file["path"], "lfs" if in_lfs(file["path"], file["size"]) else "regular"
            oid = etag_of(path, present[path]) if path in present else None  # lets the client skip unchanged files
            answers.append({"path": path, "uploadMode": mode, "shouldIgnore": False, "oid": oid})
        return {"files": answers}

    @route("POST", WEB + r"\.git/info/lfs/objects/batch", token=True)
    def lfs_batch(self, repo: Repo) -> dict:
        objects = [{"oid": wanted["oid"], "size": wanted["size"]} for wanted in json.loads(self.body)["objects"]]
        for entry in objects:
            if entry["oid"] not in self.hub.lfs:
                entry["actions"] = {"upload": {"href": f"{self.hub.url}/lfs/{entry['oid']}"}}
        return {"transfer": "basic", "objects": objects}

    @route("PUT", "/lfs/(?P<oid>[0-9a-f]{64})")  # without a token: to the client it is a signed storage URL
    def lfs_upload(self, oid: str) -> dict:
        if (found := hashlib.sha256(self.body).hexdigest()) != oid:
            raise Refusal(400, f"The content has sha256 {found}, announced was {oid}")
        self.hub.lfs[oid] = self.body
        return {}

    @route("POST", API + "/commit" + REVISION, token=True)
    def commit(self, repo: Repo, revision: str) -> dict:
        is_proposal = "create_pr" in self.query
        if revision not in repo.branches:
            raise Refusal(404, f"Invalid rev id: {revision}", "RevisionNotFound")
        head, files = repo.at(revision), dict(repo.at(revision).files)
        header, *operations = (json.loads(line) for line in self.body.split(b"\n") if line)
        if header["value"].get("parentCommit", head.oid) != head.oid:
            raise Refusal(412, "A commit has happened since. Please refresh and try again.")
        for operation in operations:
            self.apply(files, operation["key"], operation["value"])
        branch = (
            f"refs/pr/{1 + sum(name.startswith('refs/pr/') for name in repo.branches)}" if is_proposal else revision
        )
        if is_proposal:
            repo.branches[branch] = head.oid
        oid = repo.commit(branch, files, header["value"]["summary"]).oid
        url = f"{self.hub.url}/{repo.web_path}"
        done = {"success": True, "commitOid": oid, "commitUrl": f"{url}/commit/{oid}", "hookOutput": ""}
        return done | ({"pullRequestUrl": f"{url}/discussions/{branch.rpartition('/')[2]}"} if is_proposal else {})

    @route("GET", "/api/whoami-v2")
    def whoami(self) -> dict:
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if not token:
            raise Refusal(401, "Invalid username or password.")
        role = "read" if token.startswith("read") else "write"
        return {"type": "user", "name": "user", "auth": {"type": "access_token", "accessToken": {"role": role}}}

    @route("POST", "/api/collections", token=True)
    def create_collection(self) -> Reply:
        wanted = json.loads(self.body)
        slug = f"{wanted['namespace']}/{wanted['title'].lower().replace(' ', '-')}-0"
        exists = slug in self.hub.collections
        return json_reply(self.described(slug, wanted["title"]), 409 if exists else 200)

    @route("POST", "/api/collections/(?P<slug>[^/]+/[^/]+)/items", token=True)
    def add_item(self, slug: str) -> Reply:
        item, items = json.loads(self.body)["item"], self.hub.collections[slug]
        known = item in items
        items += [item] * (not known)
        return json_reply(self.described(slug), 409 if known else 200)

    @route("GET", "/api/collections/(?P<slug>[^/]+/[^/]+)")
    def collection(self, slug: str) -> dict:
        return self.described(slug)

    def described(self, slug: str, title: str = "") -> dict:
        items = [
            item | {"_id": str(i), "position": i} for i, item in enumerate(self.hub.collections.setdefault(slug, []))
        ]
        about = {"slug": slug, "title": title, "owner": {"name": slug.partition("/")[0]}, "items": items}
        more = {
            "lastUpdated": "2026-01-01T00:00:00.000Z",
            "position": 0,
            "private": False,
            "theme": "blue",
            "upvotes": 0,
        }
        return about | more

    def apply(self, files: dict[str, bytes], operation: str, value: dict) -> None:
        path = value["path"]
        if operation == "file":
            files[path] = base64.b64decode(value["content"])
        elif operation == "lfsFile":
            if value["oid"] not in self.hub.lfs:
                raise Refusal(400, f"The LFS object {value['oid']} of {path} was never uploaded")
            files[path] = self.hub.lfs[value["oid"]]
        else:
            inside = {name for name in files if name.startswith(path.rstrip("/") + "/")}
            gone = {"deletedFile": {path} & files.keys(), "deletedFolder": inside}[operation]
            if not gone:
                raise Refusal(404, f"A file with this name doesn't exist: {path}", "EntryNotFound")
            for name in gone:
                del files[name]

    @route("GET", API + "/tree" + REVISION + "(?:/(?P<path>.+))?")
    def tree(self, repo: Repo, revision: str, path: str) -> list:
        commit = repo.at(revision)
        entries, prefix = tree_of(commit.files), f"{path}/" if path else ""
        if path and entries.get(path, {}).get("type") != "directory":
            raise Refusal(404, f"{path} is not a folder on {revision}", "EntryNotFound", commit.oid)
        inside = {name.removeprefix(prefix): entry for name, entry in entries.items() if name.startswith(prefix)}
        return [entry for name, entry in inside.items() if "/" not in name or self.query.get("recursive") == ["true"]]

    @route("GET", API + "/refs")
    def refs(self, repo: Repo) -> dict:
        def listed(refs: dict[str, str], folder: str) -> list[dict]:
            return [{"name": name, "ref": f"refs/{folder}/{name}", "targetCommit": oid} for name, oid in refs.items()]

        return {"branches": listed(repo.branches, "heads"), "tags": listed(repo.tags, "tags"), "converts": []}

    @route("POST", API + "/tag" + REVISION, token=True)
    def tag(self, repo: Repo, revision: str) -> dict:
        return self.point(repo.tags, json.loads(self.body)["tag"], repo.at(revision))

    @route("POST", API + "/branch/(?P<name>[^/]+)", token=True)
    def branch(self, repo: Repo, name: str) -> dict:
        return self.point(repo.branches, name, repo.at(json.loads(self.body).get("startingPoint", "main")))

    def point(self, refs: dict[str, str], name: str, target: Commit) -> dict:
        if name in refs:
            raise Refusal(409, f"Reference {name} exists already")
        refs[name] = target.oid
        return {}

    @route("GET", API + f"(?:/revision{REVISION})?")
    def info(self, repo: Repo, revision: str) -> dict:
        commit = repo.at(revision or "main")
        entries = [file_entry(path, data) for path, data in commit.files.items()]
        siblings = [{"rfilename": entry["path"], "blobId": entry["oid"]} | entry for entry in entries]
        known = {"id": repo.repo_id, "sha": commit.oid, "lastModified": commit.date, "private": repo.private}
        return known | {"siblings": siblings, "tags": [], "cardData": card_data(commit.files.get("README.md", b""))}

    @route("GET", WEB + "/resolve" + REVISION + "/(?P<path>.+)")
    def resolve(self, repo: Repo, revision: str, path: str) -> Reply:
        commit = repo.at(revision)
        if path not in commit.files:
            raise Refusal(404, "Entry not found", "EntryNotFound", commit.oid)
        data = commit.files[path]
        etag = f'"{etag_of(path, data)}"'
        headers = {"ETag": etag, "X-Repo-Commit": commit.oid, "Accept-Ranges": "bytes"}
        if in_lfs(path, len(data)):
            headers |= {"X-Linked-Etag": etag, "X-Linked-Size": str(len(data))}
        return part_of(data, self.headers.get("Range", ""), headers)


@pytest.fixture(scope="session")
def hub_of_all_tests() -> Iterator[HubServer]:
    with HubServer() as server:
        yield server


@pytest.fixture
def hub(hub_of_all_tests) -> HubServer:
    """Empty, at the same address for every test."""
    hub_of_all_tests.clear()
    return hub_of_all_tests


@pytest.fixture(scope="session")
def publisher(hub_of_all_tests, tmp_path_factory, warm_python) -> Iterator[Publisher]:
    """A process whose Hub this is; see `Publisher`."""
    publisher = Publisher(hub_of_all_tests, tmp_path_factory.mktemp("publisher"), warm_python)
    yield publisher
    publisher.close()
