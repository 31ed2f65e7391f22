"""What our encoders share: names, languages, prompts, and a look at what goes in and comes out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

from hfxling.data.texts import check_texts

from .identity import model_name, training_text
from .protocol import ROLES, Vectors, check_finite


class BaseEncoder(ABC):
    """An `Encoder` but for what makes its vectors.

    Args:
        name: what was loaded: Hub id or folder.
        revision: changes whenever the vectors may.
        languages: those that it has parts for, source first.
        prompt: put before every text; None for none.
        query_prompt: put before queries in its place.
        document_prompt: put before documents in its place.

    Attributes:
        routes: names of its parts: the languages, unless a kind of encoder has others.
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
    ):
        self.name = str(name)
        self.label = model_name(name)
        self.revision = revision
        self.languages = list(languages)
        self.routes = list(languages)
        self.prompt = prompt
        self._prompt_of_role = {"query": query_prompt, "document": document_prompt}

    def route(self, language: str | None, role: str | None = None) -> str | None:
        """The language of a text: the one that is given, or else the first for queries and the second for documents.

        None where one part serves all.

        Raises:
            ValueError: it has parts and none for this language.
        """
        if not self.languages:
            return None
        if language is None and role in ROLES:
            return self.languages[ROLES.index(role)]
        if language not in self.languages:
            raise ValueError(self._without_part(language))
        return language

    def _without_part(self, name: str | None) -> str:
        """What is said where there is no part of that name."""
        known = f"{self.label} has parts for {', '.join(self.routes)}"
        if name is None:
            return f"{known}; say which: give languages, such as zh vi."
        return f"{known} and none for {name}."

    def prompt_of(self, role: str | None) -> str | None:
        """What is put before texts of a role."""
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
        """(N, D) float32 vectors of N texts, as `Encoder.encode`.

        Raises:
            ValueError: as `route`, `check_texts` and `check_finite`.
        """
        route = self.route(language, role)
        check_texts(texts)
        vectors = self._vectors(list(texts), route, role, progress)
        check_finite(vectors, self.label)
        return vectors

    def learnt_from(self) -> set[str]:
        """Hashes (`hfxling.files.content_hash`) of the text that it was made from, as far as its folder says so."""
        return training_text(self.name, self.revision)

    @abstractmethod
    def _vectors(self, texts: list[str], route: str | None, role: str | None, progress: bool | None) -> Vectors:
        """(N, D) float32 vectors of N texts of one part."""
