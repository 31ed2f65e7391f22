"""Siamese linear head on a frozen encoder layer ("mBERT-SF"; Huang et al. 2023).

python recipes/siamese.py --config recipes/configs/siamese/quickstart.yaml [--key value ...]
"""

from transformers import TrainingArguments

from hfxling.arguments import parse_arguments
from hfxling.console import run as run_recipe
from hfxling.evaluation.results import EvalResult
from hfxling.methods import siamese
from hfxling.methods.publishing import check_run, publish_run


def main(argv: list[str] | None = None) -> list[EvalResult]:
    types = (siamese.Arguments, TrainingArguments)
    args, training_args = parse_arguments(types, argv, defaults=siamese.TRAINING_DEFAULTS, description=__doc__)
    push = check_run(training_args, args)
    prepared = siamese.prepare([args], training_args)
    run = siamese.run(args, training_args, prepared)
    return publish_run("siamese", args, training_args, prepared, run, argv=argv, push=push)


if __name__ == "__main__":
    run_recipe(main)
