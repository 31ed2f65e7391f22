"""Warnings about sentence pairs: badly covered languages, texts in other languages, repeated pairs, boilerplate."""

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
COVERAGE_TEXTS = 2_000  # number of pairs on which it is checked whether a vocabulary covers a language
MAX_FOREIGN = 0.2  # share of a side
MAX_SHARE = 0.01  # share of the other side for which one sentence may be the best match
_LEAST_HUB = 10  # with few sentences, one per cent is chance
_BEGINNING = 2_000  # letters of a text from which its language is judged
_SAMPLE = 2_000  # number of sentences of a side whose language is judged


def warn_of_coverage(model: SentenceTransformer, pairs: Iterable[tuple[str, str]], languages: tuple[str, str]) -> None:
    """Warn if the encoder's vocabulary covers one of the two languages badly, or if it cuts texts off."""
    from transformers import PreTrainedTokenizerBase

    tokenizer = getattr(model, "tokenizer", None)
    if not isinstance(tokenizer, PreTrainedTokenizerBase):
        return
    for texts, language in zip(zip(*pairs), languages):
        coverage = measure_coverage(tokenizer, texts, model.max_seq_length)
        for problem in coverage_problems(tokenizer, coverage, language, model.max_seq_length):
            logger.warning(problem)


def warn_of_foreign(sides: Sequence[Sequence[str]], languages: tuple[str, str]) -> list[float]:
    """Warn if much of a side looks like another language, judged by scripts and py3langid; returns these shares."""
    from .faults import FaultFinder

    counts, totals = [], []
    for texts, pair in zip(sides, (languages[::-1], languages)):  # a finder looks for text not in its second language
        some = texts[:: max(1, len(texts) // _SAMPLE)]
        finder = FaultFinder(*pair)
        counts.append(sum(finder.is_foreign(text[:_BEGINNING]) for text in some))
        totals.append(len(some))
    warn_of_languages(counts, totals, languages)
    return [count / total for count, total in zip(counts, totals)]


def warn_of_languages(foreign: Sequence[int], totals: Sequence[int], languages: Sequence[str]) -> None:
    """Warn if more than `MAX_FOREIGN` of a side's texts are in another language; counts are of source and target."""
    for side, count, total, language in zip(("source", "target"), foreign, totals, languages):
        if count > MAX_FOREIGN * total:
            share = f"{count} of {total} {side} texts ({100 * count / total:.0f} %)"
            logger.warning("%s are not in %r; check the languages", share, language)


def distinct_tests(source: Sequence[str], target: Sequence[str]) -> np.ndarray:
    """The rows of test pairs that do not repeat an earlier row; warns of the others, which could only tie with it."""
    rows = distinct_rows(source, target)
    repeated = len(source) - len(rows)
    if repeated:
        logger.warning("%d of %d test pairs repeat an earlier one and are left out", repeated, len(source))
    return rows


def warn_of_blanks(is_blank: np.ndarray, texts: Sequence[str]) -> None:
    """Warn how many of N texts have no vector, and name the first of them."""
    rows = np.flatnonzero(is_blank)
    if len(rows):
        count = f"{len(rows)} of {len(is_blank)} texts have no vector, as the model knows no word of them"
        logger.warning("%s: they match nothing; the first is %.60r", count, str(texts[rows[0]]))


def warn_of_hubs(best: Sequence[np.ndarray], texts: Sequence[Sequence[str]]) -> None:
    """Warn if one sentence is the best match of more than `MAX_SHARE` of the other side.

    Args:
        best: for every source text the row of its best target, and for every target text that of its best source.
        texts: texts of source and target.
    """
    sides = ("source", "target")
    for rows, side, other, candidates in zip(best, sides, sides[::-1], texts[::-1]):
        counts = np.bincount(rows, minlength=1)
        hubs = np.flatnonzero(counts > max(MAX_SHARE * len(rows), _LEAST_HUB))
        if len(hubs):
            largest = hubs[counts[hubs].argmax()]
            share = f"{counts[largest]} of {len(rows)} {side} texts have the same {other} text as their best match"
            why = "it may be boilerplate, or the model cannot tell these texts apart"
            logger.warning("%s (%.60r); %d such in all: %s", share, candidates[largest], len(hubs), why)
