"""What a lexical model does away from its training text, and with altered copies of the translation.

python benchmarks/lexical_robustness.py --data ../shared/data --encoder ../shared/models/mini-labse [--pair zh-vi]

Trained on news (NTREX, lines 1 to 1543) and on everyday text (vi-zh/train.tsv), each is tested on both: the last 454
lines of NTREX and vi-zh/test.tsv. P@1 by inner product (sparse, and fused with an encoder by `hfxling fit`) and cosine
(static), both directions. Then every test sentence is scored with its translation and with an altered copy of it. A
metric is the share of copies that beat the translation or tie with it (`hfxling.evaluation.spoilt`).
"""

import os
import tempfile
from collections.abc import Callable, Sequence
from typing import NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when numpy and torch are imported
os.environ.setdefault("HF_HUB_OFFLINE", "1")  # nothing is downloaded

import numpy as np
import torch
from harness import parser, report_rows
from ntrex import LINES
from sentence_transformers import SentenceTransformer
from transformers.utils import logging

from hfxling import fit_lexical, save_lexical
from hfxling.console import run as run_recipe
from hfxling.data.sources import Pair, load_pairs, parse_pair
from hfxling.encoders.dense import SentenceEncoder
from hfxling.encoders.fused import FusedEncoder
from hfxling.encoders.fusion import ROLES
from hfxling.encoders.sparse import LexicalEncoder
from hfxling.evaluation.averages import mean_result
from hfxling.evaluation.results import EvalResult
from hfxling.evaluation.retrieval import gold_ranks, hits_at
from hfxling.evaluation.spoilt import spoilt_results
from hfxling.methods.lexical.evaluate import unlike_blanks
from hfxling.progress import hide_loading_bars
from hfxling.selection.select import select
from hfxling.sentences.neighbours import TIE

TITLE = "Lexical models on text of another kind, and against altered copies of the translation"
Texts = Sequence[str]


class System(NamedTuple):
    """A way to find translations; the languages are those of queries and candidates."""

    label: str
    ranks: Callable[[Texts, Texts, Pair], tuple[np.ndarray, np.ndarray]]  # as `gold_ranks` gives them
    scores: Callable[[Texts, Texts, Pair], np.ndarray]  # (N,) of pairs, line by line
    tie: float  # scores that are nearer tie


def main(argv: list[str] | None = None) -> dict[str, dict]:
    options = parser(__doc__, "lexical_robustness")
    options.add_argument("--data", default="../shared/data", help="folder with ntrex/ and vi-zh/")
    options.add_argument(
        "--encoder", default="../shared/models/mini-labse", help="folder or Hub id of the encoder for fused scores"
    )
    options.add_argument("--pair", type=parse_pair, default=("zh", "vi"), help="language pair: zh-vi or vi-zh")
    options.add_argument(
        "--everyday_pairs", type=int, help="number of everyday pairs to train on, from the first; by default all 11,834"
    )
    options.add_argument("--seed", type=int, default=0, help="seed of the altered copies")
    args = options.parse_args(argv)
    if {*args.pair} != {"zh", "vi"}:
        options.error("there is everyday text of zh-vi and vi-zh only.")
    torch.set_num_threads(1)
    logging.set_verbosity_error()
    hide_loading_bars()
    train, test = read_texts(args.data, args.pair, args.everyday_pairs)
    results: list[EvalResult] = []
    for kind, sides in train.items():
        for system in (*fit_systems(sides, args.pair), fit_fused(sides, args.pair, args.encoder)):
            label = f"{system.label}, trained on {kind}"
            for name, texts in test.items():
                about = {"dataset": name, "split": "test", "settings": {"stage": "after", "row": label}}
                results += retrieval(system, texts, args.pair, about)
                results += spoilt_results(system.scores, texts, args.pair, tie=system.tie, seed=args.seed, **about)
    labels = list(dict.fromkeys(row.settings["row"] for row in results))
    settings = vars(args) | {"name": "lexical_robustness", "pair": "-".join(args.pair)}
    settings["train_pairs"] = {kind: len(sides[0]) for kind, sides in train.items()}
    metrics = list(dict.fromkeys(row.metric for row in results))
    return report_rows(
        "lexical_robustness", results, settings, title=TITLE, labels=labels, metrics=metrics, shown=len(metrics)
    )


