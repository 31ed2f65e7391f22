"""From text to segments and expected link counts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_array

from hfxling.arguments import narrowed
from hfxling.data.codes import written_like
from hfxling.data.corpus import Corpus, load_corpus
from hfxling.data.parallel import sides_of
from hfxling.data.readers import read_lines
from hfxling.data.scripts import learn_shared_vocabularies, own_scripts
from hfxling.data.segment import EOS, UNIGRAM_SIZE, Vocabulary, default_segmenter, normalize
from hfxling.data.sources import Pair, name_of_pair
from hfxling.data.texts import check_texts, picked
from hfxling.data.unigram import settle
from hfxling.evaluation.word_translation import read_dictionary
from hfxling.methods.checks import refuse_evaluation
from hfxling.methods.publishing import training_cost
from hfxling.words.encoder import WordEncoder
from hfxling.words.joint import learnt_rows, segment_similarities
from hfxling.words.pairs import EncodedPairs, encoded_pairs
from hfxling.words.prior import translation_counts

from .arguments import COARSE, FINE, LexicalArguments, LinkSettings

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

_UNSPACED = ("lo", "th", "km", "my")  # languages that put no spaces between words
_FINE_SIZE = 2000  # number of pieces for these languages
_MOST_KEPT = 10_000  # most sentences whose word vectors are kept in memory for all views and folds, about 60 kB each


@dataclass
class View:
    """The training text, cut into segments in one way."""

    vocabularies: Mapping[str, Vocabulary]  # by language
    is_shared: bool  # whether all vocabularies have one tokenizer: a text's language need not be named
    pairs: list[EncodedPairs]
    counts: list[csr_array]  # (V, W) expected links of every pair of `pairs`, the lexicon's among them


@dataclass
class Prepared:
    """The part shared by runs that differ only in what they make from the links."""

    corpus: Corpus
    views: list[View]  # views of its training text
    folds: Sequence[Prepared] = ()  # parts of the training text as test text for the rest, with the rest's views
    distractors: Mapping[str, Sequence[str]] = field(default_factory=dict)  # further candidates, by language
    cost: Mapping[str, float] = field(default_factory=dict)  # cost of the views, see `training_cost`


def prepare(rows: Sequence[LexicalArguments], training_args=None) -> Prepared:
    """Read the text, cut it and count its links."""
    first = rows[0]
    refuse_evaluation(training_args, "a lexical model")
    others = {lang: read_distractors(path) for lang, path in first.distractor_files().items()}
    corpus = load_corpus(first)
    settings = narrowed(LinkSettings, first)
    encoder = None
    if first.encoder is not None:
        encoder = word_encoder(first.encoder, first.encoder_revision, corpus)
    folds = [Prepared(fold, link_views(fold, settings, encoder)) for fold in split_folds(corpus, first.folds)]
    for text in corpus.pairs:  # a sentence of the pairs is a translation, and so no distractor
        for side, lang in zip(("source", "target"), text.languages):
            if lang in others:
                translations = set(text.train[side][:])
                others[lang] = [line for line in others[lang] if line not in translations]
    with training_cost() as cost:
        views = link_views(corpus, settings, encoder)
    return Prepared(corpus, views, folds, others, cost)


def word_encoder(
    model: str | Path | SentenceTransformer,
    revision: str | None,
    corpus: Corpus,
    *,
    prompt: str | None = None,
    device: str | None = None,
) -> WordEncoder:
    """An encoder, named or loaded, to help in counting links; unless the text is long, all of it is read here.

    Raises:
        FileNotFoundError: no such folder or Hub model.
        ValueError: an encoder that does not know the script of a language, or that gives no positions of its pieces.
    """
    encoder = WordEncoder(model, revision, prompt=prompt, device=device)
    if 2 * sum(len(text.train) for text in corpus.pairs) <= _MOST_KEPT:
        for text in corpus.pairs:
            for side in sides_of(text.train):  # one by one: each has to be in a script that the encoder knows
                encoder.keep(side)
    return encoder


def split_folds(corpus: Corpus, count: int) -> Iterator[Corpus]:
    """For each part of the training text, the rest, with that part as test text; neighbours stay together."""
    for number in range(count):
        pairs = []
        for text in corpus.pairs:
            held = np.array_split(np.arange(len(text.train)), count)[number]
            kept = np.setdiff1d(np.arange(len(text.train)), held)
            pairs.append(replace(text, train=text.train.select(kept), test=text.train.select(held)))
        yield Corpus(pairs, corpus.name)


def read_distractors(path: str) -> list[str]:
    """The distinct sentences of a text file, in their order."""
    lines = dict.fromkeys(line.strip() for _, line in read_lines(path))
    lines.pop("", None)
    if not lines:
        raise ValueError(f"{path}: no sentence in it; give one a line.")
    texts = list(lines)
    check_texts(texts, f"{path}: text")
    return texts


def link_views(corpus: Corpus, settings: LinkSettings, encoder: WordEncoder | None = None) -> list[View]:
    """Segments and link counts of a text in every view.

    Args:
        corpus: the corpus, whose training text is used.
        settings: views, segmenters, lexicon.
        encoder: encoder whose word similarities are used in every E step (docs/words.md); none by default.

    Raises:
        ValueError: fewer than ten pairs, a lexicon of other languages, or an encoder that does not know a script.
    """
    corpus.check_enough()
    sides = {text.languages: sides_of(text.train) for text in corpus.pairs}
    lexicon = {}
    for pair, path in settings.lexicon_files(list(sides)).items():
        lexicon[pair] = read_lexicon(pair, path, sides)
    chosen = settings.segmenter_choices(corpus.languages)
    views = []
    for number, name in enumerate(settings.views):
        is_first = number == 0
        of_view = chosen if is_first else {}
        views.append(_view(name, sides, lexicon, settings, of_view, is_first=is_first, encoder=encoder))
    return views


def read_lexicon(pair: Pair, path: str, sides: Mapping[Pair, tuple]) -> tuple[list[str], list[str]]:
    """The words and translations of a file, line by line; `sides` is the training text."""
    entries = read_dictionary(path)
    columns: tuple[list[str], list[str]] = [], []
    for word in sorted(entries):
        for translation in sorted(entries[word]):
            columns[0].append(word)
            columns[1].append(translation)
    for language, words in zip(pair, columns):
        letters_of_text: set[str] = set()
        for languages, both in sides.items():
            for code, side in zip(languages, both):
                if code == language:
                    for line in side:
                        letters_of_text.update(normalize(line))
        letters = "".join(words)
        if sum(letter in letters_of_text for letter in letters) < len(letters) / 2:
            raise ValueError(
                f"lexicon {path}: most letters of words such as {words[0]!r} never occur in the {language} text; "
                f"give a word list for {name_of_pair(pair)}, {pair[0]} first."
            )
    return columns


def _view(
    name: str,
    sides: Mapping[Pair, tuple],
    lexicon: Mapping[Pair, tuple],
    settings: LinkSettings,
    chosen: Mapping[str, str],
    *,
    is_first: bool,
    encoder: WordEncoder | None,
) -> View:
    """A text cut in one way; `chosen` has segmenters of languages that replace the view's own."""
    lines: dict[str, dict[str, None]] = {}  # dictionaries as sets that keep the order
    for pair, texts in (*sides.items(), *lexicon.items()):
        for language, side in zip(pair, texts):
            lines.setdefault(language, {}).update(dict.fromkeys(side))
    texts = {language: list(text) for language, text in lines.items()}
    segmenters, sizes = {}, {}
    for lang in texts:
        segmenters[lang], sizes[lang] = segmenter_of(name, lang)
        segmenters[lang] = chosen.get(lang, segmenters[lang])
        sizes[lang] = settings.vocab_size or sizes[lang]
    scripts = own_scripts(texts) if is_first and name == FINE and not chosen else None
    if scripts:
        whole = [lang for lang in texts if segmenters[lang] == "words"]
        vocabularies = learn_shared_vocabularies(texts, scripts, sizes=sizes, whole=whole)
    else:
        vocabularies = {lang: _vocabulary(text, lang, segmenters[lang], sizes[lang]) for lang, text in texts.items()}
    pairs, counts = [], []
    for pair, both in sides.items():
        of_pair = vocabularies[pair[0]], vocabularies[pair[1]]
        encoded = encoded_pairs(pair, of_pair, *both, settings.max_words)
        # The entries of a lexicon, in either order, are counted as further sentence pairs.
        there = encoded_pairs(pair, of_pair, *lexicon.get(pair, ([], [])), settings.max_words)
        back = encoded_pairs(pair[::-1], of_pair[::-1], *lexicon.get(pair[::-1], ([], [])), settings.max_words)
        source = encoded.source + there.source + back.target
        target = encoded.target + there.target + back.source
        similarities = None if encoder is None else _similarities(pair, of_pair, encoder, both, source, target)
        expected = translation_counts(EncodedPairs(pair, source, target), of_pair, similarities)
        pairs.append(encoded)
        counts.append(csr_array(expected))
    return View(vocabularies, scripts is not None, pairs, counts)


