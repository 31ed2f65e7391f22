"""CPU seconds of the word aligner to a held-out P@1: Wada et al.'s schedule against ours, the same code otherwise.

python benchmarks/aligner_to_score.py --dictionary ../shared/data/dict/vi-zh.tsv \
    [--data ../shared/data/ntrex] [--pair vi-zh] [--size 200] [--cpu_seconds 120] [--schedules four:1e-3 one:1.6e-2]

A schedule is UPDATES:LEARNING_RATE[:prior]: with the paper's model, or with a statistical prior, whose learning counts.
All read lines 1 to 1543 of the text in batches of 16. At the start and after every epoch P@1 is taken on the
dictionary, which training never sees, and on the Dice dictionary of its text, outside of the time that counts. The
score to be reached is half of the best that a schedule without prior reaches in the run, and has to be above what the
untrained model has. Seconds to it are interpolated between epochs; a schedule that does not get there within the budget
has none, and the ratio is a lower bound.
"""

import argparse
import os
import tempfile
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when numpy and torch are imported

import torch
from harness import machine, parser, report
from ntrex import settings_of, training_text
from transformers import TrainingArguments
from transformers.utils import logging

from hfxling.console import run as run_recipe
from hfxling.evaluation.word_translation import PROTOCOLS, protocol_results, read_dictionary
from hfxling.methods.aligner.arguments import TRAINING_DEFAULTS
from hfxling.methods.aligner.data import learn_priors
from hfxling.methods.aligner.evaluate import dice_dictionaries, dictionary_evaluator
from hfxling.methods.aligner.train import new_model, train_aligner

COLUMNS = {"held_out": 1, "dice": 2}  # of a curve's points: the score's name
SCHEDULES = ["four:1e-3", "one:1.6e-2", "one:1.6e-2:prior"]  # the first is Wada et al.'s


class Curve:
    """An evaluator that remembers when it saw what, and does not count its own time."""

    def __init__(self, vocabularies, languages, dictionary, dice, protocol):
        self.vocabularies, self.languages, self.dictionary = vocabularies, languages, dictionary
        self.protocol = protocol
        self.dice = dictionary_evaluator(vocabularies, dice)
        self.points: list[tuple[float, float, float]] = []  # CPU seconds, held-out P@1, Dice P@1
        self.paused, self.start = 0.0, time.process_time()

    def __call__(self, model) -> list:
        """Score the static vectors."""
        now = time.process_time()
        vocabularies, static = zip(*((self.vocabularies[x], model.static_table(x)) for x in self.languages))
        fields = {"protocols": [self.protocol], "dataset": "dictionary", "split": "test"}
        found = protocol_results(self.dictionary, vocabularies, static, **fields)
        rows = self.dice(model)
        self.points.append((now - self.start - self.paused, found[0].value, rows[0].value))
        self.paused += time.process_time() - now
        return rows


def half_of_best(curves: list[list[tuple[float, float, float]]], column: int) -> float:
    """Half of the best score of any curve.

    Raises:
        ValueError: an untrained model has as much.
    """
    target = max(point[column] for points in curves for point in points) / 2
    if (untrained := max(points[0][column] for points in curves)) >= target:
        raise ValueError(f"half of the best P@1 is {target:.1f}, an untrained model has {untrained:.1f}: train longer.")
    return target


def seconds_to(points: list[tuple[float, float, float]], score: float, column: int) -> float | None:
    """CPU seconds at which a curve first reaches a score."""
    before = None
    for point in points:
        at, value = point[0], point[column]
        if value >= score:
            return before[0] + (at - before[0]) * (score - before[1]) / (value - before[1]) if before else at
        before = (at, value)
    return None


def run(schedule: str, args: argparse.Namespace, vocabularies, pairs, dictionary, dice) -> Curve:
    """Train under one schedule."""
    updates, rate, *prior = schedule.split(":")
    settings = settings_of(
        args.data,
        args.pair,
        size=args.size,
        contrastive_weight=args.contrastive_weight,
        updates=updates,
        prior=bool(prior),
        cpu_seconds=args.cpu_seconds,
        evaluate_every=1,
    )
    torch.manual_seed(args.seed)
    curve = Curve(vocabularies, pairs.languages, dictionary, dice, args.protocol)
    priors = learn_priors([pairs], vocabularies) if prior else []
    model = new_model(settings, vocabularies, priors)
    curve(model)
    with tempfile.TemporaryDirectory() as folder:
        changed = {"learning_rate": float(rate), "num_train_epochs": 10_000, "save_strategy": "no", "seed": args.seed}
        changed |= {"logging_strategy": "no", "output_dir": folder, "use_cpu": True, "disable_tqdm": True}
        training_args = TrainingArguments(**TRAINING_DEFAULTS | changed)
        train_aligner(settings, training_args, model, [pairs], [curve], priors)
    return curve


def main(argv: list[str] | None = None) -> dict:
    options = parser(__doc__, "aligner_to_score")
    options.add_argument("--data", default="../shared/data/ntrex", help="folder of line-aligned LANG.txt files")
    options.add_argument("--pair", default="vi-zh")
    options.add_argument("--dictionary", required=True, help="TSV of word pairs, never trained on")
    options.add_argument("--protocol", choices=PROTOCOLS, default="composed", help="protocol of the held-out P@1")
    options.add_argument("--size", type=int, default=200)
    options.add_argument("--cpu_seconds", type=float, default=120, help="CPU seconds for each schedule")
    options.add_argument("--contrastive_weight", type=float, default=0.0)
    options.add_argument(
        "--schedules", nargs="+", default=SCHEDULES, help="schedules; the others are compared with the first"
    )
    options.add_argument("--seed", type=int, default=0)
    args = options.parse_args(argv)
    torch.set_num_threads(1)
    logging.set_verbosity_error()
    vocabularies, pairs = training_text(args.data, args.pair)
    dictionary, dice = read_dictionary(args.dictionary), dice_dictionaries([pairs], vocabularies)
    curves = {name: run(name, args, vocabularies, pairs, dictionary, dice).points for name in args.schedules}
    unmixed = [points for name, points in curves.items() if not name.endswith(":prior")] or [*curves.values()]
    target = {name: half_of_best(unmixed, column) for name, column in COLUMNS.items()}
    table = {
        name: {f"cpu_s_to_{score}": seconds_to(points, target[score], column) for score, column in COLUMNS.items()}
        | {f"best_{score}": max(point[column] for point in points) for score, column in COLUMNS.items()}
        | {"epochs": len(points) - 1}
        for name, points in curves.items()
    }
    first, *others = table
    ratios = {}
    for name in others:
        for key in map("cpu_s_to_{}".format, COLUMNS):
            theirs = table[first][key] or args.cpu_seconds  # a lower bound where they never got there
            ratios[f"{name} {key}"] = round(theirs / table[name][key], 2) if table[name][key] else None
    untrained = {score: curves[first][0][column] for score, column in COLUMNS.items()}
    lower = [score for score in COLUMNS if table[first][f"cpu_s_to_{score}"] is None]
    figures = {"ratio": ratios, "target": target, "untrained": untrained, "lower_bound": ", ".join(lower), **table}
    title = f"CPU seconds of the word aligner to half of the best P@1 in the run, {args.pair}, {args.size} units"
    path, settings = f"{args.results_dir}/aligner_to_score.json", vars(args) | machine()
    return report("aligner_to_score", figures, settings, title=title, path=path, curves=curves)


if __name__ == "__main__":
    run_recipe(main)
