"""Parallel text of many languages against one, to mixed batches."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase, TrainingArguments

from hfxling.data.filters import filter_parallel
from hfxling.data.leakage import drop_leaks
from hfxling.files import content_hash

from .arguments import DapArguments, MultiCorpusArguments, Source
from .mixing import MixedBatches, StreamBatches, TokenLengths, mixing_weights

if TYPE_CHECKING:
    from datasets import Dataset, IterableDataset

    AnyDataset = Dataset | IterableDataset


_SEED = 0  # of the sample that `max_pairs` keeps: the text does not change with the seed of a run


@dataclass
class LanguageReport:
    """What became of one language's text; numbers are None where it is streamed.

    Attributes:
        language: code of the source side.
        sources: what was read.
        missing: sources that do not have the language.
        read: pairs read.
        dropped: pairs removed, by reason.
        leaks: pairs removed because the test text has them; None where none was looked for.
        used: pairs left for training.
    """

    language: str
    sources: list[str]
    missing: list[str]
    read: int | None = None
    dropped: dict[str, int] = field(default_factory=dict)
    leaks: int | None = None
    used: int | None = None


@dataclass
class MultiCorpus:
    """Loaded text and the account of it.

    Attributes:
        train: one set or stream a language, with columns source, target, source_lang, target_lang; target is the pivot.
        reports: of each language, in the same order.
        name: of the data.
    """

    train: list[AnyDataset]
    reports: list[LanguageReport]
    name: str

    @property
    def languages(self) -> list[str]:
        """Codes of the source sides, in the order of `train`."""
        return [report.language for report in self.reports]

    def weights(self, args: MultiCorpusArguments) -> np.ndarray:
        """Probability of each language in a batch; equal ones for streams whose sizes nobody gave."""
        if args.sizes is not None:
            sizes = np.minimum(args.sizes, args.max_pairs)
        elif args.streaming:
            warnings.warn("sizes of streams are unknown, so all languages weigh the same; give sizes", stacklevel=2)
            sizes = [1] * len(self.reports)
        else:
            sizes = [report.used for report in self.reports]
        return mixing_weights(sizes, args.mixing, args.mixing_temperature)

    def card_entries(self, licence: str | None) -> list[dict]:
        """The training data as the card describes it, a language a line."""
        entries = []
        for dataset, report in zip(self.train, self.reports):
            entry = {"name": f"{self.name}, {report.language}", "pairs": report.used or "streamed"}
            if report.used is not None:
                entry |= {"revision": content_hash(dataset["source"], dataset["target"]), "dropped": report.dropped}
            if report.leaks is not None:
                entry["leaks"] = report.leaks
            entries.append(entry | ({"licence": licence} if licence else {}))
        return entries


def load_corpora(args: MultiCorpusArguments, tests: Mapping[str, Dataset] | None = None) -> MultiCorpus:
    """Read, filter, guard and cap the training text of every language.

    A source that lacks a language is passed over for it. A stream is filtered while it is read; of it `max_pairs` keeps
    the first pairs, of a set a random sample.

    Args:
        args: which text.
        tests: test text by language code; training pairs of that language that it contains are dropped. To guard the
            pivot's sentences of all languages against each other, give every language all the test text.

    Raises:
        ValueError: a language that no source has, a source that has no language, malformed text (see
            `load_parallel`), or a language of which no pair is left.
    """
    sources = [Source.parse(template) for template in args.train_data]
    train, reports = [], []
    for lang in args.languages:
        parts, report = _read(sources, lang, args)
        test = None if args.keep_leaks or args.streaming else (tests or {}).get(lang)
        train.append(_stream(parts, args) if args.streaming else _prepare(parts, report, args, test))
        reports.append(report)
    for number, template in enumerate(args.train_data):
        if all(sources[number].fill(lang, args.pivot).data in r.missing for lang, r in zip(args.languages, reports)):
            raise ValueError(f"train_data={template!r} has none of {', '.join(args.languages)}; check its spelling.")
    return MultiCorpus(train, reports, args.data_name or "+".join(_name_of(source.data) for source in sources))


def _read(sources: Sequence[Source], lang: str, args: MultiCorpusArguments) -> tuple[list[AnyDataset], LanguageReport]:
    parts, report = [], LanguageReport(lang, [], [])
    for source in sources:
        source = source.fill(lang, args.pivot)
        try:
            parts.append(source.load(lang, args.pivot, split=args.train_split, streaming=args.streaming))
            report.sources.append(source.data)
        except (FileNotFoundError, ValueError) as error:
            if not _lacks_language(error, source.data):
                raise
            report.missing.append(source.data)
    if not parts:
        raise ValueError(f"language {lang!r} is in none of the training data ({', '.join(report.missing)}).")
    return parts, report


def _lacks_language(error: Exception, data: str) -> bool:
    """Whether an error means that a source is sound, as far as one can see, but not there for this language."""
    message = str(error)
    no_config = "BuilderConfig" in message and "not found" in message
    return isinstance(error, FileNotFoundError) or no_config or (data == "sample" and "not in the sample" in message)


def _prepare(parts: list, report: LanguageReport, args: MultiCorpusArguments, test: Dataset | None) -> Dataset:
    from datasets import concatenate_datasets

    dataset = concatenate_datasets(parts)
    report.read = len(dataset)
    dataset, report.dropped = filter_parallel(dataset, min_words=args.min_words)
    if test is not None:
        dataset, leaks = drop_leaks(dataset, test)
        report.leaks = leaks.exact + leaks.near
    if len(dataset) > args.max_pairs:
        kept = np.random.default_rng(_SEED).choice(len(dataset), args.max_pairs, replace=False)
        dataset = dataset.select(np.sort(kept))
    report.used = len(dataset)
    if not len(dataset):
        raise ValueError(
            f"language {report.language!r}: no training pair is left of {report.read} (dropped: {report.dropped}, "
            f"leaks: {report.leaks})."
        )
    return dataset


def _stream(parts: list, args: MultiCorpusArguments) -> IterableDataset:
    from datasets import interleave_datasets

    strategy = "all_exhausted_without_replacement"  # every pair of every source once
    stream = parts[0] if len(parts) == 1 else interleave_datasets(parts, stopping_strategy=strategy)
    return filter_parallel(stream, min_words=args.min_words)[0].take(args.max_pairs)


def _name_of(data: str) -> str:
    """A Hub id without configuration, or the folder of local files."""
    if data == "sample" or re.fullmatch(r"[\w.-]+/[\w.{}-]+(:.+)?", data):
        return data.partition(":")[0]
    return Path(data.partition("+")[0]).parent.name or data


def target_ids(args: DapArguments, tokenizer: PreTrainedTokenizerBase, corpus: MultiCorpus) -> Tensor | None:
    """Every token id that RTL may have to predict; None where the softmax runs over the whole vocabulary."""
    if not args.shortlist or "rtl" not in args.objective:
        return None
    sides = {"xx-en": ["target"], "en-xx": ["source"], "both": ["source", "target"]}[args.rtl_direction]
    found = np.zeros(len(tokenizer), bool)
    for dataset in corpus.train:
        for block in dataset.select_columns(sides).iter(batch_size=10_000):
            for side in sides:
                ids = tokenizer(block[side], return_attention_mask=False, verbose=False)["input_ids"]
                found[np.concatenate([np.asarray(row) for row in ids])] = True
    return torch.from_numpy(np.flatnonzero(found))


def mixed_batches(
    args: DapArguments, training_args: TrainingArguments, tokenizer: PreTrainedTokenizerBase, corpus: MultiCorpus
) -> MixedBatches | StreamBatches:
    """The training text as batches for this process; where no `max_steps` is given it is set from the epochs."""
    accumulation = training_args.gradient_accumulation_steps
    world = training_args.world_size
    batch_size = training_args.per_device_train_batch_size * world
    if training_args.max_steps < 1:
        if args.streaming:
            raise ValueError("a stream has no epochs: give --max_steps.")
        pairs = sum(map(len, corpus.train))
        epochs = training_args.num_train_epochs
        training_args.max_steps = max(1, int(pairs * epochs) // (batch_size * accumulation))
    settings = {
        "batch_size": batch_size,
        "batches": training_args.max_steps * accumulation,
        "seed": training_args.data_seed if training_args.data_seed is not None else training_args.seed,
        "bucket": args.bucket,
        "rank": training_args.process_index,
        "world": world,
        "measure": TokenLengths(tokenizer, args.max_length),
    }
    if args.streaming:
        return StreamBatches(corpus.train, corpus.weights(args), **settings)
    return MixedBatches(corpus.train, corpus.weights(args), cache_dir=args.cache_dir, **settings)
