"""Parallel text from the embedded corpus, local files or the Hub, as one kind of data set.

Whatever the origin, its columns are `source`, `target`, `source_lang` and `target_lang`.
"""

from __future__ import annotations

import math
import os
import re
import warnings
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .codes import check_languages
from .readers import (
    BARS,
    TABLE_SUFFIXES,
    Request,
    Row,
    find_keys,
    flat,
    has_bars,
    is_packed,
    kind_of,
    read_rows,
    suffix_of,
)

if TYPE_CHECKING:
    from datasets import Dataset, Features

# A side that consists only of these (zero-width and filler characters) and white space has no text.
_INVISIBLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200c\u200d\u200e\u200f\u202a\u202b\u202c\u202d\u202e"
    "\u2060\u2061\u2062\u2063\u2064\u2066\u2067\u2068\u2069\u2800\u3164\ufeff\uffa0"
)
# U+3000, the ideographic space, is the last white space of Unicode.
BLANK = _INVISIBLE + "".join(chr(code) for code in range(0x3001) if chr(code).isspace())
COLUMNS = ["source", "target", "source_lang", "target_lang"]
LONGEST = 1_000_000  # most letters of a text: a longer one is no sentence, and takes hours to process
A_PIPE = "is a pipe or a device, which can be read only once; write it into a file, which may be packed (.gz)."
_BLOCK = 10_000  # pairs converted to Arrow at a time, as Python strings take several times the memory


def load_parallel(
    data: str | Path | Sequence[str | Path],
    source_lang: str,
    target_lang: str,
    *,
    split: str = "train",
    config: str | None = None,
    revision: str | None = None,
    source_column: str | None = None,
    target_column: str | None = None,
    lines: str | None = None,
) -> Dataset:
    r"""Load sentence pairs as a data set with the columns source, target, source_lang, target_lang.

    White space around both sides is stripped; the text is otherwise left as it is. Local text must be UTF-8 (a byte
    order mark is dropped), and its lines end with `\n` only. Files are checked to their end before anything is
    returned. Rows of a Hub data set without text on a side are left out, because the user cannot correct them; a
    warning says how many.

    Args:
        data: "sample" (the corpus embedded in hfxling); or one .tsv (never quoted), .csv (RFC 4180),
            .jsonl/.ndjson/.json (one object per line) or .parquet file, or text with " ||| " between the sides of a
            line; or two line-aligned text files, source first, with any suffix; or the id of a data set on the Hub. All
            but Parquet may be packed (.gz, .xz, .bz2). A TSV or CSV has a header if its first row names known columns;
            otherwise its first two columns are the sentences.
        source_lang: code of the source language: 2 or 3 letters, with a region or script if need be (zh, zh-tw).
        target_lang: code of the target language, which must be another one.
        split: split of a Hub data set or of the sample. A local file has no splits: it is read whatever is given here.
        config: configuration name of a Hub data set.
        revision: branch, tag or commit of a Hub data set.
        source_column: name of the source column. Default: `translation[source_lang]`, then a column named after the
            language, then `readers.COLUMN_PAIRS`. In a TSV or CSV also a 0-based position ("0").
        target_column: name of the target column, found likewise; give both columns or neither.
        lines: range of records of a local file to keep, as "first-last", counted from 1 without a header; both ends are
            included.

    Raises:
        FileNotFoundError: no such file, or no such data set on the Hub.
        ValueError: for anything wrong with the arguments or the text; one line that names file, line and remedy.
    """
    check_languages(source_lang, target_lang)
    if (source_column is None) != (target_column is None):
        raise ValueError(f"source_column={source_column!r}, target_column={target_column!r}: give both or neither")
    columns = None if source_column is None else (str(source_column), str(target_column))
    paths = () if data == "sample" else local_paths(data, (source_lang, target_lang))
    request = Request(paths, source_lang, target_lang, columns, None, parse_range(lines))
    if data == "sample":
        from .sample import load_sample

        _refuse("the sample", config=config, revision=revision, lines=lines, source_column=columns)
        return load_sample(source_lang, target_lang, split)
    if not paths:
        _refuse("a Hub dataset", lines=lines)
        return _load_hub(str(data), request, split=split, config=config, revision=revision)
    _refuse("a local file", config=config, revision=revision)
    if len(paths) == 2:
        _refuse("a pair of text files", source_column=columns)
    return _load_local(request)


def _refuse(origin: str, **arguments: object) -> None:
    for name, value in arguments.items():
        if value is not None:
            raise ValueError(f"{name}={value!r} does not apply to {origin}; leave it out")


