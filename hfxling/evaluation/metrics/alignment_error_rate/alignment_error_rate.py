"""Alignment error rate of word links."""

import datasets
import evaluate

from hfxling.data.pharaoh import AlignedPair, parse_links
from hfxling.evaluation.alignment import alignment_scores, count_links


class AlignmentErrorRate(evaluate.Metric):
    """AER, precision, recall and F1 of word links."""

    def _info(self):
        return evaluate.MetricInfo(
            description="Alignment error rate of word links against sure and possible gold links (Och and Ney 2003).",
            citation="",
            inputs_description="predictions: a line of links for each sentence pair, '0-0 1-2', counted from 0; "
            "references: the gold links, 'i-j' sure and 'ipj' possible. Returns aer, precision, recall and f1, "
            "between 0 and 1.",
            features=datasets.Features({name: datasets.Value("string") for name in ("predictions", "references")}),
        )

    def _compute(self, predictions, references):
        predicted = [parse_links(line, f"predictions[{i}]")[1] for i, line in enumerate(predictions)]
        gold = []
        for i, (line, links) in enumerate(zip(references, predicted)):
            sure, possible = parse_links(line, f"references[{i}]")
            source_size = 1 + max((i for i, _ in possible | links), default=-1)
            target_size = 1 + max((j for _, j in possible | links), default=-1)
            gold.append(AlignedPair(("",) * source_size, ("",) * target_size, sure, possible))
        scores = alignment_scores(count_links(predicted, gold).sum(0))
        return {name.lower(): float(value) / 100 for name, value in scores.items()}
