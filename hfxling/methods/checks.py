"""Checks of the Trainer's arguments that are possible before anything is read."""

from __future__ import annotations

from transformers import TrainingArguments
from transformers.integrations.integration_utils import (
    INTEGRATION_TO_CALLBACK,
    get_available_reporting_integrations,
)

from hfxling.files import check_place
from hfxling.values import check_least, check_seed

# The least values of counts, which the Trainer does not check.
_LEAST = {
    "per_device_train_batch_size": 1,
    "per_device_eval_batch_size": 1,
    "gradient_accumulation_steps": 1,
    "dataloader_num_workers": 0,
    "num_train_epochs": 0,
    "learning_rate": 0,
    "weight_decay": 0,
    "warmup_steps": 0,
    "max_grad_norm": 0,
}


def check_trainer(training_args: TrainingArguments) -> None:
    """Refuse an output folder that cannot be written, counts below the least, and loggers that are not installed."""
    check_seed(training_args.seed)
    check_place("output_dir", training_args.output_dir, is_folder=True)
    for name, least in _LEAST.items():
        value = getattr(training_args, name)
        check_least(least, **{name: value})
    if training_args.max_steps != -1 and training_args.max_steps < 1:
        raise ValueError(f"max_steps={training_args.max_steps}: give 1 or more, or leave it out for num_train_epochs.")
    for kind in ("save", "eval", "logging"):
        steps = getattr(training_args, f"{kind}_steps")
        if getattr(training_args, f"{kind}_strategy") == "steps" and not (steps or 0) > 0:
            raise ValueError(f"{kind}_steps={steps}: give more than 0, or --{kind}_strategy no.")
    reported = training_args.report_to
    available = get_available_reporting_integrations()
    for name in [reported] if isinstance(reported, str) else reported or []:
        if name not in (*INTEGRATION_TO_CALLBACK, "all", "none"):
            raise ValueError(f"report_to={name!r} is not one of {', '.join(INTEGRATION_TO_CALLBACK)}, all and none.")
        # transformers has a callback for flyte, but never lists it as available.
        if name in INTEGRATION_TO_CALLBACK and name not in available and name != "flyte":
            here = ", ".join((*available, "none"))
            raise ValueError(f"report_to={name!r}: its package is not installed; install it, or choose from {here}.")


def refuse_evaluation(training_args: TrainingArguments | None, what: str) -> None:
    """Refuse --eval_strategy for a model that is not tested during training; `what` names the model."""
    if training_args is not None and training_args.eval_strategy != "no":
        strategy = training_args.eval_strategy.value
        raise ValueError(
            f"eval_strategy={strategy!r}: {what} is tested before and after training, not during it; leave it out."
        )
