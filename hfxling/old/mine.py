"""Sentence pairs that translate each other, out of two heaps of text.

hfxling mine A.zh B.vi --source_lang zh --target_lang vi --model DIR_OR_ID [--lexical DIR_OR_ID] --output pairs.parquet
hfxling mine A.zh B.vi ... --precision 0.95 --known known.tsv      choose the threshold for a wanted precision
hfxling mine A.zh B.vi ... --plan                                  what it will take, measured here for 30 seconds
hfxling mine A.zh B.vi ... --source_vectors A.npy --target_vectors B.npy
hfxling mine A.zh B.vi ... --engine ray                            on a cluster
hfxling mine A.zh B.vi ... --rounds 5 --seed_pairs seed.tsv        the same as hfxling bootstrap

Writes score, both texts, their line numbers and the flags of faults, best first, as TSV or Parquet. Text is FILE (.gz
or not), TABLE#COLUMN or a Hub id. A run that was stopped goes on where it was; its work is in OUTPUT.hfxling-parts.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np
from tqdm.auto import tqdm

from hfxling.arguments import key, parse_arguments
from hfxling.data.faults import FLAGS, FaultFinder
from hfxling.data.filters import count_words
from hfxling.data.parallel import check_languages
from hfxling.data.sources import load_pairs
from hfxling.data.texts import Texts, read_texts
from hfxling.evaluation.results import format_table
from hfxling.files import content_hash
from hfxling.sentences.engine import MARGINS, SELECTIONS, Mined, by_length, check_choices, select
from hfxling.sentences.neighbours import Neighbours, bytes_of
from hfxling.sentences.precision import Precision, check_wanted, choose_threshold, found_pairs, halves
from hfxling.sentences.shards import PARTS, clear, one_by_one, search

from . import bootstrap
from .mined import DEDUP, Row, check_dropping, flagged, plain, without, write
from .mining_vectors import Haystack, MiningArguments, plan
from .pairs import check_top, top_count, warn_of_hubs, warn_of_languages

logger = logging.getLogger(__name__)
ENGINES = ("local", "ray")
_SAMPLE = 2_000  # sentences of a side whose language is looked at


@dataclass(kw_only=True)
class MineArguments(MiningArguments):
    """What is mined, and what is kept of it."""

    output: str = key(".tsv or .parquet file of the pairs", writes="file")
    k: int = key("neighbours that a score is compared with", 4)
    margin: str | None = key(
        f"{', '.join(MARGINS)}; by default ratio for cosines, distance for the scores of a lexical encoder", None
    )
    selection: str = key(f"{', '.join(SELECTIONS)} (docs/mining.md)", "mutual")
    threshold: float | None = key("least score of a pair", None)
    top: str | None = key("so many pairs, the best: a count such as 5000, or a share such as 0.8", None)
    precision: float | None = key("share of right pairs that is wanted; needs --known", None)
    known: list[str] = key("known pairs, as the recipes' text (FILE.tsv, FILE+FILE, ...), at least 100", [])
    unpaired: float | None = key(
        "with --precision, assumed share of sources that have no translation there; by default estimated", None
    )
    dedup: str | None = key(f"{', '.join(DEDUP)}: keep the best pair of each normalised text", None)
    filters: list[str] = key(f"drop pairs with these flags ({', '.join(FLAGS)}; all)", [])
    terms: int | None = key(
        "with --lexical: look for 32 candidates by so many of a sentence's weights, those that add most, score them by "
        "all; 320 are much quicker and lose next to nothing",
        None,
    )
    engine: str = key(
        "local, or ray: a cluster (RAY_ADDRESS, or this machine's processors), with the same result (docs/mining.md)",
        ENGINES[0],
    )
    rounds: int | None = key(
        "learn links from --seed_pairs, mine, learn from what was mined, and again: what hfxling bootstrap does", None
    )
    plan: bool = key("say what disk, memory and hours it takes, and stop", False)

    def __post_init__(self):
        super().__post_init__()
        check_languages(self.source_lang, self.target_lang)
        check_choices(self.margin or MARGINS[0], self.selection)
        bytes_of(self.memory)
        if Path(self.output).suffix not in (".tsv", ".parquet"):
            raise ValueError(f"output={self.output!r}: pairs are written as .tsv or .parquet; give such a name.")
        if sum(x is not None for x in (self.threshold, self.top, self.precision)) > 1:
            raise ValueError("--threshold, --top and --precision: give one of them at most.")
        if bool(self.precision) != bool(self.known):
            raise ValueError("--precision needs --known PAIRS, and --known is of use for --precision alone.")
        if self.precision is not None:
            check_wanted(self.precision, self.unpaired, 100)
        check_top(self.top)
        if self.k < 1:
            raise ValueError(f"k={self.k}: give 1 or more.")
        check_dropping(self.dedup, self.filters)
        if self.terms is not None and (self.terms < 1 or not self.lexical or self.candidates):
            raise ValueError(f"terms={self.terms}: give 1 or more, with --lexical and without --candidates.")
        if self.rounds is not None:
            raise ValueError(f"rounds={self.rounds} in a file: give --rounds in the command, or run hfxling bootstrap.")
        if self.engine not in ENGINES:
            raise ValueError(f"engine={self.engine!r} is not one of {', '.join(ENGINES)}.")
        if self.engine == "ray" and find_spec("ray") is None:
            raise ValueError("--engine ray needs the package ray: pip install 'hfxling[ray]'.")


class Known(NamedTuple):
    """Known pairs in the haystack."""

    source: list[str]
    target: list[str]
    kept: np.ndarray  # (K,) whether the target is there, too
    chooses: np.ndarray  # (K,) whether the pair chooses the threshold


def main(argv: list[str] | None = None) -> Path | None:
    if any(word.partition("=")[0] == "--rounds" for word in argv or []):
        return bootstrap.main(argv)
    (args,) = parse_arguments((MineArguments,), argv, prog="hfxling mine", description=__doc__)
    known = read_known(args) if args.known else None
    sides = [read_texts(side) for side in (args.source, args.target)]
    haystack = hidden(args, sides, known)
    check_sides(sides, (args.source_lang, args.target_lang))
    if args.plan:
        print(plan(args, haystack))
        return None
    output = Path(args.output)
    parts = output.with_name(f"{output.name}{PARTS}")
    mined = mine_sides(args, haystack, parts)
    wanted, mined = keep(args, mined, known, [len(side.texts) for side in haystack.sides])
    options = {"filters": args.filters, "dedup": args.dedup}
    options |= {"top": top_count(args.top, len(mined.score)) if args.top else None}
    rows = flagged(mined, haystack.sides, (args.source_lang, args.target_lang), **options)
    write(output, rows)
    clear(parts)
    print(summary(rows, wanted, haystack.sides))
    logger.info("pairs: %s", output)
    return output


def check_sides(sides: list[Texts], languages: tuple[str, str]) -> None:
    """Warn where much of a side looks like another language, by what holds for any text."""
    counts, totals = [], []
    for side, pair in zip(sides, (languages[::-1], languages)):
        some = side.texts[:: max(1, len(side.texts) // _SAMPLE)]
        finder = FaultFinder(*pair)
        counts.append(sum(map(finder.is_foreign, some)))
        totals.append(len(some))
    warn_of_languages(counts, totals, languages)


def read_known(args: MineArguments) -> Known:
    """Known pairs, each source once."""
    rows = load_pairs(args.known, (args.source_lang, args.target_lang))
    pairs = dict(zip(map(plain, rows["source"]), zip(rows["source"], rows["target"])))
    check_wanted(args.precision, args.unpaired, len(pairs))
    return Known(*map(list, zip(*pairs.values())), *halves(len(pairs)))


def hidden(args: MineArguments, sides: list[Texts], known: Known | None) -> Haystack:
    """Both sides without texts of known pairs, and these at the ends, but for the targets that are taken out."""
    remote = None
    if args.engine == "ray" and not args.plan:
        from hfxling.sentences.ray import Encoder as remote
    if known is None:
        return Haystack(args, sides, remote=remote, terms=args.terms)
    if args.source_vectors:
        raise ValueError("--precision hides known pairs in the text, whose vectors a model makes: give --model.")
    added = (known.source, [text for text, is_kept in zip(known.target, known.kept) if is_kept])
    found = []
    for side, own, new in zip(sides, (known.source, known.target), added):
        rest = without(side, own)
        if len(rest.texts) < len(side.texts):
            logger.info("%s: %d lines are of known pairs and left out", side.name, len(side.texts) - len(rest.texts))
        found.append(Texts(side.name, rest.lines + [0] * len(new), rest.texts + new))
    return Haystack(args, found, remote=remote, terms=args.terms)


def mine_sides(args: MineArguments, haystack: Haystack, folder: Path) -> Mined:
    """Pairs by margin, before anything is dropped."""
    args.margin = args.margin or haystack.margin
    smaller = min(len(side.texts) for side in haystack.sides)
    if args.k > smaller:
        raise ValueError(f"k={args.k} neighbours, but one side has {smaller} sentences; give --k {smaller} or less.")
    vectors = haystack.vectors()
    about = {"texts": [content_hash(side.texts) for side in haystack.sides]} | haystack.about
    options = {"memory": args.memory, "device": args.device, "dtype": args.dtype}
    found = searched(args, folder, about, *vectors, haystack.kept(args.k), options)
    forward, backward = haystack.rescored(found, args.k, partial(searched, args, folder / "model", about))
    best = [select(forward, backward, args.margin, way) for way in ("forward", "backward")]
    rows = [best[0].target[np.argsort(best[0].source)], best[1].source[np.argsort(best[1].target)]]
    warn_of_hubs(rows, [side.texts for side in haystack.sides])
    pairs = select(forward, backward, args.margin, args.selection)
    if args.lexical and args.margin != "ratio":
        sides = zip(haystack.sides, (args.source_lang, args.target_lang))
        pairs = by_length(pairs, *(np.array([count_words(text, lang) for text in side.texts]) for side, lang in sides))
    return pairs


def searched(
    args: MineArguments, folder: Path, about: dict, source: list, target: list, k: int, options: dict
) -> tuple[Neighbours, Neighbours]:
    """Both sides' neighbours, tile by tile, where the engine says."""
    run: Callable = one_by_one
    if args.engine == "ray":
        from hfxling.sentences.ray import tiles as run
    total = source[0].shape[0] * target[0].shape[0]
    with tqdm(total=total, unit=" pairs", unit_scale=True, desc="search", disable=None) as bar:
        return search(source, target, k, folder, about, shard=args.shard, done=bar.update, run=run, **options)


