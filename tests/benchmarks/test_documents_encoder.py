"""Documents aligned with an encoder beside others: what is counted, and a small run that goes on."""

import json

import documents_encoder as benchmark
import numpy as np
import pytest
from builders import write_documents


def test_strict_and_lax_beads():
    gold = [([0], [0]), ([1, 2], [1]), ([], [2]), ([3], [3, 4])]
    found = [([0], [0]), ([1], [1]), ([2], []), ([3], [2]), ([4], [4])]
    assert benchmark.counted(gold, found) == [1, 3, 4, 2, 2]
    assert benchmark.lax_f1(np.array([1, 3, 4, 2, 2])) == pytest.approx(2 * 0.5 * 2 / 3 / (0.5 + 2 / 3))


def test_vectors_are_served_by_number_of_sentences():
    served = benchmark.Served(lambda spans: np.array([[i, j] for i, j in spans], np.float32), range(5, 8))
    assert served.encode(["a", "b", "c"]).tolist() == [[5, 6], [6, 7], [7, 8]]
    assert served.encode(["PAD", "a b", "b c"]).tolist() == [[1, 1], [5, 7], [6, 8]]


def test_a_small_run_and_one_that_goes_on(tmp_path, monkeypatch, tiny_sentence_transformer):
    pytest.importorskip("sentweave")
    pytest.importorskip("galechurch")
    write_documents(tmp_path / "ntrex")
    monkeypatch.setattr(benchmark, "LINES", 150)
    argv = ["--data", tmp_path, "--pairs", "zh-vi", "--model", tiny_sentence_transformer, "--max_joined", "3"]
    argv = [*map(str, argv), "--results_dir", str(tmp_path), "--cache_dir", str(tmp_path / "cache")]
    figures = benchmark.main(argv)
    assert figures["zh-vi"]["links"] > 50
    assert figures["zh-vi"]["links, lax"] >= figures["zh-vi"]["links"]
    assert figures["f1_over_vecalign_least"] == figures["f1_over_vecalign"]
    assert figures["zh-vi"]["encoder, sentweave 0.2"] > 0
    written = json.loads((tmp_path / "documents_encoder.json").read_text(encoding="utf-8"))
    assert len(written["of_documents"]["zh-vi"]["gale-church"]["counts"]) == 4
    monkeypatch.setattr(benchmark, "measure", None)
    assert benchmark.main(argv) == figures
