"""Row-wise AdamW against torch's own, on matrices and in a training step of DAP."""

import copy

import pytest
import torch
import torch.distributed
import torch.nn.functional as F
from tiny_models import tiny_encoder, tiny_tokenizer
from torch import nn
from transformers import Trainer, TrainingArguments

from hfxling.methods.dap import row_adamw as rows
from hfxling.methods.dap.row_adamw import RowAdamW, row_adamw
from hfxling.models import DapConfig, DapForPreTraining

VOCABULARY, SIZE = 12, 16
SETTINGS = {"lr": 0.1, "betas": (0.8, 0.9), "eps": 1e-6, "weight_decay": 0.1}


class Net(nn.Module):
    """A look-up, a layer and a softmax tied to some of the looked-up rows."""

    def __init__(self, sparse: bool):
        super().__init__()
        torch.manual_seed(0)
        self.words = nn.Embedding(VOCABULARY, SIZE, padding_idx=0)
        self.layer = nn.Linear(SIZE, SIZE)
        self.sparse = sparse

    def forward(self, ids, shortlist):
        self.words.sparse = self.sparse
        states = torch.tanh(self.layer(self.words(ids)))
        logits = states @ F.embedding(shortlist, self.words.weight, sparse=self.sparse).T
        return F.cross_entropy(logits.flatten(0, 1), ids.flatten() % len(shortlist))


def optimizer(net: Net, **settings) -> RowAdamW:
    return RowAdamW(net.parameters(), rows=[net.words.weight], **SETTINGS | settings)


def inputs(seed: int, words=range(VOCABULARY)) -> tuple[torch.Tensor, torch.Tensor]:
    words = torch.tensor(list(words))
    generator = torch.Generator().manual_seed(seed)
    return words[torch.randint(len(words), (3, 4), generator=generator)], words[words > 0]


def steps(net, opt, seeds, words=range(VOCABULARY)):
    for seed in seeds:
        opt.zero_grad()
        net(*inputs(seed, words)).backward()
        opt.step()


@pytest.mark.parametrize(("sparse", "fused", "block"), [(False, None, 512), (True, True, 512), (True, None, 5)])
def test_equals_adamw_where_every_row_has_a_gradient(sparse, fused, block, monkeypatch):
    monkeypatch.setattr(rows, "_BLOCK", block)
    own, other = Net(sparse), Net(sparse=False)
    a, b = optimizer(own, fused=fused), torch.optim.AdamW(other.parameters(), fused=fused, **SETTINGS)
    for seed in range(4):
        for net, opt in ((own, a), (other, b)):
            opt.zero_grad()
            net(inputs(seed)[0], torch.arange(VOCABULARY)).backward()
        assert torch.allclose(own.words.weight.grad, other.words.weight.grad, atol=1e-7)
        own.words.weight.grad.copy_(other.words.weight.grad)  # summed in another order
        a.step()
        b.step()
        for p, q in zip(own.parameters(), other.parameters()):
            assert torch.equal(p, q)


def test_rows_without_gradient_keep_every_bit():
    net = Net(sparse=True)
    opt = optimizer(net)
    steps(net, opt, [0])
    before, moments = net.words.weight.detach().clone(), copy.deepcopy(opt.state[net.words.weight])
    steps(net, opt, [1], words=[2, 3, 7])
    rest = [i for i in range(VOCABULARY) if i not in (2, 3, 7)]
    state = opt.state[net.words.weight]
    assert torch.equal(net.words.weight[rest], before[rest])
    assert not (net.words.weight[[2, 3, 7]] == before[[2, 3, 7]]).all(1).any()
    for name in ("exp_avg", "exp_avg_sq"):
        assert torch.equal(state[name][rest], moments[name][rest])
    assert state["step"] == 2


@pytest.mark.parametrize("stepped", [True, False], ids=["after a step", "after a skipped step"])
def test_one_cleared_gradient_matrix_serves_all_steps(stepped):
    net, other = Net(sparse=True), Net(sparse=False)
    opt = optimizer(net, lr=0.0)
    net(*inputs(0)).backward()
    first = net.words.weight.grad
    if stepped:
        opt.step()
    net.zero_grad()
    assert net.words.weight.grad is None
    for seed in (1, 2):  # accumulated
        net(*inputs(seed, [2, 3, 7])).backward()
        other(*inputs(seed, [2, 3, 7])).backward()
    assert net.words.weight.grad.data_ptr() == first.data_ptr()
    assert torch.allclose(net.words.weight.grad, other.words.weight.grad, atol=1e-7)


