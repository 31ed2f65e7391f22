"""The stand-in Hub against the real client libraries, each client in a process of its own with an empty cache."""

import hashlib
import http.client
import json
import subprocess
import sys
import textwrap
from collections import Counter
from pathlib import Path

import pytest
from hub_files import GITATTRIBUTES
from hub_server import HubServer
from versions import older


def run_client(server: HubServer, folder: Path, code: str, **settings: str) -> dict | list:
    """Run client code in a fresh process that works and caches in `folder`; its last line of output is JSON."""
    folder.mkdir(exist_ok=True)
    command, env = [sys.executable, "-c", textwrap.dedent(code)], server.env(folder) | settings
    done = subprocess.run(command, env=env, cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def ask(server: HubServer, method: str, path: str, body: object = None, **headers: str) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=10)
    connection.request(method, path, body if isinstance(body, bytes | None) else json.dumps(body).encode(), headers)
    return connection.getresponse()


def ask_to_commit(server: HubServer, operation: str, **value: str) -> http.client.HTTPResponse:
    lines = [{"key": "header", "value": {"summary": "s"}}, {"key": operation, "value": value}]
    body = "\n".join(map(json.dumps, lines)).encode()
    return ask(server, "POST", "/api/models/org/m/commit/main", body, Authorization="Bearer any")


@pytest.fixture
def folder(tmp_path: Path) -> dict[str, bytes]:
    """What lies in tmp_path/folder: an LFS file, an empty one and subfolders among it."""
    files = {
        "README.md": b"---\nlicense: apache-2.0\n---\n# card\n",
        "model.safetensors": bytes(range(256)) * 64,
        "empty.bin": b"",
        "4_Router/zh_0_Dense/config.json": b"{}",
        "sub dir/tiếng việt.txt": "xin chào".encode(),
    }
    for path, data in files.items():
        (tmp_path / "folder" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "folder" / path).write_bytes(data)
    return files


def test_folder_comes_back_and_an_unchanged_push_makes_no_commit(hub, folder, tmp_path):
    code = """
    import json, pathlib
    from huggingface_hub import HfApi, hf_hub_download, snapshot_download

    api = HfApi()
    api.create_repo("org/m")
    first = api.upload_folder(repo_id="org/m", folder_path="folder", commit_message="first push")
    again = api.upload_folder(repo_id="org/m", folder_path="folder")
    snapshot = pathlib.Path(snapshot_download("org/m"))
    info = api.model_info("org/m", files_metadata=True)
    print(json.dumps({
        "oids": [first.oid, again.oid, info.sha, snapshot.name],
        "snapshot": {str(path.relative_to(snapshot)): path.read_bytes().hex()
                     for path in snapshot.rglob("*") if path.is_file()},
        "one file": pathlib.Path(hf_hub_download("org/m", "sub dir/tiếng việt.txt")).read_text(),
        "lfs": {file.rfilename: file.lfs.sha256 for file in info.siblings if file.lfs},
        "top": [entry.path for entry in api.list_repo_tree("org/m")],
        "deep": [entry.path for entry in api.list_repo_tree("org/m", "4_Router", recursive=True)],
    }))
    """
    answer = run_client(hub, tmp_path, code)
    stored = hub.files("org/m")
    assert stored == folder | {".gitattributes": GITATTRIBUTES}
    assert {path: bytes.fromhex(data) for path, data in answer["snapshot"].items()} == stored
    assert answer["one file"] == "xin chào"
    assert answer["lfs"] == {"model.safetensors": hashlib.sha256(folder["model.safetensors"]).hexdigest()}
    assert answer["top"] == [".gitattributes", "4_Router", "README.md", "empty.bin", "model.safetensors", "sub dir"]
    assert answer["deep"] == ["4_Router/zh_0_Dense", "4_Router/zh_0_Dense/config.json"]
    assert set(answer["oids"]) == {hub.repo("org/m").branches["main"]}
    assert [commit.title for commit in hub.repo("org/m").commits.values()] == ["initial commit", "first push"]
    assert all(len(oid) == 40 for oid in hub.repo("org/m").commits)
    assert sum(method == "PUT" for method, _ in hub.requests) == 1


