"""What `evaluate` can measure: one class per task, from text and an encoder to rows.

A task's fields are the options of `hfxling.evaluation.evaluate.evaluate` that change its figures, under the same names.
To add a task, add a class to `TASKS`.
"""

# ruff: noqa: D102 - Task documents the methods

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from hfxling.data.codes import TWO_LETTERS
from hfxling.data.documents import join_paragraphs
from hfxling.data.pairs import IN_MEMORY, is_source, joined_source, read_pairs
from hfxling.data.parallel import sides_of
from hfxling.data.pharaoh import read_aligned, texts_of
from hfxling.data.scored import ScoredPairs, read_qe, read_sts17
from hfxling.data.sources import SAMPLE, Source, load_pairs
from hfxling.data.warn import distinct_tests, warn_of_blanks
from hfxling.evaluation.averages import mean_result
from hfxling.evaluation.geometry import geometry_results
from hfxling.evaluation.mining import SPLITS, mining_results, read_bucc
from hfxling.evaluation.plots import can_draw, scatter_tokens
from hfxling.evaluation.probes import probe_result
from hfxling.evaluation.results import EvalResult
from hfxling.evaluation.retrieval import gold_ranks, hits_at, rank_translations, retrieval_results
from hfxling.evaluation.similarity import correlation_results, cosines
from hfxling.evaluation.spoilt import Spoiler
from hfxling.evaluation.tatoeba import ENGLISH, load_tatoeba, rank_tatoeba, tatoeba_results
from hfxling.evaluation.tokens import sample_pairs, token_results, token_scores
from hfxling.files import content_hash
from hfxling.sentences.neighbours import blank_rows

if TYPE_CHECKING:
    from datasets import Dataset

    from hfxling.encoders.protocol import Encoder, Vectors
    from hfxling.verbs import Languages, Text

Rows = list[EvalResult]
_DRAWN = 500  # vectors per language in a picture


@dataclass(frozen=True)
class TaskText:
    """The text of a task, before it is read."""

    data: tuple[str, ...] = ()  # sources, folders or files, as the task reads them
    source: tuple[str, ...] = ()  # or texts in memory
    target: tuple[str, ...] = ()  # and their translations

    @classmethod
    def of_sides(cls, source: Text, target: Text | None, languages: Languages | None = None) -> TaskText:
        """The text of two sides, or of one source that holds both, whose columns may be named after the languages."""
        if is_source(source) and (target is None or is_source(target)):
            return cls(data=(joined_source(source, target),))
        pairs = read_pairs(source, target, languages or ("src", "tgt"))
        return cls(source=tuple(pairs.source), target=tuple(pairs.target))

    def __bool__(self) -> bool:
        return bool(self.data or self.source)

    def name(self) -> str:
        """Its name in results; "" if there is no text."""
        if self.source:
            return IN_MEMORY
        names = []
        for text in self.data:
            source = Source.parse(text)
            path = Path(source.data)
            name = path.resolve().name if path.exists() else source.name
            if name not in names:
                names.append(name)
        return "+".join(names)

    def lines(self) -> str:
        """The lines that are read; "" for all."""
        parsed = [Source.parse(text) for text in self.data]
        return ", ".join(f"lines {source.lines}" for source in parsed if source.lines)

    def has_splits(self, languages: Languages) -> bool:
        """Whether it has splits, as data of the Hub and the sample do; files, folders and texts in memory have none."""
        if self.source:
            return False
        sources = [Source.parse(text) for text in self.data if not Path(text).is_dir()]
        return not self.data or any(not source.files(languages) for source in sources)

    def pairs(self, languages: Languages, split: str) -> Dataset:
        """Line-aligned sentences with the columns source, target, source_lang and target_lang."""
        if not self.source:
            return load_pairs(self.data, languages, split=split)
        from datasets import Dataset

        columns = {"source": list(self.source), "target": list(self.target)}
        columns["source_lang"] = [languages[0]] * len(self.source)
        columns["target_lang"] = [languages[1]] * len(self.source)
        return Dataset.from_dict(columns)


