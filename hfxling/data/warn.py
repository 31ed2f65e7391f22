"""What users of sentence pairs are warned of: languages badly covered, texts in other languages, boilerplate."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from .coverage import coverage_problems, measure_coverage
from .texts import distinct_rows

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

logger = logging.getLogger(__name__)
COVERAGE_TEXTS = 2_000  # pairs that show whether a vocabulary covers a language
MAX_FOREIGN = 0.2  # of one side
MAX_SHARE = 0.01  # of the other side for which one sentence is the best match
_LEAST_HUB = 10  # of a few sentences one per cent is chance
_BEGINNING = 2_000  # letters of a text that show its language
_SAMPLE = 2_000  # sentences of a side whose language is looked at


def warn_of_coverage(model: SentenceTransformer, pairs: Iterable[tuple[str, str]], languages: tuple[str, str]) -> None:
    """Say which of the two languages the encoder's vocabulary covers badly, and whether it cuts texts off."""
    from transformers import PreTrainedTokenizerBase

    tokenizer = getattr(model, "tokenizer", None)
    if not isinstance(tokenizer, PreTrainedTokenizerBase):
        return
    for texts, language in zip(zip(*pairs), languages):
        coverage = measure_coverage(tokenizer, texts, model.max_seq_length)
        for problem in coverage_problems(tokenizer, coverage, language, model.max_seq_length):
            logger.warning(problem)


def warn_of_foreign(sides: Sequence[Sequence[str]], languages: tuple[str, str]) -> list[float]:
    """Say where much of a side looks like another language, by what holds for any text; the shares that do."""
    from .faults import FaultFinder

    counts, totals = [], []
    for texts, pair in zip(sides, (languages[::-1], languages)):  # a finder looks for what is not its second language
        some = texts[:: max(1, len(texts) // _SAMPLE)]
        finder = FaultFinder(*pair)
        counts.append(sum(finder.is_foreign(text[:_BEGINNING]) for text in some))
        totals.append(len(some))
    warn_of_languages(counts, totals, languages)
    return [count / total for count, total in zip(counts, totals)]


def warn_of_languages(foreign: Sequence[int], totals: Sequence[int], languages: Sequence[str]) -> None:
    """Say where more than `MAX_FOREIGN` of a side's texts are in another language; counts of source and target."""
    for side, count, total, language in zip(("source", "target"), foreign, totals, languages):
        if count > MAX_FOREIGN * total:
            share = f"{count} of {total} {side} texts ({100 * count / total:.0f} %)"
            logger.warning("%s are not in %r; check the languages", share, language)


def distinct_tests(source: Sequence[str], target: Sequence[str]) -> np.ndarray:
    """The rows of test pairs that no row before has; others, which could only tie with those, are warned of."""
    rows = distinct_rows(source, target)
    repeated = len(source) - len(rows)
    if repeated:
        logger.warning("%d of %d test pairs are there before, and are left out", repeated, len(source))
    return rows


def warn_of_blanks(is_blank: np.ndarray, texts: Sequence[str]) -> None:
    """Say how many of N texts have no vector, and the first of them."""
    rows = np.flatnonzero(is_blank)
    if len(rows):
        count = f"{len(rows)} of {len(is_blank)} texts have no vector, as the model knows no word of them"
        logger.warning("%s: they match nothing; the first is %.60r", count, str(texts[rows[0]]))


def warn_of_hubs(best: Sequence[np.ndarray], texts: Sequence[Sequence[str]]) -> None:
    """Say which sentence is the best match of more than `MAX_SHARE` of the other side.

    Args:
        best: of every source text the row of its best target, and of every target text that of its best source.
        texts: of source and target.
    """
    sides = ("source", "target")
    for rows, side, other, candidates in zip(best, sides, sides[::-1], texts[::-1]):
        counts = np.bincount(rows, minlength=1)
        hubs = np.flatnonzero(counts > max(MAX_SHARE * len(rows), _LEAST_HUB))
        if len(hubs):
            largest = hubs[counts[hubs].argmax()]
            share = f"{counts[largest]} of {len(rows)} {side} texts have the same {other} text as best match"
            why = "boilerplate, or a model that cannot tell these texts apart"
            logger.warning("%s (%.60r); %d such in all: %s", share, candidates[largest], len(hubs), why)
