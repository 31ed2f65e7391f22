"""Word links by links alone, an encoder alone, both in one EM, and by what others offer, against gold links.

python benchmarks/align_table.py --data ../shared/data/align --encoder me5-small --sets zh-en ro-en ja-en en-fr es-fr
python benchmarks/align_table.py --data ../shared/data/align --encoder me5-small --sets zh-en ... --trained FOLDER
python benchmarks/align_table.py --data ../shared/data/align --encoder me5-small --name align_table_xlwa --sets \
    en-bg.xlwa-test en-es.xlwa-test en-et.xlwa-test en-it.xlwa-test en-nl.xlwa-test en-pt.xlwa-test en-ru.xlwa-test
python benchmarks/align_table.py --data ../shared/data/align --encoder me5-small --name align_growth_zh_en \
    --sets zh-en --more build/more.zh build/more.en --first 0 250 1000 5000 10000
python benchmarks/align_table.py --data ../shared/data/align --encoder me5-small --choose
python benchmarks/align_table.py --data ../shared/data/align --encoder me5-small --fit

Every set is DATA/SET.tsv: source words TAB target words TAB links. Links, and both, learn from the sentences of the set
alone, never from its links. Others read the same sentences, those with an encoder the same vectors of pieces, too:
awesome-align's extraction (two softmaxes above a threshold, of cosines by a temperature, both chosen on xlwa-dev by
--choose), ctfalign with and without its constraint, fast_align, HMM and IBM 4 of sil-thot (small letters, joined by
grow-diag-final-and; eflomal itself is in align_baselines.py), and the package simalign, which runs the encoder itself.
What is not installed is left out: pip install -r benchmarks/requirements.txt. Paired tests hold "both" against every
other one. --speed measures pairs per second. --trained adds lines of the same encoder trained further, for example by
translation ranking: TR-0/model in the output folder of recipes/configs/dap/studies/me5.yaml. --saved adds lines of
links that are given, not learnt from the set's text.

--fit learns the weights of `hfxling/words/probability.json` from the gold links of xlwa-dev, with 250 further pairs of
each language as text, and of given links those that a lexical model has learnt from xlwa-train; these are the only gold
links that chose anything: weights, layer, temperature, floor, weight, odds of what is not linked, and the least
probability of a link (--choose).
"""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np
from align_baselines import error_test
from encoders import encoder_folder
from harness import earlier_file, machine, parser, report
from scipy.special import softmax

import hfxling
from hfxling.console import run as run_recipe
from hfxling.data.pharaoh import AlignedPair, Link, read_aligned
from hfxling.data.readers import read_lines
from hfxling.evaluation.alignment import alignment_results, count_links
from hfxling.files import atomic_path
from hfxling.sentences.neighbours import unit_or_zero
from hfxling.words.encoder import WordEncoder
from hfxling.words.joint import JointAligner
from hfxling.words.probability import WEIGHTS, link_evidence
from hfxling.words.sources import open_aligner

DEV = ("en-it", "en-ru", "en-nl", "en-bg", "en-es", "en-et", "en-pt")
FURTHER = 250  # pairs of xlwa-train whose text, not whose links, is read beside xlwa-dev
LINKS, ENCODER, BOTH = "links", "encoder", "both"
SAVED = "links of a lexical model"
TITLE = "Word links: links, encoder, both in one EM, and others, learnt from the gold sets' sentences alone"
TITLE_OF_SPEED = "Word links: sentence pairs a second of CPU time, one thread, learning included"
SLOW = 60  # pairs that simalign is timed on
MARKS = ("<!-- table -->", "<!-- end -->")
# awesome-align takes inner products of multilingual BERT's vectors and 0.001. Other encoders' vectors have other
# lengths, so cosines are divided by a temperature here. Chosen on xlwa-dev by --choose.
TEMPERATURE, THRESHOLD = 0.02, 0.5
THRESHOLDS_TRIED = [step / 20 for step in range(4, 13)]  # of our probabilities
THOT = {"fast_align": "FAST_ALIGN", "HMM": "HMM", "IBM 4": "IBM4"}
ROUNDS = 5  # of each of sil-thot's models, and of those that it starts from
_LEAST = 0.05  # weights below teach nothing

