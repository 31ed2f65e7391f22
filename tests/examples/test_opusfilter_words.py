"""The filter for OpusFilter, with a stand-in for the package's base class, which hands pairs on as its own does."""

import sys
from types import ModuleType

import pytest
from builders import sentence_pairs

import hfxling

PAIRS = sentence_pairs(60)


class FilterABC:
    """What OpusFilter 3.3 gives its filters."""

    def __init__(self, name=None, workdir="", **kwargs):
        assert not kwargs
        self.name, self.workdir = name, workdir

    def decisions(self, pairs):
        for score in self.score(pairs):
            yield self.accept(score)


@pytest.fixture
def words_filter(monkeypatch, tmp_path):
    """The filter with links of the pairs, 25 pairs at a time."""
    package = ModuleType("opusfilter")
    package.CLEAN_HIGH, package.FilterABC = "clean_high", FilterABC
    monkeypatch.setitem(sys.modules, "opusfilter", package)
    monkeypatch.delitem(sys.modules, "examples.opusfilter_words", raising=False)
    from examples import opusfilter_words

    monkeypatch.setattr(opusfilter_words, "CHUNK", 25)
    links = hfxling.fit_lexical(*zip(*PAIRS), ("zh", "vi"))
    hfxling.save_lexical(links, tmp_path / "links")
    return opusfilter_words.WordLinksFilter(str(tmp_path / "links"), ["zh", "vi"], name="links")


def test_pairs_whose_words_fit_stay(words_filter):
    wrong = [(PAIRS[row][0], PAIRS[(row + 20) % 60][1]) for row in range(20)]
    pairs = [*PAIRS[20:], *wrong, ("", "x")]
    scores = list(words_filter.score(iter(pairs)))
    assert min(scores[:40]) > max(scores[40:])
    assert scores[-1] == -100
    words_filter.threshold = (min(scores[:40]) + max(scores[40:])) / 2
    some = pairs[30:50]
    assert list(words_filter.filter(iter(some))) == some[:10]
    assert list(words_filter.filterfalse(iter(some))) == some[10:]
    assert list(words_filter.decisions(some)) == [True] * 10 + [False] * 10
    assert words_filter.name == "links"


def test_no_pair_is_no_score(words_filter):
    assert list(words_filter.score([])) == []
