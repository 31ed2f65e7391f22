"""A model's variants in repositories of their own, against the stand-in Hub; a process without hfxling opens them."""

import json
import re
import subprocess
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import yaml
from huggingface_hub import ModelCard
from sentence_transformers import SentenceTransformer

import hfxling
from hfxling.models.modeling_lexical import LexicalModel

ROOT = Path(__file__).resolve().parents[2]
TEXTS = {"zh": ["今天下雨。", "我爱吃苹果。"], "vi": ["Hôm nay trời mưa.", "Tôi thích ăn táo."]}
LETTERS = str.maketrans("我你人爱吃苹果今天下雨", "abcdefghijk")

# Runs the Python snippets of the cards of argv[2:] but LangChain's, then argv[1], which makes `vectors`; prints these.
SNIPPETS = """
import json, re, sys
sys.modules["hfxling"] = None
from huggingface_hub import ModelCard

code, *repositories = sys.argv[1:]
for repository in repositories:
    snippets = re.findall(r"```python\\n(.*?)```", ModelCard.load(repository).text, re.DOTALL)
    assert snippets, repository
    for snippet in snippets:
        if "langchain" not in snippet:
            exec(snippet, {})
exec(code)
print(json.dumps(vectors))
"""

PUBLISH = """
import json, sys
import hfxling
print(hfxling.publish("out/model", variants="repositories", **json.loads(sys.argv[1])).table())
"""


