"""The siamese recipe, from the user's own text to a folder that loads anywhere."""

import json
import os
import re
import shutil
import subprocess
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from builders import TEST, TRAIN, command_line, sentence_pairs
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer
from tiny_models import HIDDEN

from hfxling.encoders.dense import SentenceEncoder
from hfxling.encoders.frozen import FrozenEncoder
from hfxling.evaluation.results import read_results
from hfxling.evaluation.retrieval import gold_ranks, hits_at
from hfxling.hub.served import server_fault
from hfxling.models import SiameseModel
from recipes import siamese

ROOT = Path(__file__).resolve().parents[2]
LEAKS = 2
COST = ("fit", "pairs", "train_seconds", "train_cpu_s")


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    """train and test text as .tsv and as line-aligned .zh and .vi; two test pairs and a repetition among the former."""
    folder, pairs = tmp_path_factory.mktemp("data"), sentence_pairs(TRAIN + TEST)
    test = pairs[TRAIN:]
    train = [test[0], *pairs[:40], test[5], pairs[3], *pairs[40:TRAIN]]
    for name, rows in (("train", train), ("test", test), ("few", test[:5])):
        folder.joinpath(f"{name}.tsv").write_text("".join(f"{zh}\t{vi}\n" for zh, vi in rows), encoding="utf-8")
        for i, suffix in enumerate((".zh", ".vi")):
            folder.joinpath(name + suffix).write_text("".join(f"{row[i]}\n" for row in rows), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def run(data, tiny_bert):
    """Run the recipe with the settings that every test shares; an option given as None is left out."""

    def call(out, **options):
        shared = {"base_model": tiny_bert, "pairs": "zh-vi", "layer": 2}
        shared |= {"train_data": data / "train.tsv", "test_data": data / "test.tsv", "cache_dir": data / "cache"}
        shared |= {"num_train_epochs": 2, "learning_rate": 1e-2, "use_cpu": True, "disable_tqdm": True}
        siamese.main(command_line(shared | options | {"output_dir": out}))
        return Path(out) / "model"

    return call


@pytest.fixture(scope="module")
def published(run, tmp_path_factory) -> Path:
    """The folder of a run with a CCA head."""
    return run(tmp_path_factory.mktemp("cca"), fit="cca")


def texts(data, name):
    return [data.joinpath(name + suffix).read_text(encoding="utf-8").split("\n")[:-1] for suffix in (".zh", ".vi")]


def weights(folder):
    """Every tensor of the head, by file."""
    paths = sorted(path.relative_to(folder).as_posix() for path in folder.glob("[0-9]*/**/model.safetensors"))
    return {path: load_file(folder / path) for path in paths}


def assert_same_head(first, second):
    """The same inner products: components that hardly differ in strength may have changed places."""
    first, second = weights(first), weights(second)
    assert first.keys() == second.keys() != set()
    assert {path: t.keys() for path, t in first.items()} == {path: t.keys() for path, t in second.items()}
    first, second = (
        {path: torch.cat([x.reshape(len(x), -1) for _, x in sorted(t.items())], dim=1) for path, t in found.items()}
        for found in (first, second)
    )
    for a, b in product(first, repeat=2):
        wanted, found = first[a].T @ first[b], second[a].T @ second[b]
        assert torch.allclose(found, wanted, atol=1e-5 * float(wanted.abs().max())), (a, b)


def test_the_folder_is_complete_and_nothing_else_is_left(published):
    names = {path.name for path in published.iterdir()}
    assert names == {
        *("modules.json", "config.json", "model.safetensors", "config_sentence_transformers.json", "loading.py"),
        *("1_Pooling", "2_Normalize", "3_Router", "4_Normalize", "zh", "vi"),
        *(
            "tokenizer.json",
            "tokenizer_config.json",
            "sentence_bert_config.json",
            "README.md",
            "results.json",
            "config.yaml",
            "embeddings.png",
        ),
        *("configuration_siamese.py", "modeling_siamese.py", "encoder.py", "pooling.py", "stock.py"),
    }
    assert (published / "embeddings.png").read_bytes().startswith(b"\x89PNG")
    assert [path.name for path in published.parent.iterdir()] == ["model"]


@pytest.mark.parametrize(
    ("fit", "options"),
    [
        ("cca", {}),
        ("auto", {}),
        ("auto", {"one_map": "true", "layer": "0,2"}),
        ("discriminant", {"pooling": "cls", "train_data": "train.zh+train.vi", "test_data": "test.zh+test.vi"}),
        ("ridge", {"layer": "all", "centering": "train"}),
        ("tied", {"layer": "0,2"}),
        ("infonce", {"head": "tanh", "normalize_input": False}),
        ("infonce", {"layer": "auto", "inputs": "whitened", "per_language": True}),
        ("contrastive", {"centering": "train", "per_language": True}),
        ("contrastive", {"inputs": "whitened", "head": "tanh2", "center_input": True}),
    ],
)
def test_the_folder_is_the_model_that_was_measured(fit, options, run, data, tmp_path, request, monkeypatch):
    monkeypatch.chdir(data)
    is_default = fit == "cca" and not options
    folder = request.getfixturevalue("published") if is_default else run(tmp_path, fit=fit, **options)
    rows = {
        (row.settings["stage"], row.direction, row.settings["centering"], row.settings["method"], row.metric): row
        for row in read_results(folder / "results.json")
        if "dimensions" not in row.settings
    }
    settings = (("zh->vi", "vi->zh"), ("none", "train", "corpus"), ("cosine", "csls"), ("P@1", "P@5"))
    assert set(rows) == set(product(("before", "after"), *settings))
    assert all(row.n == TEST and row.low <= row.value <= row.high for row in rows.values())
    assert all(("paired" in row.settings) == (key[0] == "after") for key, row in rows.items())

    several = "," in read_results(folder / "results.json")[0].settings["layer"]
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert ('SentenceTransformer("zh-vi-sf", trust_remote_code=True)' in card) == several
    assert ("refuses it without" in card) == several
    assert ("Chosen by cross-validation on the training pairs: " in card) == ("auto" in (fit, options.get("layer")))
    own = SiameseModel.from_pretrained(folder)
    loaded = SentenceTransformer(str(folder), device="cpu", trust_remote_code=several)
    vectors = {}
    for lang, task, side in zip(("zh", "vi"), ("query", "document"), texts(data, "test")):
        batch = loaded.tokenizer(side, padding=True, truncation=True, return_tensors="pt")
        inputs = {"input_ids": batch["input_ids"], "attention_mask": batch["attention_mask"]}
        with torch.inference_mode():
            expected = own(**inputs, language=lang).sentence_embedding
        vectors[lang] = getattr(loaded, f"encode_{task}")(side)
        assert np.allclose(vectors[lang], expected, atol=1e-5)
    for direction, ranks in zip(settings[0], gold_ranks(vectors["zh"], vectors["vi"])):
        measured = rows["after", direction, options.get("centering", "none"), "cosine", "P@1"]
        assert measured.value == pytest.approx(hits_at(ranks, 1).mean(), abs=1e-4)


@pytest.mark.parametrize("options", [{}, {"normalize_input": False}])
def test_a_branch_is_a_model_for_one_language_that_needs_not_be_named(options, run, published, data, tmp_path):
    folder = run(tmp_path, fit="cca", **options) if options else published
    whole = SentenceTransformer(str(folder), device="cpu")
    with pytest.raises(ValueError, match="Available routes: task='zh', task='vi'"):
        whole.encode(["你好"])
    with pytest.raises(ValueError, match="has parts for zh, vi; say which"):
        SentenceEncoder(str(folder)).encode(["你好"])
    assert ("`--revision vi`" in server_fault(folder)) == ("normalize_input" in options), "only what can be served"
    for lang, side in zip(("zh", "vi"), texts(data, "test")):
        branch = tmp_path / lang  # as a push makes it
        shutil.copytree(folder, branch)
        shutil.copytree(folder / lang, branch, dirs_exist_ok=True)
        expected = whole.encode(side, task=lang)
        np.testing.assert_allclose(SentenceTransformer(str(branch), device="cpu").encode(side), expected, atol=1e-6)
        batch = whole.tokenizer(side, padding=True, truncation=True, return_tensors="pt")
        inputs = {"input_ids": batch["input_ids"], "attention_mask": batch["attention_mask"]}
        own = SiameseModel.from_pretrained(branch)
        with torch.inference_mode():
            np.testing.assert_allclose(own(**inputs).sentence_embedding, expected, atol=1e-5)
            with pytest.raises(ValueError, match=f"language='th': this model is for {lang} alone"):
                own(**inputs, language="th")
        assert (server_fault(branch) == "") == ("normalize_input" in options)


def test_the_first_components_of_a_vector_are_the_strongest(published, data):
    rows = {
        (row.settings["dimensions"], row.settings["precision"]): row
        for row in read_results(published / "results.json")
        if "dimensions" in row.settings and row.direction == "zh->vi"
    }
    assert {*rows} == {(HIDDEN, "float32"), (HIDDEN, "int8"), (HIDDEN, "binary")}
    assert "## Short vectors" in (published / "README.md").read_text(encoding="utf-8")
    model = SentenceTransformer(str(published), device="cpu")
    zh, vi = model.encode_query(texts(data, "train")[0]), model.encode_document(texts(data, "train")[1])
    shared = (zh * vi).mean(0)
    assert shared[: HIDDEN // 2].sum() > shared[HIDDEN // 2 :].sum()
    short = SentenceTransformer(str(published), device="cpu", truncate_dim=4)
    np.testing.assert_allclose(short.encode_query(texts(data, "train")[0]), zh[:, :4], atol=1e-6)


def test_training_helps_and_the_card_says_so(published):
    rows = [row for row in read_results(published / "results.json") if "paired" in row.settings]
    assert rows
    assert all(row.settings["paired"]["low"] > 0 for row in rows if row.metric == "P@5")
    card = (published / "README.md").read_text(encoding="utf-8")
    assert re.search(r"zh->vi .* cosine, centering none .* P@5 .*\d+\.\d \[.*\].* \d+\.\d \[.*\] .*: better", card)
    assert "were not both measured" not in card


def test_the_card_counts_what_was_removed(published):
    card = (published / "README.md").read_text(encoding="utf-8")
    assert re.search(rf"\| +{TRAIN} \| .*duplicate 1 +\| +{LEAKS} \|", card)


def test_kept_leaks_are_trained_on(run, tmp_path, data):
    folder = run(tmp_path, fit="procrustes", keep_leaks=True)
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert re.search(rf"\| +{TRAIN + LEAKS} \| .*duplicate 1 +\| +0 \|", card)


def test_the_command_of_the_card_is_the_one_that_ran(published):
    command = re.search(
        r"accelerate launch recipes/siamese.py (.*)", (published / "README.md").read_text(encoding="utf-8")
    )[1]
    assert command.startswith("--base_model ")
    assert command.endswith(f"--output_dir {published.parent}")


def test_the_published_configuration_gives_the_same_model_again(published, tmp_path, data, no_matplotlib):
    options = {"config": published / "config.yaml", "cache_dir": data / "cache", "output_dir": tmp_path}
    siamese.main(command_line(options))
    assert_same_head(published, tmp_path / "model")
    names = [{path.name for path in folder.iterdir()} for folder in (published, tmp_path / "model")]
    assert names[0] - names[1] == {"embeddings.png"}  # without matplotlib only the picture is missing
    assert yaml.safe_load((published / "config.yaml").read_text())["fit"] == "cca"


def test_training_goes_on_from_a_published_folder(published, run, tmp_path):
    with pytest.raises(ValueError, match=r"layer=7 is outside hidden_states 0\.\.2"):
        run(tmp_path / "none", base_model=published, layer=7)
    folder = run(tmp_path, base_model=published, layer="last", fit="procrustes")
    before, again = (
        {
            (r.direction, r.metric, str(r.settings | {"layer": 0})): r.value
            for r in read_results(path / "results.json")
            if not r.seed
        }
        for path in (published, folder)
    )
    stage = "'stage': 'before'"
    assert {k: v for k, v in before.items() if stage in k[2]} == {k: v for k, v in again.items() if stage in k[2]}
    assert SentenceTransformer(str(folder), device="cpu").encode_query(["你好"]).shape == (1, HIDDEN)


def test_training_goes_on_with_the_published_head(published, run, tmp_path):
    same = {"base_model": published, "layer": "last", "init": "published"}
    kept = run(tmp_path / "kept", fit="infonce", per_language=True, bias=True, learning_rate=0, **same)
    assert_same_head(published, kept)
    with pytest.raises(ValueError, match="the head of base_model has other settings"):
        run(tmp_path / "other", fit="infonce", **same)
    with pytest.raises(ValueError, match="init='published' trains a published head further"):
        run(tmp_path / "closed", **same)


def test_a_resumed_run_publishes_the_same_model(run, tmp_path):
    options = {"fit": "contrastive", "save_steps": 2, "save_total_limit": 9}
    whole = run(tmp_path / "whole", **options)
    checkpoint = tmp_path / "whole" / "checkpoint-2"
    again = run(tmp_path / "again", resume_from_checkpoint=checkpoint, **options)
    steps = {path.name for path in (tmp_path / "again").glob("checkpoint-*")}
    assert steps == {"checkpoint-4", "checkpoint-6"}
    assert_same_head(whole, again)
    fitted = [json.loads((folder / "results.json").read_text("utf-8"))["reached"] for folder in (whole, again)]
    assert [about.keys() for about in fitted] == [{"steps", "train_loss", *COST}, {"steps", *COST}]
    assert fitted[0]["steps"] == fitted[1]["steps"] == 6
    trained = weights(again)["3_Dense/model.safetensors"]["linear.weight"]
    assert not torch.allclose(trained.T @ trained, torch.eye(HIDDEN), atol=1e-2)  # more than a turn of the start


def test_fewer_test_pairs_than_neighbours_are_enough(run, data, tmp_path):
    rows = read_results(run(tmp_path, fit="procrustes", test_data=data / "few.tsv") / "results.json")
    assert {row.settings.get("csls_k") for row in rows} == {None, 5}


@pytest.fixture(scope="module")
def vector_files(data, tiny_bert) -> dict:
    """The encoder's vectors of all text as it stands in the files, leaks and repetitions included."""
    encoder, files = FrozenEncoder(str(tiny_bert), [(2, "mean"), (2, "cls")]), {}
    for name in ("train", "test"):
        for suffix, side in zip((".zh", ".vi"), texts(data, name)):
            vectors = encoder(side)
            np.save(data / f"{name}{suffix}.npy", vectors[:, 0])
            np.save(data / f"{name}{suffix}.cls.npy", vectors[:, 1])
    for layer in ("", ".cls"):
        for name in ("train", "test"):
            files[f"{name}_vectors{layer}"] = "+".join(
                str(data / f"{name}{suffix}{layer}.npy") for suffix in (".zh", ".vi")
            )
    return files


def test_given_vectors_train_the_same_head_as_the_encoder(vector_files, run, published, tmp_path):
    files = {key: vector_files[key] for key in ("train_vectors", "test_vectors")}
    assert_same_head(published, run(tmp_path, fit="cca", **files))


def test_a_head_on_vectors_alone(vector_files, run, published, data, tmp_path):
    files = {key: vector_files[key] for key in ("train_vectors", "test_vectors")}
    folder = run(tmp_path, base_model=None, fit="cca", **files)
    features = torch.from_numpy(np.load(files["test_vectors"].split("+")[1]))
    with torch.inference_mode():
        found = SiameseModel.from_pretrained(folder)(features=features, language="vi").sentence_embedding
    expected = SentenceTransformer(str(published), device="cpu").encode_document(texts(data, "test")[1])
    assert np.allclose(found, expected, atol=1e-5)
    snippet = re.search(r"```python\n(.*?)```", (folder / "README.md").read_text(encoding="utf-8"), re.DOTALL)[1]
    names = {}
    exec(snippet.replace('"zh-vi-sf"', repr(str(folder))), names)
    assert names["embeddings"].norm().item() == pytest.approx(1, abs=1e-5)


ERRORS = {
    "missing file": ({"train_data": "no.tsv"}, "no.tsv does not exist"),
    "unequal files": ({"train_data": "train.zh+test.vi"}, "train.zh has 83 lines and .*test.vi has 20 lines"),
    "unknown key": ({"negative": "worst"}, "unknown key 'negative' .* nearest known one is 'negatives'"),
    "no test text": ({"test_data": None}, "no test text; give --test_data"),
    "wrong layer": ({"layer": 4}, r"layer=4 is outside hidden_states 0\.\.3"),
    "no layer": ({"layer": "top"}, "layer='top': give a number"),
    "wrong dtype": ({"encode_dtype": "float8"}, "encode_dtype='float8' is not one of float32, bfloat16"),
    "wrong head": ({"fit": "infonce", "head": "gelu"}, "head='gelu' is not one of linear"),
    "missing encoder": ({"base_model": "no/such/encoder"}, "base_model='no/such/encoder' is neither the folder"),
    "vectors of a pair twice": (
        {"train_vectors": ["zh-vi=train.zh.npy+train.vi.npy", "zh-vi=test.zh.npy+test.vi.npy"]},
        "train_vectors: zh-vi is given twice",
    ),
    "one vector too few": ({"train_vectors": "test.zh.npy+test.vi.npy"}, "20 vectors for 83 texts"),
    "vectors of another kind": (
        {"test_vectors": "test.zh.cls.npy+test.vi.npy"},
        "test_vectors, source: row . is not what layer 2",
    ),
    "half the vectors": ({"test_vectors": None}, "give both or neither"),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors_are_one_line_and_leave_nothing(case, run, data, vector_files, tmp_path, monkeypatch, refusal):
    options, message = ERRORS[case]
    if "vector" in case:
        options = {key: vector_files[key] for key in ("train_vectors", "test_vectors")} | options
    monkeypatch.chdir(data)
    assert re.search(message, refusal(lambda: run(tmp_path / "out", **options)))
    assert not (tmp_path / "out").exists()


def test_the_results_file_names_what_ran(published):
    content = json.loads((published / "results.json").read_text(encoding="utf-8"))
    assert content["recipe"] == "recipes/siamese.py"
    assert content["settings"] == yaml.safe_load((published / "config.yaml").read_text(encoding="utf-8"))
    assert set(content["reached"]) == {"shrinkage", "power", *COST}
    assert {"torch", "transformers", "sentence-transformers"} <= content["versions"].keys()


def test_losses_go_to_trackio(data, tiny_bert, warm_python, tmp_path):
    pytest.importorskip("trackio", reason="needs trackio: pip install 'hfxling[trackio]'")
    options = {"base_model": tiny_bert, "pairs": "zh-vi", "layer": 2, "use_cpu": True, "fit": "infonce"}
    options |= {"train_data": data / "train.tsv", "test_data": data / "test.tsv", "cache_dir": tmp_path / "cache"}
    options |= {"num_train_epochs": 2, "logging_steps": 1, "output_dir": tmp_path / "out"}
    words = command_line(options | {"report_to": "trackio", "project": "heads", "run_name": "first"})
    env = os.environ | {"TRACKIO_DIR": str(tmp_path / "trackio"), "PYTHONPATH": str(ROOT)}
    recipe = [warm_python, str(ROOT / "recipes" / "siamese.py"), *words]
    done = subprocess.run(recipe, env=env, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    kept = b"".join(path.read_bytes() for path in (tmp_path / "trackio").rglob("heads.db*"))
    assert b'"train/loss"' in kept
    assert b'"train/learning_rate"' in kept
