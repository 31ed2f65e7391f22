"""Is the precision that is asked for the precision that comes out? 20 halvings of the known pairs, four language pairs.

python benchmarks/mining_precision.py --data ../shared/data [--pairs zh-vi lo-zh th-zh lo-th] [--precision 0.95]

A lexical model of NTREX's lines 1 to 1235 mines a haystack of the 454 test pairs and --times as many distractors on
either side (distractors.py; Lao has none). Known are the pairs of lines 1236 to 1543; each halving draws which of them
keep their targets there and which choose the threshold. Nothing else is told: the share of unpaired sentences is
estimated, and the texts themselves have a say, as in `hfxling mine --precision 0.95 --known PAIRS`. `alone` is without
the known pairs. "realised" is the share of kept pairs that are lines of the same number: true translations among the
distractors count as wrong. `within_2_points` is how many pairs' means are, `below_93` the share of halvings under 93 %.
"""

import os
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when numpy and torch are imported

import numpy as np
import torch
from distractors import distractors
from harness import parser, report
from ntrex import LINES, read_text
from scipy.sparse import csr_array, vstack
from transformers.utils import logging

from hfxling import fit_lexical
from hfxling.console import run as run_recipe
from hfxling.data.filters import count_words
from hfxling.encoders.fusion import ROLES
from hfxling.sentences.blocks import both_ways
from hfxling.sentences.impostors import mutual_pairs, of_precision
from hfxling.sentences.mine import HiddenPairs

TITLE = "Wanted, estimated and realised precision over halvings of the known pairs"
LEARNT = 1235


def main(argv: list[str] | None = None) -> dict:
    options = parser(__doc__, "mining_precision")
    options.add_argument("--data", default="../shared/data", help="folder with ntrex/ and others")
    options.add_argument("--pairs", nargs="+", default=["zh-vi", "lo-zh", "th-zh", "lo-th"])
    options.add_argument("--precision", type=float, default=0.95, help="wanted precision (default 0.95)")
    options.add_argument("--times", type=int, default=3, help="number of distractors for each test pair (default 3)")
    options.add_argument(
        "--halvings", type=int, default=20, help="number of times that the known pairs are halved (default 20)"
    )
    args = options.parse_args(argv)
    torch.set_num_threads(1)
    logging.set_verbosity_error()
    figures = {pair: measure(pair, args) for pair in args.pairs}
    means = [found["realised"] for found in figures.values()]
    figures["within_2_points"] = sum(abs(mean - 100 * args.precision) <= 2 for mean in means)
    settings = {name: getattr(args, name) for name in ("pairs", "precision", "times", "halvings")}
    path = Path(args.results_dir) / "mining_precision.json"
    return report("mining_precision", figures, settings, title=TITLE, path=path)


def measure(pair: str, args) -> dict[str, float]:
    """Means over the halvings of one pair."""
    languages = pair.split("-")
    text = read_text(f"{args.data}/ntrex", pair)
    sides = [text[lang] for lang in languages]
    model = fit_lexical(*(side[:LEARNT] for side in sides), tuple(languages), progress=False)
    count = len(sides[0]) - LINES
    more = distractors(args.data, pair, args.times * count, text.values())
    heaps = [[*side[LINES:], *others] for side, others in zip(sides, more)]
    known = [side[LEARNT:LINES] for side in sides]
    vectors = [
        [model.encode(texts, lang, role) for texts in both]
        for lang, role, both in zip(languages, ROLES, zip(heaps, known))
    ]
    lengths = [
        [np.array([count_words(text, lang) for text in texts]) for texts in both]
        for lang, both in zip(languages, zip(heaps, known))
    ]
    alone = {}
    mined, given = mutual_pairs(*both_ways(*(heap for heap, _ in vectors), 5), [heap for heap, _ in lengths])
    kept, estimate = of_precision(mined, given, args.precision)
    if estimate is not None:
        right = (kept.source == kept.target) & (kept.source < count)
        alone = {"realised": round(100 * float(right.mean()), 2), "recall": round(100 * float(right.sum() / count), 2)}
        alone |= {"low": round(100 * estimate.low, 1), "high": round(100 * estimate.high, 1)}
    drawn = []
    for seed in range(args.halvings):
        hidden_pairs = HiddenPairs(*known, args.precision, seed=seed)
        taken = np.ones(len(known[0]), bool), hidden_pairs.kept
        matrices = [csr_array(vstack([heap, own[rows]], format="csr")) for (heap, own), rows in zip(vectors, taken)]
        words = [np.concatenate([heap, own[rows]]) for (heap, own), rows in zip(lengths, taken)]
        pairs, given = mutual_pairs(*both_ways(*matrices, 5), words)
        estimate, new = hidden_pairs.taken_out(pairs, [matrix.shape[0] for matrix in matrices], given)
        above = new.score >= estimate.threshold
        right = (new.source == new.target)[above] & (new.source < count)[above]
        holds = estimate.low <= right.mean() <= estimate.high
        drawn.append((right.mean(), right.sum() / count, estimate.precision, estimate.unpaired, holds))
        print(f"{pair} {seed}: realised {right.mean():.3f}, recall {drawn[-1][1]:.3f}, {estimate}", flush=True)
    realised, recall, estimated, unpaired, covered = (100 * np.array(drawn)).T
    return {
        "alone": alone,
        "realised": round(float(realised.mean()), 2),
        "sd": round(float(realised.std()), 2),
        "below_93": round(float((realised < 93).mean()), 3),
        "recall": round(float(recall.mean()), 2),
        "estimated": round(float(estimated.mean()), 2),
        "covered": round(float(covered.mean()), 1),
        "unpaired": round(float(unpaired.mean()), 1),
        "unpaired_truth": round(100 * (1 - count / len(heaps[0])), 1),
    }


if __name__ == "__main__":
    run_recipe(main)
