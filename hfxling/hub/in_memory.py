"""The card of a model in memory: sentence-transformers writes it when the model is saved or pushed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from huggingface_hub import ModelCard
from sentence_transformers import SentenceTransformerModelCardData

from .card import CardInfo, render_card

TRAINED_FURTHER = "generated_from_trainer"  # what a Trainer of sentence-transformers tags a model with


@dataclass
class CardInMemory(SentenceTransformerModelCardData):
    """What sentence-transformers keeps of a model for its card, whose text is one of ours.

    What is set here before the model is saved, such as `license`, is heeded. The card of a model that is trained
    further is that of sentence-transformers again.

    Attributes:
        info: what the text says.
    """

    info: CardInfo | None = None
    generate_widget_examples: bool = False  # the text has its own
    template_path: Path = field(
        default=Path(__file__).parent / "templates" / "model_in_memory.md.jinja", init=False, repr=False
    )

    def add_tags(self, tags: str | list[str]) -> None:
        """As of sentence-transformers."""
        super().add_tags(tags)
        if TRAINED_FURTHER in self.tags:
            self.template_path = SentenceTransformerModelCardData.template_path

    def to_dict(self) -> dict[str, Any]:
        """What the template is filled with."""
        said = {
            "repo_id": self.model_id or self.info.repo_id,
            "base_model": self.base_model or self.info.base_model,
        }
        card = render_card([], replace(self.info, **said))
        return super().to_dict() | {"body": ModelCard(card).text.strip()}
