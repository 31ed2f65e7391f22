"""The words of a line with their positions, vocabularies of words, and the pieces that all languages share.

A segmenter cuts a line into `Span`s. Four are built in and are saved inside the tokenizer; any other is a function that
is registered under a name with `register_segmenter`.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

from hfxling.files import atomic_path

from .codes import written_like
from .invisible import MARKS, MARKS_AND_SPACES, ZERO_WIDTH_SPACE
from .unigram import learn_shared_pieces, learn_unigram

SPECIAL_TOKENS = {"pad_token": "<pad>", "unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}
PAD, UNK, BOS, EOS = range(4)
BUILT_IN = ("characters", "unigram", "words", "whitespace")
PIECES = "pieces"  # the shared pieces are saved as tokenizer_pieces

# Measured on NTREX Lao against the zero-width spaces that 600 of its lines have: 8 letters a piece give a better
# boundary F1 (.62) than 16 (.56); 2,000 pieces give a higher one (.64) but split more of a dictionary's words.
UNIGRAM_SIZE = 4000
# Characters alone are 2,000 pieces. Boundary F1 on segmented Chinese text: .80 with 8,000, .79 with 4,000, .73 by
# characters.
LONE_SIZE = 8000
MAX_LETTERS = {"lo": 8, "th": 8, "km": 8, "my": 8}  # of a piece in languages where no spaces end it
_LONE_LANGUAGES = ("zh", "ja")
_LONE = Regex(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]\p{M}*")
# (nikhahit, tones, AA, E, AE): NFKC takes Lao U+0EDC and both scripts' SARA AM apart; a tone may come before or after.
_SPELLING = {
    "Thai": ("\u0e4d", "\u0e48\u0e49\u0e4a\u0e4b", "\u0e32", "\u0e40", "\u0e41"),
    "Lao": ("\u0ecd", "\u0ec8\u0ec9\u0eca\u0ecb", "\u0eb2", "\u0ec0", "\u0ec1"),
}


class Span(NamedTuple):
    """A segment: its normalised text, and its position in the original line, `line[start:end]`."""

    text: str
    start: int
    end: int


class Encoding(NamedTuple):
    """Ids of a line's segments, without bos and eos, and their spans."""

    ids: list[int]
    spans: list[Span]


Segmenter = Callable[[str], Sequence[Span | str]]
_PLUGGED_IN: dict[str, Segmenter] = {}


def register_segmenter(name: str, segmenter: Segmenter) -> None:
    """Register a segmenter: a function from a line to its words, as `Span`s or as strings in the order of the line.

    A vocabulary learnt with it stores only the name, so register the function again before loading the vocabulary.

    Raises:
        ValueError: the name of a built-in segmenter.
    """
    if name in BUILT_IN:
        raise ValueError(f"segmenter {name!r} is built in; register yours under another name.")
    _PLUGGED_IN[name] = segmenter


def default_segmenter(lang: str) -> str:
    """Characters for Chinese and Japanese, learnt pieces for every other language."""
    return "characters" if written_like(lang) in _LONE_LANGUAGES else "unigram"


def word_segmenter(lang: str) -> str:
    """The segmenter that cuts a line into words: at spaces, or into learnt pieces if the language writes none."""
    return "unigram" if written_like(lang) in (*_LONE_LANGUAGES, *MAX_LETTERS) else "words"


def normalize(text: str) -> str:
    """The spelling in which vocabularies and dictionaries are matched.

    NFKC, no zero-width spaces, small letters, single spaces. Lao and Thai SARA AM have one form, whether typed as one
    character, as two, or with the tone in between; Lao HO NO and HO MO are two letters, and E E is AE.
    """
    return " ".join(_NORMALIZER.normalize_str(text).split())


def script_normalizer(scripts: Iterable[str], *, keeps_zero_width: bool = False) -> normalizers.Normalizer:
    """The normalizer of `normalize`, with slow steps only for these scripts, and with or without zero-width spaces."""
    return normalizers.Sequence(_steps(scripts, MARKS if keeps_zero_width else MARKS_AND_SPACES))


def _steps(scripts: Iterable[str], left_out: str = MARKS_AND_SPACES) -> list[normalizers.Normalizer]:
    steps = [normalizers.NFKC(), normalizers.Replace(Regex(left_out), ""), normalizers.Lowercase()]
    for name in scripts:
        if name in _SPELLING:
            nikhahit, tones, aa, e, ae = _SPELLING[name]
            steps += [normalizers.Replace(nikhahit + tone + aa, tone + nikhahit + aa) for tone in tones]
            steps.append(normalizers.Replace(e + e, ae))
    return steps


