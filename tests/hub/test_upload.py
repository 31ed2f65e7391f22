"""Every method's folders to the stand-in Hub, and back into clients with an empty cache; `pytest -m hub`."""

import json
import subprocess
from pathlib import Path

import pytest
import torch
from methods import METHODS, needs_flag, publish_all, texts_of
from versions import older

ROOT = Path(__file__).resolve().parents[2]
PUSH = """
import json, sys
from pathlib import Path
from huggingface_hub import HfApi
from hfxling.hub.upload import plan_upload, upload
from hfxling.hub.checks import folder_contents

commits = {}
for name in json.loads(sys.argv[2]):
    plan = plan_upload(HfApi(), f"org/{name}", folder_contents(Path(sys.argv[1]) / name))
    commits[name] = upload(HfApi(), plan, "Model with its record")
print(json.dumps(commits))
"""
pytestmark = [pytest.mark.hub, pytest.mark.slow]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("hub")


@pytest.fixture(scope="module")
def written(place):
    """A folder a method, and of siamese one of languages that are treated differently and one of a module of ours."""
    chosen = {name: [*method.variants][:1] for name, method in METHODS.items()}
    chosen["siamese"] = ["paper", "per language", "two layers, shared"]
    return publish_all(place / "folders", chosen)


def client(python, hub, place, *words, **environment):
    env = hub.env(place) | environment
    command = [python, *map(str, words)]
    done = subprocess.run(command, env=env, cwd=place, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_folder_to_an_empty_cache_offline_and_with_hfxling_is_equal(hub, publisher, warm_python, place, written):
    folders = place / "folders"
    pushed = publisher.run(PUSH, folders, json.dumps(list(written)), cwd=place)
    assert pushed.returncode == 0, pushed.stderr
    commits = json.loads(pushed.stdout)
    jobs = {
        name: {
            "repo": f"org/{name}",
            "revision": commits[name],
            "class": type(model).__name__,
            "texts": texts_of(model),
            "prompt": getattr(model.config, "prompt", None),
            "wants_flag": needs_flag(folders / name),
            "tokenizers": {
                lang: own if (folders / name / (own := f"tokenizer_{lang}")).is_dir() else ""
                for lang in texts_of(model)
            },
        }
        for name, (model, *_) in written.items()
    }
    (place / "empty").mkdir()
    (place / "empty" / "jobs.json").write_text(json.dumps(jobs), encoding="utf-8")
    script = ROOT / "tests" / "support" / "hub_doors.py"
    first = client(warm_python, hub, place / "empty", "-P", script, "jobs.json")
    before = len(hub.requests)
    runs = [first]
    if not older("transformers", "5.23"):  # those look for a tokenizer's config.json even offline
        words = ["-P", script, "jobs.json", ROOT]
        runs.append(client(warm_python, hub, place / "empty", *words, HF_HUB_OFFLINE="1"))  # pinned
        assert len(hub.requests) == before, "offline asks nobody"
    for name, (_, _, own, stock) in written.items():
        expected = {"own": own, "stock": stock}
        for found in runs:
            for door, vectors in found[name].items():
                assert vectors.keys() == expected[door].keys()
                for language, rows in vectors.items():
                    wanted = expected[door][language]
                    torch.testing.assert_close(torch.tensor(rows), wanted, atol=1e-6, rtol=0, msg=f"{name}, {door}")
    assert {name.partition("_")[0] for name in first} == set(METHODS)
