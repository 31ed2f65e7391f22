"""Models, vectors and text that change behind a cache: a table of `chaos.py`.

A command is run, what it read is changed, with the size and the times of before where that can be, and it is run again
with what the first run left: the second result must be that of a run that finds nothing.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
from chaos_runs import HUB, Hub, Outcome, run
from chaos_table import WELL, Case, Table
from safetensors.torch import load_file, save_file


def weights(model: Path) -> None:
    """Other numbers of the same signs, as many of them."""
    random = torch.Generator().manual_seed(3)
    for path in model.rglob("*.safetensors"):
        tensors = load_file(path)
        for name, tensor in tensors.items():
            if tensor.is_floating_point():
                tensors[name] = (tensor * (0.2 + 2 * torch.rand(tensor.shape, generator=random))).to(tensor.dtype)
        save_file(tensors, path, metadata={"format": "pt"})


def prompt(model: Path) -> None:
    """Text that is put before every text."""
    path = model / "config_sentence_transformers.json"
    content = json.loads(path.read_text()) if path.is_file() else {}
    content |= {"prompts": {"own": "chim mèo 鸟猫 "}, "default_prompt_name": "own"}
    path.write_text(json.dumps(content))


def pooling(model: Path) -> None:
    """The mean in place of the vector of the first piece, or the other way round."""
    path = model / "1_Pooling" / "config.json"
    content = json.loads(path.read_text())
    if "pooling_mode" in content:
        content["pooling_mode"] = "mean" if content["pooling_mode"] == "cls" else "cls"
    else:
        for name in ("pooling_mode_mean_tokens", "pooling_mode_cls_token"):
            content[name] = not content[name]
    path.write_text(json.dumps(content))


def length(model: Path) -> None:
    """At most five pieces of a text are read."""
    path = model / "sentence_bert_config.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps(content | {"max_seq_length": 5}))


def pieces(model: Path) -> None:
    """Every piece of text has the number of another."""
    for path in model.rglob("tokenizer.json"):
        content = json.loads(path.read_text())
        vocabulary = content["model"]["vocab"]
        special = {token["content"] for token in content["added_tokens"]}
        names = [name for name in vocabulary if name not in special]
        numbers = [vocabulary[name] for name in names]
        content["model"]["vocab"] |= dict(zip(names, numbers[1:] + numbers[:1]))
        path.write_text(json.dumps(content, ensure_ascii=False))


def activation(model: Path) -> None:
    """Another function between the layers."""
    path = model / "config.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps(content | {"hidden_act": "relu"}))


def vectors(path: Path) -> None:
    """Other vectors, as many."""
    array = np.load(path)
    np.save(path, np.roll(array, 5, axis=1)[::-1])


def text(path: Path) -> None:
    """Every source text with the translation of the next one."""
    pairs = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]
    targets = [target for _, target in pairs[1:] + pairs[:1]]
    lines = [f"{source}\t{target}\n" for (source, _), target in zip(pairs, targets)]
    path.write_text("".join(lines), encoding="utf-8")


def nothing(path: Path) -> None:
    """Only the options change."""


def with_former_times(change: Callable[[Path], None], place: Path) -> None:
    """Change a file or folder and give it the times of before."""
    paths = [place, *place.rglob("*")] if place.is_dir() else [place]
    times = {path: path.stat() for path in paths}
    change(place)
    for path, stat in times.items():
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


WHOLE = (weights, prompt, pooling, length, pieces, activation)  # of a folder of sentence-transformers
BARE = (weights, pieces, activation)  # of an encoder without more
DENSE_USERS = [("mine", "model"), ("clean", "model"), ("evaluate", "model")]

# (programs with the option that names what changes; what is copied to it, ways to change it)
CHANGED = [
    (DENSE_USERS, "MODELS/dap", WHOLE),
    (DENSE_USERS, "MODELS/siamese", (weights, pieces)),
    (DENSE_USERS, "MODELS/disentangler", (weights,)),
    (DENSE_USERS, "MODELS/lexical", (weights,)),
    ([("mine", "lexical"), ("clean", "lexical"), ("evaluate", "lexical")], "MODELS/lexical", (weights, pieces)),
    ([("siamese", "base_model"), ("disentangler", "base_model")], "MODELS/encoder", BARE),
    ([("siamese", "base_model")], "MODELS/dap", (prompt,)),
    ([("fit", "model")], "MODELS/encoder", (weights,)),
    ([("mine", "source_vectors"), ("evaluate", "source_vectors")], "VECTORS/train.npy", (vectors,)),
    ([("siamese", "train_data"), ("clean", ""), ("evaluate", "data"), ("lexical", "train_data")], "TEXT/train.tsv",
     (text,)),
]  # fmt: skip
# (program, options of both runs, of the first, of the second): caches of other settings
OTHERWISE = [
    ("evaluate", {}, {"model": "MODELS/lexical"}, {"model": None, "lexical": "MODELS/lexical"}),
    ("evaluate", {}, {"model": None, "lexical": "MODELS/lexical"}, {"model": "MODELS/lexical"}),
    ("evaluate", {}, {"model": "MODELS/siamese"}, {"model": "MODELS/dap"}),
    ("evaluate", {"model": "MODELS/dap"}, {}, {"prompt": "chim mèo "}),
    ("evaluate", {"model": "MODELS/dap"}, {"query_prompt": "chim mèo "}, {"document_prompt": "chim mèo "}),
    ("evaluate", {"model": "MODELS/dap", "pooling": "mean"}, {"layer": 0}, {"layer": 1}),
    ("evaluate", {"model": "MODELS/dap", "layer": 1}, {"pooling": "mean"}, {"pooling": "cls"}),
    ("evaluate", {"model": "MODELS/dap"}, {"data": "TEXT/test.tsv"}, {"data": "TEXT/train.tsv@1-30"}),
    ("mine", {"model": "MODELS/dap"}, {}, {"prompt": "chim mèo "}),
    ("mine", {}, {"model": "MODELS/dap"}, {"model": "MODELS/siamese"}),
    ("clean", {"model": "MODELS/dap"}, {}, {"prompt": "chim mèo "}),
    ("siamese", {}, {"pooling": "mean"}, {"pooling": "cls"}),
    ("siamese", {}, {"layer": "1"}, {"layer": "2"}),
    ("siamese", {}, {"max_length": 64}, {"max_length": 5}),
    ("siamese", {}, {}, {"base_model": "MODELS/dap"}),
    ("study", {}, {}, {"layer": "2"}),
]
# (program, options, option of the model, option of its revision): repositories of the Hub that change between two calls
REVISED = [
    ("mine", {}, "model", "revision"),
    ("clean", {}, "model", "revision"),
    ("evaluate", {}, "model", "revision"),
    ("encode", {"language": None, "layer": 1}, "model", "revision"),
    ("siamese", {}, "base_model", "base_revision"),
    ("mine", {"model": None}, "lexical", "lexical_revision"),
    ("evaluate", {"model": None}, "lexical", "lexical_revision"),
]


def results_of(folder: Path) -> dict[str, object]:
    """What a run wrote there: files by name, and of records what was measured."""
    found: dict[str, object] = {}
    for path in sorted([*folder.glob("out*"), *folder.glob("out/**/*")]):
        name = str(path.relative_to(folder))
        if path.suffix in (".tsv", ".npy", ".safetensors") and "checkpoint" not in name:
            found[name] = path.read_bytes()
        elif path.suffix == ".json" and path.parent.name == "out":
            rows = json.loads(path.read_text())["results"]
            found[name] = [(row["metric"], row["direction"], row["value"]) for row in rows]
    return found


def cases(table: Table) -> Iterator[Case]:
    """All of these."""
    for users, source, ways in CHANGED:
        for way in ways:
            for program, option in table.some(users):
                yield behind_a_cache(table, program, option, Path(table.filled(source)), way)
    for program, both, first, second in table.some(OTHERWISE):
        yield otherwise(table, program, both | first, both | second, f"{second or 'as before'} after {first or both}")
    for program, options, option, revision in table.some(REVISED):
        for is_moved in (False, True):
            yield revised(table, program, options, option, "" if is_moved else revision)


def behind_a_cache(table: Table, program: str, option: str, source: Path, way: Callable[[Path], None]) -> Case:
    """What is read changes between two runs."""
    given = f"given{source.suffix}"
    options: dict[str, object] = {option: given}
    if program in ("mine", "clean"):
        options["margin"] = "distance"  # of random vectors a ratio may not be had
    if program == "evaluate" and option == "model":
        options["task"] = "geometry"  # whose figures change with every vector
    if option == "lexical":
        options["model"] = None
    if option == "source_vectors":
        options |= {"target_vectors": source, "model": None}
        options |= {"data": table.work / "text" / "train.tsv"} if program == "evaluate" else {}
    if program == "fit":
        options |= {"only": "head", "choose": "head"}
    words = table.words(program, options)

    def prepare(folder: Path) -> dict:
        copied(source, folder / given)
        run(words, folder)
        first = results_of(folder)
        with_former_times(way, folder / given)
        return first

    name = f"{program} {option}={source.name}, then another: {way.__name__}"
    return compared(name, words, prepare, lambda folder: copied(folder.parent / given, folder / given))


def otherwise(table: Table, program: str, first: dict, second: dict, name: str) -> Case:
    """Other settings, where results lie."""

    def prepare(folder: Path) -> dict:
        run(table.words(program, first), folder)
        return results_of(folder)

    return compared(f"{program} {name}", table.words(program, second), prepare, lambda folder: None)


def revised(table: Table, program: str, options: dict, option: str, revision: str) -> Case:
    """A repository of the Hub: another revision after one, or, without the option for it, a branch that has moved."""
    repository = table.new_repository()
    kind = {"lexical": "lexical", "base_model": "encoder"}.get(option, "dap")
    words = table.words(program, options | {option: repository})
    of_first = [f"--{revision}", "first"] if revision else []

    def prepare(folder: Path) -> dict:
        server = Hub.open().server
        given = folder / "given"
        copied(table.work / "models" / kind, given)
        server.put(repository, files_in(given))
        branches = server.repo(repository).branches
        branches["first"] = branches["main"]
        weights(given)
        if revision:
            server.put(repository, files_in(given))
        run([*words, *of_first], folder, place=HUB)
        first = results_of(folder)
        server.put(repository, files_in(given))
        return first

    name = f"{program} {option} of the Hub, {'another revision' if revision else 'whose branch has moved'}"
    case = compared(name, words, prepare, lambda folder: None)
    case.place = HUB
    return case


def compared(name: str, words: list[str], prepare: Callable[[Path], dict], again: Callable[[Path], object]) -> Case:
    """A second run, whose results must be those of a run in a fresh folder, which `again` prepares.

    `prepare` gives the results of the first run, which must be others.
    """
    first: dict[str, object] = {}

    def check(folder: Path, _: Outcome) -> str | None:
        fresh = folder / "fresh"
        fresh.mkdir()
        again(fresh)
        outcome = run(words, fresh, place=case.place)
        wanted = results_of(fresh)
        if outcome.status or not wanted or first == wanted:
            print(f"{name} shows nothing: {outcome.status} {[*first]} {outcome.err[-500:]}", flush=True)
            return "unclear"
        return None if results_of(folder) == wanted else "stale"

    case = Case(name, words, (), lambda folder: first.update(prepare(folder)), WELL, check)
    return case


def copied(source: Path, place: Path) -> None:
    """A copy of a file or folder."""
    if source.is_dir():
        shutil.copytree(source, place)
    else:
        shutil.copy(source, place)


def files_in(folder: Path) -> dict[str, bytes]:
    """Content by name."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
