"""Words to vectors by any encoder: the mean of a word's pieces."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from hfxling.models.encoder import hidden_states

from .frozen import length_sorted, token_limit


class WordStates:
    """Sentences given as lists of words to one vector a word, length-sorted and without padding work.

    Args:
        model: an encoder; it is used on the device where it is.
        tokenizer: its fast tokenizer.
        layer: index into `hidden_states`; None is the last layer.
        max_length: tokens kept of a sentence, see `token_limit`.

    Raises:
        ValueError: for a tokenizer that cannot say which word a piece belongs to, or a layer that the encoder lacks.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        *,
        layer: int | None = None,
        max_length: int | None = None,
    ):
        if not getattr(tokenizer, "is_fast", False):
            raise ValueError(f"{type(tokenizer).__name__} does not tell a piece's word; give a fast tokenizer.")
        depth = model.config.num_hidden_layers
        if layer is not None and not -depth - 1 <= layer <= depth:
            raise ValueError(f"layer={layer} is none of hidden_states 0..{depth}.")
        self.model, self.tokenizer, self.layer = model.eval(), tokenizer, -1 if layer is None else layer
        self.max_length = token_limit(tokenizer, model.config, max_length)

    @torch.inference_mode()
    def __call__(self, sentences: Sequence[Sequence[str]]) -> list[np.ndarray]:
        """One (words, H) float32 array a sentence; a row is NaN where a word has no piece or was cut off."""
        if not len(sentences):
            return []
        encoded = self.tokenizer(
            [list(words) for words in sentences],
            is_split_into_words=True,
            truncation=True,
            max_length=self.max_length,
            return_attention_mask=False,
        )
        ids = encoded["input_ids"]
        vectors: list[np.ndarray] = [np.empty(0)] * len(ids)
        for rows, inputs in length_sorted(self.tokenizer, ids, self.model.device, padding_side="right"):
            states = hidden_states(self.model, inputs)[self.layer].float().cpu().numpy()
            for row, state in zip(rows, states):
                vectors[row] = _word_means(state[: len(ids[row])], encoded.word_ids(row), len(sentences[row]))
        return vectors


def _word_means(states: np.ndarray, word_ids: Sequence[int | None], words: int) -> np.ndarray:
    """(words, H) means of the (S, H) states of each word's pieces."""
    pieces = [i for i, word in enumerate(word_ids) if word is not None]
    owner = np.array([word_ids[i] for i in pieces], np.int64)
    sums = np.zeros((words, states.shape[1]), np.float32)
    np.add.at(sums, owner, states[pieces])
    counts = np.bincount(owner, minlength=words).astype(np.float32)
    counts[counts == 0] = np.nan
    return sums / counts[:, None]
