"""A page in the browser: nearest translations, the links of a pair and their reasons, pairs out of two pasted texts.

hfxling demo --model DIR_OR_ID [--lexical DIR_OR_ID] [--source_lang zh --target_lang vi]
hfxling demo --model ORG/NAME --space FOLDER      writes a Space of the Hub with this page; nothing is loaded

Any model of hfxling or sentence-transformers. What a model cannot do has no tab: links are shown by lexical encoders
and by aligners.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from hfxling import __version__
from hfxling.arguments import as_tokens, key, parse_arguments, resolved
from hfxling.files import atomic_path, check_place
from hfxling.sentences.nearest import read_candidates

from .model import ShownArguments

logger = logging.getLogger(__name__)
# What the Hub wants of a Space that runs Gradio: front matter, app.py, requirements.txt.
README = """---
title: {title}
sdk: gradio
sdk_version: {gradio}
app_file: app.py
models:
{models}
---

Nearest translations, word links and mining by {named}: the page of `hfxling demo`.
"""
APP = '''"""The page of `hfxling demo`, as a Space."""

from hfxling.old.demo import main

main({argv})
'''


@dataclass(kw_only=True)
class DemoArguments(ShownArguments):
    """The model, and where the page is."""

    candidates: str | None = key("text file to begin with; by default the sample corpus' test text", None)
    port: int | None = key("of the page; by default the first free one from 7860", None, least=1)
    space: str | None = key("write a Space of the Hub into this folder instead", None, writes="folder")

    def __post_init__(self):
        super().__post_init__()
        if not find_spec("gradio"):
            raise ValueError("the page needs the package gradio: pip install 'hfxling[demo]'.")


def main(argv: list[str] | None = None) -> None:
    (args,) = parse_arguments((DemoArguments,), argv, prog="hfxling demo", description=__doc__)
    if args.space:
        write_space(args)
        logger.info("Space: %s; upload it with hf upload ORG/NAME %s --repo-type space", args.space, args.space)
        return
    from .demo_model import ShownModel
    from .demo_page import page

    model = ShownModel(args)
    candidates = read_candidates(args.candidates, model.pair[1]) if args.candidates else None
    blocks, look = page(model, candidates)
    blocks.launch(server_port=args.port, footer_links=[], **look)


def write_space(args: DemoArguments) -> None:
    """Write the folder of a Space that shows the same model.

    Raises:
        ValueError: a model, or candidates, on this machine, where the Space cannot read them; a folder with files.
    """
    folder = Path(args.space)
    names = [name for name in (args.model, args.lexical) if name]
    for name in names:
        if Path(name).exists() or name.count("/") != 1:
            raise ValueError(f"{name!r} is no id on the Hub, where a Space reads its model: publish it, give ORG/NAME.")
    if args.candidates:
        raise ValueError(f"candidates={args.candidates!r} is a file of this machine; leave it out with --space.")
    check_place("space", folder, is_folder=True)
    if folder.exists() and any(folder.iterdir()):
        raise ValueError(f"space={args.space!r} is a folder with files in it; name another one.")
    argv = as_tokens({name: value for name, value in resolved(args).items() if name not in ("space", "port")})
    front = {"title": names[0].rpartition("/")[2], "gradio": version("gradio"), "named": " and ".join(names)}
    files = {
        "README.md": README.format(models="\n".join(f"- {name}" for name in names), **front),
        "app.py": APP.format(argv=json.dumps(argv, ensure_ascii=False)),
        "requirements.txt": f"hfxling[demo]=={__version__}\n",
    }
    with atomic_path(folder) as scratch:
        scratch.mkdir()
        for name, text in files.items():
            (scratch / name).write_text(text, encoding="utf-8")