Links = list[set[Link]]


def main(argv: list[str] | None = None) -> dict:
    options = parser(__doc__, "align_table")
    options.add_argument("--data", required=True, help="folder of SET.tsv files")
    options.add_argument("--encoder", required=True, help="encoder: me5-small, or a folder or Hub id")
    options.add_argument("--sets", nargs="+", default=["zh-en"], help="names of the sets, such as zh-en")
    options.add_argument("--fit", action="store_true", help="only learn the weights of probabilities")
    options.add_argument(
        "--choose", action="store_true", help="choose thresholds, and the temperature of awesome-align, on xlwa-dev"
    )
    options.add_argument("--dtype", default="float32", help="number format in which the encoder computes")
    options.add_argument(
        "--more",
        nargs=2,
        metavar=("SOURCE", "TARGET"),
        help="measure only links, and links with the encoder, with this further text",
    )
    options.add_argument(
        "--first", type=int, nargs="+", default=[5000], help="numbers of lines of that text, one or more"
    )
    options.add_argument(
        "--trained", metavar="FOLDER", help="measure only this encoder, which was trained further, alone and with links"
    )
    options.add_argument(
        "--saved",
        action="store_true",
        help="measure only links of a lexical model of xlwa-train, alone and with the encoder",
    )
    options.add_argument("--speed", action="store_true", help="measure pairs per CPU second on the first set")
    options.add_argument("--page", default="docs/words.md", help="page whose table is written anew")
    options.add_argument(
        "--name", default="align_table", help="name of the results; the page shows those of align_table"
    )
    args = options.parse_args(argv)
    args.encoder = encoder_folder(args.encoder)
    if args.speed:
        return speed(WordEncoder(args.encoder, dtype=args.dtype), args)
    encoder = ReadOnce(args.encoder, dtype=args.dtype)
    if args.fit:
        return fit(args.data, encoder)
    if args.choose:
        return choose(args.data, encoder)

    path = Path(args.results_dir) / f"{args.name}.json"
    figures = earlier_file(path).get("figures", {})
    for name in args.sets:
        gold = read_aligned(Path(args.data) / f"{name}.tsv")
        systems = systems_of(gold, name, encoder, args)
        figures[name] = measured(gold, name, encoder, systems, figures.get(name, {}))
        settings = {"encoder": Path(args.encoder).name, "layer": encoder.layer, "dtype": args.dtype, **machine()}
        report("align_table", figures, settings, title=TITLE, name=args.name, path=path)
        if args.name == "align_table":
            write_table(args.page, figures)
    return figures


class ReadOnce(WordEncoder):
    """An encoder that remembers what it has read: all systems look at the same vectors."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.read: dict[str, tuple[np.ndarray, np.ndarray]] = {}

    def _read(self, lines: Sequence[str]) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """As `WordEncoder._read`."""
        new = [line for line in dict.fromkeys(lines) if line not in self.read]
        if new:
            for row, places, states in super()._read(new):
                self.read[new[row]] = places, states
        for row, line in enumerate(lines):
            yield row, *self.read[line]


def write_table(page: str | Path, figures: dict[str, dict]) -> None:
    """Put the table of error rates between the page's marks."""
    text = Path(page).read_text(encoding="utf-8")
    before, _, rest = text.partition(MARKS[0])
    _, _, after = rest.partition(MARKS[1])
    with atomic_path(page) as scratch:
        scratch.write_text(before + MARKS[0] + "\n" + table_of(figures) + "\n" + MARKS[1] + after, encoding="utf-8")


