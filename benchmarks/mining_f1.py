"""How well pairs are mined out of haystacks: F1 by encoder, margin and k.

python benchmarks/mining_f1.py --data ../shared/data --encoder ../shared/models/mini-labse [--pairs zh-vi lo-zh]

The 454 test pairs of NTREX stand among up to --times as many distractors on either side (distractors.py; sizes are in
the settings of every row). Models are what `hfxling fit` makes of NTREX's training lines. Margin, k and threshold of
each are chosen for F1 on a haystack of its own: models fitted on lines 1 to 1235, the pairs of lines 1236 to 1543,
and other distractors. "length" is a margin of links times the sentences' length. Intervals are the 95 % jackknife's
over the haystack's source sentences; `paired` of a row is the difference from the bare encoder on the same sentences.
Every language pair is kept when it is done: a run that was stopped goes on with the others.
"""

import os
import tempfile
from dataclasses import asdict
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when numpy and torch are imported
os.environ.setdefault("HF_HUB_OFFLINE", "1")  # nothing is downloaded

import numpy as np
import torch
from distractors import SOURCES, distractors
from harness import earlier_rows, parser, report_rows, write_rows
from ntrex import LINES, read_text
from retrieval_table import fitted
from transformers.utils import logging

import hfxling
from hfxling.console import run as run_recipe
from hfxling.data.filters import count_words
from hfxling.encoders.fusion import ROLES
from hfxling.evaluation.mining import f1_test, scores_of
from hfxling.evaluation.results import EvalResult
from hfxling.evaluation.significance import jackknife_error, ratio_interval
from hfxling.files import content_hash
from hfxling.sentences import both_ways, select
from hfxling.sentences.engine import Mined, by_length

TITLE = "Mining the test pairs of NTREX out of other text, F1"
LABELS = ("encoder", "encoder, centred", "one layer + head", "static", "sparse", "fused")
DEV = 1235  # training lines that development models learn from; the rest of them are development pairs
KS = (4, 16)
LINKS = ("sparse", "fused")
METRICS = ("precision", "recall", "F1")  # in the order of `scores_of`


def main(argv: list[str] | None = None) -> dict:
    options = parser(__doc__, "mining_f1")
    options.add_argument("--data", default="../shared/data", help="folder with ntrex/ and others")
    options.add_argument("--encoder", default="../shared/models/mini-labse", help="folder or Hub id")
    options.add_argument("--pairs", nargs="+", default=[*SOURCES], choices=[*SOURCES])
    options.add_argument("--times", type=int, default=20, help="distractors for each pair (default 20)")
    options.add_argument("--seed", type=int, default=42)
    args = options.parse_args(argv)
    torch.set_num_threads(1)
    logging.set_verbosity_error()
    settings = vars(args) | {"name": "mining_f1"}
    about = {"title": TITLE, "labels": LABELS, "metrics": [*METRICS[::-1]]}
    results = earlier_rows(settings, "pairs")
    for pair in args.pairs:
        if not any(row.dataset == pair for row in results):
            results += measure(pair, args)
            write_rows("mining_f1", results, settings, **about)
    best = {row.dataset: row.value for row in results if row.settings["row"] == "fused" and row.metric == "F1"}
    figures = {f"fused_f1_{pair.replace('-', '_')}": round(value / 100, 4) for pair, value in best.items()}
    report_rows("mining_f1", results, settings, **about, figures=figures)
    return figures


def measure(pair: str, args) -> list[EvalResult]:
    """Rows of every model on one language pair."""
    text, languages = read_text(f"{args.data}/ntrex", pair), pair.split("-")
    more = distractors(args.data, pair, 10**6, text.values())
    count = args.times * (len(text[languages[0]]) - LINES)
    heaps, chosen, results, hits = {}, {}, [], {}
    for stage, last, lines in (("dev", DEV, slice(DEV, LINES)), ("test", LINES, slice(LINES, None))):
        pairs = len(text[languages[0]][lines])
        # the test's distractors come first, then as many for development as there are left
        parts = [x[:count] if stage == "test" else x[count : count + args.times * pairs] for x in more]
        heaps[stage] = [[*text[lang][lines], *part] for lang, part in zip(languages, parts)]
        with tempfile.TemporaryDirectory() as folder:
            for label, pairs_by in mined(pair, last, heaps[stage], args, Path(folder)):
                if stage == "dev":
                    chosen[label] = best_setting(pairs_by, pairs)
                    continue
                setting, threshold = chosen[label]
                found = pairs_by[setting]
                hits[label] = outcome(found, found.score >= threshold, pairs, len(heaps[stage][0]))
                about = {"row": label, "margin": setting[0], "k": setting[1], "threshold": round(threshold, 4)}
                sizes = {f"{side}_sentences": len(x) for side, x in zip(("source", "target"), heaps[stage])}
                others = {f"F1 {margin} {k}": best_f1(x, pairs) for (margin, k), x in pairs_by.items()}
                about |= sizes | {"stage": "after", "pairs": pairs, "best_f1_by_margin_and_k": others}
                fields = {"n": pairs, "dataset": pair, "split": "test", "seed": args.seed, "model": label}
                fields |= {"revision": content_hash(*heaps[stage]), "direction": "->".join(languages)}
                results += rows(hits[label], hits["encoder"], about, fields)
    return results


