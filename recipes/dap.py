"""Dual-alignment pre-training: translation ranking and representation translation learning (Li et al. 2023).

accelerate launch recipes/dap.py --config recipes/configs/dap/quickstart.yaml [--key value ...]
"""

import shlex
import sys
from pathlib import Path

from transformers import TrainingArguments

from hfxling.arguments import parse_arguments, resolved, run_recipe
from hfxling.evaluation.results import EvalResult
from hfxling.hub.card import CardInfo
from hfxling.hub.export import export
from hfxling.hub.publish import check_push, publish
from hfxling.training.dap import Prepared, prepare, run
from hfxling.training.dap.arguments import TRAINING_DEFAULTS, DapArguments
from hfxling.training.dap.evaluate import before_and_after

LIMITS = (
    "Sentence vectors are compared by cosine; scores are not calibrated across languages.",
    "A language that the encoder was not pre-trained on, or that has little parallel text, is served badly.",
)


def main(argv: list[str] | None = None) -> list[EvalResult]:
    argv = sys.argv[1:] if argv is None else argv
    defaults = TRAINING_DEFAULTS | {"output_dir": "outputs/dap"}
    args, training_args = parse_arguments(
        (DapArguments, TrainingArguments), argv, defaults=defaults, description=__doc__
    )
    push, training_args.push_to_hub = training_args.push_to_hub, False  # the finished folder, not checkpoints
    if push:
        check_push(training_args.hub_model_id, training_args.hub_token)
    prepared = prepare(args, training_args.device)
    done = run(args, training_args, prepared)
    if not training_args.should_save:  # one process writes
        return done.results
    folder = publish(
        Path(training_args.output_dir) / "model",
        lambda scratch: export(done.model.to("cpu"), prepared.tokenizer, scratch, max_length=prepared.max_length),
        done.results,
        card_info(args, training_args, prepared, argv),
        recipe="recipes/dap.py",
        extra={"fitted": done.reached},
        push=push,
        private=bool(training_args.hub_private_repo),
        token=training_args.hub_token,
    )
    print(before_and_after(done.results))
    print(f"{done.reached}\nmodel folder: {folder}")
    return done.results


def card_info(args: DapArguments, training_args: TrainingArguments, prepared: Prepared, argv: list[str]) -> CardInfo:
    """What the card says beside the results."""
    licence = args.data_licence or ("apache-2.0" if args.train_data == ["sample"] else None)
    languages = [*args.languages, args.pivot]
    token = training_args.hub_token
    settings = {key: value for key, value in resolved(args, training_args).items() if value != []}
    return CardInfo(
        repo_id=training_args.hub_model_id or f"{'-'.join(languages) if len(languages) < 4 else 'multilingual'}-dap",
        method="dap",
        base_model=args.base_model,
        languages=languages,
        licence=licence or "other",
        train_data=prepared.corpus.card_entries(licence),
        intended_use=f"Finding translations between {', '.join(args.languages)} and {args.pivot}: retrieval, mining "
        "and cleaning of parallel sentences; the encoder also serves as a start for cross-lingual fine-tuning.",
        limits=LIMITS,
        training_command=shlex.join(
            ["accelerate", "launch", "recipes/dap.py", *(w.replace(token, "TOKEN") if token else w for w in argv)]
        ),
        configuration={"objective": args.objective, "pooling": args.pooling} | settings,
    )


if __name__ == "__main__":
    run_recipe(main)
