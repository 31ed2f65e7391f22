"""Contrastive BiLSTM word aligner (Zhang et al. 2024), trained from scratch on parallel text.

python recipes/aligner.py --config recipes/configs/aligner/quickstart.yaml [--key value ...]
"""

from transformers import TrainingArguments

from hfxling.arguments import parse_arguments
from hfxling.console import run as run_recipe
from hfxling.evaluation.results import EvalResult
from hfxling.methods import aligner
from hfxling.methods.publishing import check_run, publish_run


def main(argv: list[str] | None = None) -> list[EvalResult]:
    types = (aligner.Arguments, TrainingArguments)
    args, training_args = parse_arguments(types, argv, defaults=aligner.TRAINING_DEFAULTS, description=__doc__)
    push = check_run(training_args, args)
    prepared = aligner.prepare([args], training_args)
    run = aligner.run(args, training_args, prepared)
    return publish_run("aligner", args, training_args, prepared, run, argv=argv, push=push)


if __name__ == "__main__":
    run_recipe(main)
