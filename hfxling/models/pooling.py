"""From token states to one vector a sentence: the only pooling code."""

import torch
from torch import Tensor

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
    index = (real if mode == "cls" else real.cumsum(1) * real).argmax(1)
    return hidden[torch.arange(len(hidden), device=hidden.device), index]