def table_of(figures: dict[str, dict]) -> str:
    """Error rates as Markdown: a line a system, a column a set."""
    systems = list(dict.fromkeys(label for of_set in figures.values() for label in of_set))
    lines = ["| | " + " | ".join(f"{name}, {of_set[BOTH]['n']} pairs" for name, of_set in figures.items()) + " |"]
    lines.append("|---" * (1 + len(figures)) + "|")
    for label in systems:
        cells = []
        for of_set in figures.values():
            row = of_set.get(label)
            cells.append("" if row is None else cell_of(row))
        lines.append(f"| {label} | " + " | ".join(cells) + " |")
    errors = [f"{of_set[BOTH]['ECE']:.3f}" for of_set in figures.values()]
    lines.append("| both, calibration error of the scores | " + " | ".join(errors) + " |")
    return "\n".join(lines)


def cell_of(row: dict) -> str:
    """Error rate and interval, and a mark where both do not differ from it, or are worse."""
    paired = row.get("both", {"difference": -1, "p_value": 0})
    mark = "" if paired["difference"] < 0 and paired["p_value"] < 0.05 else " *"
    return f"{row['AER']:.1f} ({row['AER low']:.1f}-{row['AER high']:.1f}){mark}"


def speed(encoder: WordEncoder, args) -> dict:
    """Pairs a second of CPU time, on the first set: both and the encoder alone on all of it, simalign on 60 pairs."""
    name = args.sets[0]
    gold = read_aligned(Path(args.data) / f"{name}.tsv")
    languages = tuple(name.partition(".")[0].split("-"))
    few = gold[:SLOW]
    runs = {
        BOTH: (gold, lambda: joint_links(languages, gold, encoder)),
        ENCODER: (gold, lambda: encoder_links(languages, gold, encoder, "itermax")),
    }
    if find_spec("simalign"):
        from simalign import SentenceAligner

        for methods in ("mai", "i"):
            other = SentenceAligner(model=args.encoder, token_type="bpe", matching_methods=methods)
            runs[f"simalign, {methods}"] = few, lambda other=other: simalign_run(other, few)
    for text, run in runs.values():  # a warm-up
        if text is few:
            run()
    figures = {}
    for label, (text, run) in runs.items():
        encoder.means.clear()
        start = time.process_time()
        run()
        figures[f"{label}, pairs_per_s"] = round(len(text) / (time.process_time() - start), 2)
        print(label, figures, flush=True)
    if find_spec("simalign"):
        for label in (BOTH, ENCODER):
            for methods in ("mai", "i"):
                other = figures[f"simalign, {methods}, pairs_per_s"]
                figures[f"{label} over simalign, {methods}"] = round(figures[f"{label}, pairs_per_s"] / other, 2)
    settings = {
        "set": name,
        "encoder": Path(args.encoder).name,
        "layer": encoder.layer,
        "dtype": args.dtype,
        **machine(),
    }
    path = Path(args.results_dir) / "align_speed.json"
    return report("align_table", figures, settings, title=TITLE_OF_SPEED, name="align_speed", path=path)


