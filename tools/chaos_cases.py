"""The cases of `chaos.py` out of its tables.

A line more in one of the tables is a case more, of every recipe and command that the table is for.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import chaos_hub
import chaos_outputs
import chaos_places
import chaos_stale
from chaos_files import FILES, LINE_READERS, LINES, STUDIES, TABLE_READERS, TABLES, VECTORS, YAMLS
from chaos_folders import FULL, RESUMED, STOPPED, TAMPERED, fill_disk, spoilt_copy
from chaos_runs import as_words, run
from chaos_table import WARNING, WELL, Case, Table
from chaos_values import ALIGNING, HEADS, VALUES, WARNED, WELL_DONE


class AllCases(Table):
    """Every case; of lines that are for many recipes and commands a share of these, one at least."""

    def __iter__(self) -> Iterator[Case]:
        kinds = (self.values, self.tables, self.lines, self.vectors, self.files, self.yamls, self.folders)
        for cases in (*kinds, self.stopped, self.resumed, self.warned, self.well_done, self.full):
            yield from cases()
        for module in (chaos_outputs, chaos_stale, chaos_hub, chaos_places):
            yield from module.cases(self)

    def values(self) -> Iterator[Case]:
        """Values that are refused before anything is read, and some that are found out later."""
        for programs, options, told in VALUES:
            name = " ".join(f"{key}={value}" for key, value in options.items())
            for program in self.some(programs):
                yield self.case(name, program, options, told)

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
        if program in ALIGNING:  # the same twice, by two names, so that both sides have as many lines
            return [name, f"./{name}"]
        return [name, *own[1:]] if isinstance(own, list) else name

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
            yield self.case(f"{key} {number}", program, {key: value}, told, writer(name, content))

    def yamls(self) -> Iterator[Case]:
        """Configurations."""
        rows = [("siamese", *row) for row in YAMLS]
        rows += [("mine", *row) for row in YAMLS if "given.yaml" in row[1] or "nested" in row[1]]
        rows += [("study", *row) for row in STUDIES]
        for program, content, told in rows:
            prepare = writer("given.yaml", content.encode())
            yield self.case(f"yaml {content[:60]!r}", program, {"config": "given.yaml"}, told, prepare)

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
        changed |= {"lexical": self.work / "models" / "links"} if model.name == "fused" else {}

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

    def resumed(self) -> Iterator[Case]:
        """A training that is to go on with other settings."""
        for programs, first, options, told in RESUMED:
            for program in self.some(programs):
                words = self.words(program, first)

                def prepare(folder: Path, words=words) -> None:
                    run(words, folder)

                more = first | options | {"resume_from_checkpoint": True}
                yield self.case(f"resumed with {options}", program, more, told, prepare)

    def warned(self) -> Iterator[Case]:
        """What is done, with a warning."""
        for program, options, told in WARNED:
            case = self.case(" ".join(options), program, options, told)
            case.kind = WARNING
            yield case

    def well_done(self) -> Iterator[Case]:
        """What is done, and said."""
        for program, options, told in WELL_DONE:
            case = self.case(f"well: {' '.join(options)}", program, options, told)
            case.kind = WELL
            yield case

    def full(self) -> Iterator[Case]:
        """A disk that fills up at some time."""
        disk = self.work / "disk"
        for programs, options, most in FULL if disk.is_mount() else ():
            for program in self.some(programs):
                free = self.rng.randint(0, most)

                def prepare(_: Path, free=free) -> None:
                    fill_disk(disk, free)

                yield self.case(f"{' '.join(options)} on a full disk", program, options, ("disk", "room"), prepare)


def writer(name: str, content: bytes | str | None) -> Callable[[Path], object]:
    """Writes a file, a folder or nothing of that name."""

    def prepare(folder: Path) -> None:
        if content == "folder":
            (folder / name).mkdir()
        elif content is not None:
            (folder / name).write_bytes(content)

    return prepare
