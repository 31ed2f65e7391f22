"""Encode sentences as vectors, in .npy files."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from hfxling.data.features import cached_features
from hfxling.data.pairs import is_source
from hfxling.data.readers import read_lines
from hfxling.data.texts import as_list, file_and_range, numbered_distinct
from hfxling.encoders.loading import load_encoder
from hfxling.encoders.protocol import Encoder
from hfxling.files import alone_in, atomic_path, is_stream, reserved_array
from hfxling.progress import shown
from hfxling.verbs import Model, OutputFile, Text, verb

from .neighbours import slices

_STDIN = ("-", "/dev/stdin")
_BLOCK = 65_536  # rows copied at a time
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Encoded:
    """Vectors of texts.

    Attributes:
        vectors: for each text an (N, D) float32 array with one row for each line; memory-mapped if it is in a file.
    """

    vectors: list[np.ndarray]

    def to_text(self) -> str:
        """One line for each vector, its numbers separated by tabs."""
        lines = []
        for vectors in self.vectors:
            for row in vectors:
                lines.append("\t".join(f"{value:.7g}" for value in row) + "\n")
        return "".join(lines)


@verb
def encode(
    *source: Text,
    model: Model,
    language: Sequence[str] | str | None = None,
    layer: int | str | None = None,
    pooling: Literal["mean", "cls", "last"] | None = None,
    output: list[OutputFile] | OutputFile | None = None,
    revision: str | None = None,
    prompt: str | None = None,
    batch_size: int = 32,
    device: str | None = None,
    trust_remote_code: bool = False,
    progress: bool = True,
) -> Encoded:
    """Encode sentences as vectors, in .npy files.

    Every distinct line is encoded once. With `output`, a run that was stopped continues where it was; until it is done,
    its work is kept in .FILE.hfxling-partial beside the output.

    Example:
        >>> hfxling.encode(["Hôm nay trời mưa."], model="sentence-transformers/LaBSE").vectors[0].shape
        (1, 768)

    Args:
        source: text files, one sentence a line (plain, .gz, .xz or .bz2; `a.txt@1-1543` picks lines), - for standard
            input; or lists of sentences.
        model: folder or Hub id of any model that sentence-transformers loads, or a loaded one.
        language: language code of all texts, or one for each text; for models with a part for every language.
        layer: layer of a plain encoder: a hidden_states index, last, or all for the mean of all.
        pooling: how the layer's tokens are pooled: mean, cls or last; by default mean.
        output: .npy file for each text; without it the command prints the vectors.
        revision: branch, tag or commit of the model on the Hub.
        prompt: text put before every sentence; by default the model's own prompt.
        batch_size: number of texts encoded at once.
        device: device for the computation, such as cpu or cuda; by default a GPU if there is one.
        trust_remote_code: allow the code in the model's repository to run, which models on several layers need.
        progress: show progress bars.

    Returns:
        An (N, D) float32 array for each text.

    Raises:
        ValueError: no text, numbers of outputs or languages that do not match the texts, an output that does not end in
            .npy, a model with sparse vectors, or vectors with NaN.
        FileNotFoundError: a model or file that does not exist.
    """
    languages = [language] if language is None or isinstance(language, str) else list(language)
    outputs = output if isinstance(output, list) else [output]
    if output is None:
        outputs = []
    _check(source, languages, outputs, layer, pooling)
    encoder = load_encoder(
        model,
        revision=revision,
        prompt=prompt,
        layer=layer,
        pooling=pooling,
        batch_size=batch_size,
        device=device,
        trust_remote_code=trust_remote_code,
    )
    if not hasattr(encoder, "dimension"):
        raise ValueError(f"{encoder.label} has sparse vectors; give a model with dense ones.")
    if len(languages) == 1:
        languages = languages * len(source)
    if None in languages and encoder.languages:
        known = encoder.languages
        raise ValueError(f"{encoder.label} has parts for {', '.join(known)}; say which: give --language {known[0]}.")
    for each in languages:
        encoder.route(each)
    vectors = []
    for number, text in enumerate(source):
        lines = _lines(text)
        if outputs:
            _write(outputs[number], lines, encoder, languages[number], prompt)
            logger.info("%d x %d: %s", len(lines), encoder.dimension, outputs[number])
            vectors.append(np.load(outputs[number], mmap_mode="r"))
        else:
            distinct, rows = numbered_distinct(lines)
            vectors.append(encoder.encode(distinct, languages[number], progress=shown())[rows])
    return Encoded(vectors)


def _check(source: Sequence[Text], languages: list, outputs: list, layer: int | str | None, pooling: str | None):
    if not source:
        raise ValueError("no text; give text files or lists of sentences.")
    for text in source:
        if is_source(text) and str(text) not in _STDIN and not Path(file_and_range(str(text))[0]).is_file():
            raise FileNotFoundError(f"{text}: no such file; give text files, or - for standard input.")
    if outputs and len(outputs) != len(source):
        raise ValueError(f"{len(source)} text(s), {len(outputs)} output(s); give one for each.")
    for path in outputs:
        if Path(path).suffix != ".npy" or is_stream(path):
            raise ValueError(f"output={str(path)!r}: vectors are written as .npy; give a name with that ending.")
    if len(languages) not in (1, len(source)):
        raise ValueError(f"{len(languages)} languages for {len(source)} text(s); give one, or one for each.")
    if pooling is not None and layer is None:
        raise ValueError("pooling needs a layer; without one the model uses its own pooling.")
    if layer is not None and languages != [None]:
        raise ValueError("layer reads a plain encoder, which takes no language; leave out the language.")


def _lines(text: Text) -> list[str]:
    if not is_source(text):
        lines = as_list(text)
    else:
        file, picked_lines = file_and_range("/dev/stdin" if str(text) == "-" else str(text))
        lines = list(read_lines(file))
        if picked_lines is not None and lines and picked_lines[-1] > lines[-1][0]:
            raise ValueError(f"{text}: {file} has {lines[-1][0]} lines; lower the range.")
        lines = [line for number, line in lines if picked_lines is None or number in picked_lines]
    if not lines:
        name = text if is_source(text) else "source"
        raise ValueError(f"{name}: no line in it; give one sentence a line.")
    return lines


def _write(output: Path, lines: list[str], encoder: Encoder, language: str | None, prompt: str | None) -> None:
    """Write the vectors of lines into a file; a stopped run continues."""
    partial = output.with_name(f".{output.name}.hfxling-partial")
    key = {"model": encoder.name, "revision": encoder.revision, "prompt": prompt, "lang": language}
    distinct, row_of = numbered_distinct(lines)

    def embed(batch: list[str]) -> np.ndarray:
        return encoder.encode(batch, language, progress=False)

    with alone_in(partial, f"output={output}"):
        if encoder.is_in_memory:  # it may be another model than last time
            shutil.rmtree(partial, ignore_errors=True)
        vectors = cached_features(
            distinct, embed, key=key, shape=(encoder.dimension,), cache_dir=partial, description=output.name
        )
        with atomic_path(output) as scratch:
            rows = reserved_array(scratch, (len(lines), encoder.dimension))
            for block in slices(len(lines), _BLOCK):
                rows[block] = vectors[row_of[block]]
            rows.flush()
        shutil.rmtree(partial, ignore_errors=True)