def systems_of(gold: list[AlignedPair], name: str, encoder: WordEncoder, args) -> dict[str, Callable]:
    """By label, what finds the links of a set, and their probabilities; with --more links and both with that text."""
    languages = tuple(name.partition(".")[0].split("-"))
    if args.more:
        lines = [[text for _, text in read_lines(path)] for path in args.more]
        grown: dict[str, Callable] = {}
        for size in args.first:
            more = [side[:size] for side in lines]
            grown[f"{LINKS}, {size:,} further pairs"] = lambda more=more: joint_links(languages, gold, more=more)
            grown[f"{BOTH}, {size:,} further pairs"] = lambda more=more: joint_links(languages, gold, encoder, more)
        return grown
    if args.trained:
        trained = ReadOnce(args.trained, dtype=args.dtype)
        return {
            BOTH: lambda: joint_links(languages, gold, encoder),
            f"{ENCODER}, trained further": lambda: encoder_links(languages, gold, trained, None),
            f"{BOTH}, trained further": lambda: joint_links(languages, gold, trained),
        }
    if args.saved:
        saved = saved_links(args.data, "-".join(languages), gold, encoder)
        return {
            BOTH: lambda: joint_links(languages, gold, encoder),
            SAVED: lambda: links_of(saved, *sides_of(gold)),
            f"{SAVED}, and encoder": lambda: links_of(JointAligner(languages, saved.views, encoder), *sides_of(gold)),
        }
    systems: dict[str, Callable] = {
        LINKS: lambda: joint_links(languages, gold),
        ENCODER: lambda: encoder_links(languages, gold, encoder, None),
        "encoder, IterMax": lambda: encoder_links(languages, gold, encoder, "itermax"),
        "encoder, ArgMax": lambda: encoder_links(languages, gold, encoder, "argmax"),
        "encoder, softmax": lambda: encoder_links(languages, gold, encoder, "softmax"),
        "awesome-align's extraction": lambda: (awesome_links(gold, encoder), None),
        BOTH: lambda: joint_links(languages, gold, encoder),
    }
    if find_spec("ctfalign"):
        for method in ("simalign", "mdpalign-fuzzy", "ctfalign"):
            label = f"ctfalign 0.1.0, {method}, IterMax"
            systems[label] = lambda method=method: (ctfalign_links(gold, encoder, method), None)
    if find_spec("thot"):
        for label, model in THOT.items():
            systems[f"sil-thot 3.5, {label}"] = lambda model=model: (thot_links(gold, model), None)
    if find_spec("simalign"):
        systems["simalign 0.4, IterMax"] = lambda: (simalign_links(gold, args.encoder), None)
    return systems


def measured(
    gold: list[AlignedPair], name: str, encoder: WordEncoder, systems: dict[str, Callable], earlier: dict
) -> dict:
    """Figures of every system on one gold set, added to earlier ones."""
    figures, counts = dict(earlier), {}
    for label, system in systems.items():
        encoder.means.clear()
        links, probabilities = system()
        counts[label] = count_links(links, gold)
        rows = alignment_results(links, gold, dataset=name, split="gold")
        figures[label] = {row.metric: round(row.value, 2) for row in rows}
        figures[label] |= {"n": len(gold), "AER low": round(rows[0].low, 2), "AER high": round(rows[0].high, 2)}
        if probabilities is not None:
            is_right = [link in pair.possible for of_pair, pair in zip(links, gold) for link in sorted(of_pair)]
            figures[label]["ECE"] = round(expected_calibration_error(probabilities, is_right), 4)
        print(name, label, figures[label], flush=True)
    if BOTH not in counts:
        return figures
    for label in counts:
        if label != BOTH:
            difference, p_value = error_test(counts[BOTH], counts[label])
            figures[label]["both"] = {"difference": round(difference, 2), "p_value": round(p_value, 5)}
    return figures


def expected_calibration_error(probabilities: Sequence[float], right: Sequence[bool], bins: int = 10) -> float:
    """Mean distance, 0..1, between (L,) probability and share of right links, over bins with equally many links."""
    probabilities, right = np.asarray(probabilities, np.float64), np.asarray(right, np.float64)
    # Where probabilities tie, the share of right ones among them stands for each: their order is of no matter.
    _, inverse, counts = np.unique(probabilities, return_inverse=True, return_counts=True)
    right = (np.bincount(inverse, right) / counts)[inverse]
    order = np.argsort(probabilities, kind="stable")
    distance = 0.0
    for links in np.array_split(order, bins):
        distance += abs(probabilities[links].sum() - right[links].sum())
    return float(distance / len(right))


