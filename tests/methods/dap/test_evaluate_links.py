"""Word links by token vectors: what they are counted against, and who is averaged with whom."""

import numpy as np
import pytest

from hfxling.data.pharaoh import AlignedPair
from hfxling.evaluation.compare import paired
from hfxling.evaluation.items import Items
from hfxling.methods.dap.evaluate import link_results, word_links
from hfxling.words.links import itermax_links


def aligned(source: int, target: int, sure, possible=()) -> AlignedPair:
    words = [tuple(f"{side}{i}" for i in range(count)) for side, count in (("s", source), ("t", target))]
    return AlignedPair(*words, frozenset(sure), frozenset(sure) | frozenset(possible))


def test_links_are_those_of_itermax_pair_by_pair_and_a_word_without_a_vector_has_none():
    rng = np.random.default_rng(0)
    gold = [aligned(*rng.integers(1, 7, 2), [(0, 0)]) for _ in range(70)]
    gold[3], gold[4] = aligned(1, 3, []), aligned(4, 3, [])
    order = [[rng.normal(size=(len(side), 5)) for side in (pair.source, pair.target)] for pair in gold]
    for i in (3, 4):
        order[i][0][0] = np.nan
    sides = [side[i] for i in (0, 1) for side in order]
    found = word_links(gold, lambda sentences: sides)
    for pair, (source, target), links in zip(gold, order, found):
        units = [side / np.linalg.norm(side, axis=1, keepdims=True) for side in (source, target)]
        cosines = np.nan_to_num(units[0] @ units[1].T, nan=-1.0)
        expected = itermax_links(cosines[None], np.array([[len(pair.source), len(pair.target)]]))[0]
        assert links == {(int(i), int(j)) for i, j in np.argwhere(expected)}
    assert not found[3]
    assert {i for i, _ in found[4]} == {1, 2, 3}


def test_error_rates_have_items_that_test_like_them_and_groups_have_means():
    gold = {("zh", "en"): [aligned(3, 3, [(0, 0), (1, 1)], [(2, 2)]), aligned(2, 2, [(0, 1)])]}
    gold |= {("ro", "en"): [aligned(2, 2, [(0, 0)])]}
    links = {("zh", "en"): [{(0, 0), (2, 2), (2, 1)}, {(0, 1)}], ("ro", "en"): [{(1, 1)}]}
    groups = {"trained": [("zh", "en")], "all": [("zh", "en"), ("ro", "en")]}
    rows = link_results(links, gold, groups, settings={"stage": "after"}, model="m")
    zh, ro, trained, every = rows
    assert zh.value == pytest.approx(100 * (1 - (2 + 3) / (4 + 3)))  # sure hits 2, possible hits 3, links 4, sure 3
    assert (ro.value, zh.direction, ro.n) == (100, "zh->en", 1)
    assert (trained.metric, trained.value, trained.n) == ("AER avg-trained", zh.value, 2)
    assert every.value == (zh.value + ro.value) / 2
    nothing = Items("F1", (zh.items.groups[0] * [0, 1, 1],))
    assert paired(zh.items, nothing).difference == pytest.approx(100 - zh.value)
