"""Sentences of documents aligned with a published encoder, with links, and with both, beside vecalign and Gale-Church.

python benchmarks/documents_encoder.py --data ../shared/data --model me5-small [--pairs zh-vi lo-zh]

The documents of documents.py: NTREX lines 1544 to 1997, on each side one sentence in five joined with the next, split
or dropped. Ways:

- links: sparse vectors of links of lines 1 to 1543.
- encoder: its vectors, by cosine. Beside it, on the same vectors, "vecalign", the paper's algorithm of vecalign.py, and
  "sentweave", the authors' code as the package sentweave 0.3.3 has it, with four sentences of both sides together, as
  with vecalign.py; its penalty quantile is the better one of its default (0.2) and 0.05, chosen on the test documents.
- fused: both scores as `hfxling fit` adds them, at equal weight, each at the deviation that it has between training
  lines, the encoder behind the head of `hfxling bootstrap`.
- gale-church: sentence lengths alone, by the package galechurch 0.1.0, with the lengths' ratio of lines 1 to 1543 the
  way round that finds beads (its documentation has the inverse) and its own variance, which does better than one of
  these lines. It is so quick that it is measured anew by every run.

Strict F1: a bead counts where both sides are exactly right. Lax F1: where both sides meet the same true bead. Sentences
without a translation are in no bead. Seconds are CPU seconds given the vectors. Every pair is kept when it is done: a
run that was stopped goes on with the others, and vectors are kept by text.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when numpy and torch are imported
os.environ.setdefault("HF_HUB_OFFLINE", "1")  # nothing is downloaded

import numpy as np
import torch
from documents import PAIRS, Part, over, spoil, strict, text_of, true_beads
from documents import f1 as f1_of
from encoders import encoder_folder, weights_note
from harness import clock, earlier_file, machine, parser, report
from ntrex import LINES, read_text
from stored_vectors import StoredVectors
from transformers.utils import logging
from vecalign import vecalign

from hfxling.console import run as run_recipe
from hfxling.data.corpus import Corpus
from hfxling.data.readers import read_lines
from hfxling.encoders.fusion import ROLES, Fusion, _csls, pool_rows, spread, stored
from hfxling.encoders.loading import load_encoder
from hfxling.methods.lexical import LinkSettings, fit
from hfxling.methods.lexical.data import link_views
from hfxling.methods.siamese.choice import fit_form
from hfxling.sentences import beads as engine
from hfxling.sentences.align_documents import DocumentText
from hfxling.sentences.grow import HEAD

TITLE = "Sentences of documents aligned, a fifth of them joined, split or missing on each side: F1 in %"
GOALS = {"f1_over_vecalign_least": ">= 1.0"}
QUANTILES = (0.05, 0.2)  # of sentweave's deletion penalty
TOGETHER = 4  # most sentences of a bead of vecalign, both sides together

Beads = list[tuple[Sequence[int], Sequence[int]]]  # of a document, by its own sentence numbers
Sides = tuple[engine.Encode, engine.Encode]


def main(argv: list[str] | None = None) -> dict:
    options = parser(__doc__, "documents_encoder")
    options.add_argument("--data", type=Path, default=Path("../shared/data"), help="folder with ntrex/")
    options.add_argument("--model", default="me5-small", help="encoder: me5-small, or a folder or Hub id")
    options.add_argument("--pairs", nargs="+", default=PAIRS, help="language pairs of NTREX")
    options.add_argument("--every", type=int, default=1, help="use only every N-th document (default 1: all)")
    options.add_argument("--max_joined", type=int, default=engine.MAX_JOINED, help="most sentences of a side in a bead")
    options.add_argument(
        "--dtype", default="bfloat16", help="number format of the encoder's matrix products (default bfloat16)"
    )
    options.add_argument(
        "--cache_dir", default="outputs/features", help="folder in which the encoder's vectors are cached"
    )
    args = options.parse_args(argv)
    torch.set_num_threads(1)
    logging.set_verbosity_error()
    path = Path(args.results_dir, "documents_encoder.json")
    settings = {name: getattr(args, name) for name in ("model", "every", "max_joined", "dtype")}
    settings |= {"weights": weights_note(args.model), "test_lines": "1544-1997", "seed": 0} | machine()
    found = earlier_file(path, settings).get("of_documents", {})
    vectors = StoredVectors(load_encoder(encoder_folder(args.model)), args.cache_dir, args.dtype)
    figures: dict = {}
    for pair in args.pairs:
        if pair not in found:
            found[pair] = measure(pair, vectors, args)
        found[pair] |= measured(pair, by_lengths, args)
        figures = summary(found)
        shown = settings | {"pairs": [*found]}
        report("documents_encoder", figures, shown, title=TITLE, path=path, goals=GOALS, of_documents=found)
    return figures


def summary(found: dict) -> dict:
    """F1 and seconds by pair and way, and how ours on the encoder's vectors stands to the others on the same."""
    figures: dict = {}
    for pair, ways in found.items():
        figures[pair] = {}
        for way, one in ways.items():
            counts = np.array(one["counts"])
            figures[pair][way] = round(100 * float(f1_of(counts[:, :3].sum(0))), 2)
            figures[pair][f"{way}, lax"] = round(100 * lax_f1(counts.sum(0)), 2)
            figures[pair][f"{way}, seconds"] = one["seconds"]
    for rival in ("vecalign", "sentweave"):
        ratios, tables = {}, ([], [])
        for pair, ways in found.items():
            theirs = best(ways, rival)
            ours = np.array(ways["encoder"]["counts"])[:, :3]
            ratios[pair], interval = over([ours], [theirs])
            figures[pair] |= {f"f1_over_{rival}": ratios[pair], f"f1_over_{rival}_interval": interval}
            tables[0].append(ours)
            tables[1].append(theirs)
        ratio, interval = over(*tables)
        figures |= {f"f1_over_{rival}": ratio, f"f1_over_{rival}_interval": interval}
        figures[f"f1_over_{rival}_least"] = min(ratios.values())
    return figures


