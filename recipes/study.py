"""A study of the siamese method: one row a setting, the paper's figures beside ours.

python recipes/study.py --config recipes/configs/siamese_study_layers.yaml --base_model ... [--key value ...]

The configuration's `study` entry holds name, title, seeds and rows; a row has a label, the keys it sets, the paper's
P@1 and P@5 where there are any, and may ask for a `fraction` of the training pairs or test on `paragraphs`. All other
keys are those of recipes/siamese.py.
"""

import difflib
import json
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path

import numpy as np
import yaml
from transformers import AutoConfig, TrainingArguments

from hfxling.data.documents import join_paragraphs
from hfxling.evaluation.learning_curve import forecast
from hfxling.evaluation.results import EvalResult, format_table, write_results
from hfxling.evaluation.retrieval import Ranking, ranking_results
from hfxling.evaluation.significance import bootstrap_interval, paired_test
from hfxling.training.arguments import as_tokens, parse_arguments, resolved, run_recipe
from hfxling.training.corpus import Corpus, CorpusArguments, load_corpus
from hfxling.training.siamese import (
    TRAINING_DEFAULTS,
    PairVectors,
    SiameseArguments,
    encode_corpus,
    fit_head,
    model_name,
    one_line_where_missing,
    rank_head,
)

ROW_KEYS = ("label", "set", "paper", "fraction", "paragraphs")
# What decides the text and the vectors of a row, its layer and pooling apart.
SOURCE_KEYS = (
    *CorpusArguments.__dataclass_fields__,
    *("base_model", "base_revision", "encode_dtype", "max_length", "train_vectors", "test_vectors"),
)


MODEL_KEYS = SiameseArguments.__dataclass_fields__ | TrainingArguments.__dataclass_fields__


@dataclass
class StudyArguments:
    name: str = field(metadata={"help": "of the results file"})
    title: str = field(metadata={"help": "what is studied, with the paper's table"})
    rows: str = field(metadata={"help": "JSON list of {label, set, paper, fraction, paragraphs}"})
    seeds: list[int] = field(default_factory=lambda: [0, 1, 2], metadata={"help": "runs of every row"})
    results_dir: str = field(default="results", metadata={"help": "where NAME.json is written"})


def main(argv: list[str] | None = None) -> list[EvalResult]:
    study, rows, base, command_line = read_study(list(sys.argv[1:] if argv is None else argv))
    settings = [
        parse_arguments(
            (SiameseArguments, TrainingArguments), command_line + as_tokens(row.get("set") or {}), defaults=base
        )
        for row in rows
    ]
    kept = [(row, *arguments) for row, arguments in zip(rows, settings) if has_layer(arguments[0])]
    if not kept:
        raise ValueError(f"study {study.name}: the encoder has none of the layers that the rows name.")
    views: dict[str, list] = {}
    for row, args, _ in kept:
        views.setdefault(source_key(args, row), []).append((args.layer_index, args.pooling))
    results, table, cache, encoders = [], [], {}, set()
    for row, args, training_args in kept:
        corpus, vectors = encode(args, row, views, cache)
        before, runs, pairs = run_row(args, training_args, row, study.seeds, corpus, vectors)
        encoder = (args.base_model, args.layer, args.pooling, corpus.revision("test"))
        results += row_results(args, row, corpus, before, runs, pairs, with_before=encoder not in encoders)
        encoders.add(encoder)
        table.append(summarize(row, before, runs, pairs))
        print(table[-1], file=sys.stderr, flush=True)
    path = Path(study.results_dir) / f"{study.name}.json"
    about = {"title": study.title, "rows": rows}
    write_results(path, results, recipe="recipes/study.py", settings=resolved(*settings[0]), extra=about)
    report(study, rows, table, results)
    return results


