"""Write the files of the sample corpus that the grammar makes: python tools/sample_grammar/write.py

A test compares them byte for byte with what stands in hfxling/data/sample.
"""

import lzma
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tools"))
from sample_grammar.grammar import GRAMMAR_CATEGORIES, ParallelSentence, generate, lexicon
from sample_grammar.rules import LANGUAGES, TEMPLATES

FOLDER = ROOT / "hfxling" / "data" / "sample"
COUNTS = {"train": 1654, "dev": 170, "test": 328}  # as hfxling.data.sample.SPLITS


def generated_rows() -> str:
    """Sentences as TSV: end mark and words, where words with one number are linked.

    The number expected of a word is the one after that of the numbered word before it (0 for the first). `word` has
    that number, `word/2` one that is greater by 2, `word/-2` one that is less by 2, and `word/` has none. Rows are in
    blocks, one for each language and in it one for each split. All that makes a wheel smaller, which is
    compressed.
    """
    sentences = []
    for split, count in COUNTS.items():
        sentences += generate(split, count)
    lines = ["end\twords"]
    for language in LANGUAGES:
        for sentence in sentences:
            end = "?" if TEMPLATES[sentence.template].question else "."
            lines.append("\t".join([end, _cell(sentence, language)]))
    return "\n".join(lines) + "\n"


def dictionary_rows() -> str:
    """The words of all languages that translate each other, as TSV, without those of the grammar itself."""
    lines = ["\t".join(LANGUAGES)]
    for entry in lexicon().values():
        if entry.category not in GRAMMAR_CATEGORIES:
            lines.append("\t".join(entry.words[language][""] for language in LANGUAGES))
    return "\n".join(lines) + "\n"


def _cell(sentence: ParallelSentence, language: str) -> str:
    """The words and commas of a sentence in their order."""
    concepts = iter(sentence.concepts[language])
    expected = 0
    parts = []
    for word in sentence.spoken[language]:
        if "|" in word or "/" in word:
            raise ValueError(f"{word!r}: | and / set words apart in the file.")
        if word == ",":
            parts.append(word)
            continue
        concept = next(concepts)
        if concept < 0:
            parts.append(f"{word}/")
            continue
        parts.append(word if concept == expected else f"{word}/{concept - expected}")
        expected = concept + 1
    return "|".join(parts)


if __name__ == "__main__":
    packed = lzma.compress(generated_rows().encode(), preset=9 | lzma.PRESET_EXTREME)
    (FOLDER / "generated.tsv.xz").write_bytes(packed)
    (FOLDER / "dictionary.tsv").write_text(dictionary_rows(), encoding="utf-8", newline="\n")
