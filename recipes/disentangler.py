"""Meaning/language disentangler: a frozen encoder's sentence vectors split in two (Nonomura et al.).

python recipes/disentangler.py --config recipes/configs/disentangler/quickstart.yaml [--key value ...]
"""

import shlex
import sys
from pathlib import Path

from transformers import AutoTokenizer, TrainingArguments

from hfxling.arguments import parse_arguments, resolved, run_recipe
from hfxling.encoding import token_limit
from hfxling.evaluation.plots import plot_trajectory
from hfxling.evaluation.results import EvalResult, format_table
from hfxling.hub.card import CardInfo
from hfxling.hub.export import export
from hfxling.hub.publish import check_push, publish
from hfxling.models import DisentanglerConfig, DisentanglerModel
from hfxling.training.disentangler.arguments import TRAINING_DEFAULTS, DisentanglerArguments
from hfxling.training.disentangler.data import SplitData, encode
from hfxling.training.disentangler.evaluate import evaluate
from hfxling.training.disentangler.train import FittedSplit, fit

LIMITS = (
    "The meaning part is a linear map of the encoder's vectors: what the encoder does not know, it cannot add.",
    "Cosines of meaning parts rank pairs; they are no probabilities, and do not compare across language pairs.",
)
SNIPPETS = {
    "On vectors of your own": """import torch
from hfxling import DisentanglerModel

model = DisentanglerModel.from_pretrained("{name}").eval()
vectors = torch.randn(1, model.config.hidden_size)  # yours, made as the training vectors were
with torch.no_grad():
    parts = model(features=vectors)  # parts.meaning + parts.language == parts.pooled""",
    "With sentence-transformers alone: meaning": """from sentence_transformers import SentenceTransformer

model = SentenceTransformer("{name}")
embeddings = model.encode(["It is raining today.", "Il pleut aujourd'hui."])
print(model.similarity(embeddings, embeddings))""",
    "With transformers: meaning and language": """import torch
from transformers import AutoModel, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("{name}", trust_remote_code=True)
model = AutoModel.from_pretrained("{name}", trust_remote_code=True).eval()
batch = tokenizer([(model.config.prompt or "") + "It is raining today."], return_tensors="pt")
with torch.no_grad():
    parts = model(**batch)  # parts.meaning + parts.language == parts.pooled""",
}


def main(argv: list[str] | None = None) -> list[EvalResult]:
    argv = sys.argv[1:] if argv is None else argv
    defaults = TRAINING_DEFAULTS | {"output_dir": "outputs/disentangler"}
    args, training_args = parse_arguments(
        (DisentanglerArguments, TrainingArguments), argv, defaults=defaults, description=__doc__
    )
    if training_args.push_to_hub:
        check_push(training_args.hub_model_id, training_args.hub_token)
    data = encode(args)
    fitted = fit(args, training_args, data)
    if not training_args.should_save:  # one process evaluates and writes
        return []
    results = evaluate(args, data, fitted, training_args.seed)
    model = assemble(args, data, fitted)
    folder = publish(
        Path(training_args.output_dir) / "model",
        lambda scratch: write_model(args, model, scratch, fitted),
        results,
        card_info(args, training_args, data, fitted, argv),
        recipe="recipes/disentangler.py",
        extra={"fitted": fitted.about, "trajectory": fitted.trajectory},
        push=training_args.push_to_hub,
        private=bool(training_args.hub_private_repo),
        token=training_args.hub_token,
    )
    print(summary(results))
    print(f"objective {fitted.objective}, {fitted.about}\nmodel folder: {folder}")
    return results


def assemble(args: DisentanglerArguments, data: SplitData, fitted: FittedSplit) -> DisentanglerModel:
    """The split on its encoder; on nothing where only vectors were given."""
    settings = args.head_settings()
    if args.base_model is None:
        model = DisentanglerModel(DisentanglerConfig(hidden_size=data.hidden_size, **settings))
    else:
        hub_kwargs = {"revision": args.base_revision} if args.base_revision else None
        model = DisentanglerModel.from_encoder(args.base_model, hub_kwargs=hub_kwargs, **settings)
    model.head.load_state_dict(fitted.head.state_dict())
    return model.eval()


def write_model(args: DisentanglerArguments, model: DisentanglerModel, folder: Path, fitted: FittedSplit) -> None:
    """Weights, tokenizer and the trajectory of alignment and uniformity."""
    tokenizer = limit = None
    if args.base_model is not None:
        tokenizer = AutoTokenizer.from_pretrained(args.base_model, revision=args.base_revision, trust_remote_code=False)
        limit = token_limit(tokenizer, model.encoder.config, args.max_length)
    export(model, tokenizer, folder, max_length=limit)
    plot_trajectory(folder / "trajectory.png", {fitted.objective: [point[1:] for point in fitted.trajectory]})


def card_info(
    args: DisentanglerArguments, training_args: TrainingArguments, data: SplitData, fitted: FittedSplit, argv: list[str]
) -> CardInfo:
    """What the card says beside the results."""
    licence = args.data_licence or ("apache-2.0" if args.train_data == ["sample"] else None)
    repo_id = training_args.hub_model_id or f"{'-'.join(data.corpus.languages)}-meaning"
    token = training_args.hub_token
    settings = {key: value for key, value in resolved(args, training_args).items() if value != []}
    wanted = [title for title in SNIPPETS if (args.base_model is None) == title.startswith("On vectors")]
    return CardInfo(
        repo_id=repo_id,
        method="disentangler",
        base_model=args.base_model or "precomputed vectors",
        languages=data.corpus.languages,
        licence=licence or "other",
        train_data=[data.corpus.card_entry(licence)],
        intended_use="Similarity of sentences across languages: translation quality without references, retrieval.",
        limits=[*args.limits, *LIMITS],
        loading={title: SNIPPETS[title].format(name=repo_id) for title in wanted},
        coverage=data.corpus.coverage,
        training_command=shlex.join(
            ["python", "recipes/disentangler.py", *(word.replace(token, "TOKEN") if token else word for word in argv)]
        ),
        configuration=settings | {"objective": fitted.objective},
    )


def summary(results: list[EvalResult]) -> str:
    """Before and after at a glance."""
    cells: dict[tuple, dict[str, EvalResult]] = {}
    for row in results:
        cells.setdefault((row.dataset, row.direction, row.metric), {})[row.settings["stage"]] = row
    table = []
    for key, rows in cells.items():
        values = [f"{rows[stage].value:.3f}" if stage in rows else "" for stage in ("before", "after")]
        paired = rows["after"].settings.get("paired")
        table.append([*key, *values, f"{paired['p_value']:.3f}" if paired else ""])
    return format_table(["dataset", "direction", "metric", "before", "after", "p"], table)


if __name__ == "__main__":
    run_recipe(main)
