"""How much a sentence's length should count when pairs are mined, and the dense score beside that of links: best F1.

python benchmarks/mining_lengths.py --data ../shared/data --encoder me5-small

Margins are multiplied by a power of the sentences' length, (s t) ** (power / 2) with s and t words. What is best
depends on what has translations, so two kinds of heaps are mined, both of development text:

- news: lines 1236 to 1543 of NTREX among other text, most of it shorter (distractors.py, development's share of them).
  Only long sentences have translations.
- news and talk: the same lines of English and another language, and as many pairs of everyday sentences (anki), among
  other text that is as long as the news. Short and long sentences have translations.

Models learn from lines 1 to 1235, and in the second kind from as many other everyday pairs as are hidden. Scores are
those of `mining_f1.py`: the head's, links', and both with the dense score counted by a quarter, a half and in full.
The best F1 of any threshold is shown, in %, as the mean over the heaps of a kind.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when numpy and torch are imported
os.environ.setdefault("HF_HUB_OFFLINE", "1")  # nothing is downloaded

import random
from pathlib import Path

import mining_f1
import numpy as np
import torch
from distractors import APART, SOURCES, distractors
from encoders import encoder_folder, weights_note
from harness import machine, parser, report
from ntrex import LINES, read_text
from stored_vectors import StoredVectors

from hfxling.console import run as run_recipe
from hfxling.data.filters import count_words
from hfxling.data.readers import read_lines
from hfxling.encoders.loading import load_encoder
from hfxling.sentences import grow, select
from hfxling.sentences.blocks import both_ways
from hfxling.sentences.engine import Mined
from hfxling.sentences.neighbours import Neighbours, exact_scores

TITLE = "Mining: how much the sentences' length counts, and the dense score beside that of links; best F1"
POWERS = (0, 0.25, 0.4, 0.5, 0.6, 0.75, 1)
SHARES = {"links": (0, 1), "head / 4 + links": (0.25, 1), "head / 2 + links": (0.5, 1), "head + links": (1, 1)}
SHARES |= {"head": (1, 0)}
K = 4
NEWS = {
    **dict.fromkeys(("zh-vi", "th-zh", "id-zh", "lo-zh", "lo-th"), SOURCES),
    **dict.fromkeys(("zh-vi apart", "th-zh apart", "id-zh apart"), APART),
}
# Sources of distractors of heaps in which everyday sentences have translations: none of them everyday talk in English.
MIXED = {
    "en-vi": (("quran", "en-th"), ("alt",)),
    "en-zh": (("en-th",), ("quran", "vi-zh")),
    "en-id": (("quran", "en-th"), ("talpco",)),
    "en-th": (("quran",), ("talpco",)),
}
MOST = 6_000  # distractors of a side


def main(argv: list[str] | None = None) -> dict:
    options = parser(__doc__, "mining_lengths")
    options.add_argument("--data", default="../shared/data", help="folder with ntrex/, anki/ and others")
    options.add_argument("--encoder", default="me5-small", help="encoder: me5-small, or a folder or Hub id")
    options.add_argument(
        "--dtype", default="bfloat16", help="number format of the encoder's matrix products (default bfloat16)"
    )
    options.add_argument(
        "--cache_dir", default="outputs/features", help="folder in which the encoder's vectors are cached"
    )
    options.add_argument("--seed", type=int, default=42)
    args = options.parse_args(argv)
    torch.set_num_threads(1)
    vectors = StoredVectors(load_encoder(encoder_folder(args.encoder)), args.cache_dir, args.dtype)
    heaps = {name: lambda name=name, sources=sources: news(name, sources, args.data) for name, sources in NEWS.items()}
    heaps |= {name: lambda name=name: news_and_talk(name, args.data, args.seed) for name in MIXED}
    by_heap = {}
    for name, read in heaps.items():
        by_heap[name] = best_f1s(*read(), name.split()[0].split("-"), vectors, args.seed)
        print(name, by_heap[name], flush=True)
    figures = {}
    for label, names in (("news", NEWS), ("news and talk", MIXED)):
        for system in SHARES:
            values = np.mean([by_heap[name][system] for name in names], axis=0)
            figures[f"{label}, {system}"] = {str(power): round(float(value), 2) for power, value in zip(POWERS, values)}
    settings = {"encoder": args.encoder, "weights": weights_note(args.encoder), "seed": args.seed, "heaps": by_heap}
    path = Path(args.results_dir) / "mining_lengths.json"
    return report("mining_lengths", figures, settings | machine(), title=TITLE, path=path)


def news(name: str, sources: dict, data: str) -> tuple[list, list, int]:
    """Both heaps, known pairs, and how many pairs are hidden: the first rows of both heaps."""
    pair = name.split()[0]
    text = read_text(f"{data}/ntrex", pair)
    lines = slice(mining_f1.DEV, LINES)
    more = distractors(data, pair, 10**6, text.values(), sources)
    total = len(text[pair.split("-")[0]])
    heap = [[*side[lines], *mining_f1.part_of(extra, "dev", 20, total)] for side, extra in zip(text.values(), more)]
    return heap, [side[: mining_f1.DEV] for side in text.values()], LINES - mining_f1.DEV


def news_and_talk(pair: str, data: str, seed: int) -> tuple[list, list, int]:
    """The same with everyday pairs, none of whose sentences stands in two of them."""
    text = read_text(f"{data}/ntrex", pair)
    talk, taken = [], set()
    for _, line in read_lines(f"{data}/anki/{pair}.tsv.gz"):
        cells = tuple(cell.strip() for cell in line.split("\t")[:2])
        if not taken.intersection(cells):
            taken.update(cells)
            talk.append(cells)
    random.Random(seed).shuffle(talk)
    count = LINES - mining_f1.DEV
    more = distractors(data, pair, MOST, ((), ()), MIXED)
    heap, known = [], []
    for side, (news_lines, extra) in enumerate(zip(text.values(), more)):
        own = [cells[side] for cells in talk[: 2 * count]]
        heap.append([*news_lines[mining_f1.DEV : LINES], *own[:count], *extra])
        known.append([*news_lines[: mining_f1.DEV], *own[count:]])
    return heap, known, 2 * count


def best_f1s(
    heap: list, known: list, count: int, languages: list[str], vectors: StoredVectors, seed: int
) -> dict[str, list[float]]:
    """Of every system the best F1, in %, by power of the length."""
    middle = [grow.centred(vectors.of(side)) for side in heap]
    sides = mining_f1.head(middle, [grow.centred(vectors.of(side)) for side in known])
    row, column = mining_f1.candidates([both_ways(*sides, 16), both_ways(*middle, 16)], 16)
    of_head = exact_scores(*sides, row, column) / mining_f1.deviation(*sides)
    of_links = mining_f1.sparse_scores(heap, known, tuple(languages), row, column, seed)
    words = [np.array([count_words(text, lang) for text in side]) for side, lang in zip(heap, languages)]
    found = {}
    for system, (head_share, links_share) in SHARES.items():
        scores = head_share * of_head + links_share * of_links
        both = mining_f1.neighbours(row, column, scores, tuple(map(len, heap)))
        pairs = select(*(Neighbours(side.rows[:, :K], side.scores[:, :K]) for side in both), "distance", "mutual")
        lengths = np.sqrt(np.maximum(words[0][pairs.source], 1) * np.maximum(words[1][pairs.target], 1))
        found[system] = [best_f1(pairs, lengths**power, count) for power in POWERS]
    return found


def best_f1(pairs: Mined, weights: np.ndarray, count: int) -> float:
    order = np.argsort(-pairs.score * weights, kind="stable")
    return mining_f1.best_f1(Mined(pairs.source[order], pairs.target[order], pairs.score[order]), count)


if __name__ == "__main__":
    run_recipe(main)
