"""Contrastive BiLSTM word aligner (Zhang et al. 2024), trained from scratch on parallel text.

python recipes/aligner.py --config recipes/configs/aligner/quickstart.yaml [--key value ...]
"""

import dataclasses
import os
import shlex
import sys
from pathlib import Path

import torch
from transformers import TrainingArguments

from hfxling.alignment.prior import load_prior
from hfxling.arguments import parse_arguments, resolved, run_recipe
from hfxling.data.segment import load_vocabularies
from hfxling.evaluation.results import EvalResult, format_table
from hfxling.hub.card import CardInfo
from hfxling.hub.publish import check_push, publish
from hfxling.models.modeling_aligner import AlignerModel
from hfxling.training.aligner.arguments import TRAINING_DEFAULTS, AlignerArguments
from hfxling.training.aligner.data import encode_pairs, learn_corpus_vocabularies, learn_priors, load_corpora
from hfxling.training.aligner.evaluate import dictionary_counts, evaluate
from hfxling.training.aligner.export import export_aligner
from hfxling.training.aligner.train import fit, new_model

LIMITS = (
    "Trained from scratch on few sentence pairs: words that these do not hold have no vector of their own.",
    "Words are the vocabularies' segments (tokenizer folders); they need not be those of a dictionary.",
)
STATIC = """from sentence_transformers import SentenceTransformer

model = SentenceTransformer("{repo}")
source = model.encode(["..."], task="{source}")  # mean of static word vectors
target = model.encode(["..."], task="{target}")
print(model.similarity(source, target))"""
CONTEXTUAL = """import torch
from transformers import AutoModel, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("{repo}", subfolder="tokenizer_{source}")
model = AutoModel.from_pretrained("{repo}", trust_remote_code=True)
batch = tokenizer(["..."], padding=True, return_tensors="pt")
with torch.no_grad():
    output = model(**batch, language="{source}")
output.last_hidden_state, output.static, output.sentence_embedding"""
SENTENCES = """from huggingface_hub import snapshot_download
from sentence_transformers import SentenceTransformer

model = SentenceTransformer(snapshot_download("{repo}") + "/contextual", trust_remote_code=True)
vectors = model.encode(["..."], task="{source}")"""
LINKS = """# hfxling installed
python recipes/align.py source.txt target.txt --model {repo} > links.txt"""


def main(argv: list[str] | None = None) -> list[EvalResult]:
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(1)  # LSTMs of this size gain little from more
    argv = sys.argv[1:] if argv is None else argv
    args, training_args = parse_arguments(
        (AlignerArguments, TrainingArguments),
        argv,
        defaults=TRAINING_DEFAULTS | {"output_dir": "outputs/aligner"},
        description=__doc__,
    )
    if training_args.push_to_hub:
        check_push(training_args.hub_model_id, training_args.hub_token)
    corpora = load_corpora(args, training_args.seed)
    model, vocabularies, pairs, priors = start(args, corpora, training_args.seed)
    counts = dictionary_counts(args, pairs, vocabularies) if priors else None
    results = evaluate(args, model, vocabularies, priors, counts, stage="before")
    record = fit(args, training_args, model, vocabularies, pairs, priors)
    if not training_args.should_save:  # one process evaluates and writes
        return []
    results += evaluate(args, model, vocabularies, priors, counts, stage="after")
    results = [dataclasses.replace(row, seed=training_args.seed) for row in results]
    folder = publish(
        Path(training_args.output_dir) / "model",
        lambda scratch: export_aligner(model, vocabularies, scratch, priors),
        results,
        card_info(args, training_args, corpora, argv),
        recipe="recipes/aligner.py",
        extra={"trained": record},
        push=training_args.push_to_hub,
        private=bool(training_args.hub_private_repo),
        token=training_args.hub_token,
    )
    print(summary(results))
    print(f"{record['epochs']:.0f} epochs, {record['cpu_seconds']:.0f} CPU seconds\nmodel folder: {folder}")
    return results


def start(args: AlignerArguments, corpora: list, seed: int) -> tuple:
    """A new model with vocabularies of the training text, or a published one with its own; and the encoded text."""
    if args.model is None:
        vocabularies = learn_corpus_vocabularies(args, corpora)
        pairs = encode_pairs(corpora, vocabularies, max_words=args.max_words)
        torch.manual_seed(seed)
        priors = learn_priors(pairs, vocabularies) if args.prior or args.init == "links" else []
        return new_model(args, vocabularies, pairs, priors).eval(), vocabularies, pairs, priors if args.prior else []
    try:
        model = AlignerModel.from_pretrained(args.model)
    except OSError as error:
        cause = str(error).partition("\n")[0]
        raise FileNotFoundError(f"model={args.model!r} is no aligner's folder or Hub id ({cause}).") from None
    for pair in args.pair_arguments():
        model.check_language(pair.source_lang)
        model.check_language(pair.target_lang)
    vocabularies = load_vocabularies(args.model, model.config.languages)
    pairs = encode_pairs(corpora, vocabularies, max_words=args.max_words)
    priors = [load_prior(args.model, model.config, corpus.languages) for corpus in pairs]
    if None in priors and (args.prior or any(priors)):
        known = ", ".join(model.config.priors) or "no pair"
        raise ValueError(
            f"model={args.model!r} has a prior for {known}; give text of those only, or leave --prior out."
        )
    return model.eval(), vocabularies, pairs, [prior for prior in priors if prior]


def card_info(args: AlignerArguments, training_args: TrainingArguments, corpora: list, argv: list[str]) -> CardInfo:
    """What the card says beside the results."""
    licence = args.data_licence or ("apache-2.0" if args.train_data == ["sample"] else None)
    languages = list(dict.fromkeys(lang for p in args.pair_arguments() for lang in (p.source_lang, p.target_lang)))
    source, target = languages[:2]
    repo_id, token = training_args.hub_model_id or f"{source}-{target}-aligner", training_args.hub_token
    snippets = {
        "Static vectors, with sentence-transformers alone": STATIC,
        "Contextual vectors, with transformers (runs the code of this repository)": CONTEXTUAL,
        "Contextual sentence vectors, with sentence-transformers (runs the code of this repository)": SENTENCES,
        "Word links": LINKS,
    }
    return CardInfo(
        repo_id=repo_id,
        method="aligner",
        base_model="none, trained from scratch",
        languages=languages,
        licence=licence or "other",
        train_data=[corpus.card_entry(licence) for corpus in corpora],
        intended_use=f"Word alignment and word translation between {' and '.join(languages)}.",
        limits=[*args.limits, *LIMITS],
        loading={k: v.format(repo=repo_id, source=source, target=target) for k, v in snippets.items()},
        training_command=shlex.join(
            ["python", "recipes/aligner.py", *(word.replace(token, "TOKEN") if token else word for word in argv)]
        ),
        configuration={k: v for k, v in resolved(args, training_args).items() if v != []},
    )


def summary(results: list[EvalResult]) -> str:
    """Before and after at a glance."""
    stages: dict[tuple, dict[str, EvalResult]] = {}
    for row in results:
        how = " ".join(filter(None, (row.direction, row.settings.get("decoding"))))
        stages.setdefault((row.dataset, how, row.metric), {})[row.settings["stage"]] = row
    table = [(*key, rows["before"].value, rows["after"].value, rows["after"].n) for key, rows in stages.items()]
    return format_table(["dataset", "direction or decoding", "metric", "before", "after", "n"], table)


if __name__ == "__main__":
    run_recipe(main)
