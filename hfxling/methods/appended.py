"""A head appended to a loaded sentence-transformers model, whatever modules that has."""

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
    """Refuse a model that already treats some texts differently from others."""
    if any(isinstance(module, stock.Router) for module in base):
        raise ValueError("the model has routes: it treats its texts differently already; give one without a Router.")


def append_head(
    base: SentenceTransformer,
    head: torch.nn.Module,
    languages: Sequence[str],
    prompt: str | None,
    card: SentenceTransformerModelCardData | None = None,
) -> SentenceTransformer:
    """The model's modules followed, as in a published folder, by the head's; all texts get the same prompt.

    Args:
        base: the model that the head was fitted on; it is not changed.
        head: the head, of a method on frozen vectors.
        languages: codes after which routes are named; without any they are named after queries and documents.
        prompt: text put before every sentence, if any.
        card: the data from which `save_pretrained` writes a card.

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
    """The modules that follow encoder and pooling in a published folder, which `stock_files` alone describes."""
    contents, tensors = stock_files(steps, size, "mean")
    with TemporaryDirectory(prefix="hfxling-") as folder:
        write_files(Path(folder), contents, tensors)
        entries = [(entry["type"].rpartition(".")[2], entry["path"]) for entry in contents["modules.json"][2:]]
        return [getattr(stock, kind).load(folder, subfolder=path) for kind, path in entries]
