"""What fine-tuning on few pairs chooses by the machine that it runs on."""

import time
from dataclasses import replace

import numpy as np
import pytest
import torch
from tiny_models import save_tiny

from hfxling.data.corpus import load_corpus
from hfxling.encoders.frozen import SentenceEmbedder, load_tokenizer
from hfxling.hub.adapter import adapter_faults
from hfxling.methods.dap.data import mean_texts
from hfxling.methods.dap.finetune import bf16_is_faster, finetune, finetuning, schedule
from hfxling.methods.dap.train import center
from hfxling.models import DapModel


def centered(encoder, folder, lora, centering="train"):
    """Options of a run that trains with a rate of 0, its text and the Trainer's arguments."""
    text = {"train_data": ["sample"], "test_data": ["sample"], "cache_dir": str(folder)}
    recipe = replace(finetuning(str(encoder), ["zh-vi"], **text), centering=centering, lora=lora, max_train_pairs=40)
    training_args = schedule(40, str(folder), epochs=1, seed=0, device="cpu", is_tested=False)
    training_args.learning_rate = 0.0
    return recipe, training_args, load_corpus(recipe)


@pytest.mark.parametrize("lora", [0, 4])
def test_training_begins_with_vectors_less_their_mean(tiny_bert, tmp_path, lora):
    recipe, training_args, corpus = centered(tiny_bert, tmp_path, lora)
    trained = finetune(recipe, training_args, corpus, kept=tmp_path / "kept.safetensors")
    texts, tokenizer = mean_texts(corpus), load_tokenizer(str(tiny_bert))
    assert len(texts) == 80
    plain = DapModel.from_pretrained(str(tiny_bert), pooling="mean").eval()
    before = SentenceEmbedder(plain, tokenizer, output="pooled")(texts)
    after = SentenceEmbedder(trained.model.dap.eval(), tokenizer, output="pooled")(texts)
    np.testing.assert_allclose(after, before - before.mean(axis=0), atol=1e-4)
    again = finetune(recipe, training_args, corpus, kept=tmp_path / "kept.safetensors")
    np.testing.assert_allclose(again.encode(texts), trained.encode(texts), atol=1e-5)


def test_the_adapter_has_the_mean_too(tiny_bert, tmp_path):
    trained = finetune(*centered(tiny_bert, tmp_path, 4), kept=tmp_path / "kept.safetensors")
    trained.write(tmp_path / "model")
    assert adapter_faults(tmp_path / "model") == []


def test_an_encoder_without_a_bias_to_take_the_mean_off_is_refused(tmp_path, refusal):
    recipe, training_args, corpus = centered(save_tiny("mt5", tmp_path / "mt5"), tmp_path, 0)
    said = refusal(lambda: finetune(recipe, training_args, corpus, kept=tmp_path / "kept.safetensors"))
    assert "mt5 has no bias that can hold the mean vector; leave centering out" in said


def test_an_encoder_without_such_a_bias_is_trained_as_it_is(tmp_path):
    encoder = save_tiny("mt5", tmp_path / "mt5")
    recipe, training_args, corpus = centered(encoder, tmp_path, 0, centering="auto")
    trained = finetune(recipe, training_args, corpus, kept=tmp_path / "kept.safetensors")
    texts, tokenizer = mean_texts(corpus), load_tokenizer(str(encoder))
    before = SentenceEmbedder(DapModel.from_pretrained(str(encoder), pooling="mean").eval(), tokenizer)(texts)
    np.testing.assert_allclose(trained.encode(texts), before, atol=1e-4)


def test_a_bias_that_the_vectors_do_not_go_by_stays(tiny_bert):
    model = DapModel.from_pretrained(str(tiny_bert), pooling="mean")
    bias = model.encoder.embeddings.LayerNorm.bias
    before = bias.clone()
    assert not center(model, load_tokenizer(str(tiny_bert)), "embeddings.LayerNorm", ["一句话", "một câu"])
    assert torch.equal(bias, before)


@pytest.mark.parametrize("kind", ["xlm-roberta", "distilbert", "xlm", "mt5", "qwen3"])
def test_encoders_of_every_family_are_trained(tmp_path, kind):
    encoder = save_tiny(kind, tmp_path / kind)
    recipe, training_args, corpus = centered(encoder, tmp_path, 4, centering="auto")
    training_args.learning_rate = 1e-2
    trained = finetune(recipe, training_args, corpus, kept=tmp_path / "kept.safetensors")
    learnt = []  # weights that an adapter begins with as zeros
    for name, weight in trained.model.dap.named_parameters():
        if "lora_B" in name:
            learnt.append(weight.detach().abs().max() > 0)
        elif "embed" in name:
            assert not weight.requires_grad
    assert any(learnt)
    trained.write(tmp_path / "model")
    assert adapter_faults(tmp_path / "model") == []


@pytest.mark.parametrize("slow", [torch.float32, torch.bfloat16])
def test_products_in_the_faster_type(monkeypatch, tmp_path, slow, request):
    def product(left, right):
        time.sleep(0.01 if left.dtype == slow else 0)

    monkeypatch.setattr(torch, "mm", product)
    bf16_is_faster.cache_clear()
    request.addfinalizer(bf16_is_faster.cache_clear)
    assert bf16_is_faster() == (slow == torch.float32)
    training_args = schedule(100, str(tmp_path), epochs=1, seed=0, device="cpu", is_tested=False)
    assert training_args.bf16 == bf16_is_faster()
