"""How far few sentence pairs get: what `hfxling fit` makes of 50 to 1,543 pairs, and the encoder without any.

python benchmarks/learning_curve_pairs.py --data ../shared/data --encoder ../shared/models/mini-labse \
    [--pairs lo-zh zh-vi] [--sizes 50 100 250 500 1000 1543] [--draws 3]

Each size is drawn three times from the training lines of NTREX (all of them once); P@1 of the 454 test lines, by inner
product or cosine, both directions, ties being misses. "auto" is the head that `--fit auto` chooses on one layer; layer,
head and the weight of fused scores are chosen on the drawn pairs alone. Shown are mean and standard deviation over the
draws and the 95 % interval over the test lines. The encoder as it came needs no pairs: its row stands for all
sizes. `paired` of a row is the test against it.
"""

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when numpy and torch are imported
os.environ.setdefault("HF_HUB_OFFLINE", "1")  # nothing is downloaded

import numpy as np
import torch
from harness import parser, report_rows
from ntrex import LINES, read_text
from sentence_transformers import SentenceTransformer
from transformers.utils import logging

from hfxling.console import run as run_recipe
from hfxling.data.sources import Pair, parse_pair
from hfxling.encoders.dense import SentenceEncoder
from hfxling.encoders.fused import FusedEncoder
from hfxling.encoders.fusion import ROLES
from hfxling.encoders.sparse import LexicalEncoder
from hfxling.evaluation.averages import mean_result
from hfxling.evaluation.results import EvalResult
from hfxling.evaluation.retrieval import gold_ranks, hits_at, unlike_blanks
from hfxling.progress import hide_loading_bars
from hfxling.selection.select import select

TITLE = "P@1 by number of sentence pairs, NTREX; three draws"
Sides = Sequence[Sequence[str]]  # source and target texts
Ranks = tuple[np.ndarray, np.ndarray]  # source to target and back, as `gold_ranks` gives them


def main(argv: list[str] | None = None) -> dict[str, dict]:
    options = parser(__doc__, "learning_curve_pairs")
    options.add_argument("--data", default="../shared/data", help="folder with ntrex/")
    options.add_argument("--encoder", default="../shared/models/mini-labse", help="folder or Hub id")
    options.add_argument("--pairs", nargs="+", type=parse_pair, default=[("lo", "zh"), ("zh", "vi")])
    options.add_argument("--sizes", nargs="+", type=int, default=[50, 100, 250, 500, 1000, LINES])
    options.add_argument("--draws", type=int, default=3, help="of each size but the whole (default 3)")
    args = options.parse_args(argv)
    if min(args.sizes) < 10 or max(args.sizes) > LINES:
        options.error(f"give sizes from 10 to {LINES} pairs.")
    torch.set_num_threads(1)
    logging.set_verbosity_error()
    hide_loading_bars()
    name = Path(args.encoder).name
    results: list[EvalResult] = []
    for pair in args.pairs:
        lines = [read_text(f"{args.data}/ntrex", "-".join(pair))[lang] for lang in pair]
        train, test = ([side[part] for side in lines] for part in (slice(LINES), slice(LINES, None)))
        before = encoder_ranks(SentenceTransformer(args.encoder, device="cpu"), test)
        results += rows_of(before, pair, {"row": f"{name}, as it came"})
        for size in args.sizes:
            for draw, rows in enumerate(draws(LINES, size, args.draws)):
                drawn = [[side[i] for i in rows] for side in train]
                for label, ranks in fitted_ranks(drawn, test, pair, args.encoder).items():
                    about = {"row": f"{label}, {size} pairs", "pairs": size}
                    results += rows_of(ranks, pair, about, before=before, seed=draw)
    labels = list(dict.fromkeys(row.settings["row"] for row in results))
    settings = vars(args) | {"name": "learning_curve_pairs", "pairs": ["-".join(pair) for pair in args.pairs]}
    settings["encoder"] = name
    return report_rows("learning_curve_pairs", results, settings, title=TITLE, labels=labels, metrics=["P@1"])


def draws(count: int, size: int, times: int) -> list[np.ndarray]:
    """Numbers of the drawn pairs, in order; a draw of all pairs is made once."""
    times = 1 if size == count else times
    return [np.sort(np.random.default_rng(seed).permutation(count)[:size]) for seed in range(times)]


def encoder_ranks(encoder: SentenceTransformer, test: Sides) -> Ranks:
    """By cosine."""
    return gold_ranks(*(encoder.encode(list(side), show_progress_bar=False) for side in test))


def fitted_ranks(train: Sides, test: Sides, pair: Pair, encoder: str) -> dict[str, Ranks]:
    """By all that competes in `hfxling fit`, from the folders that it writes."""
    with tempfile.TemporaryDirectory() as folder:
        selection = select(*train, languages=pair, model=encoder, only=["head", "fused"], output=None)
        folders = {name: selection.save(Path(folder) / name, name) for name in ("head", "fused")}
        links = str(folders["fused"]["lexical"])
        static, sparse = SentenceEncoder(links), LexicalEncoder(links)
        head, dense = (SentenceEncoder(str(paths["folder"]), trust_remote_code=True) for paths in folders.values())
        sides, fused = [*zip(pair, test)], FusedEncoder(dense, sparse)
        found = {"auto": gold_ranks(*(head.encode(list(side), lang) for lang, side in sides))}
        vectors = (static.encode(list(side), lang if static.routes else None) for lang, side in sides)
        found["static"] = gold_ranks(*unlike_blanks(*vectors))
        for label, system in {"sparse": sparse, "fused": fused}.items():
            ways = [[system.encode(list(side), *key) for side, *key in zip(test, pair, ROLES)]]
            ways.append([system.encode(list(side), *key) for side, *key in zip(test[::-1], pair[::-1], ROLES)])
            found[label] = tuple(gold_ranks(*way, method="dot")[0] for way in ways)
        return found


def rows_of(ranks: Ranks, pair: Pair, settings: dict, *, before: Ranks | None = None, seed: int | None = None) -> list:
    """P@1 of both directions; with the encoder's ranks the paired test against it."""
    rows = []
    for i, languages in enumerate((pair, pair[::-1])):
        about = {"dataset": f"NTREX {'-'.join(pair)}", "split": "test", "direction": "->".join(languages), "seed": seed}
        baseline = None if before is None else hits_at(before[i], 1)
        stage = {"stage": "before" if before is None else "after"}
        rows.append(mean_result("P@1", hits_at(ranks[i], 1), baseline=baseline, settings=stage | settings, **about))
    return rows


if __name__ == "__main__":
    run_recipe(main)
