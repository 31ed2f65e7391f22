"""Tasks of mteb through its own API, by a model that is told the language of every text."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

import mteb
import numpy as np
from mteb.models import ModelMeta
from scipy.sparse import issparse

from hfxling.evaluation.results import EvalResult
from hfxling.evaluation.tatoeba import CODES
from hfxling.files import content_hash

from .tasks import Encoder, Rows, Task, one_model


class MtebEncoder:
    """An encoder of ours as mteb's `EncoderProtocol`.

    mteb names the languages of a subset and not of a text: the first texts of a subset are taken for its first
    language, the next for its second; queries and documents likewise.

    Attributes:
        sizes: number of the first texts, by task, split and subset.
    """

    def __init__(self, encoder: Encoder):
        self.encoder, self.calls, self.sizes = encoder, {}, {}
        about = {"name": f"hfxling/{encoder.label.replace('/', '-')}", "revision": encoder.revision or "unknown"}
        self.mteb_model_meta = ModelMeta.create_empty(about)

    def encode(self, inputs, *, task_metadata, hf_split: str, hf_subset: str, prompt_type=None, **kwargs) -> np.ndarray:
        """(N, D) vectors of the texts of a loader."""
        texts = [text for batch in inputs for text in batch["text"]]
        place = task_metadata.name, hf_split, hf_subset
        self.calls[place] = self.calls.get(place, 0) + 1
        self.sizes.setdefault(place, len(texts))
        side = (self.calls[place] - 1) % 2 if prompt_type is None else int(prompt_type.value == "document")
        codes = _languages(task_metadata, hf_subset)
        lang = codes[min(side, len(codes) - 1)]
        lang = lang if lang in self.encoder.routes else CODES.get(lang, lang)
        has_roles = prompt_type is not None or self.encoder.routes or self.encoder.method == "dot"
        vectors = self.encoder.encode(texts, lang, ("query", "document")[side] if has_roles else None)
        return vectors.toarray() if issparse(vectors) else vectors

    def similarity(self, embeddings1, embeddings2) -> np.ndarray:
        """(N, M) cosines, or inner products of sparse vectors."""
        return self._ready(embeddings1) @ self._ready(embeddings2).T

    def similarity_pairwise(self, embeddings1, embeddings2) -> np.ndarray:
        """(N,) the same of pairs."""
        return np.einsum("ij,ij->i", self._ready(embeddings1), self._ready(embeddings2))

    def _ready(self, vectors) -> np.ndarray:
        vectors = np.asarray(vectors, np.float32)
        if self.encoder.method == "dot":
            return vectors
        return vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-12)


def _languages(metadata: Any, subset: str) -> list[str]:
    """ISO 639-3 codes of a subset; of one that is a language's column its own."""
    codes = metadata.hf_subsets_to_langscripts.get(subset) or [subset]
    return [re.split("[-_]", code)[0] for code in codes]


def mteb_tasks(names: Sequence[str], languages: Sequence[str] = ()) -> dict[str, Task]:
    """Tasks for `hfxling evaluate`, called mteb:NAME, of all their languages or of some.

    Raises:
        ValueError: a name that mteb does not know.
    """
    found = {}
    for name in names:
        try:
            task = mteb.get_task(name, languages=list(languages) or None)
        except KeyError as error:
            raise ValueError(f"mteb={name!r} is no task of mteb {mteb.__version__} ({error.args[0]}).") from None
        found[f"mteb:{name}"] = Task(partial(_load, task), one_model(_measure), needs=())
    return found


def _load(task: Any, args: Any, data: Sequence[str]) -> tuple[Any, str]:
    what = mteb.__version__, str(task.metadata.dataset), *map(str, task.hf_subsets)
    return task, content_hash(what)


def _measure(args: Any, task: Any, encoder: Encoder, about: dict) -> Rows:
    name, model, watched = task.metadata.name, MtebEncoder(encoder), sys.stderr.isatty()
    options = {"cache": None, "show_progress_bar": watched, "encode_kwargs": {"batch_size": args.batch_size}}
    try:
        (result,) = mteb.evaluate(model, [task], **options).task_results
    except OSError as error:
        cause = " ".join(str(error).split())
        raise FileNotFoundError(f"mteb={name}: its text cannot be had ({cause}); check the connection.") from None
    metric, rows = task.metadata.main_score, []
    for split, scores in result.scores.items():
        for score in scores:
            subset = score["hf_subset"]
            n = model.sizes.get((name, split, subset)) or max(model.sizes.values())
            about |= {"dataset": name, "split": split, "revision": result.dataset_revision, "direction": subset}
            rows.append(EvalResult(f"mteb {metric}", score["main_score"], n, unit="", **about))
    return rows
