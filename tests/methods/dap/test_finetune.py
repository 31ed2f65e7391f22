"""What fine-tuning on few pairs chooses by the machine that it runs on."""

import time

import pytest
import torch

from hfxling.methods.dap.finetune import bf16_is_faster, schedule


@pytest.mark.parametrize("slow", [torch.float32, torch.bfloat16])
def test_products_in_the_faster_type(monkeypatch, tmp_path, slow):
    def product(left, right):
        time.sleep(0.01 if left.dtype == slow else 0)

    monkeypatch.setattr(torch, "mm", product)
    assert bf16_is_faster() == (slow == torch.float32)
    training_args = schedule(100, str(tmp_path), epochs=1, seed=0, device="cpu", is_tested=False)
    assert training_args.bf16 == bf16_is_faster()
