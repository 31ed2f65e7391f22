"""Copies of published folders that were tampered with, what stopped runs left, and disks that are full."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random

import torch
from safetensors.torch import load_file, save_file


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


def changed_tensors(path: Path, change: Callable) -> None:
    """Every tensor of a file as `change` gives it, that of fewest numbers first."""
    tensors = {name: change(tensor.clone()).contiguous() for name, tensor in load_file(path).items()}
    save_file(tensors, path, metadata={"format": "pt"})


def no_number(path: Path, rng: Random) -> None:
    """A NaN, or an infinite number, in every tensor."""
    value = rng.choice([torch.nan, torch.inf, -torch.inf])

    def change(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.is_floating_point() and tensor.numel():
            tensor.view(-1)[rng.randrange(tensor.numel())] = value
        return tensor

    changed_tensors(path, change)


def far_index(path: Path, rng: Random) -> None:
    """An index far out of range, or below zero, in every tensor of whole numbers."""
    value = rng.choice([10**8, 2**31 - 1, -1, -(10**6)])

    def change(tensor: torch.Tensor) -> torch.Tensor:
        if not tensor.is_floating_point() and tensor.numel() > 2:
            tensor.view(-1)[rng.randrange(tensor.numel())] = value
        return tensor

    changed_tensors(path, change)


def fewer_rows(path: Path, rng: Random) -> None:
    """Every tensor without its last row."""
    changed_tensors(path, lambda tensor: tensor[:-1] if tensor.ndim and len(tensor) > 1 else tensor)


def unlikely_fusion(path: Path, rng: Random) -> None:
    """Weights that are no share, deviations that are none."""
    wrong = [{"weight": 2}, {"weight": -3}, {"weight": float("nan")}, {"weight": "half"}, {"weight": None}]
    wrong += [{"deviations": [0, 1]}, {"deviations": [1]}, {"deviations": [1, float("inf")]}, {"deviations": "ab"}]
    wrong += [{"languages": ["zh", "zh"]}, {"languages": ["zh", "../../../ESC"]}, {"lexical": "0" * 16}, {"more": 1}]
    path.write_text(json.dumps(json.loads(path.read_text()) | rng.choice(wrong)))


NUMBERS = (no_number, fewer_rows)
WEIGHTS, JSON = (remove, empty, cut, garble, folder, *NUMBERS), (remove, empty, cut, garble, other_json, no_key, folder)
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
    ((("align", "model"), ("lexicon", "model")), "aligner", name, (far_index,))
    for name in ("model.safetensors", "prior_zh-vi.safetensors")
]
_LINKS = (("explain", "model"), ("nearest", "lexical"), ("quality", "lexical"), ("align", "model"))
TAMPERED += [(_LINKS, "lexical", "model.safetensors", (far_index,))]
_FUSED = (("nearest", "model"), ("mine", "model"), ("evaluate", "model"))
TAMPERED += [
    (_FUSED, "fused", "fusion.json", (empty, cut, garble, other_json, no_key, *[unlikely_fusion] * 6)),
    (_FUSED, "fused", "fusion.safetensors", (empty, cut, garble, far_index, far_index, far_index, *NUMBERS)),
]
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
_LONG = {"fit": "contrastive", "num_train_epochs": 2, "save_strategy": "steps", "save_steps": 1}
_STEPS = {"save_strategy": "steps", "save_steps": 1, "max_steps": 2}
_RESUME = {"resume_from_checkpoint": "out/checkpoint-1"}
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
    ("siamese", _LONG, _RESUME, "out/checkpoint-*/rng_state.pth", (garble, cut, empty), ("checkpoint",)),
    ("siamese", _LONG, _RESUME, "out/checkpoint-*/optimizer.pt", (garble, cut, empty), ("checkpoint",)),
    ("dap", _STEPS, _RESUME, "out/checkpoint-*/rng_state.pth", (garble, cut, empty), ("checkpoint",)),
    ("evaluate", {}, {}, "out/tasks/*.json", (garble, cut, empty, other_json, other_key), ("out/tasks",)),
]
# (programs, options of a first training, those that another one goes on with, words)
RESUMED = [
    (("siamese",), _LONG, {"seed": 7}, ("seed",)),
    (("siamese",), _LONG, {"learning_rate": 0.5}, ("learning_rate",)),
    (("siamese",), _LONG, {"per_device_train_batch_size": 3}, ("batch",)),
    (("siamese",), _LONG, {"train_data": "TEXT/train.tsv@1-90"}, ("training text",)),
    (("siamese",), _LONG, {"base_model": "MODELS/dap"}, ("base_model",)),
    (("siamese",), _LONG, {"pooling": "cls"}, ("pooling",)),
    (("siamese",), _LONG, {"layer": "2"}, ("layer",)),
    (("dap",), _STEPS, {"seed": 7}, ("seed",)),
    (("dap",), _STEPS, {"train_data": "TEXT/train.tsv@1-90"}, ("training text",)),
    (("dap",), _STEPS, {"base_model": "MODELS/dap"}, ("base_model",)),
    (("aligner",), _STEPS, {"seed": 7}, ("seed",)),
    (("aligner",), _STEPS, {"train_data": "TEXT/train.tsv@1-90"}, ("training text|words|vocab",)),
    (("disentangler",), {"num_train_epochs": 2}, {"seed": 7}, ("seed",)),
    (("disentangler",), {"num_train_epochs": 2}, {"train_data": "TEXT/train.tsv@1-90"}, ("training text",)),
]
# (programs, options with a place on a small disk, bytes that are free there at most)
FULL = [
    (("encode",), {"output": "DISK/out.npy"}, 0),
    (("align", "lexicon", "quality", "clean", "mine", "align-documents"), {"output": "DISK/out.tsv"}, 0),
    (("mine", "clean", "align-documents"), {"output": "DISK/out.parquet"}, 0),
    (("evaluate",), {"output": "DISK/out"}, 0),
    (("fit", "bootstrap"), {"output": "DISK/out"}, 30_000),
    (("mine", "clean", "siamese", "disentangler"), {"cache_dir": "DISK/cache"}, 8_000),
    (("siamese", "disentangler", "dap", "aligner", "lexical", "pretrain", "xnli"), {"output_dir": "DISK/out"}, 30_000),
    (("study",), {"results_dir": "DISK/out"}, 0),
]


def fill_disk(disk: Path, free: int) -> None:
    """Empty a small disk but for a file that leaves so many bytes."""
    for path in disk.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    size = shutil.disk_usage(disk).free - free
    (disk / "filler").write_bytes(bytes(size))
