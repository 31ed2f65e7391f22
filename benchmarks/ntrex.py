"""The text and the untrained word aligner that the aligner's benchmarks share."""

from collections.abc import Mapping
from pathlib import Path

from hfxling.data.readers import read_lines
from hfxling.data.segment import Vocabulary, learn_vocabularies
from hfxling.methods.aligner.arguments import AlignerArguments
from hfxling.words.pairs import EncodedPairs

LINES = 1543  # that are trained on; the rest of NTREX is test text


def read_text(folder: str | Path, pair: str) -> dict[str, list[str]]:
    """Language code -> all lines of FOLDER/LANG.txt, of both languages of a pair."""
    return {lang: [text for _, text in read_lines(f"{folder}/{lang}.txt")] for lang in pair.split("-")}


def training_text(
    folder: str | Path, pair: str, segmenters: Mapping[str, str] | None = None
) -> tuple[dict[str, Vocabulary], EncodedPairs]:
    """Vocabularies of the training lines, and these lines in word ids."""
    lines = {lang: text[:LINES] for lang, text in read_text(folder, pair).items()}
    vocabularies = learn_vocabularies(lines, segmenters=segmenters)
    ids = ([row.ids for row in vocabularies[lang].encode_batch(text)] for lang, text in lines.items())
    return vocabularies, EncodedPairs(tuple(lines), *ids)


def settings_of(folder: str | Path, pair: str, **changed) -> AlignerArguments:
    """Of an aligner for this text."""
    return AlignerArguments(pairs=[pair], train_data=[f"{folder}/{{source}}.txt+{folder}/{{target}}.txt"], **changed)
