"""Any model that sentence-transformers loads, with its routes and prompts."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hfxling.missing import check_device, one_line_where_missing

from .frozen import WordStates
from .identity import identity, model_name
from .prompts import prompt_for
from .protocol import ROLES

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer


class SentenceEncoder:
    """A SentenceTransformer as an `Encoder`.

    Args:
        model: folder, Hub id, or a loaded model.
        revision: branch, tag or commit on the Hub.
        device: by default a GPU when there is one.
        prompt: put before every text; by default the model's own, or what its family wants (`prompts.py`).
        query_prompt: put before queries in its place.
        document_prompt: put before documents in its place.
        batch_size: texts encoded at once.
        trust_remote_code: run the modules that the model brings with it, as those on several layers need.

    Attributes:
        model: the SentenceTransformer.
        routes: `languages`, or query and document where it has parts for these alone; [] for a model without parts.

    Raises:
        FileNotFoundError: no such folder or Hub model.
        ValueError: a folder without a model, a device that is not there, or a batch size below 1.
    """

    method = "cosine"

    def __init__(
        self,
        model: str | Path | SentenceTransformer,
        revision: str | None = None,
        *,
        device: str | None = None,
        prompt: str | None = None,
        query_prompt: str | None = None,
        document_prompt: str | None = None,
        batch_size: int = 32,
        trust_remote_code: bool = False,
    ):
        from sentence_transformers import SentenceTransformer
        from sentence_transformers.sentence_transformer.modules import Router

        if batch_size < 1:
            raise ValueError(f"batch_size={batch_size}: give 1 or more.")
        check_device(device)
        if isinstance(model, SentenceTransformer):
            self.model = model
            self.name = _where_from(model)
            self.revision = f"in memory, {id(model):x}"
        else:
            self.name = str(model)
            with one_line_where_missing(self.name, "model", "a model"):
                self.model = SentenceTransformer(
                    self.name, revision=revision, device=device, trust_remote_code=trust_remote_code
                )
            self.revision = identity(self.name, revision)
        self.label = model_name(self.name)
        self.batch_size = batch_size
        self.prompt = prompt_for(self.name, self.model.prompts, self.model.default_prompt_name, prompt)
        self._prompt_of_role = {"query": query_prompt, "document": document_prompt}

        routes: list[str] = []
        for module in self.model:
            if isinstance(module, Router):
                routes += [route for route in module.sub_modules if route not in routes]
        self.languages = [route for route in routes if route not in ROLES]
        self.routes = self.languages or routes

    def route(self, language: str | None, role: str | None = None) -> str | None:
        """That of a text's language, or else of its role; None for a model without routes."""
        if not self.routes:
            return None
        for name in (language, role):
            if name in self.routes:
                return name
        lacking = (
            f" and none for {language or role}." if language or role else "; say which: give languages, such as zh vi."
        )
        branches = [route for route in self.languages if _has_branch(self.name, route)]
        if branches:
            lacking += f" Branches for one language each: revision {', '.join(branches)}."
        raise ValueError(f"{self.label} has parts for {', '.join(self.routes)}{lacking}")

    def encode(
        self,
        texts: Sequence[str],
        language: str | None = None,
        role: str | None = None,
        *,
        progress: bool | None = None,
    ) -> np.ndarray:
        """(N, D) float32 sentence vectors, as `Encoder.encode`."""
        prompt = self._prompt_of_role.get(role)
        if prompt is None:
            prompt = self.prompt
        vectors = self.model.encode(
            list(texts),
            prompt=prompt,
            batch_size=self.batch_size,
            task=self.route(language, role),
            show_progress_bar=sys.stderr.isatty() if progress is None else progress,
        )
        return vectors.astype(np.float32, copy=False)

    def word_states(self, sentences: Sequence[Sequence[str]], layer: int | None = None) -> list[np.ndarray]:
        """One (words, H) array a sentence given as words, from the model's encoder; see `WordStates`."""
        transformer = self.model[0]
        if not hasattr(transformer, "auto_model"):
            raise ValueError(f"{self.label} does not start with an encoder, so it has no token vectors.")
        return WordStates(transformer.auto_model, self.model.tokenizer, layer=layer)(sentences)

    @property
    def dimension(self) -> int:
        """D, the width of a vector."""
        return self.model.get_embedding_dimension()


def _where_from(model: SentenceTransformer) -> str:
    """The folder or Hub id that a loaded model came from, as far as it knows."""
    config = getattr(getattr(model[0], "auto_model", None), "config", None)
    return getattr(config, "_name_or_path", "") or "model in memory"


def _has_branch(name: str, branch: str) -> bool:
    """Whether a folder or repository has a branch that is a model of its own: its files lie in a subfolder, too."""
    from huggingface_hub import file_exists
    from huggingface_hub.errors import HTTPError

    path = f"{branch}/modules.json"
    try:
        return Path(name, path).is_file() if Path(name).is_dir() else file_exists(name, path)
    except (HTTPError, OSError, ValueError):  # without network nothing is known
        return False