@dataclass(frozen=True)
class Task(ABC):
    """One way to measure a model.

    Attributes:
        pictures: folder for pictures; None for none.
        needs: options that it requires.
        reads_pairs: whether its text may be given as source and target.
        needs_dense: whether it needs dense vectors.
        vector_files: number of files of vectors per side that can replace the model; 0: it needs a model.
    """

    pictures: Path | None
    needs: ClassVar[tuple[str, ...]] = ("languages", "data")
    reads_pairs: ClassVar[bool] = False
    needs_dense: ClassVar[bool] = False
    vector_files: ClassVar[int] = 0

    def settings(self) -> dict:
        """What changes the figures, besides model and text."""
        settings = asdict(self)
        del settings["pictures"]
        return settings

    @abstractmethod
    def read(self, text: TaskText) -> tuple[Any, str]:
        """The text and its hash. It is read before any model is loaded, so that bad text is found early."""

    @abstractmethod
    def measure(self, text: Any, encoder: Encoder, row: dict) -> Rows:
        """The rows of a model; `row` has the fields of `EvalResult` that all tasks fill alike."""

    def picture(self, name: str, label: str) -> Path | None:
        """The file for a picture of a model; None for no picture, as without matplotlib."""
        if self.pictures is None or not can_draw():
            return None
        return self.pictures / f"{name}-{label.replace('/', '-')}.png"


def encode_sides(
    encoder: Encoder, source: Sequence[str], target: Sequence[str], languages: Sequence[str]
) -> tuple[Vectors, Vectors]:
    """Vectors of queries, and of the documents that are searched."""
    vectors = encode_warned(encoder, source, languages[0], "query")
    return vectors, encode_warned(encoder, target, languages[1], "document")


def encode_warned(encoder: Encoder, texts: Sequence[str], language: str | None = None, role: str = "query") -> Vectors:
    """Vectors of texts, with a warning about rows of zeros, which match nothing."""
    vectors = encoder.encode(texts, language, role)
    if encoder.method == "cosine":
        warn_of_blanks(blank_rows(vectors), texts)
    return vectors


def encode_alike(
    encoder: Encoder, source: Sequence[str], target: Sequence[str], languages: Sequence[str]
) -> tuple[Vectors, Vectors]:
    """Vectors of two sides of which none is searched: all are queries, unless the encoder has parts by role."""
    role = "document" if has_parts(encoder) else "query"
    return encode_warned(encoder, source, languages[0], "query"), encode_warned(encoder, target, languages[1], role)


def encode_known(
    encoder: Encoder, source: Sequence[str], target: Sequence[str], languages: Sequence[str]
) -> tuple[np.ndarray, np.ndarray]:
    """The same for the pairs of which both texts have a vector."""
    vectors = encode_alike(encoder, source, target, languages)
    is_known = ~(blank_rows(vectors[0]) | blank_rows(vectors[1]))
    if not is_known.any():
        raise ValueError(f"{encoder.label} knows words of both sides in none of the pairs; give other text or model.")
    return vectors[0][is_known], vectors[1][is_known]


def has_parts(encoder: Encoder) -> bool:
    """Whether an encoder treats languages or roles differently."""
    return bool(encoder.routes) or encoder.method == "dot"


def methods_for(encoder: Encoder, methods: Sequence[str]) -> list[str]:
    """The given similarities; sparse vectors have only one."""
    return list(methods) if encoder.method == "cosine" else [encoder.method]


@dataclass(frozen=True)
class Tatoeba(Task):
    """Languages against English, with the averages over 14, 28 and 36."""

    only_languages: Sequence[str]
    split: str
    methods: Sequence[str]
    needs = ()

    def read(self, text: TaskText) -> tuple[dict[str, Dataset], str]:
        # Without data the function's default is read.
        sets = load_tatoeba(*text.data[:1], languages=self.only_languages or None, split=self.split)
        columns = []
        for pairs in sets.values():
            columns += sides_of(pairs)
        return sets, content_hash(*columns)

    def measure(self, text: dict[str, Dataset], encoder: Encoder, row: dict) -> Rows:
        del row["revision"]  # every language has its own
        if has_parts(encoder):
            rankings = {}
            for lang, pairs in text.items():
                languages = [code_for(encoder, lang), code_for(encoder, ENGLISH)]
                vectors = encode_sides(encoder, *sides_of(pairs), languages)
                methods = methods_for(encoder, self.methods)
                rankings[lang] = rank_translations(
                    *vectors, source_lang=lang, target_lang=ENGLISH, methods=methods, csls_k=min(10, len(pairs))
                )
        else:
            rankings = rank_tatoeba(text, partial(encode_warned, encoder), methods=self.methods)
        return tatoeba_results(text, rankings, **row)


