"""Cosine, CSLS, margin and dual softmax on one-to-one text, and in heaps where most sentences have no translation.

python benchmarks/scoring.py --data ../shared/data [--encoder me5-small] [--pairs lo-zh zh-vi]

Development lines only (NTREX 1 to 1543): what is decided here are defaults. The encoder's vectors are centred by the
means of each side of a heap and get no other help. A heap has so many lines with their translations, and as many
others on either side that have none; `unpaired` is their share. P@1 is of the lines that have a translation, F1 that
of mutual best pairs at their best threshold. Each heap is drawn ten times.
"""

import os
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when numpy and torch are imported

import numpy as np
import torch
from encoders import encoder_folder, weights_note
from harness import parser, report_rows
from ntrex import LINES, read_text

from hfxling.console import run as run_recipe
from hfxling.encoders.frozen import FrozenEncoder
from hfxling.encoders.prompts import prompt_of
from hfxling.evaluation.averages import mean_result
from hfxling.evaluation.results import EvalResult
from hfxling.evaluation.retrieval import language_mean, postprocess

TITLE = "Scores of centred vectors in text of which a share has no translation; ten draws"
HEAPS = {0.0: 500, 0.2: 500, 0.5: 400, 0.9: 75}  # share of unpaired lines on a side: pairs
DRAWS = 10
NEIGHBOURS = 10  # of CSLS and margin
BETAS = (20.0, 50.0, 100.0)  # of dual softmax; methods.md found 50


def main(argv: list[str] | None = None) -> dict:
    options = parser(__doc__, "scoring")
    options.add_argument("--data", default="../shared/data", help="folder with ntrex/")
    options.add_argument("--encoder", default="me5-small", help="encoder: me5-small, or a folder or Hub id")
    options.add_argument("--pairs", nargs="*", default=["lo-zh", "zh-vi"])
    options.add_argument("--cache_dir", default="outputs/features")
    args = options.parse_args(argv)
    torch.set_num_threads(1)
    folder = encoder_folder(args.encoder)
    encoder = FrozenEncoder(folder, [(None, "mean")], device="cpu", prompt=prompt_of(folder))
    results = []
    for pair in args.pairs:
        sides = []
        for language, lines in read_text(Path(args.data, "ntrex"), pair).items():
            sides.append(np.asarray(encoder.features(lines[:LINES], args.cache_dir, language))[:, 0])
        for unpaired, pairs in HEAPS.items():
            results += of_heaps(pair, sides, unpaired, pairs)
    settings = vars(args) | {"name": "scoring", "encoder_weights": weights_note(args.encoder)}
    del settings["cache_dir"]
    labels = list(dict.fromkeys(row.settings["row"] for row in results))
    report_rows(
        "scoring", results, settings, title=TITLE, labels=labels, metrics=["P@1", "F1"], figures=figures(results)
    )
    return figures(results)


def of_heaps(pair: str, sides: list[np.ndarray], unpaired: float, pairs: int) -> list[EvalResult]:
    """Rows of every score over the draws of one kind of heap."""
    others = round(pairs * unpaired / (1 - unpaired))
    hits: dict[str, list[float]] = {}
    f1: dict[str, list[float]] = {}
    for seed in range(DRAWS):
        lines = np.random.default_rng(seed).permutation(LINES)
        both, left, right = np.split(lines[: pairs + 2 * others], [pairs, pairs + others])
        source = centred(sides[0][np.concatenate([both, left])])
        target = centred(sides[1][np.concatenate([both, right])])
        for label, scores in all_scores(source @ target.T).items():
            hits.setdefault(label, []).append(p_at_1(scores, pairs))
            f1.setdefault(label, []).append(best_f1(scores, pairs))
    rows = []
    for metric, by_label in (("P@1", hits), ("F1", f1)):
        for label, values in by_label.items():
            cosine = by_label["cosine"]
            rows.append(
                mean_result(
                    metric,
                    np.array(values),
                    baseline=None if label == "cosine" else np.array(cosine),
                    dataset=f"{pair}, {100 * unpaired:.0f} % unpaired",
                    split="development lines",
                    settings={"row": label, "stage": "after", "pairs": pairs, "candidates": pairs + others},
                )
            )
    return rows


def centred(vectors: np.ndarray) -> np.ndarray:
    """Unit vectors less the mean of their heap."""
    return postprocess(vectors, language_mean(vectors))


def all_scores(cosines: np.ndarray) -> dict[str, np.ndarray]:
    """(N, M) scores by name, from cosines."""
    nearest = min(NEIGHBOURS, *cosines.shape)
    of_source = np.sort(cosines, axis=1)[:, -nearest:].mean(1)[:, None]
    of_target = np.sort(cosines, axis=0)[-nearest:].mean(0)[None, :]
    scores = {"cosine": cosines, "CSLS": 2 * cosines - of_source - of_target}
    scores["margin"] = cosines / ((of_source + of_target) / 2)
    for beta in BETAS:
        exponents = beta * cosines
        over_targets = exponents - np.logaddexp.reduce(exponents, axis=1, keepdims=True)
        over_sources = exponents - np.logaddexp.reduce(exponents, axis=0, keepdims=True)
        scores[f"dual softmax {beta:.0f}"] = over_targets + over_sources
    return scores


def p_at_1(scores: np.ndarray, pairs: int) -> float:
    """In %, the mean of both ways, over the lines that have a translation."""
    gold = np.arange(pairs)
    there = scores[:pairs].argmax(1) == gold
    back = scores[:, :pairs].argmax(0) == gold
    return 50 * float(there.mean() + back.mean())


def best_f1(scores: np.ndarray, pairs: int) -> float:
    """In %, of mutual best pairs at the threshold that is best for them."""
    targets = scores.argmax(1)
    is_mutual = scores.argmax(0)[targets] == np.arange(len(scores))
    rows = np.flatnonzero(is_mutual)
    order = rows[np.argsort(-scores[rows, targets[rows]])]
    is_right = (order == targets[order]) & (order < pairs)
    right = np.cumsum(is_right)
    found = np.arange(1, len(order) + 1)
    return 100 * float((2 * right / (found + pairs)).max())


def figures(results: list[EvalResult]) -> dict[str, float]:
    """What CSLS is better than dual softmax by, at the latter's best beta: negative where it is worse."""
    differences = {}
    for row in results:
        if row.settings["row"] != "CSLS":
            continue
        rivals = []
        for other in results:
            same = (other.dataset, other.metric) == (row.dataset, row.metric)
            if same and other.settings["row"].startswith("dual softmax"):
                rivals.append(other.value)
        name = f"csls_over_dual_softmax_{row.metric}_{row.dataset}".replace("@", "").replace(" % ", "_")
        differences[name.replace(", ", "_").replace("-", "_").lower()] = round(row.value - max(rivals), 2)
    return differences


if __name__ == "__main__":
    run_recipe(main)
