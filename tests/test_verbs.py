"""What all verbs have in common."""

from pathlib import Path

import numpy as np
import pytest

import hfxling


def test_a_parameter_that_there_is_not_is_refused_by_the_verbs_name():
    with pytest.raises(TypeError, match=r"^verify\(\) got an unexpected keyword argument 'nonsense'$"):
        hfxling.verify("folder", nonsense=1)


def test_a_result_is_shown_as_its_table():
    source, target = ["一只猫", "一只狗", "一只猫"], ["một con mèo", "một con chó", "một con mèo"]
    cleaned = hfxling.clean(source, target, languages=("zh", "vi"), progress=False)
    assert repr(cleaned) == cleaned.table()
    links = hfxling.align_words(source, target, languages=("zh", "vi"), progress=False)
    assert repr(links) == links.table()


SIDES = (["一只猫", "一只狗"], ["một con mèo", "một con chó"])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: hfxling.mine(*SIDES, lexical="x", k=2.5), "k=2.5: give a whole number"),
        (lambda: hfxling.mine(*SIDES, lexical="x", threshold="5"), "threshold='5': give a number"),
        (lambda: hfxling.mine(*SIDES, lexical="x", filters=None), "filters=None: give a list"),
        (lambda: hfxling.clean(*SIDES, min_words=True), "min_words=True: give a whole number"),
        (lambda: hfxling.clean(*SIDES, lexical="x", device="gpu"), "device='gpu' is not available"),
        (lambda: hfxling.bootstrap(*SIDES, seed="a", languages=("zh", "vi")), "seed='a': give a whole number"),
        (lambda: hfxling.evaluate("x", task=["retrieval"], data={"retrieval": "sample"}), "give a list"),
        (lambda: hfxling.evaluate("x", task=["retrieval"], only_languages=["zh"]), "is for tatoeba and mteb"),
        (lambda: hfxling.nearest(["a", None], lexical="x", candidates=["b"]), "None"),
    ],
)
def test_values_of_another_kind_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_vectors_in_memory_are_no_files():
    vectors = np.ones((2, 3), np.float32)
    with pytest.raises(ValueError, match=r"give files of vectors \(.npy"):
        hfxling.mine(*SIDES, languages=("zh", "vi"), source_vectors=vectors, target_vectors=vectors)


@pytest.mark.parametrize("name", ["links.parquet", "folder", "."])
def test_results_are_saved_as_text_in_a_file(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    links = hfxling.align_words(*SIDES, languages=("zh", "vi"), progress=False)
    with pytest.raises(ValueError, match=r"plain text|is a folder"):
        links.save(name)


def test_the_home_folder_has_a_short_name(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    hfxling.align_words(*SIDES, languages=("zh", "vi"), progress=False).save("~/links.txt")
    assert (tmp_path / "links.txt").is_file()


def test_sides_that_were_exchanged_are_told(caplog):
    hfxling.align_words(*SIDES[::-1], languages=("zh", "vi"), progress=False)
    assert "check the languages" in caplog.text
