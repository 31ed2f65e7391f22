"""Dual-alignment pre-training: translation ranking and representation translation learning (Li et al. 2023).

accelerate launch recipes/dap.py --config recipes/configs/dap/quickstart.yaml [--key value ...]
"""

from transformers import TrainingArguments

from hfxling.arguments import parse_arguments
from hfxling.console import run as run_recipe
from hfxling.evaluation.results import EvalResult
from hfxling.methods import dap
from hfxling.methods.publishing import check_run, publish_run


def main(argv: list[str] | None = None) -> list[EvalResult]:
    types = (dap.Arguments, TrainingArguments)
    args, training_args = parse_arguments(types, argv, defaults=dap.TRAINING_DEFAULTS, description=__doc__)
    push = check_run(training_args, args)
    prepared = dap.prepare([args], training_args)
    run = dap.run(args, training_args, prepared)
    return publish_run("dap", args, training_args, prepared, run, argv=argv, push=push)


if __name__ == "__main__":
    run_recipe(main)
