"""The siamese model: its head, and the three doors into its folder."""

import json
import subprocess
import sys
import warnings

import pytest
import torch
from sentence_transformers import SentenceTransformer
from tiny_models import HIDDEN, save_tiny, tiny_tokenizer
from transformers import AutoModel, AutoTokenizer

from hfxling.hub.export import export
from hfxling.models import SiameseConfig, SiameseHead, SiameseModel

TEXTS = ["我爱吃苹果", "tôi ăn", "hello, is it raining?"]
LANGUAGES = ["zh", "vi"]
VARIANTS = {
    "paper": {"layer": 2},
    "raw input": {"layer": 2, "normalize_input": False, "bias": True},
    "embeddings": {"layer": 0},
    "all layers": {"layer": "all"},
    "last layer, cls": {"layer": None, "pooling": "cls"},
    "tanh": {"layer": 1, "head": "tanh"},
    "relu": {"layer": 1, "head": "relu"},
    "two layers": {"layer": 1, "head": "tanh2", "bias": True},
    "centred": {"layer": 2, "centering": "train", "languages": LANGUAGES},
    "per language": {"layer": 1, "per_language": True, "bias": True, "languages": LANGUAGES},
    "per language, centred": {"layer": 1, "per_language": True, "centering": "train", "languages": LANGUAGES},
}


def build(folder, **settings) -> SiameseModel:
    torch.manual_seed(1)
    model = SiameseModel.from_encoder(str(folder), identity=False, **settings)
    model.head.set_means({lang: torch.randn(HIDDEN) * 0.1 for lang in LANGUAGES})
    return model


@torch.inference_mode()
def embed(model, language=None):
    batch = tiny_tokenizer()(TEXTS, padding=True, return_tensors="pt")
    inputs = {"input_ids": batch["input_ids"], "attention_mask": batch["attention_mask"]}
    return model(**inputs, language=language).sentence_embedding


@pytest.mark.parametrize("variant", VARIANTS)
def test_three_doors_give_equal_vectors_silently(variant, tiny_bert, tmp_path, capfd):
    model = build(tiny_bert, **VARIANTS[variant])
    language = "vi" if model.config.needs_language else None
    export(model, tiny_tokenizer(), tmp_path / "model")
    expected = embed(model, language)
    task = {"task": language} if language else {}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for flag in (False, True):
            loaded = SentenceTransformer(str(tmp_path / "model"), device="cpu", trust_remote_code=flag)
            assert torch.allclose(loaded.encode(TEXTS, convert_to_tensor=True, **task), expected, atol=1e-5)
        remote = AutoModel.from_pretrained(tmp_path / "model", trust_remote_code=True)
        local = SiameseModel.from_pretrained(tmp_path / "model")
        AutoTokenizer.from_pretrained(tmp_path / "model")
    assert type(remote).__name__ == "SiameseModel"
    assert type(remote) is not SiameseModel
    assert torch.allclose(embed(remote, language), expected, atol=1e-5)
    assert torch.allclose(embed(local, language), expected, atol=1e-5)
    printed = "".join(capfd.readouterr())
    assert "REPORT" not in printed
    assert "arning" not in printed


@pytest.mark.parametrize("kind", ["xlm-roberta", "distilbert", "xlm", "mt5"])
def test_doors_of_other_encoder_families(kind, tmp_path):
    model = build(save_tiny(kind, tmp_path / "encoder"), layer=2)
    export(model, tiny_tokenizer(), tmp_path / "model")
    expected = embed(model)
    for flag in (False, True):
        loaded = SentenceTransformer(str(tmp_path / "model"), device="cpu", trust_remote_code=flag)
        assert torch.allclose(loaded.encode(TEXTS, convert_to_tensor=True), expected, atol=1e-5)
    assert torch.allclose(embed(SiameseModel.from_pretrained(tmp_path / "model")), expected, atol=1e-5)


def test_auto_model_without_the_flag_is_the_plain_encoder(tiny_bert, tmp_path):
    build(tiny_bert, layer=2).save_pretrained(tmp_path)
    encoder = AutoModel.from_pretrained(tmp_path)
    assert type(encoder).__name__ == "BertModel"
    assert encoder.config.num_hidden_layers == 2


@pytest.mark.parametrize("flag", [False, True])
def test_a_copy_that_sentence_transformers_saved_again_still_loads(flag, tiny_bert, tmp_path):
    model = build(tiny_bert, **VARIANTS["centred"])
    export(model, tiny_tokenizer(), tmp_path / "model")
    loaded = SentenceTransformer(str(tmp_path / "model"), device="cpu", trust_remote_code=flag)
    loaded.save_pretrained(str(tmp_path / "again"))
    again = SentenceTransformer(str(tmp_path / "again"), device="cpu")
    vectors = again.encode(TEXTS, convert_to_tensor=True, task="zh")
    assert torch.allclose(vectors, embed(model, "zh"), atol=1e-5)


def test_saving_what_the_flag_loaded_gives_the_same_folder(tiny_bert, tmp_path):
    model = build(tiny_bert, **VARIANTS["per language"])
    model.save_pretrained(tmp_path / "first")
    AutoModel.from_pretrained(tmp_path / "first", trust_remote_code=True).save_pretrained(tmp_path / "second")
    names = [
        {path.relative_to(tmp_path / name).as_posix() for path in (tmp_path / name).rglob("*") if path.is_file()}
        for name in ("first", "second")
    ]
    assert names[0] == names[1]
    assert torch.equal(embed(SiameseModel.from_pretrained(tmp_path / "second"), "zh"), embed(model, "zh"))