def _cuts(segmenter: str) -> pre_tokenizers.PreTokenizer:
    cuts = [pre_tokenizers.WhitespaceSplit()]
    if segmenter == "characters":
        cuts.append(pre_tokenizers.Split(_LONE, "isolated"))
    if segmenter in ("characters", "unigram", "words"):
        cuts.append(pre_tokenizers.Punctuation())
    if segmenter == "unigram":
        cuts.append(pre_tokenizers.Digits())
    return pre_tokenizers.Sequence(cuts)


_NORMALIZER = script_normalizer(_SPELLING)
# A zero-width space is a word boundary marked by the writer. Using it when pieces are learnt raises the boundary F1
# above from .63 to .67 on lines that have none.
_CUTTING_NORMALIZER = normalizers.Sequence([normalizers.Replace(ZERO_WIDTH_SPACE, " "), *_steps(_SPELLING)])


class Vocabulary:
    """The words of one language: `<pad>` 0, `<unk>` 1, `<s>` 2, `</s>` 3, then the words of the training text.

    Args:
        lang: language code.
        tokenizer: tokenizer of the tokenizers library, with those four ids.
        segmenter: one of `BUILT_IN`, which the tokenizer itself carries out, or a registered name.
        piece_model: tokenizer for `piece_ids`, from words to the subword pieces that all languages share: `<pad>` 0,
            `<unk>` 1, then `<s>`, `</s>` and Unigram pieces.
    """

    def __init__(self, lang: str, tokenizer: Tokenizer, segmenter: str, piece_model: Tokenizer | None = None):
        self.lang, self.tokenizer, self.segmenter, self.piece_model = lang, tokenizer, segmenter, piece_model
        self._segment = None if segmenter in BUILT_IN else _plugged_in(segmenter, lang)
        self._ids = tokenizer.get_vocab()
        self.words = sorted(self._ids, key=self._ids.get)

    def __len__(self) -> int:
        return len(self.words)

    @classmethod
    def learn(
        cls,
        lines: Iterable[str],
        lang: str,
        *,
        segmenter: str | None = None,
        size: int | None = None,
        min_count: int | None = None,
    ) -> Vocabulary:
        """Collect the words of a training text.

        Args:
            lines: lines of one language.
            lang: code of the language.
            segmenter: "characters" (Han, kana, Thai, Lao, Khmer and Burmese letters one by one, with their marks; runs
                of other letters and digits whole), "unigram" (pieces learnt from the lines), "words" (cut at white
                space and punctuation), "whitespace" (the input's own words), or a registered name; by default that of
                `default_segmenter`.
            size: most words, including the special ones; by default `UNIGRAM_SIZE` pieces (`LONE_SIZE` for Chinese and
                Japanese), and otherwise all words.
            min_count: words that occur less often (default 1) become `<unk>`; pieces that occur less often (default 2)
                are cut into smaller ones.

        Raises:
            ValueError: an unknown segmenter, a text without words, or a size too small for the letters of the text.
        """
        segmenter = segmenter or default_segmenter(lang)
        lines = list(lines)
        if segmenter not in BUILT_IN:
            cut = _plugged_in(segmenter, lang)
            for number, line in enumerate(lines):
                lines[number] = " ".join(span.text for span in _spans_of(cut, line))
        if not any(map(str.strip, lines)):
            raise ValueError(f"{lang}: no word in the {len(lines)} lines given; give training text.")
        if segmenter == "unigram":
            cuts = _cuts(segmenter)
            words = []
            for line in lines:
                cut_line = cuts.pre_tokenize_str(_CUTTING_NORMALIZER.normalize_str(line))
                words.append([word for word, _ in cut_line])
            code = written_like(lang)
            size = size or (LONE_SIZE if code in _LONE_LANGUAGES else UNIGRAM_SIZE)
            longest = MAX_LETTERS.get(code, 16)
            # The learner reserves memory for as many pieces as it is asked for, so ask for no more than there can be.
            size = min(size, len(SPECIAL_TOKENS) + longest * sum(map(len, lines)))
            tokenizer = _learn(learn_unigram, lang, words, size, min_count=min_count or 2, max_length=longest)
            tokenizer.normalizer, tokenizer.pre_tokenizer = _CUTTING_NORMALIZER, cuts
            return cls(lang, tokenizer, segmenter)
        tokenizer = Tokenizer(models.WordLevel({}, unk_token=SPECIAL_TOKENS["unk_token"]))
        tokenizer.normalizer = _CUTTING_NORMALIZER if segmenter == "characters" else _NORMALIZER
        tokenizer.pre_tokenizer = _cuts(segmenter)
        trainer = trainers.WordLevelTrainer(
            special_tokens=[*SPECIAL_TOKENS.values()],
            vocab_size=size or 2**31,
            min_frequency=min_count or 1,
            show_progress=False,
        )
        tokenizer.train_from_iterator(lines, trainer)
        if tokenizer.get_vocab_size() <= len(SPECIAL_TOKENS):
            limits = f"a size of {size}" if size else f"min_count={min_count}"
            raise ValueError(f"{lang}: with {limits} no word of the {len(lines)} lines is left; allow more.")
        return cls(lang, tokenizer, segmenter)

    def encode(self, line: str) -> Encoding:
        """Ids and spans of a line's segments."""
        return self.encode_batch([line])[0]

    def encode_batch(self, lines: Sequence[str]) -> list[Encoding]:
        """`encode` for many lines at once, on all threads that the tokenizers library may use."""
        encodings = []
        if self._segment is not None:
            for line in lines:
                spans = _spans_of(self._segment, line)
                encodings.append(Encoding([self._ids.get(span.text, UNK) for span in spans], spans))
            return encodings
        for row, line in zip(self.tokenizer.encode_batch(list(lines), add_special_tokens=False), lines):
            ids = _known(row.ids)
            encodings.append(Encoding(ids, _spans(row, ids, line)))
        return encodings

    def encode_ids(self, lines: Sequence[str]) -> list[list[int]]:
        """The ids of `encode_batch`; faster, because positions are not computed."""
        if self._segment is not None:
            return [encoding.ids for encoding in self.encode_batch(lines)]
        rows = self.tokenizer.encode_batch_fast(list(lines), add_special_tokens=False)
        return [_known(row.ids) for row in rows]

    def piece_ids(self) -> tuple[np.ndarray, np.ndarray]:
        """(V, P) ids of every word's shared pieces, padded with 0, and (V,) their number, which is 0 for `<pad>`."""
        rows = [[], *(row.ids for row in self.piece_model.encode_batch(self.words[1:], add_special_tokens=False))]
        counts = np.array([len(row) for row in rows])
        table = np.zeros((len(rows), counts.max()), np.int64)
        is_piece = np.arange(counts.max()) < counts[:, None]
        table[is_piece] = np.concatenate(rows)  # a mask is filled row by row
        return table, counts

    def save(self, folder: str | Path) -> None:
        """Write `tokenizer_LANG` in the folder, an ordinary fast tokenizer."""
        _save(self.tokenizer, Path(folder) / f"tokenizer_{self.lang}", language=self.lang, segmenter=self.segmenter)

    @classmethod
    def load(cls, folder: str, lang: str, piece_model: Tokenizer | None = None, **hub_kwargs) -> Vocabulary:
        """Read what `save` wrote, from a folder or a Hub repository."""
        tokenizer = _load(folder, lang, hub_kwargs)
        return cls(lang, tokenizer.backend_tokenizer, tokenizer.init_kwargs.get("segmenter", "whitespace"), piece_model)


