"""Copies of published folders that were tampered with."""

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
