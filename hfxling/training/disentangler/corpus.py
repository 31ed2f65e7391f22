"""Text of several language pairs for one model: training pairs by templates, test text with human scores or without."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hfxling.data.filters import filter_parallel
from hfxling.data.leakage import drop_leaks
from hfxling.data.scored import ScoredPairs, read_qe, read_sts17
from hfxling.files import content_hash

from .arguments import PairCorpusArguments, _restricted

if TYPE_CHECKING:
    from datasets import Dataset


_SEED = 0  # of the sample that `max_train_pairs` keeps: the text does not change with the seed of a run


@dataclass
class PairText:
    """Training text of one language pair, and the account of it.

    Attributes:
        languages: source and target.
        train: columns source, target, source_lang, target_lang, and row: the place among the pairs that were read.
        read: pairs read.
        dropped: pairs removed, by reason.
        leaks: pairs removed because the test text has them.
    """

    languages: tuple[str, str]
    train: Dataset
    read: int
    dropped: dict[str, int]
    leaks: int


@dataclass
class PairCorpus:
    """All text of a run.

    Attributes:
        pairs: training text of every language pair.
        scored: test text with human scores.
        parallel: test text without, by (source, target) language.
        name: of the training data.
        coverage: how the encoder's vocabulary covers the text, in one line.
    """

    pairs: list[PairText]
    scored: list[ScoredPairs]
    parallel: dict[tuple[str, str], Dataset]
    name: str
    coverage: str | None = None

    @property
    def languages(self) -> list[str]:
        """All languages, in the order of the pairs."""
        return list(dict.fromkeys(lang for pair in self.pairs for lang in pair.languages))

    def revision(self) -> str:
        """Content hash of the training text."""
        return content_hash(content_hash(pair.train["source"], pair.train["target"]) for pair in self.pairs)

    def card_entry(self, licence: str | None) -> dict:
        """The training data as the card describes it."""
        reasons = dict.fromkeys(reason for pair in self.pairs for reason in pair.dropped)
        entry = {
            "name": f"{self.name} ({', '.join('-'.join(pair.languages) for pair in self.pairs)})",
            "pairs": sum(len(pair.train) for pair in self.pairs),
            "revision": self.revision(),
            "leaks": sum(pair.leaks for pair in self.pairs),
            "dropped": {reason: sum(pair.dropped.get(reason, 0) for pair in self.pairs) for reason in reasons},
        }
        return entry | ({"licence": licence} if licence else {})


def load_pair_corpus(args: PairCorpusArguments) -> PairCorpus:
    """Read, filter and guard the training text of every pair against all test text.

    A template that has no text of a pair is passed over for it.

    Raises:
        ValueError: malformed text (see `load_parallel`), a language pair of which fewer than two sentence pairs are
            left, a template that serves no pair.
        FileNotFoundError: a folder or file that is not there.
    """
    scored = [*(read_qe(args.qe) if args.qe else ()), *(read_sts17(args.sts) if args.sts else ())]
    parallel = {}
    if args.test_data:
        parts = {pair: _read(args.test_data, pair, args.test_split) for pair in args.language_pairs}
        _check_used("test_data", args.test_data, parts)
        parallel = {pair: _joined(found) for pair, found in parts.items() if found}
    parts = {pair: _read(args.train_data, pair, args.train_split) for pair in args.language_pairs}
    _check_used("train_data", args.train_data, parts)
    guard = None if args.keep_leaks else _test_text(scored, parallel)
    pairs = [_prepare(args, pair, found, guard) for pair, found in parts.items()]
    names = dict.fromkeys(_name_of(_restricted(template)[1].data) for template in args.train_data)
    return PairCorpus(pairs, scored, parallel, args.data_name or "+".join(names))


def _read(templates: Sequence[str], pair: tuple[str, str], split: str) -> dict[str, Dataset]:
    """What each template has of a pair."""
    found = {}
    for template in templates:
        only_for, source = _restricted(template)
        if only_for in (None, "-".join(pair)):
            try:
                found[template] = source.fill(*pair).load(*pair, split=split, streaming=False)
            except FileNotFoundError:
                if only_for or not any(mark in template for mark in ("{lang}", "{pivot}", "{pair}")):
                    raise
    return found


def _check_used(name: str, templates: Sequence[str], parts: dict) -> None:
    for template in templates:
        if not any(template in found for found in parts.values()):
            raise ValueError(f"{name}={template!r} has text of none of the pairs {', '.join(map('-'.join, parts))}.")


def _joined(found: dict[str, Dataset]) -> Dataset:
    from datasets import concatenate_datasets

    return concatenate_datasets(list(found.values()))


def _test_text(scored: Sequence[ScoredPairs], parallel: dict) -> Dataset:
    from datasets import Dataset

    sides = {side: [text for test in scored for text in getattr(test, side)] for side in ("source", "target")}
    for dataset in parallel.values():
        for side, texts in sides.items():
            texts += dataset[side]
    return Dataset.from_dict(sides)


def _prepare(args: PairCorpusArguments, pair: tuple[str, str], found: dict, guard: Dataset | None) -> PairText:
    if not found:
        raise ValueError(f"pair {'-'.join(pair)}: none of the training data has text of it.")
    dataset = _joined(found)
    read = len(dataset)
    dataset = dataset.add_column("row", np.arange(read))
    dataset, dropped = filter_parallel(dataset, min_words=args.min_words)
    leaks = 0
    if guard is not None:
        dataset, report = drop_leaks(dataset, guard)
        leaks = report.exact + report.near
    if args.max_train_pairs is not None and args.max_train_pairs < len(dataset):
        kept = np.random.default_rng(_SEED).choice(len(dataset), args.max_train_pairs, replace=False)
        dataset = dataset.select(np.sort(kept))
    if len(dataset) < 2:
        counts = f"read {read}, dropped {dropped}, leaks {leaks}"
        raise ValueError(f"pair {'-'.join(pair)}: {len(dataset)} training pairs are left ({counts}); give more text.")
    return PairText(pair, dataset, read, dropped, leaks)


def _name_of(data: str) -> str:
    """A Hub id without configuration, or the last folder of local files."""
    path = Path(data.partition("+")[0])
    return path.parent.name if path.suffix and path.parent.name else data.partition(":")[0]
