"""Configurations that are none, from every class, and weights that are no numbers."""

import pytest
import torch

from hfxling.models import AlignerConfig, AlignerModel, DapModel, DisentanglerModel, LexicalModel, SiameseModel


@pytest.mark.parametrize("content", ["[]", "null", "3", "[" * 100_000])
@pytest.mark.parametrize("cls", [AlignerModel, DapModel, DisentanglerModel, LexicalModel, SiameseModel])
def test_a_config_that_is_no_configuration(cls, content, tmp_path):
    (tmp_path / "config.json").write_text(content)
    with pytest.raises((ValueError, OSError), match="config") as error:
        cls.from_pretrained(tmp_path)
    assert str(tmp_path) in str(error.value)


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_weights_that_are_no_numbers_are_refused(value, tmp_path):
    sizes = {"lo": 9, "zh": 11}
    pieces = {language: torch.zeros(words, 3, dtype=torch.long) for language, words in sizes.items()}
    model = AlignerModel(AlignerConfig(vocab_sizes=sizes, piece_vocab_size=6, pieces_per_word=3, size=8), pieces)
    model.save_pretrained(tmp_path)
    AlignerModel.from_pretrained(tmp_path)
    with torch.no_grad():
        model.embedding.words["of_zh"].weight[3, 3] = value
    model.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=r"embedding.words.of_zh.weight holds NaN or infinite numbers"):
        AlignerModel.from_pretrained(tmp_path)


def test_pieces_that_a_model_does_not_have_are_refused(tmp_path):
    sizes = {"lo": 9, "zh": 11}
    pieces = {language: torch.zeros(words, 3, dtype=torch.long) for language, words in sizes.items()}
    model = AlignerModel(AlignerConfig(vocab_sizes=sizes, piece_vocab_size=6, pieces_per_word=3, size=8), pieces)
    model.embedding.piece_ids("zh")[4, 0] = 6
    model.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="piece_ids_zh is damaged"):
        AlignerModel.from_pretrained(tmp_path)
