"""Rows of parallel text to model inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class PairCollator:
    """Tokenizes a batch of pairs, each side padded on the right to its longest text.

    There is nothing random in it: the Trainer collates one batch ahead, so after a resume a random state kept here
    would be one batch off.

    Args:
        tokenizer: of transformers.
        max_length: tokens kept of a text, special ones included. DAP paper: 32.
        languages: codes of all source languages; with them the batch says which language each pair has.
        prompt: put before every text.

    Raises:
        ValueError: for a max_length without room for a token beside the special ones, or, when called, a language that
            is not in `languages`.
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        max_length: int = 32,
        *,
        languages: Sequence[str] | None = None,
        prompt: str | None = None,
    ):
        special = tokenizer.num_special_tokens_to_add()
        if max_length <= special:
            raise ValueError(f"max_length={max_length}: {special} of them are special tokens; give more.")
        self.tokenizer, self.max_length, self.prompt = tokenizer, max_length, prompt or ""
        self.languages = None if languages is None else {language: i for i, language in enumerate(languages)}

    def __call__(self, rows: Sequence[dict[str, str]]) -> dict:
        """{"source", "target": {"input_ids", "attention_mask"}} of (B, S) each, and (B,) "language" where asked for."""
        batch = {}
        for side in ("source", "target"):
            batch[side] = self._encode([self.prompt + row[side] for row in rows])
        if self.languages is not None:
            batch["language"] = torch.tensor([self._language(row["source_lang"]) for row in rows])
        return batch

    def _encode(self, texts: list[str]) -> dict[str, torch.Tensor]:
        encoded = self.tokenizer(
            texts,
            truncation=True,
            max_length=self.max_length,
            padding=True,
            padding_side="right",
            return_token_type_ids=False,
            return_attention_mask=True,
            return_tensors="pt",
        )
        return {name: encoded[name] for name in ("input_ids", "attention_mask")}

    def _language(self, code: str) -> int:
        if code not in self.languages:
            raise ValueError(f"language {code!r} is not one of {', '.join(self.languages)}.")
        return self.languages[code]
