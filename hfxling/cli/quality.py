"""Translation quality without references: a score for every pair of a file, and the faults that it cannot see.

hfxling quality --model DIR_OR_ID --data pairs.tsv --source_lang en --target_lang de [--output scores.tsv]

Writes one line for every pair, in the file's order: the cosine of the two embeddings, the flags of faults (copy,
wrong_language, truncated, too_long, repeated, empty; none for most) and, with --human, --calibrate or --calibration,
the cosine on the scale of human scores. The output has a header line where the input has one.
"""

from __future__ import annotations

import logging
import math
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path

import numpy as np
from tqdm import tqdm

from hfxling.arguments import parse_arguments
from hfxling.data.coverage import CoverageWarning, check_coverage
from hfxling.data.faults import FLAGS, FaultFinder
from hfxling.data.parallel import check_languages
from hfxling.data.readers import Request, csv_records, read_lines, read_rows, suffix_of, table_rows
from hfxling.data.sources import Source
from hfxling.evaluation.calibration import Calibration, fit_calibration
from hfxling.evaluation.results import format_table
from hfxling.files import atomic_path

from .model import ModelArguments

logger = logging.getLogger(__name__)
BLOCK = 2_048  # pairs embedded at a time
COVERAGE_TEXTS = 2_000
Pair = tuple[str, str, float | None]  # source, target ("" where there is none), human score


@dataclass(kw_only=True)
class QualityArguments(ModelArguments):
    """Pairs, their languages, and human scores."""

    data: str = field(
        metadata={"help": "FILE (TSV, CSV, JSONL, Parquet; #1,0 picks its columns) or FILE+FILE (line-aligned text)"}
    )
    source_lang: str = field(metadata={"help": "language code of the source side, e.g. en"})
    target_lang: str = field(metadata={"help": "language code of the translations, e.g. de"})
    output: str | None = field(default=None, metadata={"help": "file to write; by default DATA.scores.tsv"})
    human: str | None = field(
        default=None, metadata={"help": "column of human scores to calibrate with; may have gaps"}
    )
    calibrate: str | None = field(default=None, metadata={"help": "FILE with that column, if it is not in data"})
    calibration: str | None = field(
        default=None, metadata={"help": "calibration of an earlier run, in place of scores"}
    )
    skip_bad: bool = field(default=False, metadata={"help": "lines with a fault get an empty score and flag empty"})

    def __post_init__(self):
        check_languages(self.source_lang, self.target_lang)
        if self.calibrate and not self.human:
            raise ValueError("--calibrate FILE needs --human COLUMN: the column of human scores in that file")
        if self.calibration and self.human:
            raise ValueError("--calibration takes an earlier run's calibration; leave out --human and --calibrate")
        if self.batch_size < 1:
            raise ValueError(f"batch_size={self.batch_size}: give 1 or more")


def main(argv: list[str] | None = None) -> Path:
    (args,) = parse_arguments((QualityArguments,), argv, prog="hfxling quality", description=__doc__)
    calibration = Calibration.load(args.calibration) if args.calibration else None
    request = read_request(args, args.data, None if args.calibrate else args.human)
    output = Path(args.output or f"{request.paths[0]}.scores.tsv")
    lines = [0]  # the first pass checks the whole file before anything is embedded
    seen = tqdm(read_pairs(request, args.skip_bad), unit=" pairs checked", disable=None)
    finder = FaultFinder.fit(counted(seen, lines), args.source_lang, args.target_lang)
    scorer = Scorer(args)
    scorer.warn_of_coverage(pair for _, pair in islice(read_pairs(request, args.skip_bad), COVERAGE_TEXTS))
    if calibration and (used := calibration.settings) != scorer.settings:
        logger.warning("%s was fitted for %s, not %s: its scores may be off", args.calibration, used, scorer.settings)
    if args.calibrate:
        gold = read_pairs(read_request(args, args.calibrate, args.human), args.skip_bad)
        calibration = scorer.calibrate(scorer.judge(gold, finder))

    with atomic_path(output) as scratch:
        raw = scratch.with_name("raw.tsv")
        pairs = tqdm(read_pairs(request, args.skip_bad), total=lines[0], unit=" pairs", disable=None)
        counts, gold = write_raw(raw, scorer.judge(pairs, finder))
        if args.human and not args.calibrate:
            calibration = scorer.calibrate(gold)
        header = next(read_pairs(request, args.skip_bad))[0] > 1
        add_calibrated(raw, scratch, calibration, header)
    if args.human:
        calibration.save(output.with_suffix(".calibration.json"))
    print(summary(counts, lines[0], calibration))
    logger.info("scores: %s", output)
    if counts["wrong_language"] > lines[0] / 2:
        logger.warning("most targets are not in %r; check --source_lang and --target_lang", args.target_lang)
    return output


