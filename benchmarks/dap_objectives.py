"""DAP's objectives against translation ranking alone: the same items, equal steps and equal time; and mining.

python benchmarks/dap_objectives.py [--runs outputs/dap_objectives] [--talpco ../shared/data/talpco] [--name NAME]

Reads the runs that a study keeps (recipes/configs/dap/studies/objectives.yaml or me5.yaml), of the seeds that all
objectives have.
A row is what an objective has more than TR, in points, the mean over the seeds, with a p-value over test items: sign
flips for P@1, Student's t on the jackknife's error for AER and F1, whose sets count alike. What each seed gave is in
the settings. Equal time, where models were tested on the way: TR's last test against the objective's last one that came
no later, by CPU seconds of training, both on the items that are tested on the way.

Mining (with --talpco, a folder of TALPCo's line-aligned {lang}.txt): of every three lines one stands on both sides, one
on the source side and one on the English side only; threshold from lines 1 to 1072, F1 on 1073 to 1372.
With --xnli every kept model of --xnli_seeds is fine-tuned (docs/evaluation.md). What mining and fine-tuning gave is
kept beside the run. With --figure a PNG of the words' vectors of 100 sentence pairs of --gold, before and after.
"""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when numpy and torch are imported
os.environ.setdefault("HF_HUB_OFFLINE", "1")  # nothing is downloaded

import numpy as np
import torch
from harness import minutes_unknown, parser, report_rows
from scipy.stats import t
from transformers import TrainingArguments
from transformers.utils import logging

from hfxling.arguments import parse_arguments
from hfxling.console import run as run_recipe
from hfxling.data.pharaoh import read_aligned
from hfxling.data.readers import read_lines
from hfxling.encoders.dense import SentenceEncoder
from hfxling.evaluation.compare import paired
from hfxling.evaluation.items import Items
from hfxling.evaluation.mining import Comparable, f1_of, mining_results
from hfxling.evaluation.plots import scatter_tokens
from hfxling.evaluation.results import EvalResult, read_results, write_results
from hfxling.evaluation.significance import PairedTest, error_interval, jackknife_error

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from examples import xnli

TITLE = "What DAP's objectives have more than translation ranking alone, in points on the same items"
TR = "TR"
TALPCO = {"trained": ("id", "ja", "ko", "th", "vi"), "untrained": ("jv", "ms", "my")}
TALPCO_TRAIN = 1072

Runs = dict[str, dict[int, list[EvalResult]]]  # label -> seed -> rows


def main(argv: list[str] | None = None) -> dict:
    options = parser(__doc__, "dap_objectives")
    options.add_argument("--runs", default="outputs/dap_objectives", help="folder of LABEL-SEED folders")
    options.add_argument("--name", default="dap_objectives", help="name of the results file")
    options.add_argument("--talpco", help="folder of TALPCo, in which to mine; by default nothing is mined")
    options.add_argument(
        "--xnli", help="configuration with which to fine-tune, such as examples/configs/xnli/local.yaml"
    )
    options.add_argument(
        "--xnli_seeds", nargs="+", type=int, default=[0], help="seeds of the runs that are fine-tuned (default 0)"
    )
    options.add_argument("--figure", help="PNG file to write, of token vectors of seed 0")
    options.add_argument(
        "--gold", default="../shared/data/align/zh-en.tsv", help="sentence pairs that the figure shows"
    )
    options.add_argument("--start", default="../shared/models/mini-mlm", help="the encoder before training")
    args = options.parse_args(argv)
    torch.set_num_threads(1)
    logging.set_verbosity_error()
    folder = Path(args.runs)
    runs = read_runs(folder)
    if [*folder.glob("*/mining.json"), *folder.glob("*/xnli.json")]:  # of an earlier start, without its CPU minutes
        minutes_unknown(f"{args.results_dir}/{args.name}.json")
    for label, by_seed in runs.items():
        for seed, rows in by_seed.items():
            kept = folder / f"{label}-{seed}"
            if args.talpco:
                rows += once(kept / "mining.json", lambda kept=kept: mined(kept, Path(args.talpco)))
            if args.xnli and seed in args.xnli_seeds:
                rows += once(kept / "xnli.json", lambda kept=kept, seed=seed: fine_tuned(kept, seed, args.xnli))
    if args.figure:
        draw(folder, sorted(runs, key=lambda label: label != TR), args)
    results = [row for label in runs if label != TR for row in differences(label, runs[label], runs[TR])]
    labels = list(dict.fromkeys(row.settings["row"] for row in results))
    metrics = list(dict.fromkeys(row.metric for row in results))
    settings = vars(args)
    return report_rows(
        "dap_objectives", results, settings, title=TITLE, labels=labels, metrics=metrics, shown=len(metrics)
    )


