"""Learn Unigram pieces from small texts, with and without spaces between words."""

from __future__ import annotations

import json
import math
import re
import sys
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from huggingface_hub.utils import are_progress_bars_disabled
from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

# The trainer starts from strings that occur in two different words, so a frequent word that is part of no other word
# would never become a piece. Two marks, put in turn at the end of a word, make two different words of it.
_MARKS = "\ue000\ue001"
# Vowels of Thai and Lao that are written before their consonant, and letters that never begin a syllable.
_LEADING = "เแโใไເແໂໃໄ"
_FOLLOWING = "ะาๅๆຯະາຽໆ"
_LETTER_WITH_MARKS = re.compile(
    r"[^\W\d_][\u0300-\u036f\u0e31\u0e34-\u0e3a\u0e47-\u0e4e\u0eb1\u0eb4-\u0ebc\u0ec8-\u0ecd]+"
)

_HAN = pre_tokenizers.Split(Regex(r"\p{Han}"), "isolated")
_LONGEST = 1_000  # most letters of a word, or of a phrase if a script has no spaces
_PARTS = 20  # number of parts of a longer one that are used
_SHOWN = 300_000  # number of letters from which on learning takes seconds
# Two ways to cut a word are often equally likely. The last digit of the trainer's sums, which changes from run to run,
# would then decide. So every piece is made less likely than the one before it by this much, far above that digit.
_TIE_BREAK = 1e-9


def learn_unigram(
    words: Iterable[Sequence[str]],
    size: int,
    special_tokens: Sequence[str],
    *,
    min_count: int = 2,
    max_length: int = 16,
) -> Tokenizer:
    """Learn pieces of words by maximum likelihood; gives a tokenizer that cuts at white space and then into pieces.

    Pieces with which no Thai or Lao syllable can begin or end are left out, and so are rare ones. Letters always stay,
    alone and with the marks they have in the text.

    Args:
        words: the words of each line, without white space inside; whole phrases if a script has no spaces.
        size: most pieces, including special ones.
        special_tokens: special tokens, which get ids from 0; the second one stands for unknown text.
        min_count: least number of occurrences of a piece of several letters.
        max_length: most letters of a piece.
    """
    counts = _counted(words, size, len(special_tokens))
    tokenizer, special, pieces = _trained(
        _twice(counts), counts, size + len(_MARKS), special_tokens, max_length=max_length
    )
    used: Counter[str] = Counter()
    for word, row in zip(counts, tokenizer.encode_batch(list(counts))):
        for piece in row.tokens:
            used[piece] += counts[word]
    always = _letters(counts)
    kept = {piece: score for piece, score in pieces.items() if piece in always or used[piece] >= min_count}
    _set_pieces(tokenizer, special, kept)
    return tokenizer


def _twice(counts: Counter[str]) -> Iterator[str]:
    """Every word as often as it occurs, with two marks in turn at its end."""
    for word, count in counts.items():
        for number in range(count):
            yield word + _MARKS[number % 2]


def learn_shared_pieces(words: Iterable[Sequence[str]], size: int, special_tokens: Sequence[str]) -> Tokenizer:
    """Learn what words have in common: parts of two or more different words, and letters.

    Han characters are pieces by themselves. Every distinct word counts once, or frequent ones would be whole pieces.
    Arguments are those of `learn_unigram`.
    """
    counts = Counter([*_counted(words, size, len(special_tokens))])
    tokenizer, special, pieces = _trained(counts, counts, size, special_tokens, cuts=[_HAN])
    always = _letters(counts)
    while True:
        used: Counter[str] = Counter()
        for row in tokenizer.encode_batch(list(counts)):
            used.update(set(row.tokens))
        kept = {piece: score for piece, score in pieces.items() if piece in always or used[piece] > 1}
        if len(kept) == len(pieces):
            return tokenizer
        pieces = kept
        _set_pieces(tokenizer, special, pieces)


def _counted(words: Iterable[Sequence[str]], size: int, special: int) -> Counter[str]:
    """How often each word occurs; ValueError if there are no words, or fewer pieces than letters and special tokens."""
    counts: Counter[str] = Counter()
    for line in words:
        for word in line:
            counts.update(_stretches(word))
    if not counts:
        raise ValueError("there is no word to learn pieces from; give text.")
    least = len(_letters(counts)) + special
    if size < least:
        raise ValueError(f"{size} pieces are fewer than the {least} letters of the text; allow more.")
    return counts