def read_request(args: QualityArguments, data: str, human: str | None) -> Request:
    """What to read from a file or two."""
    source, languages = Source.parse(data), (args.source_lang, args.target_lang)
    if source.lines or source.only_for:
        raise ValueError(f"{data}: files are scored whole, one language pair at a time; leave @ and = out")
    paths = source.files(languages)
    if not paths:
        raise FileNotFoundError(f"{data} is not a file; give a TSV, CSV, JSONL or Parquet file, or FILE+FILE")
    if len(paths) == 2 and (human or source.columns):
        raise ValueError(f"{data}: two text files have no columns, of human scores or others; give one table")
    return Request(paths, *languages, source.fill(languages).columns, human, None, True)


def read_pairs(request: Request, skip_bad: bool) -> Iterator[tuple[int, Pair]]:
    """Yield (line, pair) for every line but a header; with `skip_bad` the sides of a line with a fault are empty.

    Raises:
        ValueError: a line with a fault, with file, line and remedy.
    """
    number = 0
    for number, *sides, human in _padded_rows(request) if skip_bad else read_rows(request):
        place = f"{' and '.join(request.paths)}, {request.unit} {number}"
        sides = [side.strip() if isinstance(side, str) else "" for side in sides]
        if not all(sides) and not skip_bad:
            raise ValueError(
                f"{place}: the {'target' if sides[0] else 'source'} side is empty; fill it in or --skip_bad"
            )
        yield number, (*(sides if all(sides) else ("", "")), _human(human, place))
    if not number:
        raise ValueError(f"{' and '.join(request.paths)}: no sentence pair in it; give at least one")


def _padded_rows(request: Request) -> Iterator[tuple]:
    """Rows of a TSV or CSV, empty where they have not as many columns as the first one; others as they are."""
    path = request.paths[0]
    if len(request.paths) == 2 or suffix_of(path) not in (".tsv", ".csv"):
        return read_rows(request)
    is_csv = suffix_of(path) == ".csv"
    records = csv_records(path) if is_csv else ((number, text.split("\t")) for number, text in read_lines(path))
    first = next(records, None)
    if first is None:
        return iter(())
    width = len(first[1])
    same = ((number, cells if len(cells) == width else [""] * width) for number, cells in records)
    return table_rows(path, chain([first], same), request)


def _human(value: object, place: str) -> float | None:
    if value is None or not str(value).strip():
        return None
    try:
        score = float(value)
    except (TypeError, ValueError):
        score = math.nan
    if not math.isfinite(score):
        raise ValueError(f"{place}: human score {value!r} is not a number; correct it or leave it empty")
    return score


def counted(rows: Iterable[tuple[int, Pair]], lines: list[int]) -> Iterator[tuple[str, str]]:
    """The sound pairs of rows, which are counted."""
    for _, (source, target, _) in rows:
        lines[0] += 1
        if source:
            yield source, target


