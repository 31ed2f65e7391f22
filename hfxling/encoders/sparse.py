"""Sparse vectors, compared by inner product: of links, and of any SparseEncoder."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_array, vstack

from hfxling.missing import check_model, one_line_where_missing
from hfxling.models.modeling_lexical import LexicalModel

from .dense import LoadedEncoder
from .identity import identity, json_of, read_json
from .protocol import ROLES, Encoder, check_finite

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer, SparseEncoder

logger = logging.getLogger(__name__)
_LEXICAL = LexicalModel.config_class.model_type
_CHUNK = 1024  # texts whose vectors are on the device at once


class LexicalEncoder(Encoder):
    """A lexical model as an `Encoder`: sparse vectors of links (docs/lexical.md).

    Attributes:
        model: the LexicalModel.
    """

    method = "dot"

    def __init__(self, model: str | Path | LexicalModel, revision: str | None = None):
        check_model("lexical", model, LexicalModel)
        is_in_memory = isinstance(model, LexicalModel)
        if is_in_memory:
            name = model.config.name_or_path or "links in memory"
            content = f"in memory, {id(model):x}"
            self.model = model.eval()
            try:
                self.model.check()
            except ValueError as error:
                raise ValueError(f"{name}: {error}; give another model.") from None
        else:
            name = str(model)
            hub_kwargs = {"revision": revision} if revision else {}
            try:
                with one_line_where_missing(name, "lexical", "a lexical model"):
                    self.model = LexicalModel.from_pretrained(name, **hub_kwargs).eval()
            except (ValueError, FileNotFoundError) as error:
                links = links_beside(name)
                if links is None:
                    raise
                raise type(error)(f"{name} holds no word links, but {links} does: give that folder.") from None
            content = identity(name, revision)
        super().__init__(name, content, self.model.config.languages, is_in_memory=is_in_memory)

    def _vectors(self, texts: list[str], route: str | None, role: str | None, progress: bool | None) -> csr_array:
        if role is None:  # the first language is by default that of queries
            role = ROLES[0] if route == self.languages[0] else ROLES[1]
        return self.model.encode(texts, route, role)

    def score(self, source: Sequence[str], target: Sequence[str], languages: tuple[str, str]) -> np.ndarray:
        """(N,) scores of sentence pairs; NaN if a side has no segment that the model knows."""
        self.model.check_pair(languages)
        warnings = logging.getLogger(type(self.model).__module__)
        warnings.disabled = True  # NaN says the same
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


class SparseVectors(LoadedEncoder):
    """Any model that sentence-transformers loads as a SparseEncoder; arguments as for `LoadedEncoder`."""

    method = "dot"
    library_class = "SparseEncoder"

    def __init__(self, model: str | Path | SparseEncoder, revision: str | None = None, **options):
        super().__init__(model, revision, **options)
        self.similarity = self.model.similarity_fn_name
        if self.similarity not in ("dot", "cosine"):
            problem = f"compares by {self.similarity}, but sparse vectors are compared only by dot or cosine"
            raise ValueError(f"{self.label} {problem}; give another model.")
        config = getattr(getattr(self.model[0], "model", None), "config", None)
        self.languages = list(getattr(config, "languages", ()))
        self.routes = self.languages

    def _vectors(self, texts: list[str], route: str | None, role: str | None, progress: bool | None) -> csr_array:
        options = {"task": role or "query", "prompt": self.prompt_of(role or "query")}
        if route is not None:
            options["language"] = route
        parts = []
        for start in range(0, len(texts), _CHUNK):
            chunk = self.model.encode(
                texts[start : start + _CHUNK],
                save_to_cpu=True,
                batch_size=self.batch_size,
                show_progress_bar=bool(progress),
                **options,
            ).coalesce()
            values, coordinates = chunk.values().float().numpy(), chunk.indices().numpy()
            parts.append(csr_array((values, tuple(coordinates)), shape=tuple(chunk.shape)))
        vectors = csr_array(vstack(parts))
        if self.similarity == "cosine":
            norms = np.sqrt(vectors.multiply(vectors).sum(1))
            vectors = csr_array(vectors.multiply(1 / np.maximum(norms, 1e-12)[:, None]))
        return vectors


def links_beside(name: str | Path) -> Path | None:
    """The folder of word links that `hfxling fit` wrote along with another folder; None if there is none."""
    folder = Path(name)
    for links in (folder / "model", folder / "lexical" / "model", folder.parent / "lexical" / "model"):
        if read_json(links / "config.json").get("model_type") == _LEXICAL:
            return links
    return None


def with_links(model: Any, *, is_encoder_kept: bool = False) -> Any:
    """The folder of word links beside a folder of `hfxling fit` that holds none (this is logged); else `model` itself.

    With `is_encoder_kept` a folder that is a model of another kind is returned as it is.
    """
    if not isinstance(model, str | Path):
        return model
    links = links_beside(model)
    kind = read_json(Path(model, "config.json")).get("model_type")
    if links is None or kind == _LEXICAL or (is_encoder_kept and kind):
        return model
    logger.info("%s: its word links are read from %s", model, links)
    return links


def languages_beside(model: Any) -> list[str]:
    """The languages of the word links beside a folder; [] if there are none."""
    links = links_beside(model) if isinstance(model, str | Path) else None
    return [] if links is None else list(read_json(links / "config.json").get("languages") or ())


def is_sparse(model: str | Path | SentenceTransformer | SparseEncoder, revision: str | None = None) -> bool:
    """Whether a model is a SparseEncoder, or was saved as one."""
    if not isinstance(model, str | Path):
        from sentence_transformers import SparseEncoder

        return isinstance(model, SparseEncoder)
    return json_of(str(model), "config_sentence_transformers.json", revision).get("model_type") == "SparseEncoder"
