"""Places to write to: what is read, what is somebody else's, devices, pipes, links and modes. Tables of `chaos.py`."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from chaos_runs import HOME, Outcome, run
from chaos_table import WELL, Case, Table

# (program, option that writes a file, its suffix)
FILE_WRITERS = [
    ("encode", "output", ".npy"),
    ("quality", "output", ".tsv"),
    ("align", "output", ".tsv"),
    ("lexicon", "output", ".tsv"),
    ("mine", "output", ".tsv"),
    ("clean", "output", ".tsv"),
    ("clean", "dropped", ".tsv"),
    ("align-documents", "output", ".tsv"),
]
TEXT_WRITERS = [row for row in FILE_WRITERS if row[0] != "encode"]


# What to call a file by another name, the folder being FOLDER, and the link that has to be made for it.
NAMES = {
    "as it is": ("{name}", None),
    "by a detour": ("./over/../{name}", None),
    "from the root": ("FOLDER/{name}", None),
    "by a symbolic link": ("link{suffix}", os.symlink),
    "by a hard link": ("link{suffix}", os.link),
}
# Outputs of one command that are one file.
TWICE = [
    ("align", {"output": "x.png", "heatmap": "x.png"}),
    ("clean", {"output": "x.tsv", "dropped": "over/../x.tsv"}),
    ("encode", {"": ["TEXT/test.zh", "TEXT/test.vi"], "language": None, "output": ["x.npy", "./x.npy"]}),
]


def a_file(folder: Path) -> None:
    """Somebody's file, of a mode that a new one would not have."""
    place = folder / "out.tsv"
    place.write_text("old")
    place.chmod(0o640)


def a_link(folder: Path) -> None:
    """A link to somebody's file."""
    (folder / "there.tsv").write_text("old")
    (folder / "out.tsv").symlink_to("there.tsv")


def a_link_to_nothing(folder: Path) -> None:
    """A link to a file that is not there yet."""
    (folder / "out.tsv").symlink_to("there.tsv")


def a_pipe(folder: Path) -> None:
    """A named pipe, that somebody reads."""
    os.mkfifo(folder / "out.tsv")
    subprocess.Popen(["sh", "-c", "cat out.tsv > there.tsv"], cwd=folder)


def others_scratch(folder: Path) -> None:
    """Files and folders of names that look like a scratch file's."""
    for name in ("out.tsv.parts", ".out.tsv.partial", "out.tsv.hfxling", ".out.tsv.abc.tmp"):
        (folder / name).mkdir()
        (folder / name / "notes.txt").write_text("mine")


def nothing(folder: Path) -> None:
    """Nothing is there."""


def is_kept_link(folder: Path) -> bool:
    """Whether the link is one still, and what it leads to was written."""
    place = folder / "out.tsv"
    return place.is_symlink() and (folder / "there.tsv").stat().st_size > 10


def is_kept_mode(folder: Path) -> bool:
    """Whether the file was written and has its mode."""
    place = folder / "out.tsv"
    return place.stat().st_size > 10 and stat.S_IMODE(place.stat().st_mode) == 0o640


def came_through(folder: Path) -> bool:
    """Whether the pipe is one still, and its reader got something."""
    return stat.S_ISFIFO((folder / "out.tsv").stat().st_mode) and (folder / "there.tsv").stat().st_size > 10


def is_written(folder: Path) -> bool:
    """Whether the output is there, and nothing else of the same beginning is new."""
    return (folder / "out.tsv").stat().st_size > 10


def is_a_device(folder: Path) -> bool:
    """Whether it is one still."""
    return stat.S_ISCHR(os.stat("/dev/null").st_mode) and not (folder / "out.tsv").exists()


def came_out(folder: Path) -> bool:
    """Whether it stands in standard output."""
    return (folder / "stdout").stat().st_size > 10


def is_at_home(folder: Path) -> bool:
    """Whether it lies in the home folder, which is this one."""
    return (folder / "out.tsv").stat().st_size > 10 and not (folder / "~").exists()


# (what is there, what the output is called, whether all is well after it): every writer of text ends well with these.
SPECIAL: list[tuple[Callable[[Path], None], str, Callable[[Path], bool]]] = [
    (a_file, "out.tsv", is_kept_mode),
    (a_link, "out.tsv", is_kept_link),
    (a_link_to_nothing, "out.tsv", is_kept_link),
    (a_pipe, "out.tsv", came_through),
    (others_scratch, "out.tsv", is_written),
    (nothing, "/dev/null", is_a_device),
    (nothing, "/dev/stdout", came_out),
    (nothing, "~/out.tsv", is_at_home),
]


