"""A trained model as a folder that loads anywhere."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from pathlib import Path

from tokenizers import Tokenizer
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from hfxling.encoders.frozen import is_read_as_seen, token_limit
from hfxling.models.stock import (
    SENTENCE_TRANSFORMER,
    StockModel,
    module_type,
    router_config,
    write_files,
    write_json,
)

from .folder import check_finite


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
        tokenizer: tokenizer of its encoder; None for a head that works on vectors.
        folder: an existing folder, or one to create. To replace a folder in one step, write to a scratch path
            (`hfxling.files.atomic_path`).
        max_length: number of tokens kept of a text at inference; by default as in
            `hfxling.encoders.frozen.token_limit`.

    Raises:
        ValueError: for weights that are not finite, or a `max_length` without room for a token.
    """
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
    is_changed = tokenizer.is_fast and is_read_as_seen(tokenizer.backend_tokenizer)
    widen_tokenizer_config(folder / "tokenizer_config.json", is_changed=is_changed)
    write_json(folder / "sentence_bert_config.json", {"do_lower_case": False, "max_seq_length": limit})


def write_branch(model: StockModel, folder: Path, name: str) -> None:
    """Write the files in which a branch of the repository differs from the whole model: another head on its encoder.

    They lie in a subfolder of that name; when pushed, they replace the root's files on the branch (`publish`). There
    `SentenceTransformer(repo, revision=name)` and servers find an ordinary model.
    """
    branch = folder / name
    branch.mkdir()
    write_files(branch, *model._stock_files())
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    config[model.stock_key] = model.config.stored_fields()
    write_json(branch / "config.json", config, sort_keys=True)  # as transformers does


def widen_tokenizer_config(path: Path, *, is_changed: bool = False) -> None:
    """Rewrite a tokenizer_config.json of transformers 5 so that 4 reads it, too; 5 knows the older names.

    If a tokenizer differs from others of its class, 5 would read only its vocabulary; it gets the class that reads all
    of its tokenizer.json.
    """
    config = json.loads(path.read_text(encoding="utf-8"))
    for leftover in ("backend", "is_local", "local_files_only"):
        config.pop(leftover, None)
    if is_changed or config["tokenizer_class"] == "TokenizersBackend":
        config["tokenizer_class"] = "PreTrainedTokenizerFast"
        config.setdefault("model_input_names", ["input_ids", "attention_mask"])  # 4 has token_type_ids by default
    if isinstance(config.get("extra_special_tokens"), list):
        config["additional_special_tokens"] = config.pop("extra_special_tokens")
    write_json(path, config, sort_keys=True)  # as transformers does


def write_static(tables: Mapping[str, Tensor], tokenizers: Mapping[str, Tokenizer], folder: Path) -> None:
    """Write static word vectors as stock modules of sentence-transformers: a text's vector is the normalised mean.

    Languages that share a tokenizer share a table and need not be named. Otherwise every language has a route, with no
    default: `encode_query` takes the first language, `encode_document` the second, `task=` any.

    Args:
        tables: (V, D) vectors by language, row = id; zero for unknown words.
        tokenizers: tokenizers by language, without special tokens at either end.
        folder: an existing folder.
    """
    distinct = {tokenizer.to_str() for tokenizer in tokenizers.values()}
    is_shared = len(distinct) == 1 and len(tables) > 1
    if is_shared:
        paths = {"StaticEmbedding": "0_StaticEmbedding"}
        places = dict.fromkeys(tables, paths["StaticEmbedding"])
    else:
        paths = {"Router": ""}
        places = {lang: f"{lang}_0_StaticEmbedding" for lang in tables}
    paths["Normalize"] = "1_Normalize"
    modules = []
    for i, (kind, path) in enumerate(paths.items()):
        modules.append({"idx": i, "name": str(i), "path": path, "type": module_type(kind)})
    settings = {
        "modules.json": modules,
        "config_sentence_transformers.json": SENTENCE_TRANSFORMER,
        "1_Normalize/config.json": {},
    }
    if not is_shared:
        settings["router_config.json"] = router_config({lang: [place] for lang, place in places.items()})
    weights = {f"{place}/model.safetensors": {"embedding.weight": tables[lang]} for lang, place in places.items()}
    write_files(folder, settings, weights)
    for lang, place in places.items():
        tokenizers[lang].save(str(folder / place / "tokenizer.json"))