def joint_links(
    languages: Sequence[str],
    gold: Sequence[AlignedPair],
    encoder: WordEncoder | None = None,
    more: Sequence[Sequence[str]] = ((), ()),
) -> tuple[Links, list[float]]:
    """By links learnt from the set's sentences and further text, with an encoder or without."""
    source, target = sides_of(gold)
    aligner = JointAligner.learn(languages, [*source, *more[0]], [*target, *more[1]], encoder)
    return links_of(aligner, source, target)


def encoder_links(
    languages: Sequence[str], gold: Sequence[AlignedPair], encoder: WordEncoder, method: str | None
) -> tuple[Links, list[float] | None]:
    """By the encoder alone."""
    links, probabilities = links_of(JointAligner(languages, [], encoder, method=method), *sides_of(gold))
    return links, probabilities if method is None else None


def links_of(aligner: JointAligner, source: list[str], target: list[str]) -> tuple[Links, list[float]]:
    """Links of every pair, and the probabilities of all in that order."""
    links, probabilities = [], []
    for line in aligner(source, target):
        links.append(set(line.links))
        probabilities += [float(line.probability[0][link]) for link in line.links]
    return links, probabilities


def awesome_links(
    gold: Sequence[AlignedPair],
    encoder: WordEncoder,
    temperature: float = TEMPERATURE,
    threshold: float = THRESHOLD,
) -> Links:
    """As awesome-align: two words are linked when pieces of theirs are."""
    links: Links = []
    for source, target in pieces_of(gold, encoder):
        similarity = unit_or_zero(source.states) @ unit_or_zero(target.states).T
        is_linked = extraction(similarity / temperature, threshold)
        links.append({(source.words[i], target.words[j]) for i, j in np.argwhere(is_linked)})
    return links


def extraction(scores: np.ndarray, threshold: float) -> np.ndarray:
    """(S, T) bool: softmax over targets and over sources both above the threshold (Dou & Neubig 2021, eq. 2-3)."""
    if not scores.size:
        return np.zeros(scores.shape, bool)
    over_target = softmax(scores, axis=1)
    over_source = softmax(scores, axis=0)
    return (over_target > threshold) & (over_source > threshold)


class Pieces(NamedTuple):
    """A line as an encoder reads it."""

    states: np.ndarray  # (P, H)
    words: list[int]  # the word that each piece is of


def pieces_of(gold: Sequence[AlignedPair], encoder: WordEncoder) -> Iterator[tuple[Pieces, Pieces]]:
    """Both sides of every pair."""
    sides = []
    for lines in sides_of(gold):
        sides.append({row: (places, states) for row, places, states in encoder.pieces(lines)})
    for row, pair in enumerate(gold):
        read = []
        for words, side in zip((pair.source, pair.target), sides):
            places, states = side[row]
            read.append(Pieces(states, word_owners(words, places)))
        yield tuple(read)


def ctfalign_links(gold: Sequence[AlignedPair], encoder: WordEncoder, method: str) -> Links:
    """By the package ctfalign, its IterMax, out of our vectors of pieces."""
    from ctfalign import align_from_embeddings

    links: Links = []
    for source, target in pieces_of(gold, encoder):
        if not source.words or not target.words:
            links.append(set())
            continue
        found = align_from_embeddings(
            source.states, target.states, source.words, target.words, method=method, mode="itermax"
        )
        links.append({(int(i), int(j)) for i, j in found})
    return links


def thot_links(gold: Sequence[AlignedPair], kind: str) -> Links:
    """By a model of sil-thot in both directions, joined by grow-diag-final-and."""
    from thot.alignment import SymmetrizationHeuristic, SymmetrizedAligner

    source = [[word.lower() for word in pair.source] for pair in gold]
    target = [[word.lower() for word in pair.target] for pair in gold]
    aligner = SymmetrizedAligner(thot_model(kind, source, target), thot_model(kind, target, source))
    aligner.heuristic = SymmetrizationHeuristic.GROW_DIAG_FINAL_AND
    links: Links = []
    for words, others in zip(source, target):
        _, matrix = aligner.get_best_alignment(words, others)
        links.append({(int(i), int(j)) for i, j in np.argwhere(matrix.to_numpy())})
    return links


