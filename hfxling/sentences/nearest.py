"""Find the nearest translations of sentences."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hfxling.data.codes import base_code
from hfxling.data.pairs import read_heap
from hfxling.data.sample import LANGUAGES, sample_texts
from hfxling.data.texts import as_list, check_texts, read_texts
from hfxling.data.warn import warn_of_blanks
from hfxling.encoders.loading import load_encoder
from hfxling.encoders.protocol import languages_of
from hfxling.progress import shown
from hfxling.values import check_counts
from hfxling.verbs import Languages, Model, Result, Text, verb

from . import neighbours

logger = logging.getLogger(__name__)
if TYPE_CHECKING:
    Sentences = str | Path | Sequence[str]
else:
    Sentences = Sequence[str]  # a command line gives sentences


@dataclass(frozen=True, repr=False)
class Nearest(Result):
    """The nearest candidates of each of N sentences, best first.

    Attributes:
        sentences: the sentences that were looked up.
        texts: their k nearest candidates; none for a sentence without a vector (static embeddings have none if they
            know no word of it).
        rows: (N, k) positions of these, from 0, in the list of candidates or among the lines of the file; -1 for none.
        scores: (N, k) cosines, or inner products of sparse vectors; NaN for none.
    """

    sentences: list[str]
    texts: list[list[str]]
    rows: np.ndarray
    scores: np.ndarray

    def table(self) -> str:
        """For each sentence the sentence itself, then a line with score and text for each candidate."""
        lines = []
        for sentence, texts, scores in zip(self.sentences, self.texts, self.scores):
            lines += ["", sentence]
            for text, score in zip(texts, scores):
                lines.append(f"  {score:.3f}  {text}")
        return "\n".join(lines)


@verb
def nearest(
    sentences: Sentences = (),
    *,
    queries: str | Path | None = None,
    candidates: Text | None = None,
    model: Model | None = None,
    lexical: Model | None = None,
    languages: Languages | None = None,
    top: int = 3,
    revision: str | None = None,
    lexical_revision: str | None = None,
    prompt: str | None = None,
    batch_size: int = 32,
    device: str | None = None,
    trust_remote_code: bool = False,
    progress: bool = True,
) -> Nearest:
    """Find the nearest translations of sentences.

    Example:
        >>> found = hfxling.nearest(["今天下雨。"], lexical="outputs/fit/model", candidates="text.vi")
        >>> print(found.table())
        >>> found = hfxling.nearest(queries="text.zh", lexical="outputs/fit/model", candidates="text.vi")

    Args:
        sentences: sentences in the source language to look up: a list, or a single one. A string is always a sentence;
            if it names a file, a warning tells so. A `Path` is a file of sentences, as for `queries`.
        queries: source of the sentences to look up, in place of `sentences`: a text file, one sentence a line
            (`a.txt@1-1543` picks lines), TABLE#COLUMN or a Hub id.
        candidates: sentences that are searched: a text file, one sentence a line (`a.txt@1-1543` picks lines),
            TABLE#COLUMN, a Hub id, or a list; by default the test text of the sample corpus.
        model: folder or Hub id of any model that sentence-transformers loads, or a loaded one.
        lexical: folder or Hub id of a lexical model, or a loaded one. By itself its score is used alone. With a model
            the two scores are fused into one; the model then needs a fusion.json that was made for this lexical model
            (hfxling fit --choose fused writes both).
        languages: language codes of the sentences and of the candidates; by default the model's first two.
        top: number of translations shown for each sentence.
        revision: branch, tag or commit of the model on the Hub.
        lexical_revision: branch, tag or commit of the lexical model on the Hub.
        prompt: text put before every sentence; by default the model's own prompt.
        batch_size: number of texts encoded at once.
        device: device for the computation, such as cpu or cuda; by default a GPU if there is one.
        trust_remote_code: allow the code in the model's repository to run, which models on several layers need.
        progress: show progress bars.

    Returns:
        The `top` best candidates of every sentence, or all if there are fewer. A text of which static embeddings know
        no word matches nothing; a warning counts such texts.

    Raises:
        ValueError: an empty sentence, both sentences and queries, no candidates, languages that the model does not
            know, `top` below 1, or a model that gives no numbers.
        FileNotFoundError: a model or file that does not exist.
    """
    check_counts(1, top=top)
    if languages is not None:
        languages = languages_of(None, languages)
    looked_up = read_queries(sentences, queries)
    encoder = load_encoder(
        model,
        lexical,
        revision=revision,
        lexical_revision=lexical_revision,
        prompt=prompt,
        batch_size=batch_size,
        device=device,
        trust_remote_code=trust_remote_code,
    )
    source, target = languages_of(encoder, languages)
    pool, places_of = read_candidates(candidates, target)
    queries = encoder.encode(looked_up, source, "query", progress=False)
    documents = encoder.encode(pool, target, "document", progress=shown())
    is_blank = [np.zeros(len(looked_up), bool), np.zeros(len(pool), bool)]
    if encoder.method == "cosine":
        is_blank = [neighbours.blank_rows(queries), neighbours.blank_rows(documents)]
        warn_of_blanks(is_blank[0], looked_up)
        warn_of_blanks(is_blank[1], pool)
    if is_blank[1].all():
        raise ValueError(f"candidates: {encoder.label} knows no word of any of them; give others, or another model.")
    places, scores = _found(queries, documents, is_blank, top, encoder.method)
    texts = []
    for row in places:
        texts.append([pool[place] for place in row if place >= 0])
    lines = np.where(places < 0, -1, np.asarray(places_of)[places])
    return Nearest(looked_up, texts, lines, scores)


def _found(
    queries: neighbours.Vectors, documents: neighbours.Vectors, is_blank: Sequence[np.ndarray], top: int, method: str
) -> tuple[np.ndarray, np.ndarray]:
    """(Q, k) places of the best candidates and their scores; -1 and NaN for a query without a vector."""
    asked, known = np.flatnonzero(~is_blank[0]), np.flatnonzero(~is_blank[1])
    places = np.full((len(is_blank[0]), min(top, len(known))), -1)
    scores = np.full(places.shape, np.nan)
    if len(known) < len(is_blank[1]):
        documents = documents[known]
    if len(asked):
        from .blocks import nearest as search  # loads torch

        rows, scores[asked] = search(queries[asked], documents, top, method)
        places[asked] = known[rows]
    return places, scores


def read_queries(sentences: Sentences, queries: str | Path | None = None) -> list[str]:
    """The sentences to look up: those given, or those of a file."""
    if isinstance(sentences, str):
        sentences = [sentences]
    if not isinstance(queries, str | Path | None):
        raise ValueError(f"queries={queries!r}: give a file; sentences in memory are the first argument.")
    if isinstance(sentences, Path):
        if queries is not None:
            raise ValueError(f"sentences={str(sentences)!r} and queries={str(queries)!r}: give one of them.")
        queries, sentences = sentences, ()
    sentences = as_list(sentences)
    if queries is not None:
        if sentences:
            raise ValueError(f"sentences and queries={str(queries)!r}: give one of them.")
        sentences = read_texts(str(queries)).texts
    if not sentences:
        raise ValueError("no sentence; give at least one, or a file of them as queries.")
    _check_sentences(sentences)
    if queries is None and len(sentences) == 1 and os.path.isfile(sentences[0]):
        logger.warning(
            "%r names a file, but is looked up as a sentence; to look up the lines of the file, give it as queries",
            sentences[0],
        )
    return sentences


def _check_sentences(sentences: Sequence) -> None:
    """Refuse values that are not text, and empty sentences."""
    check_texts(sentences, "sentence")
    for number, sentence in enumerate(sentences, 1):
        if not sentence.strip():
            raise ValueError(f"sentence {number} is empty; give text.")


def read_candidates(candidates: Text | None, language: str | None) -> tuple[list[str], list[int]]:
    """Sentences to search, with their positions: those of a list or file, or the sample corpus' test text."""
    if candidates is None:
        language = None if language is None else base_code(language)
        if language not in LANGUAGES:
            known = ", ".join(LANGUAGES)
            raise ValueError(
                f"the sample corpus has no text for language {language}: give candidates, or give languages, "
                f"such as zh vi; the second one has to be one of {known}."
            )
        texts = sample_texts(language, "test")
        return texts, list(range(len(texts)))
    text = read_heap(candidates, "candidates")
    return text.texts, [line - 1 for line in text.lines]
