"""Existing sentence pairs without the bad ones."""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hfxling.data.differences import markup_differs, numbers_differ
from hfxling.data.faults import FLAGS, FaultFinder
from hfxling.data.filters import PairGate, check_top, top_count
from hfxling.data.langid import split_words
from hfxling.data.pairs import Pairs, read_pairs
from hfxling.data.texts import LONGEST, Texts, numbered_distinct, picked
from hfxling.data.warn import COVERAGE_TEXTS, warn_of_blanks, warn_of_coverage, warn_of_hubs, warn_of_languages
from hfxling.encoders.loading import load_encoder
from hfxling.encoders.protocol import ROLES, Encoder, languages_of
from hfxling.evaluation.results import format_table
from hfxling.files import is_stream
from hfxling.progress import bar
from hfxling.values import check_counts
from hfxling.verbs import (
    FILE,
    CacheFolder,
    Languages,
    Model,
    OutputFile,
    Result,
    Text,
    check_list,
    check_outputs,
    check_revisions,
    verb,
)

from .engine import Margin, best_partners, length_weights, paired_margins, select
from .neighbours import Dtype, Neighbours, check_search, one_or_all, slices
from .tables import check_table, to_tsv, write_tables

logger = logging.getLogger(__name__)
LIMITS = {"too_short": "min_words", "too_long": "max_words"}  # the filter's names; the faults have their own too_long
WRONG_SOURCE = "wrong_source_language"
DIFFERENCES = {"numbers": numbers_differ, "markup": markup_differs}  # between both sides
OF_TEXT = ("identical", "duplicate", *LIMITS.values(), *FLAGS[1:], WRONG_SOURCE, *DIFFERENCES)
OF_SCORES = ("low_score", "low_links", "better_elsewhere", "low_words")
REASONS = ("empty", *OF_TEXT, *OF_SCORES)
# Chosen on 4,000 pairs of vi-zh training text, everyday sentences with many near-repetitions, a fifth of the targets
# shuffled, links of 4,000 other pairs: 97 % of those and 1.6 % of the good pairs are dropped (with 0: 98 and 8.2 %).
CLEARLY = 3.0
FEWEST = 40  # least number of pairs that word links are learnt from
_OTHERS = 3  # other targets that a pair's words are compared with
_CHUNK = 2_048  # pairs whose links are in memory at once


class PairScores(NamedTuple):
    """Scores of P pairs."""

    score: np.ndarray  # (P,) margins; NaN if a side has no vector
    links: np.ndarray | None  # (P,) scores of the lexical model; NaN if it knows no word of a side
    elsewhere: np.ndarray  # (P,) whether a side is clearly the mutual best match of another text