def parse_range(lines: str | None) -> tuple[int, int] | None:
    """First and last record of a range "first-last"; ValueError for anything else."""
    if lines is None:
        return None
    match = re.fullmatch(r"\s*([0-9]+)\s*-\s*([0-9]+)\s*", str(lines))
    first, last = map(int, match.groups()) if match else (0, 0)
    if not 1 <= first <= last:
        raise ValueError(f"lines={lines!r} is not a range first-last with 1 <= first <= last, such as 1-1543")
    return first, last


def local_paths(data: Any, languages: tuple[str, str]) -> tuple[str, ...]:
    """The file or the two files that `data` names; () if it is the id of a Hub data set."""
    items = [data] if isinstance(data, (str, os.PathLike)) else data
    if not isinstance(items, Sequence) or not all(isinstance(item, (str, os.PathLike)) for item in items):
        raise ValueError(f"data={data!r} is neither a path, a pair of paths, a Hub dataset id nor 'sample'")
    paths = tuple(os.path.expanduser(os.fspath(item)) for item in items)
    if len(paths) not in (1, 2):
        raise ValueError(f"data={data!r}: give one file or two line-aligned files, not {len(paths)}")
    if isinstance(data, str) and _may_be_hub_id(data, languages) and not os.path.exists(paths[0]):
        return ()
    for path in paths:
        _check_file(path)
    are_tables = [_is_table(path) for path in paths]
    if len(paths) == 2 and (any(are_tables) or paths[0] == paths[1]):
        raise ValueError(f"{paths[0]} and {paths[1]}: give two plain text files, one per language, or one table")
    if len(paths) == 1 and not are_tables[0] and not _has_both_sides(paths[0]):
        allowed = f"{', '.join(TABLE_SUFFIXES)}, or text with ' {BARS} ' between the sides of a line"
        two = f"two line-aligned files (as one source: {paths[0]}+TRANSLATIONS)"
        raise ValueError(f"{paths[0]}: a single file must be {allowed}; for plain text give {two}")
    return paths


def _may_be_hub_id(name: str, languages: tuple[str, str]) -> bool:
    """Whether a name looks like `dataset` or `owner/dataset` rather than like a text file."""
    suffixes = {*TABLE_SUFFIXES, ".txt", *(f".{language}" for language in languages)}
    is_file = suffix_of(name) in suffixes or is_packed(name)
    return not is_file and re.fullmatch(r"\w[\w.-]*(/\w[\w.-]*)?", name) is not None


def _is_table(path: str) -> bool:
    is_packed_parquet = suffix_of(path) == ".parquet" and is_packed(path)  # no reader for these
    return suffix_of(path) in TABLE_SUFFIXES and not is_packed_parquet


def _has_both_sides(path: str) -> bool:
    return suffix_of(path) not in TABLE_SUFFIXES and has_bars(path)


def _check_file(path: str) -> None:
    if os.path.isdir(path):
        raise ValueError(f"{path} is a folder; name a file in it, or two line-aligned files")
    if not os.path.exists(path):
        raise FileNotFoundError(f"{path} does not exist; check the path (the id of a Hub dataset is owner/name)")
    if not os.path.isfile(path):
        raise ValueError(f"{path} {A_PIPE}")


def sides_of(pairs: Any) -> tuple[list[str], list[str]]:
    """Source and target texts of a data set of pairs.

    A column of `datasets` is read at once, because text by text it takes a hundred times as long.
    """
    return pairs["source"][:], pairs["target"][:]


def pair_features() -> Features:
    """The columns of every set of pairs, all of them text."""
    from datasets import Features, Value

    return Features(dict.fromkeys(COLUMNS, Value("string")))


def _load_local(request: Request) -> Dataset:
    import pyarrow as pa
    from datasets import Dataset
    from datasets.fingerprint import Hasher

    pairs, tables = _sound_pairs(request), []
    while block := list(islice(pairs, _BLOCK)):
        source, target = zip(*block)
        columns = {
            "source": pa.array(source, pa.string()),
            "target": pa.array(target, pa.string()),
            "source_lang": pa.repeat(request.source_lang, len(block)),
            "target_lang": pa.repeat(request.target_lang, len(block)),
        }
        tables.append(pa.table(columns))
    files = [(path, os.stat(path).st_size, os.stat(path).st_mtime_ns) for path in request.paths]
    # Without a fingerprint given here, a data set pickles its whole text to make one. Time and size are part of it, so
    # a changed file does not get what `datasets` cached for the former one.
    return Dataset(pa.concat_tables(tables), fingerprint=Hasher.hash((request, files)))


def _sound_pairs(request: Request) -> Iterator[tuple[str, str]]:
    """Yield source and target of the wanted records; warn of characters lost in a conversion."""
    where = " and ".join(request.paths)
    lost = first_lost = 0
    for number, source, target, _ in checked_rows(request):
        check_lengths(f"{where}, {request.unit} {number}", source, target, LONGEST)
        if "\ufffd" in source or "\ufffd" in target:
            lost += 1
            first_lost = first_lost or number
        yield source, target
    if lost:
        what = "contain U+FFFD, so characters were lost in a conversion; get the text again or check these lines"
        warnings.warn(f"{where}: {lost} pair(s), first at {request.unit} {first_lost}, {what}", stacklevel=2)