def code_for(encoder: Encoder, code: str) -> str:
    """The encoder's code for a language that is given by its ISO 639-3 code."""
    return code if code in encoder.routes else TWO_LETTERS.get(code, code)


@dataclass(frozen=True)
class PairTask(Task):
    """A task on line-aligned sentences."""

    languages: Languages
    split: str
    reads_pairs = True

    def read(self, text: TaskText) -> tuple[Dataset, str]:
        pairs = text.pairs(self.languages, self.split)
        return pairs, content_hash(*sides_of(pairs))


@dataclass(frozen=True)
class Retrieval(PairTask):
    """Each text's own translation among all translations."""

    methods: Sequence[str]
    centering: str
    vector_files = 1

    def measure(self, text: Dataset, encoder: Encoder, row: dict) -> Rows:
        source, target = encode_sides(encoder, *sides_of(text), self.languages)
        rows = distinct_tests(*sides_of(text))
        return retrieval_results(
            source[rows],
            target[rows],
            source_lang=self.languages[0],
            target_lang=self.languages[1],
            methods=methods_for(encoder, self.methods),
            centering=self.centering,
            csls_k=min(10, len(rows)),
            **row,
        )


@dataclass(frozen=True)
class Documents(Retrieval):
    """The same for paragraphs that are joined from consecutive lines."""

    def read(self, text: TaskText) -> tuple[Dataset, str]:
        paragraphs = join_paragraphs(text.pairs(self.languages, self.split))
        return paragraphs, content_hash(*sides_of(paragraphs))


@dataclass(frozen=True)
class Mining(Task):
    """Pairs hidden in two texts."""

    languages: Languages
    neighbours: int
    vector_files = 2

    def read(self, text: TaskText) -> tuple[tuple, str]:
        bitexts = tuple(read_bucc(text.data[0], self.languages, split) for split in SPLITS)
        return bitexts, content_hash(bitext.revision for bitext in bitexts)

    def measure(self, text: tuple, encoder: Encoder, row: dict) -> Rows:
        vectors = []
        for bitext in text:
            vectors.append(encode_sides(encoder, bitext.source, bitext.target, self.languages))
        row["direction"] = "->".join(self.languages)
        row["settings"] = row["settings"] | {"k": self.neighbours}
        return mining_results(text, tuple(vectors), k=self.neighbours, method=encoder.method, **row)


@dataclass(frozen=True)
class HardMining(PairTask):
    """Translations among all targets and copies of these with another number."""

    def measure(self, text: Dataset, encoder: Encoder, row: dict) -> Rows:
        source_texts, target = sides_of(text)
        spoiler = Spoiler(target, self.languages[1])
        copies = [spoiler.number(sentence) for sentence in target]
        with_number = np.array([copy is not None for copy in copies])
        if not with_number.any():
            raise ValueError(f"task mining-hard: none of the {len(target)} target texts has a number; give other text.")
        pool = target + [copy for copy in copies if copy is not None]
        source, everything = encode_sides(encoder, source_texts, pool, self.languages)
        among_copies, _ = gold_ranks(source, everything, method=encoder.method)
        without_copies, _ = gold_ranks(source, everything[: len(target)], method=encoder.method)
        row["direction"] = "->".join(self.languages)
        row["settings"] = row["settings"] | {"method": encoder.method, "copies": int(with_number.sum())}
        return [
            mean_result("P@1 among copies", hits_at(among_copies, 1), **row),
            mean_result("P@1 among copies, with numbers", hits_at(among_copies, 1)[with_number], **row),
            mean_result("P@1, with numbers", hits_at(without_copies, 1)[with_number], **row),
        ]


