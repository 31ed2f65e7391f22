"""Two heaps and an encoder, no pair known: what is found, how good it is said to be, and encoders that know nothing."""

from dataclasses import replace

import numpy as np
import pytest

import hfxling
from hfxling.encoders.base import BaseEncoder
from hfxling.sentences.engine import Mined
from hfxling.sentences.neighbours import Neighbours
from hfxling.sentences.unseeded import LEAST, Evidence, _of_precision, _without

PAIRED, ALONE = 300, 100
LANGUAGES = ("zh", "vi")


class Knows(BaseEncoder):
    """An encoder that knows what sentences mean, more or less, and where a language has a place of its own."""

    def __init__(self, pairs, noise: float):
        super().__init__("knows", "in memory, 1")
        rng = np.random.default_rng(0)
        self.vectors = {}
        for zh, vi in pairs:
            meaning = rng.normal(size=64)
            for place, text in enumerate((zh, vi)):
                vector = meaning + noise * rng.normal(size=64)
                vector[place] += 20
                self.vectors[text] = vector

    def _vectors(self, texts, route, role, progress):
        return np.array([self.vectors[text] for text in texts], np.float32)


@pytest.fixture(scope="module")
def text():
    """Pairs without repeated sides, and both heaps."""
    rows = hfxling.load_parallel("sample", "zh", "vi")
    pairs = []
    seen = set()
    for zh, vi in zip(rows["source"], rows["target"]):
        if not seen & {zh, vi}:
            pairs.append((zh, vi))
            seen |= {zh, vi}
    pairs = pairs[: PAIRED + 2 * ALONE]
    assert len(pairs) == PAIRED + 2 * ALONE
    rng = np.random.default_rng(0)
    numbers = [[*range(PAIRED + ALONE)], [*range(PAIRED), *range(PAIRED + ALONE, PAIRED + 2 * ALONE)]]
    heaps = []
    for side, rows in enumerate(numbers):
        heaps.append([pairs[i][side] for i in rng.permutation(rows)])
    return pairs, heaps


def test_a_bitext_and_links_without_a_known_pair(text, tmp_path):
    pairs, heaps = text
    output = tmp_path / "out"
    found = hfxling.bootstrap(*heaps, languages=LANGUAGES, model=Knows(pairs, 0.9), rounds=2, output=output)
    gold = set(pairs[:PAIRED])
    right = sum((row.source, row.target) in gold for row in found.pairs)
    assert right / len(found.pairs) > 0.9
    assert right / PAIRED > 0.6
    first, last = found.rounds[0], found.rounds[-1]
    assert first.learnt == 0 < last.learnt
    assert last.strict > 0.6 * PAIRED
    assert last.estimate.low <= last.estimate.precision <= last.estimate.high
    assert abs(last.estimate.unpaired - ALONE / (PAIRED + ALONE)) < 0.15
    assert (output / "model/config.json").is_file()
    assert len((output / "pairs.tsv").read_text(encoding="utf-8").splitlines()) == len(found.pairs) + 1
    again = hfxling.bootstrap(*heaps, languages=LANGUAGES, model=Knows(pairs, 0.9), rounds=2)
    assert again.pairs == found.pairs


def test_known_pairs_help_links(text):
    pairs, heaps = text
    known = [[pair[side] for pair in pairs[:30]] for side in (0, 1)]
    found = hfxling.bootstrap(*heaps, languages=LANGUAGES, model=Knows(pairs, 0.9), seed_pairs=known, rounds=0)
    assert not {row.source for row in found.pairs} & {*known[0]}, "they are no part of what is found"


def test_what_cannot_be_done(text, refusal, tmp_path):
    pairs, heaps = text
    asked = {"languages": LANGUAGES, "output": tmp_path / "out"}
    assert "give --seed_pairs, 100 or more, or a --model" in refusal(lambda: hfxling.bootstrap(*heaps, **asked))
    said = refusal(lambda: hfxling.bootstrap(*heaps, **asked, model=Knows(pairs, 1000)))
    assert "does it know both languages, and do the heaps translate each other? Give another model" in said
    said = refusal(lambda: hfxling.bootstrap(heaps[0][:5], heaps[1], **asked, model=Knows(pairs, 1)))
    assert "heaps of 5 and 400 sentences; give at least 8 of each" in said
    assert not (tmp_path / "out").exists()


def test_the_share_of_wrong_pairs_is_that_of_impostors():
    """1,000 sources, 600 with a translation; of sources without one a tenth gets a pair, with scores below 5."""
    scores = np.concatenate([np.linspace(10, 2, 600), np.linspace(5, 1, 40)])
    order = np.argsort(-scores)
    pairs = Mined(order, order, scores[order])
    leads = np.where(order < 600, 9.0, np.linspace(0, 2, 640))
    evidence = Evidence(leads, np.linspace(5, 1, 20), np.linspace(0, 2, 20), losers=200, sources=1000)
    strict, estimate = _of_precision(pairs, evidence, 0.95)
    assert estimate.unpaired == pytest.approx(0.4, abs=1e-6)
    is_wrong = strict.source >= 600
    assert 0.95 <= estimate.precision <= 0.96
    assert 1 - is_wrong.mean() == pytest.approx(estimate.precision, abs=0.01)
    assert estimate.low < 1 - is_wrong.mean() < estimate.high
    nothing, estimate = _of_precision(pairs, replace(evidence, wrong_scores=evidence.wrong_scores + 20), 0.95)
    assert estimate is None
    assert len(nothing.score) == 0 < LEAST


def test_targets_that_are_hardly_ahead_of_others_count_as_wrong():
    """All sources have a translation, and impostors get no pair with such scores; of 1,000 pairs 100 are wrong."""
    scores = np.linspace(10, 9, 1000)
    leads = np.full(1000, 9.0)
    leads[::10] = np.random.default_rng(0).uniform(0, 2, 100)
    evidence = Evidence(leads, np.linspace(1, 2, 20), np.linspace(0, 2, 20), losers=200, sources=1000)
    pairs = Mined(np.arange(1000), np.arange(1000), scores)
    assert _of_precision(pairs, evidence, 0.97)[1] is None or len(_of_precision(pairs, evidence, 0.97)[0].score) < 100
    strict, estimate = _of_precision(pairs, evidence, 0.85)
    assert len(strict.score) == 1000
    assert estimate.precision == pytest.approx(0.9, abs=0.03)
    assert estimate.low < 0.9 < estimate.high


def test_neighbours_without_some_targets():
    forward = Neighbours(np.array([[2, 0, 1], [0, 1, 2]]), np.array([[3.0, 2.0, 1.0], [6.0, 5.0, 4.0]]))
    backward = Neighbours(np.array([[1], [0], [0]]), np.array([[6.0], [1.0], [3.0]]))
    ahead, back = _without(forward, backward, np.array([False, True, True]))
    assert ahead.rows[:, :2].tolist() == [[1, 0], [0, 1]]
    assert ahead.scores[:, :2].tolist() == [[3, 1], [5, 4]]
    assert back.rows.tolist() == [[0], [0]]
