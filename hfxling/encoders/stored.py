"""Vectors that the user already has, and single layers of plain encoders, as encoders."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from hfxling.data.features import load_vectors
from hfxling.files import content_hash

from .frozen import FrozenEncoder, WordStates
from .identity import content_hash_of, identity
from .prompts import prompt_of
from .protocol import ROLES, Encoder


class StoredVectors(Encoder):
    """Files with the vectors of queries and documents as an `Encoder`.

    The first file of a side belongs to the first texts that are encoded, and so on.
    """

    def __init__(self, source: Sequence[str | Path], target: Sequence[str | Path]):
        if len(source) != len(target):
            counts = f"{len(source)} file(s) of source_vectors, {len(target)} of target_vectors"
            raise ValueError(f"{counts}: give as many of both.")
        self.files = {"query": list(source), "document": list(target)}
        paths = [Path(path) for path in (*source, *target)]
        for path in paths:
            if not path.is_file():
                raise FileNotFoundError(f"{path}: no such file of vectors; give .npy, .parquet or .jsonl.")
        super().__init__("vectors", "+".join(content_hash_of([path], path.parent) for path in paths))
        self.routes = list(ROLES)
        self._loaded: dict[str, dict[str, np.ndarray]] = {"query": {}, "document": {}}

    def route(self, language: str | None, role: str | None = None) -> str | None:
        """The role, which says which side's files the vectors come from."""
        return role

    def _vectors(self, texts: list[str], route: str | None, role: str | None, progress: bool | None) -> np.ndarray:
        """The vectors of the side's next file, one per text."""
        key = content_hash(texts)
        files, loaded = self.files[role], self._loaded[role]  # `loaded` maps texts to a file's vectors
        if key not in loaded:
            if len(loaded) == len(files):
                raise ValueError(
                    f"{len(files)} file(s) of vectors per side for {len(files) + 1} texts; give one for each text."
                )
            loaded[key] = load_vectors(files[len(loaded)], rows=len(texts))
        return loaded[key]


class LayerEncoder(Encoder):
    """One pooled layer of a plain transformer encoder as an `Encoder`; arguments as for `load_encoder`.

    Layer None is the last one, "all" the mean over the layers.
    """

    def __init__(
        self,
        model: str | Path,
        layer: int | str | None,
        pooling: str = "mean",
        revision: str | None = None,
        *,
        device: str | None = None,
        prompt: str | None = None,
        **prompts: str | None,
    ):
        hub_kwargs = {"revision": revision} if revision else None
        self.encoder = FrozenEncoder(str(model), [(layer, pooling)], device=device, hub_kwargs=hub_kwargs)
        super().__init__(
            model,
            f"{identity(model, revision)}, layer {layer}, {pooling}",
            prompt=prompt_of(str(model), revision) if prompt is None else prompt,
            **prompts,
        )

    def _vectors(self, texts: list[str], route: str | None, role: str | None, progress: bool | None) -> np.ndarray:
        prompt = self.prompt_of(role) or ""
        return self.encoder([prompt + text for text in texts])[:, 0]

    def word_states(self, sentences: Sequence[Sequence[str]], layer: int | None = None) -> list[np.ndarray]:
        """One (words, H) array per sentence, given as words; see `WordStates`."""
        return WordStates(self.encoder.model, self.encoder.tokenizer, layer=layer)(sentences)

    @property
    def dimension(self) -> int:
        """H, the dimension of a vector."""
        return self.encoder.hidden_size
