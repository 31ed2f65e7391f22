"""The protocol of all encoders: texts, with their language and role, to vectors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from hfxling.data.codes import pair_of, same_language
from hfxling.data.texts import as_list, check_texts
from hfxling.sentences.neighbours import Vectors

from .identity import model_name, training_text

ROLES = ("query", "document")  # a text that is looked for, and one that is searched


class Encoder(ABC):
    """Base of all encoders: checks the texts, chooses part and prompt, and checks the vectors that a subclass makes.

    Args:
        name: Hub id or folder of the model.
        revision: commit, or a hash of everything that decides the vectors; changes whenever they may change.
        languages: codes of the languages that it has parts for, source first; none if one part encodes all texts.
        prompt: text put before every sentence; None for none.
        query_prompt: text put before queries instead.
        document_prompt: text put before documents instead.
        is_in_memory: whether it was given as a loaded object, so that no other process can tell what it computes.

    Attributes:
        label: its name in results.
        method: how its vectors are compared: "cosine", or "dot" for the inner product.
        routes: names of its parts: the languages, unless a subclass has others.
    """

    method = "cosine"

    def __init__(
        self,
        name: str | Path,
        revision: str,
        languages: Sequence[str] = (),
        *,
        prompt: str | None = None,
        query_prompt: str | None = None,
        document_prompt: str | None = None,
        is_in_memory: bool = False,
    ):
        self.name = str(name)
        self.label = model_name(name)
        self.revision = revision
        self.languages = list(languages)
        self.routes = list(languages)
        self.is_in_memory = is_in_memory
        self.prompt = prompt
        self._prompt_of_role = {"query": query_prompt, "document": document_prompt}

    def route(self, language: str | None, role: str | None = None) -> str | None:
        """The part that encodes texts of a language and role; None if one part encodes all.

        Without a language, queries take the first part and documents the second. Other codes of a language (lao for lo)
        mean the same part.
        """
        if not self.languages:
            return None
        if language is None and role in ROLES:
            return self.languages[ROLES.index(role)]
        part = None if language is None else same_language(language, self.languages)
        if part is None:
            raise ValueError(self._without_part(language))
        return part

    def _without_part(self, name: str | None) -> str:
        """The message if there is no part of that name."""
        known = f"{self.label} has parts for {', '.join(self.routes)}"
        if name is None:
            return f"{known}; say which: give languages, such as zh vi."
        return f"{known} and none for {name}."

    def prompt_of(self, role: str | None) -> str | None:
        """The prompt put before texts of a role."""
        prompt = self._prompt_of_role.get(role)
        return self.prompt if prompt is None else prompt

    def encode(
        self,
        texts: Sequence[str],
        language: str | None = None,
        role: str | None = None,
        *,
        progress: bool | None = None,
    ) -> Vectors:
        """(N, D) float32 vectors of N texts.

        Args:
            texts: texts in one language.
            language: code of the language; not needed if one part encodes all texts.
            role: "query" or "document"; None if both sides are alike.
            progress: show a progress bar; by default if standard error is a terminal.

        Raises:
            ValueError: as `route`, `check_texts` and `check_finite`.
        """
        route = self.route(language, role)
        texts = as_list(texts)
        check_texts(texts)
        vectors = self._vectors(texts, route, role, progress)
        check_finite(vectors, self.label)
        return vectors

    def learnt_from(self) -> set[str]:
        """Hashes (`hfxling.files.content_hash`) of the text that it was made from, if its folder says so."""
        return training_text(self.name, self.revision)

    @abstractmethod
    def _vectors(self, texts: list[str], route: str | None, role: str | None, progress: bool | None) -> Vectors:
        """(N, D) float32 vectors of N texts that one part encodes."""


def languages_of(
    encoder: Encoder | None, languages: Sequence[str] | None, *, needed: bool = False
) -> tuple[str | None, str | None]:
    """Source and target language: the given ones, or else the encoder's first two.

    A given language is returned by the encoder's own code for it: lo for lao. If the encoder does not state its
    languages, they are None, or with `needed` an error.
    """
    if languages is None and encoder is not None:
        source, target = [*encoder.languages, None, None][:2]
        if needed and None in (source, target):
            raise ValueError(f"{encoder.label} does not state its languages: give languages, such as zh vi.")
        return source, target
    return pair_of(languages, encoder.languages if encoder is not None else ())


def check_finite(vectors: Vectors, name: str) -> None:
    """Refuse vectors with NaN or infinite numbers, which would give no scores or wrong ones."""
    numbers = vectors if isinstance(vectors, np.ndarray) else vectors.data
    if not np.isfinite(numbers).all():
        raise ValueError(
            f"{name} gives vectors with NaN or infinite numbers, so its weights are damaged; load another model."
        )