def read_study(argv: list[str]) -> tuple[StudyArguments, list[dict], dict, list[str]]:
    """The study, its rows, the other keys of its configuration, and what is left of the command line."""
    argv = [part for word in argv for part in (word.split("=", 1) if word.startswith("--config=") else [word])]
    if "--config" not in argv[:-1]:
        raise ValueError("give --config recipes/configs/siamese_study_NAME.yaml.")
    at = argv.index("--config")
    path, rest = Path(argv[at + 1]), argv[:at] + argv[at + 2 :]
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such configuration; the studies are in recipes/configs/.")
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: not valid YAML ({error}).") from None
    study = content.pop("study", None) if isinstance(content, dict) else None
    if not isinstance(study, dict) or not isinstance(study.get("rows"), list):
        raise ValueError(f"{path}: has no 'study' entry with rows; to train one model use recipes/siamese.py.")
    check_keys(study, StudyArguments.__dataclass_fields__, f"{path}, study")
    check_keys(content, MODEL_KEYS, str(path))
    own, other = [], []
    for i, word in enumerate(rest):  # the study's own keys may be given on the command line, too
        named = next((w for w in reversed(rest[: i + 1]) if w.startswith("--")), "")
        (own if named[2:].split("=")[0] in StudyArguments.__dataclass_fields__ else other).append(word)
    study["rows"] = json.dumps(study["rows"])
    (parsed,) = parse_arguments((StudyArguments,), own, defaults=study)
    rows = json.loads(parsed.rows)
    for number, row in enumerate(rows, 1):
        check_keys(row, ROW_KEYS, f"{path}, row {number}")
        check_keys(row.get("set") or {}, MODEL_KEYS, f"{path}, row {number}")
    if len({row.get("label") for row in rows} - {None}) < len(rows):
        raise ValueError(f"{path}: every row needs a label of its own.")
    return parsed, rows, TRAINING_DEFAULTS | {"output_dir": "outputs/study", "save_strategy": "no"} | content, other


def check_keys(given: Iterable[str], known: Iterable[str], where: str) -> None:
    """Refuse an unknown key and name the nearest known one."""
    for key in given:
        if key not in known:
            near = difflib.get_close_matches(str(key), known, n=1, cutoff=0.0)
            raise ValueError(f"unknown key {key!r} in {where}; the nearest known one is {near[0]!r}.")


def has_layer(args: SiameseArguments) -> bool:
    """Whether the encoder is deep enough for the row."""
    if not isinstance(args.layer_index, int) or args.base_model is None:
        return True
    with one_line_where_missing(args.base_model):
        config = AutoConfig.from_pretrained(args.base_model, revision=args.base_revision, trust_remote_code=False)
    return args.layer_index <= config.num_hidden_layers


def source_key(args: SiameseArguments, row: dict) -> str:
    """The same for rows that share text and encoder."""
    return json.dumps([*(getattr(args, name) for name in SOURCE_KEYS), row.get("paragraphs")])


def encode(args: SiameseArguments, row: dict, views: dict[str, list], cache: dict) -> tuple[Corpus, PairVectors]:
    """Text and vectors of a row; text that several rows share is read once, all layers in one pass."""
    key = source_key(args, row)
    if key not in cache:
        corpus = load_corpus(args)
        if row.get("paragraphs"):
            corpus.test = join_paragraphs(corpus.test)
        wanted = list(dict.fromkeys(views[key]))
        encoded = encode_corpus(args, corpus, wanted)  # a single one where vectors were given: it serves every layer
        cache[key] = corpus, dict(zip(wanted, cycle(encoded)))
    corpus, vectors = cache[key]
    return corpus, vectors[args.layer_index, args.pooling]


