"""Masks and batches that hang on seed and epoch alone: a run that is resumed goes on as if nothing had happened."""

from __future__ import annotations

import zlib

import torch
from transformers import DataCollatorForLanguageModeling, TrainerCallback
from transformers.trainer_pt_utils import LengthGroupedSampler, get_length_grouped_indices

from .trainer import XlingTrainer


class MaskingCollator(DataCollatorForLanguageModeling):
    """Pads and masks; counts the positions of every sentence from its own start, as when it is encoded alone.

    What is masked hangs on the batch, `epoch` and `run_seed` alone.
    """

    epoch, run_seed = 0, 0

    def torch_call(self, examples):
        """(B, S) tensors input_ids, attention_mask, position_ids and labels (-100 where nothing is predicted)."""
        drawn_from = (self.run_seed, self.epoch, [example["input_ids"] for example in examples])
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(zlib.crc32(repr(drawn_from).encode()))
            batch = dict(super().torch_call(examples))
        unmasked = torch.where(batch["labels"] == -100, batch["input_ids"], batch["labels"])
        index = torch.arange(unmasked.shape[1])
        ends = torch.where(unmasked == self.tokenizer.sep_token_id, index, 0).cummax(dim=1).values
        batch["position_ids"] = index - torch.nn.functional.pad(ends, (1, -1))
        return batch


class GroupsByEpoch(LengthGroupedSampler):
    """Batches of like length, drawn anew in every epoch from its number."""

    epoch, run_seed = 0, 0

    def __iter__(self):
        generator = torch.Generator().manual_seed(zlib.crc32(repr((self.run_seed, self.epoch)).encode()))
        return iter(get_length_grouped_indices(self.lengths, self.batch_size, generator=generator))


class MaskedTrainer(XlingTrainer):
    """An `XlingTrainer` whose `MaskingCollator` and sampler know seed and epoch."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.by_epoch = [self.data_collator]
        self.add_callback(_EpochTeller(self.by_epoch))
        self.data_collator.run_seed = self.args.seed

    def _get_train_sampler(self, *args, **kwargs):
        sampler = super()._get_train_sampler(*args, **kwargs)
        if isinstance(sampler, LengthGroupedSampler):
            sampler = GroupsByEpoch(sampler.batch_size, lengths=sampler.lengths)
            sampler.run_seed = self.args.seed
            self.by_epoch[1:] = [sampler]
        return sampler


class _EpochTeller(TrainerCallback):
    def __init__(self, listeners: list):
        self.listeners = listeners

    def on_epoch_begin(self, args, state, control, **kwargs):
        """A resumed run begins somewhere in an epoch, of which the Trainer keeps a fraction."""
        for each in self.listeners:
            each.epoch = int((state.epoch or 0) + 1e-6)
