"""P@k of cross-lingual retrieval."""

import datasets
import evaluate
import numpy as np

from hfxling.evaluation.retrieval import gold_ranks, hits_at

_VECTORS = datasets.List(datasets.Value("float32"))


class PrecisionAtK(evaluate.Metric):
    """Share of vectors whose own translation is among their k nearest."""

    def _info(self):
        return evaluate.MetricInfo(
            description="Share of sentence vectors whose translation is among the k nearest of the other side.",
            citation="",
            inputs_description="predictions: source vectors; references: target vectors, row by row their "
            "translations; k: 1 by default; method: 'cosine' or 'csls'; csls_k: neighbours of CSLS. Returns "
            "precision_at_k from source to target and precision_at_k_back, both between 0 and 1; ties are misses.",
            features=datasets.Features({"predictions": _VECTORS, "references": _VECTORS}),
        )

    def _compute(self, predictions, references, k: int = 1, method: str = "cosine", csls_k: int = 10):
        there, back = gold_ranks(np.array(predictions), np.array(references), method=method, csls_k=csls_k)
        return {
            "precision_at_k": float(hits_at(there, k).mean()) / 100,
            "precision_at_k_back": float(hits_at(back, k).mean()) / 100,
        }
