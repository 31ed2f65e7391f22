"""Thresholds for a wanted precision on heaps whose truth is known."""

import numpy as np
import pytest

from hfxling.sentences import precision as module
from hfxling.sentences.engine import Mined
from hfxling.sentences.precision import (
    Found,
    check_wanted,
    choose_threshold,
    found_pairs,
    halves,
    right_probabilities,
)


@pytest.fixture(autouse=True)
def few_samples(monkeypatch):
    """An interval of few samples is as good for a test, and quicker."""
    monkeypatch.setattr(module, "_SAMPLES", 40)


def drawn(count, unpaired, seed, known=400):
    """Scores of a heap: right pairs near 2, strays near 0; a tenth of the paired get a wrong one near 0."""
    rng = np.random.default_rng(seed)

    def sources(paired):
        right = paired & (rng.random(len(paired)) < 0.9)
        return np.where(right, rng.normal(2, 1, len(paired)), rng.normal(0, 1, len(paired))), right

    others, right = sources(rng.random(count) >= unpaired)
    kept, chooses = halves(known, seed)
    scores, is_right = sources(kept)
    return Found(scores, is_right, kept, others), right, chooses


@pytest.mark.parametrize("unpaired", [0.2, 0.8])
def test_the_precision_that_is_wanted_is_what_there_is(unpaired):
    realised = []
    for seed in range(3):
        found, right, chooses = drawn(20_000, unpaired, seed, known=4000)  # few known pairs are off by some points
        chosen = choose_threshold(found, precision=0.9, chooses=chooses)
        kept = found.others >= chosen.threshold
        realised.append(right[kept].mean())
        assert chosen.low <= chosen.precision <= chosen.high
        assert chosen.known == 2000
        assert abs(chosen.unpaired - unpaired) < 0.05
    assert np.mean(realised) == pytest.approx(0.9, abs=0.02)


def test_an_assumed_share_is_used_as_it_is():
    found, _, chooses = drawn(20_000, 0.5, 0)
    strict, loose = (choose_threshold(found, precision=0.9, unpaired=u, chooses=chooses) for u in (0.9, 0.1))
    assert strict.threshold > loose.threshold
    assert (strict.unpaired, loose.unpaired) == (0.9, 0.1)
    assert strict.recall < loose.recall


def test_an_assumed_share_counts_what_is_found_and_what_of_it_is_right():
    """Scores say nothing here, so that every pair has the probability that shares alone give."""
    kept = np.repeat([True, False], 40)
    found, right = np.arange(80) < 60, np.arange(80) < 20  # of 40 kept: 20 right and 20 wrong; of 40 others: 20 wrong
    known = Found(np.where(found, 1.0, -np.inf), right, kept, np.ones(50))
    # a half has a translation there: 1/2 of these are found right, all are found; of the others 1/2 are found
    np.testing.assert_allclose(right_probabilities(known, np.ones(50), 0.5), 0.25 / (0.5 + 0.25), rtol=1e-6)


def test_those_that_did_not_choose_say_what_it_is_worth():
    found, _, chooses = drawn(2_000, 0.5, 0)
    spoilt = found._replace(right=found.right & (chooses | (np.arange(400) % 3 > 0)))  # of the others a third is wrong
    options = {"precision": 0.9, "unpaired": 0.5, "chooses": chooses}
    one, other = (choose_threshold(each, **options) for each in (found, spoilt))
    assert other.threshold == one.threshold
    assert other.recall < one.recall - 0.1
    assert other.precision < one.precision - 0.1


def test_too_little_to_say():
    found = Found(np.ones(20), np.ones(20, bool), np.arange(20) < 10, np.ones(9))
    with pytest.raises(ValueError, match="20 right and 0 wrong pairs were found"):
        choose_threshold(found, precision=0.9, chooses=np.ones(20, bool))
    found, _, chooses = drawn(20_000, 0.999, 0)
    worse = found._replace(others=found.others - 5)
    with pytest.raises(ValueError, match="ask for less"):
        choose_threshold(worse, precision=0.999, chooses=chooses, unpaired=0.999)


def test_known_pairs_are_taken_out_again():
    kept = np.array([True, False, True, False])
    # heap of 3 and 3; known sources 3 to 6, none found for 6; targets 3 (of the first known pair) and 4 (of the third)
    pairs = Mined(np.array([0, 3, 4, 5, 1]), np.array([1, 3, 2, 0, 4]), np.array([9.0, 8, 7, 6, 5]))
    new, found = found_pairs(pairs, kept, (3, 3))
    assert [x.tolist() for x in new] == [[0], [1], [9.0]]
    assert found.scores.tolist() == [8, 7, 6, -np.inf]
    assert found.right.tolist() == [True, False, False, False]
    assert found.others.tolist() == [9, 5, -np.inf]


def test_halves_are_quarters_of_the_known_pairs():
    kept, chooses = halves(200)
    assert [(kept & chooses).sum(), (kept & ~chooses).sum(), (~kept & chooses).sum()] == [50, 50, 50]
    assert (halves(200)[0] == kept).all()


@pytest.mark.parametrize(
    ("precision", "unpaired", "message"),
    [
        (95, 0.5, "precision=95 must lie between 0 and 1"),
        (0.9, 1.0, "unpaired=1.0 must lie between 0 and 1"),
    ],
)
def test_shares_that_are_none(precision, unpaired, message):
    with pytest.raises(ValueError, match=message):
        check_wanted(precision, unpaired)
