"""The Trainer of transformers, with the parts of the loss in the log, readable log lines, and evaluators."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import torch
from tqdm.auto import tqdm
from transformers import PrinterCallback, ProgressCallback, Trainer, TrainerCallback

from hfxling.evaluation.results import EvalResult

from .checkpoints import RECORD, age_checkpoints

Evaluator = Callable[[torch.nn.Module], list[EvalResult]]


def log_line(logs: Mapping[str, float]) -> str:
    """The Trainer's log as a line, such as "epoch 1.5: loss 0.4312, learning rate 3e-05"."""
    shown = {}
    for name, value in logs.items():
        shown[name] = f"{value:.4g}" if isinstance(value, float) else str(value)
    epoch = f"epoch {shown.pop('epoch')}: " if "epoch" in shown else ""
    shown.pop("total_flos", None)
    return epoch + ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in shown.items())


class _Bar(ProgressCallback):
    def on_log(self, args, state, control, logs=None, **kwargs):
        if state.is_world_process_zero and self.training_bar is not None and logs:
            self.training_bar.write(log_line(logs))


class _Lines(PrinterCallback):
    def on_log(self, args, state, control, logs=None, **kwargs):
        if state.is_local_process_zero and logs:
            tqdm.write(log_line(logs))


class _Checkpoints(TrainerCallback):
    """Deletes checkpoints in the order in which they were written, and writes the record of the run into them."""

    def __init__(self, record: Mapping | None):
        self.record = record

    def on_step_end(self, args, state, control, **kwargs):
        """Before a checkpoint is written."""
        if control.should_save and args.should_save:
            age_checkpoints(Path(args.output_dir))

    def on_epoch_end(self, args, state, control, **kwargs):
        """The same at the end of an epoch."""
        self.on_step_end(args, state, control)

    def on_save(self, args, state, control, **kwargs):
        checkpoint = Path(args.output_dir) / f"checkpoint-{state.global_step}"
        if self.record and args.should_save and checkpoint.is_dir():
            text = json.dumps(self.record, indent=2, ensure_ascii=False)
            (checkpoint / RECORD).write_text(text + "\n", encoding="utf-8")


class XlingTrainer(Trainer):
    """Trains any module whose forward returns {"loss": ..., "loss_<part>": ...}.

    The evaluators are called with the model at every evaluation. Their rows are logged as `eval_<dataset>_<metric>`
    (with the direction if there is one) and kept in `last_results`. All else is as in `transformers.Trainer`.
    """

    def __init__(self, *args, evaluators: Sequence[Evaluator] = (), **kwargs):
        if evaluators and kwargs.get("eval_dataset") is None:
            kwargs["eval_dataset"] = ()  # without a data set the Trainer refuses to evaluate at all
        super().__init__(*args, **kwargs)
        for theirs, ours in ((ProgressCallback, _Bar), (PrinterCallback, _Lines)):
            if self.pop_callback(theirs):
                self.add_callback(ours)
        if self.args.disable_tqdm and self.args.logging_strategy == "no":
            self.remove_callback(PrinterCallback)  # neither bar nor log is wanted, nor the summary at the end
        self.add_callback(_Checkpoints(getattr(self.args, "run_record", None)))  # recipes set the record
        # Losses here are means over the batch. The Trainer assumes that a forward with **kwargs divides by
        # num_items_in_batch itself, and would then not divide by the accumulation steps.
        self.model_accepts_loss_kwargs = False
        self.evaluators = evaluators
        self.last_results: list[EvalResult] = []
        self._parts: dict[str, list[torch.Tensor]] = defaultdict(list)

    def evaluated(self) -> torch.nn.Module:
        """The model for the evaluators: without wrappers, in evaluation mode."""
        return self.accelerator.unwrap_model(self.model).eval()

    def training_step(self, model, inputs, num_items_in_batch=None) -> torch.Tensor:
        """As in the Trainer, but checks that the loss is finite."""
        return self.finite(super().training_step(model, inputs, num_items_in_batch))

    def finite(self, loss: torch.Tensor) -> torch.Tensor:
        """The loss of a step; ValueError if it is not finite, as training cannot recover from that.

        The Trainer reads every loss anyway (`logging_nan_inf_filter`, to keep such losses out of the log), so this does
        not add a wait for the device.
        """
        if not torch.isfinite(loss):
            raise self.diverged(self.state.global_step + 1, f"the loss is {loss.item()}")
        return loss

    def diverged(self, step: int, what: str) -> ValueError:
        """The error for a training that diverged."""
        return ValueError(
            f"step {step}: {what}. Lower learning_rate ({self.args.learning_rate:g}), or raise warmup_steps, or resume "
            "from an earlier checkpoint."
        )

    def check_weights(self) -> None:
        """Raise ValueError if weights are not finite: after the last step there is no further loss to show it."""
        for parameter in self.model.parameters():
            if not torch.isfinite(parameter).all():
                raise self.diverged(self.state.global_step, "weights are not finite")

    def train(self, *args, **kwargs):
        """As in the Trainer, but checks that the weights are finite."""
        reached = super().train(*args, **kwargs)
        self.check_weights()
        return reached

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
            for name, values in self._parts.items():
                mean = torch.stack(values).mean()
                logs[name] = round(mean.item(), 6)
            self._parts.clear()
        super().log(logs, *args, **kwargs)

    def evaluate(self, eval_dataset=None, ignore_keys=None, metric_key_prefix: str = "eval") -> dict[str, float]:
        """Loss on the evaluation set if there is one, then every evaluator."""
        self.check_weights()
        has_data = eval_dataset or self.eval_dataset
        metrics = super().evaluate(eval_dataset, ignore_keys, metric_key_prefix) if has_data else {}
        model = self.evaluated()
        self.last_results = []
        for evaluator in self.evaluators:
            self.last_results += evaluator(model)
        rows = {}
        for row in self.last_results:
            name = "_".join(filter(None, (metric_key_prefix, row.dataset, row.direction, row.metric)))
            rows[name] = row.value
        for name, value in (metrics | rows).items():
            if not math.isfinite(value):
                raise self.diverged(self.state.global_step, f"{name} is {value}")
        if rows:
            self.log(rows)
        if not has_data:  # as the Trainer does; otherwise it would evaluate again at the end
            self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, rows)
        return metrics | rows
