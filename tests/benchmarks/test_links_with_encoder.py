"""The benchmark of links that an encoder helps to count, on the sample's text."""

import json

import links_with_encoder as benchmark
import pytest

from hfxling.data.sample import sample_texts


@pytest.fixture
def data(tmp_path):
    """As many lines as NTREX has, of sentences that come with the package."""
    (tmp_path / "ntrex").mkdir()
    for language in ("zh", "vi"):
        texts = sample_texts(language, generated=1997 - len(sample_texts(language, generated=0)))
        (tmp_path / "ntrex" / f"{language}.txt").write_text("\n".join(texts) + "\n", encoding="utf-8")
    return tmp_path


def test_rows_with_the_encoder_are_tested_against_those_without(data, tiny_bert, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("hfxling.words.encoder._MOST_UNKNOWN", 1.0)  # the tiny encoder knows few letters
    words = ["--data", str(data), "--encoder", str(tiny_bert), "--pairs", "zh-vi", "--results_dir", str(tmp_path)]
    benchmark.main([*words, "--sizes", "30"])
    benchmark.main([*words, "--sizes", "20", "30"])  # goes on with the smaller size
    rows = json.loads((tmp_path / "links_with_encoder.json").read_text(encoding="utf-8"))["results"]
    found = [(row["settings"]["row"], row["direction"]) for row in rows]
    assert len(found) == len(set(found)) == 2 * 2 * 2 * 2
    for row in rows:
        assert row["n"] == 454
        assert ("paired" in row["settings"]) == row["settings"]["row"].endswith(benchmark.WITH_ENCODER)
    assert capsys.readouterr().out.count("zh-vi, sparse, 30 pairs, links:") == 1
