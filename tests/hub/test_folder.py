"""From training to the Hub and back, against the stand-in server, every client in a process of its own."""

import json
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

from hfxling.data.sample import sample_texts
from hfxling.evaluation.results import EvalResult
from hfxling.hub.card import CardInfo
from hfxling.hub.folder import check_push, publish, write_record
from hfxling.models.modeling_lexical import LexicalModel
from hfxling.models.stock import write_files
from recipes import siamese

ROOT = Path(__file__).resolve().parents[2]
REPO = "org/zh-vi-sf"
SECRET = "hf_aSecretThatNobodyMaySee"
SOURCE = [f"{a}{b}{c}" for a in "我你人" for b in "爱吃苹果" for c in "今天下雨"]
TARGET = [text.translate(str.maketrans("我你人爱吃苹果今天下雨", "abcdefghijk")) for text in SOURCE]

# Loads the repository through every door, the last one with hfxling; prints vectors of argv[2], argv[3] as JSON.
DOORS = """
import json, re, sys
repo, source, target, root = sys.argv[1], *map(json.loads, sys.argv[2:4]), sys.argv[4]
sys.modules["hfxling"] = None
import torch
from huggingface_hub import ModelCard
from sentence_transformers import SentenceTransformer
from transformers import AutoModel, AutoTokenizer

plain = AutoModel.from_pretrained(repo)
first = SentenceTransformer(repo, device="cpu")
found = {"first": [first.encode_query(source).tolist(), first.encode_document(target).tolist()]}
tokenizer = AutoTokenizer.from_pretrained(repo)

def embed(model):
    batches = (tokenizer(texts, padding=True, return_tensors="pt") for texts in (source, target))
    with torch.inference_mode():
        return [model(**b, language=lang).sentence_embedding.tolist() for b, lang in zip(batches, ("zh", "vi"))]

second = AutoModel.from_pretrained(repo, trust_remote_code=True)
found["second"] = embed(second)
branches = list(zip(("zh", "vi"), (source, target)))
found["branches"] = [
    SentenceTransformer(repo, revision=lang, device="cpu").encode(texts).tolist() for lang, texts in branches
]
found["branches, own model"] = []
for lang, texts in branches:
    model = AutoModel.from_pretrained(repo, revision=lang, trust_remote_code=True)
    with torch.inference_mode():
        batch = tokenizer(texts, padding=True, return_tensors="pt")
        found["branches, own model"].append(model(**batch).sentence_embedding.tolist())
card = ModelCard.load(repo)
snippets = re.findall(r"```python\\n(.*?)```", card.text, re.DOTALL)
snippets = [snippet for snippet in snippets if "langchain" not in snippet]
for snippet in snippets:
    exec(snippet, {})

del sys.modules["hfxling"]
sys.path.insert(0, root)
from hfxling import SiameseModel
found["third"] = embed(SiameseModel.from_pretrained(repo).eval())
types = [type(plain).__name__, type(second).__module__.split(".")[0]]
print(json.dumps(found | {"types": types, "card": card.data.to_dict(), "snippets": len(snippets)}))
"""

# Publishes a head on vectors three times; prints how each ended.
PUBLISH = """
import torch
from hfxling.hub.card import CardInfo
from hfxling.hub.writing import export
from hfxling.hub.folder import publish
from hfxling.models import SiameseConfig, SiameseModel

data = {"name": "d", "pairs": 1, "licence": "mit"}
base = "precomputed vectors"
info = CardInfo("org/x", "siamese", "A head.", "@misc{x}", base, ["zh"], "mit", [data], "Search.", ["Small."])
write = lambda folder: export(SiameseModel(SiameseConfig(hidden_size=6)), None, folder)
for name in ("first", "second", "third"):
    try:
        publish(name, write, [], info, recipe="r", push=True)
    except ValueError as error:
        print("ERROR", error)
"""


def run(python, *words, env, cwd):
    command = [python, *map(str, words)]
    return subprocess.run(command, env=env, cwd=cwd, capture_output=True, text=True, stdin=subprocess.DEVNULL)


