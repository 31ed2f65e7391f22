"""Vectors of two texts that are searched for pairs: from a model, from word links, from both, or from files."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array, vstack

from hfxling.data.features import cached_features
from hfxling.data.filters import word_counts
from hfxling.data.texts import Texts, picked, spread_rows
from hfxling.files import content_hash
from hfxling.sentences.engine import CANDIDATES, rescored, rows_of, strongest
from hfxling.sentences.neighbours import Neighbours, blank_rows, slices, unit
from hfxling.sentences.shards import of_tile

from .dense import SentenceEncoder
from .fused import FusedEncoder
from .protocol import ROLES, Encoder
from .sparse import LexicalEncoder, SparseVectors
from .stored import StoredVectors

MANY = 4e9  # from so many sentence pairs on, word links score only candidates
_CHUNK = 2_000  # texts whose links are held at once
_LOOKED_AT = 200  # texts that show whether static vectors know the language
_BLANK_LENGTH = 1e-15  # of the vector of a text in which static vectors know no word; a model's are all longer
_LEAST_BLANK = 10  # texts without a vector; with fewer, their share says nothing


class Haystack:
    """The texts of both sides with their vectors.

    Args:
        sides: texts of source and target.
        encoder: encoder of the texts.
        languages: codes of source and target.
        candidates: number of neighbours of each sentence (by static vectors and by the dense model) that word links
            score; 0 for all sentences; by default 32 from 4 billion sentence pairs on. Only for word links.
        terms: number of weights of a sparse vector to search candidates by; None: all weights, and no candidates.
        cache_dir: folder where dense vectors are kept. Those of a model in memory are not kept, as they could not be
            told from another model's later.
        memory: memory that the search for the dense model's candidates may use.
        dtype: type of its dense products.
        device: device of these products and of static vectors; by default a GPU if there is one.
        batch_size: number of texts encoded at once with static vectors.
        loaders: functions that load "model" and "lexical" on a Ray cluster, to encode there; None to encode here.
    """

    def __init__(
        self,
        sides: Sequence[Texts],
        encoder: Encoder,
        languages: Sequence[str],
        *,
        candidates: int | None = None,
        terms: int | None = None,
        cache_dir: str | Path = "outputs/features",
        memory: int | str = "4GiB",
        dtype: str = "float32",
        device: str | None = None,
        batch_size: int = 32,
        loaders: Mapping[str, Callable[[], Encoder]] | None = None,
    ):
        self.sides = list(sides)
        self.encoder = encoder
        self.languages = tuple(languages)
        self.terms = terms
        self.cache_dir = cache_dir
        self.search_options = {"memory": memory, "device": device, "dtype": dtype}
        self.device = device
        self.batch_size = batch_size
        self.loaders = loaders
        for language, role in zip(self.languages, ROLES):
            encoder.route(language, role)

        is_fused = isinstance(encoder, FusedEncoder)
        self.fusion = encoder.fusion if is_fused else None
        self.dense: Encoder | None = encoder.dense if is_fused else encoder
        self.lexical: LexicalEncoder | None = encoder.lexical if is_fused else None
        self.sparse: Encoder | None = self.lexical
        if isinstance(encoder, LexicalEncoder | SparseVectors):
            self.dense, self.sparse = None, encoder
            self.lexical = encoder if isinstance(encoder, LexicalEncoder) else None

        if self.lexical is not None:
            self.lexical.model.check_pair(self.languages)
        if terms and self.sparse is None:
            raise ValueError(f"terms={terms}: {encoder.label} has no sparse vectors; give --lexical.")
        pairs = len(self.sides[0].texts) * len(self.sides[1].texts)
        self.candidates = 0
        if self.lexical and not terms:
            by_default = CANDIDATES if pairs > MANY else 0
            self.candidates = by_default if candidates is None else candidates
        if self.candidates and self.lexical.is_in_memory:
            raise ValueError(
                "candidates are found with static vectors; save the lexical model with hfxling.save_lexical, and give "
                "its folder."
            )
        if self.candidates:
            folder = Path(self.lexical.name)
            if folder.is_dir() and not (folder / "modules.json").is_file():
                raise ValueError(
                    f"candidates are found with static vectors, and {folder} has none for sentence-transformers; "
                    "write the lexical model with hfxling.save_lexical, or give candidates 0."
                )
        self._memory: dict[tuple[str, int], np.ndarray] = {}
        self._whole: list[list] = []  # sparse vectors with all their weights

    @property
    def margin(self) -> str:
        """The kind of margin that suits the scores."""
        return "ratio" if self.sparse is None else "distance"

    @property
    def about(self) -> dict[str, Any]:
        """What vectors and scores depend on, besides the texts."""
        if isinstance(self.encoder, StoredVectors):
            return {"vectors": self.encoder.revision}
        return {
            "languages": list(self.languages),
            "prompt": None if self.dense is None else self.dense.prompt,
            "candidates": self.candidates,
            "terms": self.terms,
            "model": self.encoder.label,
            "revision": self.encoder.revision,
        }

    def vectors(self) -> list[list]:
        """Parts of both sides' vectors; with candidates, the vectors that propose the first of them."""
        if isinstance(self.encoder, StoredVectors):
            vectors = []
            for side, role in zip(self.sides, ROLES):
                vectors.append([self.encoder.encode(side.texts, None, role)])
            return vectors
        if self.candidates or self.sparse is None:
            return self._dense_parts("static" if self.candidates else "model")
        whole = [self._all_parts(0), self._all_parts(1)]
        if not self.terms:
            return whole
        self._whole = whole
        return list(strongest(*whole, self.terms))

    def further_vectors(self) -> list[list] | None:
        """As `vectors`, for the dense model if it proposes further candidates; None if it does not."""
        if not self.candidates or self.dense is None:
            return None
        return self._dense_parts("model")

    def _dense_parts(self, kind: str) -> list[list]:
        return [[self._dense(kind, 0)], [self._dense(kind, 1)]]

    def rescored(
        self, found: tuple[Neighbours, Neighbours], k: int, search: Callable | None = None
    ) -> tuple[Neighbours, Neighbours]:
        """What was found; with candidates, the best of these and of the dense model's by the final score.

        Args:
            found: neighbours found by the vectors of `self.vectors`.
            k: number of neighbours.
            search: function that finds the dense model's candidates; by default `hfxling.sentences.shards.of_tile`.
        """
        if self.terms:
            return rescored([found], *self.readers(self._whole), k)
        if not self.candidates:
            return found
        proposed = [found]
        further = self.further_vectors()
        if further is not None:
            proposed.append((search or of_tile)(*further, self.kept(k), self.search_options))
        return rescored(proposed, *self.readers([]), k)

    def without_vector(self) -> list[np.ndarray]:
        """(N,) and (M,) masks of the texts of both sides in which static vectors know no word: they are in no pair."""
        masks = []
        for side, texts in enumerate(self.sides):
            mask = np.zeros(len(texts.texts), bool)
            if self.dense is self.encoder and _is_static(self.dense):
                vectors = self._dense("model", side)
                for part in slices(len(mask), _CHUNK):
                    mask[part] = np.linalg.norm(vectors[part].astype(np.float64), axis=1) < 2 * _BLANK_LENGTH
            masks.append(mask)
        return masks

    def lengths(self) -> list[np.ndarray]:
        """(N,) and (M,) numbers of words in the sentences of both sides."""
        return [word_counts(side.texts, language) for side, language in zip(self.sides, self.languages)]

    def readers(self, vectors: list[list]) -> list[Callable[[np.ndarray], list]]:
        """For each side a function that reads the scoring vectors of some texts; `vectors` come from `self.vectors`."""
        if self.candidates:
            return [partial(self._parts, 0), partial(self._parts, 1)]
        read = _unit_rows_of if self.sparse is None else rows_of
        return [partial(read, vectors[0]), partial(read, vectors[1])]

    def kept(self, k: int) -> int:
        """Number of neighbours to search for."""
        wanted = max(k, CANDIDATES if self.terms else self.candidates)
        return min(wanted, len(self.sides[0].texts), len(self.sides[1].texts))

    def first(self, size: int, cache_dir: str | Path) -> Haystack:
        """The first texts of both sides, compared in the same way, with a cache of their own."""
        part = copy(self)
        part.sides = [Texts(side.name, side.lines[:size], side.texts[:size]) for side in self.sides]
        part.cache_dir = cache_dir
        part._memory = {}
        return part

    def check_disk(self, k: int) -> int:
        """Number of bytes that vectors and shards take; refuse more than the disk has."""
        width = 0
        if self.dense is not None and not isinstance(self.dense, StoredVectors) and not self.dense.is_in_memory:
            width += self.dense.dimension
        if self.candidates:
            width += self._static.dimension
        rows = sum(len(side.texts) for side in self.sides)
        need = rows * (4 * width + 32 * self.kept(k))
        folder = Path(self.cache_dir).absolute()
        while not folder.exists():
            folder = folder.parent
        free = shutil.disk_usage(folder).free
        if free < need:
            raise ValueError(
                f"vectors and shards take {need / 2**20:,.1f} MiB, but {self.cache_dir} has only "
                f"{free / 2**20:,.1f} MiB; make room on the disk, or give another --cache_dir or less text."
            )
        return need

    @cached_property
    def _static(self) -> SentenceEncoder:
        return self._load_static()

    @property
    def _load_static(self) -> Callable[[], SentenceEncoder]:
        name = self.lexical.name
        revision = None if Path(name).exists() else self.lexical.revision
        return partial(SentenceEncoder, name, revision, device=self.device, batch_size=self.batch_size)

    def _dense(self, kind: str, side: int) -> np.ndarray:
        """(N, D) memory-mapped vectors of a side, from static vectors or the model."""
        if (kind, side) in self._memory:
            return self._memory[kind, side]
        encoder = self._static if kind == "static" else self.dense
        language, role = self.languages[side], ROLES[side]
        texts = self.sides[side].texts
        if encoder is self.encoder:  # without word links
            _check_known(encoder, texts, language, role)
        encode = partial(_encoded, encoder, language, role)
        if self.loaders is not None:
            load = self._load_static if kind == "static" else self.loaders["model"]
            encode = self._elsewhere(load, self.device, language, role)
        if encoder.is_in_memory:
            vectors = encode(texts)
        else:
            about = {
                "model": encoder.label,
                "revision": encoder.revision,
                "route": encoder.route(language, role),
                "prompt": encoder.prompt,
                "blank": "by text, short",
            }
            vectors = cached_features(
                texts,
                encode,
                key=about,
                shape=(encoder.dimension,),
                cache_dir=self.cache_dir,
                description=f"encode {language}",
            )
        self._memory[kind, side] = vectors
        return vectors

    def _all_parts(self, side: int) -> list:
        """`_parts` for all of a side's texts."""
        texts = self.sides[side].texts
        encode = None
        if self.loaders is not None:
            if self.fusion is not None:
                self._dense("model", side)  # before: two at once would wait for each other's workers
            load = self.loaders["model" if self.lexical is None else "lexical"]
            encode = self._elsewhere(load, "cpu", self.languages[side], ROLES[side])
            encode.expect([texts[part] for part in slices(len(texts), _CHUNK)])
        return self._parts(side, np.arange(len(texts)), encode)

    def _parts(self, side: int, rows: np.ndarray, encode: Callable | None = None) -> list:
        """Sparse vectors of some of a side's texts, or dense and sparse ones whose inner products are added."""
        language, role = self.languages[side], ROLES[side]
        texts = self.sides[side].texts
        if encode is None:
            encode = partial(_encoded, self.sparse, language, role)
        dense_blocks, sparse_blocks = [], []
        for part in slices(len(rows), _CHUNK):
            few = rows[part]
            sparse = encode([texts[row] for row in few])
            if self.fusion is not None:
                dense, sparse = self.fusion.parts(self._dense("model", side)[few], sparse, language, role)
                dense_blocks.append(dense)
            sparse_blocks.append(sparse)
        parts = [csr_array(vstack(sparse_blocks, format="csr"))]
        return [np.concatenate(dense_blocks), *parts] if dense_blocks else parts

    def _elsewhere(self, load: Callable[[], Encoder], device: str | None, *settings) -> Callable:
        """A function that encodes on the cluster."""
        from hfxling.sentences.ray import Encoder as RemoteEncoder

        return RemoteEncoder(partial(_loaded, load, *settings), device)


