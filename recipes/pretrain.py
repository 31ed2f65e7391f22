"""Pretrain a tokenizer and a small BERT from scratch on any text, by masked and translation language modelling.

python recipes/pretrain.py --config recipes/configs/pretrain/quickstart.yaml [--texts FILE.txt.gz ...] [--key value ...]

Translation language modelling (TLM; Lample and Conneau 2019) joins a sentence and its translations, each with positions
counted from its own start, so that a masked word can be read off the other language. Two folders are written:
OUTPUT_DIR/model, the encoder for `AutoModel`, `SentenceTransformer` and the other recipes' --base_model, and
OUTPUT_DIR/masked_lm, the same encoder with its prediction head for `AutoModelForMaskedLM`.
"""

from transformers import TrainingArguments

from hfxling.arguments import parse_arguments
from hfxling.console import run as run_recipe
from hfxling.evaluation.results import EvalResult
from hfxling.methods import pretrain
from hfxling.methods.publishing import before_and_after, check_run, write_run


def main(argv: list[str] | None = None) -> list[EvalResult]:
    types = (pretrain.PretrainArguments, TrainingArguments)
    args, training_args = parse_arguments(types, argv, defaults=pretrain.TRAINING_DEFAULTS, description=__doc__)
    check_run(training_args, has_card=False)
    prepared = pretrain.prepare(args, training_args)
    run = pretrain.run(args, training_args, prepared)
    return write_run("pretrain", args, training_args, run, before_and_after(run.results))


if __name__ == "__main__":
    run_recipe(main)
