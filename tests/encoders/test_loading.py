"""Every kind of model through one line: dense, sparse, plain with pooling, files of vectors; prompts."""

import logging
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer, SparseEncoder
from sentence_transformers.sentence_transformer.modules import StaticEmbedding, Transformer
from sentence_transformers.sparse_encoder.modules import SpladePooling
from tiny_models import save_tiny, tiny_tokenizer
from transformers import BertConfig, BertForMaskedLM
from versions import older

import hfxling
from hfxling import fit_lexical, load_parallel, save_lexical
from hfxling.encoders.dense import SentenceEncoder
from hfxling.encoders.frozen import FrozenEncoder
from hfxling.encoders.identity import identity
from hfxling.encoders.loading import load_encoder
from hfxling.encoders.prompts import prompt_for
from hfxling.encoders.sparse import LexicalEncoder, SparseVectors, is_sparse
from hfxling.encoders.stored import LayerEncoder, StoredVectors
from hfxling.evaluation.results import read_results
from hfxling.evaluation.retrieval import gold_ranks, hits_at
from hfxling.models import LexicalModel

PAIRS = [("我爱吃苹果", "I love apples"), ("你好", "hello"), ("今天下雨", "rain today"), ("你不是我", "you are not me")]
ZH_EN = {"languages": ("zh", "en")}
ZH_VI = {"languages": ("zh", "vi")}


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> Path:
    """plain: an encoder; splade: one with random weights; lexical: links of the sample, with its door `sparse`."""
    folder = tmp_path_factory.mktemp("models")
    save_tiny("bert", folder / "plain")
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 24}
    BertForMaskedLM(BertConfig(vocab_size=len(tiny_tokenizer()), **sizes)).save_pretrained(folder / "mlm")
    tiny_tokenizer().save_pretrained(folder / "mlm")
    modules = [Transformer(str(folder / "mlm"), transformer_task="fill-mask"), SpladePooling()]
    SparseEncoder(modules=modules).save_pretrained(str(folder / "splade"))
    rows = load_parallel("sample", "zh", "vi").select(range(60))
    model = fit_lexical(rows["source"], rows["target"], ("zh", "vi"), rank=4, views=["fine"])
    save_lexical(model, folder / "lexical")
    return folder


@pytest.fixture
def run(tmp_path):
    def call(**options):
        return hfxling.evaluate(**{"output": tmp_path / "out", "device": "cpu"} | options).rows

    return call


