"""What it costs in P@1 that a model can be plugged into a server, and what ONNX and weights of 8 bits cost.

python benchmarks/serving.py --data ../shared/data --encoders ../shared/models/mini-xlm@0 ../shared/models/mini-labse@6

Heads on one frozen layer (FOLDER@LAYER), fitted on NTREX lines 1 to 1543 and measured on lines 1544 to 1997, both
directions, cosine, ties are misses. "raw": nothing stands between pooling and the map, which is all that
text-embeddings-inference reads; a CCA is then served language by language (branches), a discriminant as it is; static
vectors need no encoder at all. Every "raw" row is tested against the same head on vectors of length 1.

ONNX: the raw discriminant as a graph, in float32 and int8, against torch, one thread. Weights of 8 bits are kept where
they lose at most 1 point on 500 of the training pairs; the rows are of the test lines. Text that is measured is kept:
a run that was stopped goes on with the rest.
"""

import os
import tempfile
from dataclasses import replace
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when numpy and torch are imported

import numpy as np
import torch
from harness import earlier_rows, machine, parser, report_rows, write_rows
from sentence_transformers import quantize_embeddings
from transformers import TrainingArguments
from transformers.utils import logging

from hfxling.console import run as run_recipe
from hfxling.data.pairs import read_pairs
from hfxling.encoders.identity import model_name
from hfxling.evaluation.averages import mean_result
from hfxling.evaluation.results import EvalResult
from hfxling.evaluation.retrieval import gold_ranks, hits_at, unlike_blanks
from hfxling.evaluation.short_vectors import FinalVectors, short_vector_results
from hfxling.hub.graphs import FLOAT, INT8, TORCH, Costs
from hfxling.hub.onnx import MODEL, load_models, write_int8, write_onnx
from hfxling.methods import lexical, siamese

TITLE = "What plugging into servers costs, NTREX: P@1 with and without anything between pooling and map; ONNX and int8"
PAIRS = ("zh-vi", "lo-zh", "th-zh", "id-zh")
TRAIN, TEST = "1-1543", "1544-1997"
GATE = "1-500"  # training lines that say whether weights of 8 bits are kept
HEADS = {"discriminant": ("discriminant", True), "discriminant raw": ("discriminant", False)}
HEADS |= {"cca": ("cca", True), "cca raw": ("cca", False)}
STATIC, ENCODER = "static", "encoder"
OWN_RANGES = "P@1 int8, a range each component"
GRAPHS = {TORCH: "discriminant raw, torch", FLOAT: "discriminant raw, ONNX", INT8: "discriminant raw, ONNX int8"}


def main(argv: list[str] | None = None) -> dict:
    options = parser(__doc__, "serving")
    options.add_argument("--data", default="../shared/data", help="folder with ntrex/")
    options.add_argument(
        "--encoders", nargs="+", default=["../shared/models/mini-xlm@0", "../shared/models/mini-labse@6"]
    )
    options.add_argument("--pairs", nargs="+", default=PAIRS)
    options.add_argument("--graphs", default="zh-vi", help="language pair on which ONNX is measured")
    options.add_argument("--cache_dir", default="outputs/features", help="folder in which frozen vectors are cached")
    options.add_argument("--seed", type=int, default=42)
    args = options.parse_args(argv)
    torch.set_num_threads(1)
    logging.set_verbosity_error()
    names = [model_name(encoder.partition("@")[0]) for encoder in args.encoders]
    labels = [f"{name} {head}" for name in names for head in (ENCODER, *HEADS, *GRAPHS.values())] + [STATIC]
    settings = vars(args) | {"name": "serving", "encoders": [*map(label, args.encoders)], "data": "ntrex"} | machine()
    about = {"title": TITLE, "labels": labels, "metrics": ["P@1"]}
    results = measured(args, settings, about)
    return report_rows("serving", results, settings, **about, figures=figures(results))


def label(encoder: str) -> str:
    """Without the folders above it."""
    folder, _, layer = encoder.partition("@")
    return f"{model_name(folder)}@{layer}"


