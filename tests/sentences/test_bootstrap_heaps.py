"""Heaps of which nothing can be made, by the command: one line each, and nothing is written."""

import os
import random
from pathlib import Path

import pytest

import hfxling
from hfxling.cli import main


@pytest.fixture(scope="module")
def place(tmp_path_factory, tiny_sentence_transformer, zh_vi_links) -> Path:
    """Heaps, and models: one that knows both languages, one that knows no word of either, one that learnt nothing."""
    folder = tmp_path_factory.mktemp("heaps")
    rows = hfxling.load_parallel("sample", "zh", "vi")
    pairs = list(dict.fromkeys(zip(rows["source"], rows["target"])))
    zh, vi = (list(dict.fromkeys(side)) for side in zip(*pairs))
    random.Random(0).shuffle(vi)
    heaps = {
        "zh": zh[:200],
        "vi": vi[:200],
        "more_zh": zh[200:400],
        "some_zh": zh[:100],
        "ten_vi": vi[:10],
        "many_zh": [f"{text} {number}" for number in range(100) for text in zh[:300]],
        "equal_vi": [vi[0]] * 300,
    }
    for name, lines in heaps.items():
        (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    (folder / "knows").symlink_to(zh_vi_links)
    greek = ["".join(random.Random(i).choices("αβγδεζηθικλμνξοπρστυφχψω ", k=30)) for i in range(60)]
    other = hfxling.fit_lexical(greek, [text.upper() for text in greek], ("el", "ru"), progress=False)
    hfxling.save_lexical(other, folder / "other")
    (folder / "nothing").symlink_to(tiny_sentence_transformer)
    return folder


@pytest.mark.parametrize(
    ("heaps", "model", "message"),
    [
        (("zh", "more_zh"), "knows", "more_zh: 100 % of the sentences are not in 'vi'; give a text of that language"),
        (("zh", "some_zh"), "knows", "some_zh share 100 of 100 sentences: copies are not translations"),
        (("many_zh", "ten_vi"), "knows", "ten_vi: 10 distinct sentences of 10; give 20 or more of each language"),
        (("zh", "equal_vi"), "knows", "equal_vi: 1 distinct sentences of 300; give 20 or more of each language"),
        (("zh", "vi"), "nothing", "does the model know both languages? Give another model or known pairs"),
        (("zh", "vi"), "other", "sentences have no vector: "),
    ],
)
def test_one_line_and_nothing_written(place, tmp_path, monkeypatch, capfd, heaps, model, message):
    monkeypatch.chdir(tmp_path)
    words = ["bootstrap", *(str(place / heap) for heap in heaps), "--source_lang", "zh", "--target_lang", "vi"]
    words += ["--model", str(place / model), "--rounds", "1", "--cache_dir", "cache", "--output", "out"]
    with pytest.raises(SystemExit) as stop:
        main(words)
    assert stop.value.code == 2
    errors = [line for line in capfd.readouterr().err.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1
    assert message in errors[0]
    assert set(os.listdir(tmp_path)) <= {"cache"}, "vectors are kept, nothing else"
