"""An encoder cut after layer k gives hidden_states[k] of the whole one, for every family."""

import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny_models import save_tiny, tiny_encoder
from transformers import BertConfig, BertForMaskedLM, M2M100Config, M2M100Model

from hfxling.models.encoder import hidden_states, layer_states, load_encoder

FAMILIES = ("bert", "xlm-roberta", "distilbert", "xlm", "mt5")
INPUTS = {
    "input_ids": torch.tensor([[2, 7, 8, 9, 3], [2, 10, 3, 0, 0]]),
    "attention_mask": torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]]),
}


@pytest.fixture(scope="module", params=FAMILIES)
def folder(request, tmp_path_factory):
    return save_tiny(request.param, tmp_path_factory.mktemp(request.param))


@torch.inference_mode()
def test_cut_encoder_equals_the_layer_of_the_whole_one(folder):
    states = hidden_states(load_encoder(folder), INPUTS)
    assert len(states) == 4
    for layer in range(4):
        cut = load_encoder(folder, layer)
        assert torch.equal(layer_states(cut, INPUTS), states[layer])
        assert torch.equal(hidden_states(cut, INPUTS)[layer], states[layer])
        assert cut.config.num_hidden_layers == layer


@torch.inference_mode()
def test_all_layers_is_their_mean_without_the_embeddings(folder):
    if "mt5" in folder.name:
        with pytest.raises(ValueError, match="share a final norm"):
            load_encoder(folder, "all")
    encoder = load_encoder(folder)
    mean = torch.stack(hidden_states(encoder, INPUTS)[1:]).mean(0)
    assert torch.equal(layer_states(encoder, INPUTS, "all"), mean)


@pytest.mark.parametrize("layer", [-1, 4, "seven", 1.5])
def test_a_layer_the_encoder_lacks(tiny_bert, layer):
    with pytest.raises(ValueError, match=r"is outside hidden_states 0\.\.3"):
        load_encoder(tiny_bert, layer)


def test_an_encoder_with_a_decoder_is_refused(tmp_path):
    sizes = {"vocab_size": 8, "d_model": 4, "encoder_layers": 1, "decoder_layers": 1}
    sizes |= {"encoder_attention_heads": 1, "decoder_attention_heads": 1, "encoder_ffn_dim": 4, "decoder_ffn_dim": 4}
    M2M100Model(M2M100Config(**sizes)).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=r"m2m_100.* is an encoder with a decoder"):
        load_encoder(str(tmp_path))


def test_cutting_prints_no_load_report(tiny_bert, capfd):
    load_encoder(tiny_bert, 1)
    assert "REPORT" not in "".join(capfd.readouterr())


def test_a_checkpoint_without_its_encoder_is_refused(tiny_bert, tmp_path):
    weights = load_file(tiny_bert / "model.safetensors")
    (tmp_path / "config.json").write_text((tiny_bert / "config.json").read_text())
    kept = {key: value for key, value in weights.items() if "layer.1." not in key}
    save_file(kept, tmp_path / "model.safetensors", {"format": "pt"})
    with pytest.raises(ValueError, match="lacks 16 weights of its bert network"):
        load_encoder(tmp_path)


def test_a_base_model_may_hold_more_than_is_needed_and_lack_its_pooler(tiny_bert, tmp_path, capfd):
    BertForMaskedLM(BertConfig(**tiny_encoder("bert").config.to_dict())).save_pretrained(tmp_path)
    load_encoder(tmp_path, 1)
    assert "REPORT" not in "".join(capfd.readouterr())
    with pytest.raises(ValueError, match=r"lacks 2 weights of its bert network .*pooler"):
        load_encoder(tmp_path, spare=False)
    weights = load_file(tmp_path / "model.safetensors")
    weights["bert.embeddings.word_embeddings.weight"] = torch.ones(3, 4)
    save_file(weights, tmp_path / "model.safetensors", {"format": "pt"})
    with pytest.raises(ValueError, match=r"wrong shape of 1 weights .*word_embeddings.weight \(3, 4\), not"):
        load_encoder(tmp_path)