def _unit_rows_of(parts: list, rows: np.ndarray) -> list:
    return [unit(parts[0][rows])]


def _loaded(load: Callable[[], Encoder], *settings) -> Callable:
    """A function that encodes, for a process that has not loaded the encoder yet."""
    return partial(_encoded, load(), *settings)


def _is_static(encoder: Encoder) -> bool:
    """Whether a text may have no vector, which never happens with a neural network."""
    return isinstance(encoder, SentenceEncoder) and not hasattr(encoder.model[0], "auto_model")


def _check_known(encoder: Encoder, texts: list[str], language: str, role: str) -> None:
    """Refuse static vectors that know hardly a sentence of the language, judged on a sample of the text."""
    if not _is_static(encoder):
        return
    (few,) = picked(spread_rows(len(texts), _LOOKED_AT), texts)
    vectors = encoder.encode(few, language, role, progress=False)
    blank = int(blank_rows(vectors).sum())
    if blank >= _LEAST_BLANK and 2 * blank > len(few):
        raise ValueError(
            f"{blank} of {len(few)} sentences have no vector: {encoder.label} does not know the language ({language}); "
            "give another model."
        )


def _encoded(encoder: Encoder, language: str, role: str, texts: list[str]):
    """Vectors of texts; a text in which a static encoder knows no word gets a random direction instead of zeros.

    So it is near to others only by chance, and no hub. Its tiny length distinguishes it from others.
    """
    vectors = encoder.encode(texts, language, role, progress=False)
    if isinstance(vectors, np.ndarray):
        for row in np.flatnonzero(blank_rows(vectors)):
            seed = int(content_hash([role, texts[row]]), 16)
            direction = np.random.default_rng(seed).normal(size=vectors.shape[1])
            vectors[row] = direction * (_BLANK_LENGTH / np.linalg.norm(direction))
    return vectors