def learn_vocabularies(
    lines: Mapping[str, Iterable[str]],
    *,
    segmenters: Mapping[str, str] | None = None,
    size: int | None = None,
    min_count: int | None = None,
    pieces: int = 8000,
) -> dict[str, Vocabulary]:
    """A vocabulary for every language, and the pieces they share.

    Both mappings are by language code: the training text, and segmenters other than those of `word_segmenter`. `size`
    and `min_count` are as for `Vocabulary.learn`; there are at most `pieces` shared pieces.
    """
    lines = {lang: list(text) for lang, text in lines.items()}
    segmenters = segmenters or {}
    stray = sorted(set(segmenters) - set(lines))
    if stray:
        raise ValueError(f"there is a segmenter for {', '.join(stray)}, but text only for {', '.join(lines)}.")
    learnt: dict[str, Vocabulary] = {}
    words: list[list[str]] = []  # of every line
    for lang, text in lines.items():
        segmenter = segmenters.get(lang, word_segmenter(lang))
        learnt[lang] = Vocabulary.learn(text, lang, segmenter=segmenter, size=size, min_count=min_count)
        for row in learnt[lang].encode_batch(text):
            words.append([span.text for span in row.spans])
    piece_model = _learn(learn_shared_pieces, "shared pieces", words, pieces)
    for vocabulary in learnt.values():
        vocabulary.piece_model = piece_model
    return learnt


