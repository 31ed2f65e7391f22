"""Sentence pairs that one already has, without the bad ones.

hfxling clean PAIRS --source_lang zh --target_lang vi --output kept.tsv
hfxling clean PAIRS ... --model DIR_OR_ID [--lexical DIR_OR_ID] --threshold 1.0      drop what scores less, too
hfxling clean PAIRS ... --lexical DIR_OR_ID --top 0.8 --mutual true                  keep the best 80 %

Without a model: empty sides, copies, repeated pairs, lengths, languages of both sides, faults of translations. With one
every pair left gets a score: how much better its two sides fit each other than others of the file (docs/mining.md).
Writes the pairs that are kept, and those that are not with their lines and all reasons, both at once.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from tqdm import tqdm

from hfxling.arguments import key, parse_arguments
from hfxling.data.faults import FLAGS, FaultFinder
from hfxling.data.filters import PairGate, check_top, top_count
from hfxling.data.langid import split_words
from hfxling.data.parallel import check_languages
from hfxling.data.warn import warn_of_languages
from hfxling.evaluation.results import format_table
from hfxling.files import atomic_path, check_apart

from .model import FusedArguments
from .pairs import read_request, read_sides

if TYPE_CHECKING:
    from .margins import PairScorer

logger = logging.getLogger(__name__)
LIMITS = {"too_short": "min_words", "too_long": "max_words"}  # the filter's names; the faults have a too_long of theirs
WRONG_SOURCE = "wrong_source_language"
OF_TEXT = ("identical", "duplicate", *LIMITS.values(), *FLAGS[1:], WRONG_SOURCE)
OF_SCORES = ("low_score", "low_links", "better_elsewhere")
REASONS = ("empty", *OF_TEXT, *OF_SCORES)
SUFFIXES = (".tsv", ".parquet")
_BREAKS = re.compile(r"[\t\r\n]+")


@dataclass(kw_only=True)
class CleanArguments(FusedArguments):
    """Pairs, and what is dropped of them."""

    pairs: str = key("FILE (TSV, CSV, JSONL, Parquet; #1,0 picks its columns) or FILE+FILE", positional=True)
    source_lang: str = key("language code of the source side, e.g. zh")
    target_lang: str = key("language code of the target side, e.g. vi")
    output: str = key(".tsv or .parquet file of the pairs that are kept", writes="file")
    dropped: str | None = key(
        "the same of the others; by default OUTPUT with .dropped before its suffix", None, writes="file"
    )
    keep: list[str] = key(f"reasons to drop nothing for: {', '.join(OF_TEXT)}", [])
    min_words: int = key("fewest words of the shorter side", 0)
    max_words: int | None = key("most words of the longer side", None)
    threshold: float | None = key("least score", None)
    top: str | None = key("so many of the scored pairs, the best: a share such as 0.8, or a count such as 5000", None)
    mutual: bool = key("drop pairs whose sides clearly belong to other rows", False)
    min_links: float | None = key("with --lexical, least link score", None)
    k: int = key("neighbours that a score is compared with", 4)
    margin: str | None = key("ratio, distance or absolute; by default ratio of cosines, distance with --lexical", None)
    candidates: int | None = key(
        "with --lexical: score only so many neighbours by static vectors (and by --model) of each text; 0: all; by "
        "default 32 from 4 billion pairs of texts on",
        None,
    )
    dtype: str = key("float32 or bfloat16, of dense products; the same scores", "float32")
    memory: str = key("that the search may use beside the vectors", "4GiB")
    cache_dir: str = key("where vectors are kept", "outputs/features", writes="folder")

    def __post_init__(self):
        check_languages(self.source_lang, self.target_lang)
        PairGate(self.min_words, self.max_words)
        if unknown := {*self.keep} - {*OF_TEXT}:
            raise ValueError(f"keep: {', '.join(sorted(unknown))} is not one of {', '.join(OF_TEXT)}.")
        self._check_scores()
        output = Path(self.output)
        self.dropped = self.dropped or str(output.with_name(f"{output.stem}.dropped{output.suffix}"))
        for name in ("output", "dropped"):
            path = Path(getattr(self, name))
            if path.suffix not in SUFFIXES or path.is_dir():
                raise ValueError(f"{name}={str(path)!r}: pairs are written as .tsv or .parquet; give such a file name.")

    def _check_scores(self) -> None:
        if not (self.model or self.lexical):
            for name in ("threshold", "top", "mutual", "min_links"):
                if getattr(self, name) not in (None, False):
                    raise ValueError(f"--{name} needs scores: give --model, --lexical or both.")
        for name in ("min_links", "candidates"):
            if getattr(self, name) is not None and not self.lexical:
                raise ValueError(f"--{name} needs --lexical, whose scores it is about.")
        if self.threshold is not None and self.top is not None:
            raise ValueError("--threshold and --top: give one of them.")
        check_top(self.top)
        for name in ("threshold", "min_links"):
            if (value := getattr(self, name)) is not None and not np.isfinite(value):
                raise ValueError(f"{name}={value}: give a finite number.")
        if self.k < 1 or self.batch_size < 1:
            raise ValueError(f"k={self.k}, batch_size={self.batch_size}: give 1 or more.")
        if self.candidates is not None and self.candidates < 0:
            raise ValueError(f"candidates={self.candidates}: give 0 or more.")


@dataclass
class Rows:
    """All N pairs of a file, and what is found of them."""

    lines: tuple[int, ...]
    source: tuple[str, ...]
    target: tuple[str, ...]
    reasons: list[list[str]] = field(init=False)  # to drop each of them
    scores: dict[str, np.ndarray] = field(default_factory=dict)  # by column (N,); NaN for pairs that were not scored

    def __post_init__(self):
        self.reasons = [[] for _ in self.lines]

    def kept(self) -> np.ndarray:
        """Places of the pairs that nothing speaks against so far."""
        return np.flatnonzero([not reasons for reasons in self.reasons])


def main(argv: list[str] | None = None) -> Path:
    (args,) = parse_arguments((CleanArguments,), argv, prog="hfxling clean", description=__doc__)
    rows, scorer = read(args), None
    if args.model or args.lexical:
        from .margins import PairScorer

        scorer = PairScorer(args)
    judge_texts(args, rows)
    if scorer and len(rows.kept()):
        judge_scores(args, rows, scorer)
    write(args, rows)
    print(summary(args, rows))
    logger.info("kept: %s, dropped: %s", args.output, args.dropped)
    if not len(rows.kept()):
        logger.warning("no pair is kept; see the reasons")
    return Path(args.output)


def read(args: CleanArguments) -> Rows:
    """All pairs.

    Raises:
        ValueError: none, an output that is read, and as `read_sides`.
    """
    request = read_request(args.pairs, (args.source_lang, args.target_lang))
    check_apart({"output": args.output, "dropped": args.dropped}, request.paths)
    pairs = tqdm(read_sides(request, skip_bad=True), unit=" pairs read", disable=None)
    return Rows(*list(zip(*pairs))[:3])


def judge_texts(args: CleanArguments, rows: Rows) -> None:
    """Reasons that the texts themselves give."""
    languages, counts = (args.source_lang, args.target_lang), [0, 0]
    pairs = list(zip(rows.source, rows.target))
    finder = FaultFinder.fit((pair for pair in pairs if all(pair)), *languages)
    swapped = FaultFinder.fit((pair[::-1] for pair in pairs if all(pair)), *languages[::-1])
    # A file that is wholly in another language teaches that language: such a one is told by what holds for any text.
    unlearnt = FaultFinder(*languages[::-1]), FaultFinder(*languages)
    gate = PairGate(args.min_words, args.max_words, "duplicate" not in args.keep, "identical" not in args.keep)
    whole = 0
    for pair, reasons in zip(tqdm(pairs, unit=" pairs judged", disable=None), rows.reasons):
        if not all(map(split_words, pair)):
            reasons.append("empty")
            continue
        whole += 1
        filtered = gate.reason(*pair, *languages)
        found = [LIMITS.get(filtered, filtered)] if filtered else []
        found += finder.flags(*pair)
        if swapped.is_foreign(pair[0]):
            found.append(WRONG_SOURCE)
        for side, name in enumerate((WRONG_SOURCE, "wrong_language")):
            counts[side] += name in found or unlearnt[side].is_foreign(pair[side])
        reasons.extend(reason for reason in REASONS if reason in found and reason not in args.keep)
    warn_of_languages(counts, [whole, whole], languages)


def judge_scores(args: CleanArguments, rows: Rows, scorer: PairScorer) -> None:
    """Scores of the pairs that are left, and the reasons that these give."""
    places = rows.kept()
    found = scorer(*([side[place] for place in places] for side in (rows.source, rows.target)))
    for name, values in (("score", found.score), ("links", found.links)):
        if values is not None:
            rows.scores[name] = np.full(len(rows.lines), np.nan)
            rows.scores[name][places] = values
    low = np.zeros(len(places), bool)
    if args.threshold is not None:
        low = ~(found.score >= args.threshold)
    elif args.top is not None:
        low[np.argsort(-found.score, kind="stable")[top_count(args.top, len(places)) :]] = True
    few = ~(found.links >= args.min_links) if args.min_links is not None else np.zeros_like(low)
    moved = found.elsewhere if args.mutual else np.zeros_like(low)
    for place, *is_bad in zip(places, low, few, moved):
        rows.reasons[place].extend(reason for reason, bad in zip(OF_SCORES, is_bad) if bad)
    if not (low.any() or args.threshold is not None or args.top is not None):
        logger.info("no --threshold and no --top: no pair is dropped for a low score; the files have the scores")


def write(args: CleanArguments, rows: Rows) -> None:
    """Both files, or on an error neither."""
    places = rows.kept()
    others = np.flatnonzero([bool(reasons) for reasons in rows.reasons])
    texts, scores = {"source": rows.source, "target": rows.target}, rows.scores
    told = {"line": rows.lines, "reasons": [",".join(reasons) for reasons in rows.reasons]}
    with ExitStack() as both:
        kept, dropped = (both.enter_context(atomic_path(path)) for path in (args.output, args.dropped))
        changed = write_table(kept, texts | scores, places, header=rows.lines[0] > 1)
        changed += write_table(dropped, told | scores | texts, others, header=True)
    if changed:
        logger.warning("%d texts with tabs or line breaks are written with spaces; a .parquet keeps them", changed)


def write_table(path: Path, columns: dict[str, Sequence], places: np.ndarray, *, header: bool) -> int:
    """Some rows of columns, as TSV or Parquet by the suffix; the number of texts that a TSV cannot hold as they are."""
    if path.suffix == ".parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        kinds = {"line": pa.int64()} | dict.fromkeys(("score", "links"), pa.float64())
        arrays = {
            name: pa.array([values[place] for place in places], kinds.get(name, pa.string()), from_pandas=True)
            for name, values in columns.items()
        }
        pq.write_table(pa.table(arrays), path)
        return 0
    changed = 0
    with path.open("w", encoding="utf-8", newline="\n") as file:
        if header:
            file.write("\t".join(columns) + "\n")
        for place in places:
            cells = [_cell(values[place]) for values in columns.values()]
            plain = [_BREAKS.sub(" ", cell) for cell in cells]
            changed += sum(one != other for one, other in zip(cells, plain))
            file.write("\t".join(plain) + "\n")
    return changed


def _cell(value: object) -> str:
    if isinstance(value, float):
        return "" if np.isnan(value) else f"{value:.6f}"
    return str(value)


def summary(args: CleanArguments, rows: Rows) -> str:
    """Pairs by reason, and how scores lie."""
    total, dropped = len(rows.lines), sum(map(bool, rows.reasons))
    counts = Counter(reason for reasons in rows.reasons for reason in reasons)
    alone = Counter(reasons[0] for reasons in rows.reasons if len(reasons) == 1)
    lines = [(reason, counts[reason], 100 * counts[reason] / total, alone[reason]) for reason in REASONS]
    lines = [line for line in lines if line[1]]
    lines += [("dropped", dropped, 100 * dropped / total, None)]
    lines += [("kept", total - dropped, 100 * (total - dropped) / total, None)]
    told = [f"{total} pairs", format_table(["reason", "pairs", "% of pairs", "alone"], lines)]
    for name, values in rows.scores.items():
        if len(known := values[~np.isnan(values)]):
            shares = [5, 10, 25, 50, 75, 90, 95]
            table = format_table([name, *(f"{share} %" for share in shares)], [["", *np.percentile(known, shares)]])
            told.append(f"{name}: that of so many per cent of the {len(known)} scored pairs is lower\n{table}")
    return "\n".join(told)
