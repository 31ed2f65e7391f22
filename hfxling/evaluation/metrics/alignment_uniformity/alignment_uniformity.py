"""Alignment and uniformity of sentence vectors."""

import datasets
import evaluate
import numpy as np

from hfxling.evaluation.geometry import alignment, uniformity

_VECTORS = datasets.List(datasets.Value("float32"))


class AlignmentUniformity(evaluate.Metric):
    """How near translations lie, and how evenly everything (Wang and Isola 2020)."""

    def _info(self):
        return evaluate.MetricInfo(
            description="Mean squared distance of translations on the sphere, and how evenly all vectors lie on it.",
            citation="",
            inputs_description="predictions: source vectors; references: target vectors, row by row their "
            "translations. Returns alignment, 0 to 4, and uniformity, 0 or less; lower is better for both.",
            features=datasets.Features({"predictions": _VECTORS, "references": _VECTORS}),
        )

    def _compute(self, predictions, references):
        source, target = np.array(predictions), np.array(references)
        return {
            "alignment": float(alignment(source, target).mean()),
            "uniformity": uniformity(np.concatenate([source, target])),
        }
