"""Parallel text of many languages against one: found by templates, filtered, capped, with an account of each."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hfxling.data.filters import filter_parallel
from hfxling.data.leakage import drop_leaks
from hfxling.data.mixing import COLUMNS, MIXINGS, mixing_weights
from hfxling.data.parallel import check_languages, load_parallel
from hfxling.evaluation.results import content_hash

if TYPE_CHECKING:
    from datasets import Dataset, IterableDataset

    AnyDataset = Dataset | IterableDataset

PLACEHOLDERS = ("{lang}", "{pivot}", "{pair}")
_SEED = 0  # of the sample that `max_pairs` keeps: the text does not change with the seed of a run


@dataclass
class MultiCorpusArguments:
    """Which text is read, in which languages, and how it is mixed."""

    languages: list[str] = field(metadata={"help": "language codes of the source sides, e.g. zh vi th"})
    train_data: list[str] = field(
        metadata={
            "help": "templates of Hub ids (org/name:config), files, or two aligned files joined by +, with {lang}, "
            "{pivot}, {pair}; @1-1543 picks lines, #1,0 the columns of source and target; or sample"
        }
    )
    pivot: str = field(default="en", metadata={"help": "language code of the target side of every pair"})
    train_split: str = field(default="train", metadata={"help": "split of Hub datasets"})
    max_pairs: int = field(default=1_000_000, metadata={"help": "pairs kept of a language (paper: 1,000,000)"})
    min_words: int = field(default=0, metadata={"help": "drop pairs whose shorter side has fewer words"})
    keep_leaks: bool = field(default=False, metadata={"help": "keep training pairs that the test text contains"})
    streaming: bool = field(default=False, metadata={"help": "read while training; leaks are not looked for"})
    mixing: str = field(default="proportional", metadata={"help": "weights of languages: proportional or temperature"})
    mixing_temperature: float = field(default=5.0, metadata={"help": "weight is size ** (1 / this); 1: proportional"})
    sizes: list[int] | None = field(
        default=None, metadata={"help": "pairs of each language, for the weights, where streams do not tell"}
    )
    bucket: int = field(default=64, metadata={"help": "batches sorted by length together; 1: no sorting"})
    max_length: int = field(default=32, metadata={"help": "tokens kept of a text (paper: 32)"})
    data_name: str | None = field(default=None, metadata={"help": "name of the data in results and card"})
    data_licence: str | None = field(default=None, metadata={"help": "licence of the training data, for the card"})

    def __post_init__(self):
        if not self.languages or not self.train_data:
            raise ValueError("languages and train_data: give at least one of each.")
        for language in self.languages:
            check_languages(language, self.pivot)
        if twice := {language for language in self.languages if self.languages.count(language) > 1}:
            raise ValueError(f"languages={self.languages}: {', '.join(sorted(twice))} more than once.")
        if self.mixing not in MIXINGS:
            raise ValueError(f"mixing={self.mixing!r} is not one of {', '.join(MIXINGS)}.")
        for name in ("max_pairs", "mixing_temperature", "bucket", "max_length"):
            if not getattr(self, name) >= 1:
                raise ValueError(f"{name}={getattr(self, name)} is below 1.")
        for template in self.train_data:
            Source.parse(template)
            if len(self.languages) > 1 and template != "sample" and not re.search(r"\{(lang|pair)\}", template):
                raise ValueError(
                    f"train_data={template!r}: needs {{lang}} or {{pair}}, as there are several languages."
                )
        if self.sizes is not None and len(self.sizes) != len(self.languages):
            raise ValueError(f"sizes={self.sizes}: give one for each of the {len(self.languages)} languages.")


class Source(NamedTuple):
    """A template, taken apart."""

    data: str
    lines: str | None = None
    columns: tuple[str, str] | tuple[None, None] = (None, None)

    @classmethod
    def parse(cls, template: str) -> Source:
        """Split off `#source,target` and `@first-last`.

        Raises:
            ValueError: for a placeholder that is none of `PLACEHOLDERS`.
        """
        if unknown := set(re.findall(r"\{[^{}]*\}|[{}]", template)) - set(PLACEHOLDERS):
            names = ", ".join(PLACEHOLDERS)
            raise ValueError(f"train_data={template!r}: {', '.join(sorted(unknown))} is not one of {names}.")
        data, columns, lines = template, (None, None), None
        if match := re.fullmatch(r"(.+)#([^#,/]+),([^#,/]+)", data):
            data, columns = match[1], (match[2], match[3])
        if match := re.fullmatch(r"(.+)@(\d+-\d+)", data):
            data, lines = match[1], match[2]
        return cls(data, lines, columns)

    def fill(self, lang: str, pivot: str) -> Source:
        """The source of one language; {pair} is both codes in alphabetical order."""
        values = zip(PLACEHOLDERS, (lang, pivot, "-".join(sorted((lang, pivot)))))
        data, source, target = self.data, *self.columns
        for name, value in values:
            data = data.replace(name, value)
            source, target = (column and column.replace(name, value) for column in (source, target))
        return Source(data, self.lines, (source, target))

    def load(self, lang: str, pivot: str, *, split: str, streaming: bool) -> AnyDataset:
        """What `load_parallel` makes of it."""
        data, config = self.data, None
        if not Path(data).exists():
            if "+" in data:
                data = data.split("+")
            elif ":" in data:
                data, _, config = data.partition(":")
        source_column, target_column = self.columns
        return load_parallel(
            data,
            lang,
            pivot,
            split=split,
            config=config,
            source_column=source_column,
            target_column=target_column,
            lines=self.lines,
            streaming=streaming,
        ).select_columns(COLUMNS)


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
