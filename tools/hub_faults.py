"""Faults of the network between a folder on the Hub and its reader, and between its writer and the Hub.

python tools/hub_faults.py [--runs 200] [--uploads 40]

A stand-in server on loopback answers for one file of a repository (configuration, encoder, Dense, static table) with
429 or 500, cuts the connection, sends half of the file or a wrong bit, once or for good. A client with an empty cache
loads the repository with SentenceTransformer alone, then, from the same cache, again when the fault is over.

- right: the vectors of the folder, after the client's own retries. refused: an error, and no vectors.
- named: other vectors, or damaged files that no vector shows, which `hfxling verify --files_only` names.
- silently_wrong: other vectors, and nothing names them, in either load. again_...: how the second load ends.
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

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests" / "support"), str(ROOT / "benchmarks")]

FILES = {
    "siamese": ("config.json", "model.safetensors", "3_Dense/model.safetensors"),
    "lexical": ("0_StaticEmbedding/model.safetensors",),
}
FAULTS = (429, 500, "drop", "truncate", "flip")
OUTCOMES = ("right", "refused", "named", "silently_wrong", "again_right", "again_refused", "again_named")
TEXTS = ["今天下雨。", "我爱吃苹果。", "Hôm nay trời mưa."]


def main(argv: list[str] | None = None) -> dict:
    from harness import parser, report

    options = parser(__doc__, "hub_faults")
    options.add_argument("--runs", type=int, default=200, help="loads with a fault (default 200)")
    options.add_argument("--uploads", type=int, default=40, help="interrupted uploads (default 40)")
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

        for name in FILES:
            ask(do="upload", name=name, version=1)
        figures = loads(hub, ask, args.runs) | uploads(hub, ask, args.uploads)
        process.stdin.close()
        process.wait()
    settings = {"files": FILES, "faults": [*map(str, FAULTS)], "lengths": ["once", "for good"]}
    title = "Faults injected between the Hub and its readers and writers"
    path = Path(args.results_dir) / "hub_faults.json"
    return report("hub_faults", figures, settings, title=title, path=path)


def loads(hub, ask, runs: int) -> dict:
    """Load with every file, fault and length in turn, until there are enough runs."""
    places = [(name, path) for name, paths in FILES.items() for path in paths]
    cases = itertools.islice(itertools.cycle(itertools.product(places, FAULTS, ("once", "for good"))), runs)
    counts, by_fault = Counter(), {str(fault): Counter() for fault in FAULTS}
    for number, ((name, path), fault, length) in enumerate(cases):
        left = [1 if length == "once" else 1_000_000]

        def injected(method: str, url: str, *, wanted=path, fault=fault, left=left):
            if method != "GET" or not url.endswith(f"/{wanted}") or "/resolve/" not in url or not left[0]:
                return None
            left[0] -= 1
            return fault

        hub.fault = injected
        first = ask(do="load", name=name, cache=f"cache{number}")
        hub.fault = lambda method, path: None
        second = ask(do="load", name=name, cache=f"cache{number}", last=True)
        counts[first["outcome"]] += 1
        counts["silently_wrong"] += (first["outcome"] == "silent") + (second["outcome"] == "silent")
        counts[f"again_{second['outcome']}"] += 1
        by_fault[str(fault)][first["outcome"]] += 1
    return {
        "runs": runs,
        **{key: counts[key] for key in OUTCOMES},
        "by_fault": {fault: dict(found) for fault, found in by_fault.items()},
    }


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
        failed = ask(do="upload", name="siamese", version=2)["outcome"] == "refused"
        hub.fault = lambda method, path: None
        found = hub.files("org/siamese")
        counts["old_whole" if found == old else "new_whole" if found == new else "mixed"] += 1
        counts["upload_errors"] += failed
    return {"uploads": count, **{key: counts[key] for key in ("old_whole", "new_whole", "mixed", "upload_errors")}}


def write_folders(place: Path) -> None:
    """Two models with their records, and one of them in another version."""
    import torch
    from methods import METHODS

    from hfxling.hub.card import CardInfo
    from hfxling.hub.folder import publish

    data = [{"name": "NTREX-128", "pairs": 9, "licence": "cc-by-sa-4.0"}]
    for name, version in (("siamese", 1), ("siamese", 2), ("lexical", 1)):
        method, scratch = METHODS[name], place / f"scratch-{name}-{version}"
        settings = method.variants["paper" if name == "siamese" else "plain"]
        model = method.build(scratch, **settings)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(version)
        told = ("A model.", "@misc{x}", "none, made here", ["zh", "vi"], "cc-by-sa-4.0", data, "Search.", ["Small."])
        card = CardInfo(f"org/{name}", name, *told)
        write = lambda folder, model=model, scratch=scratch, method=method: method.write(model, scratch, folder)  # noqa: E731
        publish(place / f"{name}-{version}", write, [], card, recipe="tools/hub_faults.py")


def client(place: Path) -> dict:
    """Loads and uploads as it is told on standard input, a line of JSON each; answers likewise."""
    import time

    time.sleep = lambda seconds: None  # between retries

    import numpy as np
    from huggingface_hub import HfApi, snapshot_download
    from sentence_transformers import SentenceTransformer

    from hfxling.hub.agreement import verify_files
    from hfxling.hub.checks import folder_contents
    from hfxling.hub.upload import plan_upload, upload

    def vectors(name: str, **options) -> np.ndarray:
        return SentenceTransformer(name, device="cpu", **options).encode(TEXTS)

    expected = {name: vectors(str(place / f"{name}-1")) for name in FILES}

    def load(job: dict) -> str:
        repo, wanted = f"org/{job['name']}", expected[job["name"]]
        try:
            found = vectors(repo, cache_folder=job["cache"])
            outcome = "right" if found.shape == wanted.shape and np.allclose(found, wanted, atol=1e-6) else "silent"
        except Exception:
            outcome = "refused"
        if outcome == "silent" or job.get("last"):
            try:
                damaged = verify_files(snapshot_download(repo, cache_dir=job["cache"]))[3]
            except (OSError, ValueError):
                damaged = ["the record itself"]
            outcome = "named" if damaged else outcome
        return outcome

    def put(job: dict) -> str:
        try:
            files = folder_contents(place / f"{job['name']}-{job['version']}")
            upload(HfApi(), plan_upload(HfApi(), f"org/{job['name']}", files), "Model with its record")
        except Exception:
            return "refused"
        return "done"

    for line in sys.stdin:
        job = json.loads(line)
        sys.stdout.write(json.dumps({"outcome": load(job) if job["do"] == "load" else put(job)}) + "\n")
        sys.stdout.flush()
    return {}


if __name__ == "__main__":
    main()
