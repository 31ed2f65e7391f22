"""CPU seconds of the word aligner to a held-out P@1: Wada et al.'s schedule against ours, the same code otherwise.

python benchmarks/aligner_to_score.py --dictionary ../shared/data/dict/vi-zh.tsv --score 10 \
    [--data ../shared/data/ntrex] [--pair vi-zh] [--size 200] [--cpu_seconds 120] [--schedules four:1e-3 one:1.6e-2]

A schedule is UPDATES:LEARNING_RATE[:prior]: with the paper's model, or with a statistical prior, whose learning counts.
All read lines 1 to 1543 of the text in batches of 16. At the start and after every epoch P@1 is
taken on the dictionary, which training never sees, and on the Dice dictionary of the training text, outside of the time
that counts. Seconds to a score are interpolated between epochs; a schedule that does not get there within the budget
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

from hfxling.arguments import run_recipe
from hfxling.evaluation.lexicon import read_dictionary, score_lexicon, word_table
from hfxling.training.aligner.arguments import TRAINING_DEFAULTS
from hfxling.training.aligner.data import learn_priors
from hfxling.training.aligner.evaluate import dice_dictionaries, dictionary_evaluator
from hfxling.training.aligner.train import new_model, train_aligner

SCHEDULES = ["four:1e-3", "one:1.6e-2", "one:1.6e-2:prior"]  # the first is Wada et al.'s


class Curve:
    """An evaluator that remembers when it saw what, and does not count its own time."""

    def __init__(self, vocabularies, languages, dictionary, dice):
        self.vocabularies, self.languages, self.dictionary = vocabularies, languages, dictionary
        self.dice = dictionary_evaluator(vocabularies, dice)
        self.points: list[tuple[float, float, float]] = []  # CPU seconds, held-out P@1, Dice P@1
        self.paused, self.start = 0.0, time.process_time()

    def __call__(self, model) -> list:
        """Score the static vectors."""
        now = time.process_time()
        tables = [
            word_table(self.vocabularies[lang], model.static_table(lang), extra)
            for lang, extra in zip(
                self.languages, (self.dictionary, {w for ws in self.dictionary.values() for w in ws})
            )
        ]
        ranks = score_lexicon(self.dictionary, *tables).ranks
        rows = self.dice(model)
        self.points.append((now - self.start - self.paused, 100 * float((ranks <= 1).mean()), rows[0].value))
        self.paused += time.process_time() - now
        return rows


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
    curve = Curve(vocabularies, pairs.languages, dictionary, dice)
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
    options.add_argument("--score", type=float, required=True, help="held-out P@1 in percent that is to be reached")
    options.add_argument("--dice_score", type=float, default=50, help="the same on the Dice dictionary")
    options.add_argument("--size", type=int, default=200)
    options.add_argument("--cpu_seconds", type=float, default=120, help="for each schedule")
    options.add_argument("--contrastive_weight", type=float, default=0.0)
    options.add_argument("--schedules", nargs="+", default=SCHEDULES, help="the first is compared with")
    options.add_argument("--seed", type=int, default=0)
    args = options.parse_args(argv)
    torch.set_num_threads(1)
    logging.set_verbosity_error()
    vocabularies, pairs = training_text(args.data, args.pair)
    dictionary, dice = read_dictionary(args.dictionary), dice_dictionaries([pairs], vocabularies)
    curves = {name: run(name, args, vocabularies, pairs, dictionary, dice).points for name in args.schedules}
    table = {
        name: {
            "cpu_s_to_score": seconds_to(points, args.score, 1),
            "cpu_s_to_dice_score": seconds_to(points, args.dice_score, 2),
            "best_held_out": max(p[1] for p in points),
            "best_dice": max(p[2] for p in points),
            "epochs": len(points),
        }
        for name, points in curves.items()
    }
    first, *others = table
    ratios = {}
    for name in others:
        for key in ("cpu_s_to_score", "cpu_s_to_dice_score"):
            theirs = table[first][key] or args.cpu_seconds  # a lower bound where they never got there
            ratios[f"{name} {key}"] = round(theirs / table[name][key], 2) if table[name][key] else None
    figures = {"ratio": ratios, "lower_bound": table[first]["cpu_s_to_score"] is None, **table}
    title = f"CPU seconds of the word aligner to {args.score:g} % held-out P@1, {args.pair}, {args.size} units"
    path, settings = f"{args.results_dir}/aligner_to_score.json", vars(args) | machine()
    return report("aligner_to_score", figures, settings, title=title, path=path, curves=curves)


if __name__ == "__main__":
    run_recipe(main)
