"""The folder in which a long run keeps what is done."""

import pytest

from hfxling.parts import claim, remove_parts


@pytest.mark.parametrize("others", [[], ["mine.txt"]])
def test_parts_are_removed_and_nothing_else(tmp_path, others):
    folder = tmp_path / "parts"
    claim(folder, {"text": "a"})
    for name in ("links_0.jsonl", "links_20.jsonl", *others):
        (folder / name).write_text("x")
    (folder / ".links_40.jsonl.1.hfxling-scratch").mkdir()
    remove_parts(folder, ["links_*.jsonl"])
    assert folder.exists() == bool(others)
    assert [path.name for path in folder.glob("*")] == others