def run_row(
    args: SiameseArguments, training_args: TrainingArguments, row: dict, seeds: list[int], corpus, vectors: PairVectors
) -> tuple[list[Ranking], dict[int, list[Ranking]], int]:
    """Rankings before, rankings of every seed after, and the number of training pairs."""
    before, runs = rank_head(args, vectors, None), {}
    count = round(len(corpus.train) * row.get("fraction", 1))
    whole = count == len(corpus.train)
    for seed in seeds:  # of the folds, where the head is fitted in closed form
        training_args.seed = seed
        chosen = np.arange(count) if whole else np.random.default_rng(seed).permutation(len(corpus.train))[:count]
        part = vectors if whole else PairVectors(tuple(array[chosen] for array in vectors.train), vectors.test)
        head, _ = fit_head(args, training_args, part, [corpus.train["target"][int(i)] for i in chosen])
        runs[seed] = rank_head(args, part, head)
    return before, runs, count


def row_results(
    args: SiameseArguments,
    row: dict,
    corpus: Corpus,
    before: list[Ranking],
    runs: dict[int, list[Ranking]],
    pairs: int,
    *,
    with_before: bool,
) -> list[EvalResult]:
    """Result rows of one study row; the encoder's own are listed once, however many heads it gets."""
    encoder = {"layer": args.layer, "pooling": args.pooling}
    fields = corpus.result_fields() | {"model": model_name(args)}
    results = []
    if with_before:
        results += ranking_results(before, settings=encoder | {"stage": "before"}, **fields)
    for seed, rankings in runs.items():
        after = encoder | {"stage": "after", "row": row["label"], "fit": args.fit, "pairs": pairs}
        results += ranking_results(rankings, baseline=before, settings=after, seed=seed, **fields)
    return results


def summarize(row: dict, before: list[Ranking], runs: dict[int, list[Ranking]], pairs: int) -> list:
    """One line of the table: source to target, uncentred and centred on the test text as in the paper."""
    cells: list = [row["label"], pairs]
    for centering in ("none", "corpus"):
        at = next(i for i, ranking in enumerate(before) if ranking.settings["centering"] == centering)
        hits = np.mean([100.0 * (rankings[at].ranks <= 1) for rankings in runs.values()], axis=0)
        base = 100.0 * (before[at].ranks <= 1)
        low, high = bootstrap_interval(hits)
        five = np.mean([100.0 * (rankings[at].ranks <= 5) for rankings in runs.values()])
        p_value = paired_test(hits, base).p_value
        cells += [f"{base.mean():.1f}", f"{hits.mean():.1f} ({low:.1f}-{high:.1f})", f"{five:.1f}", f"{p_value:.3f}"]
    return cells + [f"{value:.1f}" for value in row.get("paper") or ()] + [""] * (0 if row.get("paper") else 2)


def report(study: StudyArguments, rows: list[dict], table: list[list], results: list[EvalResult]) -> None:
    """The table, the forecast of a learning curve, and the figures as JSON."""
    columns = ["before", "P@1 (95 %)", "P@5", "p"]
    header = ["", "pairs", *columns, *(f"{name}, centred" for name in columns), "paper P@1", "paper P@5"]
    print(f"\n{study.title}\n\n{format_table(header, table)}\n")
    after = [
        row
        for row in results
        if (row.metric, row.settings["stage"], row.settings["centering"]) == ("P@1", "after", "none")
    ]
    forward = {row.settings["row"]: row.direction for row in reversed(after)}  # the first one is source to target
    curve = [row for row in after if row.direction == forward[row.settings["row"]]]
    figures: dict = {label: [row.value for row in curve if row.settings["row"] == label] for label, *_ in table}
    figures = {label: round(float(np.mean(values)), 2) for label, values in figures.items()}
    if any("fraction" in row for row in rows):
        found = forecast([row.settings["pairs"] for row in curve], [row.value for row in curve])
        figures["another_1000_pairs"] = [round(x, 2) for x in (found.gain, found.gain_low, found.gain_high)]
        print(f"another 1,000 pairs, points of P@1: {found}\n")
    print(json.dumps({"name": study.name, "figures": figures, "settings": {"seeds": study.seeds}}, ensure_ascii=False))


if __name__ == "__main__":
    run_recipe(main)
