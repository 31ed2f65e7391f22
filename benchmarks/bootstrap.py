"""From two heaps of text to a bitext and a model: what each round finds, and how good it is.

python benchmarks/bootstrap.py --data ../shared/data [--encoder me5-small] [--pairs lo-zh th-zh] [--sizes 0 100 500]

Seed pairs are drawn from NTREX's training lines (seed 0); the heaps are the other training lines, both sides shuffled,
with up to three distractors for each (distractors.py; Lao has none). Nothing is told but the known pairs and the heaps.
P@1 is of the 454 test lines by the model at the end, from source to target, ties being misses. "right" pairs are lines
of the same number: true translations among the distractors count as wrong. "alone" is the encoder: its mutual pairs by
ratio of cosines, from the best on as long as 95 % are right, which only who knows the answers can say.

Without --encoder all is learnt from known pairs. Every run is kept when it is done: one that was stopped goes on with
the others, with or without an encoder.
"""

import dataclasses
import os
import tempfile
from functools import partial
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when numpy and torch are imported

import numpy as np
import torch
from distractors import distractors
from encoders import encoder_folder, weights_note
from harness import earlier_rows, parser, report_rows, timed, write_rows
from ntrex import LINES, read_text
from transformers.utils import logging

from hfxling.console import run as run_recipe
from hfxling.data.features import cached_features
from hfxling.encoders.fusion import ROLES
from hfxling.encoders.loading import load_encoder
from hfxling.evaluation.results import EvalResult
from hfxling.evaluation.retrieval import Ranking, gold_ranks, ranking_results
from hfxling.evaluation.significance import mean_interval
from hfxling.files import content_hash
from hfxling.sentences.bootstrap import models_of
from hfxling.sentences.engine import Mined, mine_vectors
from hfxling.sentences.grow import Grown, Round, grow

TITLE = "Bootstrapping two texts of NTREX, from no, 100 and 500 seed pairs"
TIMES = 3  # distractors for each line that can be found
METRICS = ["P@1", "precision", "recall", "estimated precision"]


def main(argv: list[str] | None = None) -> dict:
    options = parser(__doc__, "bootstrap")
    options.add_argument("--data", default="../shared/data", help="folder with ntrex/ and others")
    options.add_argument("--encoder", help="encoder: me5-small, or a folder or Hub id; by default none")
    options.add_argument("--pairs", nargs="+", default=["zh-vi", "lo-zh", "th-zh", "lo-th"])
    options.add_argument(
        "--sizes", nargs="+", type=int, help="numbers of known pairs (default 0 100 500, without encoder 100 500)"
    )
    options.add_argument("--precision", type=float, default=0.95, help="wanted precision of the bitext")
    options.add_argument("--rounds", type=int, default=5, help="most rounds after the first")
    options.add_argument(
        "--cache_dir", default="outputs/features", help="folder in which the encoder's vectors are cached"
    )
    args = options.parse_args(argv)
    torch.set_num_threads(1)
    logging.set_verbosity_error()
    encoder = load_encoder(encoder_folder(args.encoder)) if args.encoder else None
    sizes = args.sizes or ([100, 500] if encoder is None else [0, 100, 500])
    settings = vars(args) | {"name": "bootstrap"}
    for name in ("cache_dir", "encoder", "pairs", "sizes"):  # rows say the latter
        del settings[name]
    results = earlier_rows(settings)
    for size in sizes:
        for pair in args.pairs:
            row = label(size, args.encoder)
            if not any((each.dataset, each.settings["row"]) == (pair, row) for each in results):
                results += measure(pair, size, encoder, args)
                write_rows("bootstrap", results, settings, **about(results))
    found = {}
    for row in results:
        pair, pairs = row.dataset.replace("-", "_"), row.settings["seed_pairs"]
        if row.metric == "P@1" and row.settings.get("encoder") and pairs is not None:
            found[f"{pair}_{pairs}"] = round(row.value, 2)
    report_rows("bootstrap", results, settings, **about(results), shown=3, figures=found)
    return found


def label(size: int | None, encoder: str | None) -> str:
    """What a row is called."""
    name = "" if encoder is None else f"{encoder} ({weights_note(encoder)})" if weights_note(encoder) else encoder
    if size is None:
        return f"{name} alone"
    return f"{size} pairs and {name}" if name else f"{size} pairs"


def about(results: list[EvalResult]) -> dict:
    """What the table of the rows shows."""
    labels = list(dict.fromkeys(row.settings["row"] for row in results))
    return {"title": TITLE, "labels": labels, "metrics": METRICS}


