"""The text of a run: one set of keys and one way of cleaning for every recipe (docs/text.md)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from hfxling.files import content_hash
from hfxling.values import check_counts

from .filters import filter_parallel
from .leakage import drop_leaks
from .licences import check_licence
from .pairs import IN_MEMORY
from .parallel import sides_of
from .sources import SAMPLE, Pair, Source, joined, name_of_pair, no_text, parse_pair, read_sources
from .texts import as_list, spread_rows
from .warn import warn_of_foreign

if TYPE_CHECKING:
    from datasets import Dataset

    from .pairs import Pairs
    from .scored import ScoredPairs

SAMPLE_LICENCE = "apache-2.0"
_SEED = 0  # for the sample that `max_train_pairs` keeps: the text does not change with the seed of a run


@dataclass(frozen=True)
class TextArguments:
    """The text to read; every recipe has the same keys (docs/text.md)."""

    pairs: list[str] = field(metadata={"help": "language pairs, source first, e.g. zh-vi (zh-tw:vi with a region)"})
    train_data: list[str] = field(
        metadata={
            "help": "sources of training text: FILE (TSV, CSV, JSONL, Parquet), FILE+FILE (line-aligned), "
            "ORG/NAME:CONFIG@REVISION (Hub) or sample; {source}, {target} and {pair} stand for the language codes, "
            "@1-1543 picks lines, #1,0 picks columns, zh-vi=FILE is for that pair only"
        }
    )
    train_split: str = field(default="train", metadata={"help": "split of Hub data sets and of the sample"})
    test_data: list[str] | None = field(
        default=None,
        metadata={"help": "sources of test text, written like train_data; default: the sample's own, if it is read"},
    )
    test_split: str = field(default="test", metadata={"help": "split of Hub data sets and of the sample"})
    max_train_pairs: int | None = field(
        default=None,
        metadata={"help": "keep at most this many training pairs of each language pair, the same ones for every seed"},
    )
    min_words: int = field(default=0, metadata={"help": "drop pairs whose shorter side has fewer words than this"})
    keep_leaks: bool = field(default=False, metadata={"help": "keep training pairs that the test text contains"})
    data_name: str | None = field(default=None, metadata={"help": "name of the data in the results and on the card"})
    data_licence: str | None = field(default=None, metadata={"help": "licence of the training data, for the card"})
    limits: list[str] = field(default_factory=list, metadata={"help": "sentences to add to the card's list of limits"})

    def __post_init__(self):
        several = len(self.language_pairs) > 1
        if not self.train_data:
            raise ValueError("train_data: give at least one source of text.")
        for text in (*self.train_data, *(self.test_data or ())):
            source = Source.parse(text)
            if several and not (source.is_template or source.only_for):
                names = ", ".join(self.pairs)
                remedy = "Write zh-vi=FILE, or use {source}, {target}."
                raise ValueError(f"{text!r}: which of {names} is it for? {remedy}")
        check_counts(1, max_train_pairs=self.max_train_pairs)
        check_counts(0, min_words=self.min_words)
        check_licence("data_licence", self.data_licence)

    @property
    def language_pairs(self) -> list[Pair]:
        """Source and target language of every pair."""
        pairs = [parse_pair(text) for text in self.pairs]
        if not pairs or len(set(pairs)) < len(pairs):
            raise ValueError(f"pairs={self.pairs}: give at least one, each once, such as zh-vi.")
        return pairs

    def key_of(self, names: Iterable[str]) -> tuple[str, ...]:
        """These options as text, the parts of a `shared_key`."""
        return tuple(str(getattr(self, name)) for name in names)

    @property
    def languages(self) -> list[str]:
        """All languages, in the order of the pairs."""
        return list(dict.fromkeys(chain.from_iterable(self.language_pairs)))

    @property
    def licence(self) -> str | None:
        """Licence of the training data; that of the sample is known."""
        return self.data_licence or (SAMPLE_LICENCE if self.train_data == [SAMPLE] else None)

    @property
    def name(self) -> str:
        """Name of the training data."""
        return self.data_name or _name_of(self.train_data)

    @property
    def test_name(self) -> str:
        """Name of the test data."""
        return self.data_name or _name_of(self.test_sources()) or self.name

    def is_possible(self) -> bool:
        """Whether the start model has what the arguments ask for, such as a layer; a study leaves other rows out."""
        return True

    def test_sources(self) -> list[str]:
        """The sources of test text: those that were given, else the sample's own if the sample is read."""
        if self.test_data is not None:
            return self.test_data
        return [SAMPLE] if SAMPLE in self.train_data else []


