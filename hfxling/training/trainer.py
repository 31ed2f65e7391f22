"""The Trainer of transformers with two additions: loss parts in the log, evaluators at evaluation."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

import torch
from transformers import Trainer

from hfxling.evaluation.results import EvalResult

Evaluator = Callable[[torch.nn.Module], list[EvalResult]]


class XlingTrainer(Trainer):
    """Trains any module whose forward returns {"loss": ..., "loss_<part>": ...}.

    Args:
        evaluators: called with the model at every evaluation; their rows are logged as `eval_<dataset>_<metric>` (with
            the direction where there is one) and kept in `last_results`.
        *args: as for `transformers.Trainer`.
        **kwargs: as for `transformers.Trainer`.
    """

    def __init__(self, *args, evaluators: Sequence[Evaluator] = (), **kwargs):
        super().__init__(*args, **kwargs)
        # Losses here are means over the batch. The Trainer believes of a forward with **kwargs that it divides by
        # num_items_in_batch itself, and would then not divide by the accumulation steps.
        self.model_accepts_loss_kwargs = False
        self.evaluators = evaluators
        self.last_results: list[EvalResult] = []
        self._parts: dict[str, list[torch.Tensor]] = defaultdict(list)

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        """The module's own loss; its parts are remembered until the next log line."""
        outputs = model(**inputs)
        if model.training:
            self.remember(outputs)
        return (outputs["loss"], outputs) if return_outputs else outputs["loss"]

    def remember(self, outputs: Mapping[str, torch.Tensor]) -> None:
        """Keep the loss parts for the next log line."""
        for name, value in outputs.items():
            if name.startswith("loss_"):
                self._parts[name].append(value.detach())

    def log(self, logs: dict[str, float], *args, **kwargs) -> None:
        """Add the mean of every loss part since the last line."""
        if "loss" in logs:
            logs |= {name: round(torch.stack(values).mean().item(), 6) for name, values in self._parts.items()}
            self._parts.clear()
        super().log(logs, *args, **kwargs)

    def evaluate(self, eval_dataset=None, ignore_keys=None, metric_key_prefix: str = "eval") -> dict[str, float]:
        """Loss on the evaluation set where there is one, then every evaluator."""
        has_data = eval_dataset is not None or self.eval_dataset is not None
        metrics = super().evaluate(eval_dataset, ignore_keys, metric_key_prefix) if has_data else {}
        model = self.accelerator.unwrap_model(self.model).eval()
        self.last_results = [row for evaluator in self.evaluators for row in evaluator(model)]
        rows = {
            "_".join(filter(None, (metric_key_prefix, row.dataset, row.direction, row.metric))): row.value
            for row in self.last_results
        }
        if rows:
            self.log(rows)
        return metrics | rows
