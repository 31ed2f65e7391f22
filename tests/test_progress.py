"""Bars, ours and those of libraries, can be turned off."""

from builders import sentence_pairs

import hfxling
from hfxling.cli import main
from hfxling.progress import bar, hidden, shown


def test_nothing_is_shown_inside_hidden(capsys):
    with hidden():
        assert list(bar(range(3), unit="pairs")) == [0, 1, 2]
        assert not shown()
    assert capsys.readouterr().err == ""


def test_bars_of_libraries_are_hidden_and_come_back(capsys):
    from huggingface_hub.utils import are_progress_bars_disabled
    from transformers.utils import logging

    was_enabled, were_disabled = logging.is_progress_bar_enabled(), are_progress_bars_disabled()
    with hidden():
        assert not logging.is_progress_bar_enabled()
        assert are_progress_bars_disabled()
        list(logging.tqdm(range(3)))
    assert capsys.readouterr().err == ""
    assert logging.is_progress_bar_enabled() == was_enabled
    assert are_progress_bars_disabled() == were_disabled


def test_a_verb_without_progress_loads_in_silence(tiny_sentence_transformer, capfd):
    hfxling.nearest(
        ["a"], candidates=["b", "c"], model=str(tiny_sentence_transformer), languages=("zh", "vi"), progress=False
    )
    assert capfd.readouterr().err == ""


def test_encoding_for_a_choice_shows_no_bar(tiny_bert, tmp_path, capfd):
    pairs = sentence_pairs(20)
    sides = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    options = {"model": str(tiny_bert), "only": ["centred"], "output": None, "cache_dir": tmp_path}
    hfxling.select(*sides, languages=("zh", "vi"), **options, progress=False)
    assert "%|" not in capfd.readouterr().err


def test_a_verb_shows_no_bars_of_loading_and_leaves_them_as_they_were(tiny_sentence_transformer, capfd, monkeypatch):
    from transformers.utils import logging

    monkeypatch.setattr(logging, "_tqdm_active", True)
    hfxling.nearest(["a"], candidates=["b", "c"], model=str(tiny_sentence_transformer), languages=("zh", "vi"))
    assert "Loading weights" not in capfd.readouterr().err
    assert logging.is_progress_bar_enabled()


def test_the_command_line_shows_no_bars_of_loading(tiny_sentence_transformer, tmp_path, capfd):
    (tmp_path / "text").write_text("a\nb\n")
    words = ["nearest", "a", "--candidates", f"{tmp_path}/text", "--model", str(tiny_sentence_transformer)]
    main([*words, "--languages", "zh", "vi"])
    assert "%" not in capfd.readouterr().err
