"""awesome-align's extraction against its formula, and the table of figures."""

import numpy as np
import pytest
from align_table import expected_calibration_error, extraction, main, table_of, word_owners

from hfxling.words.probability import WEIGHTS


def test_the_extraction_is_two_softmaxes_above_a_threshold():
    rng = np.random.default_rng(0)
    similarity = rng.normal(0, 5, (4, 6))
    expected = np.zeros((4, 6), bool)
    for i in range(4):
        for j in range(6):
            over_target = np.exp(similarity[i, j]) / sum(np.exp(similarity[i, k]) for k in range(6))
            over_source = np.exp(similarity[i, j]) / sum(np.exp(similarity[k, j]) for k in range(4))
            expected[i, j] = over_target > 0.001 and over_source > 0.001
    assert 0 < expected.sum() < expected.size
    assert np.array_equal(extraction(similarity, 0.001), expected)
    assert extraction(np.zeros((0, 3)), 0.001).shape == (0, 3)


def test_pieces_belong_to_the_words_that_they_end_in():
    """Pieces of "ab c dd", the second with the space before it, as SentencePiece may have it."""
    places = np.array([[0, 2], [2, 4], [5, 6], [6, 7]])
    assert word_owners(["ab", "c", "dd"], places) == [0, 1, 2, 2]


def test_figures_of_a_set_and_the_page(tiny_bert, tmp_path, monkeypatch):
    monkeypatch.setattr("align_table.find_spec", lambda name: None)  # others are left out, installed or not
    rows = ["dog eats rice\tgod stae ecir\t0-0 1-1 2-2", "cat eats\ttac stae\t0-0 1-1", "rice\t\t", "dog\tgod\t0-0"] * 5
    (tmp_path / "en-fr.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- table -->\nold\n<!-- end -->\nafter\n", encoding="utf-8")
    own = ["--data", str(tmp_path), "--encoder", str(tiny_bert), "--results_dir", str(tmp_path), "--page", str(page)]
    figures = main([*own, "--sets", "en-fr"])
    assert figures["en-fr"]["both"]["n"] == 20
    assert {"AER", "ECE"} <= set(figures["en-fr"]["both"])
    assert {"difference", "p_value"} == set(figures["en-fr"]["links"]["both"])
    text = page.read_text(encoding="utf-8")
    assert text.startswith("before\n<!-- table -->\n| | en-fr, 20 pairs |")
    assert text.endswith("<!-- end -->\nafter\n")
    assert table_of(figures) in text
    for name in ("more.en", "more.fr"):
        (tmp_path / name).write_text("dog rice\ncat\n", encoding="utf-8")
    further = ["--more", str(tmp_path / "more.en"), str(tmp_path / "more.fr"), "--first", "0", "2", "--name", "growth"]
    grown = main([*own, "--sets", "en-fr", *further])["en-fr"]
    labels = [f"{system}, {size} further pairs" for size in (0, 2) for system in ("links", "both")]
    assert list(grown) == labels
    assert grown["links, 0 further pairs"]["AER"] == figures["en-fr"]["links"]["AER"]
    trained = main([*own, "--sets", "en-fr", "--trained", str(tiny_bert)])["en-fr"]
    assert trained["both, trained further"]["AER"] == trained["both"]["AER"]  # it is the same encoder
    assert trained["both, trained further"]["both"] == {"difference": 0, "p_value": 1}
    assert trained["encoder, trained further"]["AER"] == trained["encoder"]["AER"]
    speed = main([*own, "--sets", "en-fr", "--speed"])
    assert speed["both, pairs_per_s"] > 0
    assert WEIGHTS.is_file()


def test_calibration_error_by_hand():
    assert expected_calibration_error([0.2, 0.2, 0.8, 0.8], [0, 0, 1, 1], bins=2) == pytest.approx(0.2)
    assert expected_calibration_error([0.5] * 4, [0, 1, 0, 1], bins=4) == pytest.approx(0)
    # Ties: the order of the links is of no matter.
    assert expected_calibration_error([0.5] * 4, [0, 0, 1, 1], bins=4) == pytest.approx(0)
    assert expected_calibration_error([1.0, 1.0, 0.0], [0, 0, 1]) == pytest.approx(1)
