"""Sentences that translate nothing on the other side, for haystacks: text of each language from other sources.

Sources that are parallel to each other never stand on both sides (quran, talpco and anki are, by a third language).
"""

import random
from pathlib import Path

from hfxling.data.readers import read_lines

# By language pair the sources of either side; Lao has none but NTREX.
SOURCES = {
    "zh-vi": (("quran", "vi-zh"), ("alt", "anki", "talpco")),
    "lo-zh": ((), ("quran", "vi-zh", "anki")),
    "th-zh": (("anki", "talpco", "en-th"), ("quran", "vi-zh")),
    "id-zh": (("anki", "talpco"), ("quran", "vi-zh")),
    "lo-th": ((), ("quran", "anki", "talpco", "en-th")),
    "ja-en": (("alt", "quran"), ("anki", "en-th")),
}
# The same without everyday talk (vi-zh, anki, talpco) on both sides: some of it is a translation by chance, which
# encoders that know both languages find.
APART = {
    "zh-vi": (("quran",), ("alt", "anki", "talpco")),
    "th-zh": (("anki", "talpco", "en-th"), ("quran",)),
    "id-zh": (("anki", "talpco"), ("quran",)),
}
_COLUMNS = {"vi-zh": ("vi", "zh"), "en-th": ("en", "th"), "alt": ("ja", "vi")}
_FILES = {"vi-zh": "vi-zh/train.tsv", "en-th": "en-th/wizard-of-oz.tsv", "alt": "alt/ja-vi.train.tsv.gz"}


def distractors(
    data: str | Path, pair: str, most: int, taken: tuple = ((), ()), sources: dict | None = None
) -> list[list[str]]:
    """At most so many distinct sentences of each side, evenly from its sources, drawn once and for all (seed 0).

    Args:
        data: folder of the sources.
        pair: such as "zh-vi".
        most: of a side.
        taken: sentences of either side that are not to be among them.
        sources: by language pair, in place of `SOURCES`.
    """
    found = []
    for language, names, own in zip(pair.split("-"), (sources or SOURCES)[pair], taken):
        texts = [[*dict.fromkeys(_read(Path(data), name, language))] for name in names]
        for lines in texts:
            random.Random(0).shuffle(lines)
        mixed = [lines[i] for i in range(max(map(len, texts), default=0)) for lines in texts if i < len(lines)]
        seen = {*own}
        found.append([text for text in dict.fromkeys(mixed) if text not in seen][:most])
    return found


def _read(data: Path, source: str, language: str) -> list[str]:
    if source in _COLUMNS:
        column = _COLUMNS[source].index(language)
        return [_cells(text)[column] for _, text in read_lines(str(data / _FILES[source]))]
    if source == "anki":
        name, column = (f"en-{'de' if language == 'en' else language}", language != "en")
        return [_cells(text)[column] for _, text in read_lines(str(data / f"anki/{name}.tsv.gz"))]
    suffix = ".txt.gz" if source == "quran" else ".txt"
    return [
        stripped for _, text in read_lines(str(data / f"{source}/{language}{suffix}")) if (stripped := text.strip())
    ]


def _cells(text: str) -> list[str]:
    return [cell.strip() for cell in text.split("\t")]
