"""The siamese model: its head, and the three ways to load its folder."""

import pytest
import torch
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from tiny_models import HIDDEN, tiny_tokenizer
from transformers import AutoModel

from hfxling.hub.writing import export
from hfxling.models import SiameseConfig, SiameseHead, SiameseModel

TEXTS = ["我爱吃苹果", "tôi ăn", "hello, is it raining?"]
LANGUAGES = ["zh", "vi"]
CENTRED = {"layer": 2, "centering": "train", "languages": LANGUAGES}
PER_LANGUAGE = {"layer": 1, "per_language": True, "bias": True, "languages": LANGUAGES}


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


@pytest.mark.parametrize("settings", [CENTRED, PER_LANGUAGE])
@pytest.mark.parametrize("flag", [False, True])
def test_a_copy_that_sentence_transformers_saved_again_still_loads(flag, settings, tiny_bert, tmp_path):
    model = build(tiny_bert, **settings)
    export(model, tiny_tokenizer(), tmp_path / "model")
    loaded = SentenceTransformer(str(tmp_path / "model"), device="cpu", trust_remote_code=flag)
    loaded.save_pretrained(str(tmp_path / "again"))
    again = SentenceTransformer(str(tmp_path / "again"), device="cpu")
    vectors = again.encode(TEXTS, convert_to_tensor=True, task="zh")
    assert torch.allclose(vectors, embed(model, "zh"), atol=1e-5)
    if not flag:  # with it the copy's encoder is our class
        assert torch.allclose(embed(SiameseModel.from_pretrained(tmp_path / "again"), "zh"), vectors, atol=1e-5)


@pytest.mark.parametrize("settings", [CENTRED, PER_LANGUAGE])
def test_a_missing_language_is_never_guessed(settings, tiny_bert, tmp_path):
    model = build(tiny_bert, **settings)
    export(model, tiny_tokenizer(), tmp_path / "model")
    assert embed(model) is None
    with pytest.raises(ValueError, match="task"):
        SentenceTransformer(str(tmp_path / "model"), device="cpu").encode(TEXTS)
    with pytest.raises(ValueError, match="pass one of zh, vi"):
        embed(model, "th")


def test_an_identity_head_keeps_the_direction_of_the_encoder_vector(tiny_bert):
    model = SiameseModel.from_encoder(str(tiny_bert), layer=2)
    batch = tiny_tokenizer()(TEXTS, padding=True, return_tensors="pt")
    with torch.inference_mode():
        output = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"])
    assert torch.allclose(output.sentence_embedding, torch.nn.functional.normalize(output.pooled), atol=1e-6)


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
    with pytest.raises(ValueError, match="features are 5 wide, this model takes 6"):
        loaded(features=torch.randn(2, 5), language="vi")


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
        ({"centering": "train"}, "need the languages' codes"),
        ({"dropout": 1.0}, "outside"),
    ],
)
def test_settings_that_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        SiameseConfig(**settings)


def test_a_folder_without_a_head_is_refused(tiny_bert):
    with pytest.raises(ValueError, match="is no siamese model"):
        SiameseModel.from_pretrained(tiny_bert)


def test_layers_that_somebody_weighs_unequally_are_refused_and_not_averaged(tiny_bert, tmp_path):
    export(build(tiny_bert, layer="all", languages=LANGUAGES), tiny_tokenizer(), tmp_path)
    (file,) = tmp_path.glob("*_WeightedLayerPooling/model.safetensors")
    weights = load_file(file)["layer_weights"]
    save_file({"layer_weights": 3 * weights}, file)
    SiameseModel.from_pretrained(tmp_path)  # the same mean
    weights[0] += 1
    save_file({"layer_weights": weights}, file)
    with pytest.raises(ValueError, match="weighs the layers unequally"):
        SiameseModel.from_pretrained(tmp_path)
