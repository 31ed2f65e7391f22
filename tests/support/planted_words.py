"""A text whose every word has one translation, and an aligner whose static vectors know it."""

from pathlib import Path

import torch
from tiny_models import tiny_aligner

from hfxling.data.segment import learn_vocabularies, save_vocabularies

WORDS = {"dog": "狗", "cat": "猫", "eats": "吃", "rice": "饭", "sees": "看", "today": "今天", "a": "一"}


def sentences(count: int) -> tuple[list[str], list[str]]:
    """English sentences and their translations, word by word."""
    words = list(WORDS)
    source = [[words[(i * k + k * k) % len(words)] for k in range(2, 3 + i % 4)] for i in range(count)]
    return [" ".join(row) for row in source], [" ".join(WORDS[word] for word in row) for row in source]


def write_planted(folder: Path) -> None:
    """A random model whose static vectors make each word the neighbour of its translation; 40 pairs, and gold links."""
    source, target = sentences(40)
    vocabularies = learn_vocabularies(
        {"en": source, "zh": target}, segmenters={"en": "words", "zh": "whitespace"}, pieces=60
    )
    model = tiny_aligner(vocabularies)
    with torch.no_grad():
        model.embedding.pieces.weight.zero_()
        english, chinese = (model.embedding.words[f"of_{lang}"].weight for lang in ("en", "zh"))
        english.normal_()
        for word, translation in WORDS.items():
            chinese[vocabularies["zh"].words.index(translation)] = english[vocabularies["en"].words.index(word)]
    model.save_pretrained(folder)
    save_vocabularies(vocabularies, folder)
    (folder / "source").write_text("\n".join(source) + "\n", encoding="utf-8")
    (folder / "target").write_text("\n".join(target) + "\n", encoding="utf-8")
    rows = [f"{s}\t{t}\t{' '.join(f'{i}-{i}' for i in range(len(s.split())))}" for s, t in zip(source, target)]
    (folder / "gold.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
