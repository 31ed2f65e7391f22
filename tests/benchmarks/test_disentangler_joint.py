"""What heads have in common, and that language pairs that want the same are told from those that do not."""

from types import SimpleNamespace

import disentangler_joint
import numpy as np
import pytest
import torch

from hfxling.data.scored import ScoredPairs
from hfxling.evaluation.similarity import cosines

INTRA = disentangler_joint.WEIGHTS["intra"]


def vectors(noisy: range, seed: int, count: int = 300, size: int = 12) -> torch.Tensor:
    """Pairs that agree in all dimensions but the noisy ones."""
    generator = torch.Generator().manual_seed(seed)
    meaning = torch.randn(count, 1, size, generator=generator)
    noise = torch.randn(count, 2, size, generator=generator)
    return torch.where(torch.isin(torch.arange(size), torch.tensor(list(noisy))), noise, meaning + 0.1 * noise)


@pytest.mark.parametrize(("shared", "matrices", "biases"), [("own", 2, 2), ("shared", 1, 1), ("own biases", 1, 2)])
def test_what_heads_share(shared, matrices, biases):
    maps, _ = disentangler_joint.fit([vectors(range(3), 0), vectors(range(3), 1)], INTRA, shared, 2, 0)
    assert len({matrix.data_ptr() for matrix, _ in maps}) == matrices
    assert len({bias.data_ptr() for _, bias in maps}) == biases


def test_pairs_that_agree_on_other_dimensions_want_other_matrices():
    alike = disentangler_joint.fit([vectors(range(4), 0), vectors(range(4), 1)], INTRA, "own", 4, 0)[1]
    other = disentangler_joint.fit([vectors(range(4), 0), vectors(range(6, 10), 1)], INTRA, "own", 4, 0)[1]
    assert alike["gradient_cosine"] > 0.8
    assert alike["change_cosine"] > other["change_cosine"] + 0.1
    assert alike["gradient_cosine"] > other["gradient_cosine"] + 0.1


def test_own_heads_are_also_tried_on_another_pair(monkeypatch):
    fits, fit = [], disentangler_joint.fit
    monkeypatch.setattr(disentangler_joint, "fit", lambda *args: fits.append(args) or fit(*args))
    pairs = [("a", "x"), ("b", "x")]
    train = [[side.numpy() for side in vectors(noisy, 0).unbind(1)] for noisy in (range(6), range(6, 12))]
    scored = [
        ScoredPairs("made", "dev", "->".join(pair), ["s"] * 300, ["t"] * 300, cosines(*sides) + np.arange(300) % 7)
        for pair, sides in zip(pairs, train)
    ]
    corpus = SimpleNamespace(pairs=[SimpleNamespace(languages=pair) for pair in pairs], scored=scored)
    prepared = SimpleNamespace(corpus=corpus, train=train, scored=train, model="made")
    rows = disentangler_joint.measure(prepared, "intra", "own", 4, 0)
    found = {(row.settings["row"], row.direction): row.value for row in rows if row.metric == "Pearson"}
    assert len(fits) == 1
    assert {label for label, _ in found} == {"intra, own", "intra, another pair's"}
    for direction in ("a->x", "b->x"):
        assert found["intra, own", direction] != found["intra, another pair's", direction]
