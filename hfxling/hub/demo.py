"""A page in the browser that shows what a model does, on this machine or as a Space of the Hub."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import hfxling
from hfxling.data.texts import read_texts
from hfxling.files import atomic_path
from hfxling.verbs import Languages, Model, ReplacedFolder, Result, verb

# The Hub needs these files for a Space that runs Gradio: README.md with front matter, app.py, requirements.txt.
README = """---
title: {title}
sdk: gradio
sdk_version: {gradio}
app_file: app.py
models:
{models}
---

Translations, word links, mining and scores by {named}: the page of `hfxling demo`.
"""
HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)


@dataclass(frozen=True, repr=False)
class Space(Result):
    """A folder that can be uploaded as a Space.

    Attributes:
        folder: folder with README.md, app.py, requirements.txt, and demo.json, which names the model.
    """

    folder: Path

    def table(self) -> str:
        """Where it is and how to upload it."""
        return f"Space: {self.folder}; upload it with hf upload ORG/NAME {self.folder} --repo-type space"


@verb
def demo(
    model: Model | None = None,
    *,
    lexical: Model | None = None,
    languages: Languages | None = None,
    candidates: str | None = None,
    port: int | None = None,
    space: ReplacedFolder | None = None,
    revision: str | None = None,
    lexical_revision: str | None = None,
    prompt: str | None = None,
    batch_size: int = 32,
    device: str | None = None,
    trust_remote_code: bool = False,
) -> Space | None:
    """Show a model on a page in the browser, or as a Space of the Hub.

    The page has a tab for everything that the model can do: find the nearest translations, show word links in colour
    and the reasons for them, find pairs in two pasted texts, score translations. It runs until it is stopped (Ctrl-C).

    Example:
        >>> hfxling.demo("outputs/fit/model")
        >>> hfxling.demo("me/zh-vi", space="outputs/space")  # writes a folder, loads nothing

    Args:
        model: folder or Hub id of a model, made by hfxling or any other of sentence-transformers.
        lexical: folder or Hub id of a lexical model, alone or together with the model whose fusion was made for it.
        languages: codes of the languages that the page starts with; by default the model's first two.
        candidates: sentences that the page searches at first, as for `nearest`; by default the sample's test text.
        port: port of the page; by default the first free one from 7860.
        space: write a Space of the Hub into this folder and open no page.
        revision: branch, tag or commit of the model on the Hub.
        lexical_revision: branch, tag or commit of the lexical model.
        prompt: text put before every sentence; by default the model's own prompt.
        batch_size: number of texts encoded at once.
        device: device to compute on; by default a GPU if there is one.
        trust_remote_code: allow the code in the model's repository to run.

    Returns:
        With `space` the folder that was written, otherwise None.

    Raises:
        ValueError: without a model; for a model that a Space cannot read, or languages that it lacks; if gradio is not
            installed.
        FileNotFoundError: if a model or file does not exist.
    """
    if find_spec("gradio") is None:
        raise ValueError("the page needs the package gradio: pip install 'hfxling[demo]'.")
    if model is None and lexical is None:
        raise ValueError("no model to show: give a model, --lexical, or both.")
    if port is not None and not 1 <= port <= 65535:
        raise ValueError(f"port={port}: give a number from 1 to 65535.")
    settings = {
        "model": None if model is None else str(model),
        "lexical": None if lexical is None else str(lexical),
        "languages": None if languages is None else list(languages),
        "revision": revision,
        "lexical_revision": lexical_revision,
        "prompt": prompt,
        "batch_size": batch_size,
        "device": device,
        "trust_remote_code": trust_remote_code,
    }
    if space is not None:
        if candidates is not None:
            raise ValueError(f"candidates={candidates!r} is on this machine, and no Space can read it; leave it out.")
        return write_space(Path(space), settings)
    if candidates is not None:
        settings["candidates"] = read_texts(candidates).texts
    load_page().launch(port, **settings)
    return None


def page_folder() -> Path:
    """The folder of the page's files: inside an installed package, or beside it in a checkout."""
    package = Path(hfxling.__file__).parent
    for folder in (package / "spaces" / "demo", package.parent / "spaces" / "demo"):
        if (folder / "app.py").is_file():
            return folder
    raise FileNotFoundError(f"the page's file spaces/demo/app.py is missing in {package}; install hfxling again.")


def load_page() -> ModuleType:
    """The page's module; it stands outside the package, as in a Space."""
    spec = importlib.util.spec_from_file_location("hfxling_demo_page", page_folder() / "app.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write_space(folder: Path, settings: dict) -> Space:
    """Write the folder of a Space that shows the same model."""
    names = [name for name in (settings["model"], settings["lexical"]) if name is not None]
    for name in names:
        if not HUB_ID.fullmatch(name) or Path(name).exists():
            problem = f"{name!r} is not a Hub id, but a Space reads its model from the Hub"
            raise ValueError(f"{problem}: publish the model, and give ORG/NAME.")
    readme = README.format(
        title=names[0].rpartition("/")[2],
        gradio=version("gradio"),
        models="\n".join(f"- {name}" for name in names),
        named=" and ".join(names),
    )
    stated = {name: value for name, value in settings.items() if value is not None}
    with atomic_path(folder) as scratch:
        scratch.mkdir()
        (scratch / "README.md").write_text(readme, encoding="utf-8")
        (scratch / "demo.json").write_text(json.dumps(stated, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        (scratch / "requirements.txt").write_text(f"hfxling[demo]=={hfxling.__version__}\n", encoding="utf-8")
        shutil.copyfile(page_folder() / "app.py", scratch / "app.py")
    return Space(folder)
