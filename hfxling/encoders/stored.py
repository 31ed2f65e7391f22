"""Vectors that the user already has, and single layers of plain encoders, as encoders."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np

from hfxling.data.features import load_vectors
from hfxling.files import content_hash

from .frozen import FrozenEncoder, WordStates
from .identity import content_hash_of, identity, model_name
from .prompts import prompt_of
from .protocol import ROLES


class StoredVectors:
    """Files of vectors as an `Encoder`: the first file of a side for the first texts that are asked for, and so on.

    Args:
        source: files of the queries' vectors (.npy, .parquet, .jsonl).
        target: of the documents'.

    Raises:
        FileNotFoundError: a file that is not there.
    """

    method = "cosine"
    name = label = "vectors"
    prompt = None
    languages: ClassVar[list[str]] = []
    routes = ROLES

    def __init__(self, source: Sequence[str | Path], target: Sequence[str | Path]):
        self.files = {"query": list(source), "document": list(target)}
        paths = [Path(path) for path in (*source, *target)]
        for path in paths:
            if not path.is_file():
                raise FileNotFoundError(f"{path}: no such file of vectors; give .npy, .parquet or .jsonl.")
        self.revision = "+".join(content_hash_of([path], path.parent) for path in paths)
        self._loaded: dict[str, dict[str, np.ndarray]] = {"query": {}, "document": {}}

    def route(self, language: str | None, role: str | None = None) -> str | None:
        """The role, which says from which side's files vectors come."""
        return role

    def encode(
        self,
        texts: Sequence[str],
        language: str | None = None,
        role: str | None = None,
        *,
        progress: bool | None = None,
    ) -> np.ndarray:
        """(N, D) float32 vectors of the next file of the side that `role` says, one a text."""
        key = content_hash(texts)
        files, loaded = self.files[role], self._loaded[role]
        if key not in loaded:
            if len(loaded) == len(files):
                raise ValueError(
                    f"{len(files)} file(s) of vectors a side for {len(files) + 1} texts; give one for each."
                )
            loaded[key] = load_vectors(files[len(loaded)], rows=len(texts))
        return loaded[key]


class LayerEncoder:
    """A layer of a plain transformer encoder, pooled, as an `Encoder`.

    Args:
        model: Hub id or folder.
        layer: `hidden_states` index, None for the last one, "all" for their mean.
        pooling: "mean", "cls" or "last".
        revision: branch, tag or commit on the Hub.
        device: by default a GPU when there is one.
        prompt: put before every text.
        query_prompt: put before queries in its place.
        document_prompt: put before documents in its place.

    Raises:
        As `FrozenEncoder`.
    """

    method = "cosine"
    languages: ClassVar[list[str]] = []
    routes: ClassVar[list[str]] = []

    def __init__(
        self,
        model: str | Path,
        layer: int | str | None,
        pooling: str = "mean",
        revision: str | None = None,
        *,
        device: str | None = None,
        prompt: str | None = None,
        query_prompt: str | None = None,
        document_prompt: str | None = None,
    ):
        hub_kwargs = {"revision": revision} if revision else None
        self.encoder = FrozenEncoder(str(model), [(layer, pooling)], device=device, hub_kwargs=hub_kwargs)
        self.name = str(model)
        self.label = model_name(model)
        self.prompt = prompt_of(str(model), revision) if prompt is None else prompt
        self._prompt_of_role = {"query": query_prompt, "document": document_prompt}
        self.revision = f"{identity(model, revision)}, layer {layer}, {pooling}"

    def route(self, language: str | None, role: str | None = None) -> None:
        """None: one part serves all."""
        return None

    def encode(
        self,
        texts: Sequence[str],
        language: str | None = None,
        role: str | None = None,
        *,
        progress: bool | None = None,
    ) -> np.ndarray:
        """(N, H) float32 vectors, as `Encoder.encode`."""
        prompt = self._prompt_of_role.get(role)
        if prompt is None:
            prompt = self.prompt or ""
        return self.encoder([prompt + text for text in texts])[:, 0]

    def word_states(self, sentences: Sequence[Sequence[str]], layer: int | None = None) -> list[np.ndarray]:
        """One (words, H) array a sentence given as words, see `WordStates`."""
        return WordStates(self.encoder.model, self.encoder.tokenizer, layer=layer)(sentences)

    @property
    def dimension(self) -> int:
        """H, the width of a vector."""
        return self.encoder.hidden_size
