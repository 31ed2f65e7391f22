"""A trained model as a folder that loads anywhere."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


def export(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase | None,
    folder: str | Path,
    *,
    max_length: int | None = None,
) -> None:
    """Write model and tokenizer so that sentence-transformers, transformers and hfxling all load them.

    Args:
        model: one of the package's models; its `save_pretrained` writes the stock modules and copies its code.
        tokenizer: of its encoder; None for a head that works on vectors alone.
        folder: an existing folder or one to be made. To replace a folder in one step, write to a scratch path
            (`hfxling.files.atomic_path`).
        max_length: tokens kept of a text at inference; by default as `hfxling.encoding.token_limit` says.

    Raises:
        ValueError: for weights that are not finite, or a `max_length` without room for a token.
    """
    from hfxling.encoding import token_limit

    check_finite(model.state_dict().items())
    limit = token_limit(tokenizer, model.encoder.config, max_length) if tokenizer else None
    folder = Path(folder)
    model.save_pretrained(folder)
    if tokenizer is None:
        return
    tokenizer = copy.deepcopy(tokenizer)
    if tokenizer.is_fast:  # truncation and padding of the last call would be stored as if they were the model's
        tokenizer.backend_tokenizer.no_truncation()
        tokenizer.backend_tokenizer.no_padding()
    tokenizer.model_max_length = limit
    for leftover in ("max_length", "stride", "truncation_strategy"):
        tokenizer.init_kwargs.pop(leftover, None)
    tokenizer.save_pretrained(folder)
    widen_tokenizer_config(folder / "tokenizer_config.json")
    _write_json(folder / "sentence_bert_config.json", {"max_seq_length": limit, "do_lower_case": False})


def check_finite(tensors: Iterable[tuple[str, Tensor]]) -> None:
    """Refuse weights that are not finite: a model that holds one gives no vectors.

    Args:
        tensors: by name.

    Raises:
        ValueError: naming the first such tensor.
    """
    for name, tensor in tensors:
        if tensor.is_floating_point() and not tensor.isfinite().all():
            raise ValueError(
                f"{name} holds values that are not finite: the training diverged; give a lower learning rate."
            )


def stored_tensors(folder: Path) -> Iterator[tuple[str, Tensor]]:
    """Every tensor of the safetensors files in a folder, by file and name."""
    from safetensors import safe_open

    for path in sorted(folder.rglob("*.safetensors")):
        with safe_open(path, framework="pt") as file:
            for name in file.keys():  # noqa: SIM118 - it is no dictionary
                yield f"{path.relative_to(folder)}: {name}", file.get_tensor(name)


def widen_tokenizer_config(path: Path) -> None:
    """Rewrite a tokenizer_config.json of transformers 5 so that 4 reads it too; 5 knows the older names."""
    config = json.loads(path.read_text(encoding="utf-8"))
    for leftover in ("backend", "is_local", "local_files_only"):
        config.pop(leftover, None)
    if config["tokenizer_class"] == "TokenizersBackend":
        config["tokenizer_class"] = "PreTrainedTokenizerFast"
        config.setdefault("model_input_names", ["input_ids", "attention_mask"])  # 4 has token_type_ids by default
    if isinstance(config.get("extra_special_tokens"), list):
        config["additional_special_tokens"] = config.pop("extra_special_tokens")
    _write_json(path, config)


def _write_json(path: Path, value: object) -> None:
    text = json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False)  # as transformers does
    path.write_text(text + "\n", encoding="utf-8")
