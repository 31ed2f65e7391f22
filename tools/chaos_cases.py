"""The cases of `chaos.py` out of its tables: what is run, and words that its line must contain.

A line more in `chaos_values.py`, `chaos_files.py` or `chaos_folders.py` is a case more, of every recipe and command
that the table is for.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

from chaos_files import FILES, LINE_READERS, LINES, STUDIES, TABLE_READERS, TABLES, VECTORS, YAMLS
from chaos_folders import FULL, STOPPED, TAMPERED, fill_disk, spoilt_copy
from chaos_runs import as_words, run, valid
from chaos_values import ALIGNING, HEADS, VALUES, WARNED


@dataclass
class Case:
    """Words to run, what to put into the case's own folder first, and what the line that must come contains."""

    name: str
    words: list[str]
    told: tuple[str, ...]  # of each any of the alternatives between |, in any case
    prepare: Callable[[Path], object] | None = None
    kind: str = "error"  # of the line; after a warning the run ends well


class Table:
    """Every case; of lines that are for many recipes and commands a share of these, one at least.

    Args:
        work: with the text and the models, see `chaos_runs`.
        seed: of what is random: the share, places where files are cut, bytes.
        share: of the recipes and commands of each line.
    """

    def __init__(self, work: Path, seed: int, share: float = 1.0):
        self.work, self.rng, self.share, self.good = work, Random(seed), share, valid(work)

    def __iter__(self) -> Iterator[Case]:
        kinds = (self.values, self.tables, self.lines, self.vectors, self.files, self.yamls, self.folders)
        for cases in (*kinds, self.stopped, self.warned, self.full):
            yield from cases()

    def some(self, readers) -> list:
        """A share of them."""
        return self.rng.sample(list(readers), max(1, round(self.share * len(readers))))

    def case(self, name: str, program: str, changed: dict, told: tuple, prepare: Callable | None = None) -> Case:
        """Of a program with some options changed."""
        return Case(f"{program} {name}", as_words(program, self.good[program] | changed), told, prepare)

    def filled(self, value: object) -> object:
        """With the files and folders that words in capitals stand for."""
        if isinstance(value, list):
            return [self.filled(each) for each in value]
        names = ("file", "text", "vectors", "models", "disk")
        places = {name.upper(): self.work / name for name in names}
        for mark, place in places.items() if isinstance(value, str) else ():
            value = value.replace(mark, str(place))
        return value

    def values(self) -> Iterator[Case]:
        """Values that are refused before anything is read, and some that are found out later."""
        for programs, options, told in VALUES:
            name = " ".join(f"{key}={value}" for key, value in options.items())
            for program in self.some(programs):
                yield self.case(name, program, {key: self.filled(value) for key, value in options.items()}, told)

    def tables(self) -> Iterator[Case]:
        """Tables of sentence pairs."""
        for name, content, told in TABLES:
            for program, key in self.some(TABLE_READERS):
                more = {key: f"zh-vi={name}" if key == "parallel" else name}
                more |= {"precision": 0.9} if key == "known" else {}
                yield self.case(f"{key} {name}", program, more, told, writer(name, content))

    def lines(self) -> Iterator[Case]:
        """Files of one sentence a line."""
        for name, content, told in LINES:
            for program, key in self.some(LINE_READERS):
                more = {key: self.sides(program, name) if key == "" else name}
                more = {"distractors": f"zh={name}", "folds": 2} if key == "distractors" else more
                yield self.case(f"{key} {name}", program, more, told, writer(name, content))

    def sides(self, program: str, name: str) -> object:
        """What a program reads without a key where one side is a given file."""
        own = self.good[program].get("")
        return [name] * 2 if program in ALIGNING else [name, *own[1:]] if isinstance(own, list) else name

    def vectors(self) -> Iterator[Case]:
        """Files of vectors."""
        train, test = (self.work / "vectors" / f"{split}.npy" for split in ("train", "test"))
        for name, content, told in VECTORS:
            for program in self.some((*HEADS, "mine", "evaluate")):
                more = {"train_vectors": f"{name}+{train}", "test_vectors": f"{test}+{test}", "base_model": None}
                if program not in HEADS:
                    more = {"source_vectors": name, "target_vectors": train, "model": None}
                    more |= {"data": self.work / "text" / "train.tsv"} if program == "evaluate" else {}
                yield self.case(f"vectors {name}", program, more, told, writer(name, content))

    def files(self) -> Iterator[Case]:
        """Further files that some read."""
        for number, (program, key, content, told) in enumerate(FILES):
            name = f"given{number}.tsv" if program in ("xnli", "clean") else f"given{number}"
            value = f"zh-vi={name}" if key in ("gold", "dictionaries", "lexicon") else name
            value = self.sides(program, name) if key == "" else value
            more = {"": None, "output": None, "confidence": "out.json"} if key == "fit_confidence" else {}
            yield self.case(f"{key} {number}", program, {key: value} | more, told, writer(name, content))

    def yamls(self) -> Iterator[Case]:
        """Configurations."""
        of_study = [("study", *row) for row in STUDIES]
        for program, content, told in [*(("siamese", *row) for row in YAMLS), *of_study]:
            prepare = writer("given.yaml", content.encode())
            yield self.case(f"yaml {content!r}", program, {"config": "given.yaml"}, told, prepare)

    def folders(self) -> Iterator[Case]:
        """Folders that were tampered with."""
        for readers, kind, name, ways in TAMPERED:
            for how in ways:
                for program, key in self.some(readers):
                    yield self.tampered(program, key, (self.work / "models" / kind, name, how))

    def tampered(self, program: str, key: str, spoilt: tuple[Path, str, Callable]) -> Case:
        """A program that is given a model with a file tampered with."""
        (model, name, how), seed = spoilt, self.rng.randrange(2**32)
        changed = {key: "model"} | ({"model": None} if key == "lexical" else {})
        changed |= {"language": None, "layer": "1"} if program == "encode" else {}

        def prepare(folder: Path) -> None:
            spoilt_copy(model, folder / "model", name, how, seed)

        return self.case(f"{key} {model.name}: {how.__name__} {name}", program, changed, ("model",), prepare)

    def stopped(self) -> Iterator[Case]:
        """What an earlier run left, tampered with or of other settings."""
        for program, options, changed, pattern, ways, told in STOPPED:
            options, changed = ({k: self.filled(v) for k, v in x.items()} for x in (options, options | changed))
            for how in self.some(ways):
                seed = self.rng.randrange(2**32)

                def prepare(folder: Path, before=options, how=how, seed=seed, program=program, pattern=pattern) -> None:
                    run(as_words(program, self.good[program] | before), folder)
                    if pattern:
                        how(sorted(folder.glob(pattern))[0], Random(seed))
                    for left in (
                        folder / "out.tsv",
                        folder / "out" / "results.json",
                    ):  # finished, what is tested is not
                        left.unlink(missing_ok=True)
                    shutil.rmtree(folder / "out" / "model", ignore_errors=True)

                name = f"{how.__name__} {pattern}" if pattern else " ".join(f"{k}={v}" for k, v in changed.items())
                yield self.case(f"again: {name}", program, changed, told, prepare)

    def warned(self) -> Iterator[Case]:
        """What is done, with a warning."""
        for program, options, told in WARNED:
            case = self.case(" ".join(options), program, {k: self.filled(v) for k, v in options.items()}, told)
            case.kind = "warning"
            yield case

    def full(self) -> Iterator[Case]:
        """A disk that fills up at some time."""
        disk = self.work / "disk"
        for programs, options, most in FULL if disk.is_mount() else ():
            for program in self.some(programs):
                free = self.rng.randint(0, most)

                def prepare(_: Path, free=free) -> None:
                    fill_disk(disk, free)

                changed = {key: self.filled(value) for key, value in options.items()}
                yield self.case(f"{' '.join(options)} on a full disk", program, changed, ("disk", "room"), prepare)


def writer(name: str, content: bytes | str | None) -> Callable[[Path], object]:
    """Writes a file, a folder or nothing of that name."""

    def prepare(folder: Path) -> None:
        if content == "folder":
            (folder / name).mkdir()
        elif content is not None:
            (folder / name).write_bytes(content)

    return prepare
