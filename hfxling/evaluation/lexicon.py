"""Word translation: does a word's nearest neighbour among all target words stand in a dictionary?

Takes tables of static vectors and vocabularies, never a model. A dictionary word that is several segments of its
vocabulary has the mean of their vectors.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hfxling.data.readers import read_lines
from hfxling.data.segment import EOS, UNK, normalize
from hfxling.files import content_hash
from hfxling.mining.neighbours import TIE, exact_scores, nearest, ranking_vectors, reaching, score_blocks, unit

from .averages import mean_result
from .results import EvalResult
from .retrieval import hits_at

if TYPE_CHECKING:
    from hfxling.data.segment import Vocabulary

CSLS_K = 3  # neighbours, eq. 17
_BLOCK = 1_000  # rows and columns of a block of scores

Dictionary = Mapping[str, Collection[str]]


@dataclass(frozen=True)
class WordTable:
    """Words of one language with their static vectors, for translating from or into it.

    Attributes:
        words: normalised spelling (`hfxling.data.segment.normalize`) of each row.
        vectors: (N, D) of unit length.
        vocabulary_size: the first so many rows are the vocabulary's own words, the others are made of several.
    """

    words: list[str]
    vectors: np.ndarray
    vocabulary_size: int


@dataclass(frozen=True)
class LexiconScores:
    """How each dictionary word fared.

    Attributes:
        words: source words that could be asked for.
        ranks: (N,) place of the best-ranked right translation, from 1; ties count against it.
        total: source words in the dictionary.
        source_covered: those that have a vector.
        target_covered: those with a translation that has one.
        candidates: target words to choose from.
    """

    words: list[str]
    ranks: np.ndarray
    total: int
    source_covered: int
    target_covered: int
    candidates: int


def read_dictionary(path: str | Path, *, origin: str | None = None, swap: bool = False) -> dict[str, set[str]]:
    """Read word TAB translation [TAB origin] lines into source word -> translations, in normalised spelling.

    Args:
        path: TSV file, `.gz` too, without header.
        origin: keep only lines whose third column has this between its plus signs, e.g. "concept".
        swap: make the second column the source.

    Raises:
        FileNotFoundError: no such file.
        ValueError: fewer than two columns, an empty word, or no line left, with file and line.
    """
    if not Path(path).is_file():
        raise FileNotFoundError(f"{path}: no such dictionary; check the path.")
    dictionary: dict[str, set[str]] = {}
    for number, text in read_lines(str(path)):
        cells = text.split("\t")
        words = [normalize(cell) for cell in cells[:2]]
        if len(words) < 2 or not all(words) or (origin is not None and len(cells) < 3):
            need = "word TAB translation" + (" TAB origin" if origin is not None else "")
            raise ValueError(f"{path}, line {number}: {text[:40]!r} is not {need}; mend or remove the line.")
        if origin is None or origin in cells[2].split("+"):
            source, target = words[::-1] if swap else words
            dictionary.setdefault(source, set()).add(target)
    if not dictionary:
        asked = "" if origin is None else f" of origin {origin!r}"
        raise ValueError(f"{path}: no entry{asked} in it; check the file.")
    return dictionary


def split_dictionary(dictionary: Dictionary, test_share: float = 0.5, seed: int = 0) -> tuple[dict, dict]:
    """Two dictionaries, the second for testing, with all translations of a source word in the same one.

    The part a word falls into depends on the word and the seed only, not on the other entries.

    Raises:
        ValueError: a share outside 0..1.
    """
    if not 0 <= test_share <= 1:
        raise ValueError(f"test_share={test_share} is outside 0..1.")
    parts: tuple[dict, dict] = ({}, {})
    for word, translations in dictionary.items():
        digest = hashlib.sha256(f"{seed} {word}".encode()).digest()
        parts[int.from_bytes(digest[:8]) < test_share * 2**64][word] = translations
    return parts


def word_table(vocabulary: Vocabulary, vectors, extra: Iterable[str] = ()) -> WordTable:
    """The words of a vocabulary, and of `extra` those that are several of its segments, with unit vectors.

    Args:
        vocabulary: of V words.
        vectors: (V, D) static vectors, row = id.
        extra: further words in normalised spelling, e.g. a dictionary's; those with an unknown segment are left out.

    Raises:
        ValueError: another number of vectors than words; vectors without direction.
    """
    vectors = np.asarray(vectors, np.float32)
    if len(vectors) != len(vocabulary):
        raise ValueError(
            f"{len(vectors)} vectors for the {len(vocabulary)} words of {vocabulary.lang!r}; give one each."
        )
    own = vocabulary.words[EOS + 1 :]
    known = set(own)
    extra = [word for word in dict.fromkeys(extra) if word not in known]
    encoded = [(word, ids) for word, (ids, _) in zip(extra, vocabulary.encode_batch(extra)) if ids and UNK not in ids]
    composed = [unit(vectors[ids]).mean(0) for _, ids in encoded]
    rows = np.concatenate([vectors[EOS + 1 :], *(row[None] for row in composed)])
    return WordTable([*own, *(word for word, _ in encoded)], unit(rows), len(own))


def link_vectors(counts, static: Sequence | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Vectors whose cosines say how often words are linked, for `word_table`.

    A source word's are the square roots of its translations' shares, a target word's the unit vector of its own: dense,
    for vocabularies of thousands of words.

    Args:
        counts: (V, W) links between the words of two vocabularies, dense or sparse.
        static: (V, D) and (W, D) static vectors: the cosines of both kinds then add up.

    Returns:
        (V, W) and (W, W) float32, or (V, D + W) and (W, D + W).
    """
    counts = np.asarray(counts.todense() if hasattr(counts, "todense") else counts, np.float32)
    shares = counts / np.maximum(counts.sum(1, keepdims=True), 1e-9)
    links = np.sqrt(shares) + np.float32(1e-9), np.eye(counts.shape[1], dtype=np.float32)  # no links: like no other
    if static is None:
        return links
    static = [np.asarray(x, np.float32) for x in static]
    static = [x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-9) for x in static]  # padding's is zero
    return tuple(np.concatenate([x, y], axis=1) for x, y in zip(static, links))


