"""From token states to one vector a sentence: the only pooling code."""

import json
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

POOLING_MODES = ("mean", "cls", "last")


def pool(hidden: Tensor, attention_mask: Tensor, mode: str = "mean") -> Tensor:
    """Pool token states over real positions.

    Args:
        hidden: (B, S, H) token states; the vectors are (B, H) in their dtype.
        attention_mask: (B, S), 1 at real positions; padding may stand on either side. Special tokens count as real,
            as they do in sentence-transformers.
        mode: "mean" of the real positions, "cls" the first real position, "last" the last one.

    Raises:
        ValueError: for an unknown mode.
    """
    if mode not in POOLING_MODES:
        raise ValueError(f"pooling={mode!r} is not one of {', '.join(POOLING_MODES)}.")
    if mode == "mean":
        mask = attention_mask.unsqueeze(-1).to(hidden.dtype)
        return (hidden * mask).sum(1) / mask.sum(1).clamp(min=1)
    real = attention_mask.to(torch.int64)
    # The largest is the first one where all real positions have 1, the last one where they are numbered.
    index = (real if mode == "cls" else real.cumsum(1) * real).argmax(1)
    return hidden[torch.arange(hidden.shape[0], device=hidden.device), index]


def unit_parts(vectors: Tensor, parts: int = 1) -> Tensor:
    """(..., parts * H) vectors with each of their `parts` stretches of H at length 1."""
    return F.normalize(vectors.unflatten(-1, (parts, -1)), dim=-1).flatten(-2)


class NormalizeParts(nn.Module):
    """`unit_parts` as a sentence-transformers module, for vectors of several layers side by side.

    sentence-transformers has no module for it, so a folder that names this one needs `trust_remote_code=True`.
    """

    def __init__(self, parts: int):
        super().__init__()
        self.parts = parts

    def forward(self, features: dict) -> dict:
        """Replace "sentence_embedding", (B, parts * H)."""
        features["sentence_embedding"] = unit_parts(features["sentence_embedding"], self.parts)
        return features

    def save(self, output_path: str, *args, **kwargs) -> None:
        """Write config.json."""
        Path(output_path, "config.json").write_text(json.dumps({"parts": self.parts}) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, input_path: str) -> "NormalizeParts":
        """Read config.json."""
        return cls(**json.loads(Path(input_path, "config.json").read_text(encoding="utf-8")))