def test_doors_one_and_two_need_no_hfxling(tiny_bert, tmp_path):
    model = build(tiny_bert, layer=2)
    export(model, tiny_tokenizer(), tmp_path / "model")
    code = f"""
import sys, json
sys.modules["hfxling"] = None
import torch
from transformers import AutoModel
from sentence_transformers import SentenceTransformer
texts = {TEXTS!r}
first = SentenceTransformer("model", device="cpu")
second = AutoModel.from_pretrained("model", trust_remote_code=True)
batch = first.tokenizer(texts, padding=True, return_tensors="pt")
with torch.inference_mode():
    found = second(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).sentence_embedding
print(json.dumps([first.encode(texts).tolist(), found.tolist()]))
"""
    run = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    for vectors in json.loads(run.stdout.strip().splitlines()[-1]):
        assert torch.allclose(torch.tensor(vectors), embed(model), atol=1e-5)


@pytest.mark.parametrize("variant", ["centred", "per language"])
def test_a_missing_language_is_never_guessed(variant, tiny_bert, tmp_path):
    model = build(tiny_bert, **VARIANTS[variant])
    export(model, tiny_tokenizer(), tmp_path / "model")
    assert embed(model) is None
    with pytest.raises(ValueError, match="task"):
        SentenceTransformer(str(tmp_path / "model"), device="cpu").encode(TEXTS)
    with pytest.raises(ValueError, match="pass one of zh, vi"):
        embed(model, "th")


def test_query_and_document_are_source_and_target(tiny_bert, tmp_path):
    model = build(tiny_bert, **VARIANTS["per language"])
    export(model, tiny_tokenizer(), tmp_path / "model")
    loaded = SentenceTransformer(str(tmp_path / "model"), device="cpu")
    assert torch.allclose(torch.tensor(loaded.encode_query(TEXTS)), embed(model, "zh"), atol=1e-5)
    assert torch.allclose(torch.tensor(loaded.encode_document(TEXTS)), embed(model, "vi"), atol=1e-5)


def test_an_identity_head_keeps_the_direction_of_the_encoder_vector(tiny_bert):
    model = SiameseModel.from_encoder(str(tiny_bert), layer=2)
    batch = tiny_tokenizer()(TEXTS, padding=True, return_tensors="pt")
    with torch.inference_mode():
        output = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"])
    assert torch.allclose(output.sentence_embedding, torch.nn.functional.normalize(output.pooled), atol=1e-6)


def test_longer_padding_and_company_change_nothing(tiny_bert):
    model = build(tiny_bert, layer=2)
    together = embed(model)
    tokenizer = tiny_tokenizer()
    with torch.inference_mode():
        for text, expected in zip(TEXTS, together):
            for length in ({}, {"padding": "max_length", "max_length": 30}):
                batch = tokenizer([text], return_tensors="pt", **length)
                alone = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"])
                assert torch.allclose(alone.sentence_embedding[0], expected, atol=1e-6)


def test_a_head_without_encoder_is_saved_and_loaded(tmp_path):
    torch.manual_seed(0)
    model = SiameseModel(SiameseConfig(hidden_size=6, per_language=True, languages=LANGUAGES)).eval()
    model.save_pretrained(tmp_path)
    features = torch.randn(4, 6)
    loaded = SiameseModel.from_pretrained(tmp_path)
    expected = model(features=features, language="vi").sentence_embedding
    assert torch.equal(loaded(features=features, language="vi").sentence_embedding, expected)
    remote = AutoModel.from_pretrained(tmp_path, trust_remote_code=True)
    assert torch.equal(remote(features=features, language="vi").sentence_embedding, expected)
    with pytest.raises(ValueError, match="give features="):
        loaded(input_ids=torch.tensor([[1, 2]]))


def test_bfloat16_is_finite(tiny_bert):
    assert torch.isfinite(embed(build(tiny_bert, layer=2).to(torch.bfloat16))).all()


def test_head_dropout_only_while_training():
    head = SiameseHead(SiameseConfig(hidden_size=8, dropout=0.5))
    head.init_identity()
    features = torch.nn.functional.normalize(torch.ones(4, 8), dim=-1)
    assert torch.allclose(head.eval().project(features), features)
    assert (head.train().project(features) == 0).any()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"head": "gelu"}, "head='gelu' is not one of linear"),
        ({"centering": "corpus"}, "centering='corpus' is not one of none, train"),
        ({"centering": "train"}, "need at least two codes"),
        ({"dropout": 1.0}, "outside"),
    ],
)
def test_settings_that_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        SiameseConfig(**settings)


def test_a_folder_without_a_head_is_refused(tiny_bert):
    with pytest.raises(ValueError, match="is no siamese model"):
        SiameseModel.from_pretrained(tiny_bert)


def test_a_broken_folder_is_refused(tiny_bert, tmp_path):
    build(tiny_bert, layer=2).save_pretrained(tmp_path)
    modules = json.loads((tmp_path / "modules.json").read_text())
    (tmp_path / "modules.json").write_text(json.dumps([m for m in modules if "Dense" not in m["type"]]))
    with pytest.raises(ValueError, match="the model's configuration asks for"):
        SiameseModel.from_pretrained(tmp_path)