def published(publisher, cwd, **options):
    """What is said of publishing the variants of out/model in repositories."""
    done = publisher.run(PUBLISH, json.dumps(options), cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout


def opened(python, hub, tmp_path, code, repositories):
    """What a program without hfxling prints after it has run all snippets."""
    place = tmp_path / "there"
    place.mkdir()
    command = [python, "-c", SNIPPETS, code, *repositories]
    done = subprocess.run(command, env=hub.env(tmp_path / "empty"), cwd=place, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def fetched(hub, repository, folder):
    """The files of a repository in a folder."""
    for name, data in hub.files(repository).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


@pytest.mark.slow
def test_the_parts_for_one_language_have_repositories_and_a_collection(
    hub, publisher, warm_python, tiny_bert, tmp_path
):
    repositories = ["org/sf", "org/sf-zh", "org/sf-vi"]
    encoder = {path.name: path.read_bytes() for path in tiny_bert.iterdir()}
    hub.put("org/tiny", encoder | {"README.md": b"---\nlicense: mit\n---\n"})
    pairs = []
    for who, what, when in product("我你人", "爱吃苹果", "今天下雨"):
        source = who + what + when
        pairs.append(f"{source}\t{source.translate(LETTERS)}\n")
    (tmp_path / "train.tsv").write_text("".join(pairs[:36]), encoding="utf-8")
    (tmp_path / "test.tsv").write_text("".join(pairs[36:]), encoding="utf-8")
    words = "--train_data train.tsv --test_data test.tsv --pairs zh-vi --base_model org/tiny --data_licence mit"
    words += " --layer 2 --fit procrustes --centering train --output_dir out --use_cpu true"
    done = publisher.script(ROOT / "recipes" / "siamese.py", *words.split(), cwd=tmp_path)
    assert done.returncode == 0, done.stderr

    dry = published(publisher, tmp_path, repo="org/sf", dry_run=True, tag="v1")
    for repository in repositories:
        assert f"model {repository}, branch main, a new repository" in dry
    assert "tag v1\ncollection 'sf': org/sf, org/sf-zh, org/sf-vi" in dry
    assert not hub.collections

    said = published(publisher, tmp_path, repo="org/sf", tag="v1")
    assert hub.collections == {"org/sf-0": [{"id": name, "type": "model"} for name in repositories]}
    assert said.count("collection org/sf-0") == 1
    for repository in repositories:
        repo = hub.repo(repository)
        assert repo.branches.keys() == {"main"}
        assert repo.tags == {"v1": repo.branches["main"]}
        assert f"{repository}: {repo.branches['main']}" in said
    assert published(publisher, tmp_path, repo="org/sf").count("nothing to do, all is there") == 3

    cards = {repository: hub.files(repository)["README.md"].decode() for repository in repositories}
    assert "- [org/sf-vi](https://huggingface.co/org/sf-vi): its part for texts in vi alone" in cards["org/sf"]
    assert "measured as a part of [org/sf](https://huggingface.co/org/sf)" in cards["org/sf-vi"]
    assert 'other = SentenceTransformer("org/sf-zh")' in cards["org/sf-vi"]
    for card in cards.values():
        assert "revision=" not in card, "there are no branches"
        assert "--revision" not in card
    front = {repository: yaml.safe_load(card.split("---\n")[1]) for repository, card in cards.items()}
    assert [front[repository]["language"] for repository in repositories] == [["zh", "vi"], ["zh"], ["vi"]]
    for repository in repositories:
        ModelCard(cards[repository])  # the Hub's own reading of the front matter
        faults = hfxling.verify(fetched(hub, repository, tmp_path / "fetched" / repository), files_only=True).faults
        assert faults == [], "what is published is whole"

    code = "from sentence_transformers import SentenceTransformer as S\nvectors = ["
    for language, texts in TEXTS.items():
        code += f"S('org/sf-{language}', device='cpu').encode({texts!r}).tolist(), "
    vectors = opened(warm_python, hub, tmp_path, code + "]", repositories)
    whole = SentenceTransformer(str(tmp_path / "out" / "model"), device="cpu")
    for part, (language, texts) in zip(vectors, TEXTS.items(), strict=True):
        np.testing.assert_allclose(part, whole.encode(texts, task=language), atol=1e-6)

    done = publisher.command("verify", "org/sf-vi", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "no figure of its own: verify org/sf, of which it is a part; files and card agree" in done.stdout


@pytest.mark.slow
def test_sparse_vectors_have_a_repository_of_their_own(hub, publisher, warm_python, tmp_path):
    words = ["--pairs", "zh-vi", "--train_data", "sample", "--max_train_pairs", "40", "--rank", "8"]
    done = publisher.script(ROOT / "recipes" / "lexical.py", *words, "--output_dir", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    published(publisher, tmp_path, repo="org/links", collection="Links of ours")
    repositories = ["org/links", "org/links-sparse"]
    assert hub.collections == {"org/links-of-ours-0": [{"id": name, "type": "model"} for name in repositories]}
    whole, sparse = (hub.files(repository) for repository in repositories)
    assert not any(name.startswith("sparse/") for name in whole)
    assert not any("StaticEmbedding" in name or name == "router_config.json" for name in sparse)
    fronts = [yaml.safe_load(files["README.md"].decode().split("---\n")[1]) for files in (whole, sparse)]
    assert {"dense", "static-embeddings"} <= {*fronts[0]["tags"]}
    assert "sparse" not in fronts[0]["tags"]
    assert {"sparse", "sparse-encoder"} <= {*fronts[1]["tags"]}
    assert "dense" not in fronts[1]["tags"]
    assert fronts[1]["pipeline_tag"] == "feature-extraction"
    assert 'SparseEncoder("org/links-sparse", trust_remote_code=True)' in whole["README.md"].decode()
    for repository in repositories:
        faults = hfxling.verify(fetched(hub, repository, tmp_path / "fetched" / repository), files_only=True).faults
        assert faults == [], "what is published is whole"

    code = f"""from sentence_transformers import SparseEncoder
model = SparseEncoder("org/links-sparse", trust_remote_code=True, device="cpu")
vectors = model.similarity(model.encode_query({TEXTS["zh"]!r}), model.encode_document({TEXTS["vi"]!r})).tolist()"""
    found = opened(warm_python, hub, tmp_path, code, repositories)
    model = LexicalModel.from_pretrained(tmp_path / "out" / "model")
    expected = model.encode(TEXTS["zh"], "zh") @ model.encode(TEXTS["vi"], "vi", "document").T
    np.testing.assert_allclose(found, expected.toarray(), atol=1e-5)


@pytest.mark.slow
def test_what_does_not_go_with_repositories_is_refused(publisher, tmp_path):
    (tmp_path / "model").mkdir()
    for option in ("--create_pr", "--adapter", "--dataset"):
        done = publisher.command(
            "publish", "model", "--repo", "org/x", "--variants", "repositories", option, cwd=tmp_path
        )
        assert done.returncode == 2
        assert re.search("variants='repositories' cannot be used with", done.stderr), done.stderr
