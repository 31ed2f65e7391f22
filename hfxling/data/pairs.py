"""Both sides of a text, as every verb reads them: line-aligned pairs, or two texts that are not aligned.

A text is a list in memory or a source (docs/text.md). Two sides are two texts, or one source of both, or a data set
(`datasets.Dataset`) whose columns are named like those of a file with a header. Allowed are
`a.zh b.vi`, `a.zh@1-1543 b.vi@1-1543`, `a.zh+b.vi@1-1543`, `pairs.tsv#1,0`, `org/name:config@revision` and `sample`.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from .codes import check_languages
from .parallel import LONGEST, check_lengths, checked_rows, parse_range, plain_side
from .readers import Request, find_keys, read_rows
from .sources import Pair, Source, joined_files, load_pairs
from .texts import Texts, as_list, check_one_split, file_and_range, is_dataset, picked, read_texts

IN_MEMORY = "texts in memory"
Text = str | Path | Sequence[str]


@dataclass(frozen=True)
class Pairs:
    """Line-aligned sentences of two languages."""

    source: list[str]  # N sentences
    target: list[str]  # their translations, row by row; with `skip_bad` a side may be ""
    lines: list[int]  # line number of each row in its file, from 1
    name: str  # name of the text, for results
    has_header: bool = False  # whether the file begins with column names
    values: list[Any] = field(default_factory=list)  # values of a further column, if one was asked for
    files: tuple[str, ...] = ()  # the files read; () for texts in memory, the sample and the Hub
    left_out: int = 0  # number of rows that `first` has dropped

    def __len__(self) -> int:
        return len(self.source)

    def first(self, count: int) -> Pairs:
        """The first `count` rows."""
        return replace(self.at(range(min(count, len(self)))), left_out=max(0, len(self) - count))

    def at(self, rows: Sequence[int]) -> Pairs:
        """The pairs of some rows."""
        source, target, lines = picked(rows, self.source, self.target, self.lines)
        values = [self.values[row] for row in rows] if self.values else []
        return replace(self, source=source, target=target, lines=lines, values=values)


def read_pairs(
    source: Text,
    target: Text | None = None,
    languages: Pair = ("src", "tgt"),
    *,
    skip_bad: bool = False,
    keep_space: bool = False,
    column: str | None = None,
    longest: int | None = LONGEST,
) -> Pairs:
    """Read line-aligned text.

    Args:
        source: source texts, or a source of them or of both sides, or a data set with a column for each side.
        target: the translations; None if `source` has both sides.
        languages: codes of source and target language.
        skip_bad: turn a malformed pair (an empty side, a wrong number of columns) into a row with "" on that side,
            instead of raising an error.
        keep_space: keep white space around a sentence, so that character positions are those of the line in the file.
        column: column of a table to read into `values`.
        longest: most letters that a side may have; None for any number.

    Raises:
        ValueError: sides of unequal length, no pair, a value that is not text, or too long a side; the line is named.
        FileNotFoundError: neither a file nor a Hub id.
    """
    if is_source(source):
        pairs = _from_source(source, target, languages, skip_bad, keep_space, column)
    else:
        if column is not None:
            raise ValueError(
                f"column {column!r} can only be read from a table; for texts in memory give the values themselves."
            )
        if is_dataset(source) and target is None:
            source, target = _columns_of(source, languages)
        pairs = _in_memory(source, target, skip_bad, keep_space)
    if longest is not None:
        name = " and ".join(pairs.files) or pairs.name
        for line, *sides in zip(pairs.lines, pairs.source, pairs.target):
            check_lengths(f"{name}, line {line}", *sides, longest)
    return pairs


def _from_source(
    source: str | Path,
    target: Text | None,
    languages: Pair,
    skip_bad: bool,
    keep_space: bool,
    column: str | None,
) -> Pairs:
    check_languages(*languages)
    if target is not None and not is_source(target):
        raise ValueError("give both sides as lists of texts, or both as files.")
    data = joined_source(source, target)
    parsed = Source.parse(data)
    paths = parsed.files(languages)
    if not paths:
        if column is not None:
            raise ValueError(
                f"{data}: a column of values can be read from a table only; give a TSV, CSV, JSONL or Parquet file."
            )
        rows = load_pairs([data], languages)
        return Pairs(list(rows["source"]), list(rows["target"]), list(range(1, len(rows) + 1)), parsed.name)
    if len(paths) == 2 and (column or parsed.columns):
        raise ValueError(f"{data}: two text files have no columns; give one table, or leave the columns out.")
    columns = parsed.fill(languages).columns
    request = Request(paths, *languages, columns, column, parse_range(parsed.lines), skip_bad=skip_bad)
    pairs = Pairs([], [], [], parsed.name, files=request.paths)
    for number, source_text, target_text, value in checked_rows(request, keep_space=keep_space):
        pairs.source.append(source_text)
        pairs.target.append(target_text)
        pairs.lines.append(number)
        pairs.values.append(value)
    has_header = len(paths) == 1 and next(read_rows(request))[0] > 1  # the first row is not on line 1
    return replace(pairs, has_header=has_header)


def is_source(text: Any) -> bool:
    """Whether a text is a source that has to be read, rather than sentences in memory."""
    return isinstance(text, str | Path)


def joined_source(source: str | Path, target: str | Path | None) -> str:
    """One source of both sides: `a@1-9` and `b@1-9` become `a+b@1-9`."""
    if target is None:
        return str(source)
    names = []
    ranges = []
    for side in (str(source), str(target)):
        name, picked_lines = file_and_range(side)
        names.append(name)
        ranges.append(picked_lines)
    if ranges[0] != ranges[1]:
        raise ValueError(f"{source} and {target}: pick the same lines of both files: a.txt@1-1543 b.txt@1-1543.")
    lines = f"@{ranges[0].start}-{ranges[0].stop - 1}" if ranges[0] else ""
    return "+".join(names) + lines


def _columns_of(dataset: Any, languages: Pair) -> tuple[list[str], list[str]]:
    """Source and target texts of a data set, whose columns are found as in a file with a header."""
    names = dataset.column_names
    try:
        source, target, _ = find_keys(dict.fromkeys(names), Request((), *languages), "the data set")
    except ValueError:
        raise ValueError(
            f"the data set has the columns {', '.join(names)}, but not {' and '.join(languages)}, or source and "
            "target; give two columns, such as ds['zh'], ds['vi']."
        ) from None
    for name in (source, target):
        if getattr(dataset.features[name], "dtype", None) not in ("string", "large_string"):
            raise ValueError(f"column {name} of the data set holds {dataset.features[name]}, not text.")
    return dataset[source][:], dataset[target][:]


def check_lists(*sides: Sequence[str] | None) -> None:
    """Refuse anything but a list of source texts and a list of their translations."""
    for side in sides:
        check_one_split(side)
    if any(map(is_dataset, sides)):
        raise ValueError("a data set is not a list of texts; give two of its columns, such as ds['zh'], ds['vi'].")
    if len(sides) != 2 or any(side is None or is_source(side) for side in sides):
        raise ValueError("give a list of source texts and a list of their translations.")
    if any(isinstance(side, Set) for side in sides):
        raise ValueError("a set has no order, so its texts cannot be paired; give two lists.")


def _in_memory(source: Sequence[str], target: Sequence[str] | None, skip_bad: bool, keep_space: bool) -> Pairs:
    check_lists(source, target)
    sides = [as_list(source), as_list(target)]
    if len(sides[0]) != len(sides[1]):
        raise ValueError(f"{len(sides[0])} source texts, {len(sides[1])} target texts: give equally many of both.")
    if not sides[0]:
        raise ValueError("there is no sentence pair; give at least one.")
    for name, side in zip(("source", "target"), sides):
        for row, text in enumerate(side):
            side[row] = plain_side(text, keep_space)
            if not side[row] and not skip_bad:
                raise ValueError(f"{name}[{row}] is {text!r}; leave out pairs with an empty side.")
    return Pairs(*sides, list(range(1, len(sides[0]) + 1)), IN_MEMORY)


def read_heaps(source: Text, target: Text | None = None, languages: Pair | None = None) -> tuple[Texts, Texts]:
    """Read two texts that are not aligned with each other; lines without text are skipped.

    Args:
        source: sentences, a file (`a.zh`, `a.zh@1-1543`), `table#column` or a Hub id; or a source of both texts
            (`a.zh+b.vi`, a table or a data set with a column for each language).
        target: the other text; None if `source` has both.
        languages: codes of both languages, by which columns of a table are found.

    Raises:
        ValueError: an empty text, a missing column, or a value that is not text.
        FileNotFoundError: neither a file nor a Hub id.
    """
    check_one_split(source)
    if is_dataset(source) and target is None:
        source, target = _columns_of(source, languages or ("src", "tgt"))
    if target is not None:
        return read_heap(source, "source"), read_heap(target, "target")
    if not is_source(source):
        raise ValueError("give two lists of sentences, one for each language.")
    name = str(source)
    parsed = Source.parse(name)
    files = joined_files(parsed.data)
    if len(files) == 2:
        lines = f"@{parsed.lines}" if parsed.lines else ""
        return read_heap(files[0] + lines, "source"), read_heap(files[1] + lines, "target")
    pairs = read_pairs(source, None, languages or ("src", "tgt"), skip_bad=True)
    problem = f"{name}: one side has no sentence; give text in both languages."
    left = Texts.of(name, zip(pairs.lines, pairs.source), problem)
    return left, Texts.of(name, zip(pairs.lines, pairs.target), problem)


def read_heap(text: Text, name: str) -> Texts:
    """Read one text; lines without text are skipped. `name` is what error messages call a text in memory."""
    if is_source(text):
        return read_texts(str(text))
    sentences = as_list(text)
    for place, sentence in enumerate(sentences):
        if not isinstance(sentence, str | None):
            raise ValueError(f"{name}[{place}] is {sentence!r}; give sentences.")
    return Texts.of(IN_MEMORY, enumerate(sentences, 1), f"{name} has no sentence; give at least one.")
