"""Sentences to vectors.

hfxling encode text.vi --model DIR_OR_HUB_ID --output vectors.npy [--lang vi]
hfxling encode text.zh text.vi --model ... --lang zh vi
hfxling encode text.vi --model bert-base-multilingual-cased --layer 7 --pooling mean

Writes a float32 .npy of one row a line (`numpy.load(FILE, mmap_mode="r")` opens one of any size). A run that was
stopped goes on where it was; its work so far stands in .FILE.hfxling-partial beside the output until then.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hfxling.arguments import key, parse_arguments
from hfxling.data.features import cached_features
from hfxling.data.readers import read_lines
from hfxling.files import atomic_path, check_apart, reserved_array

from .model import ModelArguments

BLOCK = 65_536  # rows copied at a time
logger = logging.getLogger(__name__)
Embed = Callable[[list[str], str | None], np.ndarray]  # texts and their language to (N, D) vectors


@dataclass(kw_only=True)
class EncodeArguments(ModelArguments):
    """Text and vectors."""

    texts: list[str] = key("text files, one sentence a line, .gz or not; - is standard input", positional=True)
    output: list[str] | None = key(".npy file for each; by default TEXT.npy", None, writes="file")
    lang: list[str] | None = key("of all texts or of each, for models with a part for every language", None)
    layer: str | None = key("of a plain encoder: hidden_states index, last, or all for their mean", None)
    pooling: str | None = key("with --layer: mean, cls or last; by default mean", None)

    def __post_init__(self):
        for text in self.texts:
            if text != "-" and not Path(text).is_file():
                raise FileNotFoundError(f"{text}: no such file; give text files, or - for standard input.")
        if self.output is None and "-" in self.texts:
            raise ValueError("standard input needs --output FILE.npy.")
        self.output = self.output or [f"{text}.npy" for text in self.texts]
        if len(self.output) != len(self.texts) or len({*self.output}) != len(self.output):
            raise ValueError(f"{len(self.texts)} text(s), {len(self.output)} output(s); give one for each.")
        for path in self.output:
            if not path.endswith(".npy"):
                raise ValueError(f"output={path!r}: vectors are written as .npy; give such a name.")
        if self.lang and len(self.lang) not in (1, len(self.texts)):
            raise ValueError(f"{len(self.lang)} languages for {len(self.texts)} text(s); give one, or one for each.")
        if self.layer is None and self.pooling is not None:
            raise ValueError("--pooling needs --layer: without it the model pools as it was made to.")
        if self.layer is not None and not (self.layer in ("last", "all") or self.layer.isdigit()):
            raise ValueError(f"layer={self.layer!r}: give a number (0 = embedding output), 'last' or 'all'.")
        if self.layer is not None and (self.lang or self.prompt):
            raise ValueError("--layer reads a plain encoder, which takes neither --lang nor --prompt; leave them out.")


def main(argv: list[str] | None = None) -> list[Path]:
    (args,) = parse_arguments((EncodeArguments,), argv, prog="hfxling encode", description=__doc__)
    check_apart({f"output {row}": path for row, path in enumerate(args.output, 1)}, args.texts)
    embed, width, revision = load(args)
    about = {"revision": revision} | {name: getattr(args, name) for name in ("model", "prompt", "layer", "pooling")}
    languages = args.lang or [None]
    for i, (text, output) in enumerate(zip(args.texts, args.output)):
        lang = languages[i % len(languages)]
        lines = [line for _, line in read_lines("/dev/stdin" if text == "-" else text)]
        if not lines:
            raise ValueError(f"{text}: no line in it; give one sentence a line.")
        write(Path(output), lines, lambda batch, lang=lang: embed(batch, lang), width, about | {"lang": lang})
        logger.info("%d x %d: %s", len(lines), width, output)
    return [*map(Path, args.output)]


def load(args: EncodeArguments) -> tuple[Embed, int, str | None]:
    """The model's or a layer's embedding function, the vectors' width, and the revision of what computes them."""
    if not args.layer:
        encoder = args.encoder()
        for lang in args.lang or [None]:
            encoder.route(lang)
        width = encoder.model.get_embedding_dimension()
        return lambda batch, lang: encoder.encode(batch, lang, progress=False), width, encoder.revision
    from hfxling.encoders.frozen import FrozenEncoder

    layer = {"last": None, "all": "all"}[args.layer] if args.layer.isalpha() else int(args.layer)
    hub_kwargs = {"revision": args.model_revision} if args.model_revision else None
    encoder = FrozenEncoder(args.model, [(layer, args.pooling or "mean")], device=args.device, hub_kwargs=hub_kwargs)
    return lambda batch, lang: encoder(batch)[:, 0], encoder.hidden_size, encoder.revision


def write(output: Path, lines: list[str], embed: Callable[[list[str]], np.ndarray], width: int, key: dict) -> None:
    """Encode every distinct line once, and copy the vectors into the lines' order."""
    partial = output.with_name(f".{output.name}.hfxling-partial")
    row = {line: i for i, line in enumerate(dict.fromkeys(lines))}
    vectors = cached_features([*row], embed, key=key, shape=(width,), cache_dir=partial, description=output.name)
    with atomic_path(output) as scratch:
        rows = reserved_array(scratch, (len(lines), width))
        for start in range(0, len(lines), BLOCK):
            rows[start : start + BLOCK] = vectors[[row[line] for line in lines[start : start + BLOCK]]]
        rows.flush()
    shutil.rmtree(partial, ignore_errors=True)
