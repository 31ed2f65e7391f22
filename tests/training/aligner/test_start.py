"""The start from links: translations begin as neighbours, whatever else is random."""

import numpy as np
import pytest
import torch

from hfxling.alignment.pairs import EncodedPairs
from hfxling.alignment.prior import LinkPrior
from hfxling.models.configuration_aligner import AlignerConfig
from hfxling.models.modeling_aligner import AlignerModel
from hfxling.training.aligner.start import init_from_links

WORDS = 24


def text(languages, pairs=60, seed=0) -> EncodedPairs:
    """Target word i + 1 translates source word i, shuffled; the last word of each vocabulary never occurs."""
    rng = np.random.default_rng(seed)
    source = [rng.integers(4, WORDS - 2, rng.integers(2, 6)).tolist() for _ in range(pairs)]
    return EncodedPairs(languages, source, [(rng.permutation(row) + 1).tolist() for row in source])


def model(*languages, size=16) -> AlignerModel:
    torch.manual_seed(0)
    pieces = {lang: torch.ones(WORDS, 1, dtype=torch.long) for lang in languages}
    config = AlignerConfig(vocab_sizes=dict.fromkeys(languages, WORDS), size=size, piece_vocab_size=2)
    return AlignerModel(config, pieces)


def start(aligner, *texts):
    init_from_links(aligner, texts, [LinkPrior.learn(pairs, [np.arange(WORDS) + 1] * 2) for pairs in texts])


def found(aligner, source, target, shift) -> float:
    tables = [torch.nn.functional.normalize(aligner.static_table(lang), dim=1) for lang in (source, target)]
    nearest = (tables[0][4 : WORDS - 2] @ tables[1].T).argmax(1)
    return (nearest == torch.arange(4, WORDS - 2) + shift).float().mean().item()


def test_translations_begin_as_neighbours_also_across_a_third_language():
    aligner = model("lo", "zh", "th")
    assert found(aligner, "lo", "zh", 1) < 0.3
    start(aligner, text(("lo", "zh")), text(("lo", "th"), seed=1))
    assert found(aligner, "lo", "zh", 1) > 0.9
    assert found(aligner, "lo", "th", 1) > 0.9


def test_unseen_words_stay_random_and_lengths_are_those_of_random_vectors():
    aligner = model("lo", "zh", size=64)
    before = aligner.embedding.words["of_lo"].weight.detach().clone()
    start(aligner, text(("lo", "zh")))
    after = aligner.embedding.words["of_lo"].weight.detach()
    for word in (0, 1, 2, 3, WORDS - 1):
        assert torch.equal(after[word], before[word])
    norms = after[4 : WORDS - 2].norm(dim=1)
    assert norms.allclose(norms[0].expand_as(norms), rtol=1e-5)
    assert norms[0].item() == pytest.approx(before[4:].norm(dim=1).mean().item(), rel=0.1)
    assert not aligner.embedding.pieces.weight.any()


def test_the_same_text_gives_the_same_start():
    first, second = model("lo", "zh"), model("lo", "zh")
    for aligner in (first, second):
        start(aligner, text(("lo", "zh")))
    torch.testing.assert_close(first.static_table("zh"), second.static_table("zh"), rtol=0, atol=1e-5)
