"""Batches from many corpora: mixed by weight, similar in length, the same plan on all processes, exactly resumable."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch.utils.data

from hfxling.data.sources import COLUMNS
from hfxling.files import atomic_path
from hfxling.progress import bar

if TYPE_CHECKING:
    import datasets
    import pyarrow as pa

Row = dict[str, str]
MIXINGS = ("proportional", "temperature")
_BLOCK = 10_000  # rows measured at a time
_COUNTS, _ORDER, _PASS = range(3)  # what a sequence of random numbers is for


def mixing_weights(sizes: Sequence[int], mixing: str = "proportional", temperature: float = 5.0) -> np.ndarray:
    """Probability of each corpus: p_i ~ n_i (proportional) or n_i ** (1 / temperature).

    Temperature 1 is proportional, infinity uniform. 5 is what Arivazhagan et al. (2019) mix 103 languages with; XLM-R's
    exponent of 0.3 is a temperature of 3.3.

    Raises:
        ValueError: for an empty corpus.
    """
    sizes = np.asarray(sizes, np.float64)
    if not len(sizes) or sizes.min() < 1:
        raise ValueError(f"sizes={sizes.astype(int).tolist()}: give at least one corpus, and none that is empty.")
    weights = sizes if mixing == "proportional" else sizes ** (1 / temperature)
    return weights / weights.sum()


class TokenLengths:
    """Length of pairs in tokens, (N,): that of the longer side, and in case of ties the sum of both.

    A batch then has hardly any padding on either side. This takes one pass of the tokenizer over the text. At most
    `max_length` tokens of a side count, including special ones.
    """

    def __init__(self, tokenizer: Any, max_length: int):
        self.tokenizer, self.max_length = tokenizer, max_length

    def __call__(self, source: pa.Array, target: pa.Array) -> np.ndarray:
        """(N,) lengths of N pairs."""
        sides = []
        for texts in (source, target):
            encoded = self.tokenizer(texts.to_pylist(), return_attention_mask=False, verbose=False)
            sides.append(np.minimum([len(ids) for ids in encoded["input_ids"]], self.max_length))
        # One number that sorts by the longer side first: no sum gets beyond 2 * max_length, and where one reaches it
        # there is no longer side.
        return np.maximum(*sides) * 2 * self.max_length + np.add(*sides)

    @property
    def key(self) -> str:
        """A key that changes with everything that changes the lengths."""
        settings = self.tokenizer.get_vocab()
        if self.tokenizer.is_fast:
            settings = json.loads(self.tokenizer.backend_tokenizer.to_str())
            settings |= {"truncation": None, "padding": None}  # what its last call has left there
        content = json.dumps([type(self.tokenizer).__name__, self.max_length, settings], sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()


class MixedBatches(torch.utils.data.Dataset):
    """Item t is batch t: this process's rows of it, as a list of {"source", "target", "source_lang", "target_lang"}.

    Batch t depends only on the seed and t. So every process knows the same plan and takes every world-th row of it, a
    run resumes anywhere without reading the skipped part, and workers need no coordination. The rows of a batch are
    drawn from all corpora by weight. Within a corpus they are drawn without replacement, pass after pass, each in a new
    order. A megabatch is `bucket` batches whose rows are drawn together, sorted by length and cut into batches; for a
    small corpus it has fewer batches, so that hardly any row is in it twice.

    `batch_loader` makes the DataLoader for it. Memory in addition to the corpora: 8 bytes a row.

    Args:
        corpora: a `datasets.Dataset` each, with at least the four columns; best memory-mapped.
        weights: probability of each corpus, see `mixing_weights`; scaled to sum to 1.
        batch_size: number of rows of a batch over all processes.
        batches: number of batches (optimizer steps times accumulation).
        seed: seed of everything random.
        bucket: most batches whose rows are sorted by length together; 1: no sorting.
        rank: number of this process.
        world: number of processes.
        measure: function that gives the lengths of rows; it is called on all text when this object is made.
        cache_dir: folder in which lengths are cached; processes then share their memory, too.
    """

    def __init__(
        self,
        corpora: Sequence[datasets.Dataset],
        weights: Sequence[float],
        *,
        batch_size: int,
        batches: int,
        seed: int = 0,
        bucket: int = 64,
        rank: int = 0,
        world: int = 1,
        measure: TokenLengths,
        cache_dir: str | Path | None = None,
    ):
        from datasets import concatenate_datasets

        self.weights = np.asarray(weights, np.float64) / np.sum(weights)
        sizes = [len(corpus) for corpus in corpora]
        self.batch_size, self.batches, self.seed = batch_size, batches, seed
        self.bucket = min(bucket, self._most_batches(sizes))
        self.rank, self.world, self.measure = rank, world, measure
        # One set, as 36 look-ups a batch would cost more than the rows themselves.
        self.corpora = concatenate_datasets([corpus.select_columns(COLUMNS) for corpus in corpora])
        self.sizes, self.offsets = np.array(sizes), np.cumsum([0, *sizes[:-1]])
        self.lengths = self._cached(cache_dir) if self.bucket > 1 else np.zeros(len(self.corpora), np.uint8)
        self._starts = [np.zeros(len(sizes), np.int64)]  # rows of each corpus before megabatch m
        self._passes: dict[int, tuple[int, np.ndarray]] = {}  # by corpus the number and order of its current pass
        self._plan: tuple[int, np.ndarray] = (-1, np.empty(0))  # the last megabatch asked for, and its batches

    def _most_batches(self, sizes: Sequence[int]) -> int:
        """The largest number of batches for which no corpus gives more rows than it has, but at least one.

        Sorted by length, copies of a row would be side by side, so in one batch, where they are no negatives.
        """
        rows_a_batch = self.weights * self.batch_size
        return max(1, int(np.min(np.array(sizes) / np.maximum(rows_a_batch, 1e-12))))

    def __len__(self) -> int:
        return self.batches

    def __getitem__(self, t: int) -> list[Row]:
        return self.__getitems__([t])

    def __getitems__(self, batches: Sequence[int]) -> list[Row]:
        """The rows of some batches in one list; with this a DataLoader gives its collator rows, not lists of rows."""
        own_rows = [self.rows(t)[self.rank :: self.world] for t in batches]
        return self.corpora.__getitems__(np.concatenate(own_rows))

    def rows(self, t: int) -> np.ndarray:
        """(batch_size,) row numbers of batch t over all processes, counted through the corpora one after another."""
        if not 0 <= t < self.batches:  # what ends an iteration by numbers
            raise IndexError(f"batch {t} of {self.batches}")
        megabatch, place = divmod(int(t), self.bucket)
        if self._plan[0] != megabatch:
            self._plan = megabatch, self._megabatch(megabatch)
        return self._plan[1][place]

    def _megabatch(self, megabatch: int) -> np.ndarray:
        while len(self._starts) <= megabatch:
            self._starts.append(self._starts[-1] + self._counts(len(self._starts) - 1))
        starts, counts = self._starts[megabatch], self._counts(megabatch)
        drawn = [self._draw(corpus, starts[corpus], counts[corpus]) for corpus in np.flatnonzero(counts)]
        rows = np.concatenate(drawn)
        return rows[self._cut(self.lengths[rows], megabatch)]

    def _rng(self, *purpose: int) -> np.random.Generator:
        return np.random.default_rng((self.seed, *purpose))

    def _counts(self, megabatch: int) -> np.ndarray:
        """Number of rows of each corpus in a megabatch."""
        return self._rng(_COUNTS, megabatch).multinomial(self.bucket * self.batch_size, self.weights)

    def _cut(self, lengths: np.ndarray, megabatch: int) -> np.ndarray:
        """(bucket, batch_size) positions in `lengths`: rows of similar length together, batches in random order."""
        rng = self._rng(_ORDER, megabatch)
        shuffled = rng.permutation(len(lengths))  # so that rows of one length do not stand corpus by corpus
        order = shuffled[np.argsort(lengths[shuffled], kind="stable")] if self.bucket > 1 else shuffled
        return order.reshape(self.bucket, self.batch_size)[rng.permutation(self.bucket)]

    def _draw(self, corpus: int, start: int, number: int) -> np.ndarray:
        """The `number` rows from `start` on in the endless sequence of shuffled passes over a corpus."""
        size = self.sizes[corpus]
        parts = []
        while number:
            number_of_pass, offset = divmod(start, size)
            part = self._pass(corpus, number_of_pass)[offset : offset + number]
            parts.append(part)
            start, number = start + len(part), number - len(part)
        return self.offsets[corpus] + np.concatenate(parts)

    def _pass(self, corpus: int, number: int) -> np.ndarray:
        cached_number, order = self._passes.get(corpus, (None, None))
        if cached_number != number:
            order = np.arange(self.sizes[corpus], dtype=np.int32)
            self._rng(_PASS, corpus, int(number)).shuffle(order)
            self._passes[corpus] = number, order
        return order

    def _cached(self, cache_dir: str | Path | None) -> np.ndarray:
        if cache_dir is None:
            return self._measured()
        digest = hashlib.sha256(f"{self.corpora._fingerprint} {self.measure.key}".encode()).hexdigest()
        path = Path(cache_dir) / f"lengths-{digest[:32]}.npy"
        if not path.exists():
            with atomic_path(path) as scratch:
                np.save(scratch, self._measured())
        return np.load(path, mmap_mode="r")

    def _measured(self) -> np.ndarray:
        blocks = self.corpora.with_format("arrow").iter(batch_size=_BLOCK)
        lengths = []
        with bar(total=len(self.corpora), unit="pairs", label="measure lengths", delay=5) as measured:
            for block in blocks:
                lengths.append(self.measure(block["source"], block["target"]).astype(np.int32))
                measured.update(len(block))
        return np.concatenate(lengths)


def batch_loader(
    batches: MixedBatches, collator: Callable[[list[Row]], Any], **kwargs: Any
) -> torch.utils.data.DataLoader:
    """A DataLoader of ready batches, which must not be sharded or shuffled again (do not `prepare` it).

    `accelerate.skip_first_batches`, with which the Trainer resumes, skips batches without touching the data.
    """
    # An item is a batch already; by a batch sampler of one item `skip_first_batches` skips numbers and not items.
    return torch.utils.data.DataLoader(batches, batch_size=1, collate_fn=collator, **kwargs)
