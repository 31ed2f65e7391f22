"""Links of a long text, kept part by part beside the output while it is aligned."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hfxling.data.pharaoh import Link
from hfxling.data.segment import Span
from hfxling.files import atomic_path
from hfxling.parts import claim, readable, remove_parts


@dataclass(frozen=True)
class PairLinks:
    """Links of one sentence pair.

    Attributes:
        source: units of the source line; `line[span.start:span.end]` is where one stands in it.
        target: units of the target line.
        links: (position of source unit, position of target unit), from 0, sorted.
        scores: of every link, 0..1: the probability that it is right, by the weights of `probability.py` or by a
            fitted confidence; of a trained aligner without either the mean weight that both directions give it.
        source_null: of every source unit the probability that it is linked to none; [] of a trained aligner.
        target_null: of every target unit the same.
    """

    source: Sequence[Span]
    target: Sequence[Span]
    links: list[Link]
    scores: list[float]
    source_null: Sequence[float] = ()
    target_null: Sequence[float] = ()


class StoredParts:
    """Parts of a run in a folder: what is there is read, what is not is computed and written.

    Args:
        folder: beside the output; None to keep nothing.
        key: everything that the links hang on, as JSON can hold it.
    """

    def __init__(self, folder: Path | None, key: Mapping):
        self.folder = folder
        if folder is not None:
            claim(folder, key)

    def take(self, start: int, align: Callable[[], list[PairLinks]]) -> list[PairLinks]:
        """The links of the part whose first pair has this number, from the folder or as `align` computes them."""
        if self.folder is None:
            return align()
        path = self.folder / f"links_{start}.jsonl"
        if path.is_file():
            with readable(path):
                records = path.read_text(encoding="utf-8").splitlines()
                return [unpacked(json.loads(record)) for record in records]
        pairs = align()
        with atomic_path(path) as scratch, open(scratch, "w", encoding="utf-8") as file:
            for pair in pairs:
                file.write(json.dumps(packed(pair)) + "\n")
        return pairs

    def clear(self) -> None:
        """Remove the parts of a run that has ended, and the folder unless something else lies there."""
        if self.folder is not None:
            remove_parts(self.folder, ["links_*.jsonl"])


def packed(pair: PairLinks) -> list:
    """A pair as JSON holds it."""
    return [pair.source, pair.target, pair.links, pair.scores, list(pair.source_null), list(pair.target_null)]


def unpacked(record: list) -> PairLinks:
    """What `packed` made of a pair."""
    source, target, links, *scores = record
    source = [Span(*span) for span in source]
    target = [Span(*span) for span in target]
    return PairLinks(source, target, [(i, j) for i, j in links], *scores)
