"""Links as an encoder: sparse and static sentence vectors from the counts of a statistical aligner, in seconds.

python recipes/lexical.py --config recipes/configs/lexical/quickstart.yaml [--key value ...]
"""

from transformers import TrainingArguments

from hfxling.arguments import parse_arguments
from hfxling.console import run as run_recipe
from hfxling.evaluation.results import EvalResult
from hfxling.methods import lexical
from hfxling.methods.publishing import check_run, publish_run


def main(argv: list[str] | None = None) -> list[EvalResult]:
    types = (lexical.Arguments, TrainingArguments)
    args, training_args = parse_arguments(types, argv, defaults=lexical.TRAINING_DEFAULTS, description=__doc__)
    push = check_run(training_args, args)
    prepared = lexical.prepare([args], training_args)
    run = lexical.run(args, training_args, prepared)
    return publish_run("lexical", args, training_args, prepared, run, argv=argv, push=push)


if __name__ == "__main__":
    run_recipe(main)
