"""The embedded corpus: sentences written for this project, plus a grammar that yields more with gold word links.

It feeds quickstarts, tests and demos, and is no benchmark. `sentences.tsv` holds natural everyday sentences in six
languages, each line assigned to one split; `grammar.py` and `lexicon.tsv` generate further parallel sentences from
templates of which no two splits share one.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from .grammar import LANGUAGES, dictionary, generate

if TYPE_CHECKING:
    from datasets import Dataset

__all__ = ["LANGUAGES", "SPLITS", "check_sample", "dictionary", "generate", "load_sample", "sample_texts"]

# Generated sentences a split holds beside its natural ones, unless the caller asks for another number: about 2,000
# training pairs and 400 test pairs, the sizes of Huang et al. (2023).
SPLITS = {"train": 1654, "dev": 170, "test": 328}


def load_sample(source_lang: str, target_lang: str, split: str = "train", *, generated: int | None = None) -> Dataset:
    """Parallel sentences of two of `LANGUAGES`, columns source, target, source_lang, target_lang.

    Args:
        source_lang: one of `LANGUAGES`.
        target_lang: another one.
        split: one of `SPLITS`.
        generated: how many sentences of the grammar follow the natural ones; by default `SPLITS[split]`.

    Raises:
        ValueError: for an unknown language or split, or more sentences than the split's templates yield.
    """
    from datasets import Dataset

    if source_lang == target_lang:
        raise ValueError(f"source and target language are both {source_lang!r}; choose two of {', '.join(LANGUAGES)}.")
    source, target = (sample_texts(lang, split, generated=generated) for lang in (source_lang, target_lang))
    languages = {"source_lang": [source_lang] * len(source), "target_lang": [target_lang] * len(target)}
    return Dataset.from_dict({"source": source, "target": target, **languages})


def sample_texts(lang: str, split: str = "train", *, generated: int | None = None) -> list[str]:
    """The sentences of one language; row i of every language is the same sentence. Arguments as for `load_sample`."""
    check_sample((lang,), split)
    natural = [row[lang] for row in _natural() if row["split"] == split]
    count = SPLITS[split] if generated is None else generated
    return natural + [sentence.text(lang) for sentence in _generated(split, count)]


def check_sample(languages: Iterable[str], split: str) -> None:
    """Raise ValueError for a language or a split that the corpus lacks."""
    for lang in languages:
        if lang not in LANGUAGES:
            raise ValueError(f"language {lang!r} is not in the sample corpus; choose from {', '.join(LANGUAGES)}.")
    if split not in SPLITS:
        raise ValueError(f"split={split!r}: the sample corpus has {', '.join(SPLITS)}.")


@cache
def _natural() -> list[dict[str, str]]:
    lines = files(__package__).joinpath("sentences.tsv").read_text(encoding="utf-8").split("\n")
    names = lines[0].split("\t")
    return [dict(zip(names, line.split("\t"))) for line in lines[1:] if line]


@cache
def _generated(split: str, count: int) -> list:
    return generate(split, count) if count else []
