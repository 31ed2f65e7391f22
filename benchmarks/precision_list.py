"""Does a promised precision hold for a short list beside a long text, without a known pair?

python benchmarks/precision_list.py --data ../shared/data --encoder me5-small [--draws 20]

A list of NTREX's training lines, drawn anew for each of --draws seeds, is looked for in a long text: --distractors
sentences of other kinds (distractors.py) and the translations of some of the list (--shares). Pairs are those of the
encoder alone, as the first round of `hfxling bootstrap` and `hfxling mine --precision` have them. `reached` is the
share of draws in which some threshold promises the precision, and figures are means over these: `realised`, `recall`
(of the translations that are there), `covered` (intervals that hold the realised precision), `miss` and `bias`
(realised less promised). Rules were chosen on lists of Lao; those of Vietnamese and of Chinese were looked at once
before the last factor was settled, and how many pairs may be close was chosen on some of them, too.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when numpy and torch are imported

from pathlib import Path

import numpy as np
import torch
from distractors import distractors
from encoders import encoder_folder, weights_note
from harness import parser, report
from ntrex import LINES, read_text
from precision import summary
from stored_vectors import StoredVectors
from transformers.utils import logging

from hfxling.console import run as run_recipe
from hfxling.encoders.loading import load_encoder
from hfxling.sentences.grow import NO_PAIRS, Heaps
from hfxling.sentences.impostors import of_precision

TITLE = "The promised precision of a list's pairs in a long text, and what it was, %"
LISTS = {"lo": "lo-zh", "vi": "zh-vi", "zh": "zh-vi"}  # language of the list: pair that the long text is of


def main(argv: list[str] | None = None) -> dict:
    options = parser(__doc__, "precision_list")
    options.add_argument("--data", default="../shared/data", help="folder with ntrex/ and others")
    options.add_argument("--encoder", default="me5-small", help="encoder: me5-small, or a folder or Hub id")
    options.add_argument("--lists", nargs="+", default=[*LISTS], choices=[*LISTS])
    options.add_argument("--sizes", nargs="+", type=int, default=[100, 300], help="numbers of sentences in the list")
    options.add_argument(
        "--shares",
        nargs="+",
        type=float,
        default=[0, 0.5, 0.7, 0.85, 1],
        help="shares of the list that have a translation in the long text",
    )
    options.add_argument("--distractors", type=int, default=6200, help="number of other sentences in the long text")
    options.add_argument("--precisions", nargs="+", type=float, default=[0.95], help="wanted precisions")
    options.add_argument("--draws", type=int, default=20)
    options.add_argument(
        "--dtype", default="bfloat16", help="number format of the encoder's matrix products (default bfloat16)"
    )
    options.add_argument(
        "--cache_dir", default="outputs/features", help="folder in which the encoder's vectors are cached"
    )
    options.add_argument("--name", help="name of the results file (default precision_list)")
    args = options.parse_args(argv)
    torch.set_num_threads(1)
    logging.set_verbosity_error()
    vectors = StoredVectors(load_encoder(encoder_folder(args.encoder)), args.cache_dir, args.dtype)
    names = ("encoder", "lists", "sizes", "shares", "distractors", "precisions", "draws", "dtype")
    settings = {name: getattr(args, name) for name in names} | {"weights": weights_note(args.encoder)}
    figures = {}
    for language in args.lists:
        text = Text(language, vectors, args)
        for size in args.sizes:
            for share in args.shares:
                drawn = [text.measure(size, share, seed) for seed in range(args.draws)]
                for precision in args.precisions:
                    rows = [draw[precision] for draw in drawn if draw[precision]]
                    name = f"{language}, {size} sentences, {100 * share:g} % translated"
                    summed = {"draws": args.draws, "reached": round(100 * len(rows) / len(drawn), 1)}
                    if rows:
                        summed |= summary(np.array(rows))
                        del summed["halvings"]
                    figures.setdefault(f"{precision:g}", {})[name] = summed
                    print(precision, name, summed, flush=True)
    path = Path(args.results_dir) / f"{args.name or 'precision_list'}.json"
    report("precision_list", figures, settings, title=TITLE, path=path)
    return figures


class Text:
    """The lines that lists are drawn from, their translations, and what else the long text has, as vectors."""

    def __init__(self, language: str, vectors: StoredVectors, args):
        pair = LISTS[language]
        self.languages = tuple(pair.split("-"))
        self.side = self.languages.index(language)
        lines = read_text(f"{args.data}/ntrex", pair)
        others = distractors(args.data, pair, args.distractors, lines.values())[1 - self.side]
        self.lines = [lines[each][:LINES] for each in self.languages]
        self.line_vectors = [vectors.of(side) for side in self.lines]
        self.others, self.other_vectors = others, vectors.of(others)
        self.precisions = args.precisions

    def measure(self, size: int, share: float, seed: int) -> dict[float, list[float]]:
        """By precision that was asked for: truth, estimate, low, high and recall; [] where none is reached."""
        rows = np.random.default_rng(seed).permutation(LINES)[:size]
        translated = rows[: round(share * size)]
        long_side = 1 - self.side
        texts, vectors = [None, None], [None, None]
        texts[self.side] = [self.lines[self.side][row] for row in rows]
        vectors[self.side] = self.line_vectors[self.side][rows]
        texts[long_side] = [*(self.lines[long_side][row] for row in translated), *self.others]
        vectors[long_side] = np.vstack([self.line_vectors[long_side][translated], self.other_vectors])
        heaps = Heaps(texts, self.languages, vectors, ((), ()), seed, "1GiB")
        pairs, given = heaps.mine(NO_PAIRS)
        found = {}
        for precision in self.precisions:
            kept, estimate = of_precision(pairs, given, precision)
            found[precision] = []
            if estimate is not None:
                right = (kept.source == kept.target) & (kept.source < len(translated))
                recall = right.sum() / max(len(translated), 1)
                row = (right.mean(), estimate.precision, estimate.low, estimate.high, recall)
                found[precision] = [float(value) for value in row]
        return found


if __name__ == "__main__":
    run_recipe(main)
