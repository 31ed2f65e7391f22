"""How well pairs are mined out of haystacks with a published encoder, alone and with links of known pairs: F1.

python benchmarks/mining_f1.py --data ../shared/data --encoder me5-small [--pairs zh-vi lo-zh]

The 454 test pairs of NTREX stand among up to --times as many distractors on either side (distractors.py; sizes are in
the settings of every row; where there are fewer, development has its share of them). Where both sides have everyday
talk among their distractors, some of it is a translation by chance and counts as wrong; these pairs are measured
without it on the Chinese side, too ("apart"). Systems:

- encoder: its vectors as they are; pairs by cosine, by its ratio to what both sides have with their k nearest, or by
  the distance to that.
- encoder, centred: less the mean of the heap that they are of.
- head: a linear map of the centred vectors, learnt from NTREX's training lines as `hfxling bootstrap` does it.
- fused: links of the same lines beside the centred encoder or the head, each score at the deviation that it has between
  random sentences of the heaps, the dense one counted by a quarter, a half or in full (as `hfxling bootstrap` does it);
  "length" is the margin times the sentences' length. Scored are the --candidates nearest by the centred encoder and by
  the head.
- fused, fine-tuned: the same with the encoder trained further on these lines as `hfxling fit` does it, and links that
  the encoder helped to count. Scored are those nearest by the centred encoder and by the fine-tuned one.
- grown; grown, fine-tuned: what the last round of `hfxling bootstrap` mines with the same lines as its known pairs, by
  the encoder and by the fine-tuned one: links and a head are learnt again from what the haystack itself gave.

Form, margin, k and threshold of each are chosen for F1 on a haystack of its own: models of lines 1 to 1235, the pairs
of lines 1236 to 1543, and other distractors. The threshold is the middle of those within half a point of the best F1.
Intervals are the 95 % jackknife's over the haystack's source sentences; `paired` of a row is the difference from the
encoder at its own best margin, on the same sentences. Every language pair is kept when it is done: a run that was
stopped goes on with the others, and vectors are kept by text.
"""

import os
from dataclasses import asdict
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when numpy and torch are imported
os.environ.setdefault("HF_HUB_OFFLINE", "1")  # nothing is downloaded

import numpy as np
import torch
from distractors import APART, SOURCES, distractors
from encoders import encoder_folder, weights_note
from harness import earlier_rows, parser, replaced, report_rows, write_rows
from ntrex import LINES, read_text
from scipy.sparse import csr_array
from stored_vectors import StoredVectors
from transformers.utils import logging

from hfxling.console import run as run_recipe
from hfxling.data.corpus import Corpus, load_corpus
from hfxling.data.filters import count_words
from hfxling.encoders.fusion import ROLES, spread
from hfxling.encoders.loading import load_encoder
from hfxling.encoders.protocol import Encoder
from hfxling.evaluation.mining import f1_test, scores_of
from hfxling.evaluation.results import EvalResult
from hfxling.evaluation.significance import jackknife_error, ratio_interval
from hfxling.files import atomic_path, content_hash
from hfxling.methods.dap.finetune import EPOCHS, finetune, finetuning, schedule
from hfxling.methods.lexical import LinkSettings, fit
from hfxling.methods.lexical.data import link_views, word_encoder
from hfxling.methods.siamese.choice import fit_form
from hfxling.sentences import engine, grow, select
from hfxling.sentences.blocks import both_ways
from hfxling.sentences.engine import Mined, by_length
from hfxling.sentences.neighbours import Neighbours, exact_scores, unit

TITLE = "Mining the test pairs of NTREX out of other text, F1"
LABELS = ("encoder", "encoder, centred", "head", "fused", "fused, fine-tuned", "grown", "grown, fine-tuned")
PAIRS = ("lo-zh", "th-zh", "lo-th", "id-zh", "zh-vi", "ja-en")
DEV = 1235  # training lines that development models learn from; the rest of them are development pairs
KS = (4, 8, 16)
SHARES = (0.25, 0.5, 1)  # how much the dense score counts beside that of links
PLATEAU = 0.005  # of F1: thresholds that are as good as the best one
SAMPLE = 500  # sentences of a side between which the deviation of scores is measured
METRICS = ("precision", "recall", "F1")  # in the order of `scores_of`
GOALS = {pair: 0.93 if pair == "ja-en" else 0.97 for pair in PAIRS}

