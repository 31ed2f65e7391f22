"""The pages that are run in an empty environment: which blocks, and which commands of them."""

from pathlib import Path

import pytest
import readme

START = readme.ROOT / "docs" / "index.md"
PARTS = ("I have pairs", "I have two texts", "I found a model")


def test_a_part_stands_behind_what_all_parts_need():
    begin = readme.blocks(START)[:4]
    assert [language for language, _ in begin] == ["bash", "bash", "bash", "python"]
    rest = []
    for part in PARTS:
        blocks = readme.blocks(START, part)
        assert blocks[:4] == begin
        rest += blocks[4:]
    assert begin + rest == readme.blocks(START)
    with pytest.raises(SystemExit, match="I have pairs, I have two texts, I found a model"):
        readme.blocks(START, "I have none")


def test_one_way_to_install_is_taken_and_lines_that_go_on_are_one():
    wheel, scripts = Path("hfxling-1.whl"), Path("bin")
    words = [readme.commands(*block, wheel, scripts, True) for block in readme.blocks(START, "I have two texts")]
    assert words[0][0][-1] == "hfxling-1.whl[train]"
    assert words[1:3] == [[], []]
    assert words[3][0][:2] == ["bin/python", "-c"]
    (bootstrap,) = words[4]
    assert bootstrap[:2] == ["bash", "-c"]
    assert bootstrap[2].split()[-4:] == ["--output", "outputs/bootstrap", "--rounds", "1"]
    assert [each[2].split()[1] for each in words[5]] == ["fit", "mine"]
