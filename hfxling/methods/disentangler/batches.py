"""Training the meaning/language split on vectors of many language pairs, read from disk in blocks."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset, Sampler

from hfxling.methods.frozen import Sides
from hfxling.methods.trainer import XlingTrainer
from hfxling.models.losses import SPLIT_LOSSES, split_losses
from hfxling.models.modeling_disentangler import DisentanglerHead

from .arguments import OBJECTIVES

# Rows in a block, and blocks that are shuffled together: at 768 dimensions a block is 12 MB for each side, and random
# reads are within 200 MB.
BLOCK, BLOCKS = 4096, 8


class SplitObjective(nn.Module):
    """A head and its loss, as the Trainer needs them.

    The objective is "intra" (eqs. 1 and 2), "inter" (eqs. 3 and 4) or "both". With `both_sides` meaning is separated
    from language on the target side, too, and not only on the source side as in the paper.
    """

    def __init__(self, head: DisentanglerHead, objective: str, both_sides: bool = False):
        super().__init__()
        self.head = head
        self.both_sides = both_sides
        weights = torch.tensor([float(name in OBJECTIVES[objective]) for name in SPLIT_LOSSES])
        self.register_buffer("weights", weights, persistent=False)

    def forward(self, pooled: Tensor, has_partner: Tensor, return_loss: bool = True) -> dict[str, Tensor]:
        """For a `PairRows` batch "loss", the objective's sum, and loss_mean, loss_lang, loss_cross, loss_sep.

        All terms are reported, even those that the objective leaves out. `return_loss` tells the Trainer that there is
        a loss without labels.
        """
        pooled = self.head.prepare(pooled)
        terms = split_losses(pooled, self.head(pooled), has_partner, both_sides=self.both_sides)
        parts = dict(zip(SPLIT_LOSSES, terms.detach()))
        return {"loss": terms @ self.weights} | {f"loss_{name}": value for name, value in parts.items()}


class PairRows(Dataset):
    """Rows of the vectors of several language pairs; indexed with many numbers it gives a batch for `SplitObjective`.

    The rows of a language pair are together in a batch, in the order in which they are asked for, and the first one is
    repeated after the last one. So the partner of each row is the next one, never itself, and never one of another
    language pair. If a language pair has a single row in a batch, that row is left out.

    Args:
        vectors: (source, target) vectors of each language pair; memory-mapped arrays are read only when needed.
        rows: for each language pair the row numbers to use, in their order on disk.
    """

    def __init__(self, vectors: Sequence[Sides], rows: Sequence[np.ndarray]):
        self.vectors, self.rows = vectors, rows
        self.ends = np.cumsum([len(part) for part in rows])

    def __len__(self) -> int:
        return int(self.ends[-1])

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return self.__getitems__([index])

    def __getitems__(self, indices: Sequence[int]) -> dict[str, Tensor]:
        """{"pooled": (R, 2, D), "has_partner": (R - 1,)}; a DataLoader calls this to get a whole batch at once."""
        indices = np.asarray(indices)
        of_pair = np.searchsorted(self.ends, indices, side="right")
        numbers, counts = np.unique(of_pair, return_counts=True)
        segments = [(number, indices[of_pair == number]) for number in numbers[counts > 1]]
        size = self.vectors[0][0].shape[1]
        if not segments:  # give a row without a partner, whose losses are zero
            return {"pooled": torch.zeros(1, 2, size), "has_partner": torch.zeros(0, dtype=torch.bool)}
        length = sum(len(segment) + 1 for _, segment in segments)
        pooled = np.empty((length, 2, size), np.float32)
        has_partner = np.ones(length, bool)
        start = 0
        for number, segment in segments:
            first_of_pair = self.ends[number] - len(self.rows[number])
            rows = self.rows[number][segment - first_of_pair]
            stop = start + len(rows)
            for side in range(2):
                pooled[start:stop, side] = self.vectors[number][side][rows]
            pooled[stop] = pooled[start]
            has_partner[stop] = False
            start = stop + 1
        return {"pooled": torch.from_numpy(pooled), "has_partner": torch.from_numpy(has_partner[:-1])}


class BlockSampler(Sampler):
    """Shuffled row numbers of `PairRows` that are near each other on disk for thousands of rows at a time.

    The rows are divided into blocks, anew in every epoch. Some blocks at a time are each shuffled and dealt out in runs
    as long as a batch. The last run of a block is shorter, so a batch may have the end of one run and the start of the
    next. It therefore has one or two language pairs if these have enough rows, and nearly every row finds its partner
    in it. The order of epoch k depends only on (seed, k).
    """

    def __init__(self, dataset: PairRows, batch_size: int, seed: int = 0):
        self.dataset, self.batch_size, self.seed, self.epoch = dataset, batch_size, seed, 0

    def __len__(self) -> int:
        return len(self.dataset)

    def set_epoch(self, epoch: int) -> None:
        """Called by the Trainer."""
        self.epoch = epoch

    def __iter__(self) -> Iterator[int]:
        rng = np.random.default_rng((self.seed, self.epoch))
        blocks = []
        for start, stop in pairwise([0, *self.dataset.ends]):  # of every language pair
            first_cut = start + int(rng.integers(1, BLOCK + 1))
            cuts = [start, *range(first_cut, stop, BLOCK), stop]
            blocks += [np.arange(*cut) for cut in pairwise(cuts)]
        order = rng.permutation(len(blocks))
        for place in range(0, len(blocks), BLOCKS):
            runs = []
            for block in order[place : place + BLOCKS]:
                rows = rng.permutation(blocks[block])
                runs += np.split(rows, range(self.batch_size, len(rows), self.batch_size))
            for run in rng.permutation(len(runs)):
                yield from runs[run].tolist()


class SplitTrainer(XlingTrainer):
    """The Trainer for `PairRows`, which it reads in blocks."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, data_collator=lambda batch: batch, **kwargs)

    def train(self, *args, **kwargs):
        """As in the Trainer."""
        keep_freed_memory()
        return super().train(*args, **kwargs)

    def _get_train_sampler(self, train_dataset: PairRows | None = None) -> BlockSampler:
        rows = self.args.per_device_train_batch_size * max(1, self.args.gradient_accumulation_steps)
        return BlockSampler(train_dataset or self.train_dataset, rows, self.args.seed)


def keep_freed_memory() -> None:
    """Make the C library keep the 20 MB that every step frees: faulting them in again costs an eighth of an epoch.

    Does nothing if the library is not glibc.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mmap_threshold, trim_threshold = -3, -1  # parameters of <malloc.h>; the first may be at most 32 MB
        mallopt(mmap_threshold, 1 << 25)
        mallopt(trim_threshold, 1 << 30)
