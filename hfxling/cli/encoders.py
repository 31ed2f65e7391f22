"""What embeds sentences in the place of `hfxling.encoding.SentenceEncoder`: any model, or files of vectors."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array, vstack
from transformers.utils import cached_file

from hfxling.data.features import load_vectors
from hfxling.encoding import FrozenEncoder, SentenceEncoder, WordStates, model_name, one_line_where_missing
from hfxling.files import content_hash

PROMPT_NAMES = {"query": ("query",), "document": ("document", "passage", "corpus")}  # as sentence-transformers has them
_WEIGHTS = (".safetensors", ".bin", ".pt")


def is_sparse(name: str, revision: str | None = None) -> bool:
    """Whether a folder or Hub model was saved as a SparseEncoder."""
    try:
        path = cached_file(name, "config_sentence_transformers.json", revision=revision)
        return json.loads(Path(path).read_text(encoding="utf-8")).get("model_type") == "SparseEncoder"
    except (OSError, ValueError):  # no such file, or no such model, which whoever loads it says better
        return False


def fingerprint(name: str, revision: str | None = None) -> str | None:
    """What changes whenever a model does: a hash of all files of a folder, a Hub model's commit; None if unknown."""
    folder = Path(name)
    if not folder.is_dir():
        if folder.is_file():
            return _hash_of([folder])
        from huggingface_hub import try_to_load_from_cache

        with suppress(ValueError):  # no name that the Hub could have
            for file in ("config.json", "modules.json"):
                found = try_to_load_from_cache(name, file, revision=revision)
                if isinstance(found, str):
                    return Path(found).parent.name
        return None
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    if not any(path.suffix in _WEIGHTS for path in files):  # the folder of a second door: the weights lie above
        files += sorted(path for path in folder.resolve().parent.glob("*") if path.is_file())
    return _hash_of(files)


def _hash_of(files: Sequence[Path]) -> str:
    digest = hashlib.sha256()
    for path in files:
        with open(path, "rb") as content:
            digest.update(path.name.encode() + hashlib.file_digest(content, "sha256").digest())
    return digest.hexdigest()[:16]


class Prompts:
    """Which prompt a text gets: the one given for all, that for its role, the model's own for its role.

    Texts without a role, where both sides are alike, get that of queries, as the authors of E5 ask for.
    """

    def __init__(self, every: str | None = None, query: str | None = None, document: str | None = None):
        self.every, self.given = every, {"query": query, "document": document}

    def of(self, stored: dict[str, str], role: str | None, default_name: str | None = None) -> str | None:
        """The prompt; None leaves the choice to the model. `stored` are the model's prompts by name."""
        given = self.every if self.every is not None else self.given[role or "query"]
        if given is not None or (role is None and default_name):
            return given
        own = next((stored[name] for name in PROMPT_NAMES[role or "query"] if stored.get(name)), None)
        return "" if own is None and default_name else own  # no role takes the default, as in encode_query


@dataclass(frozen=True)
class Loading:
    """How models are loaded and asked."""

    prompts: Prompts
    device: str | None = None
    batch_size: int = 32
    trust_remote_code: bool = False


class DenseEncoder(SentenceEncoder):
    """A SentenceTransformer whose texts get the prompt of their role."""

    def __init__(self, name: str, revision: str | None, how: Loading):
        super().__init__(name, revision, how.device, None, how.batch_size, how.trust_remote_code)
        self.prompts = how.prompts

    def encode(
        self, texts: Sequence[str], lang: str | None = None, task: str | None = None, *, progress: bool | None = None
    ) -> np.ndarray:
        """(N, D) float32 sentence vectors, as `SentenceEncoder.encode`."""
        self.prompt = self.prompts.of(self.model.prompts, task, self.model.default_prompt_name)
        return super().encode(texts, lang, task, progress=progress)


