"""What the commands that embed sentences are told about the model."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hfxling.encoding import SentenceEncoder


@dataclass(kw_only=True)
class ModelArguments:
    """The model, any that sentence-transformers loads."""

    model: str = field(metadata={"help": "folder or Hub id"})
    model_revision: str | None = field(default=None, metadata={"help": "branch, tag or commit of the model"})
    prompt: str | None = field(default=None, metadata={"help": "put before every text; by default the model's own"})
    batch_size: int = field(default=32, metadata={"help": "texts encoded at once"})
    device: str | None = field(default=None, metadata={"help": "by default a GPU when there is one"})

    def encoder(self, name: str | None = None) -> SentenceEncoder:
        """The model, or another one with the same settings."""
        from hfxling.encoding import SentenceEncoder

        revision = None if name else self.model_revision
        return SentenceEncoder(name or self.model, revision, self.device, self.prompt, self.batch_size)
