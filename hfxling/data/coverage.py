"""How well a tokenizer covers a language: unknown characters, fragments, missing scripts, texts that are cut off."""

from __future__ import annotations

import unicodedata
import warnings
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

SAMPLE = 2_000  # texts that rates are measured on
_BATCH = 1_000
# Measured on 67 texts in 50 languages with a vocabulary of 28,000 pieces trained on about 30 of them: at most 2.3 % of
# the characters of a language it knows are unknown, and 6 to 98 % of Traditional Chinese, Kazakh, Hebrew, Georgian,
# Malayalam, Telugu and Tamil, which it does not.
MAX_UNKNOWN_RATE = 0.05
# Text in letters that a vocabulary holds has one piece per character at most, and some spaces. More pieces mean bytes.
MAX_PIECES_PER_CHARACTER = 1.5
_BYTE_VOCABULARY = 1_000  # tokenizers with fewer pieces work on bytes or letters by design, in every language
# First words that need a second one to name a script: MEETEI MAYEK, NEW TAI LUE, OL CHIKI, OLD ITALIC, SORA SOMPENG,
# TAI LE.
_TWO_WORD_SCRIPTS = {"MEETEI", "NEW", "OL", "OLD", "SORA", "TAI"}


class CoverageWarning(UserWarning):
    """A tokenizer covers a language badly, or cuts texts off."""


@dataclass(frozen=True)
class Coverage:
    """What a tokenizer makes of some texts.

    `unknown_rate` is the share of the characters other than white space that lie in unknown pieces, 0 to 1; of a
    tokenizer without offsets (a slow one), the share of the pieces that are unknown. `missing_scripts` are those in the
    texts most of whose letters become unknown or several pieces (bytes), the most frequent one first.
    """

    unknown_rate: float
    pieces_per_character: float  # special pieces and white space apart
    missing_scripts: tuple[str, ...]
    truncated: int  # texts that have more than `max_length` tokens, special ones included
    total: int  # texts


def measure_coverage(
    tokenizer: PreTrainedTokenizerBase, texts: Iterable[str], max_length: int | None = None
) -> Coverage:
    """Measure what a tokenizer makes of texts, rates on at most `SAMPLE` evenly spaced ones, `truncated` on all.

    `max_length` is what the encoder takes in tokens, special ones included; None counts no text as truncated.
    """
    texts = list(texts)
    if not texts:
        raise ValueError("there are no texts to measure the tokenizer on; give at least one")
    if max_length is not None and max_length < 1:
        raise ValueError(f"max_length={max_length} is below 1; give the number of tokens that the encoder takes")
    truncated = 0
    if max_length is not None:
        for start in range(0, len(texts), _BATCH):
            batch = tokenizer(texts[start : start + _BATCH], verbose=False)
            truncated += sum(len(ids) > max_length for ids in batch["input_ids"])
    step = max(1, len(texts) / SAMPLE)
    sample = [texts[int(i * step)] for i in range(min(SAMPLE, len(texts)))]
    unknown_rate, pieces_per_character = _rates(tokenizer, sample)
    return Coverage(unknown_rate, pieces_per_character, _missing_scripts(tokenizer, sample), truncated, len(texts))


def check_coverage(
    tokenizer: PreTrainedTokenizerBase, texts: Iterable[str], lang: str, max_length: int | None = None
) -> Coverage:
    """Measure as `measure_coverage` does, and issue a `CoverageWarning` each for bad coverage and for texts cut off.

    Coverage is bad if more than `MAX_UNKNOWN_RATE` of the characters are unknown, or if the vocabulary, byte-level or
    with bytes to fall back on, gives more than `MAX_PIECES_PER_CHARACTER`.
    """
    coverage = measure_coverage(tokenizer, texts, max_length)
    for problem in coverage_problems(tokenizer, coverage, lang, max_length):
        warnings.warn(problem, CoverageWarning, stacklevel=2)
    return coverage