def read_runs(folder: Path) -> Runs:
    """The rows of all kept runs of the seeds that every objective has.

    Raises:
        FileNotFoundError: no run there, or none of TR.
    """
    runs: Runs = {}
    for path in sorted(folder.glob("*/results.json")):
        label, _, seed = path.parent.name.rpartition("-")
        runs.setdefault(label, {})[int(seed)] = read_results(path)
    if TR not in runs:
        raise FileNotFoundError(f"{folder}: no run of TR in it; run the study dap/studies/objectives.yaml first.")
    seeds = set.intersection(*(set(by_seed) for by_seed in runs.values()))
    return {label: {seed: by_seed[seed] for seed in sorted(seeds)} for label, by_seed in runs.items()}


def differences(label: str, ours: dict[int, list[EvalResult]], theirs: dict[int, list[EvalResult]]):
    """Rows of what an objective has more than TR: at the end, and in TR's time where they were tested on the way."""
    pairs = [(at_end(ours[seed]), at_end(theirs[seed]), None) for seed in ours]
    yield from compared(f"{label}, equal steps", pairs)
    if all(row.settings["stage"] != "during" for rows in theirs.values() for row in rows):
        return
    pairs = [in_time(ours[seed], theirs[seed]) for seed in ours]
    yield from compared(f"{label}, equal time", pairs)


def at_end(rows: Sequence[EvalResult]) -> list[EvalResult]:
    """The rows of the trained encoder."""
    return [row for row in rows if row.settings["stage"] == "after"]


def in_time(ours: Sequence[EvalResult], theirs: Sequence[EvalResult]) -> tuple[list[EvalResult], list[EvalResult], int]:
    """The last test of ours that came no later than the last of theirs, that one, and the step of ours."""
    curves = [[row for row in rows if row.settings["stage"] == "during"] for rows in (ours, theirs)]
    last = max(row.settings["step"] for row in curves[1])
    time = next(row.settings["train_cpu_s"] for row in curves[1] if row.settings["step"] == last)
    step = max(row.settings["step"] for row in curves[0] if row.settings["train_cpu_s"] <= time)
    at = [[row for row in curve if row.settings["step"] == place] for curve, place in zip(curves, (step, last))]
    return *at, step


def compared(label: str, pairs: Sequence[tuple]) -> Iterator[EvalResult]:
    """Rows of the differences in every figure, over the seeds.

    Args:
        label: of the rows.
        pairs: of each seed our rows, TR's rows, and the step of ours where it is another.
    """
    steps = [step for *_, step in pairs if step is not None]
    about = {"stage": "after", "row": label} | ({"steps_by_seed": steps} if steps else {})
    ours, theirs = ([figures(pair[side]) for pair in pairs] for side in (0, 1))
    for key, first in ours[0].items():
        metric, direction, dataset = key
        items = [[of_seed[key] for of_seed in side if key in of_seed] for side in (ours, theirs)]
        sign = -1 if metric.startswith("AER") else 1  # 100 - F1
        test = difference(*items)
        single = [round(sign * difference([a], [b]).difference, 3) for a, b in zip(*items)]
        low, high = sorted((sign * test.low, sign * test.high))
        settings = about | {"p_value": test.p_value, "by_seed": single}
        n = sum(map(len, first.groups))
        yield EvalResult(
            f"{metric} - TR",
            sign * test.difference,
            n,
            dataset,
            "test",
            direction,
            low=low,
            high=high,
            settings=settings,
        )


def figures(rows: Sequence[EvalResult]) -> dict[tuple, Items]:
    """What is compared, by metric, direction and data set: averages of hits; sets of links, and of mined sentences."""
    wanted = (x for x in rows if x.items and ("avg" in x.metric or x.metric == "accuracy"))
    found = {(x.metric, x.direction, x.dataset): x.items for x in wanted}
    links = {x.direction.replace("->", "-"): x.items.groups[0] for x in rows if x.metric == "AER"}
    for row in rows:
        if row.metric.startswith("AER avg"):
            groups = tuple(links[name] for name in row.settings["average_of"])
            found[row.metric, None, row.dataset] = Items("F1", groups)
    heaps = {x.direction.split("->")[0]: x.items.groups[0] for x in rows if x.metric == "mining F1"}
    for group, languages in TALPCO.items() if heaps else ():
        found[f"mining F1 {group}", None, "talpco"] = Items("F1", tuple(heaps[lang] for lang in languages))
    return found


