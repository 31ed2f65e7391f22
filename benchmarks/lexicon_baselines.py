"""Word translation without the neural aligner: eflomal, IterMax, an encoder's static embeddings, our prior alone.

python benchmarks/lexicon_baselines.py --data ../shared/data --encoder ../shared/models/mini-xlm [--pairs lo-zh vi-zh]

Lines 1 to 1543 of DATA/ntrex, segmented as recipes/aligner.py segments them, and the dictionaries DATA/dict/PAIR.tsv. A
system that links words gives a table of counts, and that gives vectors (`link_vectors`). Dictionary words of several
segments, the candidates (the whole target vocabulary) and CSLS are those of every other P@1 here.
"""

import os
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when numpy and torch are imported

import numpy as np
from align_baselines import eflomal, encoder_links, load_encoder
from harness import cpu_of_all, parser, report_rows
from ntrex import training_text
from transformers.utils import logging

from hfxling.alignment.pairs import EncodedPairs
from hfxling.alignment.prior import translation_counts
from hfxling.arguments import run_recipe
from hfxling.data.pharaoh import AlignedPair
from hfxling.data.segment import Vocabulary
from hfxling.evaluation.lexicon import lexicon_results, link_vectors, read_dictionary, score_lexicon, word_table
from hfxling.evaluation.results import EvalResult

TITLE = "Word translation by links and static vectors alone, NTREX"
PAIRS = ("lo-zh", "vi-zh", "th-zh", "id-zh", "lo-th")

Tables = tuple[np.ndarray, np.ndarray]  # (V, D) source and (W, D) target vectors


def main(argv: list[str] | None = None) -> dict[str, dict]:
    options = parser(__doc__, "NAME")
    options.add_argument("--data", default="../shared/data", help="folder with ntrex/ and dict/")
    options.add_argument("--pairs", nargs="+", default=PAIRS)
    options.add_argument("--encoder", help="folder or Hub id for IterMax and static embeddings; none without it")
    options.add_argument("--layer", type=int, default=4, help="hidden_states that IterMax reads")
    options.add_argument("--name", default="lexicon_baselines", help="of the results file")
    args = options.parse_args(argv)
    logging.set_verbosity_error()
    systems: dict[str, Callable] = {"eflomal": eflomal_tables, "statistical prior alone": prior_tables}
    if args.encoder:
        encode, name = load_encoder(args.encoder), Path(args.encoder).name
        systems[f"{name}, static embeddings"] = lambda *text: static_tables(encode, *text)
        systems[f"{name}, IterMax layer {args.layer}"] = lambda *text: itermax_tables(encode, args.layer, *text)
    results = [row for pair in args.pairs for row in measure(pair, Path(args.data), systems)]
    return report_rows("lexicon_baselines", results, vars(args), title=TITLE, labels=[*systems], metrics=["P@1"])


def measure(pair: str, data: Path, systems: dict[str, Callable]) -> list[EvalResult]:
    """P@1, P@5 and coverage of every system on one language pair."""
    vocabularies, pairs = training_text(data / "ntrex", pair)
    languages = pairs.languages
    entries = read_dictionary(next(data.glob(f"dict/{pair}.tsv*")))
    words = list(entries), sorted(set().union(*entries.values()))
    rows = []
    for label, system in systems.items():
        start = cpu_of_all()
        vectors = system(pairs, vocabularies)
        spent = round(cpu_of_all() - start, 1)  # eflomal is a process of its own
        tables = [word_table(vocabularies[lang], x, extra) for lang, x, extra in zip(languages, vectors, words)]
        settings = {"stage": "after", "row": label, "method": "csls", "train_cpu_s": spent}
        fields = {"dataset": f"dictionary {pair}", "split": "test", "direction": "->".join(languages)}
        rows += lexicon_results(score_lexicon(entries, *tables), entries, settings=settings, **fields)
        print(f"{pair}: {label} {rows[-5].value:.1f}", flush=True)
    return rows


def prior_tables(pairs: EncodedPairs, vocabularies: dict[str, Vocabulary]) -> Tables:
    """From the expected links of the statistical aligner, agreeing and independent."""
    return link_vectors(translation_counts(pairs, [vocabularies[lang] for lang in pairs.languages]))


def eflomal_tables(pairs: EncodedPairs, vocabularies: dict[str, Vocabulary]) -> Tables:
    """From the links of both directions, joined by grow-diag-final-and."""
    sides = [[" ".join(f"w{i}" for i in ids) for ids in side] for side in (pairs.source, pairs.target)]
    sizes = [(len(source), len(target)) for source, target in zip(pairs.source, pairs.target)]
    return link_vectors(counted(pairs, eflomal(sides, sizes), vocabularies))


def itermax_tables(encode: Callable, layer: int, pairs: EncodedPairs, vocabularies: dict[str, Vocabulary]) -> Tables:
    """From IterMax links between the segments, by an encoder's vectors of them."""
    words = (
        [[vocabularies[lang].words[i] for i in ids] for ids in side]
        for lang, side in zip(pairs.languages, (pairs.source, pairs.target))
    )
    text = [AlignedPair(tuple(source), tuple(target), frozenset(), frozenset()) for source, target in zip(*words)]
    return link_vectors(counted(pairs, encoder_links(encode, text, layer), vocabularies))


def static_tables(encode: Callable, pairs: EncodedPairs, vocabularies: dict[str, Vocabulary]) -> Tables:
    """An encoder's input embeddings, the mean over the pieces of each word."""
    sides = []
    for lang in pairs.languages:
        vectors = []
        for start in range(0, len(vocabularies[lang]), 256):
            states, _ = encode([[word] for word in vocabularies[lang].words[start : start + 256]], 0)
            vectors += [x.mean(0) if len(x) else np.full(x.shape[1], 1e-9) for x in states]
        sides.append(np.stack(vectors).astype(np.float32))
    return tuple(sides)


def counted(pairs: EncodedPairs, links, vocabularies: dict[str, Vocabulary]) -> np.ndarray:
    """(V, W) how often each source word is linked to each target word."""
    counts = np.zeros([len(vocabularies[lang]) for lang in pairs.languages], np.float32)
    for source, target, found in zip(pairs.source, pairs.target, links):
        for i, j in found:
            counts[source[i], target[j]] += 1
    return counts


if __name__ == "__main__":
    run_recipe(main)