def checked_rows(request: Request, *, keep_space: bool = False) -> Iterator[Row]:
    """Yield the wanted rows of local text, without outer white space unless it is to be kept."""
    where = " and ".join(request.paths)
    first, last = request.lines or (1, math.inf)
    count = 0
    for count, (number, source, target, value) in enumerate(read_rows(request), 1):
        if not first <= count <= last:  # reading continues, as encoding and line counts are checked to the end
            continue
        sides = plain_side(source, keep_space), plain_side(target, keep_space)
        if not all(sides) and not request.skip_bad:
            raise _side_error(request, f"{request.unit} {number}", source, target)
        yield number, *sides, value
    if count == 0:
        raise ValueError(f"{where}: no sentence pair in it (it is empty or has only a header); give at least one")
    if request.lines and count < last:
        raise ValueError(f"{where}: {count} records, but lines='{first}-{last}' asks for more; lower the range")


def plain_side(side: Any, keep_space: bool = False) -> str:
    """The side, without outer white space unless it is to be kept; "" if it has no text."""
    if not isinstance(side, str) or not side.strip(BLANK):
        return ""
    return side if keep_space else side.strip()


def check_lengths(place: str, source: str, target: str, longest: int) -> None:
    """Refuse texts so long that they would take hours, or more memory than there is."""
    for name, side in (("source", source), ("target", target)):
        if len(side) > longest:
            raise ValueError(f"{place}: the {name} side has {len(side):,} letters; give texts of at most {longest:,}.")


def _side_error(request: Request, place: str, source: Any, target: Any) -> ValueError:
    """The error for the first bad side of a pair."""
    if isinstance(source, str) and source.strip(BLANK):
        path, side, language, value = request.paths[-1], "target", request.target_lang, target
    else:
        path, side, language, value = request.paths[0], "source", request.source_lang, source
    if not isinstance(value, str):
        problem = f"is {kind_of(value)}, not text"
    else:
        problem = "has only zero-width characters" if value.strip() else "is empty"
    return ValueError(f"{path}, {place}: the {side} side ({language}) {problem}; fill it in or remove the pair")


def _load_hub(data: str, request: Request, *, split: str, config: str | None, revision: str | None) -> Dataset:
    import datasets

    place = data
    for name, value in (("split", split), ("config", config), ("revision", revision)):
        if value:
            place += f", {name} {value}"
    try:
        dataset = datasets.load_dataset(data, config, split=split, revision=revision)
    except (ValueError, OSError) as error:
        cause = " ".join(str(error).split())
        if isinstance(error, FileNotFoundError):  # DatasetNotFoundError is one
            what = f"no such file, and no such data set on the Hub ({cause}); check name and revision"
            raise FileNotFoundError(f"{place}: {what}") from None
        what = f"the Hub data set could not be loaded ({cause}); check split, config and access"
        raise ValueError(f"{place}: {what}") from None
    example = next(iter(dataset.take(1)), None)
    if example is None:
        raise ValueError(f"{place}: the data set has no rows; choose another split or configuration")
    keys = find_keys(flat(example), request, place)[:2]
    loaded = dataset.map(
        _hub_batch,
        batched=True,
        remove_columns=list(example),
        features=pair_features(),
        fn_kwargs={"keys": keys, "languages": (request.source_lang, request.target_lang), "place": place},
    )
    if len(loaded) < len(dataset):
        what = "that have no text on a side, or more than 1,000,000 letters"
        dropped = len(dataset) - len(loaded)
        warnings.warn(f"{place}: left out {dropped} of {len(dataset)} rows {what}", stacklevel=3)
    return loaded


def _hub_batch(
    batch: dict[str, list], keys: tuple[str, str], languages: tuple[str, str], place: str
) -> dict[str, list]:
    """Rows of a Hub data set in our columns, without those that have an empty side."""
    source_lang, target_lang = languages
    kept: dict[str, list] = {name: [] for name in COLUMNS}
    for values in zip(*batch.values()):
        row = flat(dict(zip(batch, values)))
        sides = [row.get(key) for key in keys]  # the key is missing if `translation` is null
        for key, side in zip(keys, sides):
            if side is not None and not isinstance(side, str):
                raise ValueError(f"{place}: column {key!r} holds {kind_of(side)}, not text; name another column")
        source, target = map(plain_side, sides)
        if source and target and max(map(len, sides)) <= LONGEST:
            kept["source"].append(source)
            kept["target"].append(target)
            kept["source_lang"].append(source_lang)
            kept["target_lang"].append(target_lang)
    return kept
