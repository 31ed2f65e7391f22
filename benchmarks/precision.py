"""Does the precision that bootstrap promises without a known pair hold? Twelve bitexts, 20 halvings each.

python benchmarks/precision.py --data ../shared/data --encoder me5-small [--rounds 0] [--halvings 20]

Each bitext is half of NTREX's training lines, drawn anew for each halving, and what stands beside it unpaired: nothing
("all"), other lines of the same documents, half of them a side ("lines"), lines of other documents ("documents"), or
as many sentences of other text a side (distractors.py, "other"; Lao has none). `covered` is the share of halvings
whose 95 % interval has the realised precision in it, `miss` how far that is from the estimate on average, `bias` the
same with its sign (negative: fewer pairs are right than was promised). --rounds 0 is the encoder alone, 1 with the
links and the head that are learnt from what it finds. Every bitext is kept when it is done.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when numpy and torch are imported

from pathlib import Path

import numpy as np
import torch
from bootstrap import vectors_of
from distractors import distractors
from encoders import encoder_folder
from harness import parser, report
from ntrex import LINES, read_text
from transformers.utils import logging

from hfxling.console import run as run_recipe
from hfxling.data.readers import read_lines
from hfxling.encoders.loading import load_encoder
from hfxling.sentences.grow import grow

TITLE = "The promised precision of bootstrap without a known pair, and what it was, %"
KINDS = ("all", "lines", "documents", "other")
HALF = LINES // 2
OTHERS = "th-zh"  # the pair whose distractors stand beside Thai and Chinese
MOST = 3 * LINES  # distractors that are encoded, as many as for bootstrap.py


def main(argv: list[str] | None = None) -> dict:
    options = parser(__doc__, "precision")
    options.add_argument("--data", default="../shared/data", help="folder with ntrex/ and others")
    options.add_argument("--encoder", default="me5-small", help="me5-small, folder or Hub id")
    options.add_argument("--pairs", nargs="+", default=["lo-zh", "th-zh", "lo-th"])
    options.add_argument("--precisions", nargs="+", type=float, default=[0.95, 0.9], help="that are asked for")
    options.add_argument("--rounds", type=int, default=0, help="after the encoder's own (default 0)")
    options.add_argument("--halvings", type=int, default=20)
    options.add_argument("--cache_dir", default="outputs/features", help="where the encoder's vectors are kept")
    args = options.parse_args(argv)
    torch.set_num_threads(1)
    logging.set_verbosity_error()
    encoder = load_encoder(encoder_folder(args.encoder))
    settings = {name: getattr(args, name) for name in ("encoder", "pairs", "precisions", "rounds", "halvings")}
    path = Path(args.results_dir) / f"precision_{args.rounds}.json"
    outcomes = {}
    for pair in args.pairs:
        for kind in KINDS:
            outcomes[pair, kind] = measure(pair, kind, encoder, args)
            figures = figures_of(outcomes, args.precisions)
            report("precision", figures, settings, title=TITLE, path=path)
    return figures


def figures_of(outcomes: dict, precisions: list[float]) -> dict:
    """Of every bitext and of all, for each precision that was asked for."""
    figures = {}
    for precision in precisions:
        every = {}
        for (pair, kind), of_bitext in outcomes.items():
            every[f"{pair} {kind}"] = np.array(of_bitext[precision])
        named = {name: summary(rows) for name, rows in every.items()}
        figures[f"{precision:g}"] = named | {"bitexts": summary(np.concatenate(list(every.values())))}
    return figures


def summary(rows: np.ndarray) -> dict[str, float]:
    """Means over halvings of rows of truth, estimate, low, high and recall."""
    truth, estimate, low, high, recall = rows.T
    return {
        "realised": round(100 * float(truth.mean()), 2),
        "recall": round(100 * float(recall.mean()), 2),
        "covered": round(100 * float(((low <= truth) & (truth <= high)).mean()), 1),
        "miss": round(100 * float(np.abs(truth - estimate).mean()), 2),
        "bias": round(100 * float((truth - estimate).mean()), 2),
        "interval": round(100 * float((high - low).mean()), 2),
    }


def measure(pair: str, kind: str, encoder, args) -> dict[float, list[tuple[float, ...]]]:
    """By precision that was asked for: truth, estimate, low, high and recall of each halving."""
    languages = tuple(pair.split("-"))
    text = read_text(f"{args.data}/ntrex", pair)
    others = {}
    if kind == "other":
        others = dict(
            zip(
                OTHERS.split("-"),
                distractors(args.data, OTHERS, MOST, tuple(read_text(f"{args.data}/ntrex", OTHERS).values())),
            )
        )
    found = {precision: [] for precision in args.precisions}
    for seed in range(args.halvings):
        heaps, vectors, places = [], [], []
        rng = np.random.default_rng(seed)
        order = drawn(f"{args.data}/ntrex/DOCUMENT_IDS.tsv", kind, rng)
        paired, rest = order[:HALF], np.array_split(order[HALF:], 2)
        for side, language in enumerate(languages):
            lines = text[language]
            alone = []
            if kind in ("lines", "documents"):
                alone = [lines[i] for i in rest[side]]
            elif language in others:
                alone = [others[language][i] for i in rng.permutation(len(others[language]))[:HALF]]
            place = rng.permutation(HALF + len(alone))
            heap = [*(lines[i] for i in paired), *alone]
            heaps.append([heap[i] for i in place])
            places.append(place)
            vectors.append(vectors_of(encoder, (lines, others.get(language, [])), heaps[-1], args.cache_dir))
        for precision in args.precisions:
            grown = grow(heaps, languages, vectors=vectors, rounds=args.rounds, precision=precision, seed=seed)
            if grown.best.estimate is None:
                continue
            numbers = [place[rows] for place, rows in zip(places, grown.pairs)]
            right = (numbers[0] == numbers[1]) & (numbers[0] < HALF)
            estimate = grown.best.estimate
            row = (right.mean(), estimate.precision, estimate.low, estimate.high, right.sum() / HALF)
            found[precision].append(row)
    return found


def drawn(documents: str, kind: str, rng: np.random.Generator) -> np.ndarray:
    """Training lines in the order of the draw; whole documents for "documents"."""
    if kind != "documents":
        return rng.permutation(LINES)
    names = np.array([line.split("\t")[0].strip() for _, line in read_lines(documents)][:LINES])
    order = [np.flatnonzero(names == name) for name in rng.permutation(np.unique(names))]
    return np.concatenate(order)


if __name__ == "__main__":
    run_recipe(main)
