"""NTREX by what was learnt from four fifths of it: a protocol that can stand beside published figures.

python benchmarks/ntrex_crossfit.py --data ../shared/data [--pairs lo-zh zh-vi] [--encoder me5-small] [--minutes 1]

The 1,997 lines are cut into five folds of whole documents. All that is learnt (means, heads, links, weights,
neighbours of CSLS, fine-tuning) is learnt from four; each sentence of the fifth looks for its translation among all
1,997 lines, as those of published models do, which have learnt nothing from this collection. So have ours: four
fifths of it, and a reader has to know that. With --only nothing else competes. `copies` is what shared Latin words and
numbers find alone. Published figures: mteb's results for NTREXBitextMining, P@1. Every fold is kept once measured.
"""

import json
import os
import re
import tempfile
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when numpy and torch are imported

import numpy as np
import torch
from encoders import encoder_folder, weights_note
from harness import minutes_unknown, parser, report_rows
from retrieval_table import Embed, Memory, fitted
from sklearn.feature_extraction.text import TfidfVectorizer
from transformers.utils import logging

from hfxling.console import run as run_recipe
from hfxling.data.readers import read_lines
from hfxling.encoders.fusion import ROLES
from hfxling.evaluation.averages import mean_result
from hfxling.evaluation.results import EvalResult
from hfxling.evaluation.retrieval import gold_ranks, hits_at
from hfxling.files import atomic_path, content_hash
from hfxling.selection.select import select

TITLE = "NTREX, cross-fitted: learnt from four fifths, all 1,997 lines as candidates"
PAIRS = ("lo-th", "zh-vi", "id-zh-tw", "lo-zh", "th-zh", "lo-vi", "th-vi")
FOLDS = 5
PUBLISHED = {  # there and back; none of them learnt from NTREX
    "LaBSE": {"lo-th": (93.0, 94.2), "zh-vi": (98.3, 97.1), "id-zh-tw": (97.9, 99.0)},
    "bge-m3": {"lo-th": (98.1, 98.0), "zh-vi": (97.7, 97.2), "id-zh-tw": (98.4, 98.8)},
    "harrier-oss-v1-270m": {"lo-th": (97.9, 97.8), "zh-vi": (98.1, 98.4), "id-zh-tw": (98.7, 98.2)},
    "multilingual-e5-small": {"lo-th": (87.8, 92.1), "zh-vi": (87.5, 92.4), "id-zh-tw": (91.8, 95.9)},
    "multilingual-e5-large-instruct": {"lo-th": (98.8, 98.4), "zh-vi": (98.6, 98.1), "id-zh-tw": (99.2, 99.0)},
    "Qwen3-Embedding-8B": {"lo-th": (99.1, 98.8), "zh-vi": (98.5, 98.5), "id-zh-tw": (99.1, 99.3)},
}


def main(argv: list[str] | None = None) -> dict:
    options = parser(__doc__, "ntrex_crossfit")
    options.add_argument("--data", default="../shared/data", help="folder with ntrex/")
    options.add_argument("--encoder", default="me5-small", help="encoder: me5-small, or a folder or Hub id")
    options.add_argument("--pairs", nargs="*", default=PAIRS)
    options.add_argument(
        "--minutes", type=float, default=60, help="time for what competes in a fold, as in hfxling fit"
    )
    options.add_argument("--only", nargs="*", default=[], help="what competes, as in hfxling fit (default: all)")
    options.add_argument("--seed", type=int, default=42)
    options.add_argument("--device", help="device, such as cpu or cuda (default: a GPU if there is one)")
    options.add_argument(
        "--work", default="outputs/ntrex_crossfit", help="folder in which ranks are kept, in one file for each fold"
    )
    args = options.parse_args(argv)
    torch.set_num_threads(1)
    logging.set_verbosity_error()
    folds = of_documents(Path(args.data) / "ntrex" / "DOCUMENT_IDS.tsv")
    results, labels = [], []
    for pair in args.pairs:
        hits = crossfitted(pair, folds, args)
        results += rows_of(pair, hits, args)
        labels += [label for label in hits if label not in labels]
        means = (f"{label} {np.mean([np.mean(way) for way in ways]):.2f}" for label, ways in hits.items())
        print(f"{pair}: {', '.join(means)}", flush=True)
    figures = best_of_pairs(results)
    settings = vars(args) | {"name": "ntrex_crossfit", "encoder_weights": weights_note(args.encoder)}
    del settings["work"]
    report_rows(
        "ntrex_crossfit", results, settings, title=TITLE, labels=[*labels, *PUBLISHED], metrics=["P@1"], figures=figures
    )
    return figures


def languages_of(pair: str) -> tuple[str, str]:
    """Of lo-th or id-zh-tw."""
    source, _, target = pair.partition("-")
    return source, target


def of_documents(path: Path) -> list[np.ndarray]:
    """Line numbers of five folds of whole documents, as even in size as documents allow."""
    names = [line.split("\t")[0] for _, line in read_lines(str(path))]
    documents: dict[str, list[int]] = {}
    for number, name in enumerate(names):
        documents.setdefault(name, []).append(number)
    folds: list[list[int]] = [[] for _ in range(FOLDS)]
    for lines in sorted(documents.values(), key=len, reverse=True):
        min(folds, key=len).extend(lines)
    return [np.sort(fold) for fold in folds]


