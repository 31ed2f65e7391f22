"""Faults of the network between a folder on the Hub and its reader, and between its writer and the Hub.

python tools/hub_faults.py [--runs 200] [--uploads 40] [--seed N]

A stand-in server on loopback answers for one file of a repository (configuration, encoder, Dense, static table) with
429 or 500, cuts the connection, sends half of the file or a wrong bit, once or for good, or its branch moves to another
revision while that file is asked for. A client with an empty cache loads the repository with SentenceTransformer alone,
then, from the same cache, again when the fault is over; between the two calls the branch moves in half of the cases.
The seed draws the order of the cases and which of them move.

- right: the vectors of one revision that the branch was at, after the client's own retries. refused: an error, and no
  vectors.
- named: other vectors, or damaged files that no vector shows, which `hfxling verify --files_only` names.
- silently_wrong: other vectors, and nothing names them, in either load. again_...: how the second load ends.
- stale: the second load gives the vectors of a revision that the branch has left, or hfxling's caches would take it for
  that one.
- uploads: `hfxling publish` of a changed folder, interrupted at each of its requests in turn. old_whole and new_whole:
  the branch holds one of both revisions; mixed: anything else.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from random import Random

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests" / "support"), str(ROOT / "benchmarks")]

FILES = {
    "siamese": ("config.json", "model.safetensors", "3_Dense/model.safetensors"),
    "lexical": ("0_StaticEmbedding/model.safetensors",),
}
FAULTS = (429, 500, "drop", "truncate", "flip")
MOVE = "move"  # of the branch, to another revision
OUTCOMES = ("right", "refused", "named", "silently_wrong", "stale", "again_right", "again_refused", "again_named")
VERSIONS = (1, 2)
TEXTS = ["今天下雨。", "我爱吃苹果。", "Hôm nay trời mưa."]


def main(argv: list[str] | None = None) -> dict:
    from harness import parser, report

    options = parser(__doc__, "hub_faults")
    options.add_argument("--runs", type=int, default=200, help="loads with a fault (default 200)")
    options.add_argument("--uploads", type=int, default=40, help="interrupted uploads (default 40)")
    options.add_argument("--seed", type=int, default=0, help="of the order of the cases, and which of them move")
    options.add_argument("--client", help=argparse.SUPPRESS)
    args = options.parse_args(argv)
    if args.client:
        return client(Path(args.client))
    from hub_server import HubServer

    with tempfile.TemporaryDirectory() as scratch, HubServer() as hub:
        place = Path(scratch)
        write_folders(place)
        command = [sys.executable, __file__, "--client", str(place)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "cwd": place}
        process = subprocess.Popen(command, env=hub.env(place) | {"PYTHONPATH": str(ROOT)}, **pipes)

        def ask(**job) -> dict:
            process.stdin.write(json.dumps(job) + "\n")
            process.stdin.flush()
            while not (line := process.stdout.readline()).startswith("{"):
                if not line:
                    raise RuntimeError("the client has ended")
            return json.loads(line)

        heads = {}
        for name in FILES:
            heads[name] = []
            for version in VERSIONS:
                ask(do="upload", name=name, version=version)
                heads[name].append(hub.repo(f"org/{name}").branches["main"])
        figures = loads(hub, ask, args.runs, heads, Random(args.seed))
        for name in FILES:
            hub.repo(f"org/{name}").branches["main"] = heads[name][0]
        figures |= uploads(hub, ask, args.uploads)
        process.stdin.close()
        process.wait()
    settings = {"files": FILES, "faults": [*map(str, FAULTS), MOVE], "lengths": ["once", "for good"], "seed": args.seed}
    title = "Faults injected between the Hub and its readers and writers"
    goals = {"silently_wrong": "0", "stale": "0", "mixed": "0"}
    path = Path(args.results_dir) / "hub_faults.json"
    return report("hub_faults", figures, settings, title=title, path=path, goals=goals, folder="tools")


def loads(hub, ask, runs: int, heads: dict[str, list[str]], rng: Random) -> dict:
    """Load with every file, fault and length in turn, in an order that is drawn, until there are enough runs."""
    places = [(name, path) for name, paths in FILES.items() for path in paths]
    cases = [*itertools.product(places, (*FAULTS, MOVE), ("once", "for good"))]
    rng.shuffle(cases)
    counts, by_fault = Counter(), {str(fault): Counter() for fault in (*FAULTS, MOVE)}
    for number, ((name, path), fault, length) in enumerate(itertools.islice(itertools.cycle(cases), runs)):
        branches, commits = hub.repo(f"org/{name}").branches, heads[name]
        branches["main"] = commits[0]
        left = [1 if length == "once" else 1_000_000]

        def injected(method: str, url: str, *, wanted=path, fault=fault, left=left, branches=branches, commits=commits):
            if not url.endswith(f"/{wanted}") or "/resolve/" not in url or not left[0]:
                return None
            if fault == MOVE:
                left[0] -= 1
                branches["main"] = commits[branches["main"] == commits[0]]
                return None
            if method != "GET":
                return None
            left[0] -= 1
            return fault

        hub.fault = injected
        first = ask(do="load", name=name, cache=f"cache{number}")
        hub.fault = lambda method, path: None
        if rng.random() < 0.5:
            branches["main"] = commits[branches["main"] == commits[0]]
        second = ask(do="load", name=name, cache=f"cache{number}", last=True)
        now = commits.index(branches["main"])
        seen = VERSIONS if fault == MOVE else VERSIONS[:1]
        outcome = outcome_of(first, seen)
        again = outcome_of(second, [VERSIONS[now]])
        is_stale = second["version"] == VERSIONS[1 - now] or second["commit"] not in (None, branches["main"])
        counts[outcome] += 1
        counts["silently_wrong"] += again == "silently_wrong" and not is_stale
        counts["stale"] += is_stale
        counts[f"again_{again}"] += 1
        by_fault[str(fault)][outcome] += 1
        if is_stale or "silently_wrong" in (outcome, again):
            print(f"{name}/{path} {fault} {length}: {outcome}, {again}; {first}, {second}, revision {now}", flush=True)
    return {
        "runs": runs,
        **{key: counts[key] for key in OUTCOMES},
        "by_fault": {fault: dict(found) for fault, found in by_fault.items()},
    }


def outcome_of(load: dict, versions) -> str:
    """How a load ended that may give the vectors of these versions."""
    if load["is_refused"]:
        return "named" if load["is_named"] else "refused"
    if load["is_named"]:
        return "named"
    return "right" if load["version"] in versions else "silently_wrong"


def uploads(hub, ask, count: int) -> dict:
    """Publish a changed folder with a fault at one request after the other; what the branch then holds."""
    old, repo = hub.files("org/siamese"), hub.repo("org/siamese")
    head = repo.branches["main"]
    seen = len(hub.requests)
    ask(do="upload", name="siamese", version=2)
    new, requests = hub.files("org/siamese"), len(hub.requests) - seen
    counts = Counter()
    for number in range(count):
        repo.branches["main"], hub.lfs = head, {}  # as it was; what was uploaded before is forgotten
        before, at, fault = len(hub.requests), number % requests, FAULTS[(number // requests + number) % 4]
        hub.fault = lambda *_, before=before, at=at, fault=fault: (
            fault if len(hub.requests) - before == at + 1 else None
        )
        failed = ask(do="upload", name="siamese", version=2)["is_refused"]
        hub.fault = lambda method, path: None
        found = hub.files("org/siamese")
        counts["old_whole" if found == old else "new_whole" if found == new else "mixed"] += 1
        counts["upload_errors"] += failed
    return {"uploads": count, **{key: counts[key] for key in ("old_whole", "new_whole", "mixed", "upload_errors")}}


def write_folders(place: Path) -> None:
    """Two models with their records, each in two versions."""
    from methods import METHODS

    from hfxling.hub.card import CardInfo
    from hfxling.hub.folder import publish

    data = [{"name": "NTREX-128", "pairs": 9, "licence": "cc-by-sa-4.0"}]
    for name, version in itertools.product(FILES, VERSIONS):
        method, scratch = METHODS[name], place / f"scratch-{name}-{version}"
        settings = method.variants["paper" if name == "siamese" else "plain"]
        model = method.build(scratch, **settings)
        told = ("A model.", "@misc{x}", "none, made here", ["zh", "vi"], "cc-by-sa-4.0", data, "Search.", ["Small."])
        card = CardInfo(f"org/{name}", name, *told)

        def write(folder: Path, model=model, scratch=scratch, method=method, version=version) -> None:
            method.write(model, scratch, folder)
            scale(folder, version)

        publish(place / f"{name}-{version}", write, [], card, recipe="tools/hub_faults.py")


def scale(folder: Path, seed: int) -> None:
    """Other weights, of the same signs."""
    import torch
    from safetensors.torch import load_file, save_file

    random = torch.Generator().manual_seed(seed)
    for path in folder.rglob("*.safetensors"):
        tensors = load_file(path)
        for name, tensor in tensors.items():
            if tensor.is_floating_point():
                tensors[name] = (tensor * (0.2 + 2 * torch.rand(tensor.shape, generator=random))).to(tensor.dtype)
        save_file(tensors, path, metadata={"format": "pt"})


def client(place: Path) -> dict:
    """Loads and uploads as it is told on standard input, a line of JSON each; answers likewise."""
    import time

    time.sleep = lambda seconds: None  # between retries

    import numpy as np
    from huggingface_hub import HfApi, snapshot_download
    from sentence_transformers import SentenceTransformer

    import hfxling
    from hfxling.encoders.identity import identity
    from hfxling.hub.checks import folder_contents
    from hfxling.hub.upload import plan_upload, upload

    def vectors(name: str, **options) -> np.ndarray:
        return SentenceTransformer(name, device="cpu", **options).encode(TEXTS)

    expected = {(name, version): vectors(str(place / f"{name}-{version}")) for name in FILES for version in VERSIONS}

    def load(job: dict) -> dict:
        repo, found = f"org/{job['name']}", None
        loaded = {"is_refused": False, "is_named": False, "version": None, "commit": None}
        try:
            found = vectors(repo, cache_folder=job["cache"])
        except Exception:
            loaded["is_refused"] = True
        for version in VERSIONS:
            wanted = expected[job["name"], version]
            if found is not None and found.shape == wanted.shape and np.allclose(found, wanted, atol=1e-6):
                loaded["version"] = version
        if job.get("last") and found is not None:
            loaded["commit"] = identity(repo)
        if job.get("last") or (found is not None and loaded["version"] is None):
            try:
                loaded["is_named"] = bool(
                    hfxling.verify(snapshot_download(repo, cache_dir=job["cache"]), files_only=True).faults
                )
            except (OSError, ValueError):
                loaded["is_named"] = True
        return loaded

    def put(job: dict) -> dict:
        try:
            files = folder_contents(place / f"{job['name']}-{job['version']}")
            upload(HfApi(), plan_upload(HfApi(), f"org/{job['name']}", files), "Model with its record")
        except Exception:
            return {"is_refused": True}
        return {"is_refused": False}

    for line in sys.stdin:
        job = json.loads(line)
        sys.stdout.write(json.dumps(load(job) if job["do"] == "load" else put(job)) + "\n")
        sys.stdout.flush()
    return {}


if __name__ == "__main__":
    main()