def coverage_problems(
    tokenizer: PreTrainedTokenizerBase, coverage: Coverage, lang: str, max_length: int | None
) -> list[str]:
    """What `check_coverage` warns of."""
    problems = []
    problem = ""
    if coverage.unknown_rate > MAX_UNKNOWN_RATE:
        unit = "characters" if tokenizer.is_fast else "pieces"
        problem = f"{coverage.unknown_rate:.1%} of the {unit} are unknown to it"
    elif coverage.pieces_per_character > MAX_PIECES_PER_CHARACTER and len(tokenizer) >= _BYTE_VOCABULARY:
        problem = f"it breaks each character into {coverage.pieces_per_character:.1f} pieces"
    if problem:
        if coverage.missing_scripts:
            problem += f", script {', '.join(coverage.missing_scripts[:3])} missing"
        name = tokenizer.name_or_path or type(tokenizer).__name__
        problems.append(f"{lang!r} is badly covered by tokenizer {name!r}: {problem}; choose an encoder trained on it")
    if coverage.truncated:
        share = f"{coverage.truncated} of {coverage.total} {lang!r} texts ({coverage.truncated / coverage.total:.1%})"
        problems.append(
            f"{share} are longer than max_length={max_length} tokens and lose their ends; raise it or split them"
        )
    return problems


def _rates(tokenizer: PreTrainedTokenizerBase, texts: list[str]) -> tuple[float, float]:
    """The share that is unknown, and the pieces per character."""
    characters = pieces = unknown_pieces = unknown_characters = 0
    for start in range(0, len(texts), _BATCH):
        batch = texts[start : start + _BATCH]
        encoded = tokenizer(batch, add_special_tokens=False, verbose=False, return_offsets_mapping=tokenizer.is_fast)
        characters += sum(map(_visible, batch))
        for row, (text, ids) in enumerate(zip(batch, encoded["input_ids"])):
            pieces += len(ids)
            for i, token in enumerate(ids):
                if token == tokenizer.unk_token_id:
                    unknown_pieces += 1
                    if tokenizer.is_fast:
                        first, last = encoded["offset_mapping"][row][i]
                        unknown_characters += _visible(text[first:last])
    pieces_per_character = pieces / max(characters, 1)
    if tokenizer.is_fast:
        return unknown_characters / max(characters, 1), pieces_per_character
    return unknown_pieces / max(pieces, 1), pieces_per_character


def _visible(text: str) -> int:
    return sum(map(len, text.split()))


def _missing_scripts(tokenizer: PreTrainedTokenizerBase, texts: list[str]) -> tuple[str, ...]:
    counts = Counter(unicodedata.normalize("NFKC", "".join(texts)))
    # Not Lm: the names of modifier letters do not begin with a script.
    letters = [letter for letter in counts if unicodedata.category(letter) in ("Lu", "Ll", "Lt", "Lo")]
    # The mark of a word's beginning, where it stands alone, is no piece of the letter.
    ignored = set(tokenizer.convert_tokens_to_ids(["▁", "Ġ"])) - {tokenizer.unk_token_id}
    encoded = tokenizer(letters, add_special_tokens=False, verbose=False)["input_ids"] if letters else []
    total, lacking = Counter(), Counter()  # script -> letters in the texts
    for letter, ids in zip(letters, encoded):
        script = script_name(letter)
        total[script] += counts[letter]
        pieces = [token for token in ids if token not in ignored]
        if tokenizer.unk_token_id in ids or len(pieces) > 1:
            lacking[script] += counts[letter]
    return tuple(script for script, count in total.most_common() if lacking[script] > count / 2)


def script_name(letter: str) -> str:
    """The script of a letter, from its Unicode name: "LAO LETTER KO" is Lao."""
    words = unicodedata.name(letter, "UNNAMED").replace("-", " ").split()
    if words[0] == "CJK":
        return "Han"
    length = 2 if words[0] in _TWO_WORD_SCRIPTS else 1
    return " ".join(words[:length]).title()