def others_folder(folder: Path) -> None:
    """A folder with somebody's files."""
    for name in ("out/notes.txt", "out/model/notes.txt", "out/deep/er/notes.txt"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("mine")


def others_model(folder: Path) -> None:
    """A folder where the model is to be, with somebody's file."""
    (folder / "out" / "model").mkdir(parents=True)
    (folder / "out" / "model" / "notes.txt").write_text("mine")


# (program, options, what is there, words that its line contains)
STRANGERS = [
    ("bootstrap", {}, others_folder, ("did not write",)),
    ("bootstrap", {"output": "."}, nothing, ("working directory",)),
    ("bootstrap", {"output": "TEXT"}, nothing, ("is an input",)),
    ("fit", {}, others_model, ("did not write",)),
    ("demo", {"": "org/a", "space": "out"}, others_folder, ("did not write",)),
    ("demo", {"": "org/a", "space": "."}, nothing, ("working directory",)),
]


def cases(table: Table) -> Iterator[Case]:
    """All of these."""
    yield from inputs_as_outputs(table)
    yield from special_outputs(table)
    for program, options, there, told in STRANGERS:
        yield table.case(f"{there.__name__} {options}", program, options, told, there)
    yield from broken_cells(table)
    yield model_with_prompts(table)
    yield from clock_back(table)
    recipes = [
        name for name in table.good if "output_dir" in table.good[name] and name not in ("study", "pretrain", "xnli")
    ]
    for program in table.some(recipes):
        yield table.case("others' files in output_dir/model", program, {}, ("did not write",), others_model)


def broken_cells(table: Table) -> Iterator[Case]:
    """Text whose cells hold tabs and line breaks: a row of what is written is a row all the same."""
    pairs = (table.work / "text" / "train.tsv").read_text(encoding="utf-8").splitlines()
    lines = []
    for zh, vi in (pair.split("\t") for pair in pairs):
        lines.append(json.dumps({"zh": f"{zh}\r\n{zh}", "vi": f"{vi}\t{vi}\n."}, ensure_ascii=False) + "\n")

    def prepare(folder: Path) -> None:
        (folder / "given.jsonl").write_text("".join(lines), encoding="utf-8")

    def check(folder: Path, _: Outcome) -> str | None:
        rows = (folder / "out.tsv").read_text(encoding="utf-8").split("\n")[:-1]
        is_whole = len(rows) > 20 and len({row.count("\t") for row in rows}) == 1
        return None if is_whole and not any("\r" in row for row in rows) else "silent"

    for program in ("mine", "clean", "quality", "lexicon"):
        case = table.case("cells with breaks", program, {"": "given.jsonl"}, (), prepare)
        case.kind, case.check = WELL, check
        yield case


def model_with_prompts(table: Table) -> Case:
    """An encoder like E5, whose own prompts are for questions and passages: translations get one on both sides."""

    def prepare(folder: Path) -> None:
        shutil.copytree(table.work / "models" / "dap", folder / "given")
        prompts = {"prompts": {"query": "query: ", "document": "passage: "}}
        (folder / "given" / "config_sentence_transformers.json").write_text(json.dumps(prompts))

    def check(folder: Path, _: Outcome) -> str | None:
        rows = json.loads((folder / "out" / "results.json").read_text())["results"]
        return None if {row["settings"].get("prompt") for row in rows} == {"query: "} else "silent"

    case = table.case("model with prompts of its own", "evaluate", {"model": "given"}, (), prepare)
    case.kind, case.check = WELL, check
    return case


def clock_back(table: Table) -> Iterator[Case]:
    """Checkpoints of the future, as where the clock went back: what was written last stays."""

    def prepare(folder: Path, words: list[str]) -> None:
        run([*words, "--max_steps", "1"], folder)
        ahead = time.time() + 3600
        for path in (folder / "out").glob("checkpoint-*"):
            os.utime(path, (ahead, ahead))

    def check(folder: Path, _: Outcome) -> str | None:
        steps = {int(path.name.rpartition("-")[2]) for path in (folder / "out").glob("checkpoint-*")}
        return None if steps and max(steps) == 3 else "lost"

    steps = {
        "save_strategy": "steps",
        "save_steps": 1,
        "save_total_limit": 1,
        "num_train_epochs": None,
        "max_steps": None,
    }
    for program, more in (("siamese", {"fit": "contrastive"}), ("dap", {}), ("aligner", {})):
        words = table.words(program, more | steps)
        before = partial(prepare, words=words)
        case = Case(f"{program} where the clock went back", [*words, "--max_steps", "3"], (), before)
        case.kind, case.check = WELL, check
        yield case


def inputs_as_outputs(table: Table) -> Iterator[Case]:
    """Files to write that are read, and outputs that are one file."""
    for program, option, suffix in FILE_WRITERS:
        for way in table.some(list(NAMES)):
            yield input_as_output(table, program, option, suffix, way)
    for program, options in TWICE:
        yield table.case(f"{options}", program, options, ("is the same file|own file",))


def input_as_output(table: Table, program: str, option: str, suffix: str, way: str) -> Case:
    """A command that would write over what it reads."""
    pattern, link = NAMES[way]
    own = table.good[program][""]
    sources = own if isinstance(own, list) else [own]
    names = [f"in{number}{suffix}" for number in range(len(sources))]
    value = pattern.format(name=names[0], suffix=suffix).replace("FOLDER", str(table.work / "case"))

    def prepare(folder: Path) -> None:
        for source, name in zip(sources, names):
            shutil.copy(source, folder / name)
        if link:
            link(folder / names[0], folder / value)

    options = {"": names if isinstance(own, list) else names[0], option: value}
    options |= {"output": "out.tsv"} if option != "output" else {}
    return table.case(f"{option} is what is read, {way}", program, options, ("is read, too",), prepare)


def special_outputs(table: Table) -> Iterator[Case]:
    """Devices, pipes, links, modes, and files whose names are like those of scratch files."""
    for there, output, is_well in SPECIAL:
        for program, option, _ in table.some(TEXT_WRITERS):
            options = {option: output} if option == "output" else {option: output, "output": "other.tsv"}
            case = table.case(f"{option}={output}, {there.__name__}", program, options, (), there)
            case.kind, case.place = WELL, HOME
            case.check = lambda folder, _, is_well=is_well: None if is_well(folder) else "lost"
            case.writes = ("out.tsv", "out.dropped.tsv", "there.tsv", "other*", "cache/**/*")
            yield case
