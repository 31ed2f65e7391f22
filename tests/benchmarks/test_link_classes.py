"""What words count by: planted words that differ in front of their stem only."""

import link_classes as benchmark
import numpy as np
import pytest

from hfxling.words import classes

STEMS = ["jalan", "besar", "kirim", "tulis", "lihat", "gunung", "makan", "rumah"]
CHARACTERS = "走大寄写看山吃家"


@pytest.fixture
def text(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    rows = rng.integers(0, len(STEMS), (80, 4))
    lines = [" ".join(rng.choice(["", "ber", "ter", "di", "per"]) + STEMS[i] for i in row) for row in rows]
    (tmp_path / "id.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    lines = ["".join(CHARACTERS[i] for i in row) for row in rows]
    (tmp_path / "zh.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    monkeypatch.setattr(benchmark, "TRAIN", "1-60")
    monkeypatch.setattr(benchmark, "HELD_OUT", "61-80")
    return tmp_path


def test_words_that_differ_in_front_are_told_better_by_what_stands_behind_it(text):
    before = classes.STEM, classes.PREFIXED
    found = benchmark.main(["--pairs", "id-zh", "--text", str(text), "--results_dir", str(text)])["perplexity"]["id-zh"]
    assert found["4 letters behind a prefix"] < min(found["all letters"], found["4 letters"])
    assert before == (classes.STEM, classes.PREFIXED)
    assert (text / "link_classes.json").is_file()
