"""What every encoder is and does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from scipy.sparse import csr_array

ROLES = ("query", "document")  # what is looked for, and what is searched

Vectors = np.ndarray | csr_array


class Encoder(Protocol):
    """Texts, their language and their role to vectors.

    Attributes:
        name: what was loaded: Hub id or folder.
        label: what results call it.
        revision: changes whenever its vectors may: a commit, or a hash of all that decides them.
        method: how its vectors are compared: "cosine", or "dot" for the inner product.
        languages: those that it has parts for, source first; [] where one part serves all.
        prompt: put before every text; None for none.
    """

    name: str
    label: str
    revision: str
    method: str
    languages: list[str]
    prompt: str | None

    def route(self, language: str | None, role: str | None = None) -> str | None:
        """The part that texts of a language and role go through; None where one part serves all.

        Raises:
            ValueError: it has parts and none for these.
        """
        ...

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
            ValueError: as `route`.
        """
        ...


def languages_of(encoder: Encoder, languages: Sequence[str] | None) -> tuple[str | None, str | None]:
    """Source and target language: those that are given, or else the encoder's first two.

    Raises:
        ValueError: not two different codes.
    """
    if languages is None:
        first_two = [*encoder.languages, None, None][:2]
        return first_two[0], first_two[1]
    if isinstance(languages, str) or len(languages) != 2 or languages[0] == languages[1]:
        raise ValueError(f"languages={languages!r}: give the codes of two languages, such as zh vi.")
    return languages[0], languages[1]


def check_finite(vectors: Vectors, name: str) -> None:
    """Refuse vectors that would give no scores or false ones.

    Raises:
        ValueError: NaN or an infinite number in them.
    """
    numbers = vectors if isinstance(vectors, np.ndarray) else vectors.data
    if not np.isfinite(numbers).all():
        raise ValueError(
            f"{name} gives vectors that hold NaN or infinite numbers: its weights are damaged; load another model."
        )