def save_vocabularies(vocabularies: Mapping[str, Vocabulary], folder: str | Path) -> None:
    """Write every vocabulary and the shared pieces as `tokenizer_*` folders."""
    for vocabulary in vocabularies.values():
        vocabulary.save(folder)
    _save(next(iter(vocabularies.values())).piece_model, Path(folder) / f"tokenizer_{PIECES}")


def load_vocabularies(folder: str, languages: Iterable[str], **hub_kwargs) -> dict[str, Vocabulary]:
    """Read what `save_vocabularies` wrote, from a folder or a Hub repository."""
    piece_model = _load(folder, PIECES, hub_kwargs).backend_tokenizer
    return {lang: Vocabulary.load(folder, lang, piece_model, **hub_kwargs) for lang in languages}


def _unspaced(text: str) -> str:
    return text.replace(" ", "_")  # keeps a word whole when pieces are cut at white space


def _known(ids: Sequence[int]) -> list[int]:
    """Ids of a text; a special token written in it is text, so it becomes unknown."""
    return [id_ if id_ > EOS else UNK for id_ in ids]


def _spans(row, ids: list[int], line: str) -> list[Span]:
    """The spans of an encoded line; an unknown word has its own text, not `<unk>`."""
    spans = []
    limits = [*(start for start, _ in row.offsets[1:]), len(line)]
    for id_, token, (start, end), limit in zip(ids, row.tokens, row.offsets, limits):
        while end < limit and unicodedata.category(line[end])[0] == "M":  # a mark composed into the letter before it
            end += 1
        spans.append(Span(_unspaced(normalize(line[start:end])) if id_ == UNK else token, start, end))
    return spans


def _learn(learner: Callable[..., Tokenizer], name: str, words: Iterable[list[str]], size: int, **limits) -> Tokenizer:
    try:
        return learner(words, size, [*SPECIAL_TOKENS.values()], **limits)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def _plugged_in(name: str, lang: str) -> Segmenter:
    if name not in _PLUGGED_IN:
        known = ", ".join((*BUILT_IN, *sorted(_PLUGGED_IN)))
        raise ValueError(f"segmenter {name!r} of {lang!r} is not one of {known}; register yours by register_segmenter.")
    return _PLUGGED_IN[name]


def _spans_of(segmenter: Segmenter, line: str) -> list[Span]:
    """The words of a registered segmenter as spans; words given as strings are searched for from left to right."""
    spans, end = [], 0
    for word in segmenter(line):
        if isinstance(word, Span):
            start, end = word.start, word.end
        else:
            word = word.strip()
            start = line.find(word, end)
            if start < 0:
                raise ValueError(f"the segmenter gave {word!r}, which is not in the rest of the line, {line[end:]!r}.")
            end = start + len(word)
        text = _unspaced(normalize(line[start:end]))
        if text:
            spans.append(Span(text, start, end))
    return spans


def _save(tokenizer: Tokenizer, folder: Path, **fields: str) -> None:
    from transformers import PreTrainedTokenizerFast

    wrapped = PreTrainedTokenizerFast(tokenizer_object=tokenizer, **SPECIAL_TOKENS, **fields)
    with atomic_path(folder) as scratch:
        wrapped.save_pretrained(scratch)


def _load(folder: str, name: str, hub_kwargs: Mapping):
    from transformers import AutoTokenizer

    if Path(folder).is_dir() and not (Path(folder) / f"tokenizer_{name}" / "tokenizer.json").is_file():
        have = sorted(path.name for path in Path(folder).glob("tokenizer_*"))
        raise ValueError(f"{folder}: no tokenizer_{name}; there is {', '.join(have) or 'no tokenizer'}.")
    try:
        return AutoTokenizer.from_pretrained(folder, subfolder=f"tokenizer_{name}", **hub_kwargs)
    except (OSError, ValueError) as error:
        cause = str(error).partition("\n")[0]
        raise ValueError(f"{folder}: tokenizer_{name} cannot be read ({cause}).") from None
