"""A study: one row a setting, the paper's figures beside ours.

python recipes/study.py --config recipes/configs/siamese/studies/layers.yaml --base_model ... [--key value ...]

The configuration's `study` entry holds name, title, method, seeds and rows; a row has a label, the keys it sets, the
paper's figures where there are any, and seeds of its own where it needs fewer. All other keys are those of the
method's recipe. A row of the siamese method may also ask for a `fraction` of the training pairs or test on
`paragraphs`.
"""

import json
import sys
from itertools import cycle
from pathlib import Path

import numpy as np
from transformers import AutoConfig, TrainingArguments

from hfxling.arguments import resolved, run_recipe
from hfxling.data.corpus import Corpus, CorpusArguments, load_corpus
from hfxling.data.documents import join_paragraphs
from hfxling.encoding import model_name, one_line_where_missing
from hfxling.evaluation.learning_curve import forecast
from hfxling.evaluation.results import EvalResult, format_table, write_results
from hfxling.evaluation.retrieval import Ranking, ranking_results
from hfxling.evaluation.significance import bootstrap_interval, paired_test
from hfxling.training.siamese.arguments import SiameseArguments
from hfxling.training.siamese.data import PairVectors, encode_corpus
from hfxling.training.siamese.evaluate import rank_head
from hfxling.training.siamese.train import fit_head
from hfxling.training.study import StudyArguments, read_study, row_settings, run_study

# What decides the text and the vectors of a row, its layer and pooling apart.
SOURCE_KEYS = (
    *CorpusArguments.__dataclass_fields__,
    *("base_model", "base_revision", "encode_dtype", "max_length", "train_vectors", "test_vectors"),
)


def main(argv: list[str] | None = None) -> list[EvalResult]:
    study, rows, base, command_line = read_study(list(sys.argv[1:] if argv is None else argv))
    if study.method == "siamese":
        return run_siamese(study, rows, base, command_line)
    return run_study(study, rows, base, command_line)


def run_siamese(study: StudyArguments, rows: list[dict], base: dict, command_line: list[str]) -> list[EvalResult]:
    """A study of heads: every layer's vectors come from one pass of the encoder."""
    settings = row_settings(rows, base, command_line, "siamese")
    kept = [(row, *arguments) for row, arguments in zip(rows, settings) if has_layer(arguments[0])]
    if not kept:
        raise ValueError(f"study {study.name}: the encoder has none of the layers that the rows name.")
    views: dict[str, list] = {}
    for row, args, _ in kept:
        views.setdefault(source_key(args, row), []).append((args.layer_index, args.pooling))
    results, table, cache, encoders = [], [], {}, set()
    for row, args, training_args in kept:
        corpus, vectors = encode(args, row, views, cache)
        before, runs, pairs = run_row(args, training_args, row, row.get("seeds", study.seeds), corpus, vectors)
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
    fields = corpus.result_fields() | {"model": model_name(args.base_model)}
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