class SparseVectors:
    """Any model that sentence-transformers loads as a SparseEncoder: sparse vectors, compared by inner product.

    Attributes as those of `SentenceEncoder`.

    Raises:
        FileNotFoundError: no such folder or Hub model.
        ValueError: a model that compares its vectors in another way than by cosine or inner product.
    """

    method = "dot"

    def __init__(self, name: str, revision: str | None, how: Loading):
        from sentence_transformers import SparseEncoder

        if how.batch_size < 1:
            raise ValueError(f"batch_size={how.batch_size}: give 1 or more.")
        self.name, self.label, self.batch_size, self.prompts = name, _label(name), how.batch_size, how.prompts
        settings = {"revision": revision, "device": how.device, "trust_remote_code": how.trust_remote_code}
        with one_line_where_missing(name, "model", "a model"):
            self.model = SparseEncoder(name, **settings)
        self.revision = fingerprint(name, revision)
        self.similarity = self.model.similarity_fn_name
        if self.similarity not in ("dot", "cosine"):
            raise ValueError(f"{self.label} compares by {self.similarity}; sparse vectors by dot or cosine alone.")
        inner = getattr(getattr(self.model[0], "model", None), "config", None)
        self.languages = self.routes = list(getattr(inner, "languages", ()))

    def encode(
        self, texts: Sequence[str], lang: str | None = None, task: str | None = None, *, progress: bool | None = None
    ) -> csr_array:
        """(N, D) sparse float32 vectors; `task` is "query" or "document"."""
        role = task or "query"
        options = {"task": role, "prompt": self.prompts.of(self.model.prompts, role)}
        if self.languages:
            if lang not in self.languages:
                raise ValueError(f"{self.label} has parts for {', '.join(self.languages)} and none for {lang}.")
            options["language"] = lang
        options |= {"batch_size": self.batch_size, "show_progress_bar": progress or False}
        parts = []
        for start in range(0, len(texts), 1024):
            found = self.model.encode(list(texts[start : start + 1024]), save_to_cpu=True, **options).coalesce()
            values, places = found.values().float().numpy(), found.indices().numpy()
            parts.append(csr_array((values, tuple(places)), shape=tuple(found.shape)))
        vectors = csr_array(vstack(parts))
        if self.similarity == "cosine":
            norms = np.sqrt(vectors.multiply(vectors).sum(1))
            vectors = csr_array(vectors.multiply(1 / np.maximum(norms, 1e-12)[:, None]))
        return vectors


class LayerEncoder:
    """A plain encoder of transformers, its token vectors pooled in a stated way; attributes as `SentenceEncoder`'s."""

    method, languages, routes = "cosine", (), ()

    def __init__(self, name: str, revision: str | None, how: Loading, layer: int | None, pooling: str):
        hub_kwargs = {"revision": revision} if revision else None
        self.encoder = FrozenEncoder(name, [(layer, pooling)], device=how.device, hub_kwargs=hub_kwargs)
        self.name, self.label, self.prompts = name, model_name(name), how.prompts
        self.revision = fingerprint(name, revision)

    def encode(
        self, texts: Sequence[str], lang: str | None = None, task: str | None = None, *, progress: bool | None = None
    ) -> np.ndarray:
        """(N, H) float32 vectors; a prompt is put before the text."""
        prompt = self.prompts.of({}, task) or ""
        return self.encoder([prompt + text for text in texts])[:, 0]

    def word_states(self, sentences: Sequence[Sequence[str]], layer: int | None = None) -> list[np.ndarray]:
        """One (words, H) array a sentence given as words, see `WordStates`."""
        return WordStates(self.encoder.model, self.encoder.tokenizer, layer=layer)(sentences)


class FileVectors:
    """Vectors that the user has: the first file of a side for the first text that is asked for, and so on.

    Attributes as `SentenceEncoder`'s. Raises what `load_vectors` does.
    """

    method, languages, routes, label = "cosine", (), ("query", "document"), "vectors"

    def __init__(self, source: Sequence[str], target: Sequence[str]):
        self.files = {"query": list(source), "document": list(target)}
        for path in (*source, *target):
            if not Path(path).is_file():
                raise FileNotFoundError(f"{path}: no such file of vectors; give .npy, .parquet or .jsonl.")
        self.loaded: dict[str, dict[str, np.ndarray]] = {"query": {}, "document": {}}

    @cached_property
    def revision(self) -> str:
        """Hash of the files."""
        return _hash_of([Path(path) for paths in self.files.values() for path in paths])

    def encode(
        self, texts: Sequence[str], lang: str | None = None, task: str | None = None, *, progress: bool | None = None
    ) -> np.ndarray:
        """(N, D) float32 vectors of the next file of the side that `task` says, one a text."""
        key, files, loaded = content_hash(texts), self.files[task], self.loaded[task]
        if key not in loaded:
            if len(loaded) == len(files):
                raise ValueError(
                    f"{len(files)} file(s) of vectors a side for {len(files) + 1} texts; give one for each."
                )
            loaded[key] = load_vectors(files[len(loaded)], rows=len(texts))
        return loaded[key]


def _label(name: str) -> str:
    """A folder's name, with the one above it for the second door of a model."""
    folder = Path(name)
    is_door = folder.is_dir() and not any(path.suffix in _WEIGHTS for path in folder.rglob("*"))
    return "/".join(folder.resolve().parts[-2:]) if is_door else model_name(name)