def _similarities(
    languages: Pair,
    vocabularies: Sequence[Vocabulary],
    encoder: WordEncoder,
    sides: Sequence[Sequence[str]],
    source: Sequence[Sequence[int]],
    target: Sequence[Sequence[int]],
) -> list[np.ndarray]:
    """For every pair of `source` and `target`, the (S, T) cosines of its segments.

    The pairs are the sentences of both `sides` followed by a lexicon. The lexicon, and sentences that are not among
    `learnt_rows`, are not read: they get equal similarities, which change no probability.
    """
    encoder.means.clear()  # means of other text
    rows = learnt_rows(len(sides[0]))
    read = dict(zip(rows, segment_similarities(languages, vocabularies, encoder, *picked(rows, *sides))))
    similarities = []
    for row, (source_ids, target_ids) in enumerate(zip(source, target)):
        if row in read:
            similarities.append(read[row][: len(source_ids), : len(target_ids)])  # only segments kept (max_words)
        else:
            similarities.append(np.zeros((len(source_ids), len(target_ids)), np.float16))
    return similarities


def segmenter_of(view: str, lang: str) -> tuple[str, int]:
    """The segmenter of a language in a view, and the number of pieces if it learns any.

    Chosen by cross-validation: pieces first and words beside them (tr-en, ko-en, id-zh), but syllables first if they
    are written apart (vi-zh, zh-vi).
    """
    code = written_like(lang)
    if view not in (FINE, COARSE):
        return view, UNIGRAM_SIZE
    if default_segmenter(lang) == "characters":
        segmenters = {FINE: "characters", COARSE: "unigram"}
    elif code in _UNSPACED:
        return "unigram", _FINE_SIZE if view == FINE else UNIGRAM_SIZE
    elif code == "vi":
        segmenters = {FINE: "words", COARSE: "unigram"}  # its "words" are syllables
    else:
        segmenters = {FINE: "unigram", COARSE: "words"}
    return segmenters[view], UNIGRAM_SIZE


def _vocabulary(lines: Sequence[str], lang: str, segmenter: str, size: int) -> Vocabulary:
    vocabulary = Vocabulary.learn(lines, lang, segmenter=segmenter, size=size if segmenter == "unigram" else None)
    if segmenter == "unigram":
        settle(vocabulary.tokenizer, lines, EOS + 1)
    return vocabulary
