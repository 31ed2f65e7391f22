"""Word translation without a network of ours: links of eflomal, fast_align and ours, IterMax, static embeddings.

python benchmarks/lexicon_baselines.py --data ../shared/data --encoder ../shared/models/mini-xlm \
    outputs/encoders/me5-small --layer 4 7 --words_encoder me5-small [--pairs lo-zh vi-zh]

Lines 1 to 1543 of DATA/ntrex, segmented as recipes/aligner.py segments them (--text pieces: Chinese characters, learnt
pieces of other languages), and the dictionaries DATA/dict/PAIR.tsv by both protocols. A system that links words gives a
table of counts, and that gives vectors (`link_vectors`). Like is held against like: links joined by grow-diag-final-and
on both sides ("hard"), and expected counts against those that eflomal samples (both directions of --samples short runs
with one sampler each). Our rows carry the paired test against eflomal's hits, means over its seeds. fast_align is there
where the package systran-align is installed. Rows that are there are kept: a stopped run goes on with the others.
"""

import os
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when numpy and torch are imported

import numpy as np
from align_baselines import eflomal, eflomal_directions, encoder_links, fast_align, load_encoder
from encoders import encoder_folder
from harness import earlier_rows, parser, replaced, report_rows, systems_left, write_rows
from ntrex import LINES, read_text, training_text
from transformers.utils import logging

from hfxling.console import run as run_recipe
from hfxling.data.pharaoh import AlignedPair
from hfxling.data.segment import Vocabulary, default_segmenter
from hfxling.evaluation.results import EvalResult, cpu_seconds
from hfxling.evaluation.significance import paired_test
from hfxling.evaluation.word_translation import Dictionary, link_vectors, protocol_results, read_dictionary
from hfxling.methods.aligner.data import learn_priors
from hfxling.words.classes import word_classes
from hfxling.words.encoder import WordEncoder
from hfxling.words.joint import segment_similarities
from hfxling.words.links import SoftAlignment, decode
from hfxling.words.pairs import EncodedPairs
from hfxling.words.prior import translation_counts

TITLE = "Word translation by links and static vectors alone, NTREX"
SAMPLER = {"n_samplers": 1, "rel_iterations": 0.3}  # of eflomal, where its links are samples
JOINT = "statistical links, expected, with an encoder"
EXPECTED = "statistical links, expected"
LIKE = {  # ours: what it is held against
    JOINT: EXPECTED,
    EXPECTED: "eflomal, sampled",
    "statistical links, hard": "eflomal, hard",
    "statistical links, hard by mean": "eflomal, hard",
}
PAIRS = ("lo-zh", "vi-zh", "th-zh", "id-zh", "lo-th")

Tables = tuple[np.ndarray, np.ndarray]  # (V, D) source and (W, D) target vectors


def main(argv: list[str] | None = None) -> dict[str, dict]:
    options = parser(__doc__, "NAME")
    options.add_argument("--data", default="../shared/data", help="folder with ntrex/ and dict/")
    options.add_argument("--pairs", nargs="+", default=PAIRS)
    options.add_argument("--text", choices=("words", "pieces"), default="words")
    options.add_argument("--seeds", type=int, default=3, help="number of runs of eflomal, which is random")
    options.add_argument(
        "--samples", type=int, default=10, help="number of short runs of eflomal whose links are counted"
    )
    options.add_argument(
        "--encoder", nargs="*", default=[], help="folders or Hub ids of encoders for IterMax and static embeddings"
    )
    options.add_argument(
        "--words_encoder", help="me5-small, folder or Hub id of an encoder inside our links' EM; by default none"
    )
    options.add_argument(
        "--only_ours", action="store_true", help="measure only expected links, with the encoder and without it"
    )
    options.add_argument(
        "--layer", nargs="*", type=int, default=[4], help="hidden_states of each encoder that IterMax reads"
    )
    options.add_argument("--name", default="lexicon_baselines", help="name of the results file")
    args = options.parse_args(argv)
    logging.set_verbosity_error()
    systems: dict[tuple[str, int], Callable] = {}
    for seed in range(args.seeds):
        systems["eflomal, hard", seed] = partial(rival_tables, eflomal)
        systems["eflomal, sampled", seed] = lambda *text: sampled_tables(args.samples, *text)
    if find_spec("systran_align"):
        systems["fast_align, hard", 0] = partial(rival_tables, fast_align)
    systems["statistical links, hard", 0] = prior_tables
    systems["statistical links, hard by mean", 0] = lambda *text: prior_tables(*text, method="mean")
    systems[EXPECTED, 0] = expected_tables
    if args.words_encoder:
        words = WordEncoder(encoder_folder(args.words_encoder))
        systems[JOINT, 0] = lambda *text: joint_tables(words, Path(args.data) / "ntrex", *text)
    for folder, layer in zip(args.encoder, args.layer, strict=True):
        encode, name = load_encoder(folder), Path(folder).name
        systems[f"{name}, static embeddings", 0] = partial(static_tables, encode)
        systems[f"{name}, IterMax layer {layer}", 0] = partial(itermax_tables, encode, layer)
    if args.only_ours:
        systems = {key: system for key, system in systems.items() if key[0] in (EXPECTED, JOINT)}
    about = {"title": TITLE, "labels": list(dict.fromkeys(label for label, _ in systems)), "metrics": ["P@1"]}
    results = earlier_rows(vars(args), "pairs")
    for pair in args.pairs:
        if left := systems_left(systems, results, f"dictionary {pair}"):
            results = replaced(results, measure(pair, Path(args.data), left, args.text))
            write_rows("lexicon_baselines", results, vars(args), **about)
    return report_rows("lexicon_baselines", results, vars(args), **about)


