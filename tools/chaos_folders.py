"""Copies of published folders that were tampered with, what stopped runs left, and disks that are full."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random


def remove(path: Path, rng: Random) -> None:
    """No such file."""
    path.unlink()


def empty(path: Path, rng: Random) -> None:
    """Nothing in it."""
    path.write_bytes(b"")


def cut(path: Path, rng: Random) -> None:
    """Only its beginning, as a broken download leaves it."""
    content = path.read_bytes()
    path.write_bytes(content[: rng.randint(1, len(content) - 2)])


def garble(path: Path, rng: Random) -> None:
    """Random bytes."""
    path.write_bytes(rng.randbytes(rng.randint(1, 3000)))


def other_json(path: Path, rng: Random) -> None:
    """JSON of another kind."""
    path.write_text(rng.choice(["null", "[]", '"text"', "3", "[1, 2", "[[[[]]]]"]))


def no_key(path: Path, rng: Random) -> None:
    """JSON without any of its keys."""
    path.write_text("[]" if json.loads(path.read_text()).__class__ is list else "{}")


def folder(path: Path, rng: Random) -> None:
    """A folder of its name."""
    path.unlink()
    path.mkdir()


WEIGHTS, JSON = (remove, empty, cut, garble, folder), (remove, empty, cut, garble, other_json, no_key, folder)
_DENSE = "3_Router/zh_0_Dense"
# (programs with the option that names the folder; folder; file that they need; what may happen to it)
TAMPERED: list[tuple[tuple[tuple[str, str], ...], str, str, tuple[Callable, ...]]] = [
    (
        (("siamese", "base_model"), ("dap", "base_model"), ("xnli", "base_model"), ("encode", "model")),
        "encoder",
        name,
        how,
    )
    for name, how in (("model.safetensors", WEIGHTS), ("config.json", JSON), ("tokenizer.json", JSON))
]
TAMPERED += [
    ((("nearest", "model"), ("quality", "model"), ("evaluate", "model")), "siamese", name, how)
    for name, how in (
        ("model.safetensors", WEIGHTS),
        ("config.json", JSON),
        ("tokenizer.json", JSON),
        (f"{_DENSE}/model.safetensors", WEIGHTS),
        (f"{_DENSE}/config.json", JSON),
        ("3_Router/router_config.json", JSON),
        ("1_Pooling/config.json", (empty, cut, garble, folder)),
        ("modules.json", (empty, cut, garble, other_json)),
    )
]
TAMPERED += [
    ((("align", "model"), ("lexicon", "model"), ("aligner", "model")), "aligner", name, how)
    for name, how in (
        ("model.safetensors", WEIGHTS),
        ("config.json", JSON),
        ("tokenizer_zh/tokenizer.json", JSON),
        ("tokenizer_pieces/tokenizer.json", JSON),
    )
]
TAMPERED += [((("align", "model"), ("aligner", "model")), "aligner", "prior_zh-vi.safetensors", WEIGHTS)]
TAMPERED += [
    ((("explain", "model"), ("nearest", "lexical"), ("quality", "lexical")), "lexical", name, how)
    for name, how in (("model.safetensors", WEIGHTS), ("config.json", JSON), ("tokenizer_zh/tokenizer.json", JSON))
]
TAMPERED += [
    ((("nearest", "model"), ("evaluate", "model")), "lexical", name, how)
    for name, how in (
        ("0_StaticEmbedding/model.safetensors", WEIGHTS),
        ("0_StaticEmbedding/tokenizer.json", (remove, empty, cut, garble)),
    )
]


def spoilt_copy(model: Path, place: Path, name: str, how: Callable, seed: int) -> None:
    """A copy of a model's folder with one file tampered with."""
    shutil.copytree(model, place)
    how(place / name, Random(seed))


def other_key(path: Path, rng: Random) -> None:
    """JSON that says to be of something else."""
    content = json.loads(path.read_text())
    path.write_text(json.dumps(content | {"key": "another"}))


def nothing(path: Path, rng: Random) -> None:
    """Everything stays as it was."""


# A search whose pairs are then refused for their margins, which leaves its shards.
_AWAY = {"source_vectors": "VECTORS/ray.npy", "target_vectors": "VECTORS/away.npy", "model": None, "margin": "ratio"}
_ON = {"margin": "distance"}
_OTHER = {"source_vectors": "VECTORS/away.npy"}
# (program, options of a first run, those that the second one has besides, file that the first one left, what may happen
# to it, words)
STOPPED = [
    ("mine", _AWAY, _ON | {"k": 3}, "", (nothing,), ("out.tsv.hfxling-parts", "another k", "remove")),
    ("mine", _AWAY, _ON | _OTHER, "", (nothing,), ("out.tsv.hfxling-parts", "another vectors", "remove")),
    ("mine", _AWAY, _ON | {"shard": 50}, "", (nothing,), ("out.tsv.hfxling-parts", "another shard", "remove")),
    ("mine", _AWAY, _ON | {"": ["TEXT/train.vi", "TEXT/train.zh"]}, "", (nothing,), ("another texts", "remove")),
    ("mine", _AWAY, _ON, "out.tsv.hfxling-parts/key.json", (garble, cut, empty, folder), ("key.json", "remove")),
    (
        "mine",
        _AWAY,
        _ON,
        "out.tsv.hfxling-parts/forward_0.parquet",
        (garble, cut, empty, folder),
        ("forward_0.parquet", "remove"),
    ),
    (
        "mine",
        _AWAY,
        _ON,
        "out.tsv.hfxling-parts/backward_0.parquet",
        (garble, cut, empty, folder),
        ("backward_0.parquet", "remove"),
    ),
    ("mine", {}, {"k": 3}, "cache/*/features.npy", (garble, cut, empty), ("features.npy", "remove")),
    ("siamese", {}, {}, "cache/*/features.npy", (garble, cut, empty), ("features.npy", "remove")),
    ("evaluate", {}, {}, "out/tasks/*.json", (garble, cut, empty, other_json, other_key), ("out/tasks",)),
]
# (programs, options with a place on a small disk, bytes that are free there at most)
FULL = [
    (("encode",), {"output": "DISK/out.npy"}, 0),
    (("align", "lexicon", "quality", "clean", "mine", "align-documents"), {"output": "DISK/out.tsv"}, 0),
    (("mine", "clean", "align-documents"), {"output": "DISK/out.parquet"}, 0),
    (("evaluate",), {"output": "DISK/out"}, 0),
    (("fit", "bootstrap"), {"output": "DISK/out"}, 30_000),
    (("mine", "clean", "siamese", "disentangler"), {"cache_dir": "DISK/cache"}, 8_000),
    (("mine",), {"cache_dir": "DISK/cache", "plan": True}, 8_000),
    (("siamese", "disentangler", "dap", "aligner", "lexical", "pretrain", "xnli"), {"output_dir": "DISK/out"}, 30_000),
    (("study",), {"results_dir": "DISK/out"}, 0),
]


def fill_disk(disk: Path, free: int) -> None:
    """Empty a small disk but for a file that leaves so many bytes."""
    for path in disk.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    size = shutil.disk_usage(disk).free - free
    (disk / "filler").write_bytes(bytes(size))