def crossfitted(pair: str, folds: list[np.ndarray], args) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """100 for every line whose translation was found first, there and back, by system."""
    languages = languages_of(pair)
    texts = [[text for _, text in read_lines(f"{args.data}/ntrex/{lang}.txt")] for lang in languages]
    count = len(texts[0])
    hits: dict[str, tuple[np.ndarray, np.ndarray]] = {"copies": tuple(copies(texts))}
    for number, held in enumerate(folds):
        path = Path(args.work) / f"{Path(args.encoder).name}.{pair}.{number}.json"
        if path.is_file():  # of an earlier run, and without its CPU minutes
            minutes_unknown(f"{args.results_dir}/ntrex_crossfit.json")
        else:
            kept = np.setdiff1d(np.arange(count), held)
            found = measure(languages, texts, kept, held, args)
            path.parent.mkdir(parents=True, exist_ok=True)
            with atomic_path(path) as scratch:
                scratch.write_text(json.dumps(found), encoding="utf-8")
        for label, ways in json.loads(path.read_text(encoding="utf-8")).items():
            both = hits.setdefault(label, (np.full(count, np.nan), np.full(count, np.nan)))
            for all_lines, of_fold in zip(both, ways):
                all_lines[held] = of_fold
    return hits


def measure(languages, texts, kept: np.ndarray, held: np.ndarray, args) -> dict[str, list[list[float]]]:
    """Learn from some lines; the others look among all."""
    train = [[side[row] for row in kept] for side in texts]
    encoder = encoder_folder(args.encoder)
    options = {"only": args.only, "minutes": args.minutes, "seed": args.seed, "device": args.device, "output": None}
    selection = select(*train, languages=languages, model=encoder, **options)
    with tempfile.TemporaryDirectory() as folder:
        systems = fitted(selection, encoder, Path(folder), Memory())
        found = {}
        for label, embed in systems.items():
            found[label] = [ranks_among_all(embed, texts, languages, held, way).tolist() for way in ((0, 1), (1, 0))]
    chosen = {"finetuned": "fine-tuned", "head": "one layer + head", "layers": "several layers + head"}
    chosen |= {"finetuned_fused": "fused with the fine-tuned"}
    if not args.only:
        found["written by hfxling fit"] = found[chosen.get(selection.winner.name, selection.winner.name)]
    return found


def ranks_among_all(embed: Embed, texts, languages, held: np.ndarray, way: tuple[int, int]) -> np.ndarray:
    """100 for each held line whose translation is the first of all lines."""
    query, document = way
    queries = embed([texts[query][row] for row in held], languages[query], ROLES[0])
    documents = embed(texts[document], languages[document], ROLES[1])
    others = np.setdiff1d(np.arange(len(texts[0])), held)
    order = np.concatenate([held, others])  # the translation of query i is candidate i
    method = "cosine" if isinstance(queries, np.ndarray) else "dot"
    return hits_at(gold_ranks(queries, documents[order], method=method)[0], 1)


def copies(texts) -> list[np.ndarray]:
    """100 for every line that the rarer Latin words and numbers of its own find alone, there and back."""
    words: Callable = re.compile(r"[A-Za-z0-9]+").findall
    bags = TfidfVectorizer(analyzer=words).fit([*texts[0], *texts[1]])
    vectors = [bags.transform(side).astype(np.float32).tocsr() for side in texts]
    found = []
    for query, document in (vectors, vectors[::-1]):
        scores = (query @ document.T).toarray()
        found.append(100.0 * ((scores >= scores.diagonal()[:, None]).sum(axis=1) == 1))
    return found


def rows_of(pair: str, hits, args) -> list[EvalResult]:
    """Rows of every system; those of published models with the source beside."""
    languages = languages_of(pair)
    directions = ["->".join(languages), "->".join(languages[::-1])]
    texts = [[text for _, text in read_lines(f"{args.data}/ntrex/{lang}.txt")] for lang in languages]
    fields = {"dataset": f"NTREX-128 {pair}", "split": "five folds of documents", "revision": content_hash(*texts)}
    rows = []
    for label, ways in hits.items():
        for direction, values in zip(directions, ways):
            settings = {"row": label, "stage": "after", "candidates": len(values), "first": directions[0]}
            rows.append(
                mean_result(
                    "P@1", values, direction=direction, settings=settings, model=label, seed=args.seed, **fields
                )
            )
    for label, by_pair in PUBLISHED.items():
        for direction, value in zip(directions, by_pair.get(pair, ())):
            settings = {"row": label, "stage": "published", "source": "mteb", "first": directions[0]}
            about = fields | {"model": label, "direction": direction, "settings": settings}
            rows.append(EvalResult(metric="P@1", value=value, n=1997, unit="%", **about))
    return rows


def best_of_pairs(results: list[EvalResult]) -> dict[str, float]:
    """The best of ours for each pair, mean of both ways."""
    figures: dict[str, float] = {}
    for dataset in dict.fromkeys(row.dataset for row in results):
        own = [row for row in results if row.dataset == dataset and row.settings["stage"] == "after"]
        means = []
        for label in dict.fromkeys(row.settings["row"] for row in own):
            means.append(np.mean([row.value for row in own if row.settings["row"] == label]))
        figures["_".join(languages_of(dataset.split()[-1])).replace("_zh-tw", "_zh")] = round(float(max(means)), 2)
    return figures


if __name__ == "__main__":
    run_recipe(main)
