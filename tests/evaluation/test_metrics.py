"""Metrics of the library evaluate, loaded from their folders without a network."""

import evaluate
import numpy as np
import pytest
from evaluate_cache import evaluate_cache

from hfxling.data.pharaoh import AlignedPair, parse_links
from hfxling.evaluation import metrics
from hfxling.evaluation.alignment import alignment_results
from hfxling.evaluation.geometry import geometry_results
from hfxling.evaluation.retrieval import gold_ranks


@pytest.fixture(autouse=True, scope="module")
def no_network(tmp_path_factory):
    """Nobody may ask the Hub."""
    with evaluate_cache(tmp_path_factory.mktemp("cache")) as patch:
        patch.setattr("socket.socket.connect", lambda *args: pytest.fail("a network was asked for"))
        yield


def load(name):
    return evaluate.load(metrics.metric_path(name))


def vectors():
    rng = np.random.default_rng(0)
    source = rng.normal(size=(30, 8)).astype(np.float32)
    return source, source + rng.normal(size=(30, 8)).astype(np.float32)


@pytest.mark.parametrize("method", ["cosine", "csls"])
def test_precision_at_k(method):
    source, target = vectors()
    found = load("precision_at_k").compute(predictions=source, references=target, k=2, method=method)
    forward, backward = gold_ranks(source, target, method=method)
    expected = {"precision_at_k": (forward <= 2).mean(), "precision_at_k_back": (backward <= 2).mean()}
    assert found == pytest.approx(expected)


def test_alignment_error_rate():
    predictions, references = ["0-0 1-2 3-1", "", "0-0"], ["0-0 1p2 2-1", "0-0", "0-0"]
    found = load("alignment_error_rate").compute(predictions=predictions, references=references)
    gold = [AlignedPair(("",) * 4, ("",) * 4, *parse_links(line)) for line in references]
    rows = alignment_results([parse_links(line)[1] for line in predictions], gold, dataset="d", split="test")
    assert found == pytest.approx({row.metric.lower(): row.value / 100 for row in rows})
    with pytest.raises(ValueError, match=r"predictions\[0\]: '0:0' is not a link"):
        load("alignment_error_rate").compute(predictions=["0:0"], references=["0-0"])


def test_mining_f1_in_batches():
    metric = load("mining_f1")
    metric.add_batch(predictions=[["a"], [], ["c"]], references=[["a"], ["b"], []])
    metric.add_batch(predictions=[["d", "d", "e"]], references=[["d"]])
    assert metric.compute() == pytest.approx({"precision": 2 / 4, "recall": 2 / 3, "f1": 4 / 7})


def test_alignment_and_uniformity():
    source, target = vectors()
    found = load("alignment_uniformity").compute(predictions=source, references=target)
    rows = geometry_results([(source, target)], dataset="d", split="test")
    assert found == pytest.approx({row.metric: row.value for row in rows})


def test_every_metric_has_its_folder_and_an_unknown_one_none():
    assert {load(name).name for name in metrics.NAMES} == {*metrics.NAMES}
    assert len(metrics.NAMES) == 4
    with pytest.raises(ValueError, match="metric 'bleu' is not one of precision_at_k, alignment_error_rate"):
        metrics.metric_path("bleu")
