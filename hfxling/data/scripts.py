"""One tokenizer for languages with different scripts, so that the language of a text need not be named.

Each script is cut into the pieces of the language that it belongs to. Text that belongs to no language (digits,
punctuation, Latin names in Lao and Thai) is cut into pieces learnt from all texts together, so it looks the same in all
of them. If no language needs pieces, words are looked up whole.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain, permutations

from tokenizers import Regex, Tokenizer, models, pre_tokenizers

from .codes import written_like
from .coverage import script_name
from .segment import MAX_LETTERS, SPECIAL_TOKENS, UNIGRAM_SIZE, UNK, Vocabulary, script_normalizer
from .unigram import learn_unigram, settle

MINOR = 0.2  # largest share of a text's letters that may be in another language's script
LONE = ("Han", "Hiragana", "Katakana")  # scripts whose letters stand alone
_MARKS = r"[\p{M}\u200c\u200d]*"  # including joiners, which change the spelling


def own_scripts(lines: Mapping[str, Sequence[str]]) -> dict[str, str] | None:
    """The script of each language (code -> Unicode name), or None if scripts do not tell the languages apart."""
    shares: dict[str, dict[str, float]] = {}
    own = {}
    for lang, texts in lines.items():
        characters: Counter[str] = Counter()
        for text in texts:
            characters.update(text)
        counts: Counter[str] = Counter()
        for character, count in characters.items():  # each once, as looking up a Unicode name is slow
            if character.isalpha():
                counts[script_name(character)] += count
        shares[lang] = {script: count / counts.total() for script, count in counts.items()}
        if counts:
            own[lang] = max(counts, key=counts.get)
    if len({*own.values()}) < len(lines):  # two languages share a script, or a text has no letters
        return None
    for lang, other in permutations(own, 2):
        if shares[lang].get(own[other], 0.0) > MINOR:
            return None
    return own


def learn_shared_vocabularies(
    lines: Mapping[str, Sequence[str]],
    scripts: Mapping[str, str],
    *,
    sizes: Mapping[str, int],
    whole: Collection[str] = (),
) -> dict[str, Vocabulary]:
    """A vocabulary for each language, all with the same tokenizer.

    Args:
        lines: training text by language code.
        scripts: script of each language, from `own_scripts`.
        sizes: most pieces of each language's script.
        whole: languages whose words are not cut, unless others have to be: one tokenizer does one or the other.
    """
    cuts = _cuts(scripts.values())
    # When pieces are learnt, a zero-width space counts as a word boundary marked by the writer. When text is cut it is
    # ignored, as other text has none. Of 1,543 lines of Lao and Chinese news, left out in turn, static vectors then
    # find 87.3 % of the translations, sparse ones 93.9 (cut there, too: 84.6 and 92.6; ignored in both: 86.5 and 92.9).
    learning = script_normalizer(scripts.values(), keeps_zero_width=True)
    owner = {name: lang for lang, name in scripts.items()}
    groups: dict[str | None, list[list[str]]] = {}
    for text in chain.from_iterable(lines.values()):
        words_of: dict[str | None, list[str]] = {}  # None: words that no language owns
        for word, _ in cuts.pre_tokenize_str(learning.normalize_str(text)):
            words_of.setdefault(owner.get(script_name(word[0])), []).append(word)
        for lang, words in words_of.items():
            groups.setdefault(lang, []).append(words)
    specials = list(SPECIAL_TOKENS.values())
    is_whole = all(lang in whole or scripts[lang] in LONE for lang in lines)
    if is_whole:
        distinct: set[str] = set()
        for rows in groups.values():
            distinct.update(*rows)
        ids: dict[str, int] = {}
        for word in [*specials, *sorted(distinct)]:
            ids[word] = len(ids)
        tokenizer = Tokenizer(models.WordLevel(ids, specials[UNK]))
    else:
        pieces: dict[str, float] = {}
        for lang, rows in sorted(groups.items(), key=lambda item: item[0] or ""):
            pieces |= _pieces(rows, lang or "", sizes.get(lang, UNIGRAM_SIZE))
        scored = [(special, 0.0) for special in specials]
        scored += sorted(pieces.items())
        tokenizer = Tokenizer(models.Unigram(scored, UNK, False))
    tokenizer.add_special_tokens(specials)
    tokenizer.normalizer, tokenizer.pre_tokenizer = script_normalizer(scripts.values()), cuts
    segmenter = "words" if is_whole else "unigram"
    return {lang: Vocabulary(lang, tokenizer, segmenter) for lang in lines}


def _cuts(scripts: Iterable[str]) -> pre_tokenizers.PreTokenizer:
    """Runs of each script (single letters of scripts without words), runs of digits and of other letters, and signs.

    One expression takes half the time of splitting step by step. Characters it does not match, such as spaces, end a
    word.
    """
    alone = "".join(rf"\p{{{name}}}" for name in LONE)
    runs = [rf"(?:\p{{{name}}}{_MARKS})+" for name in scripts if name not in LONE]
    parts = [rf"[{alone}]{_MARKS}", *runs, r"\p{N}+", rf"(?:\p{{L}}{_MARKS})+", r"[^\s\p{C}]"]
    return pre_tokenizers.Split(Regex("|".join(parts)), "removed", invert=True)


def _pieces(rows: Sequence[Sequence[str]], lang: str, size: int) -> dict[str, float]:
    """The pieces of one group of words and their log shares."""
    counts = Counter(chain.from_iterable(rows))
    if max(map(len, counts)) == 1:  # letters stand alone, so there is nothing to cut or to learn
        return {word: round(math.log(count / counts.total()), 6) for word, count in counts.items()}
    specials = [*SPECIAL_TOKENS.values()]
    longest = MAX_LETTERS.get(written_like(lang), 16)
    tokenizer = learn_unigram(rows, size, specials, max_length=longest)
    settle(tokenizer, [" ".join(row) for row in rows], len(specials))
    return dict(json.loads(tokenizer.to_str())["model"]["vocab"][len(specials) :])