def read_texts(data: str, pair: Pair, everyday_pairs: int | None) -> tuple[dict, dict]:
    """Training and test text by kind, as (source, target) lists."""
    news = f"{data}/ntrex/{{source}}.txt+{data}/ntrex/{{target}}.txt"
    columns = "1,0" if pair[0] == "zh" else "0,1"
    sources = {
        "news": (f"{news}@1-{LINES}", f"{news}@{LINES + 1}-1997"),
        "everyday text": tuple(f"{data}/vi-zh/{split}.tsv#{columns}" for split in ("train", "test")),
    }
    tables = {kind: [load_pairs([source], pair) for source in both] for kind, both in sources.items()}
    parts = [
        {kind: (list(x["source"]), list(x["target"])) for kind, x in zip(tables, side)}
        for side in zip(*tables.values())
    ]
    if everyday_pairs:
        parts[0]["everyday text"] = tuple(side[:everyday_pairs] for side in parts[0]["everyday text"])
    return tuple(parts)


def fit_systems(sides: tuple, pair: Pair) -> list[System]:
    """The systems that are compared, learnt from one text."""
    model = fit_lexical(*sides, pair, progress=False)
    with tempfile.TemporaryDirectory() as folder:
        save_lexical(model, folder)
        static = SentenceTransformer(folder, device="cpu")

    def sparse_ranks(source: Texts, target: Texts, languages: Pair) -> tuple:
        vectors = model.encode(source, languages[0]), model.encode(target, languages[1], "document")
        return gold_ranks(*vectors, method="dot")

    def static_vectors(texts: Texts, lang: str) -> np.ndarray:
        return static.encode(list(texts), task=lang, batch_size=2048, show_progress_bar=False)

    def static_ranks(source: Texts, target: Texts, languages: Pair) -> tuple:
        return gold_ranks(*unlike_blanks(*map(static_vectors, (source, target), languages)))

    def static_scores(source: Texts, target: Texts, languages: Pair) -> np.ndarray:
        vectors = map(static_vectors, (source, target), languages)
        return np.einsum("ij,ij->i", *vectors, dtype=np.float64)

    sparse = System("sparse", sparse_ranks, model.score, TIE["dot"])
    return [sparse, System("static", static_ranks, static_scores, TIE["cosine"])]


def fit_fused(sides: tuple, pair: Pair, encoder: str) -> System:
    """An encoder's head and links, as `hfxling fit` puts them together."""
    with tempfile.TemporaryDirectory() as folder:
        lines = [[" ".join(line.split()) for line in side] for side in sides]
        found = select(*lines, languages=pair, model=encoder, only=["fused"], choose="fused", output=folder)
        dense = SentenceEncoder(str(found.folders["folder"]), trust_remote_code=True)
        fused = FusedEncoder(dense, LexicalEncoder(str(found.folders["lexical"])))

    def vectors(source: Texts, target: Texts, languages: Pair) -> list:
        return [fused.encode(list(side), *key) for side, *key in zip((source, target), languages, ROLES)]

    def ranks(source: Texts, target: Texts, languages: Pair) -> tuple:
        return gold_ranks(*vectors(source, target, languages), method="dot")

    def scores(source: Texts, target: Texts, languages: Pair) -> np.ndarray:
        one, other = vectors(source, target, languages)
        return np.asarray((one * other).sum(1), np.float64).ravel()

    return System("fused", ranks, scores, TIE["dot"])


def retrieval(system: System, texts: tuple, pair: Pair, about: dict) -> list[EvalResult]:
    """P@1 in both directions, candidates being the other side of the test text."""
    rows = []
    for languages, sides in ((pair, texts), (pair[::-1], texts[::-1])):
        ranks, _ = system.ranks(*sides, languages)
        rows.append(mean_result("P@1", hits_at(ranks, 1), direction="->".join(languages), **about))
    return rows


if __name__ == "__main__":
    run_recipe(main)
