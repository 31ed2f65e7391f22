"""The pictures that are drawn by hand: what they show is what they were given."""

import pytest

from docs.pictures import THEMES, histogram, precise_threshold

SCORES = [9.0, 8.0, 7.0, 6.0, 5.55, 5.0, 4.0, 1.0]
IS_RIGHT = [True, True, True, True, True, False, True, False]


def test_the_threshold_is_the_lowest_that_is_precise_enough():
    assert precise_threshold(SCORES, IS_RIGHT, precision=1.0) == 5.1
    assert precise_threshold(SCORES, IS_RIGHT, precision=0.85) == 1.1  # 6 of 7
    assert precise_threshold(SCORES, IS_RIGHT, precision=0.5) == 1.0
    with pytest.raises(ValueError, match="no threshold"):
        precise_threshold([2.0, 1.0], [False, False])


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
def test_a_histogram_has_a_square_a_pair(theme):
    drawn = histogram(SCORES, IS_RIGHT, theme)
    squares = [line for line in drawn.splitlines() if "<rect" in line and 'width="24.0"' in line]
    assert len(squares) == len(SCORES)
    assert sum(theme.series[1] in line for line in squares) == sum(IS_RIGHT)
    assert len({line.partition(" width")[0] for line in squares}) == len(SCORES)  # no two lie on each other
    assert "6 translations" in drawn
    assert "--threshold 5.1: 95 % are right" in drawn
