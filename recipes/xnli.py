"""Fine-tune an encoder on natural language inference in English and test it in other languages (XNLI).

python recipes/xnli.py --config recipes/configs/xnli/mbert.yaml [--base_model DIR_OR_HUB_ID] [--key value ...]

The best epoch is chosen on the English development examples alone. OUTPUT_DIR/model is the classifier, for
`AutoModelForSequenceClassification`, with its results.json.
"""

from transformers import TrainingArguments

from hfxling.arguments import parse_arguments
from hfxling.console import run as run_recipe
from hfxling.evaluation.results import EvalResult
from hfxling.methods import xnli
from hfxling.methods.publishing import check_run, write_run


def main(argv: list[str] | None = None) -> list[EvalResult]:
    types = (xnli.NliArguments, TrainingArguments)
    args, training_args = parse_arguments(types, argv, defaults=xnli.TRAINING_DEFAULTS, description=__doc__)
    check_run(training_args, has_card=False)
    data = xnli.load_nli_data(args, training_args.seed)
    run = xnli.run(args, training_args, data)
    return write_run("xnli", args, training_args, run, xnli.summary(run.results))


if __name__ == "__main__":
    run_recipe(main)
