"""What the commands that embed sentences are told about the model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hfxling.arguments import key

if TYPE_CHECKING:
    from hfxling.encoding import SentenceEncoder


@dataclass(kw_only=True)
class ModelArguments:
    """The model, any that sentence-transformers loads."""

    model: str = key("folder or Hub id")
    model_revision: str | None = key("branch, tag or commit of the model", None)
    prompt: str | None = key("put before every text; by default the model's own", None)
    batch_size: int = key("texts encoded at once", 32)
    device: str | None = key("by default a GPU when there is one", None)

    def encoder(self, name: str | None = None) -> SentenceEncoder:
        """The model, or another one with the same settings."""
        from hfxling.encoding import SentenceEncoder

        revision = None if name else self.model_revision
        return SentenceEncoder(name or self.model, revision, self.device, self.prompt, self.batch_size)
