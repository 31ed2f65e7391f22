"""Sentence pairs a CPU second that the word aligner links: one by one, and in the batches that it makes by itself.

python benchmarks/aligner_decode.py [--data ../shared/data/ntrex] [--pair lo-zh] [--pairs 200] [--size 500]

An untrained model, as its weights do not matter to its speed, with vocabularies of lines 1 to 1543 of the text; the
lines after them are linked, both ways by turns, and the links must be the same.
"""

import os
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when numpy and torch are imported

import torch
from harness import machine, parser, report
from ntrex import LINES, read_text, settings_of, training_text

from hfxling.console import run as run_recipe
from hfxling.methods.aligner.train import new_model
from hfxling.words.aligner import Aligner

REPEATS = 3


def main(argv: list[str] | None = None) -> dict:
    options = parser(__doc__, "aligner_decode")
    options.add_argument("--data", default="../shared/data/ntrex", help="folder of line-aligned LANG.txt files")
    options.add_argument("--pair", default="lo-zh")
    options.add_argument("--pairs", type=int, default=200, help="number of sentence pairs to link")
    options.add_argument("--size", type=int, default=500)
    args = options.parse_args(argv)
    torch.set_num_threads(1)
    vocabularies, pairs = training_text(args.data, args.pair)
    torch.manual_seed(0)
    model = new_model(settings_of(args.data, args.pair, size=args.size), vocabularies)
    aligner = Aligner(model, vocabularies, pairs.languages, units="segments", method="grow-diag-final-and")
    text = [lines[LINES : LINES + args.pairs] for lines in read_text(args.data, args.pair).values()]
    seconds: dict[str, list[float]] = {"one by one": [], "in batches": []}
    links = {}
    for _ in range(REPEATS):
        for name, batch_size in (("one by one", 1), ("in batches", None)):
            start = time.process_time()
            links[name] = [line.links for line in aligner(*text, batch_size=batch_size)]
            seconds[name].append(time.process_time() - start)
    if links["one by one"] != links["in batches"]:
        raise RuntimeError("links depend on the batch.")
    figures = {f"pairs_per_cpu_s {name}": round(len(text[0]) / min(spent), 1) for name, spent in seconds.items()}
    figures["batches_over_one_by_one"] = round(min(seconds["one by one"]) / min(seconds["in batches"]), 2)
    about = vars(args) | {"repeats": REPEATS} | machine()
    title, path = (
        f"Linking {args.pair} sentences of NTREX, {args.size} units",
        f"{args.results_dir}/aligner_decode.json",
    )
    return report("aligner_decode", figures, about, title=title, path=path)


if __name__ == "__main__":
    run_recipe(main)
