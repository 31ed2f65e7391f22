"""Meaning/language disentangler: a frozen encoder's sentence vectors split in two (Nonomura et al.).

python recipes/disentangler.py --config recipes/configs/disentangler/quickstart.yaml [--key value ...]
"""

from transformers import TrainingArguments

from hfxling.arguments import parse_arguments, run_recipe
from hfxling.evaluation.results import EvalResult
from hfxling.training import disentangler
from hfxling.training.publishing import check_run, publish_run


def main(argv: list[str] | None = None) -> list[EvalResult]:
    types = (disentangler.Arguments, TrainingArguments)
    args, training_args = parse_arguments(types, argv, defaults=disentangler.TRAINING_DEFAULTS, description=__doc__)
    push = check_run(training_args, args)
    prepared = disentangler.prepare([args], training_args)
    run = disentangler.run(args, training_args, prepared)
    return publish_run("disentangler", args, training_args, prepared, run, argv=argv, push=push)


if __name__ == "__main__":
    run_recipe(main)
