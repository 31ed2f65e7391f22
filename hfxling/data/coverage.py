"""How well a tokenizer covers a language: unknown characters, fragments, missing scripts, texts that are too long."""

from __future__ import annotations

import unicodedata
import warnings
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

SAMPLE = 2_000  # number of texts on which rates are measured
_BATCH = 1_000
# Measured on 67 texts in 50 languages with a vocabulary of 28,000 pieces trained on about 30 of them. Of the characters
# of a language that it knows at most 2.3 % are unknown; of Traditional Chinese, Kazakh, Hebrew, Georgian, Malayalam,
# Telugu and Tamil, which it does not know, 6 to 98 %.
MAX_UNKNOWN_RATE = 0.05
# Text whose letters a vocabulary has becomes at most one piece per character, and some spaces. More pieces mean bytes.
MAX_PIECES_PER_CHARACTER = 1.5
_BYTE_VOCABULARY = 1_000  # tokenizers with fewer pieces work on bytes or letters by design, in every language
# First words that need a second one to name a script: MEETEI MAYEK, NEW TAI LUE, OL CHIKI, OLD ITALIC, SORA SOMPENG,
# TAI LE.
_TWO_WORD_SCRIPTS = {"MEETEI", "NEW", "OL", "OLD", "SORA", "TAI"}


class CoverageWarning(UserWarning):
    """Issued if a tokenizer covers a language badly, or cuts texts off."""


@dataclass(frozen=True)
class Coverage:
    """How a tokenizer cuts some texts.

    `unknown_rate` is the share of the characters (white space does not count) that lie in unknown pieces, 0 to 1. For a
    tokenizer without offsets (a slow one) it is the share of the pieces that are unknown. `missing_scripts` are the
    scripts of the texts most of whose letters are unknown or become several pieces (bytes), the most frequent first.
    """

    unknown_rate: float
    pieces_per_character: float  # without special pieces and white space
    missing_scripts: tuple[str, ...]
    truncated: int  # number of texts with more than `max_length` tokens, including special ones
    total: int  # number of texts


def measure_coverage(
    tokenizer: PreTrainedTokenizerBase, texts: Iterable[str], max_length: int | None = None
) -> Coverage:
    """Measure how a tokenizer covers texts: rates on at most `SAMPLE` evenly spaced ones, `truncated` on all.

    `max_length` is the number of tokens that the encoder takes, including special ones; with None no text counts as
    truncated.
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
    """Call `measure_coverage`, and issue a `CoverageWarning` for bad coverage and another one for texts cut off.

    Coverage is bad if more than `MAX_UNKNOWN_RATE` of the characters are unknown, or if a vocabulary that is byte-level
    or falls back on bytes gives more than `MAX_PIECES_PER_CHARACTER`.
    """
    coverage = measure_coverage(tokenizer, texts, max_length)
    for problem in coverage_problems(tokenizer, coverage, lang, max_length):
        warnings.warn(problem, CoverageWarning, stacklevel=2)
    return coverage


def coverage_problems(
    tokenizer: PreTrainedTokenizerBase, coverage: Coverage, lang: str, max_length: int | None
) -> list[str]:
    """The warnings of `check_coverage`."""
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
    """The share of unknown characters or pieces, and the pieces per character."""
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
    # The mark of a word's beginning does not count as a piece of the letter when it stands alone.
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