def measure(pair: str, data: Path, systems: dict[tuple[str, int], Callable], text: str) -> list[EvalResult]:
    """P@1, P@5 and coverage of every system on one language pair, by both protocols."""
    segmenters = {lang: default_segmenter(lang) for lang in pair.split("-")} if text == "pieces" else None
    vocabularies, pairs = training_text(data / "ntrex", pair, segmenters)
    entries = read_dictionary(next(data.glob(f"dict/{pair}.tsv*")))
    return translated(pairs, vocabularies, entries, systems, text)


def translated(
    pairs: EncodedPairs,
    vocabularies: dict[str, Vocabulary],
    entries: Dictionary,
    systems: dict[tuple[str, int | None], Callable],
    text: str,
) -> list[EvalResult]:
    """The same on any text."""
    languages = pairs.languages
    rows, hits = [], {}
    for (label, seed), system in systems.items():
        start = cpu_seconds()
        vectors = system(pairs, vocabularies)
        spent = round(cpu_seconds() - start, 1)  # eflomal is a process of its own
        settings = {"stage": "after", "row": label, "text": text, "train_cpu_s": spent}
        fields = {"direction": "->".join(languages), "dataset": f"dictionary {'-'.join(languages)}", "split": "test"}
        of_system = [vocabularies[lang] for lang in languages], vectors
        for row in protocol_results(entries, *of_system, settings=settings, seed=seed, **fields):
            if row.metric == "P@1":
                key = row.settings["protocol"]
                hits.setdefault((label, key), []).append(row.items.groups[0][:, 0])
                if other := hits.get((LIKE.get(label), key)):
                    test = asdict(paired_test(hits[label, key][0], np.mean(other, axis=0)))
                    row = replace(row, settings=row.settings | {"paired": {"with": LIKE[label]} | test})
                told = f"{label} {row.value:.1f} {row.settings.get('paired', '')} {spent}"
                print(f"{'-'.join(languages)} {key}: {told}", flush=True)
            rows.append(row)
    return rows


def expected_tables(pairs: EncodedPairs, vocabularies: dict[str, Vocabulary]) -> Tables:
    """From the expected links of the statistical aligner, agreeing and independent."""
    return link_vectors(translation_counts(pairs, [vocabularies[lang] for lang in pairs.languages]))


def joint_tables(
    encoder: WordEncoder, folder: Path, pairs: EncodedPairs, vocabularies: dict[str, Vocabulary]
) -> Tables:
    """The same with an encoder in every E step."""
    encoder.means.clear()
    text = read_text(folder, "-".join(pairs.languages))
    lines = [text[lang][:LINES] for lang in pairs.languages]
    own_vocabularies = [vocabularies[lang] for lang in pairs.languages]
    own = segment_similarities(pairs.languages, own_vocabularies, encoder, *lines)
    return link_vectors(translation_counts(pairs, own_vocabularies, own))


def prior_tables(
    pairs: EncodedPairs, vocabularies: dict[str, Vocabulary], method: str = "grow-diag-final-and"
) -> Tables:
    """From the links that the agreeing aligner decides for."""
    (prior,) = learn_priors([pairs], vocabularies)
    links = []
    for forward, backward in prior.posteriors(pairs.source, pairs.target):
        blank, sizes = np.zeros((1, *forward.shape)), np.array([forward.shape])
        hard = decode(SoftAlignment(forward[None], backward[None], blank, sizes), method)[0]
        links.append(list(zip(*np.nonzero(hard))))
    return link_vectors(counted(pairs, links, vocabularies))


def as_text(pairs: EncodedPairs, vocabularies: dict[str, Vocabulary]) -> list[list[str]]:
    """Both sides as eflomal and fast_align read them: the classes that words count by in our links, too."""
    sides = zip(pairs.languages, (pairs.source, pairs.target))
    of_sides = ((word_classes(vocabularies[lang]), side) for lang, side in sides)
    return [[" ".join(f"w{i}" for i in classes[list(ids)]) for ids in side] for classes, side in of_sides]


def rival_tables(align: Callable, pairs: EncodedPairs, vocabularies: dict[str, Vocabulary]) -> Tables:
    """From the links of both directions of `eflomal` or `fast_align`, joined by grow-diag-final-and."""
    sizes = [(len(source), len(target)) for source, target in zip(pairs.source, pairs.target)]
    return link_vectors(counted(pairs, align(as_text(pairs, vocabularies), sizes), vocabularies))


def sampled_tables(samples: int, pairs: EncodedPairs, vocabularies: dict[str, Vocabulary]) -> Tables:
    """From how often words are linked, in either direction, by so many short runs."""
    sides = as_text(pairs, vocabularies)
    directions = [links for _ in range(samples) for links in eflomal_directions(sides, **SAMPLER)]
    return link_vectors(sum(counted(pairs, links, vocabularies) for links in directions))


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