def test_tags_and_branches_keep_their_content(hub, tmp_path):
    first = hub.put("org/m", {"a.txt": b"one", "old/b.txt": b"b"})
    code = f"""
    import json, pathlib
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi, hf_hub_download

    api = HfApi()
    api.create_tag("org/m", tag="v1")
    operations = [CommitOperationAdd("a.txt", b"two"), CommitOperationDelete("old/")]
    api.create_commit("org/m", operations=operations, commit_message="to main")
    api.create_branch("org/m", branch="feature/x", revision="v1")
    api.create_commit("org/m", operations=[CommitOperationAdd("a.txt", b"three")], commit_message="to the branch",
                      revision="feature/x", parent_commit="{first.oid}")
    refs = api.list_repo_refs("org/m")
    revisions = ("main", "v1", "feature/x", "{first.oid}")
    print(json.dumps({{
        "read": [pathlib.Path(hf_hub_download("org/m", "a.txt", revision=r)).read_text() for r in revisions],
        "tags": {{tag.name: tag.target_commit for tag in refs.tags}},
        "branches": [branch.name for branch in refs.branches],
    }}))
    """
    answer = run_client(hub, tmp_path, code)
    assert answer["read"] == ["two", "one", "three", "one"]
    assert (answer["tags"], answer["branches"]) == ({"v1": first.oid}, ["main", "feature/x"])
    assert hub.files("org/m").keys() == {".gitattributes", "a.txt"}
    assert hub.files("org/m", "v1").keys() == {".gitattributes", "a.txt", "old/b.txt"}
    assert hub.repo("org/m").at("feature/x").parent == first.oid


def test_refusals_become_the_clients_own_errors(hub, tmp_path):
    oid = hub.put("org/m", {"a.txt": b"a"}).oid
    hub.put("org/m", {"a.txt": b"b"})
    code = f"""
    import json
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi, hf_hub_download

    api = HfApi()
    api.create_tag("org/m", tag="v1")
    add = [CommitOperationAdd("b.txt", b"b")]
    calls = {{
        "repository": lambda: hf_hub_download("org/absent", "a.txt"),
        "id without owner": lambda: api.model_info("absent"),
        "dataset of that name": lambda: api.dataset_info("org/m"),
        "revision": lambda: hf_hub_download("org/m", "a.txt", revision="v9"),
        "push to a tag": lambda: api.create_commit("org/m", add, commit_message="m", revision="v1"),
        "file": lambda: hf_hub_download("org/m", "b.txt"),
        "folder": lambda: list(api.list_repo_tree("org/m", "a.txt")),
        "deletion": lambda: api.create_commit("org/m", [CommitOperationDelete("b.txt")], commit_message="m"),
        "create": lambda: api.create_repo("org/m"),
        "tag": lambda: api.create_tag("org/m", tag="v1"),
        "stale parent": lambda: api.create_commit("org/m", add, commit_message="m", parent_commit="{oid}"),
    }}
    seen = {{}}
    for name, call in calls.items():
        try:
            call()
        except Exception as error:
            seen[name] = [type(error).__name__, error.response.status_code]
    api.create_repo("org/m", exist_ok=True)
    print(json.dumps(seen))
    """
    answer = run_client(hub, tmp_path, code)
    assert answer == {
        "repository": ["RepositoryNotFoundError", 404],
        "id without owner": ["RepositoryNotFoundError", 404],
        "dataset of that name": ["RepositoryNotFoundError", 404],
        "revision": ["RevisionNotFoundError", 404],
        "push to a tag": ["RevisionNotFoundError", 404],
        "file": ["RemoteEntryNotFoundError", 404],
        "folder": ["RemoteEntryNotFoundError", 404],
        "deletion": ["RemoteEntryNotFoundError", 404],
        "create": ["HfHubHTTPError", 409],
        "tag": ["HfHubHTTPError", 409],
        "stale parent": ["HfHubHTTPError", 412],
    }
    assert hub.files("org/m") == {".gitattributes": GITATTRIBUTES, "a.txt": b"b"}


def test_offline_client_reads_its_cache_and_asks_nothing(hub, tmp_path):
    hub.put("org/m", {"a.txt": b"one", "b.txt": b"b"})
    download = """
    import json, pathlib
    from huggingface_hub import hf_hub_download

    result = {"a.txt": pathlib.Path(hf_hub_download("org/m", "a.txt")).read_text()}
    for name in ("never.txt", "b.txt") if OFFLINE else ("never.txt",):
        try:
            hf_hub_download("org/m", name)
        except Exception as error:
            result[name] = type(error).__name__
    print(json.dumps(result))
    """
    online = run_client(hub, tmp_path, download.replace("OFFLINE", "False"))
    asked = list(hub.requests)
    offline = run_client(hub, tmp_path, download.replace("OFFLINE", "True"), HF_HUB_OFFLINE="1")
    assert online == {"a.txt": "one", "never.txt": "RemoteEntryNotFoundError"}
    assert offline == {"a.txt": "one", "never.txt": "LocalEntryNotFoundError", "b.txt": "LocalEntryNotFoundError"}
    assert hub.requests == asked


