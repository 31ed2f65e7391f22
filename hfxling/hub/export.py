"""A trained model as a folder that loads anywhere."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


def export(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase | None,
    folder: str | Path,
    *,
    max_length: int | None = None,
) -> None:
    """Write model and tokenizer so that sentence-transformers, transformers and hfxling all load them.

    Args:
        model: one of the package's models; its `save_pretrained` writes the stock modules and copies its code.
        tokenizer: of its encoder; None for a head that works on vectors alone.
        folder: an existing folder or one to be made. To replace a folder in one step, write to a scratch path
            (`hfxling.files.atomic_path`).
        max_length: tokens kept of a text at inference; by default as the tokenizer says.
    """
    model.save_pretrained(folder)
    if tokenizer is None:
        return
    tokenizer = copy.deepcopy(tokenizer)
    if tokenizer.is_fast:  # truncation and padding of the last call would be stored as if they were the model's
        tokenizer.backend_tokenizer.no_truncation()
        tokenizer.backend_tokenizer.no_padding()
    if max_length:
        tokenizer.model_max_length = max_length
    for leftover in ("is_local", "local_files_only", "max_length", "stride", "truncation_strategy"):
        tokenizer.init_kwargs.pop(leftover, None)
    tokenizer.save_pretrained(folder)
