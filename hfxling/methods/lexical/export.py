"""A lexical model as a folder: static vectors for plain sentence-transformers, sparse ones with trust_remote_code."""

from __future__ import annotations

import shutil
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.numpy import load_file

from hfxling import models
from hfxling.hub.writing import export, write_static
from hfxling.models.modeling_lexical import LexicalModel
from hfxling.models.stock import SENTENCE_TRANSFORMER, write_json

SPARSE = "sparse"  # folder, and branch on the Hub, of the sparse encoder
_MODULE = Path(models.__file__).with_name("lexical_sparse.py")  # copied, not imported: it loads sentence-transformers


def export_lexical(model: LexicalModel, folder: str | Path) -> None:
    """Write the folder.

    The root has the model for `AutoModel`, with an ordinary tokenizer for each language in `tokenizer_LANG`, and stock
    sentence-transformers modules: one table of static vectors if languages need not be named, otherwise one for each
    language. The folder `sparse` loads with `SparseEncoder` and `trust_remote_code=True`.
    """
    if model.static is None:
        raise ValueError("this model was loaded without its static vectors; copy the folder that it came from.")
    folder = Path(folder)
    export(model, None, folder)
    tables = {lang: torch.from_numpy(table) for lang, table in model.static.items()}
    write_static(tables, {lang: tokenizers[0] for lang, tokenizers in model.tokenizers.items()}, folder)
    sparse = folder / SPARSE
    sparse.mkdir(exist_ok=True)  # no weights go there, as it reads those in the folder above
    shutil.copy(_MODULE, sparse)
    write_json(sparse / "modules.json", [{"idx": 0, "name": "0", "path": "", "type": f"{_MODULE.stem}.LexicalSparse"}])
    settings = SENTENCE_TRANSFORMER | {"model_type": "SparseEncoder", "similarity_fn_name": "dot"}
    write_json(sparse / "config_sentence_transformers.json", settings)


def load_lexical(folder: str | Path) -> LexicalModel:
    """A model with the static vectors that are saved beside it, which `from_pretrained` leaves out."""
    model, folder = LexicalModel.from_pretrained(folder).eval(), Path(folder)
    tables = {}  # by folder: languages may share one
    model.static = {}
    for lang in model.config.languages:
        module = folder / f"{lang}_0_StaticEmbedding"
        if not module.is_dir():
            module = folder / "0_StaticEmbedding"
        if module not in tables:
            try:
                tables[module] = load_file(module / "model.safetensors")["embedding.weight"]
            except (OSError, SafetensorError) as error:
                raise ValueError(f"{folder}: its static vectors cannot be read ({error}); publish it again.") from None
        model.static[lang] = tables[module]
    return model
