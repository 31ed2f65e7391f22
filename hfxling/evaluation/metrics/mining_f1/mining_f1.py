"""F1 of mined sentence pairs."""

import datasets
import evaluate
import numpy as np

from hfxling.evaluation.mining import scores_of

_IDS = datasets.List(datasets.Value("string"))


class MiningF1(evaluate.Metric):
    """Precision, recall and F1 of mined pairs, with one row per source sentence."""

    def _info(self):
        return evaluate.MetricInfo(
            description="Precision, recall and F1 of sentence pairs that were mined from two sets of sentences.",
            citation="",
            inputs_description="predictions: for every source sentence the ids of the targets that were found for it, "
            "mostly none; references: the ids of its gold targets. Returns precision, recall and f1, between 0 and 1.",
            features=datasets.Features({"predictions": _IDS, "references": _IDS}),
        )

    def _compute(self, predictions, references):
        counts = []
        for found, gold in zip(predictions, references):
            found, gold = set(found), set(gold)
            counts.append((len(found & gold), len(found), len(gold)))
        counts = np.array(counts)
        return dict(zip(("precision", "recall", "f1"), (scores_of(counts.sum(0)) / 100).tolist()))
