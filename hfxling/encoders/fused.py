"""A dense encoder and a lexical model whose scores are added."""

from __future__ import annotations

from scipy.sparse import csr_array

from hfxling.files import weights_hash

from .dense import SentenceEncoder
from .fusion import FILE, TENSORS, Fusion
from .identity import fetch_folder
from .protocol import ROLES, Encoder
from .sparse import LexicalEncoder


class FusedEncoder(Encoder):
    """Both as one `Encoder`.

    Args:
        dense: of a folder or repository with a fusion.
        lexical: that the fusion was made for.
        revision: branch, tag or commit of the dense one on the Hub.
        lexical_revision: of the lexical one.
    """

    method = "dot"

    def __init__(
        self,
        dense: SentenceEncoder,
        lexical: LexicalEncoder,
        revision: str | None = None,
        lexical_revision: str | None = None,
    ):
        self.dense = dense
        self.lexical = lexical
        links, _ = fetch_folder(lexical.name, lexical_revision, ["*.safetensors"])
        folder, _ = fetch_folder(dense.name, revision, [FILE, TENSORS])
        self.fusion = Fusion.load(folder, weights_hash(links), dense.name)
        super().__init__(
            dense.name,
            f"{dense.revision}+{lexical.revision}",
            self.fusion.languages,
            is_in_memory=dense.is_in_memory or lexical.is_in_memory,
        )
        self.label = f"{dense.label} + {lexical.label}"

    def learnt_from(self) -> set[str]:
        """Hashes of the text of both."""
        return self.dense.learnt_from() | self.lexical.learnt_from()

    def _vectors(self, texts: list[str], route: str | None, role: str | None, progress: bool | None) -> csr_array:
        role = role or ROLES[self.languages.index(route)]
        dense = self.dense.encode(texts, route, role, progress=progress)
        return self.fusion.vectors(dense, self.lexical.encode(texts, route, role), route, role)
