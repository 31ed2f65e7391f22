"""The loss equations against hand calculation, slow loops and sentence-transformers."""

import math

import pytest
import torch
import torch.nn.functional as F
from sentence_transformers.sentence_transformer.losses import (
    ContrastiveLoss,
    MultipleNegativesRankingLoss,
    SiameseDistanceMetric,
)

from hfxling.models.losses import (
    contrastive_loss,
    multi_view_contrastive_loss,
    pair_distance,
    shared_texts,
    translation_ranking_loss,
    vocabulary_cross_entropy,
)


def vectors(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("chunk", [1, 3, 100])
def test_vocabulary_cross_entropy(chunk):
    torch.manual_seed(0)
    states, weight, bias = (torch.randn(*s, requires_grad=True) for s in ((7, 5), (11, 5), (11,)))
    target = torch.randint(11, (7,))
    expected = F.cross_entropy(states @ weight.T + bias, target, reduction="sum")
    slopes = torch.autograd.grad(3 * expected, (states, weight, bias))
    loss = vocabulary_cross_entropy(states, weight, bias, target, chunk=chunk)
    assert torch.allclose(loss, expected, atol=1e-5)
    for own, other in zip(torch.autograd.grad(3 * loss, (states, weight, bias)), slopes):
        assert torch.allclose(own, other, atol=1e-5)
    with torch.no_grad():
        assert torch.allclose(vocabulary_cross_entropy(states, weight, bias, target, chunk=chunk), expected, atol=1e-5)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.allclose(vocabulary_cross_entropy(states, weight, bias, target), expected, rtol=0.02)
    frozen = vocabulary_cross_entropy(states, weight.detach(), bias, target, chunk=chunk)
    for own, other in zip(torch.autograd.grad(3 * frozen, (states, bias)), (slopes[0], slopes[2])):
        assert torch.allclose(own, other, atol=1e-5)


def test_contrastive_loss_by_hand():
    distance, label = torch.tensor([0.5, 0.5, 3.0]), torch.tensor([0, 1, 1])
    loss = contrastive_loss(distance, label, margin=1.0)
    assert torch.allclose(loss, torch.tensor([0.125, 0.125, 0.0]))


@pytest.mark.parametrize(
    ("metric", "theirs"),
    [
        ("euclidean", SiameseDistanceMetric.EUCLIDEAN),
        ("manhattan", SiameseDistanceMetric.MANHATTAN),
        ("cosine", SiameseDistanceMetric.COSINE_DISTANCE),
    ],
)
def test_contrastive_loss_agrees_with_sentence_transformers(metric, theirs):
    source, target = vectors(9, 5) * 0.3, vectors(9, 5, seed=1) * 0.3
    label = torch.tensor([0, 1, 0, 1, 1, 0, 0, 1, 0])
    ours = contrastive_loss(pair_distance(source, target, metric), label, margin=0.9).mean()
    reference = ContrastiveLoss(model=None, distance_metric=theirs, margin=0.9)
    if not hasattr(reference, "compute_loss_from_embeddings"):
        pytest.skip("this sentence-transformers computes the loss from text alone")
    assert ours.item() == pytest.approx(
        reference.compute_loss_from_embeddings([source, target], 1 - label).item(), abs=1e-6
    )


def test_distance_of_equal_vectors_has_a_gradient():
    x = vectors(3, 4).requires_grad_()
    pair_distance(x, x.detach()).sum().backward()
    assert torch.isfinite(x.grad).all()


def test_unknown_distance_is_named():
    with pytest.raises(ValueError, match="distance='l7' is not one of euclidean"):
        pair_distance(vectors(2, 3), vectors(2, 3), "l7")


def test_ranking_loss_equals_a_slow_loop():
    source, target = vectors(4, 6), vectors(7, 6, seed=1)
    total = 0.0
    for i in range(4):
        scores = [
            torch.cosine_similarity(source[i], target[j], dim=0).item() - (0.1 if i == j else 0) for j in range(7)
        ]
        weights = [math.exp(score / 0.2) for score in scores]
        total -= math.log(weights[i] / sum(weights)) / 4
    assert translation_ranking_loss(source, target, temperature=0.2, margin=0.1).item() == pytest.approx(
        total, abs=1e-5
    )


def test_ranking_loss_agrees_with_sentence_transformers():
    source, target = vectors(6, 5), vectors(6, 5, seed=1)
    reference = MultipleNegativesRankingLoss(model=None, scale=20.0)
    theirs = reference.compute_loss_from_embeddings([source, target], None).item()
    assert translation_ranking_loss(source, target, temperature=0.05).item() == pytest.approx(theirs, abs=1e-5)


def test_ranking_loss_without_information_is_log_n():
    same = torch.ones(5, 3)
    assert translation_ranking_loss(same, same).item() == pytest.approx(math.log(5), abs=1e-6)


def test_pairs_that_share_a_text_are_no_negatives_of_each_other():
    texts = torch.tensor([[1, 10], [2, 20], [1, 30], [4, 20], [5, 10], [6, 60]])  # source and target of each pair
    source, target = vectors(4, 5), vectors(6, 5, seed=1).requires_grad_()
    total, left_out = 0.0, []
    for i in range(4):
        scores = {}
        for j in range(6):
            if i != j and (texts[i, 0] == texts[j, 0] or texts[i, 1] == texts[j, 1]):
                left_out.append((i, j))
                continue
            scores[j] = (torch.cosine_similarity(source[i], target[j], dim=0) - 0.1 * (i == j)) / 0.2
        total = total - (scores[i] - torch.stack(list(scores.values())).logsumexp(0)) / 4
    assert left_out == [(0, 2), (0, 4), (1, 3), (2, 0), (3, 1)]
    same = shared_texts(texts[:4], texts)
    assert same.nonzero().tolist() == sorted([*map(list, left_out), *([i, i] for i in range(4))])
    loss = translation_ranking_loss(source, target, temperature=0.2, margin=0.1, same=same)
    assert torch.allclose(loss, total, atol=1e-6)
    slopes = [torch.autograd.grad(x, target)[0] for x in (loss, total)]
    assert torch.allclose(*slopes, atol=1e-6)


def test_a_batch_of_one_sentence_has_nothing_to_tell_apart():
    loss = translation_ranking_loss(vectors(3, 4), vectors(3, 4, seed=1), same=shared_texts(torch.ones(3, 1)))
    assert loss.item() == 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_cosines_are_float32_under_autocast(dtype):
    x = vectors(64, 32).to(dtype)
    y = (x + 0.1 * vectors(64, 32, seed=1)).to(dtype)
    for loss in (translation_ranking_loss, lambda a, b: multi_view_contrastive_loss(a, b, intra=a)):
        exact = loss(x.float(), y.float())
        with torch.autocast("cpu", torch.bfloat16):
            assert torch.equal(loss(x, y), exact)
