"""What an encoder adds to counted links: sparse and static vectors, with its similarities of words in the E steps.

python benchmarks/links_with_encoder.py --data ../shared/data --encoder me5-small [--pairs zh-vi lo-zh] [--sizes 1543]

The first lines of NTREX (of vi-zh: everyday text) are learnt from, as many as --sizes says; lines 1544 to 1997 (of
vi-zh its test text) are ranked, by inner product of sparse vectors and cosine of static ones; ties are misses. Settings
are the defaults of `fit_lexical`, chosen without an encoder. A row with the encoder carries the paired test against the
row without it. A run that was stopped goes on with the texts and sizes that are missing.
"""

import os
import time
from dataclasses import replace
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when numpy and torch are imported

import torch
from encoders import encoder_folder
from harness import earlier_rows, parser, report_rows, write_rows
from transformers.utils import logging

import hfxling
from hfxling.console import run as run_recipe
from hfxling.data.pairs import read_pairs
from hfxling.evaluation.results import EvalResult
from hfxling.evaluation.retrieval import ranking_results
from hfxling.files import content_hash
from hfxling.methods.lexical.evaluate import rank

TITLE = "Sparse and static vectors of links that were counted from the text alone and with an encoder"
EVERYDAY = "vi-zh everyday"
PAIRS = ("zh-vi", "lo-zh", "th-zh", "id-zh", "lo-th", EVERYDAY)
SIZES = (100, 300, 1000, 1543)
ALONE, WITH_ENCODER = "links", "links with the encoder"
KINDS = ("sparse", "static")


def main(argv: list[str] | None = None) -> dict:
    options = parser(__doc__, "links_with_encoder")
    options.add_argument("--data", default="../shared/data", help="folder with ntrex/ and vi-zh/")
    options.add_argument("--encoder", default="me5-small", help="encoder: me5-small, or a folder or Hub id")
    options.add_argument("--pairs", nargs="+", default=PAIRS)
    options.add_argument("--sizes", nargs="+", type=int, default=SIZES, help="numbers of pairs to learn from")
    options.add_argument("--name", default="links_with_encoder", help="name of the results file")
    args = options.parse_args(argv)
    torch.set_num_threads(1)
    logging.set_verbosity_error()
    labels = []
    for size in args.sizes:
        for kind in KINDS:
            labels += [f"{kind}, {size} pairs, {ALONE}", f"{kind}, {size} pairs, {WITH_ENCODER}"]
    about = {"title": TITLE, "labels": labels, "metrics": ["P@1"]}
    results = earlier_rows(vars(args), "pairs", "sizes")
    for name in args.pairs:
        for size in args.sizes:
            if not any(row.dataset == name and row.settings["pairs"] == size for row in results):
                results += measure(name, size, args)
                write_rows("links_with_encoder", results, vars(args), **about)
    return report_rows("links_with_encoder", results, vars(args), **about)


def measure(name: str, size: int, args) -> list[EvalResult]:
    """Count links in so many pairs of a text with the encoder and without, and rank the test text by both."""
    pair = tuple(name.split()[0].split("-"))
    train, test = text_of(name, pair, size, Path(args.data))
    pairs = read_pairs(train, languages=pair)
    held_out = read_pairs(test, languages=pair)
    sides = held_out.source, held_out.target
    rows, without = [], []
    for label, model in ((ALONE, None), (WITH_ENCODER, encoder_folder(args.encoder))):
        start = time.process_time()
        fitted = hfxling.fit_lexical(pairs.source, pairs.target, pair, model=model, device="cpu", progress=False)
        seconds = time.process_time() - start
        # Sparse both ways, static both ways; the row's label says which of them it is.
        rankings = [replace(ranking, settings={}) for ranking in rank(fitted, sides, pair)]
        for number, kind in enumerate(KINDS):
            ways = slice(2 * number, 2 * number + 2)
            settings = {"stage": "after", "row": f"{kind}, {size} pairs, {label}", "pairs": size}
            settings["train_cpu_s"] = round(seconds, 1)
            fields = {"dataset": name, "split": "test", "revision": content_hash(*sides), "model": label, "seed": 42}
            baseline = without[ways] if without else None
            rows += ranking_results(rankings[ways], ks=(1,), baseline=baseline, settings=settings, **fields)
            shown = ", ".join(f"{row.value:.1f}" for row in rows[-2:])
            print(f"{name}, {settings['row']}: {shown} ({seconds:.0f} s)", flush=True)
        without = rankings
    return rows


def text_of(name: str, pair: tuple[str, str], size: int, data: Path) -> tuple[str, str]:
    """Sources of training and test text."""
    if name == EVERYDAY:
        return f"{data}/vi-zh/train.tsv@1-{size}#0,1", f"{data}/vi-zh/test.tsv#0,1"
    both = "+".join(f"{data}/ntrex/{lang}.txt" for lang in pair)
    return f"{both}@1-{size}", f"{both}@1544-1997"


if __name__ == "__main__":
    run_recipe(main)
