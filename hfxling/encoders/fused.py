"""A dense encoder and a lexical model whose scores are added."""

from __future__ import annotations

from pathlib import Path

from scipy.sparse import csr_array

from hfxling.files import weights_hash

from .dense import SentenceEncoder
from .fusion import FILE, TENSORS, Fusion
from .identity import fetch_folder
from .protocol import ROLES, Encoder
from .sparse import LexicalEncoder


class FusedEncoder(Encoder):
    """A dense encoder with a fusion, and the lexical model that the fusion was made for, as one `Encoder`."""

    method = "dot"

    def __init__(self, dense: SentenceEncoder, lexical: LexicalEncoder):
        self.dense = dense
        self.lexical = lexical
        links = _files_of(lexical, ["*.safetensors"])
        self.fusion = Fusion.load(_files_of(dense, [FILE, TENSORS]), weights_hash(links), dense.name)
        super().__init__(
            dense.name,
            f"{dense.revision}+{lexical.revision}",
            self.fusion.languages,
            is_in_memory=dense.is_in_memory or lexical.is_in_memory,
        )
        self.label = f"{dense.label} + {lexical.label}"

    def learnt_from(self) -> set[str]:
        """Hashes of the training text of both."""
        return self.dense.learnt_from() | self.lexical.learnt_from()

    def _vectors(self, texts: list[str], route: str | None, role: str | None, progress: bool | None) -> csr_array:
        role = role or ROLES[self.languages.index(route)]
        dense = self.dense.encode(texts, route, role, progress=progress)
        return self.fusion.vectors(dense, self.lexical.encode(texts, route, role), route, role)


def _files_of(encoder: Encoder, files: list[str]) -> Path:
    """A folder with the named files of an encoder, from the commit that was loaded."""
    revision = None if encoder.is_in_memory else encoder.revision
    folder, _ = fetch_folder(encoder.name, revision, files)
    return folder
