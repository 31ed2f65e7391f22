"""How well the scores of `hfxling clean` tell pairs whose targets were shuffled from good ones.

python benchmarks/clean.py [--data ../shared/data/ntrex] [--pair zh-vi] [--model ../shared/models/mini-labse]

NTREX lines 1 to 1543 in two halves. Each is a bitext of which the targets of 20 % of the pairs, drawn at random, are
shuffled among themselves; what is fitted (`hfxling fit`, as a user would call it) learns from the other half. By score:

- auc: how often a good pair has the higher score than a shuffled one, a tie being a miss; mean of the halves, with its
  95 % bootstrap interval over pairs
- found_at_top: of the pairs that `--top 0.8` drops the share that were shuffled; as many are dropped as were
  shuffled, so this is precision and recall
- mutual_recall, mutual_false: share of the shuffled and of the good pairs that `--mutual true` drops
"""

import argparse
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when numpy and torch are imported

import numpy as np
import torch
from harness import parser, report
from ntrex import LINES, read_text
from transformers.utils import logging

from hfxling.console import run as run_recipe
from hfxling.encoders.loading import load_encoder
from hfxling.evaluation.results import format_table
from hfxling.selection.select import select
from hfxling.sentences.clean import PairScores, score_pairs

SAMPLES = 1000  # of the bootstrap
FIGURES = ("auc", "found_at_top", "mutual_recall", "mutual_false")


def main(argv: list[str] | None = None) -> dict:
    options = parser(__doc__, "clean")
    options.add_argument("--data", default="../shared/data/ntrex", help="folder with LANG.txt files")
    options.add_argument("--pair", default="zh-vi", help="source and target language")
    options.add_argument("--model", default="../shared/models/mini-labse", help="folder or Hub id of the dense encoder")
    options.add_argument(
        "--shuffled", type=float, default=0.2, help="share of the pairs that is shuffled (default 0.2)"
    )
    options.add_argument("--k", type=int, default=4, help="number of neighbours (default 4)")
    options.add_argument("--lines", type=int, default=LINES, help=f"number of lines, from the first (default {LINES})")
    options.add_argument("--seed", type=int, default=42)
    options.add_argument("--cache_dir", default="outputs/features", help="folder in which vectors are cached")
    args = options.parse_args(argv)
    torch.set_num_threads(1)
    logging.set_verbosity_error()
    found: dict[str, list[dict[str, np.ndarray]]] = {}
    for half, bad in halves(args):
        for label, scores in half.items():
            found.setdefault(label, []).append(measure(scores, bad, args.seed))
    figures = {}
    for label, halves_found in found.items():
        mean = {name: np.mean([one[name] for one in halves_found], axis=0) for name in halves_found[0]}
        figures[label] = {name: round(100 * float(mean[name]), 2) for name in FIGURES if name in mean}
        low, high = np.quantile(mean["samples"], [0.025, 0.975])
        figures[label] |= {"auc_low": round(100 * float(low), 2), "auc_high": round(100 * float(high), 2)}
    rows = [[label, *(numbers.get(name) for name in FIGURES)] for label, numbers in figures.items()]
    print(format_table(["score", *FIGURES], rows))
    settings = {name: getattr(args, name) for name in ("pair", "shuffled", "k", "lines", "seed")}
    settings["model"] = Path(args.model).name
    path = Path(args.results_dir) / "clean.json"
    return report("clean", figures, settings, title="Shuffled targets found by hfxling clean, %", path=path)


def halves(args: argparse.Namespace) -> Iterator[tuple[dict[str, PairScores], np.ndarray]]:
    """Scores of each half by every encoder, and which of its pairs were shuffled."""
    pair, rng = tuple(args.pair.split("-")), np.random.default_rng(args.seed)
    text = read_text(args.data, args.pair)
    sides = [np.array(text[lang][: args.lines], object) for lang in pair]
    parts = np.array_split(rng.permutation(len(sides[0])), 2)
    for half, other in (parts, parts[::-1]):
        source, target = (side[half] for side in sides)
        moved = rng.permutation(len(half))[: round(args.shuffled * len(half))]
        target[moved] = target[np.roll(moved, 1)]
        bad = np.zeros(len(half), bool)
        bad[moved] = True
        with tempfile.TemporaryDirectory() as folder:
            fused, lexical = fitted(args, pair, [side[other] for side in sides], Path(folder))
            given = {"dense": {"model": args.model}, "dense, fitted": {"model": fused}, "sparse": {"lexical": lexical}}
            given["fused"] = {"model": fused, "lexical": lexical}
            found = {label: scored(args, pair, [*source], [*target], names) for label, names in given.items()}
        found["links"] = PairScores(found["sparse"].links, None, None)
        yield found, bad


def fitted(args: argparse.Namespace, pair: tuple[str, str], sides: list, folder: Path) -> tuple[str, str]:
    """Folders of the dense model and of the links that `hfxling fit` makes of pairs."""
    options = {"languages": pair, "model": args.model, "only": ["fused"], "choose": "fused", "seed": args.seed}
    written = select(*sides, **options, output=folder / "fit").folders
    return str(written["folder"]), str(written["lexical"])


def scored(args: argparse.Namespace, pair: tuple[str, str], source: list, target: list, names: dict) -> PairScores:
    """What `hfxling clean` would write as scores."""
    encoder = load_encoder(**names, trust_remote_code=True)
    return score_pairs(encoder, source, target, pair, k=args.k, cache_dir=args.cache_dir)


def measure(scores: PairScores, bad: np.ndarray, seed: int) -> dict[str, np.ndarray]:
    """Shares, 0 to 1, and the bootstrap's AUC as `samples`."""
    values = np.where(np.isnan(scores.score), -np.inf, scores.score)
    order = np.argsort(-values, kind="stable")
    wins = values[~bad][:, None] > values[bad]
    rng, samples = np.random.default_rng(seed), []
    for _ in range(SAMPLES):
        weights = [rng.multinomial(count, np.full(count, 1 / count)) for count in wins.shape]
        samples.append(weights[0] @ wins @ weights[1] / wins.size)
    found = {"auc": wins.mean(), "samples": np.array(samples), "found_at_top": bad[order[-bad.sum() :]].mean()}
    if scores.elsewhere is not None:
        found |= {"mutual_recall": scores.elsewhere[bad].mean(), "mutual_false": scores.elsewhere[~bad].mean()}
    return found


if __name__ == "__main__":
    run_recipe(main)
