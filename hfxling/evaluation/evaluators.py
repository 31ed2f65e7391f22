"""Evaluators for sentence-transformers' trainers, over our retrieval and mining: scores lie between 0 and 1."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.sparse import csr_array
from sentence_transformers.base.evaluation.evaluator import BaseEvaluator

from hfxling.data.texts import picked
from hfxling.data.warn import distinct_tests

from .mining import Comparable, best_threshold, mine_margin, pair_counts, scores_of
from .retrieval import gold_ranks


class _PairEvaluator(BaseEvaluator):
    """What the evaluators share: vectors of both sides, through the languages' routes if the model has them."""

    def __init__(self, languages: tuple[str, str], name: str, batch_size: int):
        super().__init__()
        self.languages, self.name, self.batch_size = tuple(languages), name, batch_size

    def vectors(self, model, source: Sequence[str], target: Sequence[str]) -> tuple:
        """(N, D) vectors of both sides, and how to compare them: those of SparseEncoders by inner product."""
        routes: set[str] = set()
        for module in model:
            routes.update(getattr(module, "sub_modules", ()))
        sides = []
        for texts, lang, role in zip((source, target), self.languages, ("query", "document")):
            options = {"batch_size": self.batch_size, "show_progress_bar": False}
            if lang in routes:
                vectors = model.encode(list(texts), task=lang, **options)
            else:
                vectors = getattr(model, f"encode_{role}")(list(texts), **options)
            is_sparse = getattr(vectors, "is_sparse", False)
            sides.append(csr_array(vectors.to_dense().float().cpu().numpy()) if is_sparse else np.asarray(vectors))
        return *sides, "dot" if is_sparse else "cosine"

    def report(self, model, metrics: dict[str, float], epoch: int, steps: int) -> dict[str, float]:
        """The metrics, prefixed by the name; they are also stored for the model's card."""
        metrics = self.prefix_name_to_metrics(metrics, self.name)
        self.store_metrics_in_model_card_data(model, metrics, epoch, steps)
        return metrics


class RetrievalEvaluator(_PairEvaluator):
    """P@1: how often a text's translation is the nearest of all texts of the other side; ties count as misses.

    Args:
        source: N texts.
        target: the N translations of `source`, in the same order.
        languages: codes of both sides; if the model has routes of these names, they are used.
        name: prefix of the metrics' names.
        batch_size: number of texts encoded at once.

    Attributes:
        primary_metric: "p@1", the mean of both directions.
    """

    def __init__(
        self,
        source: Sequence[str],
        target: Sequence[str],
        languages: tuple[str, str] = ("source", "target"),
        *,
        name: str = "",
        batch_size: int = 32,
    ):
        super().__init__(languages, name, batch_size)
        if len(source) != len(target) or not len(source):
            raise ValueError(
                f"{len(source)} source and {len(target)} target texts; give the same number of each, line by line."
            )
        rows = distinct_tests(source, target)
        self.source, self.target = picked(rows, source, target)
        self.primary_metric = "p@1"

    def __call__(self, model, output_path: str | None = None, epoch: int = -1, steps: int = -1) -> dict[str, float]:
        """P@1 of both directions and their mean."""
        source, target, method = self.vectors(model, self.source, self.target)
        hits = [float((ranks == 1).mean()) for ranks in gold_ranks(source, target, method=method)]
        a, b = self.languages
        metrics = {"p@1": float(np.mean(hits)), f"p@1_{a}_{b}": hits[0], f"p@1_{b}_{a}": hits[1]}
        return self.report(model, metrics, epoch, steps)


class MiningEvaluator(_PairEvaluator):
    """F1 of mined pairs, with a threshold chosen on training text.

    Args:
        training: sentences and gold pairs that the threshold is chosen on.
        test: sentences and gold pairs to measure on; see `hfxling.evaluation.mining.read_bucc`.
        languages: codes of both sides, as for `RetrievalEvaluator`.
        k: number of neighbours in the margin.
        name: prefix of the metrics' names.
        batch_size: number of texts encoded at once.

    Attributes:
        primary_metric: "f1".
    """

    def __init__(
        self,
        training: Comparable,
        test: Comparable,
        languages: tuple[str, str] = ("source", "target"),
        *,
        k: int = 4,
        name: str = "",
        batch_size: int = 32,
    ):
        super().__init__(languages, name, batch_size)
        self.training, self.test, self.k, self.primary_metric = training, test, k, "f1"

    def __call__(self, model, output_path: str | None = None, epoch: int = -1, steps: int = -1) -> dict[str, float]:
        """F1, precision, recall and the threshold."""
        mined = []
        for bitext in (self.training, self.test):
            source, target, method = self.vectors(model, bitext.source, bitext.target)
            mined.append(mine_margin(source, target, k=self.k, method=method))
        threshold = best_threshold(mined[0], self.training)
        scores = scores_of(pair_counts(mined[1], self.test, threshold).sum(0)) / 100
        metrics = dict(zip(("precision", "recall", "f1"), scores.tolist())) | {"threshold": threshold}
        return self.report(model, metrics, epoch, steps)
