"""How to name a source of text: `[PAIR=]DATA[@LINES][#SOURCE,TARGET]` (docs/text.md).

DATA is `sample`, a table, two line-aligned files joined by `+`, or a Hub id with its configuration and revision,
`org/name:config@revision`. `{source}`, `{target}` and `{pair}` stand for the language codes, so that one source can be
for many language pairs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hfxling.values import named_entries

from .codes import check_languages
from .parallel import COLUMNS, load_parallel, local_paths
from .sample import NotInSample

if TYPE_CHECKING:
    from datasets import Dataset

Pair = tuple[str, str]  # source and target language
PLACEHOLDERS = ("{source}", "{target}", "{pair}")
SAMPLE = "sample"
_CODE = r"[a-z]{2,3}(?:-[A-Za-z0-9]{2,8})*"


def parse_pair(text: str) -> Pair:
    """Source and target language of a pair written `zh-vi`, or `zh-tw:vi` if a code has a region."""
    source, mark, target = text.partition(":" if ":" in text else "-")
    if not mark or ("-" in target and ":" not in text):
        raise ValueError(f"pair {text!r}: write it like zh-vi, or like zh-tw:vi if a code has a region.")
    check_languages(source, target)
    return source, target


def name_of_pair(pair: Pair) -> str:
    """The pair as `parse_pair` reads it."""
    return (":" if any("-" in code for code in pair) else "-").join(pair)


def pair_files(option: str, entries: Sequence[str]) -> dict[Pair, str]:
    """(source, target) language -> file, from an option's entries such as lo-zh=FILE."""
    named = named_entries(option, entries, "lo-zh=FILE")
    files = {parse_pair(name): path for name, path in named.items()}
    if len(files) < len(named):  # zh-vi and zh:vi are the same pair
        raise ValueError(f"{option}: a pair is given twice among {', '.join(named)}; give one file for each.")
    return files


@dataclass(frozen=True)
class Source:
    """One source of text, split into its parts."""

    data: str  # the text to read, with placeholders
    lines: str | None = None  # range "first-last" of a local file
    columns: Pair | None = None  # names or positions of source and target in a table
    only_for: Pair | None = None  # the only pair that the source is for

    @classmethod
    def parse(cls, text: str) -> Source:
        """Split a source into its parts."""
        unknown = set(re.findall(r"\{[^{}]*\}|[{}]", text)) - set(PLACEHOLDERS)
        if unknown:
            raise ValueError(f"{text!r}: {', '.join(sorted(unknown))} is not one of {', '.join(PLACEHOLDERS)}.")
        data, lines, columns, only_for = text, None, None, None
        # From the outside in: each match leaves the inner part in `data`.
        if match := re.fullmatch(rf"({_CODE}[-:]{_CODE})=(.+)", data):
            only_for, data = parse_pair(match[1]), match[2]
        if match := re.fullmatch(r"(.+)#([^#,/]+),([^#,/]+)", data):
            data, columns = match[1], (match[2], match[3])
        if match := re.fullmatch(r"(.+)@(\d+-\d+)", data):
            data, lines = match[1], match[2]
        if not data.strip():
            raise ValueError(f"{text!r} names no text; give a file, two files joined by +, a Hub id or {SAMPLE}.")
        return cls(data, lines, columns, only_for)

    @property
    def is_template(self) -> bool:
        """Whether the source may have text of several pairs, and may lack some of them."""
        return self.data == SAMPLE or any(mark in self.data for mark in PLACEHOLDERS)

    @property
    def name(self) -> str:
        """Name of the data in results: for two files the stem they share, else their folder; a Hub id as it is."""
        first, *second = joined_files(self.data)
        path = Path(first)
        if first == SAMPLE or not (path.suffix or path.exists()):
            return re.split("[:@]", first)[0]
        folder = path.parent.name or path.resolve().parent.name
        stem = path.name.split(".")[0]
        if self.is_template:
            return folder
        if not second:
            return f"{folder}/{stem}"
        return stem if stem == Path(second[0]).name.split(".")[0] else folder

    def is_for(self, pair: Pair) -> bool:
        """Whether the source is to be read for a pair."""
        return self.only_for in (None, pair)

    def fill(self, pair: Pair) -> Source:
        """The source for one pair, placeholders filled in; {pair} is both codes in alphabetical order."""
        values = dict(zip(PLACEHOLDERS, (*pair, "-".join(sorted(pair)))))

        def filled(text: str) -> str:
            return re.sub("|".join(map(re.escape, PLACEHOLDERS)), lambda match: values[match[0]], text)

        columns = None
        if self.columns is not None:
            columns = filled(self.columns[0]), filled(self.columns[1])
        return Source(filled(self.data), self.lines, columns, self.only_for)

    def files(self, pair: Pair) -> tuple[str, ...]:
        """The file or the two files for a pair; () for the sample and Hub ids."""
        data = self.fill(pair).data
        if data == SAMPLE:
            return ()
        files = joined_files(data)
        if len(files) > 1:
            return local_paths(files, pair)
        return () if hub_parts(data) else local_paths(data, pair)

    def load(self, pair: Pair, *, split: str = "train") -> Dataset:
        """Load it with `load_parallel`: columns source, target, source_lang, target_lang."""
        source = self.fill(pair)
        data, config, revision = source.data, None, None
        files = joined_files(data)
        if hub := hub_parts(data):
            data, config, revision = hub
        elif len(files) > 1:
            data = files
        source_column, target_column = source.columns or (None, None)
        return load_parallel(
            data,
            *pair,
            split=split,
            config=config,
            revision=revision,
            source_column=source_column,
            target_column=target_column,
            lines=source.lines,
        ).select_columns(COLUMNS)


