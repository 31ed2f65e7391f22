"""From two heaps of text and an encoder to a bitext and links, without a known pair.

The first round compares the encoder's vectors: the mean of each heap is taken off its vectors, and the score of a pair
is held against the nearest neighbours of both sides (half CSLS). Links are learnt from what it finds, and from then on
both scores count, each at the deviation of its scores between random sentences. Links that judge a source have not
learnt from it: three parts of the sources are left out in turn.

How good the pairs are is counted with impostors. Some sources lose the targets that were found for them; what is found
for these instead is wrong. It shows how often a source without a translation gets one, and with which scores; and how
little the best target of a wrong pair is ahead of the next one. As many pairs are wrong as these two let expect, the
larger number of both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import beta

from hfxling.data.corpus import Corpus
from hfxling.data.filters import count_words
from hfxling.methods.lexical import LinkSettings, fit
from hfxling.methods.lexical.data import link_views
from hfxling.models.modeling_lexical import LexicalModel

from .blocks import both_ways
from .engine import Mined, by_length, select
from .neighbours import Neighbours, best_first, unit
from .precision import Precision

FOLDS = 3
LOOSE = 0.7  # estimated precision of what is learnt from
K = 4  # neighbours that a score is held against
AGREEMENT = 0.65  # how often links must score a pair that they did not learn from above one with a random target
GAIN = 1.01  # of the number of good pairs, below which no further round is worth it
LEAST = 20  # pairs to begin with
_IMPOSTORS = 0.2  # share of the sources with a pair that lose their targets
_SAMPLE = 500  # sentences of a side whose scores show how much scores deviate


@dataclass(frozen=True)
class UnseededRound:
    """What a round found.

    Attributes:
        number: from 0.
        learnt: pairs that the links had learnt from; 0 in the first round, which has none.
        mined: pairs that were mined, whatever their score.
        kept: pairs that the next round learns from.
        strict: pairs of the wanted precision.
        estimate: of these; None where no threshold gives it.
    """

    number: int
    learnt: int
    mined: int
    kept: int
    strict: int
    estimate: Precision | None


@dataclass(frozen=True)
class Grown:
    """What it ends with: pairs of the wanted precision, best first, the links, and all rounds."""

    pairs: Mined
    model: LexicalModel
    rounds: list[UnseededRound]


def grow(
    vectors: Sequence[np.ndarray],
    texts: Sequence[Sequence[str]],
    languages: tuple[str, str],
    *,
    seed_pairs: tuple[Sequence[str], Sequence[str]] = ((), ()),
    rounds: int = 5,
    precision: float = 0.95,
    seed: int = 42,
    memory: int | str = "4GiB",
    report: Callable[[UnseededRound, Mined], None] = lambda this, pairs: None,
) -> Grown:
    """Mine, learn links from what was mined, and mine with both, until there are hardly more good pairs.

    Args:
        vectors: (N, D) and (M, D) vectors of an encoder, by cosine.
        texts: N and M sentences of the heaps.
        languages: codes of both.
        seed_pairs: known pairs that links learn from, too.
        rounds: at most, after the first.
        precision: wanted of the bitext.
        seed: of folds, impostors and links.
        memory: that the search may use.
        report: called with every round and the pairs that it mined.

    Raises:
        ValueError: heaps of fewer sentences than neighbours; an encoder that finds too few pairs to learn from.
    """
    heaps = _Heaps(vectors, texts, languages, seed_pairs, seed, memory)
    learnt: Mined | None = None
    history: list[tuple[UnseededRound, Mined, Mined]] = []
    for number in range(rounds + 1):
        pairs, evidence = heaps.mine(learnt)
        strict, estimate = _of_precision(pairs, evidence, precision)
        loose, _ = _of_precision(pairs, evidence, min(LOOSE, precision))
        count = 0 if learnt is None else len(learnt.score)
        this = UnseededRound(number, count, len(pairs.score), len(loose.score), len(strict.score), estimate)
        report(this, pairs)
        history.append((this, strict, loose))
        if number and this.strict < GAIN * history[-2][0].strict:
            break
        if len(loose.score) + len(seed_pairs[0]) < LEAST:
            raise ValueError(
                f"of {len(pairs.score)} pairs that the model finds only {len(loose.score)} are likely translations; "
                "does it know both languages, and do the heaps translate each other? Give another model or seed pairs."
            )
        learnt = loose
    best = max(history[-2:], key=lambda each: each[0].strict)
    _, strict, loose = best
    model = heaps.learn(loose, np.ones(len(loose.score), bool), static=True)
    return Grown(strict, model, [each[0] for each in history])


@dataclass(frozen=True)
class Evidence:
    """What says how many of P pairs are wrong.

    Attributes:
        leads: (P,) by how much a pair's target is ahead of its source's next one.
        wrong_scores: (W,) of the pairs that were found for sources that had lost their targets.
        wrong_leads: (W,) the same of them.
        losers: sources that had lost their targets.
        sources: all of the heap.
    """

    leads: np.ndarray
    wrong_scores: np.ndarray
    wrong_leads: np.ndarray
    losers: int
    sources: int


class _Heaps:
    """Both heaps with their vectors."""

    def __init__(self, vectors, texts, languages: tuple[str, str], seed_pairs, seed: int, memory: int | str):
        self.texts = [list(side) for side in texts]
        self.sizes = tuple(len(side) for side in self.texts)
        if min(self.sizes) < 2 * K:
            raise ValueError(f"heaps of {self.sizes[0]} and {self.sizes[1]} sentences; give at least {2 * K} of each.")
        self.languages = tuple(languages)
        self.seed_pairs = seed_pairs
        self.seed = seed
        self.memory = memory
        self.random = np.random.default_rng(seed)
        self.fold = self.random.permutation(np.arange(self.sizes[0]) % FOLDS)
        self.dense = [_centred(side) for side in vectors]
        few = [self.random.permutation(size)[:_SAMPLE] for size in self.sizes]
        self.few = few
        self.dense_deviation = _deviation(self.dense[0][few[0]] @ self.dense[1][few[1]].T)
        self.lengths = []
        for side, language in zip(self.texts, self.languages):
            self.lengths.append(np.array([count_words(text, language) for text in side]))

    def learn(self, pairs: Mined, taken: np.ndarray, *, static: bool = False) -> LexicalModel:
        """Links of the pairs that are taken, and of the seed pairs."""
        sides = []
        for texts, rows, known in zip(self.texts, (pairs.source, pairs.target), self.seed_pairs):
            sides.append([*known, *(texts[row] for row in rows[taken])])
        corpus = Corpus.in_memory({self.languages: sides})
        settings = LinkSettings()
        return fit(link_views(corpus, settings), settings, seed=self.seed, static=static)

    def mine(self, learnt: Mined | None) -> tuple[Mined, Evidence]:
        """All pairs, and what is found for sources that lost their targets."""
        kept = min(3 * K, *self.sizes)
        if learnt is None:
            forward, backward = both_ways(*self.dense, kept, memory=self.memory)
        else:
            forward, backward = self._with_links(learnt, kept)
        pairs, leads = self._select(forward, backward, learnt is not None)
        # The likelier half of the pairs: their sources have a translation, which is then taken away.
        likely = pairs.source[: max(1, len(pairs.source) // 2)]
        count = max(1, round(_IMPOSTORS * len(pairs.source)))
        losers = self.random.permutation(likely)[:count]
        partner = np.full(self.sizes[0], -1)
        partner[pairs.source] = pairs.target
        is_there = np.ones(self.sizes[1], bool)
        is_there[partner[losers]] = False
        fewer = _without(forward, backward, is_there)
        found, found_leads = self._select(*fewer, learnt is not None, is_there)
        is_wrong = np.isin(found.source, losers)
        evidence = Evidence(leads, found.score[is_wrong], found_leads[is_wrong], len(losers), self.sizes[0])
        return pairs, evidence

    def _select(
        self, forward: Neighbours, backward: Neighbours, has_links: bool, is_there: np.ndarray | None = None
    ) -> tuple[Mined, np.ndarray]:
        """Mutual pairs, best first, and their leads."""
        forward, backward = (Neighbours(side.rows[:, :K], side.scores[:, :K]) for side in (forward, backward))
        pairs = select(forward, backward, "distance", "mutual")
        if has_links:
            lengths = self.lengths[1] if is_there is None else self.lengths[1][is_there]
            pairs = by_length(pairs, self.lengths[0], lengths)
        hubness = backward.scores.mean(axis=1)[forward.rows]
        margins = np.sort(forward.scores - hubness / 2, axis=1)
        return pairs, (margins[:, -1] - margins[:, -2])[pairs.source]

    def _with_links(self, learnt: Mined, kept: int) -> tuple[Neighbours, Neighbours]:
        """Neighbours by both scores; of each source by links that did not learn from it."""
        ahead = Neighbours(np.zeros((self.sizes[0], kept), np.int64), np.zeros((self.sizes[0], kept)))
        back_rows, back_scores, agreements = [], [], []
        for fold in range(FOLDS):
            rows = np.flatnonzero(self.fold == fold)
            is_taken = self.fold[learnt.source] != fold
            model = self.learn(learnt, is_taken)
            source = model.encode(self.texts[0], self.languages[0], "query")
            target = model.encode(self.texts[1], self.languages[1], "document")
            agreements.append(_agreement(source, target, learnt.source[~is_taken], learnt.target[~is_taken]))
            deviation = _deviation((source[self.few[0]] @ target[self.few[1]].T).toarray())
            parts = [self.dense[0][rows] / self.dense_deviation, source[rows] / np.float32(deviation)]
            forward, backward = both_ways(parts, [self.dense[1], target], min(kept, len(rows)), memory=self.memory)
            ahead.rows[rows, : forward.rows.shape[1]] = forward.rows
            ahead.scores[rows, : forward.rows.shape[1]] = forward.scores
            back_rows.append(rows[backward.rows])
            back_scores.append(backward.scores)
        agreement = float(np.concatenate(agreements).mean())
        if agreement < AGREEMENT:
            raise ValueError(
                f"links of some of the {len(learnt.score)} pairs that the model finds do not tell the others from "
                f"random ones ({100 * agreement:.0f} %, 50 being chance): does it know both languages, and do the "
                "heaps translate each other? Give another model or seed pairs."
            )
        backward = Neighbours(*best_first(np.hstack(back_rows), np.hstack(back_scores), kept, 1e-6))
        return ahead, backward


def _centred(vectors: np.ndarray) -> np.ndarray:
    """(N, D) vectors without the mean of their heap, of unit length."""
    ready = unit(np.asarray(vectors, np.float32))
    ready = ready - ready.mean(axis=0)
    return unit(ready)


def _deviation(scores: np.ndarray) -> float:
    """Of scores between random sentences, from the quartiles."""
    low, high = np.quantile(scores, [0.25, 0.75])
    return float(high - low) / 1.349 or 1.0


def _agreement(source, target, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """(P,) whether pairs score more by links than their sources do with the next pair's target; a tie is half."""
    if not len(rows):
        return np.array([])
    own = source[rows].multiply(target[columns]).sum(axis=1)
    other = source[rows].multiply(target[np.roll(columns, 1)]).sum(axis=1)
    return (own > other) + 0.5 * (own == other)


