"""What the commands that embed sentences are told about the model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hfxling.arguments import key

if TYPE_CHECKING:
    from hfxling.encoders.dense import SentenceEncoder
    from hfxling.encoders.protocol import Encoder


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
        from hfxling.encoders.loading import load_encoder

        return load_encoder(
            name or self.model,
            revision=None if name else self.model_revision,
            device=self.device,
            prompt=self.prompt,
            batch_size=self.batch_size,
            trust_remote_code=self.trust_remote_code,
        )


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

    def scorer(self) -> Encoder:
        """What embeds sentences."""
        from hfxling.encoders.sparse import LexicalEncoder

        if not self.lexical:
            return self.encoder()
        if not self.model:
            return LexicalEncoder(self.lexical, self.model_revision)
        from hfxling.encoders.fused import FusedEncoder

        return FusedEncoder(self.encoder(), LexicalEncoder(self.lexical), self.model_revision)


@dataclass(kw_only=True)
class ShownArguments(FusedArguments):
    """The model, a lexical encoder or an aligner among them."""

    source_lang: str | None = key("of the sentences; by default the model's first", None)
    target_lang: str | None = key("of their translations; by default the model's second", None)
