"""Made-up parallel text, and options as a command line."""

import random

from hfxling.data.sample import sample_texts

CHARACTERS = "我爱吃苹果你好今天下雨的是在有人不"
TRAIN, TEST = 80, 20


def sentence_pairs(count):
    """Distinct made-up sentences and their word-by-word translations, all in letters that the tiny tokenizer has."""
    rng, sources = random.Random(0), {}
    while len(sources) < count:
        sources["".join(rng.choices(CHARACTERS, k=rng.randint(5, 8)))] = None
    words = {character: f"{'ch'[i % 2]}{'abdegiklmnopqrstu'[i]}" for i, character in enumerate(CHARACTERS)}
    return [(text, " ".join(map(words.get, text))) for text in sources]


def command_line(options):
    words = []
    for key, value in options.items():
        if value is not None:
            words += [f"--{key}", *map(str, value if isinstance(value, list) else [value])]
    return words


def write_documents(folder):
    """A folder as that of NTREX: 150 training and 40 test lines of zh and vi, ten to a document."""
    folder.mkdir()
    for lang in ("zh", "vi"):
        lines = sample_texts(lang, "train", generated=0)[:150] + sample_texts(lang, "test")[:40]
        (folder / f"{lang}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    names = [f"document {i // 10}" for i in range(190)]
    (folder / "DOCUMENT_IDS.tsv").write_text("\n".join(names) + "\n", encoding="utf-8")
