"""Word alignment without a network of ours: eflomal, fast_align, our statistical links, IterMax, against gold links.

python benchmarks/align_baselines.py --data ../shared/data/align --sets zh-en ja-en ro-en en-fr es-fr --seeds 3 \
    --encoder ../shared/models/mini-xlm --layers 0 4 [--more zh-en=extra.zh,extra.en] [--name align_baselines]

Every set is DATA/SET.tsv: source words TAB target words TAB links. eflomal and, where the package systran-align is
installed, fast_align learn from the sentences of the set (small letters) and those of --more, by whole words and by the
stems that words count by in our links; both directions, joined by grow-diag-final-and. Our links learn from the
sentences of the set, read as words and, in Chinese and Japanese, as characters too; joined by "mean", or as eflomal's;
with and without a start for words that are written alike. IterMax links subwords and then the words they belong to, as
SimAlign does. Prints AER, precision, recall, F1 and seconds. Our rows carry the paired test against eflomal with stems,
whose counts are means over its seeds. Rows that are there are kept: a stopped run goes on with the others.
"""

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from harness import earlier_rows, parser, replaced, report_rows, systems_left, write_rows

from hfxling.console import run as run_recipe
from hfxling.data.pharaoh import AlignedPair, Link, read_aligned, read_links
from hfxling.data.readers import read_lines
from hfxling.data.segment import default_segmenter, learn_vocabularies
from hfxling.evaluation.alignment import alignment_results, alignment_scores, count_links
from hfxling.evaluation.results import EvalResult, cpu_seconds
from hfxling.methods.aligner.data import learn_priors
from hfxling.words import prior as link_prior
from hfxling.words.classes import stem
from hfxling.words.joint import JointAligner, View
from hfxling.words.links import itermax_links, symmetrize
from hfxling.words.pairs import EncodedPairs

BATCH = 32
TITLE = "Word links without a network of ours, learnt from the gold sets' sentences alone"
EFLOMAL = "eflomal, stems"  # what ours is held against: the same preprocessing
FAST_ALIGN = {"favor_diagonal": True, "optimize_tension": True, "variational_bayes": True}  # its -d -o -v
JOINED = "grow-diag-final-and"
SWAPS = 10_000  # of the test of two AERs

Links = list[set[Link]]


def main(argv: list[str] | None = None) -> dict[str, dict]:
    options = parser(__doc__, "NAME")
    options.add_argument("--data", required=True, help="folder of SET.tsv files")
    options.add_argument("--sets", nargs="+", required=True, help="names of the sets, such as zh-en")
    options.add_argument("--encoder", help="folder or Hub id of an encoder for IterMax; by default none")
    options.add_argument("--layers", nargs="*", type=int, default=[0], help="hidden_states that IterMax reads")
    options.add_argument(
        "--more", nargs="*", default=[], help="SET=SOURCE,TARGET: further text for eflomal and fast_align, spaced words"
    )
    options.add_argument("--seeds", type=int, default=1, help="number of runs of eflomal, which is random")
    options.add_argument("--name", default="align_baselines", help="name of the results file")
    args = options.parse_args(argv)

    encode = load_encoder(args.encoder) if args.encoder else None
    metrics = ["AER", "precision", "recall", "F1"]
    systems = {name: systems_of(name, encode, args) for name in args.sets}
    labels = list(dict.fromkeys(label for of_set in systems.values() for label, _ in of_set))
    about = {"title": TITLE, "labels": labels}
    results = earlier_rows(vars(args), "sets")
    for name, of_set in systems.items():
        if left := systems_left(of_set, results, f"gold {name}"):
            results = replaced(results, measure(Path(args.data) / f"{name}.tsv", name, left))
            write_rows("align_baselines", results, vars(args), metrics=metrics[:1], **about)
    return report_rows("align_baselines", results, vars(args), metrics=metrics, **about)


def systems_of(name: str, encode: Callable | None, args) -> dict[tuple[str, int], Callable[[list[AlignedPair]], Links]]:
    """By label and seed, what finds the links of a set."""
    languages = languages_of(name)
    more = dict(entry.split("=", 1) for entry in args.more).get(name)
    systems: dict[tuple[str, int], Callable] = {}
    for seed in range(args.seeds):
        systems["eflomal", seed] = partial(rival_links, eflomal, more=more)
        systems[EFLOMAL, seed] = partial(rival_links, eflomal, more=more, stems_of=languages)
    if find_spec("systran_align"):
        systems["fast_align", 0] = partial(rival_links, fast_align, more=more)
        systems["fast_align, stems", 0] = partial(rival_links, fast_align, more=more, stems_of=languages)
    systems["statistical links", 0] = partial(prior_links, languages)
    systems[f"statistical links, {JOINED}", 0] = partial(prior_links, languages, method=JOINED)
    systems["statistical links, equal words as others", 0] = partial(without_start, languages)
    if characters := {lang: "characters" for lang in languages if default_segmenter(lang) == "characters"}:
        systems["statistical links, by characters", 0] = partial(prior_links, languages, segmenters=characters)
    for layer in args.layers if encode else ():
        label = f"{Path(args.encoder).name}, IterMax layer {layer}"
        systems[label, 0] = partial(encoder_links, encode, layer=layer)
    return systems


