"""What all methods' training has in common: it stops where the loss ends, and evaluators need no evaluation set."""

import pytest
import torch
from torch import nn
from transformers import TrainerCallback, TrainingArguments

from hfxling.evaluation.results import EvalResult
from hfxling.methods.aligner.train import AlignerTrainer
from hfxling.methods.dap.train import DapTrainer
from hfxling.methods.disentangler.batches import SplitTrainer
from hfxling.methods.trainer import XlingTrainer


class Scale(nn.Module):
    """Its loss is the weight times the batch's mean."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(()))

    def forward(self, x):
        return {"loss": self.weight * x.mean()}


def trainer(values, folder, evaluators=(), **settings) -> XlingTrainer:
    settings = {"max_steps": len(values), "per_device_train_batch_size": 1, "learning_rate": 1e-3} | settings
    settings |= {"use_cpu": True, "disable_tqdm": True, "report_to": "none", "train_sampling_strategy": "sequential"}
    args = TrainingArguments(str(folder), save_strategy="no", **settings)
    return XlingTrainer(Scale(), args, train_dataset=[{"x": float(value)} for value in values], evaluators=evaluators)


@pytest.mark.parametrize("bad", ["nan", "inf"])
def test_training_stops_at_the_first_loss_that_is_not_finite(bad, tmp_path):
    run = trainer([1, 2, bad, 3], tmp_path)
    with pytest.raises(ValueError, match=f"^step 3: the loss is {bad}. Lower learning_rate \\(0.001\\)") as error:
        run.train()
    assert "\n" not in str(error.value)
    assert run.state.global_step == 2
    assert torch.isfinite(run.model.weight)


@pytest.mark.parametrize("settings", [{}, {"eval_strategy": "steps", "eval_steps": 3}])
def test_weights_that_the_last_step_spoilt_are_never_handed_on(settings, tmp_path):
    run = trainer([1, 2, 3], tmp_path, [lambda model: pytest.fail("measured")], **settings)

    class Spoil(TrainerCallback):
        def on_step_end(self, args, state, control, **kwargs):
            if state.global_step == 3:
                run.model.weight.data.fill_(float("nan"))

    run.add_callback(Spoil())
    with pytest.raises(ValueError, match=r"^step 3: weights are not finite\. Lower learning_rate \(0\.001\), or raise"):
        run.train()


def test_a_figure_that_is_not_finite_ends_the_run(tmp_path):
    rows = [EvalResult(metric="m", value=float("nan"), n=1, dataset="d", split="test")]
    run = trainer([1, 2, 3], tmp_path, [lambda model: rows], eval_strategy="steps", eval_steps=2)
    with pytest.raises(ValueError, match=r"^step 2: eval_d_m is nan\. Lower learning_rate"):
        run.train()


def test_every_part_of_an_accumulated_step_is_looked_at(tmp_path):
    with pytest.raises(ValueError, match="step 2: the loss is nan"):
        trainer([1, 2, 3, "nan"], tmp_path, gradient_accumulation_steps=2, max_steps=2).train()


def test_no_method_goes_past_the_check():
    for method in (AlignerTrainer, SplitTrainer):
        assert method.training_step is XlingTrainer.training_step
    assert issubclass(DapTrainer, XlingTrainer)  # its own step is tested in dap/test_train.py


@pytest.mark.parametrize("without_bar", [True, False])
def test_log_lines_are_for_people(tmp_path, capsys, without_bar):
    run = trainer([1, 2, 3, 4], tmp_path, logging_steps=2, disable_tqdm=without_bar)
    run.train()
    first, second, last = capsys.readouterr().out.splitlines()
    assert first.startswith("epoch 0.5: loss 1.499, ")
    assert "learning rate 0.00075" in first
    assert second.startswith("epoch 1: loss 3.4")
    assert "train runtime" in last
    assert not any(mark in first + second + last for mark in ("{", "'", "_", "total"))


def test_evaluators_run_on_schedule_without_an_evaluation_set(tmp_path):
    seen = []

    def evaluator(model):
        seen.append(run.state.global_step)
        assert not model.training
        return [EvalResult(metric="m", value=0.5, n=1, dataset="d", split="test")]

    run = trainer([1, 2, 3, 4, 5], tmp_path, [evaluator], eval_strategy="steps", eval_steps=2)
    run.train()
    assert seen == [2, 4, 5]
    assert [row["eval_d_m"] for row in run.state.log_history if "eval_d_m" in row] == [0.5] * 3
