"""The `hfxling` command. A command's module, and with it whatever is heavy, is imported when it is asked for."""

from __future__ import annotations

import difflib
import sys
from importlib import import_module

from hfxling import __version__
from hfxling.console import run as run_recipe

COMMANDS = {
    "fit": "the best model for your sentence pairs",
    "evaluate": "measure any model: retrieval, Tatoeba, mining, similarity, geometry, mteb",
    "compare": "test whether models differ on what evaluate measured",
    "mine": "sentence pairs out of two heaps of text",
    "bootstrap": "a bitext and a model, from a hundred pairs and two heaps of text",
    "quality": "score translations without references, and flag bad ones",
    "clean": "sentence pairs without the bad ones, and why those are bad",
    "align-documents": "sentences of two texts that translate each other, document by document",
    "publish": "a model's folder, or data, onto the Hub, after checking it",
    "verify": "whether a folder or repository is what its card says",
    "export": "a model's folder for other runtimes: ONNX, weights of 8 bits",
    "explain": "the links that make the score of a sentence pair",
    "demo": "a page in the browser: translations, links, mining; or a Space of the Hub",
}


def main(argv: list[str] | None = None) -> None:
    """Run the command that `argv` (by default the process') begins with, or list them all."""
    argv = sys.argv[1:] if argv is None else argv
    run_recipe(lambda: _run(*argv), argv)


def _run(name: str = "--help", *argv: str) -> None:
    if name in COMMANDS:
        import_module(f"hfxling.old.{name.replace('-', '_')}").main(list(argv))
    elif name == "--version":
        print(f"hfxling {__version__}")
    elif name in ("-h", "--help"):
        rows = "\n".join(f"  {command:<17}{summary}" for command, summary in COMMANDS.items())
        print(f"usage: hfxling COMMAND [--KEY VALUE ...]\n\n{rows}\n\nhfxling COMMAND --help lists a command's keys.")
    else:
        near = difflib.get_close_matches(name, COMMANDS, n=1, cutoff=0.0)
        raise ValueError(f"unknown command {name!r}; the nearest is {near[0]!r}, all are {', '.join(COMMANDS)}.")