def measured(args, settings: dict, about: dict) -> list[EvalResult]:
    """Rows of all pairs and encoders, those of an earlier run with them."""
    results = earlier_rows(settings, "pairs", "encoders")
    jobs = [(STATIC, pair) for pair in args.pairs]
    jobs += [(encoder, pair) for encoder in args.encoders for pair in args.pairs]
    jobs += [(f"{encoder} graphs", args.graphs) for encoder in args.encoders]
    for job, pair in jobs:
        key = job if job == STATIC else label(job)
        if any((row.settings["job"], row.dataset) == (key, pair) for row in results):
            continue
        made = static if job == STATIC else graphs if job.endswith(" graphs") else heads
        rows = made(args, job.removesuffix(" graphs"), pair)
        results += [replace(row, settings=row.settings | {"job": key}) for row in rows]
        write_rows("serving", results, settings, **about)
        whole = [row for row in rows if "dimensions" not in row.settings]
        print(
            pair, key, ", ".join(f"{row.settings['row']} {row.direction} {row.value:.1f}" for row in whole), flush=True
        )
    return results


def text(args, pair: str) -> dict:
    """Training and test text of a recipe's arguments."""
    both = "+".join(f"{args.data}/ntrex/{lang}.txt" for lang in pair.split("-"))
    return {"pairs": [pair], "train_data": [f"{both}@{TRAIN}"], "test_data": [f"{both}@{TEST}"]}


def trainer(args) -> TrainingArguments:
    """Of fits in closed form."""
    quiet = {"output_dir": tempfile.gettempdir(), "use_cpu": True, "disable_tqdm": True, "report_to": "none"}
    return TrainingArguments(seed=args.seed, **quiet)


def static(args, job: str, pair: str) -> list[EvalResult]:
    """Static vectors of the training lines' links."""
    arguments = lexical.Arguments(**text(args, pair))
    run = lexical.run(arguments, trainer(args), lexical.prepare([arguments], trainer(args)))
    (vectors,) = run.vectors()
    return rows_of({STATIC: vectors}, "", pair, args)


def head_arguments(args, encoder: str, pair: str, name: str) -> siamese.Arguments:
    """Of one of `HEADS`."""
    folder, _, layer = encoder.partition("@")
    fit, normalize = HEADS[name]
    about = {"base_model": folder, "layer": layer, "cache_dir": args.cache_dir, "similarities": ["cosine"]}
    return siamese.Arguments(**text(args, pair), **about, fit=fit, normalize_input=normalize)


def heads(args, encoder: str, pair: str) -> list[EvalResult]:
    """The encoder as it came, and every head on it."""
    arguments = {name: head_arguments(args, encoder, pair, name) for name in HEADS}
    prepared = siamese.prepare([*arguments.values()], trainer(args))
    found = {name: siamese.run(each, trainer(args), prepared).vectors()[0] for name, each in arguments.items()}
    one = next(iter(arguments.values()))
    plain = prepared.of(one.layer_index, one.pooling)
    found = {ENCODER: replace(found["cca"], test=plain.test, train=plain.train)} | found
    return rows_of(found, model_name(one.base_model), pair, args)


def rows_of(found: dict[str, FinalVectors], encoder: str, pair: str, args) -> list[EvalResult]:
    """P@1 of each, both directions; raw ones against the same on vectors of length 1. And of short vectors."""
    ways, rows, hits = ("->".join(pair.split("-")), "->".join(pair.split("-")[::-1])), [], {}
    for name, vectors in found.items():
        hits[name] = [hits_at(ranks, 1) for ranks in gold_ranks(*unlike_blanks(*map(np.asarray, vectors.test)))]
        fields = {"dataset": pair, "split": "test", "revision": vectors.fields["revision"], "seed": args.seed}
        fields |= {"model": encoder or "links"}
        settings = {"row": f"{encoder} {name}".strip(), "stage": "after"}
        before = hits.get(name.removesuffix(" raw")) if name.endswith(" raw") else (None, None)
        for way, values, baseline in zip(ways, hits[name], before):
            rows.append(mean_result("P@1", values, baseline=baseline, direction=way, settings=settings, **fields))
        if name != ENCODER:
            short = short_vector_results(replace(vectors, fields=fields))
            rows += [replace(row, metric=short_name(row), settings=row.settings | settings) for row in short]
            coarse = gold_ranks(*unlike_blanks(*own_ranges(vectors)))
            about = {"metric": OWN_RANGES, "settings": settings} | fields
            rows += [mean_result(values=hits_at(found, 1), direction=way, **about) for way, found in zip(ways, coarse)]
    return rows