class Scorer:
    """An embedding model and the two languages."""

    def __init__(self, args: QualityArguments):
        self.languages = (args.source_lang, args.target_lang)
        self.settings = {"model": args.model, "source_lang": args.source_lang, "target_lang": args.target_lang}
        self.encoder = args.encoder()
        for lang in self.languages:
            self.encoder.route(lang)

    def judge(
        self, rows: Iterable[tuple[int, Pair]], finder: FaultFinder
    ) -> Iterator[tuple[float, tuple[str, ...], float | None]]:
        """Yield (cosine, flags, human score) of each row, block by block; a NaN and "empty" where a side is empty."""
        rows = iter(rows)
        while block := [pair for _, pair in islice(rows, BLOCK)]:
            scores = np.full(len(block), math.nan)
            sound = [i for i, (source, _, _) in enumerate(block) if source]
            if sound:
                sides = [self._embed([block[i][side] for i in sound], side) for side in (0, 1)]
                scores[sound] = np.einsum("nd,nd->n", *sides)
            for (source, target, human), score in zip(block, scores):
                yield float(score), finder.flags(source, target) if source else ("empty",), human

    def _embed(self, texts: list[str], side: int) -> np.ndarray:
        vectors = self.encoder.encode(texts, self.languages[side], progress=False)
        return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)

    def warn_of_coverage(self, pairs: Iterable[Pair]) -> None:
        """Say which of the two languages the encoder's vocabulary covers badly, and whether it cuts texts off."""
        from transformers import PreTrainedTokenizerBase

        model = self.encoder.model
        sides = list(zip(*((source, target) for source, target, _ in pairs if source)))
        if not isinstance(model.tokenizer, PreTrainedTokenizerBase):
            return
        for texts, lang in zip(sides, self.languages):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always", CoverageWarning)
                check_coverage(model.tokenizer, texts, lang, model.max_seq_length)
            for warning in caught:
                logger.warning(warning.message)

    def calibrate(self, judged: Iterable[tuple[float, tuple[str, ...], float | None]]) -> Calibration:
        """A map fitted on the pairs that have a human score and no flag."""
        pairs = [(score, human) for score, flags, human in judged if human is not None and not flags]
        return fit_calibration(*(zip(*pairs) if pairs else ([], [])), settings=self.settings)


def write_raw(path: Path, judged: Iterable[tuple]) -> tuple[Counter, list[tuple]]:
    """Write score and flags; count flags, and keep what has a human score."""
    counts, gold = Counter(), []
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for score, flags, human in judged:
            file.write(f"{'' if math.isnan(score) else format(score, '.6f')}\t{','.join(flags)}\n")
            counts.update(flags)
            if human is not None:
                gold.append((score, flags, human))
    return counts, gold


def add_calibrated(raw: Path, final: Path, calibration: Calibration | None, header: bool) -> None:
    """Copy line by line, with the calibrated score as a third column."""
    with raw.open(encoding="utf-8", newline="\n") as lines, final.open("w", encoding="utf-8", newline="\n") as file:
        if header:
            file.write("\t".join(["score", "flags"] + (["calibrated"] if calibration else [])) + "\n")
        for line in lines:
            score = line.partition("\t")[0]
            if calibration:
                calibrated = format(float(calibration(float(score))), ".4f") if score else ""
                line = f"{line[:-1]}\t{calibrated}\n"
            file.write(line)


def summary(counts: Counter, lines: int, calibration: Calibration | None) -> str:
    """Flags at a glance, and how far a calibrated score is off."""
    table = format_table(["flag", "pairs", "% of pairs"], [(f, counts[f], 100 * counts[f] / lines) for f in FLAGS])
    if calibration is None:
        return f"{lines} pairs\n{table}"
    rows = [(kind, error["mae"], error.get("pearson")) for kind, error in calibration.errors.items()]
    errors = format_table(["calibration", "mean absolute error", "Pearson"], rows)
    told = f"{calibration.kind} calibration on {calibration.pairs} pairs, errors by cross-validation"
    return f"{lines} pairs\n{table}\n\n{told}\n{errors}"
