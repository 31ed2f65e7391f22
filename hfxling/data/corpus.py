"""What every recipe does first: parallel text in, filtered, without leaks, with a record of what was dropped."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hfxling.files import content_hash

from .filters import filter_parallel
from .leakage import drop_leaks
from .parallel import load_parallel

if TYPE_CHECKING:
    from datasets import Dataset


@dataclass
class CorpusArguments:
    """Which text is read; shared by the recipes."""

    source_lang: str = field(metadata={"help": "language code of the source side, e.g. zh"})
    target_lang: str = field(metadata={"help": "language code of the target side, e.g. vi"})
    train_data: list[str] = field(
        metadata={"help": "Hub dataset id, one file (TSV, CSV, JSONL, Parquet), two line-aligned files, or sample"}
    )
    train_split: str = field(default="train", metadata={"help": "split of a Hub dataset"})
    train_lines: str | None = field(default=None, metadata={"help": "range of lines of local files, e.g. 1-1543"})
    test_data: list[str] | None = field(default=None, metadata={"help": "as train_data; by default the same source"})
    test_split: str = field(default="test", metadata={"help": "split of a Hub dataset"})
    test_lines: str | None = field(default=None, metadata={"help": "range of lines of local files, e.g. 1544-1997"})
    dataset_config: str | None = field(default=None, metadata={"help": "configuration of a Hub dataset"})
    dataset_revision: str | None = field(default=None, metadata={"help": "revision of a Hub dataset"})
    source_column: str | None = field(default=None, metadata={"help": "name (or 0-based position) of the source"})
    target_column: str | None = field(default=None, metadata={"help": "name (or 0-based position) of the target"})
    max_train_pairs: int | None = field(default=None, metadata={"help": "use a seeded sample of this many pairs"})
    min_words: int = field(default=0, metadata={"help": "drop pairs whose shorter side has fewer words (paper: 5)"})
    keep_leaks: bool = field(default=False, metadata={"help": "keep training pairs that the test text contains"})
    data_name: str | None = field(default=None, metadata={"help": "name of the data in results and card"})
    data_licence: str | None = field(default=None, metadata={"help": "licence of the training data, for the card"})
    limits: list[str] = field(default_factory=list, metadata={"help": "sentences for the card's list of limits"})


@dataclass
class Corpus:
    """Loaded text and the account of it.

    Attributes:
        train: columns source, target, source_lang, target_lang, and row: the pair's place in the data as it was read.
        test: the same without row.
        name: of the data.
        dropped: training pairs removed, by reason.
        leaks: training pairs removed because the test text has them.
        read: training pairs read, those dropped later included.
        coverage: how the encoder's vocabulary covers the text, in one line.
    """

    train: Dataset
    test: Dataset
    name: str
    dropped: dict[str, int]
    leaks: int
    read: int
    coverage: str | None = None

    def revision(self, split: str) -> str:
        """Content hash of one split's texts."""
        dataset = getattr(self, split)
        return content_hash(dataset["source"], dataset["target"])

    def result_fields(self) -> dict[str, str]:
        """The fields of `EvalResult` that say what was tested on."""
        return {"dataset": self.name, "split": "test", "revision": self.revision("test")}

    def card_entry(self, licence: str | None) -> dict:
        """The training data as the card describes it."""
        entry = {"name": self.name, "pairs": len(self.train), "revision": self.revision("train"), "leaks": self.leaks}
        return entry | {"dropped": self.dropped} | ({"licence": licence} if licence else {})


def load_corpus(args: CorpusArguments, seed: int = 0, *, test_needed: bool = True) -> Corpus:
    """Read, filter and guard the training and test text that the arguments name.

    Args:
        args: what to read.
        seed: of the sample, where only a part is used.
        test_needed: whether local files without a test part are an error; else their test text is empty.

    Raises:
        ValueError: for malformed data (see `load_parallel`), or when no pair is left.
        FileNotFoundError: for a missing file.
    """
    shared = {
        "config": args.dataset_config,
        "revision": args.dataset_revision,
        "source_column": args.source_column,
        "target_column": args.target_column,
    }
    same_files = args.test_data is None or args.test_data == args.train_data
    no_test = same_files and any(Path(path).exists() for path in args.train_data) and args.test_lines is None
    if no_test and test_needed:
        raise ValueError(
            f"{' '.join(args.train_data)}: no test text; give --test_data FILES, or --train_lines 1-1500 and "
            "--test_lines 1501-2000 to divide one source."
        )
    languages = (args.source_lang, args.target_lang)
    train = _load(args.train_data, *languages, split=args.train_split, lines=args.train_lines, **shared)
    if no_test:
        test = train.select([])
    else:
        data = args.test_data or args.train_data
        test = _load(data, *languages, split=args.test_split, lines=args.test_lines, **shared)
    read = len(train)
    train = train.add_column("row", np.arange(read))
    train, dropped = filter_parallel(train, min_words=args.min_words)
    leaks = 0
    if not args.keep_leaks and len(test):
        train, report = drop_leaks(train, test)
        leaks = report.exact + report.near
    if args.max_train_pairs is not None and args.max_train_pairs < len(train):
        train = train.shuffle(seed=seed).select(range(args.max_train_pairs))
    if not len(train):
        raise ValueError(f"{' '.join(args.train_data)}: no training pair is left (dropped: {dropped}, leaks: {leaks}).")
    return Corpus(train, test, args.data_name or _name_of(args.train_data), dropped, leaks, read)


def _load(data: list[str], *languages: str, **kwargs) -> Dataset:
    return load_parallel(data[0] if len(data) == 1 else data, *languages, **kwargs)


def _name_of(data: list[str]) -> str:
    """Last folder and file name of local files; a Hub id as it is."""
    if Path(data[0]).exists():
        path = Path(data[0]).resolve()
        return f"{path.parent.name}/{path.stem.split('.')[0]}" if len(data) == 1 else path.parent.name
    return data[0]