def own_ranges(vectors: FinalVectors) -> list[np.ndarray]:
    """int8 codes whose components have a range each, from the training text."""
    test, train = (
        [each / np.maximum(np.linalg.norm(each, axis=1, keepdims=True), 1e-30) for each in part]
        for part in (vectors.test, vectors.train)
    )
    known = np.concatenate(train)
    codes = [quantize_embeddings(side.astype(np.float32), "int8", calibration_embeddings=known) for side in test]
    return [each.astype(np.float32) * side.any(1, keepdims=True) for each, side in zip(codes, test)]


def short_name(row: EvalResult) -> str:
    """E.g. "P@1 64 int8": not among the whole vectors' rows."""
    return f"P@1 {row.settings['dimensions']} {row.settings['precision']}"


def graphs(args, encoder: str, pair: str) -> list[EvalResult]:
    """The raw discriminant by torch, ONNX and int8."""
    arguments = head_arguments(args, encoder, pair, "discriminant raw")
    run = siamese.run(arguments, trainer(args), siamese.prepare([arguments], trainer(args)))
    both = [f"{args.data}/ntrex/{lang}.txt" for lang in pair.split("-")]
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch, "model")
        run.write(folder)
        models = load_models(folder)
        written = {form: {"": Path(scratch, form, MODEL)} for form in (FLOAT, INT8)}
        write_onnx(models[""], written[FLOAT][""])
        write_int8(written[FLOAT][""], written[INT8][""])
        measures = {}
        for name, lines in (("gate", GATE), ("test", TEST)):
            languages = tuple(pair.split("-"))
            pairs = read_pairs(f"{both[0]}@{lines}", f"{both[1]}@{lines}", languages)
            measures[name] = Costs(folder, models, pairs, languages)
            measures[name].measure(written)
    rows, test = [], measures["test"]
    for form, found in test.rows.items():
        about = {"row": f"{model_name(arguments.base_model)} {GRAPHS[form]}"} | test.figures[form]
        if form == INT8:
            about["lost_on_training_pairs"] = round(measures["gate"].lost(INT8), 2)
        kept = [{name: value for name, value in row.settings.items() if name != "method"} for row in found]
        rows += [
            replace(row, dataset=pair, split="test", settings=settings | about, seed=args.seed)
            for row, settings in zip(found, kept)
        ]
    return rows


def figures(results: list[EvalResult]) -> dict[str, float]:
    """What is lost, mean of both directions and all pairs; megabytes and speed of the graphs."""
    values: dict[str, list[float]] = {}
    short: dict[str, list[float]] = {}
    for row in results:
        if row.metric == "P@1":
            values.setdefault(row.settings["row"], []).append(row.value)
        else:
            short.setdefault(f"{row.settings['row']}: {row.metric}", []).append(row.value)
    found = {name: round(float(np.mean(part)), 2) for name, part in short.items()}
    for name, whole in values.items():
        if name.endswith(" raw"):
            found[f"{name}: points lost"] = round(float(np.mean(values[name.removesuffix(" raw")]) - np.mean(whole)), 2)
    for row in results:
        if "sentences_per_cpu_s" in row.settings:
            name = row.settings["row"]
            found[f"{name}: MB"] = row.settings["megabytes"]
            found[f"{name}: sentences per CPU second"] = row.settings["sentences_per_cpu_s"]
            torch_name = f"{name.partition(',')[0]}, torch"
            found[f"{name}: points lost"] = round(float(np.mean(values[torch_name]) - np.mean(values[name])), 2)
    return found


if __name__ == "__main__":
    run_recipe(main)
