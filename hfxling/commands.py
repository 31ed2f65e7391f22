"""The table of commands: the public function that each of them calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import hfxling


class Command(NamedTuple):
    """The public name of a command's verb, and the first line of its docstring: for --help, which imports none."""

    verb: str
    summary: str


COMMANDS = {
    "fit": Command("select", "The best model for your sentence pairs."),
    "encode": Command("encode", "Sentences to vectors, as .npy."),
    "nearest": Command("nearest", "The nearest translations of sentences."),
    "evaluate": Command("evaluate", "Measure any model: retrieval, mining, similarity, ..."),
    "compare": Command("compare", "Test whether models differ on what was measured."),
    "mine": Command("mine", "Sentence pairs out of two texts."),
    "bootstrap": Command("bootstrap", "A bitext and a model out of two texts."),
    "quality": Command("quality", "Score translations without references."),
    "clean": Command("clean", "Sentence pairs without the bad ones, and why those are bad."),
    "align": Command("align_words", "Word links of line-aligned text."),
    "align-documents": Command("align_documents", "Sentences of texts that translate each other."),
    "lexicon": Command("lexicon", "A bilingual word list out of aligned text."),
    "publish": Command("publish", "A model's folder, or data, onto the Hub, after checking it."),
    "verify": Command("verify", "Whether a folder or repository is what its card says."),
    "export": Command("export", "A model's folder for other runtimes."),
    "explain": Command("explain", "The word links that make the score of a sentence pair."),
    "demo": Command("demo", "A page in the browser, or a Space of the Hub."),
}


def load_verb(name: str) -> Callable:
    """The function that a command calls."""
    return getattr(hfxling, COMMANDS[name].verb)
