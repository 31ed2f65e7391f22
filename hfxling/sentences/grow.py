"""From two texts to a bitext: mine, learn from what was mined, mine again.

The first round uses an encoder's vectors, or links of known pairs, or both. The mean of each text is subtracted from
its vectors, and the score of a pair is compared with the nearest neighbours of both sides (half CSLS). Links, and a
linear head on the vectors, are learnt from the pairs found. From then on both scores count, each divided by the
deviation of its scores between random sentences. Whatever judges a source has not learnt from it: each third of the
sources is left out in turn. `impostors` estimates how good the pairs are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from hfxling.data.corpus import Corpus
from hfxling.data.filters import word_counts
from hfxling.encoders.fusion import spread
from hfxling.methods.lexical import LinkSettings, fit
from hfxling.methods.lexical.data import link_views
from hfxling.methods.siamese.choice import fit_form

from .blocks import both_ways
from .engine import Mined
from .impostors import Impostors, mutual_pairs, of_precision
from .neighbours import TIE, Neighbours, best_first, one_or_all, unit
from .precision import Precision

FOLDS = 3
LOOSE = 0.7  # estimated precision of the pairs that are learnt from
K = 4  # neighbours that a score is compared with
AGREEMENT = 0.65  # share of pairs not learnt from that links must score above pairs with a random target
GAIN = 1.01  # growth of the number of good pairs below which no further round is worth it
LEAST = 20  # pairs to begin with
# The head that is learnt each round: encoder and pairs count alike.
HEAD = {"shrinkage": 0.1, "anchor": 1.0}
# Weight of the dense score beside that of links, each divided by its deviation: of a quarter, a half and one, the best
# on twelve heaps of development text (benchmarks/mining_lengths.py).
DENSE_SHARE = 0.5
MOST_BLANK = 0.5  # share of a text's sentences that may have no vector of their own
NO_PAIRS = Mined(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))
_NOTHING = 1e-5  # a centred vector shorter than this says nothing
_SAMPLE = 500  # sentences of a side from which the deviation of scores is measured


@dataclass(frozen=True)
class Round:
    """What a round found.

    Attributes:
        number: number of the round, from 0.
        learnt: number of pairs that were learnt from, known ones included.
        mined: number of mined pairs, whatever their score.
        kept: number of pairs that the next round learns from.
        strict: number of pairs of the wanted precision.
        estimate: their estimated precision; None if no threshold gives the wanted one.
    """

    number: int
    learnt: int
    mined: int
    kept: int
    strict: int
    estimate: Precision | None


@dataclass(frozen=True)
class Grown:
    """The result of all rounds."""

    pairs: Mined  # of the wanted precision, best first
    learnt: Mined  # the pairs that a model is to learn from, beside known ones
    rounds: list[Round]  # all of them
    best: Round  # the round that found the pairs


def grow(
    texts: Sequence[Sequence[str]],
    languages: tuple[str, str],
    *,
    vectors: Sequence[np.ndarray] | None = None,
    known: tuple[Sequence[str], Sequence[str]] = ((), ()),
    rounds: int = 5,
    precision: float = 0.95,
    seed: int = 42,
    memory: int | str = "4GiB",
    report: Callable[[Round, Mined, tuple[Impostors, Impostors]], None] = lambda this, pairs, given: None,
) -> Grown:
    """Mine, learn from what was mined and from known pairs, and mine again, until there are hardly more good pairs.

    Args:
        texts: N and M sentences, at least 15.
        languages: codes of both.
        vectors: (N, D) and (M, D) vectors of an encoder, compared by cosine; without them only links of known pairs
            count.
        known: known pairs that links learn from; none of their sentences is in the texts.
        rounds: largest number of rounds after the first.
        precision: wanted precision of the bitext.
        seed: random seed of folds and links.
        memory: memory that the search may use.
        report: called with every round, the pairs that it mined, and what `of_precision` judges them by.
    """
    heaps = Heaps(texts, languages, vectors, known, seed, memory)
    learnt = NO_PAIRS
    history: list[tuple[Round, Mined, Mined]] = []
    for number in range(rounds + 1):
        pairs, given = heaps.mine(learnt)
        strict, estimate = of_precision(pairs, given, precision)
        loose, _ = of_precision(pairs, given, min(LOOSE, precision))
        count = len(known[0]) + len(learnt.score)
        this = Round(number, count, len(pairs.score), len(loose.score), len(strict.score), estimate)
        report(this, pairs, given)
        history.append((this, strict, loose))
        if number and this.strict < GAIN * history[-2][0].strict:
            break
        if len(loose.score) + len(known[0]) < LEAST:
            raise ValueError(
                f"only {len(loose.score)} of the {len(pairs.score)} pairs found are likely translations, too few to "
                "continue; do the two texts hold translations of each other, and does the model know both languages? "
                "Give another model or known pairs."
            )
        learnt = loose
    best, strict, loose = max(history[-2:], key=lambda each: each[0].strict)  # the last round may be the poorer one
    return Grown(strict, loose, [each[0] for each in history], best)


class Heaps:
    """Both heaps, with their vectors if there are any."""

    def __init__(self, texts, languages: tuple[str, str], vectors, known, seed: int, memory: int | str):
        self.texts = [list(side) for side in texts]
        self.sizes = tuple(len(side) for side in self.texts)
        self.languages = tuple(languages)
        self.known = known
        self.seed = seed
        self.memory = memory
        random = np.random.default_rng(seed)
        self.fold = random.permutation(np.arange(self.sizes[0]) % FOLDS)
        self.sample = [random.permutation(size)[:_SAMPLE] for size in self.sizes]
        self.dense = None if vectors is None else [centred(side, seed) for seed, side in enumerate(vectors)]
        self.lengths = [word_counts(side, language) for side, language in zip(self.texts, self.languages)]

    def mine(self, learnt: Mined) -> tuple[Mined, tuple[Impostors, Impostors]]:
        """All pairs, best first, and their impostors."""
        has_links = len(learnt.score) + len(self.known[0]) > 0
        if has_links:
            forward, backward = self._learnt_neighbours(learnt)
        else:
            forward, backward = both_ways(*self.dense, K + 1, memory=self.memory)
        return mutual_pairs(forward, backward, self.lengths if has_links else None)

    def _learnt_neighbours(self, learnt: Mined) -> tuple[Neighbours, Neighbours]:
        """K + 1 neighbours by links and head; those of a source by links and a head that did not learn from it."""
        forward = Neighbours(np.zeros((self.sizes[0], K + 1), np.int64), np.zeros((self.sizes[0], K + 1)))
        source_rows, source_scores, agreements = [], [], []  # for every fold, what the targets find in it
        for fold in range(FOLDS):
            rows = np.flatnonzero(self.fold == fold)
            taught, held_out = self._parts(learnt, fold)
            source, target = self.links_of(*taught)
            agreements.append(_agreement(source, target, *held_out))
            sides = [[source[rows]], [target]]
            if self.dense is not None:
                dense, deviation = self._head(*taught)
                links_deviation = spread((source[self.sample[0]] @ target[self.sample[1]].T).toarray())
                scale = DENSE_SHARE / deviation
                # The inner products of the parts add up, so it is enough to weight the source's vectors.
                sides = [
                    [scale * dense[0][rows], source[rows] / np.float32(links_deviation)],
                    [dense[1], target],
                ]
            of_fold, of_targets = both_ways(*map(one_or_all, sides), K + 1, memory=self.memory)
            forward.rows[rows], forward.scores[rows] = of_fold
            source_rows.append(rows[of_targets.rows])
            source_scores.append(of_targets.scores)
        agreement = np.concatenate(agreements)
        if len(agreement) and agreement.mean() < AGREEMENT:
            raise ValueError(
                f"links learnt from some of the {len(agreement)} pairs found do not tell the others from random pairs "
                f"({100 * agreement.mean():.0f} %, where 50 is chance): do the two texts hold translations of each "
                "other, and does the model know both languages? Give another model or known pairs."
            )
        backward = Neighbours(*best_first(np.hstack(source_rows), np.hstack(source_scores), K + 1, TIE["dot"]))
        return forward, backward

    def _parts(self, learnt: Mined, fold: int) -> tuple[tuple, tuple]:
        """Rows of source and target of the pairs outside a fold, and of those inside."""
        is_inside = self.fold[learnt.source] == fold
        outside = learnt.source[~is_inside], learnt.target[~is_inside]
        return outside, (learnt.source[is_inside], learnt.target[is_inside])

    def links_of(self, source_rows: np.ndarray, target_rows: np.ndarray) -> tuple[csr_array, csr_array]:
        """Sparse vectors of both heaps by links of some pairs and the known ones."""
        sides = []
        for texts, rows, known in zip(self.texts, (source_rows, target_rows), self.known):
            sides.append([*known, *(texts[row] for row in rows)])
        corpus = Corpus.in_memory({self.languages: sides})
        settings = LinkSettings()
        model = fit(link_views(corpus, settings), settings, seed=self.seed, static=False)
        source = model.encode(self.texts[0], self.languages[0], "query")
        return source, model.encode(self.texts[1], self.languages[1], "document")

    def _head(self, source_rows: np.ndarray, target_rows: np.ndarray) -> tuple[list[np.ndarray], float]:
        """Vectors of both heaps by a head learnt from some pairs, and the deviation of their scores."""
        ready = self.dense
        if len(source_rows) >= LEAST:
            source = self.dense[0][source_rows].astype(np.float64)
            target = self.dense[1][target_rows].astype(np.float64)
            maps = fit_form("discriminant", HEAD, source, target)
            ready = [unit(affine(side).astype(np.float32)) for affine, side in zip(maps, self.dense)]
        return ready, spread(ready[0][self.sample[0]] @ ready[1][self.sample[1]].T)


def centred(vectors: np.ndarray, seed: int = 0) -> np.ndarray:
    """(N, D) vectors without the mean of their text, at unit length; those without a direction get a random one.

    `seed` must differ between the texts: the same seed would give them the same random directions.
    """
    given = np.asarray(vectors, np.float32)
    rows = np.flatnonzero(given.any(axis=1))  # a static model has no vector for a text of which it knows no word
    ready = np.zeros_like(given)
    if len(rows):
        ready[rows] = unit(given[rows])
        ready[rows] -= ready[rows].mean(axis=0)
    blank = np.flatnonzero(np.linalg.norm(ready, axis=1) < _NOTHING)
    if len(blank) > MOST_BLANK * len(given):
        raise ValueError(
            f"{len(blank)} of {len(given)} sentences of a text have no vector or the same one: the model does not know "
            "the language. Give another model or known pairs."
        )
    # Each gets a random direction, so that it is near others only by chance.
    ready[blank] = np.random.default_rng(seed).normal(size=(len(blank), given.shape[1]))
    return unit(ready)


def _agreement(source: csr_array, target: csr_array, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """(P,) whether links score a pair above its source with the next pair's target; a tie counts one half."""
    if not len(rows):
        return np.array([])
    own = source[rows].multiply(target[columns]).sum(axis=1)
    other = source[rows].multiply(target[np.roll(columns, 1)]).sum(axis=1)
    return (own > other) + 0.5 * (own == other)