def keep(args: MineArguments, mined: Mined, known: Known | None, counts: list[int]) -> tuple[Precision | None, Mined]:
    """The pairs that the threshold or --top leaves, known ones taken out; and what the threshold is worth."""
    wanted, threshold = None, args.threshold
    if known:
        sizes = (counts[0] - len(known.source), counts[1] - int(known.kept.sum()))
        mined, found = found_pairs(mined, known.kept, sizes)
        options = {"unpaired": args.unpaired, "chooses": known.chooses}
        wanted = choose_threshold(found, precision=args.precision, **options)
        threshold = wanted.threshold
    if threshold is not None:
        mined = Mined(*(part[mined.score >= threshold] for part in mined))
    return wanted, mined


def summary(rows: list[Row], wanted: Precision | None, sides: list[Texts]) -> str:
    """How many pairs there are, what is wrong with some, and how good they are thought to be."""
    told = [f"{len(rows)} pairs of {len(sides[0].texts)} and {len(sides[1].texts)} sentences"]
    counts = [(flag, sum(flag in row[-1].split(",") for row in rows)) for flag in FLAGS]
    if any(count for _, count in counts):
        told.append(format_table(["flag", "pairs"], [row for row in counts if row[1]]))
    if wanted:
        told.append(
            f"threshold {wanted.threshold:.4f}: estimated precision {100 * wanted.precision:.1f} % "
            f"({100 * wanted.low:.1f} to {100 * wanted.high:.1f}), recall {100 * wanted.recall:.1f} %, on "
            f"{wanted.known} known pairs that did not choose it; {100 * wanted.unpaired:.0f} % of the sources are "
            "taken to have no translation there (--unpaired)"
        )
    return "\n".join(told)
