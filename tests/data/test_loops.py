"""Loops in long texts: what a slow search finds, in time that grows with the text."""

import random
import time

import pytest

from hfxling.data.faults import FaultFinder
from hfxling.data.loops import largest_loop


def slow(tokens):
    """Every period at every place."""
    best = (1, 0)
    for period in range(1, len(tokens)):
        run = 0
        for i in range(period, len(tokens) + 1):
            if i < len(tokens) and tokens[i] == tokens[i - period]:
                run += 1
                continue
            unit = tokens[i - period : i]
            if run >= period and not all(token.isdigit() for token in unit):
                best = max(best, (run // period + 1, sum(map(len, tokens[i - run : i]))), key=lambda loop: loop[1])
            run = 0
    return best


@pytest.mark.parametrize("letters", [["ab", "cd", "1"], ["ab", "c", "de", "1", "23"], [f"w{i}x" for i in range(12)]])
def test_the_slow_search_finds_no_larger_loop(letters):
    rng, found = random.Random(0), 0
    for _ in range(400):
        tokens = rng.choices(letters, k=rng.randint(0, 30))
        start = rng.randint(0, len(tokens))
        unit = tokens[start : start + rng.randint(3, 12)]
        tokens = tokens[:start] + unit * rng.randint(1, 3) + tokens[start : start + rng.randint(0, 20)]
        expected = slow(tokens)
        assert largest_loop(tokens)[1] == expected[1], tokens
        found += expected[1] > 0
    assert found > 200


def test_copies_of_a_long_unit_are_counted_across_the_whole_text():
    rng = random.Random(1)
    before, unit, after = ([str(rng.random()) + "x" for _ in range(count)] for count in (50, 40, 60))
    size = sum(map(len, unit))
    assert largest_loop(before + unit * 4 + after) == (4, 3 * size)
    assert largest_loop(before + unit + after + unit) == (1, 0)
    assert largest_loop(["7", "12", "3"] * 9) == (1, 0)


@pytest.mark.parametrize("kind", ["random", "one", "fibonacci", "verse"])
def test_time_grows_with_the_text(kind):
    def text(count):
        if kind == "random":
            return random.Random(0).choices("กขคงจ", k=count)
        if kind == "one":
            return ["ก"] * count
        if kind == "verse":
            return random.Random(0).choices("กขคงจฉชซ", k=count // 2) * 2
        first, second = "ก", "กข"
        while len(second) < count:
            first, second = second, second + first
        return list(second[:count])

    def seconds(count):
        tokens, begun = text(count), time.process_time()
        largest_loop(tokens)
        return time.process_time() - begun

    seconds(1_000)
    assert seconds(64_000) < 40 * max(seconds(8_000), 0.005)  # cubic: 512


def test_a_number_of_any_length_is_one():
    flags = FaultFinder("en", "vi").flags("a number " + "9" * 6000 + " it was", "một con số " + "9" * 6000 + " đấy")
    assert "truncated" not in flags
