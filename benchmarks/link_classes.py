"""What words of an alphabet should count by in the statistical links: perplexity of lines that these never saw.

python benchmarks/link_classes.py [--pairs id-zh ms-zh en-zh] [--text ../shared/data/ntrex]

Links are learnt on NTREX lines 1 to 1235. A word of lines 1236 to 1543 is as probable as the link counts of the other
sentence's words make it (add-2 towards its frequency, a tenth of which is mixed in); geometric mean of both directions.
The words are the same whatever they count by, so the figures of a pair can be compared. Less is better.
"""

import os
from collections.abc import Sequence

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when numpy and torch are imported
os.environ.setdefault("HF_HUB_OFFLINE", "1")  # nothing is downloaded

import numpy as np
from harness import parser, report

from hfxling.console import run as run_recipe
from hfxling.data.segment import Vocabulary
from hfxling.methods.aligner import prepare
from hfxling.methods.aligner.arguments import AlignerArguments
from hfxling.words import classes
from hfxling.words.pairs import EncodedPairs
from hfxling.words.prior import translation_counts

TRAIN, HELD_OUT = "1-1235", "1236-1543"
LETTERS = {f"{n} letters": n for n in (3, 4, 5, 6)} | {"all letters": 99}
ADDED, MIXED = 2.0, 0.1


def main(argv: list[str] | None = None) -> dict:
    options = parser(__doc__, "link_classes")
    options.add_argument("--pairs", nargs="+", default=["id-zh", "id-th", "id-lo", "id-vi", "ms-zh", "en-zh", "fil-zh"])
    options.add_argument("--text", default="../shared/data/ntrex", help="folder with {lang}.txt files")
    args = options.parse_args(argv)
    figures = {"perplexity": (found := {})}
    for pair in args.pairs:
        text = "+".join(f"{args.text}/{lang}.txt" for lang in pair.split("-"))
        about = {"train_data": [f"{text}@{TRAIN}"], "test_data": [f"{text}@{HELD_OUT}"], "data_name": "NTREX-128"}
        prepared = prepare([AlignerArguments(pairs=[pair], data_licence="cc-by-sa-4.0", **about)])
        train, held_out = prepared.pairs[0], prepared.held_out[0]
        vocabularies = [prepared.vocabularies[lang] for lang in train.languages]
        kept, found[pair] = (classes.STEM, classes.PREFIXED), {}
        is_prefixed = {*train.languages} & {*classes.PREFIXED}
        for cut, languages in {"": (), " behind a prefix": classes.PREFIXED}.items():
            for name, letters in LETTERS.items() if is_prefixed or not languages else ():
                classes.STEM, classes.PREFIXED = letters, languages
                found[pair][name + cut] = round(perplexity(train, held_out, vocabularies), 1)
        classes.STEM, classes.PREFIXED = kept
        print(pair, found[pair], flush=True)
    title = "What words of an alphabet count by in the links: perplexity of a held-out word, NTREX lines 1236 to 1543"
    return report("link_classes", figures, vars(args), title=title, path=f"{args.results_dir}/link_classes.json")


def perplexity(train: EncodedPairs, held_out: EncodedPairs, vocabularies: Sequence[Vocabulary]) -> float:
    """Of a held-out word, geometric mean of both directions, by links of the training text."""
    counts = translation_counts(train, vocabularies)
    directions = [(counts, train.target, held_out.source, held_out.target)]
    directions += [(counts.T.tocsr(), train.source, held_out.target, held_out.source)]
    found = []
    for table, seen, given, wanted in directions:
        frequency = np.bincount(np.concatenate(seen), minlength=table.shape[1]) + 0.5
        frequency, totals = frequency / frequency.sum(), np.asarray(table.sum(1)).ravel()
        logs = []
        for source, target in zip(given, wanted):
            by_word = (table[source][:, target].toarray() + ADDED * frequency[target]) / (totals[source, None] + ADDED)
            logs += [*np.log((1 - MIXED) * by_word.mean(0) + MIXED * frequency[target])]
        found.append(-np.mean(logs))
    return float(np.exp(np.mean(found)))


if __name__ == "__main__":
    run_recipe(main)
