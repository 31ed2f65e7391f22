"""The nearest translations of sentences, by any model that sentence-transformers loads, a lexical encoder, or both.

hfxling nearest "今天下雨。" --model outputs/quickstart/zh-vi/lexical/model [--candidates FILE] [--top 3]
hfxling nearest "今天下雨。" --lexical FOLDER

A model with a part for each language takes the first one's for the sentences and the second one's for the candidates,
unless --source_lang and --target_lang say otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass

from hfxling.arguments import key, parse_arguments
from hfxling.data.readers import read_lines
from hfxling.data.sample import LANGUAGES, sample_texts
from hfxling.sentences.neighbours import nearest

from .model import FusedArguments


@dataclass(kw_only=True)
class NearestArguments(FusedArguments):
    """Sentences and candidates."""

    sentences: list[str] = key("in the source language", positional=True)
    candidates: str | None = key("text file, one sentence a line; by default the sample corpus' test text", None)
    source_lang: str | None = key("of the sentences; by default the model's first", None)
    target_lang: str | None = key("of the candidates; by default the model's second", None)
    top: int = key("translations shown for each sentence", 3, least=1)


def main(argv: list[str] | None = None) -> None:
    (args,) = parse_arguments((NearestArguments,), argv, prog="hfxling nearest", description=__doc__)
    if not all(map(str.strip, args.sentences)):
        raise ValueError(f"sentence {1 + [*map(str.strip, args.sentences)].index('')} is empty; give text.")
    encoder = args.scorer()
    languages = [*encoder.languages, None, None]
    target_lang = args.target_lang or languages[1]
    candidates = read_candidates(args.candidates, target_lang)
    queries = encoder.encode(args.sentences, args.source_lang or languages[0], "query", progress=False)
    found = encoder.encode(candidates, target_lang, "document")
    places, scores = nearest(queries, found, args.top, encoder.method)
    for sentence, row, values in zip(args.sentences, places, scores):
        print(f"\n{sentence}")
        for place, score in zip(row, values):
            print(f"  {score:.3f}  {candidates[place]}")


def read_candidates(path: str | None, target_lang: str | None) -> list[str]:
    """Lines of a file, or the embedded corpus' test sentences of the language."""
    if path is None:
        if target_lang not in LANGUAGES:
            known = f"is one of the sample corpus' {', '.join(LANGUAGES)}"
            raise ValueError(f"target_lang={target_lang!r}: give --candidates FILE, or a --target_lang that {known}.")
        return sample_texts(target_lang, "test")
    lines = [stripped for _, line in read_lines(path) if (stripped := line.strip())]
    if not lines:
        raise ValueError(f"{path}: no sentence in it; give one sentence a line.")
    return lines