def best(ways: dict, rival: str) -> np.ndarray:
    """Counts of a rival's better setting."""
    tables = [np.array(one["counts"])[:, :3] for way, one in ways.items() if way.startswith(f"encoder, {rival}")]
    return max(tables, key=lambda table: f1_of(table.sum(0)))


def lax_f1(sums: np.ndarray) -> float:
    """Of sums as `counted` gives them."""
    _, true, given, lax_given, lax_true = sums
    precision, recall = lax_given / max(given, 1), lax_true / max(true, 1)
    return float(2 * precision * recall / max(precision + recall, 1e-9))


def counted(gold: Beads, found: Beads) -> list[int]:
    """Beads strictly right, true, given; given ones that meet a true one on both sides; true ones that are met."""
    gold, found = ([bead for bead in side if len(bead[0]) and len(bead[1])] for side in (gold, found))
    return [*strict(gold, found), len(met(found, gold)), len(met(gold, found))]


def met(beads: Beads, others: Beads) -> Beads:
    """The beads that share sentences of both sides with one of the others."""
    shared = []
    for bead in beads:
        if any({*bead[0]} & {*other[0]} and {*bead[1]} & {*other[1]} for other in others):
            shared.append(bead)
    return shared


# A language pair -----------------------------------------------------------------------------


def measure(name: str, vectors: StoredVectors, args) -> dict:
    """Counts of each document and CPU seconds of all ways with vectors."""

    def ways(texts: list[DocumentText], documents: list, train: list[list[str]], pair) -> dict[str, Callable]:
        settings = LinkSettings()
        links = fit(link_views(Corpus.in_memory({pair: train}), settings), settings, static=False)
        sides = sides_of(texts, pair, train, links, vectors, args.max_joined)
        found: dict[str, Callable] = {}
        for way, method in (("links", "dot"), ("encoder", "cosine"), ("fused", "dot")):
            options = {"method": method, "max_joined": args.max_joined}
            found[way] = lambda s=sides[way], o=options: [*engine.align_documents(*s, documents, **o)]
        found["encoder, vecalign"] = lambda: [vecalign(*sides["encoder"], *both) for both in documents]
        for quantile in QUANTILES:
            found[f"encoder, sentweave {quantile}"] = lambda q=quantile: [
                sentweave(sides["encoder"], both, q) for both in documents
            ]
        return found

    return measured(name, ways, args)


def by_lengths(texts: list[DocumentText], documents: list, train: list[list[str]], _) -> dict[str, Callable]:
    """The way that looks at lengths alone."""
    ratio = length_ratio(*train)
    return {"gale-church": lambda: [gale_church(texts, both, ratio) for both in documents]}


def measured(name: str, ways: Callable, args) -> dict:
    """Counts of each document and CPU seconds of the ways that are made of both texts."""
    pair = tuple(name.split("-"))
    lines = read_text(args.data / "ntrex", name)
    spoilt, gold = (each[:: args.every] for each in spoilt_documents(args.data, lines, pair))
    texts = [text_of([document[side] for document in spoilt], lang) for side, lang in enumerate(pair)]
    documents = [*zip(*(text.documents for text in texts))]
    train = [lines[lang][:LINES] for lang in pair]
    found = {}
    for way, run in ways(texts, documents, train, pair).items():
        start = clock()
        beads = run()
        seconds = (clock() - start)[0]
        counts = []
        for of_document, at, true in zip(beads, documents, gold):
            own = [[[i - d[0] for i in part] for part, d in zip(bead, at)] for bead in of_document]
            counts.append(counted(true, own))
        found[way] = {"counts": counts, "seconds": round(float(seconds), 2)}
        value = f1_of(np.array(counts)[:, :3].sum(0))
        print(f"{name} {way}: strict F1 {100 * value:.2f}, {seconds:.2f} s", flush=True)
    return found


