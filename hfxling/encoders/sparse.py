"""Sparse vectors, compared by inner product: of links, and of any SparseEncoder."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array, vstack
from transformers.utils import cached_file

from hfxling.missing import one_line_where_missing
from hfxling.models.modeling_lexical import LexicalModel

from .identity import identity, model_name
from .prompts import prompt_for
from .protocol import ROLES, check_finite

_CHUNK = 1024  # texts whose vectors are on the device at once


class LexicalEncoder:
    """A lexical encoder as an `Encoder`: sparse vectors of links (docs/lexical.md).

    Args:
        model: folder, Hub id, or a loaded model.
        revision: branch, tag or commit on the Hub.

    Attributes:
        model: the LexicalModel.

    Raises:
        FileNotFoundError: no such folder or Hub model.
        ValueError: another kind of model, or a damaged one.
    """

    method = "dot"
    prompt = None

    def __init__(self, model: str | Path | LexicalModel, revision: str | None = None):
        if isinstance(model, LexicalModel):
            self.name = model.config.name_or_path or "links in memory"
            self.model = model.eval()
            self.revision = f"in memory, {id(model):x}"
        else:
            self.name = str(model)
            hub_kwargs = {"revision": revision} if revision else {}
            with one_line_where_missing(self.name, "lexical", "a lexical encoder"):
                self.model = LexicalModel.from_pretrained(self.name, **hub_kwargs).eval()
            self.revision = identity(self.name, revision)
        self.label = model_name(self.name)
        self.languages = list(self.model.config.languages)

    @property
    def routes(self) -> list[str]:
        """The languages: each has a part of its own."""
        return self.languages

    def route(self, language: str | None, role: str | None = None) -> str:
        """The language of a text: the one that is given, or else the first for queries and the second for documents."""
        if language is None and role in ROLES:
            return self.languages[ROLES.index(role)]
        self.model.check_language(language)
        return language

    def encode(
        self,
        texts: Sequence[str],
        language: str | None = None,
        role: str | None = None,
        *,
        progress: bool | None = None,
    ) -> csr_array:
        """(N, D) sparse float32 vectors, as `Encoder.encode`; by default the first language is that of queries."""
        language = self.route(language, role)
        if role is None:
            role = ROLES[0] if language == self.languages[0] else ROLES[1]
        return self.model.encode(texts, language, role)

    def score(self, source: Sequence[str], target: Sequence[str], languages: tuple[str, str]) -> np.ndarray:
        """(N,) scores of sentence pairs; NaN where a side has no segment that the model knows.

        Raises:
            ValueError: languages that are not the model's, or damaged weights, which make vectors with NaN.
        """
        self.model.check_pair(languages)
        warnings = logging.getLogger(type(self.model).__module__)
        warnings.disabled = True  # there is NaN in their place
        try:
            queries = self.model.encode(source, languages[0], "query")
            documents = self.model.encode(target, languages[1], "document")
        finally:
            warnings.disabled = False
        for vectors in (queries, documents):
            check_finite(vectors, self.name)
        scores = queries.multiply(documents).sum(1)
        for vectors in (queries, documents):
            terms = vectors[:, : -self.model.config.extra_dims]
            is_unknown = np.diff(terms.indptr) == 0
            scores[is_unknown] = np.nan
        return scores


class SparseVectors:
    """Any model that sentence-transformers loads as a SparseEncoder, as an `Encoder`.

    Args:
        model: folder or Hub id.
        revision: branch, tag or commit on the Hub.
        device: by default a GPU when there is one.
        prompt: put before every text; by default the model's own.
        query_prompt: put before queries in its place.
        document_prompt: put before documents in its place.
        batch_size: texts encoded at once.
        trust_remote_code: run the modules that the model brings with it.

    Raises:
        FileNotFoundError: no such folder or Hub model.
        ValueError: a model that compares its vectors in another way than by cosine or inner product.
    """

    method = "dot"

    def __init__(
        self,
        model: str | Path,
        revision: str | None = None,
        *,
        device: str | None = None,
        prompt: str | None = None,
        query_prompt: str | None = None,
        document_prompt: str | None = None,
        batch_size: int = 32,
        trust_remote_code: bool = False,
    ):
        from sentence_transformers import SparseEncoder

        if batch_size < 1:
            raise ValueError(f"batch_size={batch_size}: give 1 or more.")
        self.name = str(model)
        self.label = model_name(self.name)
        self.batch_size = batch_size
        with one_line_where_missing(self.name, "model", "a model"):
            self.model = SparseEncoder(self.name, revision=revision, device=device, trust_remote_code=trust_remote_code)
        self.revision = identity(self.name, revision)
        self.similarity = self.model.similarity_fn_name
        if self.similarity not in ("dot", "cosine"):
            raise ValueError(f"{self.label} compares by {self.similarity}; sparse vectors by dot or cosine alone.")
        self.prompt = prompt_for(self.name, self.model.prompts, self.model.default_prompt_name, prompt)
        self._prompt_of_role = {"query": query_prompt, "document": document_prompt}
        inner = getattr(getattr(self.model[0], "model", None), "config", None)
        self.languages = list(getattr(inner, "languages", ()))

    @property
    def routes(self) -> list[str]:
        """The languages that it has parts for."""
        return self.languages

    def route(self, language: str | None, role: str | None = None) -> str | None:
        """The language, where the model has parts for its languages."""
        if self.languages and language not in self.languages:
            raise ValueError(f"{self.label} has parts for {', '.join(self.languages)} and none for {language}.")
        return language if self.languages else None

    def encode(
        self,
        texts: Sequence[str],
        language: str | None = None,
        role: str | None = None,
        *,
        progress: bool | None = None,
    ) -> csr_array:
        """(N, D) sparse float32 vectors, as `Encoder.encode`."""
        role = role or "query"
        prompt = self._prompt_of_role[role]
        options = {"task": role, "prompt": self.prompt if prompt is None else prompt}
        if self.route(language, role):
            options["language"] = language
        parts = []
        for start in range(0, len(texts), _CHUNK):
            chunk = self.model.encode(
                list(texts[start : start + _CHUNK]),
                save_to_cpu=True,
                batch_size=self.batch_size,
                show_progress_bar=bool(progress),
                **options,
            ).coalesce()
            values, places = chunk.values().float().numpy(), chunk.indices().numpy()
            parts.append(csr_array((values, tuple(places)), shape=tuple(chunk.shape)))
        vectors = csr_array(vstack(parts))
        if self.similarity == "cosine":
            norms = np.sqrt(vectors.multiply(vectors).sum(1))
            vectors = csr_array(vectors.multiply(1 / np.maximum(norms, 1e-12)[:, None]))
        return vectors


def is_sparse(model: str | Path, revision: str | None = None) -> bool:
    """Whether a folder or Hub model was saved as a SparseEncoder."""
    try:
        path = cached_file(str(model), "config_sentence_transformers.json", revision=revision)
        return json.loads(Path(path).read_text(encoding="utf-8")).get("model_type") == "SparseEncoder"
    except (OSError, ValueError):  # no such file, or no such model, which whoever loads it says better
        return False
