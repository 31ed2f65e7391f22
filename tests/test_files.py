"""A final name never holds half a result."""

import pytest

from hfxling.files import atomic_path


def test_a_file_appears_only_when_the_block_ends(tmp_path):
    final = tmp_path / "deep" / "a.txt"
    with atomic_path(final) as scratch:
        scratch.write_text("new")
        assert not final.exists()
    assert final.read_text() == "new"
    assert [path.name for path in final.parent.iterdir()] == ["a.txt"]


@pytest.mark.parametrize("folder", [False, True])
def test_an_error_leaves_the_old_one_untouched(folder, tmp_path):
    final = tmp_path / "out"
    if folder:
        final.mkdir()
        (final / "old").write_text("old")
    else:
        final.write_text("old")

    def fail():
        with atomic_path(final) as scratch:
            if folder:
                scratch.mkdir()
                (scratch / "half").write_text("half")
            else:
                scratch.write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert ((final / "old") if folder else final).read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_folder_is_replaced_whole(tmp_path):
    final = tmp_path / "out"
    final.mkdir()
    (final / "old").write_text("old")
    with atomic_path(final) as scratch:
        scratch.mkdir()
        (scratch / "new").write_text("new")
    assert [path.name for path in final.iterdir()] == ["new"]
