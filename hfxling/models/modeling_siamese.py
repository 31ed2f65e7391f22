"""Siamese linear head on a frozen middle layer ("mBERT-SF"; Huang et al. 2023, ACM TALLIP)."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .configuration_siamese import SiameseConfig
from .pooling import unit_parts
from .stock import StockModel, StockOutput

_SHARED = "shared"


class SiameseHead(nn.Module):
    """The trained part: frozen sentence vectors in, cross-lingual sentence vectors out (paper, eq. 1)."""

    def __init__(self, config: SiameseConfig):
        super().__init__()
        self.config = config
        size, out = config.input_size, config.output_size or config.input_size
        sizes = [(size, size), (size, out)] if config.head == "tanh2" else [(size, out)]
        keys = config.languages if config.per_language else [_SHARED]
        self.maps = nn.ModuleDict()
        for key in keys:
            self.maps[key] = nn.ModuleList(nn.Linear(*shape, bias=config.bias) for shape in sizes)
        self.input_centers = _centers(size, config.languages if config.center_input else ())
        self.centers = _centers(out, config.languages if config.centering == "train" else ())
        self.activation = config.head.removesuffix("2")  # "tanh2" is two layers of "tanh"

    def init_identity(self) -> None:
        """Start every linear layer as the identity, so that an untrained linear head changes nothing."""
        for layer in self.modules():
            if isinstance(layer, nn.Linear):
                nn.init.eye_(layer.weight)
                if layer.bias is not None:
                    nn.init.zeros_(layer.bias)

    def set_means(self, means: dict[str, Tensor]) -> None:
        """Store the (D,) mean of the unit output vectors of every language."""
        for language, center in self.centers.items():
            with torch.no_grad():
                center.bias.copy_(-torch.as_tensor(means[language]))

    def set_input_maps(self, maps: dict[str, tuple[Tensor, Tensor]]) -> None:
        """Store what centres every language's normalised input vectors: weight (H, H) and bias (H,)."""
        for language, center in self.input_centers.items():
            with torch.no_grad():
                center.weight.copy_(torch.as_tensor(maps[language][0]))
                center.bias.copy_(torch.as_tensor(maps[language][1]))

    def check_language(self, language: str | None) -> None:
        """Raise the ValueError that names the languages when one is needed and `language` is none of them."""
        known = self.config.languages
        if self.config.needs_language and language not in known:
            raise ValueError(
                f"language={language!r}: this model treats its languages differently; pass one of {', '.join(known)}, "
                "or load the part of one language alone, which its card on the Hub names."
            )
        if self.config.has_parts and language not in (None, *known):
            raise ValueError(f"language={language!r}: this model is for {known[0]} alone.")

    def _part(self, parts: nn.ModuleDict, language: str | None) -> nn.Module:
        """What a language has of its own; of a model for one language that one's."""
        return parts[self.config.languages[0] if language is None else language]

    def project(self, features: Tensor, language: str | None = None) -> Tensor:
        """The raw head output `dropout(W x)`, (..., D): what the losses see. `features` is (..., H)."""
        vectors = self.normalized(features, language)
        for layer in self._part(self.maps, language) if self.config.per_language else self.maps[_SHARED]:
            vectors = layer(vectors)
            if self.activation != "linear":
                vectors = getattr(torch, self.activation)(vectors)
        return F.dropout(vectors, self.config.dropout, self.training)

    def normalized(self, features: Tensor, language: str | None = None) -> Tensor:
        """(..., H) frozen vectors as the maps take them: at unit length, centred where the config says so."""
        if not self.config.normalize_input:
            return features
        vectors = unit_parts(features, self.config.parts)
        if self.input_centers:
            vectors = unit_parts(self._part(self.input_centers, language)(vectors), self.config.parts)
        return vectors

    def forward(self, features: Tensor, language: str | None = None) -> Tensor:
        """(..., H) frozen vectors to (..., D) unit vectors; `language` is needed where the maps or means differ.

        Raises:
            ValueError: when the language is needed and missing or unknown.
        """
        self.check_language(language)
        vectors = F.normalize(self.project(features, language), dim=-1)
        if self.centers:
            vectors = F.normalize(self._part(self.centers, language)(vectors), dim=-1)
        return vectors

    def stock_steps(self) -> list[tuple]:
        """The same computation as stock sentence-transformers modules (see `stock.py`)."""
        routes = {}
        for key, layers in self.maps.items():
            routes[key] = [("Dense", layer, self.activation) for layer in layers]
        parts = self.config.parts
        unit = ("Normalize", None) if parts == 1 else ("NormalizeParts", parts)
        steps: list[tuple] = [unit] if self.config.normalize_input else []
        if self.input_centers:
            centers = {key: [("Dense", center, "linear")] for key, center in self.input_centers.items()}
            steps += [*_routed(centers), unit]
        steps += _routed(routes)
        if self.centers:
            centers = {key: [("Dense", center, "linear")] for key, center in self.centers.items()}
            steps += [("Normalize", None), *_routed(centers)]
        return [*steps, ("Normalize", None)]


def _routed(routes: dict[str, list[tuple]]) -> list[tuple]:
    """A Router by language; of one language alone, or a shared part, its modules."""
    return [("Router", routes)] if len(routes) > 1 else next(iter(routes.values()))


def _centers(size: int, languages) -> nn.ModuleDict:
    """Centring is an affine map like the others: identity weight, minus the language's mean as bias."""
    centers = nn.ModuleDict({key: nn.Linear(size, size) for key in languages})
    for center in centers.values():
        center.requires_grad_(False)
        nn.init.eye_(center.weight)
        nn.init.zeros_(center.bias)
    return centers


class SiameseModel(StockModel):
    """A frozen encoder and a siamese head."""

    config_class = SiameseConfig
    base_model_prefix = stock_key = "siamese"
    head_class = SiameseHead

    @classmethod
    def from_encoder(cls, name: str, *, identity: bool = True, **settings) -> "SiameseModel":
        """A new head on an encoder, as `StockModel.from_encoder` describes; the layer is 7 (the paper's for mBERT).

        The head starts as the identity, or with identity=False by torch's default.
        """
        model = super().from_encoder(name, **settings)
        if identity:
            model.head.init_identity()
        return model

    def for_language(self, language: str) -> "SiameseModel":
        """The same model for texts of one language: stock modules without a Router, which is all that servers read.

        The encoder is shared, not copied.
        """
        self.head.check_language(language)
        fields = self.config.head_dict() | {"languages": [language]}
        fields["encoder_config"] = None if self.encoder is None else self.encoder.config
        model = type(self)(self.config_class(**fields), self.encoder)
        weights = self.head.state_dict()  # of all languages
        model.head.load_state_dict({key: weights[key] for key in model.head.state_dict()})
        return model.eval()

    def output(self, states: Tensor | None, pooled: Tensor, language: str | None) -> StockOutput:
        """As in `StockModel`; no embedding where the language must be known and is not."""
        is_known = not self.config.needs_language or language is not None
        return StockOutput(states, pooled, self.head(pooled, language) if is_known else None)
