"""Meaning/language disentangler: a frozen encoder's sentence vectors split in two (Nonomura et al.).

python recipes/disentangler.py --config recipes/configs/disentangler/quickstart.yaml [--key value ...]
"""

from transformers import TrainingArguments

from hfxling.arguments import parse_arguments
from hfxling.console import run as run_recipe
from hfxling.evaluation.results import EvalResult
from hfxling.methods import disentangler
from hfxling.methods.publishing import check_run, publish_run


def main(argv: list[str] | None = None) -> list[EvalResult]:
    types = (disentangler.Arguments, TrainingArguments)
    args, training_args = parse_arguments(types, argv, defaults=disentangler.TRAINING_DEFAULTS, description=__doc__)
    results, settings = [], disentangler.one_by_one(args, training_args)
    pushes = [check_run(own_training, own) for own, own_training in settings]
    for (own, own_training), push in zip(settings, pushes):
        prepared = disentangler.prepare([own], own_training)
        run = disentangler.run(own, own_training, prepared)
        results += publish_run("disentangler", own, own_training, prepared, run, argv=argv, push=push)
    return results


if __name__ == "__main__":
    run_recipe(main)
