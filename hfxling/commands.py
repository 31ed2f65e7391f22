"""The table of commands, with the public function that each of them calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import hfxling


class Command(NamedTuple):
    """The public name of a command's verb, and the first line of its docstring, as --help imports no verb."""

    verb: str
    summary: str


COMMANDS = {
    "fit": Command("select", "Find the best model for your sentence pairs."),
    "encode": Command("encode", "Encode sentences as vectors, in .npy files."),
    "nearest": Command("nearest", "Find the nearest translations of sentences."),
    "evaluate": Command("evaluate", "Measure any model: retrieval, mining, similarity, ..."),
    "compare": Command("compare", "Test whether models differ on what was measured."),
    "mine": Command("mine", "Mine sentence pairs from two texts."),
    "bootstrap": Command("bootstrap", "Make a bitext and a model from two texts."),
    "quality": Command("quality", "Score translations without references."),
    "clean": Command("clean", "Remove bad sentence pairs, and say why they are bad."),
    "align": Command("align_words", "Link the words of line-aligned text."),
    "align-documents": Command("align_documents", "Align the sentences of texts that translate each other."),
    "lexicon": Command("lexicon", "Make a bilingual word list from aligned text."),
    "publish": Command("publish", "Check a model's folder, or data, and upload it to the Hub."),
    "verify": Command("verify", "Check that a folder or repository is what its card says."),
    "export": Command("export", "Export a model's folder for other runtimes."),
    "explain": Command("explain", "Show the word links that make up the score of a sentence pair."),
    "demo": Command("demo", "Show a model on a page in the browser, or as a Space of the Hub."),
}


def load_verb(name: str) -> Callable:
    """The function that a command calls."""
    return getattr(hfxling, COMMANDS[name].verb)
