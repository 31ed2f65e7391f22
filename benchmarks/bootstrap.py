"""From a few seed pairs and two heaps of text to a bitext: what each round finds, and how good it is.

python benchmarks/bootstrap.py --data ../shared/data [--pairs zh-vi lo-zh th-zh lo-th] [--sizes 100 250 500]

Seeds are drawn from NTREX's training lines (seed 0); the heaps are the other training lines, both sides shuffled,
with up to three distractors for each (distractors.py; Lao has none). Nothing is told but the seed pairs and the
heaps. P@1 is of the 454 test lines by the model at the end, inner product, ties being misses. "right" pairs are lines
of the same number: true translations among the distractors count as wrong. Every run is kept when it is done: one
that was stopped goes on with the others.
"""

import dataclasses
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when numpy and torch are imported

import numpy as np
import torch
from distractors import distractors
from harness import earlier_rows, parser, report_rows, timed, write_rows
from ntrex import LINES, read_text
from transformers.utils import logging

from hfxling.console import run as run_recipe
from hfxling.encoders.fusion import ROLES
from hfxling.evaluation.results import EvalResult
from hfxling.evaluation.retrieval import Ranking, gold_ranks, ranking_results
from hfxling.evaluation.significance import mean_interval
from hfxling.files import content_hash
from hfxling.methods.lexical import LinkSettings
from hfxling.methods.lexical.bootstrap import Bitext, Round, bootstrap
from hfxling.sentences.engine import Mined

TITLE = "Bootstrapping from 100 to 500 seed pairs of NTREX"
FIGURES = {"bootstrap_zh_vi_100": ("zh-vi", 100), "bootstrap_lo_zh_250": ("lo-zh", 250)}
FIGURES |= {"bootstrap_lo_zh_500": ("lo-zh", 500)}
TIMES = 3  # distractors for each line that can be found


def main(argv: list[str] | None = None) -> dict:
    options = parser(__doc__, "bootstrap")
    options.add_argument("--data", default="../shared/data", help="folder with ntrex/ and others")
    options.add_argument("--pairs", nargs="+", default=["zh-vi", "lo-zh", "th-zh", "lo-th"])
    options.add_argument("--sizes", nargs="+", type=int, default=[100, 250, 500], help="seed pairs")
    options.add_argument("--precision", type=float, default=0.95, help="wanted of the bitext")
    options.add_argument("--rounds", type=int, default=5, help="at most, after the first")
    args = options.parse_args(argv)
    torch.set_num_threads(1)
    logging.set_verbosity_error()
    settings = vars(args) | {"name": "bootstrap"}
    results = earlier_rows(settings, "pairs", "sizes")
    for size in args.sizes:
        for pair in args.pairs:
            if not any((row.dataset, row.settings["seed_pairs"]) == (pair, size) for row in results):
                results += measure(pair, size, args)
                write_rows("bootstrap", results, settings, **about(results))
    by_place = {(row.dataset, row.settings["seed_pairs"], row.metric): row.value for row in results}
    found = {name: by_place.get((*place, "P@1")) for name, place in FIGURES.items()}
    for metric in ("precision", "recall"):
        found[f"{metric}_zh_vi_100"] = by_place.get(("zh-vi", 100, metric))
    figures = {name: round(value, 2) for name, value in found.items() if value is not None}
    report_rows("bootstrap", results, settings, **about(results), shown=3, figures=figures)
    return figures


def about(results: list[EvalResult]) -> dict:
    """What the table of the rows shows."""
    labels = list(dict.fromkeys(row.settings["row"] for row in results))
    return {"title": TITLE, "labels": labels, "metrics": ["P@1", "precision", "recall", "estimated precision"]}


def measure(pair: str, size: int, args) -> list[EvalResult]:
    """One run: rows of the model, of the bitext, and what every round found."""
    languages = pair.split("-")
    text = read_text(f"{args.data}/ntrex", pair)
    rng = np.random.default_rng(0)
    order = rng.permutation(LINES)
    seed, rest = order[:size], order[size:]
    more = distractors(args.data, pair, TIMES * len(rest), text.values())
    heaps = [[*(text[lang][i] for i in rest), *others] for lang, others in zip(languages, more)]
    places = [rng.permutation(len(heap)) for heap in heaps]
    heaps = [[heap[i] for i in place] for heap, place in zip(heaps, places)]
    rounds = []

    def is_right(pairs: Mined) -> np.ndarray:
        lines = [place[rows] for place, rows in zip(places, pairs)]
        return (lines[0] == lines[1]) & (lines[0] < len(rest))

    def told(found: Round, pairs: Mined) -> None:
        right = is_right(pairs)
        about = {"mined_precision": right.mean(), "mined_recall": right.sum() / len(rest)}
        strict = right[: found.strict]
        about |= {"strict_precision": strict.mean() if len(strict) else None, "strict_recall": strict.sum() / len(rest)}
        rounds.append(dataclasses.asdict(found) | {name: x and round(float(x), 4) for name, x in about.items()})
        print(f"{pair} {size}: {rounds[-1]}", flush=True)

    sides = [[text[lang][i] for i in seed] for lang in languages]
    made = {}

    def run() -> None:
        made["found"] = bootstrap(
            LinkSettings(),
            tuple(languages),
            sides,
            *heaps,
            rounds=args.rounds,
            precision=args.precision,
            report=told,
            memory="4GiB",
        )

    cost = timed(run)[0]
    more = {"row": f"{size} pairs", "seed_pairs": size, "stage": "after", "first": "->".join(languages)}
    more |= {"cpu_s": round(cost, 1), "heaps": [len(heap) for heap in heaps], "findable": len(rest), "rounds": rounds}
    fields = {"seed": 0, "model": f"{size} pairs", "dataset": pair}
    test = [text[lang][LINES:] for lang in languages]
    return [
        *of_model(made["found"].model, test, languages, settings=more, **fields),
        *of_bitext(made["found"], is_right(made["found"].pairs), more, fields | {"revision": content_hash(*heaps)}),
    ]


def of_model(encoder, test: list[list[str]], languages: list[str], **fields) -> list[EvalResult]:
    """P@1 of the test lines."""
    sides = zip(test, languages, ROLES)
    queries, documents = (encoder.encode(side, lang, role) for side, lang, role in sides)
    ranking = Ranking("->".join(languages), gold_ranks(queries, documents, method="dot")[0], {})
    rows = ranking_results([ranking], revision=content_hash(*test), split="test", **fields)
    return [row for row in rows if row.metric == "P@1"]


def of_bitext(found: Bitext, right: np.ndarray, more: dict, fields: dict) -> list[EvalResult]:
    """Precision and recall of the pairs at the end, and what was thought of them."""
    results, fields = [], fields | {"split": "heaps", "direction": more["first"]}
    of_all = np.zeros(more["findable"])
    of_all[: int(right.sum())] = 1
    for metric, hits in (("precision", right.astype(float)), ("recall", of_all)):
        low, high = mean_interval(100 * hits) if len(hits) else (None, None)
        value = 100 * float(hits.mean()) if len(hits) else 0.0
        results.append(EvalResult(metric, value, len(hits), low=low, high=high, settings=more, **fields))
    estimate = max(found.rounds[-2:], key=lambda each: each.strict).estimate
    if estimate:
        ends = {"low": 100 * estimate.low, "high": 100 * estimate.high}
        about = {"n": estimate.known, "settings": more, **ends}
        results.append(EvalResult("estimated precision", 100 * estimate.precision, **about, **fields))
    return results


if __name__ == "__main__":
    run_recipe(main)
