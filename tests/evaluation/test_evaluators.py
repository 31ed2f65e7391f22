"""Evaluators for trainers: their figures are those of our own functions, for models of every kind."""

from pathlib import Path

import numpy as np
import pytest
from builders import sentence_pairs
from sentence_transformers import SentenceTransformer
from tiny_models import save_routed, save_tiny

from hfxling import MiningEvaluator, RetrievalEvaluator
from hfxling.evaluation.mining import Comparable, best_threshold, mine_margin, pair_counts, scores_of
from hfxling.evaluation.retrieval import gold_ranks

SOURCE, TARGET = map(list, zip(*sentence_pairs(30)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    save_tiny("bert", folder / "plain", layers=1)
    save_routed(folder / "plain", folder / "routed", ("zh", "en"))
    return folder


def shares(model, *tasks) -> list[float]:
    sides = (model.encode(texts, task=task) for texts, task in zip((SOURCE, TARGET), tasks or (None, None)))
    return [float((ranks == 1).mean()) for ranks in gold_ranks(*sides)]


def test_retrieval_of_both_directions(folder):
    model = SentenceTransformer(str(folder / "plain"), device="cpu")
    evaluator = RetrievalEvaluator(SOURCE, TARGET, ("zh", "en"), name="dev")
    forward, backward = shares(model)
    assert evaluator(model) == {
        "dev_p@1": (forward + backward) / 2,
        "dev_p@1_zh_en": forward,
        "dev_p@1_en_zh": backward,
    }
    assert evaluator.primary_metric == "dev_p@1"
    assert evaluator.greater_is_better
    assert RetrievalEvaluator(SOURCE + SOURCE[:9], TARGET + TARGET[:9], ("zh", "en"), name="dev")(model) == evaluator(
        model
    )
    with pytest.raises(ValueError, match="30 source and 29 target texts"):
        RetrievalEvaluator(SOURCE, TARGET[1:])


def test_a_models_parts_for_languages_are_used(folder):
    model = SentenceTransformer(str(folder / "routed"), device="cpu")
    found = RetrievalEvaluator(TARGET, SOURCE, ("en", "zh"))(model)
    forward, backward = shares(model, "zh", "en")
    assert (found["p@1_en_zh"], found["p@1_zh_en"]) == (backward, forward)
    assert shares(model, "en", "zh") != [forward, backward], "the case must tell parts apart"


def test_mining_with_a_threshold_of_other_text(folder):
    model = SentenceTransformer(str(folder / "plain"), device="cpu")
    gold = np.stack([np.arange(10)] * 2, 1)
    training = Comparable(SOURCE[:15], TARGET[:15], gold)
    test = Comparable(SOURCE[15:], TARGET[15:], gold)
    evaluator = MiningEvaluator(training, test, ("zh", "en"), k=3)
    found = evaluator(model)
    mined = [mine_margin(*map(model.encode, (part.source, part.target)), k=3) for part in (training, test)]
    threshold = best_threshold(mined[0], training)
    expected = scores_of(pair_counts(mined[1], test, threshold).sum(0)) / 100
    assert found == pytest.approx(dict(zip(("precision", "recall", "f1"), expected)) | {"threshold": threshold})
    assert evaluator.primary_metric == "f1"