def _name_of(sources: Sequence[str]) -> str:
    return "+".join(dict.fromkeys(Source.parse(text).name for text in sources))


_LEAST_PAIRS = 10
_LOOKED_AT = 2_000  # pairs whose languages are looked at
TEXT_KEYS = tuple(TextArguments.__dataclass_fields__)


@dataclass
class PairText:
    """Text of one language pair, and counts of what was read and dropped."""

    languages: Pair  # source and target
    # columns source, target, source_lang, target_lang, and row: the pair's place among those that were read.
    train: Dataset
    test: Dataset  # the same columns without row; empty if there is no test text
    read: int  # number of pairs read, including those dropped later
    dropped: dict[str, int] = field(default_factory=dict)  # training pairs removed, by reason
    leaks: int | None = None  # training pairs removed because the test text has them; None if none was looked for

    @property
    def used(self) -> int:
        """Number of pairs left for training."""
        return len(self.train)

    def revision(self, split: str) -> str:
        """Content hash of one split's texts."""
        return content_hash(*sides_of(getattr(self, split)))


@dataclass
class Corpus:
    """All text of a run."""

    pairs: list[PairText]  # the text of every language pair
    name: str  # name of the training data
    scored: Sequence[ScoredPairs] = ()  # test text with human scores
    test_name: str | None = None  # name of the test data, if it is another
    coverage: str | None = None  # how the encoder's vocabulary covers the text, in one line

    @classmethod
    def in_memory(cls, texts: Mapping[Pair, tuple[Sequence[str], Sequence[str]]]) -> Corpus:
        """A corpus of this training text by language pair, taken as it is, without test text."""
        from datasets import Dataset

        pairs = []
        for languages, (source, target) in texts.items():
            train = Dataset.from_dict({"source": as_list(source), "target": as_list(target)})
            pairs.append(PairText(languages, train, train.select([]), read=len(train)))
        return cls(pairs, IN_MEMORY)

    @property
    def language_pairs(self) -> list[Pair]:
        """Source and target language of every pair."""
        return [pair.languages for pair in self.pairs]

    @property
    def languages(self) -> list[str]:
        """All languages, in the order of the pairs."""
        return list(dict.fromkeys(chain.from_iterable(self.language_pairs)))

    def check_enough(self) -> None:
        """Refuse a language pair with too little text to learn from."""
        for pair in self.pairs:
            if len(pair.train) < _LEAST_PAIRS:
                name = name_of_pair(pair.languages)
                raise ValueError(f"{name}: {len(pair.train)} pairs are too few; give {_LEAST_PAIRS} or more.")

    def revision(self) -> str:
        """Content hash of the training text."""
        return content_hash(pair.revision("train") for pair in self.pairs)

    def test_fields(self, pair: PairText) -> dict[str, str]:
        """The fields of `EvalResult` that say what was tested on."""
        return {"dataset": self.test_name or self.name, "split": "test", "revision": pair.revision("test")}

    def card_entries(self, licence: str | None) -> list[dict]:
        """The training data as a card describes it, one entry for each language pair."""
        entries = []
        for pair in self.pairs:
            name = self.name if len(self.pairs) == 1 else f"{self.name}, {name_of_pair(pair.languages)}"
            entry: dict = {"name": name, "pairs": pair.used, "revision": pair.revision("train")}
            entry["dropped"] = pair.dropped
            if pair.leaks is not None:
                entry["leaks"] = pair.leaks
            if licence:
                entry["licence"] = licence
            entries.append(entry)
        return entries


def load_corpus(
    settings: TextArguments,
    *,
    tests: Mapping[Pair, Dataset] | None = None,
    scored: Sequence[ScoredPairs] = (),
) -> Corpus:
    """Read the training text of every language pair, filter it, remove leaks and limit its size; read the test text.

    Training pairs that occur in the pair's own test text, or in any text with human scores, are removed. A source with
    placeholders may lack a language pair; it is then skipped for that pair.

    Args:
        settings: the text to read.
        tests: test text by pair, used instead of what `settings` names.
        scored: test text with human scores.

    Raises:
        ValueError: malformed text (see `load_parallel`), a source that has none of the language pairs, or a language
            pair that no source has or for which no training pair is left.
        FileNotFoundError: a missing file or data set.
    """
    sources = [Source.parse(text) for text in settings.train_data]
    pairs, missing = [], {}
    for languages in settings.language_pairs:
        parts, missing[languages] = read_sources(sources, languages, settings.train_split)
        if not parts:
            raise no_text(languages, missing[languages])
        pairs.append(_filtered(settings, languages, joined(parts)))
    _check_used("train_data", settings.train_data, missing)
    test_name = None
    if tests is None:
        tests, test_name = _test_text(settings), settings.test_name
    for pair in pairs:
        pair.test = tests.get(pair.languages, pair.test)
        _guard_and_cap(settings, pair, scored)
        _warn_of_pair(pair)
    return Corpus(pairs, settings.name, scored, test_name)


