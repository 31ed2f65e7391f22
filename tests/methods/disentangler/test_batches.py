"""Batches of the split: partners, coverage, locality, and what each objective adds up."""

import numpy as np
import pytest
import torch

from hfxling.methods.disentangler import batches as split
from hfxling.methods.disentangler.batches import BlockSampler, PairRows, SplitObjective
from hfxling.models import DisentanglerConfig, DisentanglerHead
from hfxling.models.losses import SPLIT_LOSSES

SIZES = (10, 3, 6)


def dataset(sizes=SIZES, unused=2) -> PairRows:
    """Vectors that say what they are: (language pair, side, row)."""
    vectors = [
        tuple(np.array([[kind, side, row] for row in range(n + unused)], np.float32) for side in range(2))
        for kind, n in enumerate(sizes)
    ]
    return PairRows(vectors, [np.arange(unused, n + unused) for n in sizes])


def test_the_partner_of_every_row_is_another_row_of_its_language_pair():
    rows, rng = dataset(), np.random.default_rng(0)
    for _ in range(50):
        batch = rows.__getitems__(rng.permutation(len(rows))[:9])
        pooled, mask = batch["pooled"].numpy(), batch["has_partner"].numpy()
        assert len(mask) == len(pooled) - 1
        for i in np.flatnonzero(mask):
            here, partner = pooled[i], pooled[i + 1]
            assert (here[:, 0] == partner[:, 0]).all()  # language pair
            assert here[0, 2] == here[1, 2] != partner[0, 2]  # both sides of one row, and another row
            assert (here[:, 1] == [0, 1]).all()


def test_a_batch_holds_every_row_once_but_those_that_are_alone():
    batch = dataset().__getitems__([0, 9, 4, 10, 14, 13])  # pair 0: three rows, pair 1: one, pair 2: two
    rows = batch["pooled"][:-1][batch["has_partner"]][:, 0]
    assert [tuple(row) for row in rows.int().tolist()] == [(0, 0, 2), (0, 0, 11), (0, 0, 6), (2, 0, 3), (2, 0, 2)]


def test_a_batch_without_partners_has_no_loss():
    batch = dataset().__getitems__([0])
    objective = SplitObjective(DisentanglerHead(DisentanglerConfig(hidden_size=3)), "both")
    outputs = objective(**batch)
    assert outputs["loss"] == 0
    outputs["loss"].backward()


def test_an_epoch_has_every_row_once_and_each_its_own_order():
    sampler = BlockSampler(dataset(), batch_size=4, seed=3)
    orders = []
    for epoch in (0, 1, 0):
        sampler.set_epoch(epoch)
        orders.append(list(sampler))
        assert sorted(orders[-1]) == list(range(len(sampler)))
    assert orders[0] == orders[2] != orders[1]
    assert list(BlockSampler(dataset(), batch_size=4, seed=4)) != orders[0]


def test_what_is_read_next_lies_near_on_disk(monkeypatch):
    monkeypatch.setattr(split, "BLOCK", 100)
    monkeypatch.setattr(split, "BLOCKS", 4)
    order = np.array(list(BlockSampler(dataset((5000, 3000)), batch_size=50)))
    places = [len(np.unique(order[start : start + 350] // 100)) for start in range(0, len(order) - 350, 350)]
    assert max(places) <= 16
    batches = [order[start : start + 50] for start in range(0, len(order), 50)]
    assert np.mean([len(np.unique(batch < 5000)) == 1 for batch in batches]) > 0.9


def test_nearly_every_row_has_a_partner_among_many_language_pairs():
    rows = dataset((500,) * 40)
    order = np.array(list(BlockSampler(rows, batch_size=16)))
    counts = [np.bincount(np.searchsorted(rows.ends, order[i : i + 16], "right")) for i in range(0, len(order), 16)]
    assert sum((count == 1).sum() for count in counts) < 0.01 * len(order)
    assert np.mean([(count > 0).sum() for count in counts]) < 2


@pytest.mark.parametrize("objective", split.OBJECTIVES)
def test_the_loss_is_the_sum_of_the_objectives_terms_and_all_are_reported(objective):
    torch.manual_seed(0)
    head = DisentanglerHead(DisentanglerConfig(hidden_size=6))
    outputs = SplitObjective(head, objective)(torch.randn(8, 2, 6), torch.ones(7, dtype=torch.bool))
    assert set(outputs) == {"loss", *(f"loss_{name}" for name in SPLIT_LOSSES)}
    expected = sum(outputs[f"loss_{name}"] for name in split.OBJECTIVES[objective])
    assert outputs["loss"].item() == pytest.approx(expected.item(), rel=1e-6)
    outputs["loss"].backward()
    assert all(parameter.grad.abs().sum() > 0 for parameter in head.parameters())
