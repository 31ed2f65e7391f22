"""Does the precision that bootstrap promises without a known pair hold? Twelve bitexts, 20 halvings each.

python benchmarks/precision.py --data ../shared/data --encoder me5-small [--rounds 0] [--halvings 20]

Each bitext is half of NTREX's training lines, drawn anew for each halving, and what stands beside it unpaired: nothing
("all"), other lines of the same documents, half of them a side ("lines"), lines of other documents ("documents"), or
as many sentences of other text a side (distractors.py, "other"; Lao has none). `covered` is the share of halvings
whose 95 % interval has the realised precision in it, `miss` how far that is from the estimate on average, `bias` the
same with its sign (negative: fewer pairs are right than was promised). --rounds 0 is the encoder alone, 1 with the
links and the head that are learnt from what it finds. Both rounds learn from the same pairs whatever precision is
asked for, so each halving is grown once. Every halving is kept when it is done: a run that was stopped goes on with
the others, and one with more halvings with those that are missing. --first draws other halvings (seeds) than 0, 1, ...
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when numpy and torch are imported

from pathlib import Path

import numpy as np
import torch
from distractors import distractors
from encoders import encoder_folder
from harness import earlier_file, parser, report
from ntrex import LINES, read_text
from stored_vectors import StoredVectors
from transformers.utils import logging

from hfxling.console import run as run_recipe
from hfxling.data.readers import read_lines
from hfxling.encoders.loading import load_encoder
from hfxling.sentences.grow import LOOSE, grow
from hfxling.sentences.impostors import of_precision

TITLE = "The promised precision of bootstrap without a known pair, and what it was, %"
KINDS = ("all", "lines", "documents", "other")
HALF = LINES // 2
OTHERS = "th-zh"  # the pair whose distractors stand beside Thai and Chinese
MOST = 3 * LINES  # distractors that are encoded, as many as for bootstrap.py


def main(argv: list[str] | None = None) -> dict:
    options = parser(__doc__, "precision")
    options.add_argument("--data", default="../shared/data", help="folder with ntrex/ and others")
    options.add_argument("--encoder", default="me5-small", help="encoder: me5-small, or a folder or Hub id")
    options.add_argument("--pairs", nargs="+", default=["lo-zh", "th-zh", "lo-th"])
    options.add_argument("--precisions", nargs="+", type=float, default=[0.95, 0.9], help="wanted precisions")
    options.add_argument(
        "--rounds", type=int, default=0, choices=(0, 1), help="number of rounds after the encoder's own (default 0)"
    )
    options.add_argument("--halvings", type=int, default=20)
    options.add_argument("--first", type=int, default=0, help="seed of the first halving")
    options.add_argument(
        "--dtype", default="bfloat16", help="number format of the encoder's matrix products (default bfloat16)"
    )
    options.add_argument(
        "--cache_dir", default="outputs/features", help="folder in which the encoder's vectors are cached"
    )
    options.add_argument("--name", help="name of the results file; by default precision_ROUNDS")
    args = options.parse_args(argv)
    if min(args.precisions) < LOOSE:
        raise ValueError(f"precisions of {LOOSE} or more are asked for, from which on all learn from the same pairs.")
    torch.set_num_threads(1)
    logging.set_verbosity_error()
    vectors = StoredVectors(load_encoder(encoder_folder(args.encoder)), args.cache_dir, args.dtype)
    names = ("encoder", "pairs", "precisions", "rounds", "halvings", "first", "dtype")
    settings = {name: getattr(args, name) for name in names}
    path = Path(args.results_dir) / f"{args.name or f'precision_{args.rounds}'}.json"
    outcomes = earlier(path, settings)
    figures = {}
    for seed in range(args.first, args.first + args.halvings):  # all bitexts of a halving, then the next
        for pair in args.pairs:
            for kind in KINDS:
                of_bitext = outcomes.setdefault(f"{pair} {kind}", {})
                if str(seed) not in of_bitext:
                    of_bitext[str(seed)] = measure(pair, kind, seed, vectors, args)
                    figures = figures_of(outcomes, args.precisions)
                    told = {"title": TITLE, "path": path, "outcomes": outcomes}
                    report("precision", figures, settings, **told)
    return figures or figures_of(outcomes, args.precisions)


def earlier(path: Path, settings: dict) -> dict:
    """Halvings of a run that was stopped, with the same settings but for the number of halvings."""
    same = {name: value for name, value in settings.items() if name != "halvings"}
    return earlier_file(path, same).get("outcomes", {})


def figures_of(outcomes: dict, precisions: list[float]) -> dict:
    """Of every bitext and of all, for each precision that was asked for."""
    figures = {}
    for precision in precisions:
        every = {}
        for name, of_bitext in outcomes.items():
            rows = [row[f"{precision:g}"] for row in of_bitext.values() if row[f"{precision:g}"]]
            if rows:
                every[name] = np.array(rows)
        named = {name: summary(rows) for name, rows in every.items()}
        figures[f"{precision:g}"] = named
        if every:
            figures[f"{precision:g}"]["bitexts"] = summary(np.concatenate(list(every.values())))
    return figures


def summary(rows: np.ndarray) -> dict[str, float]:
    """Means over halvings of rows of truth, estimate, low, high and recall."""
    truth, estimate, low, high, recall = rows.T
    return {
        "halvings": len(rows),
        "realised": round(100 * float(truth.mean()), 2),
        "recall": round(100 * float(recall.mean()), 2),
        "covered": round(100 * float(((low <= truth) & (truth <= high)).mean()), 1),
        "miss": round(100 * float(np.abs(truth - estimate).mean()), 2),
        "bias": round(100 * float((truth - estimate).mean()), 2),
        "interval": round(100 * float((high - low).mean()), 2),
    }


def measure(pair: str, kind: str, seed: int, vectors: StoredVectors, args) -> dict[str, list[float]]:
    """By precision that was asked for: truth, estimate, low, high and recall of a halving; [] where none is reached."""
    languages = tuple(pair.split("-"))
    text = read_text(f"{args.data}/ntrex", pair)
    others = {}
    if kind == "other":
        ntrex = tuple(read_text(f"{args.data}/ntrex", OTHERS).values())
        others = dict(zip(OTHERS.split("-"), distractors(args.data, OTHERS, MOST, ntrex)))
    rng = np.random.default_rng(seed)
    order = drawn(f"{args.data}/ntrex/DOCUMENT_IDS.tsv", kind, rng)
    paired, rest = order[:HALF], np.array_split(order[HALF:], 2)
    heaps, places = [], []
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
    rounds = []

    def keep(_, pairs, given) -> None:
        rounds.append((pairs, given))

    of_heaps = [vectors.of(heap) for heap in heaps]
    grow(heaps, languages, vectors=of_heaps, rounds=args.rounds, precision=LOOSE, seed=seed, report=keep)
    found = {}
    for precision in args.precisions:
        strict, estimate = max((of_precision(*each, precision) for each in rounds), key=lambda each: len(each[0].score))
        found[f"{precision:g}"] = []
        if estimate is not None:
            numbers = [place[rows] for place, rows in zip(places, strict)]
            right = (numbers[0] == numbers[1]) & (numbers[0] < HALF)
            row = (right.mean(), estimate.precision, estimate.low, estimate.high, right.sum() / HALF)
            found[f"{precision:g}"] = [float(value) for value in row]
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