def thot_model(kind: str, source: Sequence[list[str]], target: Sequence[list[str]]):
    """A trained model of one direction; HMM starts from IBM 1, IBM 4 from HMM."""
    from thot import alignment

    first = alignment.Ibm1AlignmentModel if kind in ("HMM", "IBM4") else alignment.FastAlignModel
    models = [first()]
    for words, others in zip(source, target):
        models[0].add_sentence_pair(words, others)
    thot_trained(models[0])
    if kind in ("HMM", "IBM4"):
        models.append(thot_trained(alignment.HmmAlignmentModel(models[-1])))
    if kind == "IBM4":
        models.append(thot_trained(alignment.Ibm4AlignmentModel(models[-1])))
    return models[-1]


def thot_trained(model):
    """The model after its rounds of training."""
    model.start_training()
    for _ in range(ROUNDS):
        model.train()
    model.end_training()
    return model


def word_owners(words: Sequence[str], places: np.ndarray) -> list[int]:
    """The word that every piece of the joined words begins in."""
    ends = np.cumsum([len(word) + 1 for word in words])
    return [int(np.searchsorted(ends, end - 1, side="right")) for _, end in places]


def simalign_links(gold: Sequence[AlignedPair], name: str) -> Links:
    """By the package simalign, pair by pair, as it works."""
    from simalign import SentenceAligner

    aligner = SentenceAligner(model=name, token_type="bpe", matching_methods="i")
    links: Links = []
    for pair in gold:
        found = simalign_run(aligner, [pair])[0]["itermax"] if pair.source and pair.target else []
        links.append(set(found))
    return links


def simalign_run(aligner, gold: Sequence[AlignedPair]) -> list[dict]:
    """What the package finds by each of its methods."""
    return [aligner.get_word_aligns(list(pair.source), list(pair.target)) for pair in gold]


def fit(data: str, encoder: WordEncoder) -> dict:
    """Learn the weights of probabilities from xlwa-dev and write them where the package reads them."""
    evidence: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {}
    for name in DEV:
        gold, source, target = development_text(data, name)
        aligners = development_aligners(data, name, encoder)
        for kind, aligner in aligners.items():
            own_evidence = evidence_of(aligner.weights(source, target), aligner.decisive, gold)
            evidence.setdefault(kind, []).append(own_evidence)
        print(name, flush=True)
    fitted = {}
    for kind, parts in evidence.items():
        features, is_right = (np.concatenate(column) for column in zip(*parts))
        fitted[kind] = fit_probability(features, is_right)
    WEIGHTS.write_text(json.dumps(fitted, indent=1) + "\n", encoding="utf-8")
    return fitted


def fit_probability(evidence: np.ndarray, is_right: np.ndarray) -> dict[str, list[float] | float]:
    """Weights and bias of (L, F) evidence of links and whether they are right, as `probability.json` keeps them."""
    from sklearn.linear_model import LogisticRegression

    mean, scale = evidence.mean(0), np.maximum(evidence.std(0), 1e-9)
    fitted = LogisticRegression(max_iter=2000).fit((evidence - mean) / scale, is_right)
    weight = fitted.coef_[0] / scale
    return {"weight": weight.round(5).tolist(), "bias": round(float(fitted.intercept_[0] - mean @ weight), 5)}


def development_text(data: str, name: str) -> tuple[list[AlignedPair], list[str], list[str]]:
    """Gold pairs of xlwa-dev, and source and target lines: theirs, and further ones."""
    gold = read_aligned(Path(data) / f"{name}.xlwa-dev.tsv")
    more = read_aligned(Path(data) / f"{name}.xlwa-train.tsv")[:FURTHER]
    return gold, *sides_of([*gold, *more])