def _letters(words: Iterable[str]) -> set[str]:
    """The letters of words, alone and with their marks, which are always pieces."""
    letters: set[str] = set()
    for word in words:
        letters.update(word, _LETTER_WITH_MARKS.findall(word))
    return letters


def _trained(
    sentences: Iterable[str],
    counts: Counter[str],
    size: int,
    special_tokens: Sequence[str],
    *,
    max_length: int = 16,
    cuts: Sequence[pre_tokenizers.PreTokenizer] = (),
) -> tuple[Tokenizer, list, dict[str, float]]:
    """A tokenizer, its special pieces, and the others with their scores.

    `sentences` are the words, each as often as it counts; no piece crosses `cuts` or white space. Pieces are in
    alphabetical order, because the trainer's own order changes from run to run, and the seeded start of a word's vector
    with it.
    """
    always = _letters(counts)
    letters = {letter for letter in always if len(letter) == 1}
    slow = sum(len(word) * count for word, count in counts.items()) > _SHOWN
    tokenizer = Tokenizer(models.Unigram())
    white = pre_tokenizers.WhitespaceSplit()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([white, *cuts]) if cuts else white
    trainer = trainers.UnigramTrainer(
        vocab_size=size - len(always - letters),  # letters with marks are added below
        unk_token=special_tokens[1],
        special_tokens=list(special_tokens),
        initial_alphabet=sorted(letters),
        max_piece_length=max_length,
        show_progress=slow and sys.stderr.isatty() and not are_progress_bars_disabled("hfxling"),
    )
    tokenizer.train_from_iterator(sentences, trainer, length=counts.total())
    learnt = json.loads(tokenizer.to_str())["model"]["vocab"]
    special, learnt = learnt[: len(special_tokens)], learnt[len(special_tokens) :]
    pieces = {}
    for piece, score in learnt:
        if piece in letters or _can_stand_alone(piece):
            pieces[piece] = score
    pieces |= dict.fromkeys(always - pieces.keys(), min(pieces.values()))
    pieces = {piece: pieces[piece] - number * _TIE_BREAK for number, piece in enumerate(sorted(pieces))}
    _set_pieces(tokenizer, special, pieces)
    return tokenizer, special, pieces


def _stretches(word: str) -> Iterator[str]:
    """A word, or the first parts of one that is too long for any language, as the trainer may crash on long words."""
    return (word[start : start + _LONGEST] for start in range(0, min(len(word), _PARTS * _LONGEST), _LONGEST))


def settle(tokenizer: Tokenizer, lines: Sequence[str], special: int) -> None:
    """Set the scores of Unigram pieces to the logarithms of their shares of the text, as cut with their present scores.

    The trainer's scores differ a little from run to run, but the pieces, and how they cut a text, hardly ever do. After
    this the same text gives the same tokenizer, to the byte. The first `special` ids keep their scores; all others are
    rounded to few enough digits to be the same after they are saved and read.
    """
    for _ in range(2):
        counts: Counter[int] = Counter()
        for row in tokenizer.encode_batch_fast(lines, add_special_tokens=False):
            counts.update(row.ids)
        vocabulary = json.loads(tokenizer.to_str())["model"]["vocab"]
        total = sum(counts.values())
        scores = {}
        for number, (piece, _) in enumerate(vocabulary[special:], special):
            share = max(counts[number], 0.5) / total
            scores[piece] = round(math.log(share), 6)
        _set_pieces(tokenizer, vocabulary[:special], scores)


def _set_pieces(tokenizer: Tokenizer, special: list, pieces: dict[str, float]) -> None:
    tokenizer.model = models.Unigram([*map(tuple, special), *pieces.items()], 1, False)


def _can_stand_alone(piece: str) -> bool:
    """Whether several letters may be a piece: they begin with no mark or bound vowel, and end with no leading vowel."""
    if len(piece) < 2 or not set(piece).isdisjoint(_MARKS):
        return False
    return unicodedata.category(piece[0])[0] != "M" and piece[0] not in _FOLLOWING and piece[-1] not in _LEADING