def translate(
    queries, source: WordTable, target: WordTable, *, top: int = 5, csls_k: int = CSLS_K
) -> tuple[np.ndarray, np.ndarray]:
    """The best target words by CSLS, 2 cos(x, y) - r(x) - r(y), r the mean cosine to the k nearest on the other side.

    Neighbourhoods are those of the whole vocabularies, whatever is asked for.

    Args:
        queries: (Q, D) vectors.
        source: words of the queries' language.
        target: candidates.
        top: how many.
        csls_k: k.

    Returns:
        (Q, top) rows of the target table, best first, and their scores.

    Raises:
        ValueError: vectors without direction, `csls_k` beyond the vocabularies.
    """
    return nearest(queries, target.vectors, top, "csls", csls_k=csls_k, pools=_pools(source, target))


def score_lexicon(
    dictionary: Dictionary, source: WordTable, target: WordTable, *, csls_k: int = CSLS_K
) -> LexiconScores:
    """Rank the right translations of every dictionary word among all rows of the target table, by CSLS.

    A rank is one more than the number of other rows that score at least as much as the best right translation.

    Args:
        dictionary: source word -> translations, in normalised spelling.
        source: table with the words that may be asked for.
        target: table with the candidates.
        csls_k: neighbours for CSLS.

    Raises:
        ValueError: no word of the dictionary can be asked for.
    """
    row_of = {word: row for row, word in reversed([*enumerate(source.words)])}
    candidates: dict[str, list[int]] = {}
    for row, word in enumerate(target.words):
        candidates.setdefault(word, []).append(row)
    has_source = [word for word in dictionary if word in row_of]
    has_target = [word for word in dictionary if not candidates.keys().isdisjoint(dictionary[word])]
    asked = [word for word in has_target if word in row_of]
    if not asked:
        raise ValueError(
            f"none of the {len(dictionary)} dictionary words has a vector and a translation with one (vectors for "
            f"{len(has_source)} words, translations with one for {len(has_target)}); check spelling and segmenters."
        )
    gold = [sorted({row for t in dictionary[word] for row in candidates.get(t, ())}) for word in asked]
    queries, rows = source.vectors[[row_of[word] for word in asked]], target.vectors
    vectors = ranking_vectors(queries, rows, "csls", csls_k=csls_k, pools=_pools(source, target))
    ranks = _ranks_of_best(*vectors, gold)
    return LexiconScores(asked, ranks, len(dictionary), len(has_source), len(has_target), len(target.words))


def lexicon_results(
    scores: LexiconScores,
    dictionary: Dictionary,
    *,
    ks: Sequence[int] = (1, 5),
    settings: Mapping | None = None,
    **fields,
) -> list[EvalResult]:
    """P@k over the words that could be asked for, and the coverage both ways, as result rows in percent.

    A word counts as translated when any of its translations is among the first k candidates.

    Args:
        scores: from `score_lexicon`.
        dictionary: what they were scored on.
        ks: a row for each k.
        settings: joined to every row's settings.
        **fields: of `EvalResult`: dataset, split, direction, model, seed.
    """
    entries = sorted((word, *sorted(translations)) for word, translations in dictionary.items())
    fields = {"revision": content_hash("\t".join(entry) for entry in entries)} | fields
    about = {"candidates": scores.candidates, **(settings or {})}
    rows = []
    for k in ks:
        rows.append(mean_result(f"P@{k}", hits_at(scores.ranks, k), settings=about, **fields))
    covered = {"coverage": len(scores.words), "source coverage": scores.source_covered}
    for name, count in (covered | {"target coverage": scores.target_covered}).items():
        rows.append(EvalResult(name, 100 * count / scores.total, scores.total, settings=about, **fields))
    return rows


def _pools(source: WordTable, target: WordTable) -> tuple[np.ndarray, np.ndarray]:
    """Only the vocabularies' own words make neighbourhoods."""
    return tuple(table.vectors[: table.vocabulary_size] for table in (source, target))


def _ranks_of_best(queries: np.ndarray, targets: np.ndarray, gold: Sequence[Sequence[int]]) -> np.ndarray:
    """(Q,) rank of the best of each query's right target rows among all others; ties count against it."""
    query = np.repeat(np.arange(len(gold)), list(map(len, gold)))
    right = exact_scores(queries, targets, query, np.concatenate(gold))
    least = np.full(len(gold), -np.inf)
    np.maximum.at(least, query, right)
    least -= TIE["csls"]
    ranks = 1 - np.bincount(query[right >= least[query]], minlength=len(gold))
    for rows, columns, block in score_blocks(queries, targets, _BLOCK):
        ranks[rows] += reaching(block, least[rows, None], queries[rows], targets[columns]).sum(1)
    return ranks