@dataclass(frozen=True)
class Similarity(Task):
    """Correlation of cosines, or of sparse inner products, with human scores: STS17."""

    needs = ("data",)

    def read(self, text: TaskText) -> tuple[list[ScoredPairs], str]:
        return _with_hash(read_sts17(text.data[0]))

    def measure(self, text: list[ScoredPairs], encoder: Encoder, row: dict) -> Rows:
        scores = []
        for pairs in text:
            languages = pairs.direction.replace("->", "-").split("-")[:2]
            source, target = encode_alike(encoder, pairs.source, pairs.target, languages)
            scores.append(source.multiply(target).sum(1) if encoder.method == "dot" else cosines(source, target))
        for name in ("dataset", "split", "revision"):  # each set has its own
            del row[name]
        return correlation_results(text, scores, **row)


def _with_hash(sets: list[ScoredPairs]) -> tuple[list[ScoredPairs], str]:
    return sets, content_hash(pairs.result_fields()["revision"] for pairs in sets)


@dataclass(frozen=True)
class QualityEstimation(Similarity):
    """The same with people's scores of translations: MLQE-PE."""

    qe_split: str

    def read(self, text: TaskText) -> tuple[list[ScoredPairs], str]:
        return _with_hash(read_qe(text.data[0], split=self.qe_split))


@dataclass(frozen=True)
class Geometry(PairTask):
    """How near translations lie, and how evenly all vectors are spread."""

    needs_dense = True
    vector_files = 1

    def measure(self, text: Dataset, encoder: Encoder, row: dict) -> Rows:
        source, target = encode_known(encoder, *sides_of(text), self.languages)
        path = self.picture("geometry", encoder.label)
        if path is not None:
            scatter_tokens(path, {encoder.label: ([source[:_DRAWN]], [target[:_DRAWN]])}, self.languages)
        return geometry_results([(source, target)], direction="-".join(self.languages), **row)


@dataclass(frozen=True)
class Probe(Geometry):
    """How well a linear classifier tells the language of held-out vectors."""

    def measure(self, text: Dataset, encoder: Encoder, row: dict) -> Rows:
        vectors = encode_known(encoder, *sides_of(text), self.languages)
        count = len(vectors[0])
        names = np.repeat(self.languages, count)
        groups = np.tile(np.arange(count), 2)  # a sentence and its translation are held out together
        return [probe_result(np.concatenate(vectors), names, groups, direction="-".join(self.languages), **row)]


@dataclass(frozen=True)
class Tokens(Task):
    """Cosine of gold-linked words against unlinked ones, with a picture."""

    languages: Languages
    split: str
    layer: int | None
    needs_dense = True

    def read(self, text: TaskText) -> tuple[list, str]:
        is_sample = text.data == (SAMPLE,)
        pairs = sample_pairs(*self.languages, self.split) if is_sample else read_aligned(text.data[0])
        source, target = texts_of(pairs)
        links = [repr((sorted(pair.sure), sorted(pair.possible))) for pair in pairs]
        return pairs, content_hash(source, target, links)

    def measure(self, text: list, encoder: Encoder, row: dict) -> Rows:
        drawn: dict[str, tuple] = {}

        def word_states(sentences):
            states = encoder.word_states(sentences, self.layer)
            drawn[encoder.label] = states[: len(text)], states[len(text) :]
            return states

        scores = token_scores(text, word_states)
        rows = token_results(scores, direction="->".join(self.languages), **row)
        path = self.picture("tokens", encoder.label)
        if path is not None:
            scatter_tokens(path, drawn, self.languages)
        return rows


TASKS: dict[str, type[Task]] = {
    "tatoeba": Tatoeba,
    "retrieval": Retrieval,
    "documents": Documents,
    "mining": Mining,
    "mining-hard": HardMining,
    "sts17": Similarity,
    "qe": QualityEstimation,
    "geometry": Geometry,
    "probe": Probe,
    "tokens": Tokens,
}