def development_aligners(data: str, name: str, encoder: WordEncoder) -> dict[str, JointAligner]:
    """One of every kind, learnt from that text."""
    encoder.means.clear()
    gold, source, target = development_text(data, name)
    languages = name.split("-")
    both = JointAligner.learn(languages, source, target, encoder)
    links = JointAligner.learn(languages, source, target)
    saved = saved_links(data, name, gold, encoder)
    saved_both = JointAligner(languages, saved.views, encoder)
    return {each.kind: each for each in (both, links, saved_both, saved, JointAligner(languages, [], encoder))}


def saved_links(data: str, name: str, gold: Sequence[AlignedPair], encoder: WordEncoder) -> JointAligner:
    """Links that a lexical model has learnt with the encoder from the text of xlwa-train, where no gold pair is."""
    silver = sides_of(read_aligned(Path(data) / f"{name}.xlwa-train.tsv"))
    model = hfxling.fit_lexical(*silver, tuple(name.split("-")), model=encoder.name, progress=False)
    aligner, _ = open_aligner(*sides_of(gold), links=model, encoder_of_links=False)
    return aligner


def choose(data: str, encoder: WordEncoder) -> dict:
    """Mean error rates on xlwa-dev, the best first: of awesome-align's extraction by temperature and threshold, and of
    each kind of ours by the probability from which on links are given.
    """
    rates: dict[tuple[float, float], list[float]] = {}
    own_rates: dict[str, list[float]] = {}
    for name in DEV:
        gold = read_aligned(Path(data) / f"{name}.xlwa-dev.tsv")
        for kind, aligner in development_aligners(data, name, encoder).items():
            lines = list(aligner(*sides_of(gold)))
            for threshold in THRESHOLDS_TRIED:
                links = [{(int(i), int(j)) for i, j in np.argwhere(line.probability[0] > threshold)} for line in lines]
                rate = alignment_results(links, gold, dataset=name, split="dev")[0].value
                own_rates.setdefault(f"{kind}, {threshold}", []).append(rate)
        for temperature in (0.003, 0.005, 0.01, 0.015, 0.02, 0.03):
            for threshold in (0.001, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5):
                links = awesome_links(gold, encoder, temperature, threshold)
                rate = alignment_results(links, gold, dataset=name, split="dev")[0].value
                rates.setdefault((temperature, threshold), []).append(rate)
    means = {f"temperature {key[0]}, threshold {key[1]}": round(float(np.mean(of)), 2) for key, of in rates.items()}
    means |= {label: round(float(np.mean(of)), 2) for label, of in own_rates.items()}
    best_first = dict(sorted(means.items(), key=lambda item: item[1]))
    print(json.dumps(best_first, indent=1))
    return best_first


def evidence_of(weights: Sequence, decisive: int, gold: Sequence[AlignedPair]) -> tuple[np.ndarray, np.ndarray]:
    """(L, F) evidence of all links that anything speaks for, and whether they are gold links."""
    features, is_right = [], []
    for row, pair in enumerate(gold):
        own = [(forward[None], backward[None]) for forward, backward in (of_pairs[row] for of_pairs in weights)]
        sizes = np.array([[len(pair.source), len(pair.target)]])
        strongest = np.max([matrix[0] for directions in own for matrix in directions], axis=0)
        places = np.argwhere(strongest > _LEAST)
        evidence = np.stack(link_evidence(own, decisive, sizes), axis=-1)[0]
        features.append(evidence[places[:, 0], places[:, 1]])
        is_right += [(int(i), int(j)) in pair.possible for i, j in places]
    return np.concatenate(features), np.array(is_right)


def sides_of(gold: Sequence[AlignedPair]) -> tuple[list[str], list[str]]:
    """Source and target lines."""
    return [" ".join(pair.source) for pair in gold], [" ".join(pair.target) for pair in gold]


if __name__ == "__main__":
    run_recipe(main)
