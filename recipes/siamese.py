"""Siamese linear head on a frozen encoder layer ("mBERT-SF"; Huang et al. 2023).

python recipes/siamese.py --config recipes/configs/siamese/quickstart.yaml [--key value ...]
"""

import shlex
import sys
from pathlib import Path

from transformers import AutoTokenizer, TrainingArguments

from hfxling.arguments import parse_arguments, resolved, run_recipe
from hfxling.data.corpus import Corpus, load_corpus
from hfxling.encoding import token_limit
from hfxling.evaluation.plots import scatter_before_after
from hfxling.evaluation.results import EvalResult, format_table
from hfxling.hub.card import CardInfo
from hfxling.hub.export import export
from hfxling.hub.publish import check_push, publish
from hfxling.models import SiameseConfig, SiameseModel
from hfxling.training.siamese.arguments import TRAINING_DEFAULTS, SiameseArguments
from hfxling.training.siamese.data import PairVectors, encode_corpus
from hfxling.training.siamese.evaluate import evaluate_head
from hfxling.training.siamese.train import fit_head, plain_output

LIMITS = (
    "Trained on few sentence pairs of one language pair; text of other domains may fare worse than the test text.",
    "The encoder is frozen: what its vocabulary or its pretraining does not cover, the head cannot add.",
)

HEAD_SNIPPET = """import torch
from hfxling import SiameseModel

model = SiameseModel.from_pretrained("{}").eval()
vectors = torch.randn(1, model.config.hidden_size)  # yours, made as the training vectors were
with torch.no_grad():
    embeddings = model(features=vectors, language="{}").sentence_embedding"""


def main(argv: list[str] | None = None) -> list[EvalResult]:
    argv = sys.argv[1:] if argv is None else argv
    defaults = TRAINING_DEFAULTS | {"output_dir": "outputs/siamese"}
    args, training_args = parse_arguments(
        (SiameseArguments, TrainingArguments), argv, defaults=defaults, description=__doc__
    )
    if training_args.push_to_hub:
        check_push(training_args.hub_model_id, training_args.hub_token)
    corpus = load_corpus(args, seed=training_args.seed)
    (vectors,) = encode_corpus(args, corpus)
    head, chosen = fit_head(args, training_args, vectors, corpus.train["target"])
    if not training_args.should_save:  # one process evaluates and writes
        return []
    results = evaluate_head(args, corpus, vectors, head, training_args.seed)

    model = assemble(args, vectors, head)
    folder = publish(
        Path(training_args.output_dir) / "model",
        lambda scratch: write_model(args, model, scratch, vectors),
        results,
        card_info(args, training_args, corpus, argv),
        recipe="recipes/siamese.py",
        extra={"fitted": chosen},
        push=training_args.push_to_hub,
        private=bool(training_args.hub_private_repo),
        token=training_args.hub_token,
    )
    print(summary(results))
    print(f"{len(corpus.train)} training pairs, {args.fit} {chosen}\nmodel folder: {folder}")
    return results


def assemble(args: SiameseArguments, vectors: PairVectors, head) -> SiameseModel:
    """The head on its encoder; on nothing where only vectors were given."""
    settings = args.head_settings()
    if args.base_model is None:
        model = SiameseModel(SiameseConfig(hidden_size=vectors.hidden_size, layer=None, **settings))
    else:
        hub_kwargs = {"revision": args.base_revision} if args.base_revision else None
        layer, pooling = args.layer_index, args.pooling
        model = SiameseModel.from_encoder(
            args.base_model, layer=layer, pooling=pooling, hub_kwargs=hub_kwargs, **settings
        )
    model.head.load_state_dict(head.state_dict())
    return model.eval()


def write_model(args: SiameseArguments, model: SiameseModel, folder: Path, vectors: PairVectors) -> None:
    """Weights, tokenizer and the before/after picture."""
    tokenizer = limit = None
    if args.base_model is not None:
        tokenizer = AutoTokenizer.from_pretrained(args.base_model, revision=args.base_revision, trust_remote_code=False)
        limit = token_limit(tokenizer, model.encoder.config, args.max_length)
    export(model, tokenizer, folder, max_length=limit)
    after = [plain_output(model.head, array, lang) for array, lang in zip(vectors.test, args.languages)]
    scatter_before_after(folder / "embeddings.png", vectors.test, after, args.languages)


def card_info(args: SiameseArguments, training_args: TrainingArguments, corpus: Corpus, argv: list[str]) -> CardInfo:
    """What the card says beside the results."""
    licence = args.data_licence or ("apache-2.0" if args.train_data == ["sample"] else None)
    languages = f"{args.source_lang} and {args.target_lang}"
    repo_id = training_args.hub_model_id or f"{args.source_lang}-{args.target_lang}-sf"
    token = training_args.hub_token
    settings = {key: value for key, value in resolved(args, training_args).items() if value != []}
    return CardInfo(
        repo_id=repo_id,
        method="siamese",
        base_model=args.base_model or "precomputed vectors",
        languages=args.languages,
        licence=licence or "other",
        train_data=[corpus.card_entry(licence)],
        intended_use=f"Finding translations between {languages}: retrieval, mining and cleaning of parallel sentences.",
        limits=[*args.limits, *LIMITS],
        loading={} if args.base_model else {"On vectors of your own": HEAD_SNIPPET.format(repo_id, args.source_lang)},
        coverage=corpus.coverage,
        training_command=shlex.join(
            ["python", "recipes/siamese.py", *(word.replace(token, "TOKEN") if token else word for word in argv)]
        ),
        configuration={"fit": args.fit, "layer": args.layer, "pooling": args.pooling} | settings,
    )


def summary(results: list[EvalResult]) -> str:
    """Before and after at a glance."""
    cells: dict[tuple, dict[str, EvalResult]] = {}
    for row in results:
        key = (row.direction, row.settings["method"], row.settings["centering"])
        cells.setdefault(key, {})[f"{row.metric} {row.settings['stage']}"] = row
    names = ["P@1 before", "P@1 after", "P@5 before", "P@5 after"]
    table = [
        (*key, *(rows[name].value for name in names), f"{rows['P@1 after'].low:.1f}-{rows['P@1 after'].high:.1f}")
        for key, rows in cells.items()
    ]
    return format_table(["direction", "similarity", "centring", *names, "P@1 after, 95 %"], table)


if __name__ == "__main__":
    run_recipe(main)