@pytest.mark.parametrize("source", ["its own", "AdamW's"])
def test_training_goes_on_from_a_checkpoint(source):
    net = Net(sparse=True)
    opt = optimizer(net) if source == "its own" else torch.optim.AdamW(net.parameters(), **SETTINGS)
    net.sparse = source == "its own"
    steps(net, opt, [0, 1])
    again = copy.deepcopy(net)
    saved = copy.deepcopy(opt.state_dict())
    resumed = optimizer(again)
    resumed.load_state_dict(copy.deepcopy(saved))
    steps(again, resumed, [2, 3])
    if source == "AdamW's":
        opt = optimizer(net)
        opt.load_state_dict(saved)
    steps(net, opt, [2, 3])
    for p, q in zip(net.parameters(), again.parameters()):
        assert torch.equal(p, q)


def test_distributed_data_parallel_reduces_the_dense_gradient():
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        net, other = Net(sparse=True), Net(sparse=True)
        opt, wrapped = optimizer(net), nn.parallel.DistributedDataParallel(net)
        steps(wrapped, opt, range(3), words=[2, 3, 7])
        steps(other, optimizer(other), range(3), words=[2, 3, 7])
    finally:
        torch.distributed.destroy_process_group()
    for p, q in zip(net.parameters(), other.parameters()):
        assert torch.allclose(p, q, atol=1e-6)


def pairs() -> dict:
    tokenizer = tiny_tokenizer()
    sides = {"source": ["我爱吃苹果", "你好"], "target": ["i eat apples", "hello"]}
    encoded = {name: tokenizer(texts, padding=True, return_tensors="pt") for name, texts in sides.items()}
    return {name: {key: side[key] for key in ("input_ids", "attention_mask")} for name, side in encoded.items()}


def build(row_gradients: bool, objective="tr+rtl", shortlist=True) -> DapForPreTraining:
    encoder = tiny_encoder("bert")
    ids = pairs()["target"]["input_ids"].unique() if shortlist else None
    torch.manual_seed(1)
    special = {"mask_token_id": 4, "special_token_ids": [0, 1, 2, 3, 4]}
    config = DapConfig(
        encoder_config=encoder.config, objective=objective, shortlist_size=len(ids) if shortlist else None, **special
    )
    model = DapForPreTraining(config, encoder)
    if shortlist:
        model.set_shortlist(ids)
    model.row_gradients = row_gradients
    return model


@pytest.mark.parametrize(("objective", "shortlist"), [("tr+rtl", True), ("tr+rtl+tlm", False), ("tr", False)])
def test_dap_gives_the_same_gradients_as_rows(objective, shortlist):
    found = []
    for row_gradients in (False, True):
        model = build(row_gradients, objective, shortlist)
        torch.manual_seed(2)
        model.eval()(**pairs()).loss.backward()
        found.append(model.dap.encoder.get_input_embeddings().weight.grad)
    assert found[1].is_sparse == (shortlist or objective == "tr")
    assert torch.allclose(found[0], found[1].to_dense(), atol=1e-7)


def test_trainer_updates_the_used_rows_only(tmp_path):
    model = build(row_gradients=True)
    weight = model.dap.encoder.get_input_embeddings().weight
    before = weight.detach().clone()
    args = TrainingArguments(
        str(tmp_path),
        max_steps=2,
        learning_rate=0.01,
        weight_decay=0.1,
        max_grad_norm=0.5,
        report_to="none",
        use_cpu=True,
        save_strategy="no",
        remove_unused_columns=False,
        disable_tqdm=True,
    )
    batches = [pairs()] * 4
    trainer = Trainer(
        model,
        args,
        train_dataset=batches,
        data_collator=lambda rows: rows[0],
        optimizer_cls_and_kwargs=row_adamw(args, [weight]),
    )
    trainer.train()
    used = torch.cat([side["input_ids"].flatten() for side in pairs().values()]).unique()
    used = used[used != 0]  # padding_idx has no gradient, and is not among the words to predict but in row 0
    changed = (weight != before).any(1).nonzero().flatten()
    assert set(used.tolist()) <= set(changed.tolist()) <= {0, *used.tolist()}
    optimizer = trainer.optimizer.optimizer if hasattr(trainer.optimizer, "optimizer") else trainer.optimizer
    assert isinstance(optimizer, RowAdamW)
    assert optimizer.defaults["lr"] == 0.01


def test_what_it_refuses(tmp_path):
    net = Net(sparse=True)
    with pytest.raises(ValueError, match=r"\(12, 16\)"):
        RowAdamW(net.layer.parameters(), rows=[net.words.weight])
    with pytest.raises(ValueError, match="trainable matrix"):
        RowAdamW(net.parameters(), rows=[net.layer.bias])
    with pytest.raises(ValueError, match="optim=sgd"):
        row_adamw(TrainingArguments(str(tmp_path), optim="sgd", use_cpu=True), [net.words.weight])
