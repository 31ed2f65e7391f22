"""Translations between languages that a lexical model saw no sentence pair of: links through Chinese.

python benchmarks/pivot.py --data ../shared/data

One model of lo, th, vi and id with zh finds lo-vi and th-vi, a second one of lo and th with zh finds lo-th. The two
languages' text with Chinese is from disjoint lines of NTREX, 1 to 772 and 773 to 1543: the same lines would give the
pair away. Beside it models of 772 pairs of the language pair itself. P@1 among lines 1544 to 1997 by inner product,
both directions, ties being misses.
"""

import os
from collections.abc import Mapping, Sequence

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when numpy and torch are imported

import torch
from harness import machine, parser, report
from ntrex import LINES, read_text

from hfxling import LexicalModel, fit_lexical
from hfxling.console import run as run_recipe
from hfxling.data.sources import Pair
from hfxling.evaluation.retrieval import gold_ranks, hits_at

TITLE = (
    "P@1 (NTREX, 454 lines) through Chinese, without a sentence pair of the two languages, and from 772 pairs of theirs"
)
GOALS = {"pivot_lo_vi": ">= 70"}
THROUGH = "zh"
HALVES = (slice(0, 772), slice(772, LINES))
# For every model the pairs that it is to find, and the half that each language's text with Chinese is from.
MODELS = (
    ((("lo", "vi"), ("th", "vi")), {"lo": 0, "th": 0, "vi": 1, "id": 1}),
    ((("lo", "th"),), {"lo": 0, "th": 1}),
)


def main(argv: list[str] | None = None) -> dict[str, float]:
    options = parser(__doc__, "pivot")
    options.add_argument("--data", default="../shared/data", help="folder with ntrex/")
    args = options.parse_args(argv)
    torch.set_num_threads(1)
    lines = read_text(f"{args.data}/ntrex", "-".join({THROUGH: 0} | MODELS[0][1]))
    figures: dict[str, float] = {}
    for pairs, halves in MODELS:
        model = pivot_model(lines, halves)
        for pair in pairs:
            direct = fit_lexical(*(lines[lang][HALVES[0]] for lang in pair), pair, progress=False)
            figures |= found(model, lines, pair, "pivot") | found(direct, lines, pair, "direct")
    settings = {"train_lines": "1-772 and 773-1543", "test_lines": "1544-1997", "through": THROUGH} | machine()
    path = f"{args.results_dir}/pivot.json"
    return report("pivot", figures, settings, title=TITLE, path=path, goals=GOALS)


def pivot_model(lines: Mapping[str, Sequence[str]], halves: Mapping[str, int]) -> LexicalModel:
    """A model of every language with the shared one, each from its half of the lines."""
    texts = {
        (lang, THROUGH): tuple(lines[code][HALVES[half]] for code in (lang, THROUGH)) for lang, half in halves.items()
    }
    return fit_lexical(texts, progress=False)


def found(model: LexicalModel, lines: Mapping[str, Sequence[str]], pair: Pair, name: str) -> dict[str, float]:
    """P@1 of the test lines in both directions."""
    figures = {}
    for source, target in (pair, pair[::-1]):
        query = model.encode(lines[source][LINES:], source)
        document = model.encode(lines[target][LINES:], target, role="document")
        ranks, _ = gold_ranks(query, document, method="dot")
        figures[f"{name}_{source}_{target}"] = round(float(hits_at(ranks, 1).mean()), 1)
    return figures


if __name__ == "__main__":
    run_recipe(main)
