"""The embedded corpus: sentences written for this project, and others made by a small grammar, with gold word links.

It is for quickstarts, tests and demos, and is no benchmark. `sentences.tsv` has natural everyday sentences in six
languages, `generated.tsv.xz` has those of the grammar; no two splits share one of its templates. Row i is the same
sentence in every language. `dictionary.tsv` has the grammar's content words.
"""

from __future__ import annotations

import lzma
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from hfxling.data.codes import TWO_LETTERS

if TYPE_CHECKING:
    from datasets import Dataset

LANGUAGES = ("en", "zh", "vi", "th", "id", "lo")
# Number of generated sentences that follow a split's natural ones. Together these are about 2,000 training pairs and
# 400 test pairs, the sizes of Huang et al. (2023).
SPLITS = {"train": 1654, "dev": 170, "test": 328}


@dataclass(frozen=True)
class LinkedSentence:
    """A sentence of the grammar in six languages.

    Attributes:
        words: language -> words in that language's order, without punctuation or sentence capital. What a dictionary
            lists as one word is one word here, even if it is written with a space ("bệnh viện", "rumah sakit").
        concepts: language -> for each word the number of the concept it expresses; -1 for a word without counterpart in
            any other language (English "the", Thai แก่). A number occurs at most once in a language.
        texts: language -> the sentence as written.
    """

    words: dict[str, tuple[str, ...]]
    concepts: dict[str, tuple[int, ...]]
    texts: dict[str, str]

    def links(self, source_lang: str, target_lang: str) -> list[tuple[int, int]]:
        """Gold sure links (index of source word, index of target word), sorted."""
        position = {concept: j for j, concept in enumerate(self.concepts[target_lang]) if concept >= 0}
        return [(i, position[concept]) for i, concept in enumerate(self.concepts[source_lang]) if concept in position]


def load_sample(source_lang: str, target_lang: str, split: str = "train") -> Dataset:
    """Parallel sentences in two of `LANGUAGES`, with columns source, target, source_lang, target_lang.

    A language may be given by its code of three letters (cmn), which is then the one in the column.
    """
    from datasets import Dataset

    source = sample_texts(source_lang, split)
    target = sample_texts(target_lang, split)
    languages = {"source_lang": [source_lang] * len(source), "target_lang": [target_lang] * len(target)}
    return Dataset.from_dict({"source": source, "target": target, **languages})


def sample_texts(lang: str, split: str = "train", *, generated: int | None = None) -> list[str]:
    """The sentences of one language, by its code of two or three letters; row i is the same sentence in all languages.

    The natural ones are followed by `generated` ones of the grammar, by default all, `SPLITS[split]`; ValueError for
    more.
    """
    (lang,) = check_sample((lang,), split)
    count = SPLITS[split] if generated is None else generated
    if not 0 <= count <= SPLITS[split]:
        raise ValueError(f"generated={count}: give 0 to {SPLITS[split]}, as many as split {split!r} of the sample has.")
    natural = [row[lang] for row in _rows("sentences.tsv") if row["split"] == split]
    return natural + [sentence.texts[lang] for sentence in linked_sentences(split)[:count]]


class NotInSample(ValueError):
    """The embedded corpus has no text in a language."""


def check_sample(languages: Iterable[str], split: str) -> list[str]:
    """The corpus' own codes of languages, such as zh for cmn; refuses languages and splits that it lacks."""
    codes = []
    for lang in languages:
        codes.append(TWO_LETTERS.get(lang, lang))  # not the base code: one with a region (zh-tw) may be another script
        if codes[-1] not in LANGUAGES:
            raise NotInSample(f"language {lang!r} is not in the sample corpus; choose from {', '.join(LANGUAGES)}.")
    if split not in SPLITS:
        raise ValueError(f"split={split!r}: the sample corpus has {', '.join(SPLITS)}.")
    return codes


@cache
def linked_sentences(split: str) -> list[LinkedSentence]:
    """The grammar's sentences of a split, with gold links."""
    sentences = [LinkedSentence({}, {}, {}) for _ in range(SPLITS[split])]
    rows = _rows("generated.tsv.xz")  # a block for each language, with a block for each split in it
    of_language = sum(SPLITS.values())
    names = list(SPLITS)
    first_of_split = sum(SPLITS[name] for name in names[: names.index(split)])
    for block, lang in enumerate(LANGUAGES):
        first = block * of_language + first_of_split
        for sentence, row in zip(sentences, rows[first : first + len(sentences)]):
            words, concepts = _numbered(row["words"].split("|"))
            sentence.words[lang] = tuple(word for word in words if word != ",")
            sentence.concepts[lang] = tuple(concepts)
            sentence.texts[lang] = written(words, lang, row["end"])
    return sentences


def _numbered(cells: Sequence[str]) -> tuple[list[str], list[int]]:
    """The words and commas of a row, and the number of each word, stored as its distance from the number expected."""
    words, concepts = [], []
    expected = 0
    for cell in cells:
        word, slash, difference = cell.partition("/")
        words.append(word)
        if word == ",":
            continue
        if slash and not difference:
            concepts.append(-1)
            continue
        concepts.append(expected + int(difference or 0))
        expected = concepts[-1] + 1
    return words, concepts


def written(words: Sequence[str], lang: str, end: str) -> str:
    """Words and commas as a sentence that ends with "." or "?".

    zh is written without spaces; th and lo have a space only between clauses, and no full stop.
    """
    if lang == "zh":
        return "".join(words).replace(",", "，") + ("？" if end == "?" else "。")
    if lang in ("th", "lo"):
        return "".join(words).replace(",", " ")
    text = " ".join(words).replace(" ,", ",")
    return text[0].upper() + text[1:] + end


def dictionary(source_lang: str, target_lang: str) -> list[tuple[str, str]]:
    """The gold dictionary of content words, (source word, target word) without repeats."""
    source_lang, target_lang = check_sample((source_lang, target_lang), "train")
    return list(dict.fromkeys((row[source_lang], row[target_lang]) for row in _rows("dictionary.tsv")))


@cache
def _rows(name: str) -> list[dict[str, str]]:
    """The rows of one of the corpus' tables."""
    content = files(__package__).joinpath(name).read_bytes()
    if name.endswith(".xz"):
        content = lzma.decompress(content)
    lines = content.decode("utf-8").split("\n")
    names = lines[0].split("\t")
    return [dict(zip(names, line.split("\t"))) for line in lines[1:] if line]