@pytest.fixture(scope="module")
def table(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("text") / "pairs.tsv"
    path.write_text("".join(f"{a}\t{b}\n" for a, b in PAIRS), encoding="utf-8")
    return path


def test_sparse_models_of_any_kind_by_inner_product(run, models, table):
    assert is_sparse(str(models / "splade"))
    assert not is_sparse(str(models / "plain"))
    rows = run(model=models / "splade", task=["retrieval"], source=table, **ZH_EN)
    model = SparseEncoder(str(models / "splade"), device="cpu")
    source, target = (model.encode(list(side), convert_to_sparse_tensor=False).numpy() for side in zip(*PAIRS))
    assert rows[0].value == hits_at(gold_ranks(source, target, method="dot")[0], 1).mean()
    assert rows[0].settings["method"] == "dot"
    ours = SparseVectors(models / "splade", device="cpu")
    assert np.allclose(ours.encode([text for text, _ in PAIRS]).toarray(), source, atol=1e-6)


def test_sparse_models_that_compare_by_cosine_or_not_at_all_like_that(models, tmp_path):
    model = SparseEncoder(str(models / "splade"), device="cpu")
    for name in ("cosine", "manhattan"):
        model.similarity_fn_name = name
        model.save_pretrained(str(tmp_path / name))
    vectors = SparseVectors(tmp_path / "cosine", device="cpu").encode(["hello", "I love apples"])
    assert np.sqrt(vectors.multiply(vectors).sum(1)) == pytest.approx([1, 1], abs=1e-6)
    with pytest.raises(ValueError, match="manhattan compares by manhattan, but sparse vectors are compared"):
        SparseVectors(tmp_path / "manhattan", device="cpu")


def test_our_sparse_door_knows_languages_and_needs_the_flag(run, models, refusal, capfd):
    options = {
        "model": models / "lexical/sparse",
        "task": ["retrieval", "documents"],
        "source": "sample",
        "split": "dev",
    }
    rows = run(**options, **ZH_VI, trust_remote_code=True)
    assert rows[0].model == "lexical/sparse"
    assert {row.settings["task"] for row in rows} == {"retrieval", "documents"}
    same = run(lexical=models / "lexical", source="sample", split="dev", task=["retrieval"], **ZH_VI)
    assert [row.value for row in rows[:4]] == [row.value for row in same]
    capfd.readouterr()
    said = refusal(lambda: run(**options, languages=("zh", "th"), trust_remote_code=True))
    assert "lexical/sparse has parts for zh, vi and none for th" in said
    if not older("sentence-transformers", "6"):  # older ones run a local folder's code without being told
        assert "trust_remote_code=True" in refusal(lambda: run(**options, **ZH_VI))
    dense = options | {"task": ["geometry"]}
    said = refusal(lambda: run(**dense, **ZH_VI, trust_remote_code=True))
    assert "lexical/sparse has sparse vectors, but " in said


def test_a_plain_encoder_with_stated_pooling(run, models, table):
    encoder = FrozenEncoder(str(models / "plain"), [(1, "cls")], device="cpu")
    rows = run(model=models / "plain", pooling="cls", layer=1, task=["retrieval"], source=table, **ZH_EN)
    source, target = (encoder(list(side))[:, 0] for side in zip(*PAIRS))
    assert rows[0].value == hits_at(gold_ranks(source, target)[0], 1).mean()
    assert rows[0].settings["pooling"] == "cls"
    prompts = {"prompt": "you ", "document_prompt": "me "}
    prompted = LayerEncoder(models / "plain", None, device="cpu", **prompts)
    plain = LayerEncoder(models / "plain", None, device="cpu")
    assert np.array_equal(prompted.encode(["hello"]), plain.encode(["you hello"]))
    assert np.array_equal(prompted.encode(["hello"], None, "document"), plain.encode(["me hello"]))
    rows = run(model=models / "plain", pooling="mean", task=["tokens"], data=["sample"], split="dev", **ZH_EN)
    assert rows[-1].n > 100


def test_weights_in_half_precision_are_read_in_full_on_a_cpu(models, tmp_path):
    SentenceTransformer(str(models / "plain"), device="cpu").half().save_pretrained(str(tmp_path / "half"))
    assert SentenceTransformer(str(tmp_path / "half"), device="cpu").dtype == torch.float16
    encoder = SentenceEncoder(tmp_path / "half", device="cpu")
    assert {weights.dtype for weights in encoder.model.parameters()} == {torch.float32}
    assert np.isfinite(encoder.encode(["hello"])).all()


def test_files_of_vectors_stand_for_a_model(run, models, table, tmp_path):
    model = SentenceTransformer(str(models / "plain"), device="cpu")
    for name, side in zip(("zh", "en"), zip(*PAIRS)):
        np.save(tmp_path / f"{name}.npy", model.encode(list(side)))
    files = {"source_vectors": [tmp_path / "zh.npy"], "target_vectors": [tmp_path / "en.npy"]}
    options = {"task": ["retrieval", "geometry"], "source": table, **ZH_EN}
    ours, same = run(**files, **options), run(model=models / "plain", **options)
    assert [row.value for row in ours] == pytest.approx([row.value for row in same], abs=1e-6)
    assert (ours[0].model, same[0].model) == ("vectors", "plain")
    np.save(tmp_path / "zh.npy", model.encode([PAIRS[0][0]] * 4))
    assert [row.value for row in run(**files, **options)] != [row.value for row in ours], "other vectors, measured anew"


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"task": ["retrieval"], "data": ["t.tsv@1-3"]}, "4 vectors for 3 texts"),
        ({"task": ["tatoeba"]}, "files of vectors are for retrieval, documents, geometry, probe, or for mining alone"),
        ({"task": ["retrieval", "mining"]}, "files of vectors are for retrieval"),
        ({"task": ["mining"]}, "task mining needs 2 file(s) of --source_vectors and --target_vectors"),
        ({"task": ["retrieval"], "model": "x"}, "give a --model or files of vectors, not both"),
        ({"task": ["retrieval"], "target_vectors": ["none.npy"]}, "none.npy: no such file of vectors"),
        ({"task": ["retrieval"], "target_vectors": []}, "needs 1 file(s) of --source_vectors and --target_vectors"),
    ],
)
def test_files_of_vectors_that_do_not_fit(run, table, tmp_path, monkeypatch, refusal, options, part):
    monkeypatch.chdir(tmp_path)
    np.save("v.npy", np.eye(4, dtype=np.float32))
    Path("t.tsv").write_bytes(table.read_bytes())
    files = {"source_vectors": ["v.npy"], "target_vectors": ["v.npy"], "data": ["t.tsv"]}
    assert part in refusal(lambda: run(**ZH_EN | files | options))
    assert not Path("out/results.json").exists()