def measure(path: Path, name: str, systems: dict[tuple[str, int], Callable]) -> list[EvalResult]:
    """Rows of every system on one gold set."""
    gold, rows = read_aligned(path), []
    counts: dict[str, list[np.ndarray]] = {}
    for (label, seed), align in systems.items():
        start = cpu_seconds()
        links = align(gold)
        seconds = round(cpu_seconds() - start, 1)  # eflomal is a process of its own
        counts.setdefault(label, []).append(count_links(links, gold))
        settings = {"stage": "after", "row": label, "train_cpu_s": seconds}
        if label.startswith("statistical") and EFLOMAL in counts:
            difference, p_value = error_test(counts[label][0], np.mean(counts[EFLOMAL], axis=0))
            settings["paired"] = {"with": EFLOMAL, "difference": round(difference, 3), "p_value": p_value}
        found = alignment_results(links, gold, dataset=f"gold {name}", split="test", settings=settings)
        rows += [replace(row, seed=seed) for row in found]
        print(f"{name}: {label} {rows[-4].value:.1f} {settings.get('paired', '')}", flush=True)
    return rows


def error_test(a: np.ndarray, b: np.ndarray) -> tuple[float, float]:
    """Difference of two AERs on the same sentence pairs, in points, and its two-sided p-value by swaps of outcomes.

    `a` and `b` are (N, 4) counts of `count_links`, or means of them over seeds.
    """

    def differences(of_a: np.ndarray, of_b: np.ndarray) -> np.ndarray:
        return alignment_scores(of_a)["AER"] - alignment_scores(of_b)["AER"]

    difference = float(differences(a.sum(0), b.sum(0)))
    # Were the two systems alike, the outcomes of each pair could as well have been the other one's.
    swapped = np.random.default_rng(0).random((SWAPS, len(a))) < 0.5
    moved = swapped @ (b - a)
    extreme = np.abs(differences(a.sum(0) + moved, b.sum(0) - moved)) >= abs(difference) - 1e-9
    return difference, float((1 + extreme.sum()) / (SWAPS + 1))  # the outcome itself is one of the draws


def prior_links(
    languages: tuple[str, str],
    gold: Sequence[AlignedPair],
    method: str = "mean",
    segmenters: dict[str, str] | None = None,
) -> Links:
    """Our statistical aligner's links."""
    sides = [[" ".join(side) for side in of_side] for of_side in zip(*((pair.source, pair.target) for pair in gold))]
    lines = dict(zip(languages, sides))
    vocabularies = learn_vocabularies(lines, segmenters=segmenters)
    ids = ([row.ids for row in vocabularies[lang].encode_batch(text)] for lang, text in lines.items())
    (prior,) = learn_priors([EncodedPairs(languages, *ids)], vocabularies)
    view = View([vocabularies[lang] for lang in languages], [prior])
    return [{*line.links} for line in JointAligner(languages, [view], method=method)(*sides)]


def without_start(languages: tuple[str, str], gold: Sequence[AlignedPair]) -> Links:
    """Our links where words that are written alike start no likelier than others."""
    kept, link_prior.SAME = link_prior.SAME, 1
    try:
        return prior_links(languages, gold)
    finally:
        link_prior.SAME = kept


def languages_of(name: str) -> tuple[str, ...]:
    """Of a set, such as en-bg.xlwa-dev."""
    return tuple(name.partition(".")[0].split("-"))


def rival_links(
    align: Callable, gold: Sequence[AlignedPair], more: str | None = None, stems_of: Sequence[str] = ()
) -> Links:
    """Of `eflomal` or `fast_align`, from the gold sentences and further text; by stems if both languages are told."""
    sides = [[" ".join(pair.source).lower() for pair in gold], [" ".join(pair.target).lower() for pair in gold]]
    for side, path in zip(sides, more.split(",") if more else ()):
        side += [text.lower() for _, text in read_lines(path)]
    for side, lang in zip(sides, stems_of):
        side[:] = (" ".join(stem(word, lang) for word in text.split()) for text in side)
    return align(sides, [(len(pair.source), len(pair.target)) for pair in gold])