def joined_files(data: str) -> list[str]:
    """The files that + joins; the name itself if it has no +, or if a file has that name.

    If file names contain a +, they are cut at the first one that leaves two existing files.
    """
    if Path(data).exists():
        return [data]
    parts = data.split("+")
    for cut in range(1, len(parts)):
        sides = ["+".join(parts[:cut]), "+".join(parts[cut:])]
        if all(Path(side).exists() for side in sides):
            return sides
    return parts


def hub_parts(data: str, *, is_bare: bool = False) -> tuple[str, str | None, str | None] | None:
    """Id, configuration and revision of `org/name:config@revision`; None for what can only be a local file.

    An id without configuration and revision looks like a file's path; it counts as an id only with `is_bare`.
    """
    match = re.fullmatch(r"(\w[\w.-]*(?:/\w[\w.-]*)?)(?::([^@+]+))?(?:@([^@+]+))?", data)
    if not match or Path(data).exists():
        return None
    if match[2] or match[3] or (is_bare and "/" in data):
        return match[1], match[2], match[3]
    return None


def load_pairs(texts: Sequence[str], pair: Pair, *, split: str = "train") -> Dataset:
    """The text of one pair from all sources, one after the other, not filtered and not checked for leaks."""
    parts, missing = read_sources([Source.parse(text) for text in texts], pair, split)
    if not parts:
        raise no_text(pair, missing)
    return joined(parts)


def read_sources(sources: Sequence[Source], pair: Pair, split: str) -> tuple[list[Dataset], dict[str, str]]:
    """The text of a pair from each source that has it, and for the others (by data) why they lack it."""
    parts, missing = [], {}
    for source in sources:
        if not source.is_for(pair):
            continue
        try:
            parts.append(source.load(pair, split=split))
        except (FileNotFoundError, ValueError) as error:
            if not (source.is_template and _lacks_pair(error)):
                raise
            missing[source.fill(pair).data] = str(error)
    return parts, missing


def _lacks_pair(error: Exception) -> bool:
    """Whether an error means only that a source, otherwise sound as far as one can see, lacks this pair."""
    if isinstance(error, FileNotFoundError | NotInSample):
        return True
    # `datasets` raises a plain ValueError for a missing configuration; only the message tells it from others.
    message = str(error)
    return "BuilderConfig" in message and "not found" in message


def no_text(pair: Pair, missing: Mapping[str, str]) -> ValueError:
    """The error that no source has a pair, with the causes."""
    causes = "; ".join(missing.values()) or "every source is for another pair"
    return ValueError(f"pair {name_of_pair(pair)}: no source has text of it ({causes}).")


def joined(parts: Sequence[Dataset]) -> Dataset:
    """The data sets, one after the other, as one."""
    from datasets import concatenate_datasets

    return parts[0] if len(parts) == 1 else concatenate_datasets(list(parts))