def test_a_further_text_needs_a_further_file(tmp_path):
    np.save(tmp_path / "v.npy", np.eye(2, dtype=np.float32))
    vectors = StoredVectors([str(tmp_path / "v.npy")], [str(tmp_path / "v.npy")])
    assert vectors.encode(["a", "b"], "zh", "query") is vectors.encode(["a", "b"], "zh", "query")
    with pytest.raises(ValueError, match="1 file\\(s\\) of vectors per side for 2 texts"):
        vectors.encode(["c", "d"], "zh", "query")


def test_both_sides_get_one_prompt_in_this_order():
    e5 = {"query": "query: ", "document": "passage: "}
    assert prompt_for("any/model", e5, given="x ") == "x "
    assert prompt_for("any/model", e5, given="") == "", "none is a choice, too"
    assert prompt_for("any/model", {"own": "own: ", "STS": "s: "}, "own") == "own: ", "the model's default"
    assert prompt_for("any/model", {"query": "q: ", "STS": "s: "}) == "s: ", "its own for symmetric tasks"
    assert prompt_for("renamed", e5) == "query: ", "known by what is stored"
    assert prompt_for("intfloat/multilingual-e5-small", {}) == "query: ", "or by name"
    assert prompt_for("any/model", {"query": "you ", "document": "me "}) is None
    assert prompt_for("any/model", {"query": "", "document": ""}) is None


def test_prompts_by_role_are_the_callers(run, models, table, tmp_path):
    prompts = {"query": "you ", "document": "me "}
    model = SentenceTransformer(str(models / "plain"), device="cpu", prompts=prompts)
    model.save_pretrained(str(tmp_path / "prompted"))
    plain = SentenceTransformer(str(models / "plain"), device="cpu")
    options = {"model": tmp_path / "prompted", "task": ["retrieval"], "source": table, **ZH_EN}

    def first_hits(*prompts):
        sides = []
        for prompt, side in zip(prompts, zip(*PAIRS)):
            sides.append(plain.encode([prompt + text for text in side]))
        return hits_at(gold_ranks(*sides)[0], 1).mean()

    assert run(**options)[0].value == first_hits("", ""), "neither side is the question to the other's answer"
    rows = run(**options, query_prompt="you ", document_prompt="me ")
    assert rows[0].value == first_hits("you ", "me ")
    assert rows[0].settings["query_prompt"] == "you "
    run(**options, query_prompt="", document_prompt="")
    assert read_results(tmp_path / "out/results.json")[0].settings["query_prompt"] == ""


def test_a_query_prompt_goes_before_all_texts_where_both_sides_are_alike(run, models, table):
    options = {"model": models / "plain", "task": ["geometry"], "source": table, **ZH_EN}
    alike = run(**options, query_prompt="you ", document_prompt="me ")
    same = run(**options, prompt="you ")
    assert [row.value for row in alike] == [row.value for row in same]


def test_options_that_nothing_would_heed_are_refused(models):
    with pytest.raises(ValueError, match=r"^prompt: word links take the text as it is; leave it out"):
        load_encoder(lexical=models / "lexical", prompt="query: ")
    encoder = SentenceEncoder(str(models / "plain"))
    assert load_encoder(encoder, prompt="") is encoder
    with pytest.raises(ValueError, match=r"^layer, query_prompt: an Encoder is loaded already; leave them out"):
        load_encoder(encoder, layer=0, query_prompt="query: ")
    with pytest.raises(ValueError, match="leave them out for a loaded model"):
        load_encoder(encoder.model, layer=0)
    with pytest.raises(ValueError, match=r"^revision: vectors come from source_vectors and target_vectors"):
        load_encoder(source_vectors="a.npy", target_vectors="b.npy", revision="v1")
    with pytest.raises(ValueError, match=r"^lexical_revision: there is no lexical model; leave it out"):
        load_encoder("a/model", lexical_revision="v1")