def files_of(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def write_corpus(folder):
    """Every fourth pair is a test pair."""
    lines = [f"{source}\t{target}\n" for source, target in zip(SOURCE, TARGET)]
    folder.joinpath("test.tsv").write_text("".join(lines[::4]), encoding="utf-8")
    folder.joinpath("train.tsv").write_text("".join(line for i, line in enumerate(lines) if i % 4), encoding="utf-8")


@pytest.mark.slow
def test_a_pushed_model_loads_everywhere_as_the_local_one_does(hub, publisher, warm_python, tiny_bert, tmp_path):
    for name in ("here", "there"):
        tmp_path.joinpath(name).mkdir()
    write_corpus(tmp_path / "here")
    hub.put("org/tiny", files_of(tiny_bert) | {"README.md": b"---\nlicense: mit\n---\n"})
    options = "--train_data train.tsv --test_data test.tsv --pairs zh-vi --base_model org/tiny --data_licence mit"
    options += " --layer 2 --fit procrustes --centering train --output_dir out --use_cpu true"
    words = [*options.split(), "--push_to_hub", "--hub_model_id", REPO]
    done = publisher.script(ROOT / "recipes" / "siamese.py", *words, cwd=tmp_path / "here", HF_TOKEN=SECRET)
    assert done.returncode == 0, done.stderr
    assert SECRET not in done.stdout + done.stderr
    folder = tmp_path / "here" / "out" / "model"
    pushed = hub.files(REPO)
    assert ("POST", "/api/validate-yaml") in hub.requests  # the card's front matter
    assert pushed.keys() - {".gitattributes"} == files_of(folder).keys()
    assert all(pushed[path] == content for path, content in files_of(folder).items())
    assert not any(SECRET.encode() in content for content in pushed.values())

    env = hub.env(tmp_path / "empty")
    words = ["-c", DOORS, REPO, json.dumps(SOURCE), json.dumps(TARGET), ROOT]
    done = run(warm_python, *words, env=env, cwd=tmp_path / "there")
    assert done.returncode == 0, done.stderr
    assert "arning" not in done.stderr
    found = json.loads(done.stdout.rstrip("\n").split("\n")[-1])
    local = SentenceTransformer(str(folder), device="cpu")
    expected = local.encode_query(SOURCE), local.encode_document(TARGET)
    for door in ("first", "second", "branches", "branches, own model", "third"):
        for vectors, wanted in zip(found[door], expected):
            assert np.allclose(vectors, wanted, atol=1e-5), door
    assert found["types"] == ["BertModel", "transformers_modules"]
    assert found["snippets"] == 2, "that of LangChain is left out"
    assert (found["card"]["language"], found["card"]["library_name"]) == (["zh", "vi"], "sentence-transformers")
    assert (found["card"]["base_model"], found["card"]["base_model_relation"]) == ("org/tiny", "finetune")


# Loads the sparse branch and the static vectors of argv[1] in a process without hfxling.
SPARSE = """
import json, sys
sys.modules["hfxling"] = None
from sentence_transformers import SentenceTransformer, SparseEncoder
repo, source, target = sys.argv[1], *map(json.loads, sys.argv[2:4])
model = SparseEncoder(repo, revision="sparse", trust_remote_code=True, device="cpu")
found = model.similarity(model.encode_query(source), model.encode_document(target)).tolist()
print(json.dumps([found, SentenceTransformer(repo, device="cpu").encode(source).tolist()]))
"""


@pytest.mark.slow
def test_sparse_vectors_are_on_a_branch_of_their_own(hub, publisher, warm_python, tmp_path):
    sides = (sample_texts(lang, generated=0)[:50] for lang in ("zh", "vi"))
    (tmp_path / "few.tsv").write_text("".join(map("{}\t{}\n".format, *sides)), encoding="utf-8")
    words = ["--pairs", "zh-vi", "--train_data", "few.tsv@1-40", "--test_data", "few.tsv@41-50", "--rank", "8"]
    words += ["--data_licence", "mit", "--output_dir", "out", "--push_to_hub", "--hub_model_id", "org/zh-vi-lexical"]
    done = publisher.script(ROOT / "recipes" / "lexical.py", *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "out" / "model"
    main, branch = (hub.files("org/zh-vi-lexical", name) for name in ("main", "sparse"))
    overlaid = {name for name in main if main[name] != branch[name]}
    assert overlaid == {"modules.json", "config_sentence_transformers.json", "results.json"}
    assert branch["modules.json"] == (folder / "sparse" / "modules.json").read_bytes()
    texts = ["今天下雨。", "我爱吃苹果。"], ["Hôm nay trời mưa.", "Tôi thích ăn táo."]
    arguments = ["org/zh-vi-lexical", *map(json.dumps, texts)]
    (tmp_path / "there").mkdir()
    done = run(warm_python, "-c", SPARSE, *arguments, env=hub.env(tmp_path / "empty"), cwd=tmp_path / "there")
    assert done.returncode == 0, done.stderr
    sparse, static = json.loads(done.stdout.rstrip("\n").split("\n")[-1])
    model = LexicalModel.from_pretrained(folder)
    expected = model.encode(texts[0], "zh") @ model.encode(texts[1], "vi", "document").T
    np.testing.assert_allclose(sparse, expected.toarray(), atol=1e-5)
    np.testing.assert_allclose(static, SentenceTransformer(str(folder), device="cpu").encode(texts[0]), atol=1e-6)


def test_a_failed_upload_leaves_the_folder_and_says_what_to_do(hub, publisher, tmp_path):
    faults = {"/api/repos/create": [403, None, None], "/api/models/org/x/commit/main": [500, "drop"]}
    hub.fault = lambda method, path: faults[path].pop(0) if faults.get(path) else None
    done = publisher.run(PUBLISH, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.split("\n") if line.startswith("ERROR")]
    assert len(lines) == 3, done.stdout
    for line, cause, name in zip(lines, ("403", "500", "disconnected"), ("first", "second", "third")):
        told = f"the model is complete in {name}; try again with hfxling publish {name} --repo org/x"
        assert re.match(rf"ERROR the upload to org/x failed \(.*{cause}.*\); {told}", line), line
        assert {"config.json", "results.json", "config.yaml", "README.md"} <= files_of(tmp_path / name).keys()
    assert hub.files("org/x").keys() == {".gitattributes"}


def card(**changes):
    about = {
        "repo_id": REPO,
        "method": "siamese",
        "summary": "A head.",
        "citation": "@misc{x}",
        "base_model": "org/base",
        "languages": ["zh", "vi"],
        "licence": "mit",
    }
    about |= {"train_data": [{"name": "d", "pairs": 9}], "intended_use": "Search.", "limits": ["Small."]}
    return CardInfo(**about | changes)


def write_model(content):
    return lambda folder: (folder / "weights").write_bytes(content)


@pytest.mark.parametrize(
    ("value", "changes", "message"),
    [
        (float("nan"), {}, r"P@1 on d test: value is nan"),
        (50.0, {"limits": ["Finds 97.3 % of all."]}, "97.3 .* is in no result row"),
    ],
)
def test_what_cannot_be_published_leaves_the_earlier_folder(value, changes, message, tmp_path):
    folder = tmp_path / "model"
    publish(folder, write_model(b"old"), [EvalResult("P@1", 50.0, 9, "d", "test")], card(), recipe="r")
    before = files_of(tmp_path)
    with pytest.raises(ValueError, match=message):
        publish(folder, write_model(b"new"), [EvalResult("P@1", value, 9, "d", "test")], card(**changes), recipe="r")
    assert files_of(tmp_path) == before


def test_weights_that_are_not_finite_leave_the_earlier_folder(tmp_path):
    publish(tmp_path / "model", write_model(b"old"), [], card(), recipe="r")
    before = files_of(tmp_path)
    weights = {"good": torch.ones(2), "words": torch.ones(2, dtype=torch.long), "bad": torch.tensor([1.0, torch.inf])}
    with pytest.raises(ValueError, match=r"2_Dense/model\.safetensors: bad holds values that are not finite"):
        publish(
            tmp_path / "model",
            lambda f: write_files(f, {}, {"2_Dense/model.safetensors": weights}),
            [],
            card(),
            recipe="r",
        )
    assert files_of(tmp_path) == before


def test_a_new_folder_replaces_the_earlier_one_whole(tmp_path):
    publish(tmp_path / "model", lambda folder: (folder / "old.bin").touch(), [], card(), recipe="r")
    publish(tmp_path / "model", write_model(b"new"), [], card(), recipe="r", extra={"fitted": {"shrinkage": 0.1}})
    assert not (tmp_path / "model" / "old.bin").exists()
    assert json.loads((tmp_path / "model" / "results.json").read_text())["fitted"] == {"shrinkage": 0.1}
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


@pytest.mark.parametrize("repo_id", [None, "zh-vi-sf", "a/b/c", "org/zh vi"])
def test_a_wrong_repository_is_refused_before_anything_is_read(repo_id, tmp_path, monkeypatch):
    words = ["--train_data", "no.tsv", "--base_model", "none", "--pairs", "zh-vi"]
    words += ["--push_to_hub", "--output_dir", str(tmp_path / "out")]
    monkeypatch.setattr("hfxling.hub.folder.get_token", lambda: "any")
    with pytest.raises(ValueError, match=r"give (the repository as|--hub_model_id) namespace/name|Repo id must"):
        siamese.main(words + (["--hub_model_id", repo_id] if repo_id else []))
    assert not (tmp_path / "out").exists()


def test_a_push_without_a_token_is_refused(monkeypatch):
    monkeypatch.setattr("hfxling.hub.folder.get_token", lambda: None)
    with pytest.raises(ValueError, match="no token to push to org/x; run hf auth login"):
        check_push("org/x")
    monkeypatch.setattr("hfxling.hub.folder.get_token", lambda: "any")
    check_push("org/x")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--hub_token any", "hub_token: do not give tokens on a command line"),
        ("--base_model LOCAL --data_licence mit", "is a local folder, which readers do not have; give --names"),
        ("--base_model org/base --data_licence mit", "the base model 'org/base': no licence is stated"),
        ("--base_model org/base", "the text .*d.*: no licence is stated"),
        ("--base_model org/base --data_licence cc-by-nd-4.0", "the text .* is under cc-by-nd-4.0, which forbids"),
    ],
)
def test_what_may_not_be_released_is_refused_at_once(options, message, tiny_bert, tmp_path, monkeypatch):
    monkeypatch.setattr("hfxling.hub.folder.get_token", lambda: "any")
    options = options.replace("LOCAL", str(tiny_bert)) + ("" if "--base_model" in options else " --base_model x")
    words = f"--train_data d.tsv --pairs zh-vi --push_to_hub --hub_model_id org/x {options} --output_dir {tmp_path}/out"
    with pytest.raises(ValueError, match=message):
        siamese.main(words.split())
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("repo_id", "row", "dense"),
    [
        ("me/zh-vi-lexical", "fused", "me/zh-vi"),
        ("me/zh-vi-lexical", "sparse", None),
        ("zh-vi-lexical", "fused", None),
        ("me/zh-vi-links", "fused", None),
    ],
)
def test_a_lexical_model_that_was_measured_beside_a_dense_one_names_it(repo_id, row, dense, tmp_path):
    info = card(repo_id=repo_id, method="lexical")
    rows = [EvalResult("P@1", 50.0, 10, "d", "test", "zh->vi", "%", settings={"row": row})]
    write_record(tmp_path, rows, info, recipe="test")
    assert json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))["card"]["dense"] == dense
    assert ("[me/zh-vi](" in (tmp_path / "README.md").read_text(encoding="utf-8")) == (dense is not None)
