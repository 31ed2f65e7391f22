"""The nearest translations of sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hfxling.data.codes import base_code
from hfxling.data.pairs import is_source
from hfxling.data.sample import LANGUAGES, sample_texts
from hfxling.data.texts import as_list, check_texts, read_texts
from hfxling.encoders.loading import load_encoder
from hfxling.encoders.protocol import languages_of
from hfxling.progress import shown
from hfxling.verbs import Languages, Model, Result, Text, verb

from . import neighbours


@dataclass(frozen=True, repr=False)
class Nearest(Result):
    """What is nearest to each of N sentences, the best first.

    Attributes:
        sentences: that were looked up.
        texts: their k nearest candidates.
        rows: (N, k) positions of these, from 0, in the list of candidates or among the lines of the file.
        scores: (N, k) cosines, or inner products of sparse vectors.
    """

    sentences: list[str]
    texts: list[list[str]]
    rows: np.ndarray
    scores: np.ndarray

    def table(self) -> str:
        """A block a sentence: the sentence, then a line with score and text for each candidate."""
        lines = []
        for sentence, texts, scores in zip(self.sentences, self.texts, self.scores):
            lines += ["", sentence]
            for text, score in zip(texts, scores):
                lines.append(f"  {score:.3f}  {text}")
        return "\n".join(lines)


@verb
def nearest(
    sentences: Sequence[str],
    *,
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
    """The nearest translations of sentences.

    Example:
        >>> found = hfxling.nearest(["今天下雨。"], lexical="outputs/fit/model", candidates="text.vi")
        >>> print(found.table())

    Args:
        sentences: in the source language.
        candidates: what is searched: a text file, one sentence a line (`a.txt@1-1543` picks lines), TABLE#COLUMN, a Hub
            id, or a list; by default the test text of the sample corpus.
        model: folder or Hub id of any model that sentence-transformers loads, or a loaded one.
        lexical: folder or Hub id of a lexical model, or a loaded one: its score alone, or its score and the model's as
            one, for which the model needs a fusion.json that was made for it (hfxling fit --choose fused writes both).
        languages: codes of the sentences' and the candidates' language; by default the model's first two.
        top: translations shown for each sentence.
        revision: branch, tag or commit of the model on the Hub.
        lexical_revision: of the lexical model.
        prompt: put before every text; by default the model's own.
        batch_size: texts encoded at once.
        device: by default a GPU when there is one.
        trust_remote_code: run the code of the model's repository, as models on several layers need.
        progress: show bars.

    Returns:
        The `top` best candidates of every sentence, fewer where there are fewer candidates.

    Raises:
        ValueError: an empty sentence, no candidates, languages that the model does not know, `top` below 1, a model
            that gives no numbers.
        FileNotFoundError: no such model or file.
    """
    if isinstance(sentences, str):
        sentences = [sentences]
    if top < 1:
        raise ValueError(f"top={top}: give 1 or more.")
    if not sentences:
        raise ValueError("no sentence; give at least one.")
    if languages is not None:
        languages = languages_of(None, languages)
    check_texts(sentences, "sentence")
    for number, sentence in enumerate(sentences, 1):
        if not sentence.strip():
            raise ValueError(f"sentence {number} is empty; give text.")
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
    queries = encoder.encode(sentences, source, "query", progress=False)
    documents = encoder.encode(pool, target, "document", progress=shown())
    rows, scores = neighbours.nearest(queries, documents, top, encoder.method)
    texts = []
    for places in rows:
        texts.append([pool[place] for place in places])
    return Nearest(list(sentences), texts, np.asarray(places_of)[rows], scores)


def read_candidates(candidates: Text | None, language: str | None) -> tuple[list[str], list[int]]:
    """Sentences that are searched, and where each stands: those of a list or file, or the sample corpus' test text."""
    if candidates is None:
        language = None if language is None else base_code(language)
        if language not in LANGUAGES:
            known = ", ".join(LANGUAGES)
            raise ValueError(
                f"the sample corpus has no text for language {language}: give candidates, or give languages, "
                f"such as zh vi; the candidates' is one of {known}."
            )
        texts = sample_texts(language, "test")
        return texts, list(range(len(texts)))
    if is_source(candidates):
        text = read_texts(str(candidates))
        return text.texts, [line - 1 for line in text.lines]
    texts, places = [], []
    for place, candidate in enumerate(as_list(candidates)):
        if not isinstance(candidate, str):
            raise ValueError(f"candidates[{place}] is {candidate!r}; give text.")
        if candidate.strip():
            texts.append(candidate.strip())
            places.append(place)
    if not texts:
        raise ValueError("candidates: no sentence in it; give at least one.")
    return texts, places
