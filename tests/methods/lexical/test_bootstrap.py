"""A hundred pairs and two heaps: what the rounds find, and what is said of it."""

import random

import numpy as np
import pytest

import hfxling
from hfxling.methods.lexical import LinkSettings
from hfxling.methods.lexical import bootstrap as module
from hfxling.methods.lexical.bootstrap import bootstrap

SEED, PAIRED = 100, 300


@pytest.fixture(scope="module")
def text():
    """Seed pairs, and two shuffled heaps with the places of each one's translation."""
    rows = hfxling.load_parallel("sample", "zh", "vi")
    pairs = dict(zip(rows["source"], rows["target"]))
    pairs = list({vi: (zh, vi) for zh, vi in pairs.items()}.values())
    random.Random(1).shuffle(pairs)
    seed, paired = pairs[:SEED], pairs[SEED : SEED + PAIRED]
    heaps = [[pair[side] for pair in paired] for side in (0, 1)]
    random.Random(2).shuffle(heaps[1])
    return tuple(map(list, zip(*seed))), heaps, {*paired}


@pytest.fixture(scope="module")
def found(text):
    seed, heaps, _ = text
    told = []
    options = {"rounds": 1, "precision": 0.9, "unpaired": 0.1, "report": lambda each, pairs: told.append((each, pairs))}
    return bootstrap(LinkSettings(rank=32), ("zh", "vi"), seed, *heaps, **options), told


def share_of_right(text, pairs) -> float:
    _, heaps, gold = text
    return float(np.mean([(heaps[0][i], heaps[1][j]) in gold for i, j in zip(pairs.source, pairs.target)]))


def test_rounds_find_more(text, found):
    bitext, told = found
    assert [each.number for each, _ in told] == [0, 1]
    (first, _), (second, pairs) = told
    assert first.learnt == SEED < second.learnt
    assert [*bitext.rounds] == [each for each, _ in told]
    assert second.found >= first.found - 0.1
    assert share_of_right(text, pairs) > 0.5
    assert (np.diff(pairs.score) <= 0).all()


def test_the_bitext_is_cleaner_than_what_was_mined(text, found):
    bitext, _ = found
    last = max(bitext.rounds, key=lambda each: each.strict)
    assert len(bitext.pairs.score) == last.strict > 20
    assert share_of_right(text, bitext.pairs) > 0.8
    assert last.strict <= last.mined
    assert last.estimate.precision > 0.7


def test_the_model_is_whole(text, found):
    _, heaps, _ = text
    model = found[0].model
    scores = model.encode(heaps[0][:20], "zh") @ model.encode(heaps[1], "vi", role="document").T
    assert scores.shape == (20, PAIRED)
    assert {*model.static} == {"zh", "vi"}


def test_no_source_is_judged_by_a_model_that_learnt_from_it(text, monkeypatch):
    seed, heaps, _ = text
    learnt, judged = [], []
    learn, encode = module._Heaps.learn, module._Heaps._encode

    def watched(self, sides, static=False):
        learnt.append({*sides[0]})
        return learn(self, sides, static)

    def asked(self, model, texts, side):
        if side == 0:
            judged.append({*texts})
        return encode(self, model, texts, side)

    monkeypatch.setattr(module._Heaps, "learn", watched)
    monkeypatch.setattr(module._Heaps, "_encode", asked)
    bootstrap(LinkSettings(rank=8), ("zh", "vi"), seed, *heaps, rounds=1, precision=0.9, unpaired=0.1)
    assert len(judged) == 6
    for texts, others in zip(learnt, judged):
        assert not texts & others
    assert any(len(texts) > SEED for texts in learnt[3:6])
    assert set.union(*judged[:3]) == {*heaps[0], *seed[0]}
