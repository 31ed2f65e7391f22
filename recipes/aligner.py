"""Contrastive BiLSTM word aligner (Zhang et al. 2024), trained from scratch on parallel text.

python recipes/aligner.py --config recipes/configs/aligner_quickstart.yaml [--key value ...]
"""

import os
import shlex
import sys
from pathlib import Path

import torch
from transformers import TrainingArguments

from hfxling.data.sample import dictionary as sample_dictionary
from hfxling.data.segment import load_vocabularies, normalize
from hfxling.evaluation.lexicon import lexicon_results, read_dictionary, score_lexicon, word_table
from hfxling.evaluation.results import EvalResult, format_table
from hfxling.hub.card import CardInfo
from hfxling.hub.publish import check_push, publish
from hfxling.models.modeling_aligner import AlignerModel
from hfxling.training.aligner import (
    TRAINING_DEFAULTS,
    AlignerArguments,
    Dictionaries,
    dice_dictionaries,
    dictionary_evaluator,
    encode_pairs,
    learn_corpus_vocabularies,
    load_corpora,
    new_model,
    train_aligner,
)
from hfxling.training.aligner_export import export_aligner
from hfxling.training.arguments import parse_arguments, resolved, run_recipe

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
    dictionaries = test_dictionaries(args)
    corpora = load_corpora(args, training_args.seed)
    model, vocabularies, pairs = start(args, corpora, training_args.seed)
    dice = dice_dictionaries(pairs, vocabularies)
    results = evaluate(model, vocabularies, dictionaries, stage="before", seed=training_args.seed)
    score = [dictionary_evaluator(vocabularies, dice)] if dice else []
    # A start from cooccurrences knows the Dice dictionary by heart: it would always be the best.
    record = train_aligner(args, training_args, model, pairs, score if args.init == "random" else [])
    if not training_args.should_save:  # one process evaluates and writes
        return []
    results += evaluate(model, vocabularies, dictionaries, stage="after", seed=training_args.seed)
    results += [row for evaluator in score for row in evaluator(model)]
    folder = publish(
        Path(training_args.output_dir) / "model",
        lambda scratch: export_aligner(model, vocabularies, scratch),
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


def test_dictionaries(args: AlignerArguments) -> Dictionaries:
    """The dictionaries to test on; the embedded corpus brings its own."""
    found: Dictionaries = {pair: read_dictionary(path) for pair, path in args.dictionary_paths().items()}
    pair = (args.source_lang, args.target_lang)
    if args.train_data == ["sample"] and pair not in found:
        entries: dict[str, set[str]] = {}
        for source, target in sample_dictionary(*pair):
            entries.setdefault(normalize(source), set()).add(normalize(target))
        found[pair] = entries
    return found


def start(args: AlignerArguments, corpora: list, seed: int) -> tuple:
    """A new model with vocabularies of the training text, or a published one with its own; and the encoded text."""
    if args.model is None:
        vocabularies = learn_corpus_vocabularies(args, corpora)
        pairs = encode_pairs(corpora, vocabularies, max_words=args.max_words)
        torch.manual_seed(seed)
        return new_model(args, vocabularies, pairs), vocabularies, pairs
    try:
        model = AlignerModel.from_pretrained(args.model)
    except OSError as error:
        cause = str(error).partition("\n")[0]
        raise FileNotFoundError(f"model={args.model!r} is no aligner's folder or Hub id ({cause}).") from None
    for pair in args.pair_arguments():
        model.check_language(pair.source_lang)
        model.check_language(pair.target_lang)
    vocabularies = load_vocabularies(args.model, model.config.languages)
    return model, vocabularies, encode_pairs(corpora, vocabularies, max_words=args.max_words)


def evaluate(model, vocabularies, dictionaries: Dictionaries, *, stage: str, seed: int) -> list[EvalResult]:
    """P@1, P@5 and coverage of the static vectors on every dictionary whose languages the model has."""
    rows = []
    for (source, target), entries in dictionaries.items():
        if source not in vocabularies or target not in vocabularies:
            raise ValueError(f"dictionaries: {source}-{target}: the model has {', '.join(vocabularies)} only.")
        sides = (source, entries), (target, sorted(set().union(*entries.values())))
        tables = [word_table(vocabularies[lang], model.static_table(lang).cpu(), words) for lang, words in sides]
        fields = {"dataset": f"dictionary {source}-{target}", "split": "test", "direction": f"{source}->{target}"}
        settings = {"stage": stage, "method": "csls"}
        scores = score_lexicon(entries, *tables)
        rows += lexicon_results(scores, entries, settings=settings, seed=seed, **fields)
    return rows


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
        stages.setdefault((row.dataset, row.direction, row.metric), {})[row.settings.get("stage", "after")] = row
    table = [
        (*key, rows["before"].value if "before" in rows else "", rows["after"].value, rows["after"].n)
        for key, rows in stages.items()
    ]
    return format_table(["dataset", "direction", "metric", "before", "after", "n"], table)


if __name__ == "__main__":
    run_recipe(main)