def eflomal(sides: Sequence[Sequence[str]], sizes: Sequence[tuple[int, int]]) -> Links:
    """Both directions of eflomal, joined by grow-diag-final-and.

    Args:
        sides: source and target sentences, words apart.
        sizes: words of both sides of the first so many sentences: those whose links are wanted.
    """
    found = []
    for size, *both in zip(sizes, *eflomal_directions(sides)):
        hard = np.zeros((2, 1, *size), bool)
        for matrix, links in zip(hard[:, 0], both):
            matrix[tuple(np.array([*links], int).reshape(-1, 2).T)] = True
        found.append(_pairs(symmetrize(*hard)[0]))
    return found


def eflomal_directions(sides: Sequence[Sequence[str]], **options) -> list[list]:
    """The links of either direction of eflomal, sentence by sentence; `options` are those of its `Aligner`."""
    try:
        from eflomal import Aligner
    except ImportError:
        raise ValueError("eflomal is not installed; pip install eflomal (it compiles C code).") from None

    with tempfile.TemporaryDirectory() as folder:
        paths = [f"{folder}/forward", f"{folder}/backward"]
        Aligner(**options).align(*sides, links_filename_fwd=paths[0], links_filename_rev=paths[1])
        return [[links for links, _ in read_links(path)] for path in paths]


def fast_align(sides: Sequence[Sequence[str]], sizes: Sequence[tuple[int, int]]) -> Links:
    """The same of fast_align, as the package systran-align runs and joins its directions."""
    import systran_align

    words = [[text.split() for text in side] for side in sides]
    with tempfile.TemporaryDirectory() as folder:
        paths = [f"{folder}/{name}" for name in ("text", "forward", "backward")]
        lines = (f"{' '.join(source)} ||| {' '.join(target)}\n" for source, target in zip(*words))
        Path(paths[0]).write_text("".join(lines), encoding="utf-8")
        systran_align.generate_alignment_probabilities(*paths, **FAST_ALIGN)
        found = systran_align.Aligner(*paths[1:]).align_batch(*(side[: len(sizes)] for side in words))
    return [{*map(tuple, of_line["alignments"])} for of_line in found]


def load_encoder(name: str) -> Callable[[Sequence[Sequence[str]], int], tuple[list[np.ndarray], list[list[int]]]]:
    """A function from lists of words and a layer to each list's subword vectors and the word that each belongs to."""
    import torch
    from transformers import AutoModel, AutoTokenizer, logging

    logging.set_verbosity_error()  # a pooler that the checkpoint lacks is of no interest here
    tokenizer = AutoTokenizer.from_pretrained(name)
    model = AutoModel.from_pretrained(name, dtype=torch.float32).eval()

    @torch.no_grad()
    def encode(sentences: Sequence[Sequence[str]], layer: int) -> tuple[list[np.ndarray], list[list[int]]]:
        batch = tokenizer([*sentences], is_split_into_words=True, padding=True, truncation=True, return_tensors="pt")
        states = model(**batch, output_hidden_states=True).hidden_states[layer].numpy()
        owners = [batch.word_ids(row) for row in range(len(sentences))]
        kept = [[place for place, word in enumerate(row) if word is not None] for row in owners]
        return [x[places] for x, places in zip(states, kept)], [[w for w in row if w is not None] for row in owners]

    return encode


def encoder_links(encode: Callable, gold: Sequence[AlignedPair], layer: int) -> Links:
    """IterMax over subwords; two words are linked when any of their subwords are."""
    links: Links = [set() for _ in gold]
    order = sorted(range(len(gold)), key=lambda i: len(gold[i].source))
    for start in range(0, len(gold), BATCH):
        rows = order[start : start + BATCH]
        sides = [
            encode([[*words] for words in side], layer)
            for side in zip(*((gold[i].source, gold[i].target) for i in rows))
        ]
        sizes = np.array([[len(x) for x in vectors] for vectors, _ in sides]).T
        stacked = [np.zeros((len(rows), max(1, sizes[:, k].max()), sides[k][0][0].shape[1])) for k in (0, 1)]
        for table, (vectors, _) in zip(stacked, sides):
            for place, x in zip(table, vectors):
                place[: len(x)] = x / np.linalg.norm(x, axis=1, keepdims=True)
        found = itermax_links(stacked[0] @ stacked[1].swapaxes(1, 2), sizes)
        for row, hard, source, target in zip(rows, found, sides[0][1], sides[1][1]):
            links[row] = {(source[i], target[j]) for i, j in _pairs(hard)}
    return links


def _pairs(matrix: np.ndarray) -> set[Link]:
    return {(int(i), int(j)) for i, j in zip(*np.nonzero(matrix))}


if __name__ == "__main__":
    run_recipe(main)