def spoilt_documents(data: Path, lines: dict[str, list[str]], pair: tuple[str, str]) -> tuple[list, list[Beads]]:
    """Both sides' sentences of each document, and its true beads, drawn as documents.py draws them."""
    names = [name for _, name in read_lines(str(data / "ntrex" / "DOCUMENT_IDS.tsv"))]
    rng = np.random.default_rng(0)
    spoilt: list[list[list[Part]]] = []
    gold = []
    for _, group in groupby(range(LINES, len(names)), key=names.__getitem__):
        rows = [*group]
        spoilt.append([spoil([lines[lang][i] for i in rows], lang, rng) for lang in pair])
        gold.append(true_beads(spoilt[-1], len(rows)))
    return spoilt, gold


def sides_of(
    texts: Sequence[DocumentText],
    pair: tuple[str, str],
    train: list[list[str]],
    links,
    vectors: StoredVectors,
    most: int,
) -> dict[str, Sides]:
    """Both sides' vectors of joined sentences by way, computed before the clock starts."""
    of_train = [vectors.of(side) for side in train]
    maps = fit_form("discriminant", HEAD, *(side.astype(np.float64) for side in of_train))
    rows = pool_rows(len(train[0]))
    pools = {}
    for side, lang in enumerate(pair):
        texts_of_pool = [train[side][row] for row in rows]
        for role in ROLES:
            head = maps[side](of_train[side][rows]).astype(np.float32)
            pools[lang, role] = head, links.encode(texts_of_pool, lang, role)
    fusion = equal_weights(pools, pair)
    found: dict[str, list] = {"links": [], "encoder": [], "fused": []}
    for side, (text, lang, role) in enumerate(zip(texts, pair, ROLES)):
        spans = [(i, j) for d in text.documents for i in d for j in range(i + 1, min(i + most, d.stop) + 1)]
        joined = [text.joined(range(*span)) for span in spans]
        dense, sparse = vectors.of(joined), links.encode(joined, lang, role)
        both = fusion.vectors(maps[side](dense).astype(np.float32), sparse, lang, role)
        place = {span: i for i, span in enumerate(spans)}
        for way, table in (("links", sparse), ("encoder", dense), ("fused", both)):
            found[way].append(lambda asked, t=table, p=place: t[[p[span] for span in asked]])
    return {way: tuple(both) for way, both in found.items()}


def equal_weights(pools, pair: tuple[str, str]) -> Fusion:
    """Both scores at the deviation that they have between training lines that do not translate each other."""
    ready = Fusion(0.5, (1.0, 1.0), stored(pools), "", pair, 0)
    queries, documents = ready.pools[pair[0], "query"], ready.pools[pair[1], "document"]
    deviations = []
    for kind in (0, 1):
        scores = _csls(queries[kind], documents[kind], documents[kind], queries[kind])
        deviations.append(spread(scores[~np.eye(len(scores), dtype=bool)]))
    return replace(ready, deviations=tuple(deviations))


# Others -----------------------------------------------------------------------------


class Served:
    """An encoder as sentweave asks it, of vectors that there are: for one sentence, for two, and so on.

    Texts are joined by sentweave with a space, also where Chinese has none; what is served is of texts joined as ours.
    """

    def __init__(self, encode: engine.Encode, document: range):
        self.vectors, self.document, self.asked = encode, document, 0

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """(N, D) vectors of texts that are joined of one sentence more than those asked for before."""
        self.asked += 1
        rows = self.document
        blank = self.asked - 1  # texts before the first that is complete
        width = self.vectors([(rows[0], rows[0] + 1)]).shape[1]
        found = np.ones((len(texts), width), np.float32)
        if self.asked < TOGETHER and blank < len(rows):  # no bead has as many sentences of one side as of both
            spans = [(i - blank, i + 1) for i in rows[blank:]]
            found[blank:] = self.vectors(spans)
        return found


def sentweave(sides: Sides, documents: tuple[range, range], quantile: float) -> Beads:
    """Beads of a document by the package."""
    from sentweave import align

    served = [Served(encode, document) for encode, document in zip(sides, documents)]
    order = iter([*served[:1] * TOGETHER, *served[1:] * TOGETHER])
    names = [[str(i) for i in document] for document in documents]
    result = align(
        *names, lambda texts: next(order).encode(texts), alignment_max_size=TOGETHER, del_percentile_frac=quantile
    )
    beads = []
    for bead in result.alignments:
        parts = zip((bead.src_indices, bead.tgt_indices), documents)
        beads.append(tuple([document[i] for i in part] for part, document in parts))
    return beads


def length_ratio(source: list[str], target: list[str]) -> float:
    """Characters of the source for one of the target, of known pairs."""
    lengths = [sum(len(text.replace(" ", "")) for text in side) for side in (source, target)]
    return lengths[0] / lengths[1]


def gale_church(texts: Sequence[DocumentText], documents: tuple[range, range], ratio: float) -> Beads:
    """Beads of a document by the package."""
    from galechurch import align

    sentences = [[text.sentences[i] for i in document] for text, document in zip(texts, documents)]
    beads = []
    for bead in align(*sentences, mean_xy=ratio).beads:
        source = documents[0][bead.source_start : bead.source_end]
        beads.append((source, documents[1][bead.target_start : bead.target_end]))
    return beads


if __name__ == "__main__":
    run_recipe(main)