@pytest.mark.skipif(older("huggingface_hub", "2"), reason="older clients do not send an upload again")
def test_client_gets_over_passing_faults_and_reports_lasting_ones(hub, tmp_path):
    seen = Counter()

    def fault(method: str, path: str) -> int | str | None:
        seen[method, path] += 1
        if path.endswith("/commit/main") and seen[method, path] == 2:
            return 500
        if method == "PUT" and seen[method, path] == 1:
            return "drop"
        if method == "GET" and path.endswith("weights.bin") and seen[method, path] == 1:
            return "truncate"
        return None

    hub.fault = fault
    code = """
    import json, pathlib
    from huggingface_hub import CommitOperationAdd, HfApi, constants, hf_hub_download
    from huggingface_hub.utils import HfHubHTTPError, get_session

    constants.DOWNLOAD_CHUNK_SIZE = 1024  # bytes; the client resumes at whole chunks
    api, statuses = HfApi(), []
    api.create_repo("org/m")
    add = [CommitOperationAdd("weights.bin", bytes(range(256)) * 40)]
    api.create_commit("org/m", add, commit_message="m")
    try:
        api.create_commit("org/m", [CommitOperationAdd("a.txt", b"a")], commit_message="m")
    except HfHubHTTPError as error:
        refused = error.response.status_code
    hooks = get_session().event_hooks
    hooks["response"].append(lambda reply: reply.request.method == "GET" and statuses.append(reply.status_code))
    get_session().event_hooks = hooks
    data = pathlib.Path(hf_hub_download("org/m", "weights.bin")).read_bytes()
    print(json.dumps({"refused": refused, "whole": data == bytes(range(256)) * 40, "statuses": statuses}))
    """
    answer = run_client(hub, tmp_path, code)
    assert answer == {"refused": 500, "whole": True, "statuses": [200, 206]}
    assert hub.files("org/m").keys() == {".gitattributes", "weights.bin"}
    assert sum(method == "PUT" for method, _ in hub.requests) == 2


@pytest.mark.parametrize(
    ("wanted", "status", "body", "content_range"),
    [
        (None, 200, b"0123456789", None),
        ("bytes=2-4", 206, b"234", "bytes 2-4/10"),
        ("bytes=7-", 206, b"789", "bytes 7-9/10"),
        ("bytes=-3", 206, b"789", "bytes 7-9/10"),
        ("bytes=10-", 416, b"", "bytes */10"),
        ("bytes=7-99", 206, b"789", "bytes 7-9/10"),
    ],
)
def test_range(hub, wanted, status, body, content_range):
    hub.put("org/m", {"digits.txt": b"0123456789"})
    reply = ask(hub, "GET", "/org/m/resolve/main/digits.txt", **({"Range": wanted} if wanted else {}))
    assert (reply.status, reply.read(), reply.headers["Content-Range"]) == (status, body, content_range)


def test_head_carries_what_the_cache_is_keyed_by(hub):
    commit = hub.put("org/d", {"a.txt": b"a", "b.parquet": b"b"}, repo_type="dataset")
    text = ask(hub, "HEAD", "/datasets/org/d/resolve/main/a.txt")
    lfs = ask(hub, "HEAD", "/datasets/org/d/resolve/main/b.parquet")
    absent = ask(hub, "HEAD", "/datasets/org/d/resolve/main/c.txt")
    assert {reply.headers["X-Repo-Commit"] for reply in (text, lfs, absent)} == {commit.oid}
    assert text.headers["ETag"] == '"2e65efe2a145dda7ee51d1741299f848e5bf752e"'  # git hash-object
    assert lfs.headers["X-Linked-Etag"] == f'"{hashlib.sha256(b"b").hexdigest()}"'
    assert (text.headers["Content-Length"], lfs.headers["X-Linked-Size"]) == ("1", "1")
    assert (text.headers["X-Linked-Etag"], absent.headers["X-Error-Code"]) == (None, "EntryNotFound")


def test_faults_on_the_wire(hub):
    hub.put("org/m", {"digits.txt": b"0123456789"})
    path = "/org/m/resolve/main/digits.txt"
    hub.fault = lambda method, asked: 503 if (method, asked) == ("GET", path) else None
    assert ask(hub, "GET", path).status == 503
    assert ask(hub, "HEAD", path).status == 200
    hub.fault = lambda method, asked: "drop"
    with pytest.raises(http.client.RemoteDisconnected):
        ask(hub, "GET", path)
    hub.fault = lambda method, asked: "truncate"
    with pytest.raises(http.client.IncompleteRead) as cut:
        ask(hub, "GET", path).read()
    assert cut.value.partial == b"01234"
    assert hub.requests == [("GET", path), ("HEAD", path), ("GET", path), ("GET", path)]


