"""Sentence pairs that one already has: how the commands read them, and what they are warned of."""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import numpy as np

from hfxling.data.coverage import CoverageWarning, check_coverage
from hfxling.data.parallel import BLANK
from hfxling.data.readers import Request, csv_records, read_lines, read_rows, suffix_of, table_rows
from hfxling.data.sources import Source

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

logger = logging.getLogger(__name__)
COVERAGE_TEXTS = 2_000
MAX_FOREIGN = 0.2  # of one side
MAX_SHARE = 0.01  # of the other side for which one sentence is the best match
_LEAST_HUB = 10  # of a few sentences one per cent is chance


def read_request(data: str, languages: tuple[str, str], human: str | None = None) -> Request:
    """What to read from a file or two, with a column of human scores where there is one.

    Raises:
        FileNotFoundError: no such file.
        ValueError: lines or a language pair are picked, or columns of two files.
    """
    source = Source.parse(data)
    if source.lines or source.only_for:
        raise ValueError(f"{data}: files are read whole, one language pair at a time; leave @ and = out")
    paths = source.files(languages)
    if not paths:
        raise FileNotFoundError(f"{data} is not a file; give a TSV, CSV, JSONL or Parquet file, or FILE+FILE")
    if len(paths) == 2 and (human or source.columns):
        raise ValueError(f"{data}: two text files have no columns, of human scores or others; give one table")
    return Request(paths, *languages, source.fill(languages).columns, human, None, True)


def read_sides(request: Request, *, skip_bad: bool) -> Iterator[tuple[int, str, str, Any]]:
    """Yield (line, source, target, human score) of every line but a header; what is no text is an empty side.

    With `skip_bad` both sides of a line with the wrong number of columns are empty, too.

    Raises:
        ValueError: as `read_rows`; no line at all.
    """
    number = 0
    for number, *sides, human in _padded_rows(request) if skip_bad else read_rows(request):
        yield number, *(side.strip() if isinstance(side, str) and side.strip(BLANK) else "" for side in sides), human
    if not number:
        raise ValueError(f"{' and '.join(request.paths)}: no sentence pair in it; give at least one")


def _padded_rows(request: Request) -> Iterator[tuple]:
    """Rows of a TSV or CSV, empty where they have not as many columns as the first one; others as they are."""
    path = request.paths[0]
    if len(request.paths) == 2 or suffix_of(path) not in (".tsv", ".csv"):
        return read_rows(request)
    lines = ((number, text.split("\t")) for number, text in read_lines(path))
    records = csv_records(path) if suffix_of(path) == ".csv" else lines
    first = [*islice(records, 1)]
    same = ((number, cells if len(cells) == len(first[0][1]) else [""] * len(first[0][1])) for number, cells in records)
    return table_rows(path, chain(first, same), request)


def check_top(top: str | None) -> None:
    """Raise the ValueError for what `--top` cannot be."""
    if top is not None:
        top_count(top, 1)


def top_count(top: str, total: int) -> int:
    """How many of so many pairs `--top` keeps: 5000 is a count, 0.8 a share.

    Raises:
        ValueError: neither a count of 1 or more nor a share between 0 and 1.
    """
    if re.fullmatch(r"[0-9]{1,18}", top) and int(top):
        return int(top)
    if re.fullmatch(r"[0-9]*\.[0-9]+", top) and 0 < float(top) < 1:
        return round(float(top) * total)
    raise ValueError(
        f"top={top}: give a count of pairs, such as 5000, or a share of them between 0 and 1, such as 0.8."
    )


def warn_of_coverage(model: SentenceTransformer, pairs: Iterable[tuple[str, str]], languages: tuple[str, str]) -> None:
    """Say which of the two languages the encoder's vocabulary covers badly, and whether it cuts texts off."""
    from transformers import PreTrainedTokenizerBase

    if not isinstance(model.tokenizer, PreTrainedTokenizerBase):
        return
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", CoverageWarning)
        for texts, lang in zip(zip(*pairs), languages):
            check_coverage(model.tokenizer, texts, lang, model.max_seq_length)
    for warning in caught:
        logger.warning(warning.message)


def warn_of_languages(foreign: Sequence[int], totals: Sequence[int], languages: Sequence[str]) -> None:
    """Say where more than `MAX_FOREIGN` of a side's texts are in another language; counts of source and target."""
    for side, *counts, lang in zip(("source", "target"), foreign, totals, languages):
        if counts[0] > MAX_FOREIGN * counts[1]:
            share = f"{counts[0]} of {counts[1]} {side} texts ({100 * counts[0] / counts[1]:.0f} %)"
            logger.warning("%s are not in %r; check --%s_lang", share, lang, side)


def warn_of_hubs(best: Sequence[np.ndarray], texts: Sequence[Sequence[str]]) -> None:
    """Say which sentence is the best match of more than `MAX_SHARE` of the other side.

    Args:
        best: of every source text the row of its best target, and of every target text that of its best source.
        texts: of source and target.
    """
    sides = ("source", "target")
    for rows, side, other, found in zip(best, sides, sides[::-1], reversed(texts)):
        counts = np.bincount(rows, minlength=1)
        hubs = np.flatnonzero(counts > max(MAX_SHARE * len(rows), _LEAST_HUB))
        if len(hubs):
            first = hubs[counts[hubs].argmax()]
            told = f"{counts[first]} of {len(rows)} {side} texts have the same {other} text as best match"
            why = "boilerplate, or a model that cannot tell these texts apart"
            logger.warning("%s (%.60r); %d such in all: %s", told, found[first], len(hubs), why)
