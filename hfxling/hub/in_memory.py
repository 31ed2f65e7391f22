"""The card of a model in memory, which sentence-transformers writes when the model is saved or pushed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from huggingface_hub import ModelCard
from sentence_transformers import SentenceTransformerModelCardData

from .card import CardInfo, render_card

TRAINED_FURTHER = "generated_from_trainer"  # the tag that a Trainer of sentence-transformers gives a model


@dataclass
class CardInMemory(SentenceTransformerModelCardData):
    """What sentence-transformers keeps about a model for its card, with the text of our cards.

    Fields that are set before the model is saved, such as `license`, go into the card. A model that is trained further
    gets the card of sentence-transformers again.

    Attributes:
        info: content of the text.
    """

    info: CardInfo | None = None
    generate_widget_examples: bool = False  # the text has its own
    template_path: Path = field(
        default=Path(__file__).parent / "templates" / "model_in_memory.md.jinja", init=False, repr=False
    )

    def add_tags(self, tags: str | list[str]) -> None:
        """As in sentence-transformers; a model that was trained further gets its template again."""
        super().add_tags(tags)
        if TRAINED_FURTHER in self.tags:
            self.template_path = SentenceTransformerModelCardData.template_path

    def to_dict(self) -> dict[str, Any]:
        """The values for the template."""
        said = {
            "repo_id": self.model_id or self.info.repo_id,
            "base_model": self.base_model or self.info.base_model,
        }
        card = render_card([], replace(self.info, **said))
        return super().to_dict() | {"body": ModelCard(card).text.strip()}
