"""A bilingual word list from aligned text, with scores and example sentences, for a human to check."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from hfxling.data.pairs import Pairs, Text
from hfxling.data.segment import EOS, Encoding
from hfxling.evaluation.results import EvalResult, format_table
from hfxling.evaluation.word_translation import (
    WordTable,
    lexicon_results,
    link_vectors,
    read_dictionary,
    score_lexicon,
    translate,
    word_table,
)
from hfxling.files import atomic_path, check_text_file
from hfxling.progress import bar
from hfxling.sentences.tables import columns_of, to_tsv
from hfxling.values import check_counts
from hfxling.verbs import Languages, Model, OutputFile, Result, check_revisions, verb

from .links import Layer

if TYPE_CHECKING:
    from .sources import LinkSource

By = Literal["static", "links", "both"]
EXAMPLES = 2
SPARE = 10  # further translations that are looked up, as some are no words
_COLUMNS = ("word", "count", "rank", "translation", "score", "together")


@dataclass(frozen=True)
class Translation:
    """A word and one of its translations.

    Attributes:
        word: of the source language, in normalised spelling.
        count: number of source sentences that contain it.
        rank: place of the translation among the word's translations, from 1.
        translation: word of the target language.
        score: CSLS; only the order of scores means something.
        together: number of sentence pairs that contain both.
        examples: the shortest of these pairs, at most two.
    """

    word: str
    count: int
    rank: int
    translation: str
    score: float
    together: int
    examples: list[tuple[str, str]]


@dataclass(frozen=True, repr=False)
class Lexicon(Result):
    """A bilingual word list.

    Attributes:
        languages: codes of source and target.
        rows: translations, sorted by frequency of the word, the best translation of a word first.
        results: P@1, P@5 and coverage against a dictionary; [] without one.
    """

    languages: Languages
    rows: list[Translation]
    results: list[EvalResult]

    def to_text(self) -> str:
        """Tab-separated lines, the column names first; tabs and line breaks inside text become spaces."""
        header = list(_COLUMNS)
        for number in range(1, EXAMPLES + 1):
            header += [f"example {number} source", f"example {number} target"]
        rows = []
        for row in self.rows:
            cells = [row.word, row.count, row.rank, row.translation, f"{row.score:.4f}", row.together]
            for example in row.examples:
                cells += [side.strip() for side in example]
            rows.append(cells + [""] * (len(header) - len(cells)))
        return to_tsv(columns_of(header, rows))[0]

    def save(self, path: str | Path) -> None:
        """Write what `to_text` gives."""
        check_text_file("path", path)
        with atomic_path(path) as scratch:
            scratch.write_text(self.to_text(), encoding="utf-8")

    def table(self) -> str:
        """The number of words and translations, and the scores against the dictionary."""
        words = len({row.word for row in self.rows})
        lines = [f"{words} words {'-'.join(self.languages)}, {len(self.rows)} translations"]
        if self.results:
            scores = [(row.metric, row.value, row.n) for row in self.results]
            lines.append(format_table(["metric, %", "value", "words"], scores))
        return "\n".join(lines)


@verb
def lexicon(
    source: Text,
    target: Text | None = None,
    *,
    languages: Languages | None = None,
    model: Model | None = None,
    revision: str | None = None,
    layer: Layer | None = None,
    top: int = 3,
    min_count: int = 3,
    runs: int = 3,
    by: By | None = None,
    dictionary: str | None = None,
    output: OutputFile | None = None,
    progress: bool = True,
) -> Lexicon:
    """Make a bilingual word list from aligned text.

    Words come from the source sentences, most frequent first. Translations are the nearest target words, each compared
    with its 3 nearest neighbours (CSLS). Frequent runs of segments count as words, too, since Chinese words are several
    characters. Example sentences help a human to check the list.

    Example:
        >>> result = hfxling.lexicon(chinese, vietnamese, languages=("zh", "vi"))
        >>> print(result.rows[0].word, result.rows[0].translation)
        >>> hfxling.lexicon("train.lo", "train.zh", model="outputs/lo-zh/model", output="lo-zh.tsv")

    Args:
        source: source sentences, a file of them, or a source of both sides.
        target: the translations, line by line.
        languages: language codes of source and target; by default the first two of an aligner or a lexical model.
        model: folder or Hub id of an aligner or a lexical model, or a loaded one; or of a multilingual encoder, which
            helps to learn links from the text (from at most 20,000 pairs of it). By default links are learnt from the
            text alone.
        revision: branch, tag or commit of the model on the Hub.
        layer: layer of an encoder, where 0 is the embeddings; or agreement: the layer by which links of both directions
            agree most in the first 200 pairs. By default a layer known to suit the encoder's depth, or agreement for
            other depths.
        top: number of translations of each word.
        min_count: least number of sentences that must contain a source word, or a run of segments on either side.
        runs: largest number of segments in a word that is made of several; 1 for no such words.
        by: what words are compared by: static (the aligner's static vectors), links (how often they are linked in the
            text) or both. By default links, but static for an aligner that was trained without a prior.
        dictionary: TSV file, word TAB translation, that the list is scored against.
        output: TSV file for the list.
        progress: show a progress bar.

    Returns:
        The translations, and their scores against the dictionary.

    Raises:
        ValueError: text, languages or options that do not fit, another kind of model, or no word that is frequent
            enough.
        FileNotFoundError: a file or model that does not exist.
    """
    check_text_file("output", output)
    check_revisions(revision=(model, revision))
    check_counts(1, top=top, min_count=min_count, runs=runs)
    entries = {} if dictionary is None else read_dictionary(dictionary)
    from .sources import links_of_text  # loads torch

    links, text = links_of_text(model, languages, source, target, revision=revision, layer=layer)
    if links.network is None and by not in (None, "links"):
        raise ValueError(f"by={by} needs an aligner's vectors, and {links.name} has none; give by=links.")

    encoded, lines_of_words, counts = [], [], []
    for vocabulary, lines in zip(links.vocabularies, (text.source, text.target)):
        rows = vocabulary.encode_batch(lines)
        encoded.append(rows)
        lines_of_words.append(occurrences(rows, runs))
        counts.append(frequent(lines_of_words[-1], min_count))
    if by is None:
        has_links = links.is_learnt or links.prior is not None
        by = "links" if has_links else "static"
    vectors = _word_vectors(links, text, encoded, by)
    tables = [word_table(links.vocabularies[side], vectors[side], counts[side]) for side in (0, 1)]
    results = []
    if entries:
        # Separate tables: the dictionary's words must not be among the translations of the list.
        dictionary_words = [list(entries), sorted(set().union(*entries.values()))]
        asked_tables = []
        for side in (0, 1):
            asked = [*counts[side], *dictionary_words[side]]
            asked_tables.append(word_table(links.vocabularies[side], vectors[side], asked))
        scores = score_lexicon(entries, *asked_tables)
        results = lexicon_results(
            scores,
            entries,
            model=links.name,
            dataset=str(dictionary),
            split="all",
            direction="->".join(links.languages),
        )
    lines_of = occurrences(encoded[1], runs, letters_only=False)
    rows = _translations(text, lines_of_words[0], lines_of, counts[0], tables, top, min_count)
    result = Lexicon(links.languages, rows, results)
    if output is not None:
        result.save(output)
    return result


def occurrences(encoded: Sequence[Encoding], longest: int, *, letters_only: bool = True) -> dict[str, set[int]]:
    """Known segments (only those with a letter, or all) and their runs without gaps, as text -> numbers of lines."""
    lines_of: dict[str, set[int]] = {}
    for number, row in enumerate(encoded):
        for start in range(len(row.ids)):
            text = ""
            end = row.spans[start].start
            for id_, span in zip(row.ids[start : start + longest], row.spans[start : start + longest]):
                is_word = id_ > EOS and (not letters_only or any(map(str.isalpha, span.text)))
                if not is_word or span.start > end:
                    break
                text += span.text
                end = span.end
                lines_of.setdefault(text, set()).add(number)
    return lines_of


def frequent(lines_of: dict[str, set[int]], min_count: int) -> dict[str, int]:
    """Words and runs of `occurrences` that are in enough lines, most frequent first, as text -> number of lines."""
    counts = Counter({text: len(lines) for text, lines in lines_of.items()})
    return {text: count for text, count in counts.most_common() if count >= min_count}


def _word_vectors(
    links: LinkSource, text: Pairs, encoded: Sequence[Sequence[Encoding]], by: str
) -> Sequence[np.ndarray]:
    """The vectors that words are compared by, for source and target."""
    from .joint import learnt_rows, segment_similarities
    from .pairs import EncodedPairs
    from .prior import link_counts_of, translation_counts

    static = None
    if by != "links":
        static = [links.network.static_table(language).detach().cpu().numpy() for language in links.languages]
    if by == "static":
        return static
    rows = range(len(text)) if links.encoder is None else learnt_rows(len(text))  # an encoder is slow
    source = [encoded[0][row].ids for row in rows]
    target = [encoded[1][row].ids for row in rows]
    pairs = EncodedPairs(links.languages, source, target)
    if links.network is None and not links.is_learnt:
        counts = link_counts_of([links.prior], pairs, [len(vocabulary) for vocabulary in links.vocabularies])
        return link_vectors(counts, static)
    similarity = None
    if links.encoder is not None:
        lines = [text.source[row] for row in rows], [text.target[row] for row in rows]
        similarity = segment_similarities(links.languages, links.vocabularies, links.encoder, *lines)
    return link_vectors(translation_counts(pairs, links.vocabularies, similarity), static)


def _translations(
    text: Pairs,
    lines_of_words: dict[str, set[int]],
    lines_of: dict[str, set[int]],
    counts: dict[str, int],
    tables: Sequence[WordTable],
    top: int,
    min_count: int,
) -> list[Translation]:
    """The nearest target words of every frequent source word, with the shortest pairs that contain both."""
    source, target = tables
    row_of = source.row_of
    asked = [word for word in counts if word in row_of]
    if not asked:
        raise ValueError(f"{text.name}: no known word is in min_count={min_count} sentences; lower that number.")
    queries = source.vectors[[row_of[word] for word in asked]]
    nearest_rows, scores = translate(queries, source, target, top=top + SPARE)

    def length(row: int) -> tuple[int, int]:
        return len(text.source[row]) + len(text.target[row]), row

    rows = []
    for word, candidates, values in bar(zip(asked, nearest_rows, scores), total=len(asked), unit="words"):
        there = []
        for row, score in zip(candidates, values):
            translation = target.words[row]
            # Pieces of the vocabulary that are in no line are no words, and neither is punctuation.
            if translation in lines_of and any(map(str.isalnum, translation)):
                there.append((translation, score))
        for rank, (translation, score) in enumerate(there[:top], 1):
            together = lines_of_words[word] & lines_of[translation]
            shortest = sorted(together, key=length)[:EXAMPLES]
            examples = [(text.source[row], text.target[row]) for row in shortest]
            rows.append(Translation(word, counts[word], rank, translation, float(score), len(together), examples))
    return rows
