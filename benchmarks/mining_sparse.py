"""Mining with sparse vectors of links: what fewer weights a sentence, and static candidates, cost and save.

python benchmarks/mining_sparse.py --data ../shared/data [--pairs zh-vi lo-zh]

Queries are NTREX lines, candidates their translations and 20,000 other sentences (distractors.py). Development: links
of lines 1 to 1235, queries of lines 1236 to 1543; test: links of lines 1 to 1543, queries of the rest. Of every
setting: `top1`, how many queries have the same best candidate as with all weights, `in32`, how many of these best ones
are among the 32 best by the fewer weights (which all weights can score again), `p1`, how many have their translation as
the best, and CPU milliseconds a query. Ways to choose the weights that are kept: `weight`, the largest; `links`, all of
a text's own segments and the largest of what they are linked to; `spread`, what `hfxling mine --terms` keeps
(`hfxling.sentences.strongest`). `static`: how many of the best candidates, and of the translations,
are among the k nearest by static vectors.
"""

import os
import tempfile
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when numpy and torch are imported

import numpy as np
import torch
from distractors import distractors
from harness import machine, parser, report, timed
from ntrex import LINES, read_text
from scipy.sparse import csr_array

from hfxling import fit_lexical, save_lexical
from hfxling.console import run as run_recipe
from hfxling.encoders.dense import SentenceEncoder
from hfxling.files import content_hash
from hfxling.models.lexical_vectors import pruned
from hfxling.sentences import strongest
from hfxling.sentences.blocks import both_ways

TITLE = "Mining by links: fewer weights a sentence, and static candidates"
DEV = 1235  # lines that links are learnt from for the choice of settings
SIZES = (40, 80, 160, 320, 640)
WAYS = ("weight", "links", "spread")
KEPT, STATIC = 32, (10, 50, 100, 200)


def main(argv: list[str] | None = None) -> dict:
    options = parser(__doc__, "mining_sparse")
    options.add_argument("--data", default="../shared/data", help="folder with ntrex/ and others")
    options.add_argument("--pairs", nargs="+", default=["zh-vi", "lo-zh"])
    options.add_argument("--distractors", type=int, default=20_000)
    options.add_argument("--splits", nargs="+", default=["dev", "test"], choices=["dev", "test"])
    args = options.parse_args(argv)
    torch.set_num_threads(1)
    figures, sizes = {}, {}
    for pair in args.pairs:
        for split in args.splits:
            figures[f"{pair} {split}"], sizes[f"{pair} {split}"] = measure(pair, split, args)
    settings = {"distractors": args.distractors, "candidates": sizes} | machine()
    path = Path(args.results_dir) / "mining_sparse.json"
    return report("mining_sparse", figures, settings, title=TITLE, path=path)


def measure(pair: str, split: str, args) -> tuple[dict, dict]:
    """Figures of one language pair, and what they are from."""
    text, languages = read_text(f"{args.data}/ntrex", pair), pair.split("-")
    last = DEV if split == "dev" else LINES
    lines = slice(DEV, LINES) if split == "dev" else slice(LINES, None)
    more = distractors(args.data, pair, args.distractors, text.values())[1]
    sides = [text[languages[0]][lines], [*text[languages[1]][lines], *more]]
    model = fit_lexical(*(text[lang][:last] for lang in languages), languages, progress=False)
    vectors = [model.encode(*side) for side in zip(sides, languages, ("query", "document"))]
    full, figures = searched(*vectors), {}
    best, count = full["rows"][:, 0], len(sides[0])
    figures["all"] = shown(full, best, count) | {"weights": per_row(vectors)}
    for way in WAYS:
        for size in SIZES:
            if way == "spread":
                few = [parts[0] for parts in strongest(*([x] for x in vectors), size)]
            else:
                few = [kept(x, size, way, role, model) for role, x in enumerate(vectors)]
            figures[f"{way} {size}"] = shown(searched(*few), best, count)
    figures["static"] = static(model, sides, languages, best)
    return figures, {"queries": count, "candidates": len(sides[1]), "text": content_hash(*sides)}


def searched(queries: csr_array, documents: csr_array) -> dict:
    """The best rows by these vectors, and CPU seconds."""
    found: list = []
    cpu, _ = timed(lambda: found.extend(both_ways(queries, documents, KEPT)))
    return {"rows": found[0].rows, "cpu": cpu}


def shown(found: dict, best: np.ndarray, count: int) -> dict:
    """Shares in %, of the best candidates that are found again, and of the translations; milliseconds."""
    rows = found["rows"]
    return {
        "top1": share(rows[:, 0] == best),
        f"in{KEPT}": share((rows == best[:, None]).any(1)),
        "p1": share(rows[:, 0] == np.arange(count)),
        "cpu_ms": round(1000 * float(found["cpu"]) / count, 2),
    }


def share(mask: np.ndarray) -> float:
    return round(100 * float(mask.mean()), 1)


def per_row(vectors: list[csr_array]) -> int:
    """Mean number of weights a text."""
    return round(sum(x.nnz for x in vectors) / sum(x.shape[0] for x in vectors))


def kept(x: csr_array, size: int, way: str, role: int, model) -> csr_array:
    """Vectors with `size` weights, those of lengths and hubs in any case."""
    order, extra = x.copy(), model.config.extra_dims
    if way == "links":
        order.data = np.where(own(x.indices, role, model), np.inf, np.abs(x.data))
    few = pruned(order, size, extra)
    few.data = np.ones_like(few.data)
    return csr_array(x.multiply(few))


def own(columns: np.ndarray, role: int, model) -> np.ndarray:
    """Whether dimensions are of a text's own segments: those that are made for its role."""
    config, starts, is_own = model.config, [0], []
    for view in range(len(config.views)):
        for block in (0, 1):
            for language in config.languages:
                starts.append(starts[-1] + config.vocab_sizes[language][view])
                is_own.append(block == role)
    return np.array([*is_own, False])[np.searchsorted(starts, columns, side="right") - 1]


def static(model, sides: list[list[str]], languages: list[str], best: np.ndarray) -> dict:
    """How many of the best candidates are among the nearest by static vectors, in %, by how many are looked at."""
    with tempfile.TemporaryDirectory() as folder:
        save_lexical(model, folder)
        encoder = SentenceEncoder(folder)
        vectors = [encoder.encode(*side) for side in zip(sides, languages, ("query", "document"))]
    for side in vectors:
        side[~side.any(axis=1)] = 1  # text of which it knows nothing
    found: list = []
    cpu, _ = timed(lambda: found.extend(both_ways(*vectors, max(STATIC))))
    rows, count = found[0].rows, len(sides[0])
    figures = {f"best_in_{k}": share((rows[:, :k] == best[:, None]).any(1)) for k in STATIC}
    figures |= {f"translation_in_{k}": share((rows[:, :k] == np.arange(count)[:, None]).any(1)) for k in STATIC}
    return figures | {"cpu_ms": round(1000 * float(cpu) / count, 2)}


if __name__ == "__main__":
    run_recipe(main)