def difference(ours: Sequence[Items], theirs: Sequence[Items]) -> PairedTest:
    """Ours less theirs, the mean over seeds; items are what varies."""
    if ours[0].kind == "mean":
        means = [
            Items("mean", tuple(np.mean(of_set, 0) for of_set in zip(*(x.groups for x in side))))
            for side in (ours, theirs)
        ]
        return paired(*means)

    def statistic(sums: np.ndarray) -> np.ndarray:
        f1 = f1_of(sums.reshape(*sums.shape[:-1], 2, len(ours), 3))
        return (f1[..., 0, :] - f1[..., 1, :]).mean(-1)

    sets = [np.hstack([x.groups[i] for side in (ours, theirs) for x in side]) for i in range(len(ours[0].groups))]
    value = float(np.mean([statistic(of_set.sum(0)) for of_set in sets]))
    error = float(np.linalg.norm([jackknife_error(statistic, of_set) for of_set in sets])) / len(sets)
    count = sum(map(len, sets))
    p_value = 2 * t.sf(abs(value) / error, count - 1) if error else 1.0
    return PairedTest(value, *error_interval(value, error, count), float(p_value))


def once(path: Path, measure: Callable[[], list[EvalResult]]) -> list[EvalResult]:
    """Rows with their items, from the file if an earlier start has measured them."""
    if not path.is_file():
        write_results(path, measure(), with_items=True)
    return read_results(path)


def fine_tuned(folder: Path, seed: int, config: str) -> list[EvalResult]:
    """Accuracy on XNLI's test languages of a kept model, fine-tuned as the recipe does it."""
    words = {"config": config, "base_model": folder / "model", "seed": seed, "output_dir": folder / "xnli"}
    types, words = (xnli.NliArguments, TrainingArguments), [f"--{name}={value}" for name, value in words.items()]
    args, training_args = parse_arguments(types, words, defaults=xnli.TRAINING_DEFAULTS)
    found = xnli.run(args, training_args, xnli.load_nli_data(args, seed)).results
    return [replace(row, settings=row.settings | {"stage": "after"}) for row in found if row.split == "test"]


def mined(folder: Path, talpco: Path) -> list[EvalResult]:
    """Mining in TALPCo by a kept model."""
    encoder = SentenceEncoder(str(folder / "model"))
    text = {
        lang: [line for _, line in read_lines(str(talpco / f"{lang}.txt"))]
        for lang in ("en", *sum(TALPCO.values(), ()))
    }
    parts = slice(0, TALPCO_TRAIN), slice(TALPCO_TRAIN, None)
    rows = []
    for lang in (lang for languages in TALPCO.values() for lang in languages):
        bitexts = tuple(heap(text[lang][part], text["en"][part]) for part in parts)
        vectors = tuple(tuple(encoder.encode(side, progress=False) for side in (x.source, x.target)) for x in bitexts)
        about = {"dataset": "talpco", "direction": f"{lang}->en", "settings": {"stage": "after"}}
        rows += mining_results(bitexts, vectors, **about)
    return rows


def draw(folder: Path, labels: Sequence[str], args) -> None:
    """Token vectors of the start and of every objective's first seed, a panel each."""
    pairs = read_aligned(args.gold)[:100]
    stages = {}
    models = {"before": args.start} | {label: folder / f"{label}-0" / "model" for label in labels}
    for title, name in models.items():
        encoder = SentenceEncoder(str(name))
        stages[title] = tuple(
            encoder.word_states([getattr(pair, side) for pair in pairs]) for side in ("source", "target")
        )
    scatter_tokens(args.figure, stages, Path(args.gold).stem.split("-"))


def heap(source: Sequence[str], target: Sequence[str]) -> Comparable:
    """Lines 0, 3, ... on both sides, lines 1, 4, ... on the source side only, lines 2, 5, ... on the other only."""
    gold = np.arange(len(source[::3]))
    return Comparable([*source[::3], *source[1::3]], [*target[::3], *target[2::3]], np.stack([gold, gold], 1))


if __name__ == "__main__":
    run_recipe(main)