def corpus_of(settings: TextArguments, pairs: Pairs) -> Corpus:
    """As `load_corpus`, for the text of one language pair in memory; there is no test text."""
    from datasets import Dataset

    (languages,) = settings.language_pairs
    columns = {"source": pairs.source, "target": pairs.target}
    for name, code in zip(("source_lang", "target_lang"), languages):
        columns[name] = [code] * len(pairs)
    text = _filtered(settings, languages, Dataset.from_dict(columns))
    _guard_and_cap(settings, text, ())
    _warn_of_pair(text)
    return Corpus([text], pairs.name)


def _warn_of_pair(pair: PairText) -> None:
    """Warn if much of a side of the training text looks like another language, for instance if sides were swapped."""
    rows = spread_rows(len(pair.train), _LOOKED_AT)
    warn_of_foreign(sides_of(pair.train.select(rows)), pair.languages)


def _filtered(settings: TextArguments, languages: Pair, dataset: Dataset) -> PairText:
    """The training text: a data set without the pairs that the filter drops."""
    numbered = dataset.add_column("row", np.arange(len(dataset)))
    train, dropped = filter_parallel(numbered, min_words=settings.min_words)
    return PairText(languages, train, dataset.select([]), len(dataset), dropped)


def _test_text(settings: TextArguments) -> dict[Pair, Dataset]:
    """The test text that the arguments name, by pair; a pair that no source has is missing."""
    texts = settings.test_sources()
    sources = [Source.parse(text) for text in texts]
    tests, missing = {}, {}
    for pair in settings.language_pairs:
        parts, missing[pair] = read_sources(sources, pair, settings.test_split)
        if parts:
            tests[pair] = joined(parts)
            if len(tests[pair]) == 1:  # with one pair there is nothing to search, and its mean is itself
                name = name_of_pair(pair)
                raise ValueError(f"test_data={' '.join(texts)}: 1 test pair of {name}; give 2 or more.")
    _check_used("test_data", texts, missing)
    return tests


def _check_used(name: str, texts: Sequence[str], missing: Mapping[Pair, Collection[str]]) -> None:
    """Refuse a source (it is misspelt) that has none of the pairs; `missing` has the sources that lack each pair."""
    for text in texts:
        source = Source.parse(text)
        asked = [pair for pair in missing if source.is_for(pair)]
        # `all` of nothing is True, so a source for a pair that is not in `pairs` (zh-lo=FILE) is refused, too.
        if all(source.fill(pair).data in missing[pair] for pair in asked):
            names = ", ".join(map(name_of_pair, missing))
            raise ValueError(f"{name}={text!r} has no text of {names}; check its spelling.")


def _guard_and_cap(settings: TextArguments, pair: PairText, scored: Sequence[ScoredPairs]) -> None:
    """Drop training pairs that occur in test text, then draw `max_train_pairs` of the others, keeping their order."""
    from datasets import Dataset

    tests = [pair.test.select_columns(["source", "target"])] if len(pair.test) else []
    for test in scored:
        tests.append(Dataset.from_dict({"source": list(test.source), "target": list(test.target)}))
    pair.leaks = 0
    if tests and not settings.keep_leaks:
        pair.train, leaks = drop_leaks(pair.train, joined(tests))
        pair.leaks = len(leaks)
    if settings.max_train_pairs is not None and settings.max_train_pairs < len(pair.train):
        drawn = np.random.default_rng(_SEED).choice(len(pair.train), settings.max_train_pairs, replace=False)
        pair.train = pair.train.select(np.sort(drawn))
    if not len(pair.train):
        counts = {**pair.dropped, "in the test text": pair.leaks}
        reasons = [f"{count} {reason.replace('_', ' ')}" for reason, count in counts.items() if count]
        name = name_of_pair(pair.languages)
        raise ValueError(
            f"{' '.join(settings.train_data)}: none of the {pair.read} training pairs of {name} is left "
            f"(dropped: {', '.join(reasons)}); give more text."
        )
