"""Checks of plain values."""

import math

import numpy as np
import pytest

from hfxling.values import check_counts, check_least, check_seed, named_entries


def test_numbers_from_the_least_on():
    check_least(1, top=1, k=np.int64(3), limit=None)
    check_least(0, tolerance=0.0)


@pytest.mark.parametrize("value", [0, -2.5, math.nan, math.inf, "3", [4]])
def test_what_is_below_the_least_or_no_number(value):
    with pytest.raises(ValueError, match=r"top=.*: give 1 or more"):
        check_least(1, top=value)


@pytest.mark.parametrize("value", [2.5, "3", math.nan])
def test_counts_are_whole(value):
    check_counts(1, top=2, k=np.int64(3), limit=None)
    with pytest.raises(ValueError, match=r"top=.*: give a whole number, 1 or more"):
        check_counts(1, top=value)


@pytest.mark.parametrize("seed", [-1, 2**32, 1.5, "7", None])
def test_seeds_that_are_none(seed):
    check_seed(2**32 - 1)
    with pytest.raises(ValueError, match=r"seed=.*: give a whole number from 0"):
        check_seed(seed)


def test_entries():
    assert named_entries("names", ["lo=a=b", "zh=c"], "lo=FILE") == {"lo": "a=b", "zh": "c"}
    assert named_entries("names", "lo=a", "lo=FILE") == {"lo": "a"}  # one, not in a list


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        (["lo"], r"names: 'lo' is not of the form lo=FILE"),
        (["=a"], r"names: '=a' is not of the form"),
        (["lo="], r"names: 'lo=' is not of the form"),
        (["lo=a", "lo=b"], r"names: lo is given twice"),
    ],
)
def test_entries_that_are_refused(entries, message):
    with pytest.raises(ValueError, match=message):
        named_entries("names", entries, "lo=FILE")