def measure(pair: str, size: int, encoder, args) -> list[EvalResult]:
    """One run: rows of the model, of the bitext with what every round found, and of the encoder alone."""
    languages = tuple(pair.split("-"))
    text = read_text(f"{args.data}/ntrex", pair)
    rng = np.random.default_rng(0)
    order = rng.permutation(LINES)
    seed, rest = order[:size], order[size:]
    more = distractors(args.data, pair, TIMES * LINES, text.values())
    heaps, vectors, places = [], [], []
    for lang, others in zip(languages, more):
        others = others[: TIMES * len(rest)]
        place = rng.permutation(len(rest) + len(others))
        heap = [*(text[lang][i] for i in rest), *others]
        heaps.append([heap[i] for i in place])
        places.append(place)
        if encoder is not None:
            vectors.append(vectors_of(encoder, (text[lang], more[languages.index(lang)]), heaps[-1], args.cache_dir))

    def is_right(pairs: Mined) -> np.ndarray:
        lines = [place[rows] for place, rows in zip(places, pairs)]
        return (lines[0] == lines[1]) & (lines[0] < len(rest))

    rounds = []

    def report(found: Round, pairs: Mined, _) -> None:
        right = is_right(pairs)
        strict = right[: found.strict]
        about = {"mined_precision": right.mean(), "mined_recall": right.sum() / len(rest)}
        about |= {"strict_precision": strict.mean() if len(strict) else None, "strict_recall": strict.sum() / len(rest)}
        rounds.append(dataclasses.asdict(found) | {name: x and round(float(x), 4) for name, x in about.items()})
        print(f"{pair} {size}: {rounds[-1]}", flush=True)

    sides = [[text[lang][i] for i in seed] for lang in languages]
    test = [text[lang][LINES:] for lang in languages]
    made = {}

    def run() -> None:
        options = {"rounds": args.rounds, "precision": args.precision, "report": report}
        found = grow(heaps, languages, vectors=vectors or None, known=sides, **options)
        learnt = []
        for known, heap, rows in zip(sides, heaps, found.learnt):
            learnt.append([*known, *(heap[row] for row in rows)])
        made["found"], made["models"] = found, models_of(learnt, languages, encoder, cache_dir=args.cache_dir)

    cost = timed(run)[0]
    row = label(size, args.encoder)
    shared = {"stage": "after", "first": pair.replace("-", "->"), "encoder": args.encoder, "findable": len(rest)}
    shared |= {"heaps": [len(heap) for heap in heaps]}
    settings = shared | {"row": row, "seed_pairs": size, "cpu_s": round(cost, 1), "rounds": rounds}
    fields = {"seed": 0, "dataset": pair}
    found, right = made["found"], is_right(made["found"].pairs)
    revision = content_hash(*heaps)
    results = [
        *of_models(made["models"], test, languages, settings=settings, model=row, **fields),
        *of_bitext(right, settings, fields | {"model": row, "revision": revision}),
        *of_estimate(found, settings, fields | {"model": row, "revision": revision}),
    ]
    if encoder is not None and not size:
        row = label(None, args.encoder)
        settings = shared | {"row": row, "seed_pairs": None}
        alone = mine_vectors(*vectors)
        shares = np.cumsum(is_right(alone)) / np.arange(1, len(alone.score) + 1)
        good = np.flatnonzero(shares >= args.precision)
        best = is_right(alone)[: good[-1] + 1 if len(good) else 0]
        ranks = gold_ranks(
            *(vectors_of(encoder, (text[lang],), side, args.cache_dir) for lang, side in zip(languages, test))
        )[0]
        results += precision_at_one(ranks, test, languages, settings=settings, model=row, **fields)
        results += of_bitext(best, settings, fields | {"model": row, "revision": revision})
    return results


def vectors_of(encoder, sources: tuple[list[str], ...], texts: list[str], cache_dir: str) -> np.ndarray:
    """Vectors of some of the texts of sources, each source encoded once and for all."""
    found = {}
    key = {"model": encoder.label, "revision": encoder.revision, "prompt": encoder.prompt}
    encode = partial(encoder.encode, language=None, role="query", progress=False)
    for source in sources:
        if source:
            rows = cached_features(source, encode, key=key, shape=(encoder.dimension,), cache_dir=cache_dir)
            found.update(zip(source, rows))
    return np.array([found[text] for text in texts])


def of_models(models: tuple, test: list[list[str]], languages: tuple[str, str], **fields) -> list[EvalResult]:
    """P@1 of the test lines by links, or by what was fused, written and read again."""
    links, fused = models
    if fused is None:
        return of_model(links, test, languages, **fields)
    with tempfile.TemporaryDirectory() as folder:
        folders = fused.save(Path(folder), "fused")
        encoder = load_encoder(folders["folder"], folders["lexical"], trust_remote_code=True)
        return of_model(encoder, test, languages, **fields)


def of_model(encoder, test: list[list[str]], languages: tuple[str, str], **fields) -> list[EvalResult]:
    """P@1 of the test lines."""
    queries, documents = (encoder.encode(*side) for side in zip(test, languages, ROLES))
    return precision_at_one(gold_ranks(queries, documents, method="dot")[0], test, languages, **fields)


def precision_at_one(
    ranks: np.ndarray, test: list[list[str]], languages: tuple[str, str], **fields
) -> list[EvalResult]:
    ranking = Ranking("->".join(languages), ranks, {})
    rows = ranking_results([ranking], revision=content_hash(*test), split="test", **fields)
    return [row for row in rows if row.metric == "P@1"]


def of_bitext(right: np.ndarray, settings: dict, fields: dict) -> list[EvalResult]:
    """Precision and recall of a bitext."""
    of_all = np.zeros(settings["findable"])
    of_all[: int(right.sum())] = 1
    results = []
    for metric, hits in (("precision", right.astype(float)), ("recall", of_all)):
        low, high = mean_interval(100 * hits) if len(hits) else (None, None)
        value = 100 * float(hits.mean()) if len(hits) else 0.0
        about = {"split": "heaps", "direction": settings["first"], "settings": settings}
        results.append(EvalResult(metric, value, len(hits), low=low, high=high, **about, **fields))
    return results


def of_estimate(found: Grown, settings: dict, fields: dict) -> list[EvalResult]:
    """What the bitext's precision was thought to be."""
    estimate = found.best.estimate
    if estimate is None:
        return []
    ends = {"low": 100 * estimate.low, "high": 100 * estimate.high}
    about = {"split": "heaps", "direction": settings["first"], "settings": settings}
    return [EvalResult("estimated precision", 100 * estimate.precision, found.best.strict, **ends, **about, **fields)]


if __name__ == "__main__":
    run_recipe(main)
