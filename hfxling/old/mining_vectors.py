"""Vectors of two heaps of text, for the commands that mine: cached ones of a model, links, both, or the user's own."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hfxling.arguments import key
from hfxling.data.features import cached_features, load_vectors
from hfxling.data.texts import Texts
from hfxling.encoders.fused import FusedEncoder
from hfxling.evaluation.results import format_table
from hfxling.sentences.engine import rescored
from hfxling.sentences.neighbours import DTYPES, Neighbours, bytes_of, unit
from hfxling.sentences.terms import CANDIDATES, strongest

from .model import FusedArguments

if TYPE_CHECKING:
    from hfxling.encoders.dense import SentenceEncoder
    from hfxling.encoders.sparse import LexicalEncoder

ROLES = ("query", "document")
_CHUNK = 2_000  # texts whose links are held at once
_MANY = 4e9  # sentence pairs from which on links alone score candidates only
_PLAN = 10  # seconds from which on a plan is measured long enough


@dataclass(kw_only=True)
class MiningArguments(FusedArguments):
    """Text, and what makes vectors of it."""

    source: str = key("text: FILE (.gz or not), TABLE#COLUMN or a Hub id", positional=True)
    target: str = key("the same of the other language", positional=True)
    source_lang: str = key("language code of the source side")
    target_lang: str = key("language code of the target side")
    source_vectors: str | None = key("vectors of the source's lines (.npy, .parquet, .jsonl) in place of a model", None)
    target_vectors: str | None = key("vectors of the target's lines", None)
    candidates: int | None = key(
        "with --lexical: score only so many neighbours by static vectors (and by --model) of each sentence; 0: all; by "
        "default 32 from 4 billion sentence pairs on",
        None,
    )
    dtype: str = key(f"{' or '.join(DTYPES)}, of dense products; the same pairs", "float32")
    memory: str = key("that the search may use beside the vectors", "4GiB")
    shard: int = key("sentences of a side that are searched at once; then a stopped run goes on", 100_000)
    cache_dir: str = key("where vectors are kept", "outputs/features", writes="folder")

    def __post_init__(self):
        given = [bool(self.source_vectors), bool(self.target_vectors)]
        if any(given):
            if not all(given) or self.model or self.lexical:
                raise ValueError("--source_vectors and --target_vectors go together, without --model and --lexical.")
        else:
            super().__post_init__()
        if self.candidates is not None and (self.candidates < 0 or not self.lexical):
            raise ValueError(f"candidates={self.candidates}: give 0 or more, and --lexical, which it is for.")
        if self.dtype not in DTYPES:
            raise ValueError(f"dtype={self.dtype!r} is not one of {', '.join(DTYPES)}.")
        if self.shard < 1 or self.batch_size < 1:
            raise ValueError(f"shard={self.shard}, batch_size={self.batch_size}: give 1 or more.")


class Haystack:
    """Both sides' texts with their vectors.

    Args:
        args: what makes vectors.
        sides: the texts.
        scorer: of `args`, where it is loaded.
        remote: gives for what makes an encoding function one that has it called elsewhere, as
            `hfxling.sentences.ray.Encoder` does.
        terms: weights of a sparse vector by which candidates are looked for; None: all, and these decide.
    """

    def __init__(
        self,
        args: MiningArguments,
        sides: Sequence[Texts],
        scorer=None,
        *,
        remote: Callable | None = None,
        terms: int | None = None,
    ):
        self.args, self.sides, self.remote, self.terms = args, list(sides), remote, terms
        self._all: list[list] = []  # parts with all their weights
        self._memory: dict = {}  # of `_dense`
        self.languages = (args.source_lang, args.target_lang)
        self.scorer = scorer or (None if args.source_vectors else args.scorer())
        for language in self.languages if self.scorer else ():
            self.scorer.route(language) if not isinstance(self.scorer, FusedEncoder) else self.scorer.role(language)
        count = len(self.sides[0].texts) * len(self.sides[1].texts)
        self.candidates = 0
        if args.lexical and not terms:
            self.candidates = (CANDIDATES if count > _MANY else 0) if args.candidates is None else args.candidates

    @property
    def margin(self) -> str:
        """What suits the scores."""
        return "distance" if self.args.lexical else "ratio"

    @property
    def about(self) -> dict:
        """What vectors and scores hang on, beside the texts."""
        args = self.args
        if self.scorer is None:
            stats = [Path(path).stat() for path in (args.source_vectors, args.target_vectors)]
            return {"vectors": [[stat.st_size, stat.st_mtime_ns] for stat in stats]}
        names = {"languages": list(self.languages), "prompt": args.prompt, "candidates": self.candidates}
        names |= {"terms": self.terms}
        return names | {"model": self.scorer.label, "revision": self.scorer.revision}

    def vectors(self) -> list[list]:
        """Parts of both sides' vectors, of the first that proposes candidates where there are some."""
        self.check_disk()
        if self.scorer is None:
            paths = (self.args.source_vectors, self.args.target_vectors)
            return [[load_vectors(path, rows=len(side.texts))] for path, side in zip(paths, self.sides)]
        if self.candidates:
            return [[self._dense("static", number)] for number in (0, 1)]
        if not self.args.lexical:
            return [[self._dense("model", number)] for number in (0, 1)]
        parts = [self._all_parts(number) for number in (0, 1)]
        if not self.terms:
            return parts
        self._all = parts
        return [*strongest(*parts, self.terms)]

    def rescored(
        self, found: tuple[Neighbours, Neighbours], k: int, search: Callable | None = None
    ) -> tuple[Neighbours, Neighbours]:
        """What was found, or the best of these candidates and of the dense model's by the score that counts.

        Args:
            found: by the vectors of `self.vectors`.
            k: neighbours.
            search: finds the dense model's, as `both_ways` of lists of parts; by default that.
        """
        if self.terms:
            return rescored([found], *self.readers(self._all), k)
        if not self.candidates:
            return found
        every = [found]
        if self.args.model:
            from hfxling.sentences.shards import of_tile

            dense = [[self._dense("model", number)] for number in (0, 1)]
            settings = {"memory": self.args.memory, "device": self.args.device, "dtype": self.args.dtype}
            every.append((search or of_tile)(*dense, self.kept(k), settings))
        return rescored(every, *self.readers([]), k)

    def readers(self, vectors: list[list]) -> list[Callable[[np.ndarray], list]]:
        """Of each side what reads the vectors of some texts that score pairs; `vectors` as `self.vectors` gave them."""
        if self.candidates:
            return [partial(self._parts, number) for number in (0, 1)]
        if self.args.lexical:
            return [lambda rows, parts=parts: [x[rows] for x in parts] for parts in vectors]
        return [lambda rows, parts=parts: [unit(parts[0][rows])] for parts in vectors]

    def kept(self, k: int) -> int:
        """Neighbours to look for."""
        return min(max(k, CANDIDATES if self.terms else self.candidates), *(len(side.texts) for side in self.sides))

    @cached_property
    def _static(self):
        return _load(self.args, "static")

    def _dense(self, kind: str, number: int) -> np.ndarray:
        """(N, D) vectors of a side, memory-mapped, by static vectors or the model."""
        if (found := self._memory.get((kind, number))) is not None:
            return found
        encoder = self._static if kind == "static" else getattr(self.scorer, "dense", self.scorer)
        texts, language, role = self.sides[number].texts, self.languages[number], ROLES[number]
        settings = (language, role, encoder is not self.scorer)
        encode = partial(_encode, encoder, *settings)
        if self.remote:
            encode = self.remote(partial(_loaded, self.args, kind, *settings), self.args.device)
        about = {"model": encoder.label, "revision": encoder.revision, "route": encoder.route(language, role)}
        about |= {"prompt": encoder.prompt, "blank": encoder is not self.scorer}
        width = encoder.model.get_embedding_dimension()
        description = f"encode {language}"
        options = {"shape": (width,), "cache_dir": self.args.cache_dir, "description": description}
        self._memory[kind, number] = cached_features(texts, encode, key=about, **options)
        return self._memory[kind, number]

    def _all_parts(self, number: int) -> list:
        """Of all of a side's texts what `_parts` gives of some."""
        texts, encode = self.sides[number].texts, None
        if self.remote:
            make = partial(_loaded, self.args, "lexical", self.languages[number], ROLES[number], False)
            if isinstance(self.scorer, FusedEncoder):
                self._dense("model", number)  # before: two at once would wait for each other's workers
            encode = self.remote(make, "cpu")
            encode.expect([texts[start : start + _CHUNK] for start in range(0, len(texts), _CHUNK)])
        return self._parts(number, np.arange(len(texts)), encode)

    def _parts(self, number: int, rows: np.ndarray, encode: Callable | None = None) -> list:
        """Sparse vectors of some of a side's texts, or dense and sparse ones whose inner products add up."""
        from scipy.sparse import csr_array, vstack

        settings = (self.languages[number], ROLES[number])
        is_fused = isinstance(self.scorer, FusedEncoder)
        encode = encode or partial(_encode, self.scorer.lexical if is_fused else self.scorer, *settings, False)
        found: list[list] = []
        for start in range(0, len(rows), _CHUNK):
            few = rows[start : start + _CHUNK]
            sparse = encode([self.sides[number].texts[row] for row in few])
            if is_fused:
                found.append(self.scorer.fusion.parts(self._dense("model", number)[few], sparse, *settings))
            else:
                found.append([sparse])
        *dense, sparse = zip(*found)
        return [*map(np.concatenate, dense), csr_array(vstack(sparse, format="csr"))]

    def _fresh(self, number: int) -> list:
        """Vectors of a side, made without the cache."""
        side = self.sides[number]
        if self.scorer is None:
            return [load_vectors((self.args.source_vectors, self.args.target_vectors)[number])[: len(side.texts)]]
        language, role = self.languages[number], ROLES[number]
        if isinstance(self.scorer, FusedEncoder) and not self.candidates:
            dense = self.scorer.dense.encode(side.texts, language, role, progress=False)
            return list(self.scorer.parts(dense, side.texts, language, role))
        encoder = self._static if self.candidates else self.scorer
        return [encoder.encode(side.texts, language, role, progress=False)]

    def check_disk(self) -> int:
        """Bytes that vectors and shards take.

        Raises:
            ValueError: the disk has less.
        """
        rows = sum(len(side.texts) for side in self.sides)
        encoders = [] if self.scorer is None else [getattr(self.scorer, "dense", self.scorer)]
        encoders += [self._static] if self.candidates else []
        widths = [e.model.get_embedding_dimension() for e in encoders if hasattr(e.model, "get_embedding_dimension")]
        need = rows * (4 * sum(widths) + 32 * self.kept(self.args.k))
        folder = next(path for path in Path(self.args.cache_dir).absolute().parents if path.exists())
        if (free := shutil.disk_usage(folder).free) < need:
            told = f"vectors and shards take {need / 2**20:,.1f} MiB, {self.args.cache_dir} has {free / 2**20:,.1f} MiB"
            raise ValueError(f"{told}; make room on the disk, or give another --cache_dir or less text.")
        return need


