"""A dense and a lexical encoder whose scores are added."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.sparse import csr_array

from hfxling.files import weights_hash

from .dense import SentenceEncoder
from .fusion import FILE, TENSORS, Fusion
from .identity import fetch_folder
from .protocol import ROLES
from .sparse import LexicalEncoder


class FusedEncoder:
    """Both as one `Encoder`.

    Args:
        dense: of a folder or repository with a fusion.
        lexical: that the fusion was made for.
        revision: branch, tag or commit of the dense one on the Hub.
        lexical_revision: of the lexical one.
        fusion: in place of the folder's.

    Raises:
        FileNotFoundError: the dense encoder has no fusion.
        ValueError: the fusion was made for another lexical encoder.
    """

    method = "dot"
    prompt = None

    def __init__(
        self,
        dense: SentenceEncoder,
        lexical: LexicalEncoder,
        revision: str | None = None,
        lexical_revision: str | None = None,
        *,
        fusion: Fusion | None = None,
    ):
        self.dense = dense
        self.lexical = lexical
        if fusion is None:
            links, _ = fetch_folder(lexical.name, lexical_revision, ["*.safetensors"])
            folder, _ = fetch_folder(dense.name, revision, [FILE, TENSORS])
            fusion = Fusion.load(folder, weights_hash(links), dense.name)
        self.fusion = fusion
        self.name = dense.name
        self.label = f"{dense.label} + {lexical.label}"
        self.revision = f"{dense.revision}+{lexical.revision}"
        self.languages = list(fusion.languages)

    @property
    def routes(self) -> list[str]:
        """The languages: each has a part of its own."""
        return self.languages

    def route(self, language: str | None, role: str | None = None) -> str:
        """The language; by default the first for queries and the second for documents."""
        if language is None and role in ROLES:
            return self.languages[ROLES.index(role)]
        if language not in self.languages:
            raise ValueError(f"{self.label} is for {' and '.join(self.languages)}, not {language}.")
        return language

    def encode(
        self,
        texts: Sequence[str],
        language: str | None = None,
        role: str | None = None,
        *,
        progress: bool | None = None,
    ) -> csr_array:
        """(N, D) sparse float32 vectors, as `Encoder.encode`; the role is by default that of the language."""
        language = self.route(language, role)
        role = role or self.role(language)
        dense = self.dense.encode(texts, language, role, progress=progress)
        return self.fusion.vectors(dense, self.lexical.encode(texts, language, role), language, role)

    def role(self, language: str | None) -> str:
        """What texts of a language are unless a role is named; ValueError for another language."""
        return ROLES[self.languages.index(self.route(language))]

    def parts(self, dense: np.ndarray, texts: Sequence[str], language: str, role: str) -> tuple[np.ndarray, csr_array]:
        """Vectors whose inner products add up to the score, of texts with the dense encoder's vectors."""
        return self.fusion.parts(dense, self.lexical.encode(texts, language, role), language, role)
