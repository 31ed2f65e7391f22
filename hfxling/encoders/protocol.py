"""What every encoder is and does: texts, their language and their role to vectors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from hfxling.data.codes import pair_of, same_language
from hfxling.data.texts import as_list, check_texts
from hfxling.sentences.neighbours import Vectors

from .identity import model_name, training_text

ROLES = ("query", "document")  # what is looked for, and what is searched


class Encoder(ABC):
    """Looks at texts, finds their part and prompt, and looks at the vectors; a kind of encoder makes these.

    Args:
        name: what was loaded: Hub id or folder.
        revision: changes whenever its vectors may: a commit, or a hash of all that decides them.
        languages: those that it has parts for, source first; none where one part serves all.
        prompt: put before every text; None for none.
        query_prompt: put before queries in its place.
        document_prompt: put before documents in its place.
        is_in_memory: whether it was given as an object, of which no other process knows what it computes.

    Attributes:
        label: what results call it.
        method: how its vectors are compared: "cosine", or "dot" for the inner product.
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
        """The part that texts of a language and role go through; None where one part serves all.

        Without a language it is the first one for queries and the second one for documents. Other codes of a language
        (lao of lo) mean its part.
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
        """(N, D) float32 vectors of N texts.

        Args:
            texts: of one language.
            language: its code; may be left out where one part serves all.
            role: "query" or "document"; None where both sides are alike.
            progress: show a bar; by default where somebody watches.

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
        """Hashes (`hfxling.files.content_hash`) of the text that it was made from, as far as its folder says so."""
        return training_text(self.name, self.revision)

    @abstractmethod
    def _vectors(self, texts: list[str], route: str | None, role: str | None, progress: bool | None) -> Vectors:
        """(N, D) float32 vectors of N texts of one part."""


def languages_of(
    encoder: Encoder | None, languages: Sequence[str] | None, *, needed: bool = False
) -> tuple[str | None, str | None]:
    """Source and target language: those that are given, or else the encoder's first two.

    A given language has the code that the encoder calls it by: lo for lao. Where the encoder does not say its languages
    they are None, or it is refused (`needed`).
    """
    if languages is None and encoder is not None:
        source, target = [*encoder.languages, None, None][:2]
        if needed and None in (source, target):
            raise ValueError(f"{encoder.label} does not say what it is for: give languages, such as zh vi.")
        return source, target
    return pair_of(languages, encoder.languages if encoder is not None else ())


def check_finite(vectors: Vectors, name: str) -> None:
    """Refuse vectors that would give no scores or false ones."""
    numbers = vectors if isinstance(vectors, np.ndarray) else vectors.data
    if not np.isfinite(numbers).all():
        raise ValueError(
            f"{name} gives vectors that hold NaN or infinite numbers: its weights are damaged; load another model."
        )
