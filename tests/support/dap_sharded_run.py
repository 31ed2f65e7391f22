"""A step of DAP with weights in pieces over two processes (FSDP) against a whole one."""

import torch
import torch.distributed as dist
from tiny_models import tiny_encoder, tiny_tokenizer
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from hfxling.methods.dap.train import RootModel, gather_rows
from hfxling.models import DapConfig, DapForPreTraining

# By turns to either process: sides of like length, which one pass would take, and of very unlike length; equal texts on
# one process and across both.
SOURCE = ["我爱吃苹果", "你", "今天下雨", "他", "你好", "他", "你好你好", "你"]
TARGET = ["i eat", "hello you there", "rain", "he is in there", "hello", "he is in there", "rain", "hello again you"]


def build() -> DapForPreTraining:
    encoder = tiny_encoder("bert")
    torch.manual_seed(0)
    config = DapConfig(encoder_config=encoder.config, mask_token_id=4, special_token_ids=[0, 1, 2, 3, 4])
    model = DapForPreTraining(config, encoder)
    model.rtl.copy_encoder(encoder, 4)
    return model.eval()  # no dropout


def batch(texts: list[str]) -> dict:
    encoded = tiny_tokenizer()(texts, padding=True, return_tensors="pt")
    return {"input_ids": encoded["input_ids"], "attention_mask": encoded["attention_mask"]}


def main() -> None:
    """Assert it, in a process of a group."""
    rank = dist.get_rank()
    whole, sharded = build(), build()
    mesh = init_device_mesh("cpu", (2,))
    for layer in sharded.dap.encoder.encoder.layer:
        fully_shard(layer, mesh=mesh)
    fully_shard(sharded, mesh=mesh)
    sharded.one_pass = True
    whole(batch(SOURCE), batch(TARGET)).loss.backward()
    with torch.no_grad():
        assert sharded(batch(SOURCE), batch(TARGET), embed_only=True).source.shape == (8, 16)
        for texts in (TARGET, SOURCE[rank::2]):
            found, expected = (model(**batch(texts)).sentence_embedding for model in (RootModel(sharded), whole.dap))
            assert torch.allclose(found, expected, atol=1e-6)
    sharded(batch(SOURCE[rank::2]), batch(TARGET[rank::2]), gather=gather_rows).loss.backward()
    pieces = dict(sharded.named_parameters())
    for name, parameter in whole.named_parameters():
        if parameter.grad is not None:
            assert torch.allclose(parameter.grad, pieces[name].grad.full_tensor(), atol=1e-5), name
