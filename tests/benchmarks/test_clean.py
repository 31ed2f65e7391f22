"""Shares of shuffled pairs that are found, from scores given by hand."""

import clean as benchmark
import numpy as np
import pytest

from hfxling.sentences.clean import PairScores


def test_shares_and_ties():
    bad = np.array([True, False, False, True, False])
    scores = np.array([0.1, 0.2, 0.9, 0.9, np.nan])  # what has no score is last
    moved = np.array([True, False, True, False, False])
    found = benchmark.measure(PairScores(scores, None, moved), bad, seed=0)
    assert found["auc"] == pytest.approx((1 + 0 + 1 + 0 + 0 + 0) / 6)  # a tie is a miss
    assert found["found_at_top"] == 0.5  # the last and the first pair are dropped
    assert (found["mutual_recall"], found["mutual_false"]) == (0.5, pytest.approx(1 / 3))
    assert found["samples"].shape == (benchmark.SAMPLES,)
    assert abs(found["samples"].mean() - found["auc"]) < 0.05


def test_links_alone_have_no_mutual_figures():
    found = benchmark.measure(PairScores(np.array([1.0, 0.0]), None, None), np.array([False, True]), seed=0)
    assert found["auc"] == found["found_at_top"] == 1
    assert "mutual_recall" not in found
