"""The disentangler: the sum of its parts, the three ways to load its folder, prompts, vectors without an encoder."""

import pytest
import torch
from sentence_transformers import SentenceTransformer
from tiny_models import HIDDEN, tiny_tokenizer
from transformers import AutoModel, Qwen3Config, Qwen3Model

from hfxling.hub.writing import export
from hfxling.models import DisentanglerConfig, DisentanglerModel

TEXTS = ["我爱吃苹果", "tôi ăn", "hello, is it raining?"]
PROMPT = "is it, in "


def scramble(model) -> DisentanglerModel:
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in model.head.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    return model


def build(folder, **settings) -> DisentanglerModel:
    return scramble(DisentanglerModel.from_encoder(str(folder), **settings))


@torch.inference_mode()
def embed(model, tokenizer=None):
    texts = [(model.config.prompt or "") + text for text in TEXTS]
    batch = (tokenizer or tiny_tokenizer())(texts, padding=True, truncation=True, return_tensors="pt")
    return model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"])


@pytest.mark.parametrize("part", ["meaning", "language"])
def test_the_parts_sum_to_the_vector(part, tiny_bert):
    output = embed(build(tiny_bert, part=part))
    assert torch.allclose(output.meaning + output.language, output.pooled, atol=1e-6)
    own = output[part] / output[part].norm(dim=-1, keepdim=True)
    assert torch.allclose(output.sentence_embedding, own, atol=1e-6)


def test_the_other_folder_holds_the_language_part(tiny_bert, tmp_path):
    model = build(tiny_bert)
    export(model.exchanged(), tiny_tokenizer(), tmp_path / "language")
    language = embed(model).language
    expected = language / language.norm(dim=-1, keepdim=True)
    loaded = SentenceTransformer(str(tmp_path / "language"), device="cpu")
    assert torch.allclose(loaded.encode(TEXTS, convert_to_tensor=True), expected, atol=1e-5)
    again = DisentanglerModel.from_pretrained(tmp_path / "language")
    assert torch.allclose(embed(again).meaning, embed(model).meaning, atol=1e-5)
    assert torch.allclose(embed(again.exchanged()).sentence_embedding, embed(model).sentence_embedding, atol=1e-5)
    export(model, tiny_tokenizer(), tmp_path / "meaning")  # the shared encoder's config did not stay the other's
    found = SentenceTransformer(str(tmp_path / "meaning"), device="cpu").encode(TEXTS, convert_to_tensor=True)
    assert torch.allclose(found, embed(model).sentence_embedding, atol=1e-5)


def test_an_untrained_head_ranks_as_the_encoder_does(tiny_bert):
    output = embed(DisentanglerModel.from_encoder(str(tiny_bert)))
    unit = torch.nn.functional.normalize(output.pooled, dim=-1)
    assert torch.allclose(output.sentence_embedding, unit, atol=1e-6)
    assert output.language.norm(dim=-1).min() > 0.1


def test_last_token_with_left_padding_and_a_prompt(tmp_path):
    """A decoder as Qwen3-Embedding is one: instruction, last token, padding on the left."""
    tokenizer = tiny_tokenizer()
    tokenizer.padding_side = tokenizer.init_kwargs["padding_side"] = "left"
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=len(tokenizer), hidden_size=HIDDEN, num_hidden_layers=2, num_attention_heads=2, head_dim=8,
        num_key_value_heads=1, intermediate_size=24, max_position_embeddings=64,
    )  # fmt: skip
    Qwen3Model(config).eval().save_pretrained(tmp_path / "encoder")
    model = build(tmp_path / "encoder", pooling="last", prompt=PROMPT)
    export(model, tokenizer, tmp_path / "model")
    loaded = SentenceTransformer(str(tmp_path / "model"), device="cpu")
    assert loaded.tokenizer.padding_side == "left"
    expected = embed(model, tokenizer).sentence_embedding
    assert torch.allclose(loaded.encode(TEXTS, convert_to_tensor=True), expected, atol=1e-5)
    assert torch.allclose(expected, embed(model).sentence_embedding, atol=1e-5)  # padding on the right
    assert torch.allclose(loaded.encode_query(TEXTS, convert_to_tensor=True), expected, atol=1e-5)
    without = loaded.encode(TEXTS, convert_to_tensor=True, prompt="")
    assert not torch.allclose(without, expected, atol=1e-3)


@pytest.mark.parametrize("part", ["meaning", "language"])
def test_vectors_without_an_encoder(part, tmp_path):
    model = scramble(DisentanglerModel(DisentanglerConfig(hidden_size=6, part=part)).eval())
    model.save_pretrained(tmp_path)
    features = torch.randn(4, 6)
    expected = model(features=features)
    for loaded in (DisentanglerModel.from_pretrained(tmp_path), AutoModel.from_pretrained(tmp_path)):
        assert torch.equal(loaded(features=features).meaning, expected.meaning)
    assert torch.allclose(model.exchanged()(features=features).meaning, expected.meaning, atol=1e-6)
    with pytest.raises(ValueError, match="give features="):
        loaded(input_ids=torch.tensor([[1, 2]]))
    with pytest.raises(ValueError, match="features are 5 wide, this model takes 6"):
        loaded(features=torch.randn(2, 5))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"pooling": "max"}, "pooling='max' is not one of mean, cls, last"),
        ({"part": "style"}, "part='style' is not one of meaning, language"),
        ({"hidden_size": 0}, "hidden_size=0"),
    ],
)
def test_settings_that_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        DisentanglerConfig(**settings)


def test_a_folder_without_a_head_is_refused(tiny_bert):
    with pytest.raises(ValueError, match=r"is no disentangler model: .* DisentanglerModel.from_encoder"):
        DisentanglerModel.from_pretrained(tiny_bert)