Setting = tuple  # form, margin and k


def main(argv: list[str] | None = None) -> dict:
    options = parser(__doc__, "mining_f1_me5")
    options.add_argument("--data", default="../shared/data", help="folder with ntrex/ and others")
    options.add_argument("--encoder", default="me5-small", help="encoder: me5-small, or a folder or Hub id")
    options.add_argument("--pairs", nargs="+", default=PAIRS, choices=[*SOURCES])
    options.add_argument("--times", type=int, default=20, help="number of distractors for each pair (default 20)")
    options.add_argument(
        "--candidates", type=int, default=16, help="candidates of each sentence that links score (default 16)"
    )
    options.add_argument(
        "--dtype", default="bfloat16", help="number format of the encoder's matrix products (default bfloat16)"
    )
    options.add_argument("--seed", type=int, default=42)
    options.add_argument("--device", help="device, such as cpu or cuda (default: a GPU if there is one)")
    options.add_argument("--cache_dir", default="outputs/features", help="folder in which vectors are cached")
    options.add_argument(
        "--finetuned_dir", default="outputs/mining_f1", help="folder in which fine-tuned encoders are kept"
    )
    args = options.parse_args(argv)
    torch.set_num_threads(1)
    logging.set_verbosity_error()
    vectors = StoredVectors(load_encoder(encoder_folder(args.encoder), device=args.device), args.cache_dir, args.dtype)
    settings = vars(args) | {"name": "mining_f1_me5", "weights": weights_note(args.encoder)}
    del settings["cache_dir"], settings["finetuned_dir"]
    about = {"title": TITLE, "labels": LABELS, "metrics": [*METRICS[::-1]]}
    results = earlier_rows(settings, "pairs", "device")
    for pair in args.pairs:
        for name, sources in (("", SOURCES), (" apart", APART)):
            if pair in sources and not is_measured(results, pair + name):
                results = replaced(results, measure(pair, pair + name, sources, vectors, args))
                write_rows("mining_f1", results, settings, **about)
    figures = {}
    for row in results:
        label = row.settings["row"]
        if label.startswith(("fused", "grown")) and row.metric == "F1":
            goal = GOALS[row.dataset.split()[0]]
            name = f"{label}_f1_{row.dataset}".replace("-", "_").replace(",", "").replace(" ", "_")
            figures[name] = round(row.value / 100, 4)
            print(f"{row.dataset}: {label} F1 {row.value / 100:.4f}, goal {goal}")
    report_rows("mining_f1", results, settings, **about, figures=figures)
    return figures


def is_measured(results: list[EvalResult], dataset: str) -> bool:
    """Whether every system has rows of it."""
    return {*LABELS} <= {row.settings["row"] for row in results if row.dataset == dataset}


def measure(pair: str, name: str, sources: dict, vectors: StoredVectors, args) -> list[EvalResult]:
    """Rows of every system on one language pair."""
    languages = tuple(pair.split("-"))
    text = read_text(f"{args.data}/ntrex", pair)
    more = distractors(args.data, pair, 10**6, text.values(), sources)
    chosen, hits, results = {}, {}, []
    for stage, last, lines in (("dev", DEV, slice(DEV, LINES)), ("test", LINES, slice(LINES, None))):
        pairs = len(text[languages[0]][lines])
        parts = [part_of(side, stage, args.times, len(text[languages[0]])) for side in more]
        heap = [[*text[lang][lines], *part] for lang, part in zip(languages, parts)]
        known = [text[lang][:last] for lang in languages]
        folder = Path(args.finetuned_dir) / f"{pair}-{stage}"
        for label, by_setting in mined(heap, known, languages, vectors, folder, args).items():
            curves = {"-".join(map(str, setting)): best_f1(found, pairs) for setting, found in by_setting.items()}
            print(f"{name} {stage} {label}: {curves}", flush=True)
            if stage == "dev":
                chosen[label] = best_setting(by_setting, pairs)
                continue
            setting, threshold = chosen[label]
            found = by_setting[setting]
            hits[label] = outcome(found, found.score >= threshold, pairs, len(heap[0]))
            form, margin, k = setting
            about = {"row": label, "form": form, "margin": margin, "k": k, "threshold": round(threshold, 4)}
            about |= {f"{side}_sentences": len(texts) for side, texts in zip(("source", "target"), heap)}
            about |= {"stage": "after", "pairs": pairs, "best_f1_by_setting": curves}
            fields = {"n": pairs, "dataset": name, "split": "test", "seed": args.seed, "model": label}
            fields |= {"revision": content_hash(*heap), "direction": "->".join(languages)}
            results += rows(hits[label], hits["encoder"], about, fields)
    return results