def mined(pair: str, last: int, heap: list[list[str]], args, folder: Path):
    """Yield every model with what it mines, by margin and k."""
    languages = pair.split("-")
    train = "+".join(f"{args.data}/ntrex/{lang}.txt" for lang in languages) + f"@1-{last}"
    options = {"model": args.encoder, "only": ["head", "fused"], "seed": args.seed}
    selection = hfxling.select(train, languages=languages, output=None, **options)
    lengths = [np.array([count_words(text, lang) for text in side]) for side, lang in zip(heap, languages)]
    for label, embed in fitted(selection, args.encoder, folder).items():
        if label not in LABELS:
            continue
        if label == "fused":
            model = embed.__self__
            sides = [
                model.parts(model.dense.encode(side, lang, role), side, lang, role)
                for side, lang, role in zip(heap, languages, ROLES)
            ]
        else:
            sides = [embed(side, lang, role) for side, lang, role in zip(heap, languages, ROLES)]
        if label == "static":
            for side in sides:
                side[~side.any(axis=1)] = 1  # text of which it knows nothing
        yield label, by_setting(both_ways(*sides, max(KS)), lengths, is_links=label in LINKS)


def by_setting(found, lengths: list[np.ndarray], is_links: bool) -> dict[tuple[str, int], Mined]:
    pairs = {}
    for k in KS:
        sides = [type(side)(side.rows[:, :k], side.scores[:, :k]) for side in found]
        for margin in ("distance", "absolute", *([] if is_links else ["ratio"])):
            pairs[margin, k] = select(*sides, margin, "mutual")
        if is_links:
            pairs["length", k] = by_length(pairs["distance", k], *lengths)
    return pairs


def best_setting(pairs_by: dict, count: int) -> tuple[tuple[str, int], float]:
    """Margin and k, and threshold, with the best F1 on development pairs."""
    setting = max(pairs_by, key=lambda name: best_f1(pairs_by[name], count))
    found = pairs_by[setting]
    return setting, float(found.score[int(np.argmax(curve(found, count)))])


def best_f1(found: Mined, count: int) -> float:
    return round(100 * float(curve(found, count).max()), 2)


def curve(found: Mined, count: int) -> np.ndarray:
    """F1 of the first 1, 2, ... pairs; gold pairs are the equal rows below `count`."""
    right = np.cumsum((found.source == found.target) & (found.source < count))
    return 2 * right / (np.arange(1, len(right) + 1) + count)


def outcome(found: Mined, is_kept: np.ndarray, count: int, sources: int) -> np.ndarray:
    """(S, 3) of every source sentence: given its translation, given a pair, has a translation there."""
    table = np.zeros((sources, 3))
    is_right = is_kept & (found.source == found.target) & (found.source < count)
    table[found.source[is_right], 0] = 1
    table[found.source[is_kept], 1] = 1
    table[:count, 2] = 1
    return table


def rows(own: np.ndarray, bare: np.ndarray, about: dict, fields: dict) -> list[EvalResult]:
    """F1, precision and recall with intervals, and the difference of F1 from the bare encoder's."""
    found = []
    for metric, value, error in zip(METRICS, scores_of(own.sum(0)), jackknife_error(scores_of, own)):
        low, high = ratio_interval(value, error, len(own))
        paired = {"paired": asdict(f1_test(own, bare))} if metric == "F1" and own is not bare else {}
        found.append(EvalResult(metric=metric, value=value, low=low, high=high, settings=about | paired, **fields))
    return found[::-1]


if __name__ == "__main__":
    run_recipe(main)
