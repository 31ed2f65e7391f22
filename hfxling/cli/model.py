"""What the commands that embed sentences are told about the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hfxling.arguments import key

if TYPE_CHECKING:
    import numpy as np
    from scipy.sparse import csr_array

    from hfxling.encoding import LexicalEncoder, SentenceEncoder


@dataclass(kw_only=True)
class ModelArguments:
    """The model, any that sentence-transformers loads."""

    model: str = key("folder or Hub id")
    model_revision: str | None = key("branch, tag or commit of the model, or of what stands in its place", None)
    prompt: str | None = key("put before every text; by default the model's own", None)
    batch_size: int = key("texts encoded at once", 32, least=1)
    device: str | None = key("by default a GPU when there is one", None)
    trust_remote_code: bool = key("run the code of the model's repository, as models on several layers need", False)

    def encoder(self, name: str | None = None) -> SentenceEncoder:
        """The model, or another one with the same settings."""
        from hfxling.encoding import SentenceEncoder

        revision = None if name else self.model_revision
        settings = self.device, self.prompt, self.batch_size, self.trust_remote_code
        return SentenceEncoder(name or self.model, revision, *settings)


@dataclass(kw_only=True)
class FusedArguments(ModelArguments):
    """A model, a lexical encoder, or both."""

    model: str | None = key("folder or Hub id", None)
    lexical: str | None = key(
        "folder or Hub id of a lexical encoder: its sparse vectors, or its score and the model's as one, for which the "
        "model needs a fusion.json that was made for it (hfxling fit --choose fused writes both)",
        None,
    )

    def __post_init__(self):
        if not (self.model or self.lexical):
            raise ValueError("give --model, --lexical or both.")

    def scorer(self) -> SentenceEncoder | LexicalEncoder | FusedEncoder:
        """What embeds sentences."""
        from hfxling.encoding import LexicalEncoder

        if not self.lexical:
            return self.encoder()
        if not self.model:
            return LexicalEncoder(self.lexical, self.model_revision)
        return FusedEncoder(self.encoder(), LexicalEncoder(self.lexical), self.model_revision)


@dataclass(kw_only=True)
class ShownArguments(FusedArguments):
    """The model, a lexical encoder or an aligner among them."""

    source_lang: str | None = key("of the sentences; by default the model's first", None)
    target_lang: str | None = key("of their translations; by default the model's second", None)


class FusedEncoder:
    """A dense and a lexical encoder whose scores are added, in the place of either.

    Args:
        dense: of a folder or repository with a fusion.
        lexical: that the fusion was made for.
        revision: branch, tag or commit of the dense one on the Hub.

    Raises:
        FileNotFoundError: the dense encoder has no fusion.
        ValueError: the fusion was made for another lexical encoder.
    """

    method = "dot"

    def __init__(self, dense: SentenceEncoder, lexical: LexicalEncoder, revision: str | None = None):
        from hfxling.files import weights_hash
        from hfxling.hub.verify import fetch_folder
        from hfxling.mining.fusion import FILE, TENSORS, Fusion

        self.dense, self.lexical = dense, lexical
        links, _ = fetch_folder(lexical.name, lexical.revision, ["*.safetensors"])
        folder, _ = fetch_folder(dense.name, revision, [FILE, TENSORS])
        self.fusion = Fusion.load(folder, weights_hash(links), dense.name)
        self.label, self.revision = f"{dense.label} + {lexical.label}", f"{dense.revision}+{lexical.revision}"
        self.languages = self.routes = list(self.fusion.languages)

    def encode(
        self, texts: Sequence[str], lang: str | None = None, task: str | None = None, *, progress: bool | None = None
    ) -> csr_array:
        """(N, D) sparse float32 vectors; `task` is "query" or "document", by default that of the language."""
        usual = self.role(lang)  # refuses other languages
        role = task or usual
        dense = self.dense.encode(texts, lang, role, progress=progress)
        return self.fusion.vectors(dense, self.lexical.encode(texts, lang, role), lang, role)

    def role(self, lang: str | None) -> str:
        """What texts of a language are unless a task is named; ValueError for another language."""
        if lang not in self.languages:
            raise ValueError(f"{self.label} is for {' and '.join(self.languages)}, not {lang}.")
        return ("query", "document")[self.languages.index(lang)]

    def parts(self, dense: np.ndarray, texts: Sequence[str], lang: str, role: str) -> tuple[np.ndarray, csr_array]:
        """Vectors whose inner products add up to the score, of texts with the dense encoder's vectors."""
        return self.fusion.parts(dense, self.lexical.encode(texts, lang, role), lang, role)