def part_of(side: list[str], stage: str, times: int, lines: int) -> list[str]:
    """A side's distractors of a stage: the test's first, then those of development, in proportion to their pairs."""
    test, dev = lines - LINES, LINES - DEV
    count = min(times * test, len(side) * test // (test + dev))
    return side[:count] if stage == "test" else side[count : count + times * dev]


# What each system mines -----------------------------------------------------------------------------


def mined(heap, known, languages, vectors: StoredVectors, folder: Path, args) -> dict[str, dict[Setting, Mined]]:
    """Pairs of every system, by form, margin and k; `folder` is the fine-tuned encoder's."""
    plain = [vectors.of(side) for side in heap]
    middle = [grow.centred(side) for side in plain]
    dense = {"centred": middle, "head": head(middle, [grow.centred(vectors.of(side)) for side in known])}
    encoder = finetuned("-".join(languages), len(known[0]), folder, args)
    trained = StoredVectors(encoder, args.cache_dir, args.dtype)
    finetuned_vectors = [trained.of(side) for side in heap]
    dense["fine-tuned"] = [grow.centred(side) for side in finetuned_vectors]
    nearest = {name: both_ways(*sides, max(KS)) for name, sides in dense.items()}
    found = {
        "encoder": by_margin("plain", both_ways(*plain, max(KS)), ("ratio", "distance", "absolute")),
        "encoder, centred": by_margin("centred", nearest["centred"], ("distance", "absolute")),
        "head": by_margin("head", nearest["head"], ("distance", "absolute")),
    }
    lengths = [np.array([count_words(text, lang) for text in side]) for side, lang in zip(heap, languages)]
    fused = {"fused": (("centred", "head"), None), "fused, fine-tuned": (("centred", "fine-tuned"), args.encoder)}
    for label, (names, counts_with) in fused.items():
        row, column = candidates([nearest[name] for name in names], args.candidates)
        of_links = sparse_scores(heap, known, languages, row, column, args.seed, counts_with)
        found[label] = {}
        for name in names:
            of_dense = exact_scores(*dense[name], row, column) / deviation(*dense[name])
            for share in SHARES:
                both = neighbours(row, column, share * of_dense + of_links, tuple(map(len, heap)))
                form = f"{share} x {name}"
                found[label] |= by_margin(form, both, ("distance",), KS[:2])
                for k in KS[:2]:
                    found[label][form, "length", k] = by_length(found[label][form, "distance", k], *lengths)
    for label, own in (("grown", plain), ("grown, fine-tuned", finetuned_vectors)):
        found[label] = {("rounds", "length", grow.K): last_round(heap, languages, own, known, args.seed)}
    return found


def last_round(heap, languages, vectors: list[np.ndarray], known, seed: int) -> Mined:
    """All pairs that growing from known ones mines at its end."""
    by_round = []

    def keep(this, pairs: Mined, given) -> None:
        by_round.append(pairs)

    grow.grow(heap, languages, vectors=vectors, known=known, seed=seed, report=keep)
    return by_round[-1]


def finetuned(pair: str, count: int, folder: Path, args) -> Encoder:
    """The encoder trained further on the first lines; it is kept, so that a run which was stopped goes on with it."""
    if not (folder / "modules.json").is_file():
        text = f"{args.data}/ntrex/{{source}}.txt+{args.data}/ntrex/{{target}}.txt@1-{count}"
        recipe = finetuning(encoder_folder(args.encoder), [pair], train_data=[text])
        corpus = load_corpus(recipe)
        pairs = len(corpus.pairs[0].train)
        training = schedule(pairs, str(folder), epochs=EPOCHS, seed=args.seed, device=args.device, is_tested=False)
        trained = finetune(recipe, training, corpus, kept=folder.with_suffix(".safetensors"))
        with atomic_path(folder) as scratch:
            scratch.mkdir()
            trained.write(scratch)
    return load_encoder(str(folder), device=args.device)


def head(heap: list[np.ndarray], known: list[np.ndarray]) -> list[np.ndarray]:
    """Centred vectors of both heaps by a head of known pairs."""
    maps = fit_form("discriminant", grow.HEAD, *(side.astype(np.float64) for side in known))
    return [unit(affine(side).astype(np.float32)) for affine, side in zip(maps, heap)]


def candidates(found: list[tuple[Neighbours, Neighbours]], count: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of the pairs that any search has among its first, in order."""
    pairs = set()
    for forward, backward in found:
        for source, targets in enumerate(forward.rows[:, :count].tolist()):
            pairs.update((source, target) for target in targets)
        for target, sources in enumerate(backward.rows[:, :count].tolist()):
            pairs.update((source, target) for source in sources)
    row, column = np.array(sorted(pairs)).T
    return row, column


def sparse_scores(heap, known, languages, row, column, seed: int, encoder: str | None = None) -> np.ndarray:
    """(P,) scores of candidates by links of known pairs, at the deviation of those between random sentences.

    Where an encoder is named, it helps to count the links.
    """
    settings = LinkSettings()
    corpus = Corpus.in_memory({languages: known})
    words = word_encoder(encoder_folder(encoder), None, corpus) if encoder else None
    model = fit(link_views(corpus, settings, words), settings, seed=seed, static=False)
    source, target = (model.encode(*side) for side in zip(heap, languages, ROLES))
    return exact_scores(source, target, row, column) / deviation(source, target)


def deviation(source: np.ndarray | csr_array, target: np.ndarray | csr_array) -> float:
    """Of the scores between random sentences."""
    rng = np.random.default_rng(0)
    few = [side[np.sort(rng.permutation(side.shape[0])[:SAMPLE])] for side in (source, target)]
    scores = few[0] @ few[1].T
    return spread(scores if isinstance(scores, np.ndarray) else scores.toarray())


def neighbours(row: np.ndarray, column: np.ndarray, scores: np.ndarray, sizes: tuple[int, int]):
    """The best of the candidates, both ways."""
    back = np.lexsort((row, column))
    forward = engine.best_of_rows(row, column, scores, sizes[0], KS[1])
    return forward, engine.best_of_rows(column[back], row[back], scores[back], sizes[1], KS[1])


def by_margin(form: str, found, margins: tuple[str, ...], ks: tuple[int, ...] = KS) -> dict[Setting, Mined]:
    """Mutual pairs by margin and k."""
    pairs = {}
    for k in ks:
        sides = [Neighbours(side.rows[:, :k], side.scores[:, :k]) for side in found]
        for margin in margins:
            pairs[form, margin, k] = select(*sides, margin, "mutual")
    return pairs


# What is counted -----------------------------------------------------------------------------


def best_setting(by_setting: dict[Setting, Mined], count: int) -> tuple[Setting, float]:
    """Form, margin and k, and threshold, with the best F1 on development pairs."""
    setting = max(by_setting, key=lambda name: best_f1(by_setting[name], count))
    found = by_setting[setting]
    values = curve(found, count)
    good = np.flatnonzero(values >= values.max() - PLATEAU)
    return setting, float(found.score[good[[0, -1]]].mean())  # the middle of all that are about as good


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
