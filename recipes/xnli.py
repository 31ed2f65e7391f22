"""Fine-tune an encoder on natural language inference in English and test it in other languages (XNLI).

python recipes/xnli.py --config recipes/configs/xnli/mbert.yaml [--base_model DIR_OR_HUB_ID] [--key value ...]

The best epoch is chosen on the English development examples alone. OUTPUT_DIR/model is the classifier, for
`AutoModelForSequenceClassification`, with its results.json.
"""

from collections.abc import Sequence
from pathlib import Path

from transformers import TrainingArguments

from hfxling.arguments import parse_arguments, resolved, run_recipe
from hfxling.evaluation.nli import nli_results
from hfxling.evaluation.results import EvalResult, format_table, write_results
from hfxling.files import atomic_path
from hfxling.training.xnli import (
    TRAINING_DEFAULTS,
    NliArguments,
    fit,
    last_checkpoint,
    load_classifier,
    load_nli_data,
    nli_trainer,
    predict,
)

RECIPE = "recipes/xnli.py"


def main(argv: list[str] | None = None) -> list[EvalResult]:
    defaults = TRAINING_DEFAULTS | {"output_dir": "outputs/xnli"}
    args, training_args = parse_arguments(
        (NliArguments, TrainingArguments), argv, defaults=defaults, description=__doc__
    )
    if training_args.push_to_hub:
        raise ValueError("push_to_hub: this recipe writes a folder only; upload it with `hf upload NAME FOLDER`.")
    checkpoint = last_checkpoint(training_args)
    data = load_nli_data(args, seed=training_args.seed)
    model, tokenizer = load_classifier(args.base_model, args.base_revision, seed=training_args.seed)
    trainer = nli_trainer(args, training_args, data, model, tokenizer)
    chosen = fit(trainer, checkpoint)

    predictions = predict(trainer, {"dev": data.dev, **data.test}, args.max_length)
    state = trainer.accelerator.get_state_dict(trainer.model_wrapped)
    if not trainer.is_world_process_zero():
        return []
    settings = {"fine_tuned_on": f"{len(data.train)} examples ({args.train_lang})", **chosen}
    fields = {"dataset": args.data_name, "model": model_name(args), "seed": training_args.seed, "settings": settings}
    dev = {args.train_lang: predictions.pop("dev")}
    results = nli_results(dev, {args.train_lang: data.dev}, train_lang=args.train_lang, split="dev", **fields)
    results += nli_results(predictions, data.test, train_lang=args.train_lang, split="test", **fields)

    folder = Path(training_args.output_dir) / "model"
    with atomic_path(folder) as scratch:
        model.save_pretrained(scratch, state_dict=state)
        if tokenizer.is_fast:  # truncation and padding of the last call would be stored as if they were the model's
            tokenizer.backend_tokenizer.no_truncation()
            tokenizer.backend_tokenizer.no_padding()
        tokenizer.save_pretrained(scratch)
        write_results(scratch / "results.json", results, recipe=RECIPE, settings=resolved(args, training_args))
    print(summary(results))
    print(f"{settings['fine_tuned_on']}, {chosen}\nmodel folder: {folder}")
    return results


def model_name(args: NliArguments) -> str:
    """The encoder's name without the folders above it."""
    return Path(args.base_model).resolve().name if Path(args.base_model).exists() else args.base_model


def summary(results: Sequence[EvalResult]) -> str:
    """A language a row, the average last."""
    table = [
        (
            row.split,
            row.direction,
            row.metric.removeprefix("accuracy "),
            row.n,
            row.value,
            f"{row.low:.1f}-{row.high:.1f}",
        )
        for row in results
    ]
    return format_table(["split", "direction", "metric", "n", "%", "95 %"], table)


if __name__ == "__main__":
    run_recipe(main)
