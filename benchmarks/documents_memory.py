"""What aligning two texts of 20,000 sentences takes: CPU seconds and peak memory of `hfxling align-documents`.

python benchmarks/documents_memory.py --data ../shared/data [--ways static sparse]

Wikinews in Japanese and Vietnamese, then NTREX, as one document, a fifth of the sentences joined, split or missing on
each side as in documents.py. Static and sparse vectors of links in NTREX lines 1 to 1543; each way in a fresh process
on one thread, reading, encoding and writing included. Peak memory includes libraries and model.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when numpy and torch are imported

import numpy as np
import torch
from documents import SPOILT, f1, spoil, strict, true_beads
from harness import clock, machine, parser, peak_mib, report
from ntrex import LINES, read_text

from hfxling import align_documents, fit_lexical, save_lexical
from hfxling.console import run as run_recipe
from hfxling.data.readers import read_lines
from hfxling.data.sources import load_pairs

TITLE = "Aligning two texts of 20,000 sentences as one document"
GOALS = {"peak_mib_20000": "< 1024"}
LANGUAGES = ("ja", "vi")
WAYS = {"static": "model", "sparse": "lexical"}


def main(argv: list[str] | None = None) -> dict:
    options = parser(__doc__, "documents_memory")
    options.add_argument("--data", type=Path, default=Path("../shared/data"), help="folder with ntrex/ and alt/")
    options.add_argument(
        "--sentences", type=int, default=20_000, help="least number of sentences of a side (default 20000)"
    )
    options.add_argument("--ways", nargs="+", choices=WAYS, default=[*WAYS], help="kinds of vectors")
    # A fresh process: source, target, model or lexical, its folder, output.
    options.add_argument("--measure", nargs=5, help=argparse.SUPPRESS)
    args = options.parse_args(argv)
    torch.set_num_threads(1)
    if args.measure:
        return measured(*args.measure)
    with tempfile.TemporaryDirectory() as folder:
        files, gold = write_text(args.data, args.sentences, Path(folder))
        figures: dict = {f"peak_mib_{args.sentences}": None}
        for way in args.ways:
            measure = [*files, WAYS[way], f"{folder}/model", f"{folder}/beads.tsv"]
            words = [sys.executable, __file__, "--measure", *measure]
            done = subprocess.run(words, stdout=subprocess.PIPE, check=True)
            rows = [row.split("\t") for _, row in read_lines(f"{folder}/beads.tsv")][1:]
            beads = [[[int(i) - 1 for i in part.split()] for part in row[2:4]] for row in rows]
            f1_shown = round(100 * float(f1(np.array(strict(gold, beads)))), 2)
            figures[way] = json.loads(done.stdout.splitlines()[-1]) | {"f1": f1_shown}
    figures[f"peak_mib_{args.sentences}"] = max(figures[way]["peak_mib"] for way in args.ways)
    settings = {"sentences": args.sentences, "languages": LANGUAGES, "spoilt": SPOILT, "seed": 0} | machine()
    path = f"{args.results_dir}/documents_memory.json"
    return report("documents_memory", figures, settings, title=TITLE, path=path, goals=GOALS)


def write_text(data: Path, count: int, folder: Path) -> tuple[list[str], list]:
    """Paths of two files of so many sentences, and their true beads; beside them a model, fitted on the news.

    Raises:
        ValueError: there are fewer.
    """
    news = read_text(data / "ntrex", "-".join(LANGUAGES))
    wiki = [load_pairs([str(path)], LANGUAGES) for path in sorted((data / "alt").glob("ja-vi.*"))]
    rng, sides = np.random.default_rng(0), []
    for side, lang in zip(("source", "target"), LANGUAGES):
        lines = [" ".join(text.split()) for part in wiki for text in part[side]] + news[lang]
        sides.append(spoil(lines, lang, rng))
    if min(map(len, sides)) < count:
        raise ValueError(f"--sentences {count}: there are {min(map(len, sides))}; give at most that many.")
    gold = true_beads(sides, len(lines))
    ends = np.cumsum([[*map(len, bead)] for bead in gold], axis=0)
    last = int((ends >= count).all(1).argmax())
    for side, lang, end in zip(sides, LANGUAGES, ends[last]):
        text = "\n".join(sentence for sentence, _ in side[:end])
        (folder / lang).write_text(text + "\n", encoding="utf-8")
    model = fit_lexical(*(news[lang][:LINES] for lang in LANGUAGES), LANGUAGES, progress=False)
    save_lexical(model, folder / "model")
    return [str(folder / lang) for lang in LANGUAGES], gold[: last + 1]


def measured(source: str, target: str, encoder: str, folder: str, output: str) -> dict:
    """Align in this process; print what it took."""
    libraries, start = peak_mib(), clock()
    align_documents(source, target, **{encoder: folder}, output=output)
    cpu, wall = clock() - start
    found = {"cpu_s": round(cpu, 1), "wall_s": round(wall, 1), "peak_mib": round(peak_mib())}
    print(json.dumps(found | {"libraries_mib": round(libraries)}))
    return found


if __name__ == "__main__":
    run_recipe(main)
