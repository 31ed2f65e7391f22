"""Publish only the low-rank adapter of a fine-tuned encoder: some megabytes, loaded on the encoder it was trained for.

The folder of such an encoder holds all its weights, and the adapter in `adapter/`. Published alone, the adapter lies at
the root, where sentence-transformers and peft look for it, beside tokenizer and pooling. Record and card are those of
the whole model, with other files and other ways of loading.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModel

from hfxling.missing import one_line_where_missing
from hfxling.models.loading import quiet_loading

from .card import moved
from .checks import ADAPTER
from .record import CARD, RECORD, folder_files, record_text
from .snippets import ADAPTER_TITLE, standard_snippets
from .upload import Content, read_content

if TYPE_CHECKING:
    from torch import Tensor

ALONE = "adapter_config.json"  # its place in a repository of the adapter alone
_INSIDE = "adapter/"
_WEIGHTS, _CONFIG = "model.safetensors", "config.json"
_CONFIG_ALONE = "model_config.json"  # with a config.json transformers would look for all weights
_ADAPTER_WEIGHTS = "adapter_model.safetensors"
_NEAR = 2e-3  # tolerance for weights of size 1, as the adapter is kept in half precision


def adapter_alone(files: Mapping[str, Content]) -> dict[str, Content]:
    """The files of a repository with the adapter alone, made from the published files of the whole model."""
    record = json.loads(read_content(files[RECORD]))
    alone, hashes = {}, {}
    for name, content in files.items():
        if name == _WEIGHTS or name.endswith((".py", ".onnx", ".onnx_data")):
            continue
        root_name = _CONFIG_ALONE if name == _CONFIG else name.removeprefix(_INSIDE)
        alone[root_name] = content
        if name in record["files"]:
            hashes[root_name] = record["files"][name]
    card = record["card"]
    languages, examples = card["languages"], card.get("examples")
    stock, *_ = standard_snippets(languages, examples=examples).values()
    loading = {
        "With sentence-transformers and peft, which also fetch the encoder that it belongs to": stock,
        "With peft (token vectors)": card["loading"][ADAPTER_TITLE].replace(', subfolder="adapter"', ""),
    }
    tags = [*card["tags"], "peft", "lora"]
    card_alone = card | {"relation": "adapter", "loading": loading, "clients": {}, "tags": tags}
    record_alone = record | {"card": card_alone, "files": hashes}
    alone[CARD] = moved(read_content(files[CARD]).decode("utf-8"), record, record_alone).encode()
    alone[RECORD] = record_text(record_alone)
    return alone


def adapter_faults(folder: Path) -> list[str]:
    """A line if a folder has no adapter, or if base and adapter do not give the folder's own weights."""
    if not (folder / ADAPTER).is_file():
        return [f"{ADAPTER}: is missing, so there is no adapter; `hfxling fit --choose finetuned` writes one"]
    merged = _merged_weights(folder / _INSIDE)
    for name, weight in load_file(folder / _WEIGHTS).items():
        if name.startswith("pooler."):  # not used by sentence vectors, and random if the base has none
            continue
        gap = (merged[name] - weight.float()).abs().max()
        if gap > _NEAR * max(1.0, weight.abs().max()):
            return [f"{_INSIDE}: with its base it gives another {name} than {_WEIGHTS} holds"]
    return []


def merged_folder(folder: Path, scratch: Path) -> Path:
    """The whole model of a folder with only an adapter, written into an empty folder; other folders as they are."""
    if not (folder / ALONE).is_file():
        return folder
    for name, path in folder_files(folder).items():
        if name not in (ALONE, _ADAPTER_WEIGHTS):
            whole_name = _CONFIG if name == _CONFIG_ALONE else name
            (scratch / whole_name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, scratch / whole_name)
    save_file(_merged_weights(folder), scratch / _WEIGHTS, {"format": "pt"})
    return scratch


def _merged_weights(adapter: Path) -> dict[str, Tensor]:
    """Weights of the base with the adapter merged into them, in float32, by the base's names for them."""
    from peft import PeftModel

    base = json.loads((adapter / ALONE).read_text(encoding="utf-8"))["base_model_name_or_path"]
    with one_line_where_missing(base, "base_model"), quiet_loading():
        encoder = AutoModel.from_pretrained(base, dtype=torch.float32, trust_remote_code=False)
        merged = PeftModel.from_pretrained(encoder, str(adapter)).merge_and_unload()
    return {name: weight.contiguous() for name, weight in merged.state_dict().items()}
