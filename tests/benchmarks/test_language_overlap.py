"""The language of a sentence's neighbours, before and after a head is fitted."""

import json

import language_overlap as benchmark
import numpy as np
import pytest

from hfxling.data.sample import sample_texts


def test_share_of_neighbours_in_the_same_language():
    rng = np.random.default_rng(0)
    meaning = rng.normal(size=(40, 8))
    apart = [meaning + 50 * np.eye(8)[0], meaning - 50 * np.eye(8)[0]]
    assert benchmark.same_language(apart).tolist() == [100.0] * 80
    mixed = benchmark.same_language([meaning, meaning])  # of ten neighbours the first is the translation
    assert 30 < mixed.mean() < 50
    own = benchmark.same_language([meaning[:6], meaning[:6]])  # 5 of 11 others are in the same language
    assert own.max() <= 50


def test_rows_of_heads_are_tested_against_the_vectors_as_they_are(tiny_bert, tmp_path, monkeypatch):
    monkeypatch.setattr(benchmark, "EPOCHS", 1)
    (tmp_path / "ntrex").mkdir()
    for language in ("zh", "vi"):
        texts = sample_texts(language, generated=1997 - len(sample_texts(language, generated=0)))
        (tmp_path / "ntrex" / f"{language}.txt").write_text("\n".join(texts) + "\n", encoding="utf-8")
    words = ["--data", str(tmp_path), "--encoder", str(tiny_bert), "--layers", "2", "--seeds", "0"]
    figures = benchmark.main([*words, "--results_dir", str(tmp_path)])
    assert list(figures) == [f"layer 2, {label}" for label in ("as they are", "centred", "contrastive", "discriminant")]
    rows = json.loads((tmp_path / "language_overlap_me5.json").read_text(encoding="utf-8"))["results"]
    for row in rows:
        assert row["n"] == 908
        assert ("paired" in row["settings"]) == (row["settings"]["row"] != "layer 2, as they are")
    before, discriminant = rows[0], rows[-1]
    difference = discriminant["value"] - before["value"]
    assert discriminant["settings"]["paired"]["difference"] == pytest.approx(difference, abs=1e-4)
