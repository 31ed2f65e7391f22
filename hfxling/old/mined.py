"""What the mining commands write: pairs of texts with their scores, and what is dropped of them."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from pathlib import Path

from tqdm.auto import tqdm

from hfxling.data.faults import FLAGS, FaultFinder
from hfxling.data.texts import Texts
from hfxling.files import atomic_path
from hfxling.sentences.engine import Mined

DEDUP = ("source", "target", "both")
COLUMNS = ("score", "source", "target", "source_line", "target_line", "flags")
Row = tuple[float, str, str, int, int, str]  # of `COLUMNS`


def check_dropping(dedup: str | None, filters: Sequence[str]) -> None:
    """Raise the ValueError for what nothing can be dropped by."""
    if dedup not in (None, *DEDUP):
        raise ValueError(f"dedup={dedup!r} is not one of {', '.join(DEDUP)}.")
    if unknown := {*filters} - {*FLAGS, "all"}:
        raise ValueError(f"filters: {', '.join(sorted(unknown))} is not one of {', '.join(FLAGS)}, all.")


def plain(text: str) -> str:
    """What counts as the same text."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def without(side: Texts, known: Sequence[str]) -> Texts:
    """The side without the lines that are known texts."""
    taken = {*map(plain, known)}
    rows = [(line, text) for line, text in zip(side.lines, side.texts) if plain(text) not in taken]
    if not rows:
        raise ValueError(f"{side.name}: every line is a known pair's; give text beside them.")
    return Texts(side.name, *map(list, zip(*rows)))


def flagged(
    mined: Mined,
    sides: Sequence[Texts],
    languages: tuple[str, str],
    *,
    filters: Sequence[str] = (),
    dedup: str | None = None,
    top: int | None = None,
) -> list[Row]:
    """Rows of `COLUMNS`, without those that filters drop, that repeat a text, or that come after the first `top`."""
    texts = [[side.texts[row] for row in rows] for side, rows in zip(sides, mined[:2])]
    finder = FaultFinder.fit(zip(*texts), *languages) if texts[0] else None
    dropped = {*FLAGS} if "all" in filters else {*filters}
    seen: tuple[set, set] = (set(), set())
    rows = []
    found = zip(mined.score.tolist(), *texts, *(rows.tolist() for rows in mined[:2]))
    for score, source, target, i, j in tqdm(found, total=len(mined.score), unit=" pairs", disable=None):
        flags = finder.flags(source, target)
        names = plain(source), plain(target)
        is_double = [name in of and dedup in (side, "both") for name, of, side in zip(names, seen, DEDUP)]
        if dropped & {*flags} or any(is_double):
            continue
        for name, of in zip(names, seen):
            of.add(name)
        rows.append((score, source, target, sides[0].lines[i], sides[1].lines[j], ",".join(flags)))
        if len(rows) == top:
            break
    return rows


def write(path: Path, rows: Sequence[Row]) -> None:
    """A table with a header; tabs inside text become spaces in a TSV."""
    with atomic_path(path) as scratch:
        if path.suffix == ".parquet":
            import pyarrow as pa
            import pyarrow.parquet as pq

            kinds = (pa.float64(), pa.string(), pa.string(), pa.int64(), pa.int64(), pa.string())
            columns = [pa.array([row[i] for row in rows], kind) for i, kind in enumerate(kinds)]
            pq.write_table(pa.table(dict(zip(COLUMNS, columns))), scratch)
            return
        with scratch.open("w", encoding="utf-8", newline="\n") as file:
            file.write("\t".join(COLUMNS) + "\n")
            for score, source, target, *rest in rows:
                texts = (text.replace("\t", " ") for text in (source, target))
                file.write("\t".join([f"{score:.6f}", *texts, *map(str, rest)]) + "\n")