def test_truncated_answer_to_a_commit_has_been_carried_out(hub):
    hub.put("org/m", {"a.txt": b"a"})
    hub.fault = lambda method, path: "truncate"
    with pytest.raises(http.client.IncompleteRead):
        ask_to_commit(hub, "deletedFile", path="a.txt").read()
    assert "a.txt" not in hub.files("org/m")


def test_writing_and_private_repositories_need_a_token(hub):
    token = {"Authorization": "Bearer any"}
    wanted = {"name": "d", "organization": "org", "type": "dataset", "visibility": "private"}
    assert ask(hub, "POST", "/api/repos/create", wanted).status == 401
    assert hub.repos == {}
    assert json.load(ask(hub, "POST", "/api/repos/create", wanted, **token)) == {"url": f"{hub.url}/datasets/org/d"}
    hidden, shown = ask(hub, "GET", "/api/datasets/org/d"), ask(hub, "GET", "/api/datasets/org/d", **token)
    assert (hidden.status, hidden.headers["X-Error-Code"]) == (404, "RepoNotFound")
    assert json.load(shown)["private"] is True


@pytest.mark.parametrize(
    ("card", "message"),
    [
        ("---\nbase_model: org/encoder\n---\n# card", None),
        ("# no metadata", None),
        ("---\nlanguage: [zh\n---\n", "bad YAML"),
        ("---\nbase_model: ./runs/encoder\n---\n", '"base_model" with value "./runs/encoder" is not valid'),
        ("---\ndatasets: [org/ok, ./local]\n---\n", '"datasets" with value "./local" is not valid'),
    ],
)
def test_cards_the_hub_would_refuse(hub, card, message):
    reply = ask(hub, "POST", "/api/validate-yaml", {"content": card, "repoType": "model"})
    errors = json.load(reply)["errors"]
    assert reply.status == (400 if message else 200)
    assert [message in error["message"] for error in errors] == ([True] if message else [])


def test_lfs_content_is_checked(hub):
    hub.put("org/m", {})
    oid = hashlib.sha256(b"right").hexdigest()
    assert ask(hub, "PUT", f"/lfs/{oid}", b"wrong").status == 400
    refused = ask_to_commit(hub, "lfsFile", path="a.bin", oid=oid)
    assert (refused.status, "never uploaded" in json.load(refused)["error"]) == (400, True)
    assert ask(hub, "PUT", f"/lfs/{oid}", b"right").status == 200
    assert ask_to_commit(hub, "lfsFile", path="a.bin", oid=oid).status == 200
    assert hub.files("org/m")["a.bin"] == b"right"


def test_client_environment_leaves_the_callers_settings_out(hub, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HUB_CACHE", "/somewhere/else")
    env = hub.env(tmp_path)
    assert env.keys().isdisjoint(["HF_HUB_OFFLINE", "HF_HUB_CACHE"])
    assert (env["HF_ENDPOINT"], Path(env["HF_HOME"]).is_relative_to(tmp_path)) == (hub.url, True)


def test_closed_server_answers_no_longer(tmp_path):
    with HubServer() as server:
        server.put("org/m", {})
        kept = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=10)
        kept.request("GET", "/api/models/org/m")
        assert kept.getresponse().read()
    kept.request("GET", "/api/models/org/m")
    with pytest.raises(http.client.RemoteDisconnected):
        kept.getresponse()
    with pytest.raises(ConnectionRefusedError):
        ask(server, "GET", "/api/models/org/m")


@pytest.mark.slow
def test_datasets_load_in_every_format_and_offline(hub, tmp_path):
    pair = {"source": "你好", "target": "xin chào"}
    hub.put("org/tsv", {"train.tsv": "source\ttarget\n你好\txin chào\n".encode()}, repo_type="dataset")
    hub.put("org/jsonl", {"data/train.jsonl": json.dumps(pair).encode()}, repo_type="dataset")
    load = """
        import json
        from datasets import Dataset, load_dataset

        if not OFFLINE:
            Dataset.from_list([PAIR]).push_to_hub("org/parquet")
        print(json.dumps([load_dataset(f"org/{name}", split="train")[0] for name in ("parquet", "tsv", "jsonl")]))
        """.replace("PAIR", repr(pair))
    online = run_client(hub, tmp_path, load.replace("OFFLINE", "False"))
    asked = list(hub.requests)
    offline = run_client(hub, tmp_path, load.replace("OFFLINE", "True"), HF_HUB_OFFLINE="1")
    assert online == offline == [pair] * 3
    assert hub.requests == asked
