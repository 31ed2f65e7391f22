"""Word translation: does the dictionary list a word's nearest neighbour among all target words as a translation?

The functions take tables of static vectors and vocabularies, never a model. There are two protocols. "vocabulary" asks
for words of the training vocabularies and chooses among these, as Wada et al.'s scripts do; the paper's figures are
comparable with it. "composed" also asks for dictionary words that consist of several segments of their vocabulary
(their vector is the mean), and has such translations among the candidates: more words, and harder ones.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hfxling.data.readers import read_lines
from hfxling.data.segment import EOS, UNK, normalize
from hfxling.files import content_hash
from hfxling.sentences.neighbours import (
    TIE,
    exact_scores,
    ranking_vectors,
    reaching,
    score_blocks,
    unit,
    unit_or_zero,
)

from .averages import mean_result
from .results import EvalResult
from .retrieval import hits_at

if TYPE_CHECKING:
    from hfxling.data.segment import Vocabulary

CSLS_K = 3  # neighbours, eq. 17
PROTOCOLS = ("vocabulary", "composed")
_BLOCK = 1_000  # rows and columns of a block of scores

Dictionary = Mapping[str, Collection[str]]


@dataclass(frozen=True)
class WordTable:
    """Words of one language with their static vectors, for translating from or into it."""

    words: list[str]  # normalised spelling (`hfxling.data.segment.normalize`) of each row
    vectors: np.ndarray  # (N, D) of unit length
    vocabulary_size: int  # number of the first rows that are the vocabulary's own words; later ones are composed

    @property
    def row_of(self) -> dict[str, int]:
        """The first row of each word."""
        rows: dict[str, int] = {}
        for row, word in enumerate(self.words):
            rows.setdefault(word, row)
        return rows


@dataclass(frozen=True)
class LexiconScores:
    """How each dictionary word fared."""

    words: list[str]  # source words that could be asked for
    ranks: np.ndarray  # (N,) rank of the best right translation, from 1; ties count against it
    source_covered: int  # dictionary words that have a vector
    target_covered: int  # dictionary words with a translation that has a vector
    candidates: int  # target words to choose from


def read_dictionary(path: str | Path) -> dict[str, set[str]]:
    """Read a file without header, plain or packed, with lines of word TAB translation, in normalised spelling.

    Further columns are ignored.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: for fewer than two columns, an empty word (the message names file and line), or no line at all.
    """
    if not Path(path).is_file():
        raise FileNotFoundError(f"{path}: no such dictionary; check the path.")
    dictionary: dict[str, set[str]] = {}
    for number, text in read_lines(str(path)):
        words = [normalize(cell) for cell in text.split("\t")[:2]]
        if len(words) < 2 or not all(words):
            raise ValueError(
                f"{path}, line {number}: {text[:40]!r} is not word TAB translation; correct or remove the line."
            )
        source, target = words
        dictionary.setdefault(source, set()).add(target)
    if not dictionary:
        raise ValueError(f"{path} has no entries; check the file.")
    return dictionary


def word_table(vocabulary: Vocabulary, vectors, extra: Iterable[str] = ()) -> WordTable:
    """The words of a vocabulary with unit vectors, made from its (V, D) static ones, row = id.

    Words of `extra` (in normalised spelling, e.g. a dictionary's) that consist of several of its segments are added;
    those with an unknown segment are left out.
    """
    vectors = np.asarray(vectors, np.float32)
    if len(vectors) != len(vocabulary):
        words = f"{len(vocabulary)} words of {vocabulary.lang!r}"
        raise ValueError(f"{len(vectors)} vectors for the {words}; give one per word.")
    vocabulary_words = vocabulary.words[EOS + 1 :]
    known = set(vocabulary_words)
    extra = [word for word in dict.fromkeys(extra) if word not in known]
    words, rows = list(vocabulary_words), [vectors[EOS + 1 :]]
    for word, (ids, _) in zip(extra, vocabulary.encode_batch(extra)):
        if ids and UNK not in ids:
            words.append(word)
            rows.append(unit(vectors[ids]).mean(0, keepdims=True))
    return WordTable(words, unit(np.concatenate(rows)), len(vocabulary_words))


def protocol_results(
    dictionary: Dictionary,
    vocabularies: Sequence[Vocabulary],
    vectors: Sequence,
    *,
    settings: Mapping | None = None,
    **fields,
) -> list[EvalResult]:
    """`lexicon_results` for each protocol, named in the rows' settings; a dictionary of phrases skips the first one.

    The dictionary is in normalised spelling; `vectors` are the (V, D) and (W, D) static vectors of the source and
    target vocabulary. `settings` are added to every row's, `fields` are those of `EvalResult`.
    """
    protocols = PROTOCOLS
    known_source = set(vocabularies[0].words[EOS + 1 :])
    known_target = set(vocabularies[1].words[EOS + 1 :])
    if all(known_target.isdisjoint(dictionary[word]) for word in known_source & dictionary.keys()):
        protocols = [protocol for protocol in PROTOCOLS if protocol != "vocabulary"]
    sides = [*dictionary], sorted(set().union(*dictionary.values()))
    rows = []
    for protocol in protocols:
        extra = sides if protocol == "composed" else ((), ())
        tables = [word_table(*of_side) for of_side in zip(vocabularies, vectors, extra)]
        row_settings = {"method": "csls", "protocol": protocol, **(settings or {})}
        rows += lexicon_results(score_lexicon(dictionary, *tables), dictionary, settings=row_settings, **fields)
    return rows


def link_vectors(counts, static: Sequence | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Vectors whose cosines say how often words are linked, for `word_table`.

    The vector of a source word has the square roots of its translations' shares; that of a target word is a unit vector
    of its own dimension. They are dense, for vocabularies of thousands of words.

    Args:
        counts: (V, W) numbers of links between the words of two vocabularies, dense or sparse.
        static: (V, D) and (W, D) static vectors; the cosines of both kinds are then added.

    Returns:
        (V, W) and (W, W) float32, or (V, D + W) and (W, D + W).
    """
    counts = np.asarray(counts.todense() if hasattr(counts, "todense") else counts, np.float32)
    shares = counts / np.maximum(counts.sum(1, keepdims=True), 1e-9)
    # A vector needs a direction: a word without links gets one that is equally near to all target words.
    links = np.sqrt(shares) + np.float32(1e-9), np.eye(counts.shape[1], dtype=np.float32)
    if static is None:
        return links
    joined = []
    for vectors, of_links in zip(static, links):
        vectors = unit_or_zero(np.asarray(vectors, np.float32))  # the padding's vector is zero
        joined.append(np.concatenate([vectors, of_links], axis=1))
    return joined[0], joined[1]


def _csls_k(source: WordTable, target: WordTable) -> int:
    """Number of neighbours for CSLS: all words if a vocabulary has fewer."""
    return min(CSLS_K, *map(len, _pools(source, target)))


def translate(queries, source: WordTable, target: WordTable, *, top: int) -> tuple[np.ndarray, np.ndarray]:
    """(Q, top) rows of the target table, best first by CSLS, and their scores, for (Q, D) vectors of source words.

    CSLS is that of `hfxling.sentences.blocks.nearest`, with neighbours from the whole vocabularies.
    """
    from hfxling.sentences.blocks import nearest  # loads torch

    return nearest(queries, target.vectors, top, "csls", csls_k=_csls_k(source, target), pools=_pools(source, target))


def score_lexicon(dictionary: Dictionary, source: WordTable, target: WordTable) -> LexiconScores:
    """Rank the right translations of every dictionary word among all rows of the target table, by CSLS.

    A rank is one more than the number of other rows that score at least as much as the best right translation. The
    dictionary's words are in normalised spelling.
    """
    row_of = source.row_of
    candidates: dict[str, list[int]] = {}
    for row, word in enumerate(target.words):
        candidates.setdefault(word, []).append(row)
    with_vector = [word for word in dictionary if word in row_of]
    translated = {word for word in dictionary if not candidates.keys().isdisjoint(dictionary[word])}
    asked = [word for word in with_vector if word in translated]
    if not asked:
        raise ValueError(
            f"none of the {len(dictionary)} dictionary words has both a vector and a translation with a vector "
            f"({len(with_vector)} have a vector, {len(translated)} such a translation); check spelling and segmenters."
        )
    gold = []  # rows of the right translations
    for word in asked:
        rows_of_word: set[int] = set()
        for translation in dictionary[word]:
            rows_of_word.update(candidates.get(translation, ()))
        gold.append(sorted(rows_of_word))
    queries, rows = source.vectors[[row_of[word] for word in asked]], target.vectors
    vectors = ranking_vectors(queries, rows, "csls", csls_k=_csls_k(source, target), pools=_pools(source, target))
    ranks = _ranks_of_best(*vectors, gold)
    return LexiconScores(asked, ranks, len(with_vector), len(translated), len(target.words))


def lexicon_results(
    scores: LexiconScores,
    dictionary: Dictionary,
    *,
    settings: Mapping | None = None,
    **fields,
) -> list[EvalResult]:
    """P@1 and P@5 over the words that could be asked for, and the coverage of both sides, as result rows in percent.

    A word counts as translated if any of its translations is among the first k candidates. `settings` are added to
    every row's, `fields` are those of `EvalResult`: dataset, split, direction, model, seed.
    """
    entries = []
    for word, translations in dictionary.items():
        entries.append((word, *sorted(translations)))
    fields = {"revision": content_hash("\t".join(entry) for entry in sorted(entries))} | fields
    settings = {"candidates": scores.candidates, **(settings or {})}
    rows = [mean_result(f"P@{k}", hits_at(scores.ranks, k), settings=settings, **fields) for k in (1, 5)]
    covered = {
        "coverage": len(scores.words),
        "source coverage": scores.source_covered,
        "target coverage": scores.target_covered,
    }
    for name, count in covered.items():
        rows.append(EvalResult(name, 100 * count / len(entries), len(entries), settings=settings, **fields))
    return rows


def _pools(source: WordTable, target: WordTable) -> tuple[np.ndarray, np.ndarray]:
    """The vectors of the vocabularies' own words, which alone count as neighbours."""
    return source.vectors[: source.vocabulary_size], target.vectors[: target.vocabulary_size]


def _ranks_of_best(queries: np.ndarray, targets: np.ndarray, gold: Sequence[Sequence[int]]) -> np.ndarray:
    """(Q,) rank of the best of each query's right target rows among all others; ties count against it."""
    query = np.repeat(np.arange(len(gold)), list(map(len, gold)))
    right = exact_scores(queries, targets, query, np.concatenate(gold))
    least = np.full(len(gold), -np.inf)
    np.maximum.at(least, query, right)
    least -= TIE["csls"]
    # The loop below counts all rows that score at least as much as the best right one; right ones are subtracted here.
    ranks = 1 - np.bincount(query[right >= least[query]], minlength=len(gold))
    for rows, columns, block in score_blocks(queries, targets, _BLOCK):
        ranks[rows] += reaching(block, least[rows, None], queries[rows], targets[columns]).sum(1)
    return ranks
