"""How far few sentence pairs get: what `hfxling fit` makes of 50 to 1,543 pairs, and the encoder without any.

python benchmarks/learning_curve_pairs.py --data ../shared/data --encoder ../shared/models/mini-labse \
    [--pairs lo-zh zh-vi] [--sizes 50 100 250 500 1000 1543] [--draws 3] [--only fused finetuned_fused]

Each size is drawn three times from the training lines of NTREX (all of them once); P@1 of the 454 test lines, by inner
product or cosine, both directions, ties being misses. "auto" is the head that `--fit auto` chooses on one layer; layer,
head and the weight of fused scores are chosen on the drawn pairs alone. Shown are mean and standard deviation over the
draws and the 95 % interval over the test lines. The encoder as it came needs no pairs: its row stands for all
sizes. `paired` of a row is the test against it. Every draw is kept when it is measured: a run that was stopped goes on
with the others.
"""

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when numpy and torch are imported
os.environ.setdefault("HF_HUB_OFFLINE", "1")  # nothing is downloaded

import numpy as np
import torch
from encoders import encoder_folder, weights_note
from harness import earlier_rows, parser, report_rows, write_rows
from ntrex import LINES, read_text
from retrieval_table import Memory, fitted, ranked
from transformers.utils import logging

from hfxling.console import run as run_recipe
from hfxling.data.sources import Pair, parse_pair
from hfxling.encoders.dense import SentenceEncoder
from hfxling.encoders.fusion import ROLES
from hfxling.evaluation.averages import mean_result
from hfxling.evaluation.results import EvalResult
from hfxling.evaluation.retrieval import gold_ranks, hits_at
from hfxling.progress import hide_loading_bars
from hfxling.selection.select import NAMES, select

TITLE = "P@1 by number of sentence pairs, NTREX"
CALLED = {"one layer + head": "auto", "several layers + head": "layers"}  # what `fitted` calls otherwise
AS_IT_CAME = ("encoder", "encoder without its prompt")  # of `fitted`: needs no pairs
Sides = Sequence[Sequence[str]]  # source and target texts
Ranks = tuple[np.ndarray, np.ndarray]  # of the translations, source to target and back


def main(argv: list[str] | None = None) -> dict[str, dict]:
    options = parser(__doc__, "NAME")
    options.add_argument("--data", default="../shared/data", help="folder with ntrex/")
    options.add_argument(
        "--encoder", default="../shared/models/mini-labse", help="encoder: me5-small, or a folder or Hub id"
    )
    options.add_argument("--pairs", nargs="+", type=parse_pair, default=[("lo", "zh"), ("zh", "vi")])
    options.add_argument("--sizes", nargs="+", type=int, default=[50, 100, 250, 500, 1000, LINES])
    options.add_argument(
        "--draws", type=int, default=3, help="number of draws of each size but the full one (default 3)"
    )
    options.add_argument("--only", nargs="+", choices=NAMES, default=["head", "fused"], help="what competes")
    options.add_argument("--minutes", type=float, default=60, help="time for what competes, as in hfxling fit")
    options.add_argument("--name", default="learning_curve_pairs", help="name of the results file")
    args = options.parse_args(argv)
    if min(args.sizes) < 10 or max(args.sizes) > LINES:
        options.error(f"give sizes from 10 to {LINES} pairs.")
    torch.set_num_threads(1)
    logging.set_verbosity_error()
    hide_loading_bars()
    encoder = encoder_folder(args.encoder)
    name = Path(encoder).name
    settings = vars(args) | {"pairs": ["-".join(pair) for pair in args.pairs], "encoder": name}
    settings["weights"] = weights_note(encoder)
    results = earlier_rows(settings, "pairs", "sizes", "draws")
    for pair in args.pairs:
        lines = [read_text(f"{args.data}/ntrex", "-".join(pair))[lang] for lang in pair]
        train, test = ([side[part] for side in lines] for part in (slice(LINES), slice(LINES, None)))
        before = encoder_ranks(SentenceEncoder(encoder), test)
        first = {"row": f"{name}, as it came"}
        if not is_measured(results, pair, first):
            results += rows_of(before, pair, first)
        for size in args.sizes:
            for draw, rows in enumerate(draws(LINES, size, args.draws)):
                if is_measured(results, pair, {"pairs": size}, draw):
                    continue
                drawn = [[side[i] for i in rows] for side in train]
                for label, ranks in fitted_ranks(drawn, test, pair, encoder, args).items():
                    about = {"row": f"{label}, {size} pairs", "pairs": size}
                    results += rows_of(ranks, pair, about, before=before, seed=draw)
                labels = labels_of(results)
                write_rows("learning_curve_pairs", results, settings, title=TITLE, labels=labels, metrics=["P@1"])
    return report_rows(
        "learning_curve_pairs", results, settings, title=TITLE, labels=labels_of(results), metrics=["P@1"]
    )


def labels_of(results: Sequence[EvalResult]) -> list[str]:
    """Of all rows, in their order."""
    return list(dict.fromkeys(row.settings["row"] for row in results))


def is_measured(results: Sequence[EvalResult], pair: Pair, settings: dict, draw: int | None = None) -> bool:
    """Whether there are rows with these settings of a language pair and a draw."""
    dataset = dataset_of(pair)
    return any(
        (row.dataset, row.seed) == (dataset, draw) and row.settings | settings == row.settings for row in results
    )


def dataset_of(pair: Pair) -> str:
    """As the rows call it."""
    return f"NTREX {'-'.join(pair)}"


def draws(count: int, size: int, times: int) -> list[np.ndarray]:
    """Numbers of the drawn pairs, in order; a draw of all pairs is made once."""
    times = 1 if size == count else times
    return [np.sort(np.random.default_rng(seed).permutation(count)[:size]) for seed in range(times)]


def encoder_ranks(encoder: SentenceEncoder, test: Sides) -> Ranks:
    """By cosine."""
    source, target = (encoder.encode(list(side), progress=False) for side in test)
    return gold_ranks(source, target)


def fitted_ranks(train: Sides, test: Sides, pair: Pair, encoder: str, args) -> dict[str, Ranks]:
    """By all that competes in `hfxling fit`, from the folders that it writes."""
    with tempfile.TemporaryDirectory() as folder:
        options = {"only": args.only, "minutes": args.minutes, "output": None}
        selection = select(*train, languages=pair, model=encoder, **options)
        found = {}
        for label, embed in fitted(selection, encoder, Path(folder), Memory()).items():
            if label in AS_IT_CAME:
                continue
            ways = []
            for sides in ((0, 1), (1, 0)):
                vectors = [embed(list(test[side]), pair[side], role) for side, role in zip(sides, ROLES)]
                ways.append(ranked(*vectors)[0])
            found[CALLED.get(label, label)] = tuple(ways)
        return found


def rows_of(ranks: Ranks, pair: Pair, settings: dict, *, before: Ranks | None = None, seed: int | None = None) -> list:
    """P@1 of both directions; with the encoder's ranks the paired test against it."""
    rows = []
    for i, languages in enumerate((pair, pair[::-1])):
        about = {"dataset": dataset_of(pair), "split": "test", "direction": "->".join(languages), "seed": seed}
        baseline = None if before is None else hits_at(before[i], 1)
        stage = {"stage": "before" if before is None else "after"}
        rows.append(mean_result("P@1", hits_at(ranks[i], 1), baseline=baseline, settings=stage | settings, **about))
    return rows


if __name__ == "__main__":
    run_recipe(main)
