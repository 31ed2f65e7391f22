"""How published encoders pool, read off their files."""

import json

import pytest
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Pooling, StaticEmbedding, Transformer
from tiny_models import tiny_tokenizer

from hfxling.encoders.pooling import Pooled, pooled_by


@pytest.mark.parametrize(
    ("mode", "pooled"),
    [
        ("mean", Pooled("mean")),
        ("cls", Pooled("cls")),
        ("lasttoken", Pooled("last")),
        ("max", Pooled("mean", ("max pooling",))),
        (("cls", "mean"), Pooled("mean", ("cls+mean pooling",))),
    ],
)
def test_of_a_folder_of_sentence_transformers(tiny_bert, tmp_path, mode, pooled):
    encoder = Transformer(str(tiny_bert))
    modules = [encoder, Pooling(encoder.get_embedding_dimension(), pooling_mode=mode), Normalize()]
    SentenceTransformer(modules=modules).save(str(tmp_path))
    assert pooled_by(str(tmp_path)) == pooled


def test_of_an_encoder_of_transformers_alone(tiny_bert):
    assert pooled_by(str(tiny_bert)) == Pooled("mean")


def test_further_modules_are_named(tiny_bert, tmp_path):
    encoder = Transformer(str(tiny_bert))
    size = encoder.get_embedding_dimension()
    modules = [encoder, Pooling(size, pooling_mode="cls"), Dense(size, size), Normalize()]
    SentenceTransformer(modules=modules).save(str(tmp_path / "labse"))
    assert pooled_by(str(tmp_path / "labse")) == Pooled("cls", ("Dense",))
    SentenceTransformer(modules=[StaticEmbedding(tiny_tokenizer(), embedding_dim=4)]).save(str(tmp_path / "static"))
    assert pooled_by(str(tmp_path / "static")) == Pooled("mean", ("StaticEmbedding",))


def test_of_a_folder_that_an_earlier_version_wrote(tmp_path):
    modules = []
    for index, (kind, path) in enumerate([("Transformer", ""), ("Pooling", "1_Pooling"), ("Normalize", "2_Normalize")]):
        modules.append({"idx": index, "name": str(index), "path": path, "type": f"sentence_transformers.models.{kind}"})
    (tmp_path / "modules.json").write_text(json.dumps(modules))
    (tmp_path / "1_Pooling").mkdir()
    settings = {"word_embedding_dimension": 1024, "pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}
    (tmp_path / "1_Pooling" / "config.json").write_text(json.dumps(settings))
    assert pooled_by(str(tmp_path)) == Pooled("cls")
    settings |= {"pooling_mode_cls_token": False, "pooling_mode_max_tokens": True}
    (tmp_path / "1_Pooling" / "config.json").write_text(json.dumps(settings))
    assert pooled_by(str(tmp_path)) == Pooled("mean", ("max_tokens pooling",))
