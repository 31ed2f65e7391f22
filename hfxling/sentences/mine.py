"""Mine sentence pairs that translate each other from two texts."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy.sparse import issparse

from hfxling.data.faults import FLAGS
from hfxling.data.filters import check_top, top_count
from hfxling.data.pairs import read_heaps
from hfxling.data.texts import Texts, check_texts
from hfxling.data.warn import warn_of_blanks, warn_of_foreign, warn_of_hubs
from hfxling.encoders.loading import load_encoder
from hfxling.encoders.protocol import languages_of
from hfxling.evaluation.results import format_table
from hfxling.files import alone_in, content_hash
from hfxling.parts import parts_beside
from hfxling.progress import bar, hidden
from hfxling.verbs import CacheFolder, Languages, Model, OutputFile, Result, Text, verb

from .bitext import Dedup, Filter, ScoredPair, are_learnt, columns, flagged, read_known, without
from .engine import Choice, Margin, Mined, best_partners, by_length, select
from .impostors import Impostors, best_precision, mutual_pairs, of_precision
from .neighbours import Dtype, Neighbours, Vectors, bytes_of, check_search, one_or_all
from .precision import Precision, check_wanted, choose_threshold, found_pairs, halves
from .shards import clear, one_by_one, search
from .tables import check_table, to_tsv, write_tables

if TYPE_CHECKING:
    from hfxling.encoders.haystack import Haystack

logger = logging.getLogger(__name__)
_CHANCE = 1e-6  # least score of a text without a vector
_ENCODED, _SEARCHED = 10, 4  # seconds from which on encoding and a search are measured long enough


@dataclass(frozen=True, repr=False)
class MinedPairs(Result):
    """Sentence pairs mined from two texts.

    Attributes:
        rows: score, texts, line numbers and flags of each pair, best first.
        counts: number of sentences of source and target.
        estimate: estimated precision at the threshold, if a precision was asked for.
        by_impostors: whether the estimate comes from the texts alone, without known pairs.
    """

    rows: list[ScoredPair]
    counts: tuple[int, int]
    estimate: Precision | None = None
    by_impostors: bool = False

    def table(self) -> str:
        """The number of pairs, the flags of some of them, and their estimated precision."""
        parts = [f"{len(self.rows)} pairs of {self.counts[0]} and {self.counts[1]} sentences"]
        lines = []
        for flag in FLAGS:
            count = sum(flag in row.flags.split(",") for row in self.rows)
            if count:
                lines.append([flag.replace("_", " "), count])
        if lines:
            parts.append(format_table(["flag", "pairs"], lines))
        if self.estimate:
            parts.append(self._told())
        return "\n".join(parts)

    def _told(self) -> str:
        """The estimate, and what it is based on."""
        estimate = self.estimate
        told = (
            f"threshold {estimate.threshold:.4f}: estimated precision {100 * estimate.precision:.1f} % "
            f"({100 * estimate.low:.1f} to {100 * estimate.high:.1f})"
        )
        if self.by_impostors:  # these say nothing about translations that are not each other's best match
            return f"{told}, from what the texts themselves say; the recall is not known"
        return (
            f"{told}, recall {100 * estimate.recall:.1f} %, on {estimate.known} known pairs that did not choose it; "
            f"{100 * estimate.unpaired:.0f} % of the sources are taken to have no translation in the target (unpaired)"
        )

    def to_text(self) -> str:
        """The pairs as TSV."""
        return to_tsv(columns(self.rows))[0]

    def save(self, path: str | Path) -> None:
        """Write the pairs as .tsv or .parquet."""
        check_table(path)
        write_tables((path, columns(self.rows), True))


@dataclass(frozen=True, repr=False)
class MiningPlan(Result):
    """What mining will take, measured on samples that are enlarged until the measurement is long enough.

    The search is measured with more vectors than were encoded; the others are made from these.

    Attributes:
        counts: number of sentences of source and target.
        disk: bytes of vectors and shards.
        memory: bytes beside text and vectors.
        encoding: hours of encoding, and of scoring candidates if a search proposes some.
        search: hours of searching.
        encoded: number of sentences of each side that were encoded for the measurement.
        compared: number of vectors of each side that were compared.
        seconds: how long the measurement took.
    """

    counts: tuple[int, int]
    disk: int
    memory: int
    encoding: float
    search: float
    encoded: tuple[int, int]
    compared: tuple[int, int]
    seconds: float

    def table(self) -> str:
        """One line for each need."""
        measured = f"{self.compared[0]} with {self.compared[1]} sentences compared in {self.seconds:.0f} seconds"
        if any(self.encoded):  # none if the user gave vectors
            measured = f"{self.encoded[0]} and {self.encoded[1]} sentences encoded, {measured}"
        lines = [
            ("sentences", f"{self.counts[0]} and {self.counts[1]}"),
            ("disk", f"{_size(self.disk)} (in the cache, and shards beside the output)"),
            ("memory", f"{_size(self.memory)} beside text and vectors"),
            ("encoding", _duration(self.encoding)),
            ("search", _duration(self.search)),
            ("measured", measured),
        ]
        return format_table(["what", "how much"], lines)


def _duration(hours: float) -> str:
    if hours >= 2:
        return f"{hours:.1f} hours"
    if hours >= 1 / 30:
        return f"{60 * hours:.1f} minutes"
    if hours >= 0.1 / 3600:
        return f"{3600 * hours:.1f} seconds"
    return "less than a tenth of a second"


def _size(count: int) -> str:
    if count >= 2**30:
        return f"{count / 2**30:.2f} GiB"
    return f"{count / 2**20:.2f} MiB"


@verb
def mine(
    source: Text,
    target: Text | None = None,
    *,
    languages: Languages | None = None,
    model: Model | None = None,
    lexical: Model | None = None,
    revision: str | None = None,
    lexical_revision: str | None = None,
    prompt: str | None = None,
    source_vectors: str | Path | None = None,
    target_vectors: str | Path | None = None,
    known: list[str] | None = None,
    precision: float | None = None,
    threshold: float | None = None,
    top: str | float | None = None,
    unpaired: float | None = None,
    k: int = 4,
    margin: Margin | None = None,
    selection: Choice = "mutual",
    dedup: Dedup | None = None,
    filters: Sequence[Filter] = (),
    candidates: int | None = None,
    terms: int | None = None,
    dtype: Dtype = "float32",
    memory: str = "4GiB",
    shard: int = 100_000,
    cache_dir: CacheFolder = "outputs/features",
    engine: Literal["local", "ray"] = "local",
    plan: bool = False,
    output: OutputFile | None = None,
    device: str | None = None,
    batch_size: int = 32,
    trust_remote_code: bool = False,
    progress: bool = True,
) -> MinedPairs | MiningPlan:
    """Mine sentence pairs from two texts.

    Every sentence is compared with every sentence of the other text. The score of a pair says how much nearer its two
    sentences are to each other than to their nearest neighbours (`margin`). A run that was stopped continues where it
    was: its work is kept in OUTPUT.hfxling-parts and in the cache.

    Example:
        >>> pairs = hfxling.mine("a.zh", "b.vi", languages=("zh", "vi"), lexical="outputs/fit/model", top=0.8)
        >>> pairs.save("pairs.tsv")

    Args:
        source: text in the first language: FILE (plain, .gz, .xz or .bz2), TABLE#COLUMN, a Hub id, or a list of
            sentences.
        target: text in the other language, given in the same way; leave it out if the source holds both languages.
        languages: language codes of source and target, such as zh vi; by default the model's first two.
        model: folder or Hub id of a sentence encoder, or a loaded one.
        lexical: folder or Hub id of a lexical model. By itself its score is used alone. With a model the two scores are
            fused into one; the model then needs a fusion that was made for this lexical model.
        revision: branch, tag or commit of the model on the Hub.
        lexical_revision: branch, tag or commit of the lexical model on the Hub.
        prompt: text put before every sentence; by default the model's own prompt.
        source_vectors: file with one vector for each line of the source (.npy, .parquet, .jsonl), in place of a model.
        target_vectors: file with one vector for each line of the target.
        known: known pairs, at least 100: sources of pairs, or a list of texts and a list of their translations. They
            help to estimate the precision. Pairs that the model has learnt from are not used for it, as they would say
            nothing about it.
        precision: share of the pairs that should be right, such as 0.95. It is estimated from the texts themselves: if
            a sentence's partner is taken away, whatever the sentence is matched with instead is wrong. With known pairs
            the stricter of both estimates holds. The default margin is then distance.
        threshold: lowest score of the pairs that are kept.
        top: how many of the best pairs to keep: a count such as 5000, or a share such as 0.8.
        unpaired: with known pairs, share of the source sentences that have no translation in the target; estimated by
            default.
        k: number of nearest neighbours that a score is compared with; 4 as in Artetxe and Schwenk (2019).
        margin: how a score is compared with those of the neighbours: ratio divides it by their mean, distance subtracts
            the mean, absolute leaves it as it is. By default ratio for cosines and distance for sparse vectors.
        selection: which pairs are taken: the best target of each source (forward), the best source of each target
            (backward), the pairs that are both (mutual), or the best of either, with each sentence used once (max).
        dedup: side whose repeated texts are dropped, source, target or both: of each normalised text only the best pair
            is kept.
        filters: flags for which a pair is dropped; all means any flag.
        candidates: with a lexical model, number of neighbours by static vectors (and by the model) of each sentence
            that are scored; 0 scores all. By default 32 from 4 billion sentence pairs on.
        terms: with a lexical model, number of a sentence's weights (those that add most) by which 32 candidates are
            looked for; these are then scored with all weights. 320 is much quicker and loses next to nothing.
        dtype: number format of dense products, float32 or bfloat16; the pairs are the same.
        memory: memory that the search may use beside the vectors.
        shard: number of sentences of each side that are searched at once; a stopped run repeats only unfinished parts.
        cache_dir: folder where vectors are kept.
        engine: where the work is done: local, or ray for a cluster (RAY_ADDRESS, or this machine's processors). The
            result is the same.
        plan: only tell how much disk, memory and time mining would take.
        output: .tsv or .parquet file for the pairs.
        device: device for the computation, such as cpu or cuda; by default a GPU if there is one.
        batch_size: number of texts encoded at once.
        trust_remote_code: allow the code in the model's repository to run.
        progress: show progress bars.

    Returns:
        The pairs, best first; with `plan`, what mining them would take.

    Raises:
        ValueError: options that do not go together, text or a model that is not for these languages, or a folder of
            parts that another search left.
        FileNotFoundError: a text, model or file of vectors that does not exist.
    """
    if output is not None:
        check_table(output)
    if languages is not None:
        languages = languages_of(None, languages)
    _check_wish(precision, known, threshold, top, unpaired)
    check_search(dtype, memory, k=k, shard=shard, batch_size=batch_size)
    _check_way(engine, candidates, terms, has_links=lexical is not None)
    if known and source_vectors is not None:
        raise ValueError("--known pairs are hidden in the text, so a model has to encode them: give --model.")

    options = {"device": device, "prompt": prompt, "batch_size": batch_size, "trust_remote_code": trust_remote_code}
    encoder = load_encoder(
        model,
        lexical,
        revision=revision,
        lexical_revision=lexical_revision,
        source_vectors=source_vectors,
        target_vectors=target_vectors,
        **options,
    )
    pair = languages_of(encoder, languages, needed=True)
    sides = read_heaps(source, target, pair)
    searched, hidden_pairs = list(sides), None
    if known:
        learnt_from = encoder.learnt_from()
        searched, hidden_pairs = _with_known(sides, known, pair, learnt_from, precision=precision, unpaired=unpaired)
    has_impostors = precision is not None and margin in (None, "distance") and selection == "mutual"
    sizes = [len(side.texts) for side in searched]
    if precision is not None:
        _check_witnesses(sizes, k, has_known=hidden_pairs is not None, has_impostors=has_impostors, unpaired=unpaired)
    from hfxling.encoders.haystack import Haystack  # loads torch

    # Without a model `revision` is the lexical model's, as in `load_encoder`.
    links_revision = lexical_revision or (revision if model is None else None)
    loaders = {
        "model": partial(load_encoder, model, revision=revision, **options),
        "lexical": partial(load_encoder, lexical=lexical, lexical_revision=links_revision),
    }
    haystack = Haystack(
        searched,
        encoder,
        pair,
        candidates=candidates,
        terms=terms,
        cache_dir=cache_dir,
        memory=memory,
        dtype=dtype,
        device=device,
        batch_size=batch_size,
        loaders=loaders if engine == "ray" and not plan else None,
    )
    check_texts(sides[0].texts, f"{sides[0].name}: text")
    check_texts(sides[1].texts, f"{sides[1].name}: text")
    warn_of_foreign([side.texts for side in sides], pair)
    if plan:
        return plan_of(haystack, k)

    with parts_folder(None if encoder.is_in_memory else output) as parts:
        if has_impostors:  # one neighbour more, in the place of a partner that is taken away
            neighbours = _neighbours(haystack, parts, k + 1, "distance", shard, engine)
            mined, estimate = _precise(haystack, neighbours, precision, hidden_pairs, sizes)
        else:
            margin = margin or haystack.margin
            neighbours = _neighbours(haystack, parts, k, margin, shard, engine)
            mined, estimate = _pairs(haystack, neighbours, margin, selection), None
            if hidden_pairs is not None:
                estimate, mined = hidden_pairs.taken_out(mined, sizes)
        threshold = threshold if estimate is None else estimate.threshold
        if threshold is not None:
            mined = mined.at(mined.score >= threshold)
        elif top is None:
            logger.info("all pairs are given, best first; cut them with --precision, --threshold or --top")
        rows = _flagged_top(top, mined, searched, pair, filters=filters, dedup=dedup)
        by_impostors = estimate is not None and hidden_pairs is None
        result = MinedPairs(rows, (len(sides[0].texts), len(sides[1].texts)), estimate, by_impostors)
        if output is not None:
            result.save(output)
            logger.info("pairs: %s", output)
    return result


def _flagged_top(top: float | str | None, mined: Mined, *of_flagged: Any, **options: Any) -> list[ScoredPair]:
    """`flagged`, cut to a count, or to a share of the pairs without unwanted flags and duplicates."""
    is_share = top is not None and float(top) < 1
    most = None if top is None or is_share else top_count(top, len(mined.score))
    rows = flagged(mined, *of_flagged, **options, top=most)
    return rows[: top_count(top, len(rows))] if is_share else rows


def _check_wish(precision: float | None, known: Any, threshold: float | None, top: Any, unpaired: float | None) -> None:
    """Refuse options that contradict each other."""
    if sum(wish is not None for wish in (threshold, top, precision)) > 1:
        raise ValueError("--threshold, --top and --precision: give only one of them.")
    if known and precision is None:
        raise ValueError("--known is used only with --precision: give that, too, or leave out --known.")
    if unpaired is not None and precision is None:
        raise ValueError("--unpaired is used only with --precision: give that, too, or leave out --unpaired.")
    if precision is not None:
        check_wanted(precision, unpaired)
    if threshold is not None and not math.isfinite(threshold):
        raise ValueError(f"threshold={threshold}: give a number.")
    check_top(top)


def _check_witnesses(
    sizes: Sequence[int], k: int, *, has_known: bool, has_impostors: bool, unpaired: float | None
) -> None:
    """Refuse a precision that nothing could estimate."""
    if not has_known and (unpaired is not None or not has_impostors):
        raise ValueError(
            "without known pairs that the model has not learnt from, --precision is estimated from the texts "
            "themselves: leave out --unpaired, --margin and --selection, or give such pairs as --known."
        )
    if has_impostors and min(sizes) <= k:
        raise ValueError(
            f"--precision takes {k + 1} neighbours of each sentence (--k and one more), but one side has {min(sizes)} "
            "sentences: for so few, give --threshold or --top instead."
        )


def _check_way(engine: str, candidates: int | None, terms: int | None, *, has_links: bool) -> None:
    """Refuse ray if it is not installed, and settings of lexical models if there is none."""
    if engine == "ray" and find_spec("ray") is None:
        raise ValueError("--engine ray needs the package ray: pip install 'hfxling[ray]'.")
    if candidates is not None and (candidates < 0 or not has_links):
        raise ValueError(f"candidates={candidates}: give 0 or more, and only with --lexical.")
    if terms is not None and (terms < 1 or not has_links or candidates):
        raise ValueError(f"terms={terms}: give 1 or more, with --lexical and without --candidates.")


def _with_known(
    sides: Sequence[Texts], known: Any, pair: Languages, learnt_from: set[str], **wanted: float | None
) -> tuple[list[Texts], HiddenPairs | None]:
    """Both sides with known pairs hidden in them; without them, and None, if the model has learnt from them."""
    texts = read_known(known, pair)
    if not are_learnt(known, pair, learnt_from):
        hidden_pairs = HiddenPairs(*texts, **wanted)
        return hidden_pairs.added_to(sides), hidden_pairs
    logger.warning(
        "the model has learnt from the known pairs and scores them far higher than others, so they say nothing about "
        "its precision, which is estimated from the texts themselves"
    )
    return [without(side, own) for side, own in zip(sides, texts)], None


class HiddenPairs:
    """Known pairs hidden in the haystack, half of them without their targets, and the precision wanted of the others.

    Args:
        source: K texts.
        target: their translations.
        precision: the wanted precision.
        unpaired: share of sources without a translation; None if it is to be estimated.
        seed: decides which pairs keep their targets, and which choose the threshold.
    """

    def __init__(
        self,
        source: list[str],
        target: list[str],
        precision: float,
        unpaired: float | None = None,
        seed: int = 0,
    ):
        self.source, self.target = source, target
        self.precision, self.unpaired = precision, unpaired
        self.kept, self.chooses = halves(len(source), seed)

    def added_to(self, sides: Sequence[Texts]) -> list[Texts]:
        """Both sides without texts of known pairs, then these at the ends, without the targets that are taken out."""
        kept_targets = [text for text, is_kept in zip(self.target, self.kept) if is_kept]
        extended = []
        for side, known, added in zip(sides, (self.source, self.target), (self.source, kept_targets)):
            rest = without(side, known)
            dropped = len(side.texts) - len(rest.texts)
            if dropped:
                logger.info("%s: %d lines belong to known pairs and are left out", side.name, dropped)
            extended.append(Texts(side.name, rest.lines + [0] * len(added), rest.texts + added))
        return extended

    def taken_out(
        self, mined: Mined, sizes: Sequence[int], given: tuple[Impostors, Impostors] | None = None
    ) -> tuple[Precision, Mined]:
        """The estimate at the threshold for the wanted precision, and the pairs without known ones.

        Args:
            mined: pairs of all sentences.
            sizes: number of sentences of either side, the known ones included.
            given: from `mutual_pairs`, if impostors count, too: the higher threshold and the lower estimate then hold.
        """
        sizes = (sizes[0] - len(self.source), sizes[1] - int(self.kept.sum()))
        others, found = found_pairs(mined, self.kept, sizes)
        options = {"precision": self.precision, "unpaired": self.unpaired, "chooses": self.chooses}
        estimate = choose_threshold(found, **options)
        if given is None:
            return estimate, others
        is_other = (mined.source < sizes[0]) & (mined.target < sizes[1])
        of_others = tuple(side.at(is_other)._replace(size=size) for side, size in zip(given, sizes))
        _, by_impostors = of_precision(others, of_others, self.precision)
        if by_impostors is None or by_impostors.threshold <= estimate.threshold:
            return estimate, others
        estimate = choose_threshold(found, **options, least=by_impostors.threshold)
        return replace(
            estimate,
            precision=min(estimate.precision, by_impostors.precision),
            low=min(estimate.low, by_impostors.low),
            high=max(estimate.high, by_impostors.high),
        ), others


@contextmanager
def parts_folder(output: str | Path | None) -> Iterator[Path]:
    """The folder of a search's tiles: beside the output until all is written, or a temporary one."""
    parts = parts_beside(output)
    if parts is None:
        with TemporaryDirectory(prefix="hfxling-") as folder:
            yield Path(folder, "parts")
        return
    with alone_in(parts, f"output={output}"):
        yield parts
        clear(parts)


def _precise(
    haystack: Haystack,
    neighbours: tuple[Neighbours, Neighbours],
    precision: float,
    hidden_pairs: HiddenPairs | None,
    sizes: Sequence[int],
) -> tuple[Mined, Precision]:
    """Pairs of the wanted precision, as estimated from the texts themselves and from hidden pairs, if any."""
    pairs, given = mutual_pairs(*neighbours, haystack.lengths() if haystack.lexical else None)
    rows = _with_vectors(haystack, pairs)
    pairs = pairs.at(rows)
    given = tuple(side.at(rows) for side in given)
    if hidden_pairs is not None:
        estimate, pairs = hidden_pairs.taken_out(pairs, sizes, given)
        return pairs, estimate
    kept, estimate = of_precision(pairs, given, precision)
    if estimate is None:
        best = f"best estimate: {best_precision(pairs, given):.3f}"
        raise ValueError(
            f"precision={precision}: no threshold gives it ({best}, of {len(pairs.score)} pairs); ask for less."
        )
    return kept, estimate


def _pairs(haystack: Haystack, neighbours: tuple[Neighbours, Neighbours], margin: str, selection: str) -> Mined:
    """All pairs by margin, best first."""
    pairs = select(*neighbours, margin, selection)
    pairs = pairs.at(_with_vectors(haystack, pairs))
    if haystack.lexical and margin != "ratio":
        pairs = by_length(pairs, *haystack.lengths())
    return pairs


def _with_vectors(haystack: Haystack, pairs: Mined) -> np.ndarray:
    """Rows of the pairs both of whose texts have a vector; a text without one is near its partner by chance."""
    is_blank = haystack.without_vector()
    return np.flatnonzero(~(is_blank[0][pairs.source] | is_blank[1][pairs.target]))


def _neighbours(
    haystack: Haystack, folder: Path, k: int, margin: str, shard: int, engine: str
) -> tuple[Neighbours, Neighbours]:
    """The k nearest of both sides by the final score; warns of sentences that are the best match of too many."""
    texts = [side.texts for side in haystack.sides]
    smaller = min(len(texts[0]), len(texts[1]))
    if k > smaller:
        raise ValueError(f"k={k} neighbours, but one side has {smaller} sentences; give --k {smaller} or less.")
    haystack.check_disk(k)
    key = {"texts": [content_hash(side) for side in texts], **haystack.about}
    run: Callable = one_by_one
    if engine == "ray":
        from .ray import tiles as run

    def in_tiles(place: Path, source: list, target: list, kept: int, options: dict) -> tuple[Neighbours, Neighbours]:
        total = source[0].shape[0] * target[0].shape[0]
        with bar(total=total, unit="pairs", unit_scale=True, label="search") as shown:
            return search(source, target, kept, place, key, shard=shard, done=shown.update, run=run, **options)

    neighbours = in_tiles(folder, *haystack.vectors(), haystack.kept(k), haystack.search_options)
    forward, backward = haystack.rescored(neighbours, k, partial(in_tiles, folder / "model"))
    blank_sources, blank_targets = haystack.without_vector()
    warn_of_blanks(blank_sources, texts[0])
    warn_of_blanks(blank_targets, texts[1])
    for found, own, other in ((forward, blank_sources, blank_targets), (backward, blank_targets, blank_sources)):
        # Their scores are chance, and a ratio cannot be taken to a mean below zero.
        is_chance = own[:, None] | other[found.rows]
        found.scores[is_chance] = np.maximum(found.scores[is_chance], _CHANCE)
    warn_of_hubs(best_partners(forward, backward, margin), texts)
    return forward, backward


def plan_of(haystack: Haystack, k: int = 4) -> MiningPlan:
    """What mining will take, measured by encoding some texts and comparing some vectors now."""
    from hfxling.encoders.stored import StoredVectors

    disk = haystack.check_disk(k)
    counts = (len(haystack.sides[0].texts), len(haystack.sides[1].texts))
    start = time.perf_counter()
    with hidden(), TemporaryDirectory(prefix="hfxling-") as folder:
        if isinstance(haystack.encoder, StoredVectors):
            searches, hours_of_encoding, encoded = [haystack.vectors()], 0.0, (0, 0)
        else:
            searches, seconds_a_sentence, encoded = _encoded_sample(haystack, k, folder)
            hours_of_encoding = seconds_a_sentence * sum(counts) / 3600
        hours_of_search = 0.0
        for vectors in searches:
            seconds_a_pair, compared = _timed_search(vectors, counts, haystack.kept(k), haystack.search_options)
            hours_of_search += seconds_a_pair * counts[0] * counts[1] / 3600
    memory = bytes_of(haystack.search_options["memory"])
    seconds = time.perf_counter() - start
    return MiningPlan(counts, disk, memory, hours_of_encoding, hours_of_search, encoded, compared, seconds)


def _encoded_sample(haystack: Haystack, k: int, folder: str) -> tuple[list, float, tuple[int, int]]:
    """A sample's vectors for each search, seconds per sentence (with scoring its candidates), and its size."""
    from .blocks import both_ways

    size = 256
    while True:
        sample = haystack.first(size, Path(folder, str(size)))
        sizes = (len(sample.sides[0].texts), len(sample.sides[1].texts))
        start = time.perf_counter()
        vectors = sample.vectors()
        seconds = time.perf_counter() - start
        neighbours = both_ways(*map(one_or_all, vectors), sample.kept(k), **sample.search_options)
        start = time.perf_counter()
        sample.rescored(neighbours, k)  # with further vectors where there are some
        seconds += time.perf_counter() - start
        if seconds > _ENCODED or size >= max(len(side.texts) for side in haystack.sides):
            break
        size *= 2
    further = sample.further_vectors()
    searches = [vectors] if further is None else [vectors, further]
    return searches, seconds / sum(sizes), sizes


def _timed_search(vectors: list[list], counts: Sequence[int], k: int, options: dict) -> tuple[float, tuple[int, int]]:
    """Seconds per pair and size of a search that takes a while, as a short one is mostly preparation."""
    from .blocks import both_ways

    size = 256
    while True:
        sizes = (min(size, counts[0]), min(size, counts[1]))
        source, target = ([_as_many(part, rows) for part in side] for side, rows in zip(vectors, sizes))
        start = time.perf_counter()
        both_ways(one_or_all(source), one_or_all(target), min(k, *sizes), **options)
        seconds = time.perf_counter() - start
        if seconds > _SEARCHED or size >= max(counts):
            return seconds / (sizes[0] * sizes[1]), sizes
        size *= 2


def _as_many(part: Vectors, rows: int) -> Vectors:
    """The first rows; if there are too few, the same rows again with changed values, as equal ones would tie."""
    if part.shape[0] >= rows:
        return part[:rows]
    more = part[np.arange(rows) % part.shape[0]]
    values = more.data if issparse(more) else more
    values *= np.random.default_rng(0).uniform(0.5, 1.5, values.shape).astype(values.dtype)
    return more