@dataclass(repr=False)
class Cleaned(Result):
    """All N pairs, with reasons to drop some of them, and scores.

    Attributes:
        pairs: all pairs, in their order.
        reasons: reasons to drop each pair; a pair that is kept has none.
        scores: (N,) for each of the columns "score", "links" and "words"; NaN for pairs that were not scored.
    """

    pairs: Pairs
    reasons: list[list[str]]
    scores: dict[str, np.ndarray] = field(default_factory=dict)

    @property
    def kept(self) -> np.ndarray:
        """Rows of the pairs that are kept."""
        return np.flatnonzero([not reasons for reasons in self.reasons])

    @property
    def dropped(self) -> np.ndarray:
        """Rows of the pairs that are dropped."""
        return np.flatnonzero([bool(reasons) for reasons in self.reasons])

    def to_text(self) -> str:
        """The pairs that are kept, as TSV."""
        return to_tsv(self._kept_columns(), header=self.pairs.has_header)[0]

    def sides(self, rows: np.ndarray) -> tuple[list[str], list[str]]:
        """Source and target texts of some rows."""
        return picked(rows, self.pairs.source, self.pairs.target)

    def save(self, kept: str | Path, dropped: str | Path | None = None) -> None:
        """Write the pairs that are kept, and the others with lines and reasons: both files or, on an error, neither.

        Args:
            kept: .tsv or .parquet file.
            dropped: .tsv or .parquet file for the others; by default `kept` with .dropped before its suffix, and none
                if `kept` is a device or pipe.

        Raises:
            ValueError: a file with another ending, or one that cannot be written.
        """
        dropped = _check_files(kept, dropped, (), name="kept")
        rows = self.dropped
        source, target = self.sides(rows)
        others = {
            "line": [self.pairs.lines[row] for row in rows],
            "reasons": [",".join(self.reasons[row]) for row in rows],
            **self._scores_of(rows),
            "source": source,
            "target": target,
        }
        changed = write_tables((kept, self._kept_columns(), self.pairs.has_header), (dropped, others, True))
        if changed:
            logger.warning("%d texts with tabs or line breaks are written with spaces; a .parquet keeps them", changed)

    def _kept_columns(self) -> dict[str, Sequence]:
        source, target = self.sides(self.kept)
        return {"source": source, "target": target, **self._scores_of(self.kept)}

    def _scores_of(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        return {name: values[rows] for name, values in self.scores.items()}

    def table(self) -> str:
        """Number of pairs by reason, and percentiles of the scores."""
        total = len(self.reasons)
        dropped = len(self.dropped)
        counts = Counter(chain.from_iterable(self.reasons))
        alone = Counter(reasons[0] for reasons in self.reasons if len(reasons) == 1)
        rows = []
        for reason in REASONS:
            if counts[reason]:
                rows.append((reason.replace("_", " "), counts[reason], 100 * counts[reason] / total, alone[reason]))
        rows.append(("dropped", dropped, 100 * dropped / total, None))
        rows.append(("kept", total - dropped, 100 * (total - dropped) / total, None))
        parts = [f"{total} pairs", format_table(["reason", "pairs", "% of pairs", "alone"], rows)]
        shares = [5, 10, 25, 50, 75, 90, 95]
        for name, values in self.scores.items():
            scored = values[~np.isnan(values)]
            if len(scored):
                headers = [name, *(f"{share} %" for share in shares)]
                parts.append(f"{name}, percentiles of {len(scored)} scored pairs")
                parts.append(format_table(headers, [["", *np.percentile(scored, shares)]]))
        return "\n".join(parts)


@verb
def clean(
    source: Text,
    target: Text | None = None,
    *,
    languages: Languages | None = None,
    output: OutputFile | None = None,
    dropped: OutputFile | None = None,
    model: Model | None = None,
    revision: str | None = None,
    lexical: Model | None = None,
    lexical_revision: str | None = None,
    keep: Sequence[str] = (),
    min_words: int = 0,
    max_words: int | None = None,
    threshold: float | None = None,
    top: str | float | None = None,
    mutual: bool = False,
    min_links: float | None = None,
    min_words_gain: float | None = None,
    k: int = 4,
    margin: Margin | None = None,
    candidates: int | None = None,
    dtype: Dtype = "float32",
    memory: str = "4GiB",
    cache_dir: CacheFolder = "outputs/features",
    prompt: str | None = None,
    batch_size: int = 32,
    device: str | None = None,
    trust_remote_code: bool = False,
    progress: bool = True,
) -> Cleaned:
    """Remove bad sentence pairs, and say why they are bad.

    Without a model, a pair may be dropped for an empty side, copies, repeated pairs, its length, the language of either
    side, different numbers, markup on one side only, faults of translations, and words that say nothing about each
    other (`min_words_gain`). With a model, every pair that is left also gets a score: how much better its two sides fit
    each other than other sentences of the text.

    Example:
        >>> cleaned = hfxling.clean("pairs.tsv", languages=("zh", "vi"), output="kept.tsv")
        >>> print(cleaned.table())

    Args:
        source: source texts; or a source of both sides, such as pairs.tsv or a data set with a column for each
            language.
        target: their translations, line by line; leave it out if the source holds both sides.
        languages: language codes of source and target; by default the model's first two.
        output: .tsv or .parquet file for the pairs that are kept.
        dropped: .tsv or .parquet file for the other pairs, with lines and reasons; by default the output's name with
            .dropped before its suffix, and none if the output is a device or pipe.
        model: folder or Hub id of an encoder, for scores.
        revision: branch, tag or commit of the model.
        lexical: folder or Hub id of a lexical model, for its scores; with a model the two scores are fused into one.
        lexical_revision: branch, tag or commit of the lexical model.
        keep: reasons for which no pair is dropped, such as duplicate or copy.
        min_words: fewest words of the shorter side.
        max_words: most words of the longer side.
        threshold: lowest score of the pairs that are kept.
        top: how many of the scored pairs to keep, best first: a share such as 0.8, or a count such as 5000.
        mutual: drop pairs if one of their sides clearly belongs to another row.
        min_links: lowest score of the lexical model by itself.
        min_words_gain: lowest gain of a pair's words: how much likelier, in nats a word, the text's own word links make
            them than words of other pairs' targets; 0 drops pairs that are no likelier. Each half of the text is judged
            by links of the other half; no model is needed.
        k: number of nearest neighbours that a score is compared with.
        margin: how a score is compared with those of the neighbours: ratio divides it by their mean, distance subtracts
            the mean, absolute leaves it as it is. By default ratio for cosines, distance with a lexical model.
        candidates: with a lexical model, number of neighbours by static vectors (and by the model) of each text that
            are scored; 0 scores all. By default 32 from 4 billion pairs of texts on.
        dtype: number format of dense products, float32 or bfloat16; the scores are the same.
        memory: memory that the search may use beside the vectors.
        cache_dir: folder where vectors are kept.
        prompt: text put before every sentence; by default the model's own prompt.
        batch_size: number of texts encoded at once.
        device: device for the computation, such as cpu or cuda; by default a GPU if there is one.
        trust_remote_code: allow the code in the model's repository to run.
        progress: show progress bars.

    Returns:
        All pairs with their reasons and scores.

    Raises:
        ValueError: options that do not go together, no pairs, languages that the model does not know, or a model that
            gives NaN.
        FileNotFoundError: a text or model that does not exist.
    """
    check_list("keep", keep)
    gate = PairGate(min_words, max_words, "duplicate" not in keep, "identical" not in keep)
    unknown = {*keep} - {*OF_TEXT}
    if unknown:
        raise ValueError(f"keep: {', '.join(sorted(unknown))} is not one of {', '.join(OF_TEXT)}.")
    scored = {"threshold": threshold, "top": top, "mutual": mutual or None, "min_links": min_links}
    check_revisions(
        revision=(lexical if model is None else model, revision), lexical_revision=(lexical, lexical_revision)
    )
    _check_scores(scored, candidates, min_words_gain, has_model=model is not None, has_lexical=lexical is not None)
    check_search(dtype, memory, k=k, batch_size=batch_size)
    if output is not None:
        dropped = _check_files(output, dropped, [source, target])
    elif dropped is not None:
        raise ValueError("dropped needs output: both files are written together.")
    encoder = None
    if model is not None or lexical is not None:
        encoder = load_encoder(
            model,
            lexical,
            revision=revision,
            lexical_revision=lexical_revision,
            prompt=prompt,
            batch_size=batch_size,
            device=device,
            trust_remote_code=trust_remote_code,
        )
    pair = languages_of(encoder, languages, needed=True)
    if encoder is not None:
        for language, role in zip(pair, ROLES):
            encoder.route(language, role)

    cleaned = judge_texts(read_pairs(source, target, pair, skip_bad=True, longest=None), pair, gate, keep)
    rows = cleaned.kept
    if min_words_gain is not None:
        judge_words(cleaned, rows, pair, min_words_gain)
        rows = cleaned.kept  # pairs with a reason get no score and do not count for `top`
    if encoder is not None and len(rows):
        scores = score_pairs(
            encoder,
            *cleaned.sides(rows),
            pair,
            k=k,
            margin=margin,
            candidates=candidates,
            dtype=dtype,
            memory=memory,
            cache_dir=cache_dir,
            batch_size=batch_size,
            device=device,
        )
        judge_scores(cleaned, rows, scores, threshold=threshold, top=top, mutual=mutual, min_links=min_links)
    if output is not None:
        cleaned.save(output, dropped)
        logger.info("kept: %s, dropped: %s", output, dropped)
    if not len(cleaned.kept):
        logger.warning("no pair is kept; see the reasons")
    return cleaned


def _check_scores(
    scored: dict, candidates: int | None, min_words_gain: float | None, *, has_model: bool, has_lexical: bool
) -> None:
    """Refuse options that need scores if there are none, and numbers that are not finite."""
    for name, value in scored.items():
        if value is not None and not (has_model or has_lexical):
            raise ValueError(f"{name} needs scores: give a model, a lexical one or both.")
    for name, value in (("min_links", scored["min_links"]), ("candidates", candidates)):
        if value is not None and not has_lexical:
            raise ValueError(f"{name} needs lexical, as it applies to that model's scores.")
    if scored["threshold"] is not None and scored["top"] is not None:
        raise ValueError("threshold and top: give one of them.")
    check_top(scored["top"])
    numbers = {"min_words_gain": min_words_gain, "threshold": scored["threshold"], "min_links": scored["min_links"]}
    for name, value in numbers.items():
        if value is not None and not np.isfinite(value):
            raise ValueError(f"{name}={value}: give a finite number.")
    check_counts(0, candidates=candidates)


def _check_files(output: str | Path, dropped: str | Path | None, inputs: Sequence, name: str = "output") -> Path:
    """The file of the dropped pairs, after checking both files; `name` is what errors call the output."""
    output = Path(output)
    if dropped is not None:
        dropped = Path(dropped)
    elif is_stream(output):
        dropped = Path(os.devnull)
    else:
        dropped = output.with_name(f"{output.stem}.dropped{output.suffix}")
    check_table(output, name=name)
    check_table(dropped, name="dropped")
    check_outputs({name: (FILE, output), "dropped": (FILE, dropped)}, inputs)
    return dropped


def judge_texts(pairs: Pairs, languages: Languages, gate: PairGate, keep: Sequence[str] = ()) -> Cleaned:
    """All pairs, with the reasons that the texts themselves give."""
    cleaned = Cleaned(pairs, [[] for _ in pairs.lines])
    sides = list(zip(pairs.source, pairs.target))
    whole, exchanged = [], []
    for source, target in sides:
        if source and target and max(len(source), len(target)) <= LONGEST:
            whole.append((source, target))
            exchanged.append((target, source))
    finder = FaultFinder.fit(whole, *languages)
    swapped = FaultFinder.fit(exchanged, *languages[::-1])  # a finder judges the language of its target alone
    # A file that is wholly in another language teaches that language; it is recognised by what holds for any text.
    unlearnt = FaultFinder(*languages[::-1]), FaultFinder(*languages)
    foreign = [0, 0]
    judged = 0
    for pair, reasons in zip(bar(sides, unit="pairs judged"), cleaned.reasons):
        if not all(map(split_words, pair)):
            reasons.append("empty")
            continue
        if max(map(len, pair)) > LONGEST:  # no model reads it either
            reasons.append("too_long")
            continue
        judged += 1
        faults = list(finder.flags(*pair))
        faults += [LIMITS.get(reason, reason) for reason in gate.reasons(*pair, *languages)]
        if swapped.is_foreign(pair[0]):
            faults.append(WRONG_SOURCE)
        faults += [name for name, is_different in DIFFERENCES.items() if is_different(*pair)]
        for side, name in enumerate((WRONG_SOURCE, "wrong_language")):
            if name in faults or unlearnt[side].is_foreign(pair[side]):
                foreign[side] += 1
        reasons.extend(reason for reason in REASONS if reason in faults and reason not in keep)
    warn_of_languages(foreign, [judged, judged], languages)
    return cleaned


def score_pairs(
    encoder: Encoder,
    source: Sequence[str],
    target: Sequence[str],
    languages: Languages,
    *,
    k: int = 4,
    margin: str | None = None,
    **options: Any,
) -> PairScores:
    """How much better the two sides of P pairs fit each other than other sentences of the same text.

    `k` and `margin` as for `clean`, options as for `Haystack`.
    """
    from hfxling.encoders.haystack import Haystack

    from .blocks import both_ways

    sides, rows = [], []
    for texts, language in zip((source, target), languages):
        distinct, own_rows = numbered_distinct(texts)  # a text is one neighbour, however many pairs contain it
        sides.append(Texts(language, [0] * len(distinct), distinct))
        rows.append(own_rows)
    smaller = min(len(side.texts) for side in sides)
    if k > smaller:
        raise ValueError(f"k={k} neighbours, but {smaller} distinct texts are left on one side; give fewer.")
    haystack = Haystack(sides, encoder, languages, **options)
    model = getattr(haystack.dense, "model", None)
    warn_of_coverage(model, islice(zip(source, target), COVERAGE_TEXTS), languages)
    haystack.check_disk(k)
    margin = margin or haystack.margin
    vectors = haystack.vectors()
    neighbours = both_ways(*map(one_or_all, vectors), haystack.kept(k), **haystack.search_options)
    neighbours = haystack.rescored(neighbours, k)
    score = paired_margins(*haystack.readers(vectors), tuple(rows), *neighbours, margin)
    warn_of_hubs(best_partners(*neighbours, margin), [side.texts for side in sides])
    is_elsewhere = elsewhere(neighbours, rows, score, margin)
    links = None
    if haystack.lexical is not None:
        links = np.empty(len(source))
        for part in slices(len(source), _CHUNK):
            links[part] = haystack.lexical.score(source[part], target[part], languages)
        if margin != "ratio":  # scores of links are means over words, as for `mine`
            lengths = haystack.lengths()
            score = score * length_weights(lengths[0][rows[0]], lengths[1][rows[1]])
    is_blank = haystack.without_vector()
    for mask, side in zip(is_blank, sides):
        warn_of_blanks(mask, side.texts)
    is_unknown = is_blank[0][rows[0]] | is_blank[1][rows[1]]
    score[is_unknown] = np.nan  # their scores were chance
    is_elsewhere[is_unknown] = False
    return PairScores(score, links, is_elsewhere)


def elsewhere(
    neighbours: tuple[Neighbours, Neighbours], rows: Sequence[np.ndarray], score: np.ndarray, margin: str
) -> np.ndarray:
    """(P,) whether either side is another text's mutual best match, by a clearly better margin than its own pair has.

    Among near-repetitions ("Yes." and "Yes, sir.") either translation may be the slightly better match. A margin is
    clearly better if it exceeds the pair's own by `CLEARLY` robust standard deviations of the margins of mutual best
    matches.
    """
    mutual = select(*neighbours, margin, "mutual")
    # The median distance to the median, times 1.4826: for a normal distribution that is the standard deviation.
    deviation = 1.4826 * np.median(np.abs(mutual.score - np.median(mutual.score)))
    is_elsewhere = np.zeros(len(score), bool)
    for side, other in ((0, 1), (1, 0)):
        partner = np.full(len(neighbours[side].rows), -1)
        partner[mutual[side]] = mutual[other]
        margin_there = np.full(len(partner), -np.inf)
        margin_there[mutual[side]] = mutual.score
        is_another = partner[rows[side]] != rows[other]
        is_clear = margin_there[rows[side]] > score + CLEARLY * deviation
        is_elsewhere |= is_another & is_clear
    return is_elsewhere


def judge_scores(
    cleaned: Cleaned,
    rows: np.ndarray,
    scores: PairScores,
    *,
    threshold: float | None = None,
    top: str | float | None = None,
    mutual: bool = False,
    min_links: float | None = None,
) -> None:
    """Add the reasons that the scores of some rows give, and the scores themselves."""
    for name, values in (("score", scores.score), ("links", scores.links)):
        if values is not None:
            cleaned.scores[name] = np.full(len(cleaned.reasons), np.nan)
            cleaned.scores[name][rows] = values
    low = np.zeros(len(rows), bool)
    if threshold is not None:
        low = ~(scores.score >= threshold)  # written this way so that NaN counts as low; so below
    elif top is not None:
        best_first = np.argsort(-scores.score, kind="stable")
        low[best_first[top_count(top, len(rows)) :]] = True
    few = np.zeros(len(rows), bool) if min_links is None else ~(scores.links >= min_links)
    moved = scores.elsewhere if mutual else np.zeros(len(rows), bool)
    for reason, is_bad in zip(OF_SCORES, (low, few, moved)):
        for row in rows[is_bad]:
            cleaned.reasons[row].append(reason)
    if threshold is None and top is None:
        logger.info("no threshold and no top: no pair is dropped for a low score; the files have the scores")


def judge_words(cleaned: Cleaned, rows: np.ndarray, languages: Languages, least: float) -> None:
    """Add the reason that words give against some rows, and the gains themselves."""
    gains = word_gains(*cleaned.sides(rows), languages)
    cleaned.scores["words"] = np.full(len(cleaned.reasons), np.nan)
    cleaned.scores["words"][rows] = gains
    for row in rows[~(gains >= least)]:
        cleaned.reasons[row].append("low_words")


def word_gains(source: Sequence[str], target: Sequence[str], languages: Languages) -> np.ndarray:
    """(P,) how much likelier a pair's words make each other than the words of other targets, in nats a word.

    Each half of the pairs, drawn at random, is judged by word links of the other one.
    """
    from hfxling.words.joint import JointAligner

    if len(source) < FEWEST:
        raise ValueError(
            f"{len(source)} pairs are too few to learn word links from; give {FEWEST} or more, or leave out "
            "min_words_gain."
        )
    gains = np.empty(len(source))
    halves = np.array_split(np.random.default_rng(0).permutation(len(source)), 2)
    for judged, learnt in (halves, halves[::-1]):
        aligner = JointAligner.learn(languages, *picked(learnt, source, target))
        own_source, own_target = picked(judged, source, target)
        gains[judged] = aligner.log_likelihoods(own_source, own_target)
        for shift in range(1, _OTHERS + 1):
            other_target = [*own_target[shift:], *own_target[:shift]]  # drawn at random, as the half is in that order
            gains[judged] -= aligner.log_likelihoods(own_source, other_target) / _OTHERS
    return gains
