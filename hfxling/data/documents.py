"""Paragraphs out of consecutive parallel sentences, for document matching (paper, Table 12)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .codes import written_like
from .filters import count_words

UNSPACED = ("zh", "ja")  # no space between sentences; Thai and Lao put one there, though none between words

if TYPE_CHECKING:
    from datasets import Dataset


def join_paragraphs(dataset: Dataset, min_words: int = 30, max_words: int = 50) -> Dataset:
    """Join consecutive pairs until the target side has `min_words` words; the paper's paragraphs have 30 to 50.

    A sentence that would make a paragraph longer than `max_words` begins the next one. A paragraph whose length is
    outside the range is left out. The pairs must be in document order, with columns source, target, source_lang,
    target_lang.
    """
    from datasets import Dataset

    paragraphs: list[list[dict]] = [[]]
    words = 0
    for row in dataset:
        length = count_words(row["target"], row["target_lang"])
        if paragraphs[-1] and (words >= min_words or words + length > max_words):
            paragraphs.append([])
            words = 0
        paragraphs[-1].append(row)
        words += length
    rows = []
    for paragraph in paragraphs:
        first = paragraph[0]
        texts = {}
        for side in ("source", "target"):
            space = "" if written_like(first[f"{side}_lang"]) in UNSPACED else " "
            texts[side] = space.join(row[side] for row in paragraph)
        if min_words <= count_words(texts["target"], first["target_lang"]) <= max_words:
            rows.append({**first, **texts})
    if not rows:
        raise ValueError(f"{len(dataset)} pairs give no paragraph of {min_words} to {max_words} words; add more text.")
    return Dataset.from_list(rows)
