"""The pseudo-dictionary against counts made by a slow loop."""

import random
from collections import Counter

from hfxling.methods.aligner.evaluate import dice_dictionary


def slow(source, target, min_dice, min_count):
    n_source, n_target, n_both = Counter(), Counter(), Counter()
    for left, right in zip(source, target):
        n_source.update(set(left))
        n_target.update(set(right))
        n_both.update((s, t) for s in set(left) for t in set(right))
    kept = {
        (s, t): n
        for (s, t), n in n_both.items()
        if s != t and n >= min_count and 2 * n / (n_source[s] + n_target[t]) >= min_dice
    }
    return sorted(kept, key=lambda pair: (-kept[pair], -2 * kept[pair] / (n_source[pair[0]] + n_target[pair[1]]), pair))


def test_same_pairs_as_a_slow_loop_in_the_same_order():
    draw = random.Random(1)
    source = [[f"s{draw.randrange(12)}" for _ in range(draw.randrange(6))] for _ in range(80)]
    target = [[word.replace("s", draw.choice("stt")) for word in row if draw.random() < 0.9] for row in source]
    for min_dice, min_count in ((0.8, 3), (0.1, 1), (0.95, 10)):
        found = dice_dictionary(source, target, min_dice=min_dice, min_count=min_count)
        assert found == slow(source, target, min_dice, min_count)
    assert len(dice_dictionary(source, target, min_dice=0, min_count=1, max_pairs=7)) == 7


def test_a_word_repeated_in_a_sentence_counts_once():
    assert dice_dictionary([["a", "a"], ["a"]], [["x"], ["x"]], min_count=3) == []
    assert dice_dictionary([["a", "a"], ["a"]], [["x"], ["x"]], min_count=2) == [("a", "x")]


def test_words_of_one_spelling_are_no_pair():
    assert dice_dictionary([["2020", "a"]] * 3, [["2020", "x"]] * 3) == [("2020", "x"), ("a", "2020"), ("a", "x")]


def test_nothing_in_nothing_out():
    assert dice_dictionary([], []) == []
    assert dice_dictionary([[]], [["x"]], min_count=1) == []
