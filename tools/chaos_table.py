"""A case of `chaos.py`, and what all of its tables are made into cases with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TypeVar

from chaos_runs import Outcome, as_words, valid

# How a run has to end: refused in a line, well with a warning, well, or with lines that say what disagrees.
ERROR, WARNING, WELL, DISAGREES = "error", "warning", "well", "disagrees"
Check = Callable[[Path, Outcome], str | None]
Row = TypeVar("Row")


@dataclass
class Case:
    """Words to run, what to put into the case's own folder first, and how that must end.

    Attributes:
        name: what is shown.
        words: as `chaos_runs.run` takes them.
        told: of each any of the alternatives between |, in any case, must stand in the line.
        prepare: puts something into the folder.
        kind: how it must end.
        check: the count, such as "stale", that a run belongs to which ended as it should; None where all is well.
        place: where it runs, see `chaos_runs`.
        writes: patterns of files that may be others afterwards where it ends well; nothing else may.
    """

    name: str
    words: list[str]
    told: tuple[str, ...] = ()
    prepare: Callable[[Path], object] | None = None
    kind: str = ERROR
    check: Check | None = None
    place: str = ""
    writes: tuple[str, ...] = ("out*", "out/**/*", "cache/**/*", "outputs/**/*")


@dataclass
class Table:
    """What tables are multiplied with.

    Attributes:
        work: with the text and the models, see `chaos_runs`.
        rng: draws the share, places where files are cut, bytes.
        share: of the recipes and commands of each line.
        good: options with which each ends well.
        repositories: of the stand-in for the Hub, so far.
    """

    work: Path
    rng: Random
    share: float = 1.0
    good: dict[str, dict] = field(default_factory=dict)
    repositories: int = 0

    def __post_init__(self):
        self.good = valid(self.work)

    def some(self, rows: Sequence[Row]) -> list[Row]:
        """A share of them, one at least."""
        return self.rng.sample(list(rows), max(1, round(self.share * len(rows))))

    def filled(self, value: object) -> object:
        """With the files and folders that words in capitals stand for."""
        if isinstance(value, list):
            return [self.filled(each) for each in value]
        for name in ("file", "text", "vectors", "models", "disk") if isinstance(value, str) else ():
            value = value.replace(name.upper(), str(self.work / name))
        return value

    def words(self, program: str, changed: dict) -> list[str]:
        """Of a program with some options changed."""
        return as_words(
            program, self.good.get(program, {}) | {key: self.filled(value) for key, value in changed.items()}
        )

    def case(self, name: str, program: str, changed: dict, told: tuple = (), prepare: Callable | None = None) -> Case:
        """A program with some options changed."""
        return Case(f"{program} {name}", self.words(program, changed), told, prepare)

    def new_repository(self) -> str:
        """A name that nobody has."""
        self.repositories += 1
        return f"org/repository-{self.repositories}"
