"""A head behind a loaded model of sentence-transformers, whatever modules that one has."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import modules as stock
from sentence_transformers.sentence_transformer.model_card import SentenceTransformerModelCardData

from hfxling.hub.folder import check_finite
from hfxling.models.stock import ROUTES, stock_files, write_files


def check_has_no_routes(base: SentenceTransformer) -> None:
    """Refuse a model that treats its texts differently already."""
    if any(isinstance(module, stock.Router) for module in base):
        raise ValueError("the model has routes: it treats its texts differently already; give one without a Router.")


def append_head(
    base: SentenceTransformer,
    head: torch.nn.Module,
    languages: Sequence[str],
    prompt: str | None,
    card: SentenceTransformerModelCardData | None = None,
) -> SentenceTransformer:
    """The model's modules and, as in a published folder, the head's; one prompt for every text.

    Args:
        base: what the head was fitted on, which stays as it is.
        head: of one of the methods on frozen vectors.
        languages: codes that routes are named after; without any they are called after queries and documents.
        prompt: put before every text, if any.
        card: what `save_pretrained` writes a card from.

    Raises:
        ValueError: weights that are not finite.
    """
    check_finite(head.state_dict().items())
    steps = head.stock_steps()
    if not languages:
        for index, step in enumerate(steps):
            if step[0] == "Router":
                routes = step[1].values()
                steps[index] = "Router", dict(zip(ROUTES, routes))
    modules = OrderedDict(base.named_children())
    for module in _stock_modules(steps, head.config.hidden_size):
        modules[str(len(modules))] = module
    prompts = {"prompts": dict.fromkeys((*ROUTES, "text"), prompt), "default_prompt_name": "text"} if prompt else {}
    settings = {"device": str(base.device), "similarity_fn_name": "cosine"} | prompts
    model = SentenceTransformer(modules=modules, model_card_data=card, **settings)
    model.module_kwargs = base.module_kwargs
    return model


def _stock_modules(steps: list[tuple], size: int) -> list[torch.nn.Module]:
    """What follows encoder and pooling in a published folder: `stock_files` is the one description of it."""
    contents, tensors = stock_files(steps, size, "mean")
    with TemporaryDirectory(prefix="hfxling-") as folder:
        write_files(Path(folder), contents, tensors)
        entries = [(entry["type"].rpartition(".")[2], entry["path"]) for entry in contents["modules.json"][2:]]
        return [getattr(stock, kind).load(folder, subfolder=path) for kind, path in entries]