def _without(forward: Neighbours, backward: Neighbours, is_there: np.ndarray) -> tuple[Neighbours, Neighbours]:
    """Neighbours as they are found without some targets; those that are there are numbered anew."""
    order = np.argsort(~is_there[forward.rows], axis=1, kind="stable")  # those that are not there come last
    rows = np.take_along_axis(forward.rows, order, axis=1)
    scores = np.take_along_axis(forward.scores, order, axis=1)
    number = np.maximum(np.cumsum(is_there) - 1, 0)
    return Neighbours(number[rows], scores), Neighbours(backward.rows[is_there], backward.scores[is_there])


def _of_precision(pairs: Mined, evidence: Evidence, precision: float) -> tuple[Mined, Precision | None]:
    """The most pairs, from the best on, of an estimated precision.

    With q the share of sources without their target that get a pair all the same, R right pairs and N sources, the
    number of pairs is R + (N - R) q: which gives R. Of the pairs above a threshold (N - R) q(threshold) are wrong for
    want of a translation. Besides, the translation may be there and another target be taken for it. The median lead of
    wrong pairs is known: as many as have a lower one, or even twice as many, are wrong at most (Storey 2002).

    Args:
        pairs: mined, best first.
        evidence: of what is wrong.
        precision: wanted.
    """
    found = len(evidence.wrong_scores)
    total = len(pairs.score)
    false_rate = min(found / evidence.losers, 0.99)
    right = np.clip((total - evidence.sources * false_rate) / (1 - false_rate), 0, total)
    without = evidence.sources - right
    counts = np.arange(1, total + 1)
    # Of each pair how many wrong ones score as much; one more, so that few impostors do not promise too much.
    above = found - np.searchsorted(np.sort(evidence.wrong_scores), pairs.score, side="left")
    unpaired = without * (above + 1) / (evidence.losers + 1)
    median = np.median(evidence.wrong_leads) if found else 0.0
    close = np.cumsum(evidence.leads <= median)
    confused = 2.0 * close
    is_confusion = confused > unpaired
    wrong = np.minimum(np.maximum(unpaired, confused), counts)
    estimates = 1 - wrong / counts
    good = np.flatnonzero(estimates >= precision)
    if not len(good):
        return Mined(*(part[:0] for part in pairs)), None
    last = good[-1]
    if is_confusion[last]:
        ends = 2 * beta.ppf([0.025, 0.975], close[last] + 0.5, counts[last] - close[last] + 0.5)
    else:
        shares = beta.ppf([0.025, 0.975], above[last] + 0.5, evidence.losers - above[last] + 0.5)
        ends = without * shares / counts[last]
    high, low = np.clip(1 - ends, 0, 1)
    recall = min(float((counts[last] - wrong[last]) / max(right, 1)), 1.0)
    estimate = Precision(
        float(pairs.score[last]),
        float(estimates[last]),
        float(low),
        float(high),
        recall,
        float(without / evidence.sources),
        evidence.losers,
    )
    return Mined(*(part[: last + 1] for part in pairs)), estimate