def test_only_what_is_given_as_an_object_is_in_memory(models):
    folder = models / "lexical"
    for door, library in ((SentenceEncoder, SentenceTransformer), (LexicalEncoder, LexicalModel.from_pretrained)):
        assert door(library(str(folder))).is_in_memory
        assert not door(str(folder)).is_in_memory
    assert SparseVectors(SparseEncoder(str(models / "splade"))).is_in_memory
    loaded, named = (load_encoder(each) for each in (SparseEncoder(str(models / "splade")), models / "splade"))
    assert (loaded.encode(["a"]) != named.encode(["a"])).nnz == 0
    assert not LayerEncoder(models / "plain", None).is_in_memory


def test_the_identity_changes_with_every_file_of_a_model(models, tmp_path):
    before = identity(str(models / "lexical/sparse"))
    assert before == identity(str(models / "lexical/sparse"))
    save_tiny("bert", tmp_path / "m")
    first = identity(str(tmp_path / "m"))
    (tmp_path / "m/1_Pooling.json").write_text("{}")
    assert identity(str(tmp_path / "m")) != first
    weights = models / "lexical/model.safetensors"
    content = weights.read_bytes()
    weights.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert identity(str(models / "lexical/sparse")) != before, "the weights lie above the door's folder"
    weights.write_bytes(content)
    for nowhere in ("no/where", str(tmp_path / "no/where/at all")):
        with pytest.raises(FileNotFoundError, match="is not a folder"):
            identity(nowhere)


def test_static_vectors_fewer_than_the_pieces_of_text_are_refused(tmp_path):
    tokenizer = tiny_tokenizer().backend_tokenizer
    rows = tokenizer.get_vocab_size() - 1
    module = StaticEmbedding(tokenizer, embedding_weights=np.ones((rows, 4), np.float32))
    SentenceTransformer(modules=[module], device="cpu").save(str(tmp_path))
    with pytest.raises(ValueError, match=f"is damaged: {rows} vectors for {rows + 1} pieces"):
        SentenceEncoder(tmp_path, device="cpu")


def test_static_vectors_that_are_no_numbers_are_refused_whatever_the_text(tmp_path):
    tokenizer = tiny_tokenizer().backend_tokenizer
    weights = np.ones((tokenizer.get_vocab_size(), 4), np.float32)
    weights[-1, 2] = np.inf  # of one piece, which most texts do not have
    module = StaticEmbedding(tokenizer, embedding_weights=weights)
    SentenceTransformer(modules=[module], device="cpu").save(str(tmp_path))
    with pytest.raises(ValueError, match="is damaged: its vectors hold NaN or infinite numbers"):
        SentenceEncoder(tmp_path, device="cpu")


def test_loading_says_nothing_of_what_is_of_no_use_here(
    tiny_sentence_transformer, tmp_path, capfd, caplog, monkeypatch
):
    """Half precision, which is widened on a CPU; no pooler; a default prompt."""
    folder = tmp_path / "half"
    model = SentenceTransformer(str(tiny_sentence_transformer), device="cpu", prompts={"query": "query: "})
    model.default_prompt_name = "query"
    model.half().save_pretrained(str(folder))
    weights = load_file(folder / "model.safetensors")
    kept = {name: weight for name, weight in weights.items() if "pooler" not in name}
    assert len(kept) < len(weights)
    save_file(kept, folder / "model.safetensors", {"format": "pt"})
    monkeypatch.setattr(logging.getLogger("transformers"), "level", logging.WARNING)
    monkeypatch.setattr(logging.getLogger("transformers"), "propagate", True)
    caplog.clear()
    capfd.readouterr()
    vectors = load_encoder(folder, device="cpu").encode(["今天下雨。"])
    assert vectors.dtype == np.float32
    printed = capfd.readouterr()
    said = caplog.text + printed.out + printed.err
    assert [word for word in ("MISSING", "float16", "prompt") if word in said] == []
