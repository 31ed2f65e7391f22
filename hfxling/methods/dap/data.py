"""From parallel text of many languages with one common language to mixed batches and model inputs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase, TrainingArguments

from hfxling.data.corpus import Corpus
from hfxling.data.leakage import drop_leaks
from hfxling.data.sources import COLUMNS, name_of_pair

from .arguments import DapSettings
from .mixing import MixedBatches, TokenLengths, mixing_weights

if TYPE_CHECKING:
    from datasets import Dataset

MEAN_OF = 250  # pairs of each language pair from which the mean vector is computed


def keep_out(corpus: Corpus, count: int) -> dict[str, Dataset]:
    """Remove `count` pairs of each language, and pairs that repeat them, from the training text; equal for every seed.

    Returns:
        Source language -> the `count` pairs.
    """
    kept_out = {}
    for pair in corpus.pairs:
        order = np.random.default_rng(0).permutation(len(pair.train))
        taken = pair.train.select(np.sort(order[:count])).select_columns(COLUMNS)
        left = pair.train.select(np.sort(order[count:]))
        if len(left):
            left, leaks = drop_leaks(left, taken)
            pair.dropped = pair.dropped | {"kept out": count + len(leaks)}
        if not len(left):
            name = name_of_pair(pair.languages)
            raise ValueError(f"dev_pairs={count}: no pair of {name} is left to train on; give fewer, or more text.")
        pair.train, kept_out[pair.languages[0]] = left, taken
    return kept_out


def weights(corpus: Corpus, settings: DapSettings) -> np.ndarray:
    """Probability of each language pair in a batch."""
    sizes = [pair.used for pair in corpus.pairs]
    return mixing_weights(sizes, settings.mixing, settings.mixing_temperature)


def target_ids(corpus: Corpus, settings: DapSettings, tokenizer: PreTrainedTokenizerBase) -> Tensor | None:
    """Every token id that RTL may have to predict; None if the softmax is over the whole vocabulary."""
    if not settings.shortlist or "rtl" not in settings.objective:
        return None
    sides = {"xx-en": ["target"], "en-xx": ["source"], "both": ["source", "target"]}[settings.rtl_direction]
    prompt = settings.text_prompt or ""  # put before the reconstructed text, too
    is_target = np.zeros(len(tokenizer), bool)
    for pair in corpus.pairs:
        for block in pair.train.select_columns(sides).iter(batch_size=10_000):
            for side in sides:
                texts = [prompt + text for text in block[side]]
                ids = tokenizer(texts, return_attention_mask=False, verbose=False)["input_ids"]
                is_target[list(chain.from_iterable(ids))] = True
    return torch.from_numpy(np.flatnonzero(is_target))


def spread(size: int, count: int) -> range:
    """At most `count` evenly spaced positions in 0..size-1."""
    step = max(1, size // count)
    return range(0, size, step)[:count]


def mean_texts(corpus: Corpus) -> list[str]:
    """Texts from which the mean vector is computed: equally many of every language pair and side."""
    texts = []
    for pair in corpus.pairs:
        for row in pair.train.select(spread(len(pair.train), MEAN_OF)):
            texts += [row["source"], row["target"]]
    return texts


def mixed_batches(
    corpus: Corpus, settings: DapSettings, training_args: TrainingArguments, tokenizer: PreTrainedTokenizerBase
) -> MixedBatches:
    """The training text as batches for this process; if `max_steps` is not given, it is set from the epochs."""
    accumulation = training_args.gradient_accumulation_steps
    world = training_args.world_size
    batch_size = training_args.per_device_train_batch_size * world
    pairs = sum(len(pair.train) for pair in corpus.pairs)
    if batch_size > pairs:
        raise ValueError(
            f"per_device_train_batch_size={training_args.per_device_train_batch_size}: a batch of {batch_size} is more "
            f"than the {pairs} pairs there are, and copies teach nothing; give a smaller size."
        )
    if training_args.max_steps < 1:
        epochs = training_args.num_train_epochs
        training_args.max_steps = max(1, int(pairs * epochs) // (batch_size * accumulation))
    return MixedBatches(
        [pair.train for pair in corpus.pairs],
        weights(corpus, settings),
        batch_size=batch_size,
        batches=training_args.max_steps * accumulation,
        seed=training_args.data_seed if training_args.data_seed is not None else training_args.seed,
        bucket=settings.bucket,
        rank=training_args.process_index,
        world=world,
        measure=TokenLengths(tokenizer, settings.max_length),
        cache_dir=settings.cache_dir,
    )


class PairCollator:
    """Tokenizes a batch of pairs, each side padded on the right to its longest text.

    It has no random state: the Trainer collates one batch ahead, so after a resume a random state kept here would be
    one batch off. If the codes of all languages are given, the batch says which one each pair's source has.
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        max_length: int = 32,
        *,
        languages: Sequence[str] = (),
        prompt: str | None = None,
    ):
        special = tokenizer.num_special_tokens_to_add()
        if max_length <= special:
            raise ValueError(f"max_length={max_length} leaves no room beside the {special} special tokens; give more.")
        self.tokenizer, self.max_length, self.prompt = tokenizer, max_length, prompt or ""
        self.languages = {language: number for number, language in enumerate(languages)}

    def __call__(self, rows: Sequence[dict[str, str]]) -> dict:
        """{"source", "target": {"input_ids", "attention_mask"}} of (B, S) each, and (B,) "language" if asked for."""
        batch = {}
        for side in ("source", "target"):
            batch[side] = self._encode([self.prompt + row[side] for row in rows])
        if self.languages:
            batch["language"] = torch.tensor([self.languages[row["source_lang"]] for row in rows])
        return batch

    def _encode(self, texts: list[str]) -> dict[str, Tensor]:
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