def _load(args: MiningArguments, kind: str) -> SentenceEncoder | LexicalEncoder:
    """The model, the lexical encoder or its static vectors."""
    from hfxling.encoders.dense import SentenceEncoder
    from hfxling.encoders.sparse import LexicalEncoder

    if kind == "static":
        return SentenceEncoder(args.lexical, device=args.device, batch_size=args.batch_size)
    return LexicalEncoder(args.lexical) if kind == "lexical" else args.encoder()


def _loaded(args: MiningArguments, kind: str, *settings) -> Callable:
    """What encodes in a process that has not loaded anything yet."""
    return partial(_encode, _load(args, kind), *settings)


def _encode(encoder, language: str, role: str, blank: bool, batch: list[str]):
    """Vectors of texts; a text of which a static encoder knows nothing gets a blank one."""
    vectors = encoder.encode(batch, language, role, progress=False)
    if blank:
        vectors[~vectors.any(axis=1)] = 1
    return vectors


def plan(args: MiningArguments, haystack: Haystack) -> str:
    """What it will take, from growing samples measured here and now."""
    from hfxling.sentences.blocks import both_ways

    sides, size, seconds = haystack.sides, 256, (0.0, 0.0)
    while True:
        few = [Texts(side.name, side.lines[:size], side.texts[:size]) for side in sides]
        sample = Haystack(args, few, haystack.scorer)
        sample.candidates = haystack.candidates
        start = time.perf_counter()
        vectors = [sample._fresh(number) for number in (0, 1)]
        vectors = strongest(*vectors, haystack.terms) if haystack.terms else vectors
        encoded = time.perf_counter()
        k = min(haystack.kept(args.k), *(len(side.texts) for side in few))
        ready = [parts[0] if len(parts) == 1 else parts for parts in vectors]
        both_ways(*ready, k, memory=args.memory, device=args.device, dtype=args.dtype)
        seconds = encoded - start, time.perf_counter() - encoded
        if sum(seconds) > _PLAN or size >= max(len(side.texts) for side in sides):
            break
        size *= 2
    counts, measured = [len(side.texts) for side in sides], [len(side.texts) for side in few]
    hours = [seconds[0] * sum(counts) / sum(measured) / 3600]
    hours.append(seconds[1] * counts[0] * counts[1] / (measured[0] * measured[1]) / 3600)
    rows = [
        ("sentences", f"{counts[0]} and {counts[1]}"),
        ("disk", f"{haystack.check_disk() / 2**30:.2f} GiB ({args.cache_dir}, and shards beside the output)"),
        ("memory", f"{bytes_of(args.memory) / 2**30:.2f} GiB beside text and vectors"),
        ("encoding", f"{hours[0]:.2f} hours"),
        ("search", f"{hours[1]:.2f} hours"),
        ("measured on", f"{measured[0]} and {measured[1]} sentences in {sum(seconds):.0f} seconds"),
    ]
    return format_table(["what", "how much"], rows)
