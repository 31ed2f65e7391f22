"""Meaning/language disentangler: a sentence vector as the sum of two parts (Nonomura et al.)."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import PreTrainedModel

from .configuration_disentangler import DisentanglerConfig
from .stock import StockModel, StockOutput

# Share of the vector that an untrained head calls meaning: meaning then ranks sentences as the encoder does, and the
# language part is long enough to have a direction.
START = 0.5


@dataclass
class DisentanglerOutput(StockOutput):
    """Output of `DisentanglerModel`: `pooled`, which is `meaning + language`, is the (B, D) vector e that is split.

    `sentence_embedding` is the meaning part at unit length (the language part where `config.part` says so).

    Args:
        meaning: (B, D).
        language: (B, D).
    """

    meaning: Tensor | None = None
    language: Tensor | None = None


class DisentanglerHead(nn.Module):
    """The trained part: e in, its meaning out; what is left of e is language (paper, section 2.1)."""

    def __init__(self, config: DisentanglerConfig):
        super().__init__()
        self.config = config
        self.linear = nn.Linear(config.hidden_size, config.hidden_size, bias=config.bias)

    def init_share(self) -> None:
        """Start with half of every vector as its meaning, so that an untrained head ranks as the encoder does."""
        with torch.no_grad():
            nn.init.eye_(self.linear.weight).mul_(START)
        if self.linear.bias is not None:
            nn.init.zeros_(self.linear.bias)

    def prepare(self, features: Tensor) -> Tensor:
        """The vector e that is split: the pooled one, at unit length where the config says so."""
        return F.normalize(features, dim=-1) if self.config.normalize_input else features

    def forward(self, pooled: Tensor) -> Tensor:
        """(..., D) vectors e to their (..., D) meaning parts (language parts where `config.part` says so)."""
        return self.linear(pooled)

    def stock_steps(self) -> list[tuple]:
        """The mapped part at unit length as stock sentence-transformers modules (see `stock.py`)."""
        steps: list[tuple] = [("Normalize", None)] if self.config.normalize_input else []
        return [*steps, ("Dense", self.linear, "linear"), ("Normalize", None)]


class DisentanglerModel(StockModel):
    """A frozen encoder whose sentence vectors are split into meaning and language.

    Where the config has a `prompt`, put it before every text that you tokenize; sentence-transformers does it itself.
    """

    config_class = DisentanglerConfig
    base_model_prefix = stock_key = "disentangler"
    head_class = DisentanglerHead

    def __init__(self, config: DisentanglerConfig, encoder: PreTrainedModel | None = None):
        super().__init__(config, encoder)
        self.head.init_share()

    def output(self, states: Tensor | None, features: Tensor, language: str | None) -> DisentanglerOutput:
        """Both parts of (B, D) vectors."""
        pooled = self.head.prepare(features)
        mapped = self.head(pooled)
        parts = [mapped, pooled - mapped]
        if self.config.part == "language":
            parts.reverse()
        return DisentanglerOutput(states, pooled, F.normalize(mapped, dim=-1), *parts)

    def exchanged(self) -> "DisentanglerModel":
        """The same split with the language part as embedding (or back again); the encoder is shared, not copied.

        `hfxling.hub.writing.export(model.exchanged(), tokenizer, folder)` writes the second stock folder.
        """
        other = {"meaning": "language", "language": "meaning"}[self.config.part]
        fields = self.config.head_dict() | {"part": other}
        fields["encoder_config"] = None if self.encoder is None else self.encoder.config
        model = type(self)(self.config_class(**fields), self.encoder)
        linear, rest = self.head.linear, model.head.linear
        with torch.no_grad():  # e - (W e + b) = (I - W) e - b
            nn.init.eye_(rest.weight).sub_(linear.weight)
            if linear.bias is not None:
                rest.bias.copy_(-linear.bias)
        return model.to(linear.weight.device, linear.weight.dtype).eval()
