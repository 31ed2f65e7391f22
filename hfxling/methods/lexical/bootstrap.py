"""From a few seed pairs and two heaps of text to a bitext and a model: mine, learn from what was mined, mine again.

A model finds whatever it has learnt from, right or wrong. So sources are judged by models that did not learn from what
was mined for them, and seed pairs, hidden in the heaps, by models that did not learn from them: what is found for these
says how good the rest is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from hfxling.data.corpus import Corpus
from hfxling.data.filters import count_words
from hfxling.data.sources import Pair
from hfxling.models.modeling_lexical import LexicalModel
from hfxling.sentences.blocks import both_ways
from hfxling.sentences.engine import Mined, by_length, select
from hfxling.sentences.neighbours import Neighbours, best_first
from hfxling.sentences.precision import Found, Precision, choose_threshold, found_pairs, halves

from .arguments import LinkSettings
from .data import link_views
from .train import fit

FOLDS = 3
LOOSE = 0.5  # estimated precision of what is learnt from; links forgive much of the rest
_K = 4


@dataclass(frozen=True)
class Round:
    """What a round found.

    Attributes:
        number: from 0.
        learnt: pairs that the models had learnt from, on average.
        mined: pairs that were mined, whatever their score.
        found: share of the hidden seed pairs with a target that were found.
        kept: pairs that the next round learns from.
        strict: pairs of the wanted precision.
        estimate: of these; None where no threshold gives it.
    """

    number: int
    learnt: int
    mined: int
    found: float
    kept: int
    strict: int
    estimate: Precision | None


@dataclass(frozen=True)
class Bitext:
    """What bootstrapping ends with: rows of both heaps and their scores, best first, the model, and all rounds."""

    pairs: Mined
    model: LexicalModel
    rounds: list[Round]


def bootstrap(
    settings: LinkSettings,
    languages: Pair,
    seed_pairs: tuple[Sequence[str], Sequence[str]],
    source: Sequence[str],
    target: Sequence[str],
    *,
    rounds: int = 5,
    precision: float = 0.95,
    unpaired: float | None = None,
    seed: int = 42,
    memory: int | str = "4GiB",
    report: Callable[[Round, Mined], None] = lambda this, pairs: None,
) -> Bitext:
    """Mine and relearn until hidden seed pairs stop gaining, or no threshold gives the wanted precision any more.

    Of the last two rounds the one with more pairs of the wanted precision counts.

    Args:
        settings: of the lexical encoder.
        languages: codes of source and target.
        seed_pairs: texts and their translations, at least 100.
        source: heap of text; none of it a seed pair's.
        target: the other heap.
        rounds: at most, after the one that learns from the seed alone.
        precision: wanted of the bitext.
        unpaired: share of sources without a translation in the other heap; by default estimated each round.
        seed: of folds and models.
        memory: that the search may use.
        report: called with every round and the pairs it mined, strict or not.
    """
    heaps = _Heaps(settings, languages, seed_pairs, source, target, seed, memory)
    learnt: Mined | None = None
    history: list[tuple[Round, Mined, Mined]] = []
    for number in range(rounds + 1):
        mined = heaps.mine(learnt)
        pairs, of_seed = found_pairs(mined, heaps.kept, heaps.sizes)
        strict, estimate = _at(pairs, of_seed, precision, unpaired)
        _, forgiven = _at(pairs, of_seed, min(LOOSE, precision), unpaired)
        loose = _reaching(mined, forgiven.threshold if forgiven else np.inf)
        found = float(of_seed.right[heaps.kept].mean())
        count = len(seed_pairs[0]) + (0 if learnt is None else len(learnt.score))
        this = Round(number, count, len(pairs.score), found, len(loose.score), len(strict.score), estimate)
        report(this, pairs)
        history.append((this, strict, loose))
        earlier = history[-2][0] if number else None
        has_peaked = earlier is not None and earlier.estimate and (found <= earlier.found or not estimate)
        if has_peaked or not len(loose.score):
            break
        learnt = loose
    _, strict, loose = max(history[-2:], key=lambda each: each[0].strict)
    is_new = (loose.source < len(source)) & (loose.target < len(target))
    model = heaps.learn(heaps.with_seed(loose, is_new), static=True)
    return Bitext(strict, model, [each for each, _, _ in history])


class _Heaps:
    """Both heaps, with the seed pairs at their ends."""

    def __init__(
        self, settings: LinkSettings, languages: Pair, seed_pairs, source, target, seed: int, memory: int | str
    ):
        self.settings, self.seed, self.memory = settings, seed, memory
        self.pair = tuple(languages)
        self.seed_pairs, self.sizes = tuple(map(list, seed_pairs)), (len(source), len(target))
        known = len(self.seed_pairs[0])
        self.kept, _ = halves(known, seed)
        self.source = [*source, *self.seed_pairs[0]]
        self.target = [*target, *(text for text, is_kept in zip(self.seed_pairs[1], self.kept) if is_kept)]
        heaps = zip((self.source, self.target), self.pair)
        self.lengths = [np.array([count_words(text, lang) for text in heap]) for heap, lang in heaps]
        folds = np.random.default_rng(seed)
        self.fold = np.concatenate([folds.permutation(np.arange(count) % FOLDS) for count in (len(source), known)])

    def learn(self, sides: tuple[list[str], list[str]], static: bool = False) -> LexicalModel:
        """A model of sentence pairs."""
        corpus = Corpus.in_memory({self.pair: sides})
        return fit(link_views(corpus, self.settings), self.settings, seed=self.seed, static=static)

    def with_seed(self, learnt: Mined | None, taken: np.ndarray, fold: int | None = None) -> tuple[list, list]:
        """Seed pairs of other folds and the mined pairs that are taken."""
        is_seed = np.ones(len(self.kept), bool) if fold is None else self.fold[self.sizes[0] :] != fold
        sides = [[text for text, is_in in zip(side, is_seed) if is_in] for side in self.seed_pairs]
        if learnt is not None:
            for side, texts, rows in zip(sides, (self.source, self.target), learnt):
                side.extend(texts[row] for row in rows[taken])
        return tuple(sides)

    def mine(self, learnt: Mined | None) -> Mined:
        """Pairs of the heaps, seed pairs and all."""
        ahead = Neighbours(np.zeros((len(self.source), _K), np.int64), np.zeros((len(self.source), _K)))
        back = []
        for fold in range(FOLDS):
            rows = np.flatnonzero(self.fold == fold)
            taken = None if learnt is None else self.fold[learnt.source] != fold
            model = self.learn(self.with_seed(learnt, taken, fold))
            queries = self._encode(model, [self.source[row] for row in rows], 0)
            forward, backward = both_ways(queries, self._encode(model, self.target, 1), _K, memory=self.memory)
            ahead.rows[rows], ahead.scores[rows] = forward
            back.append((rows[backward.rows], backward.scores))
        backward = Neighbours(*best_first(*map(np.hstack, zip(*back)), _K, 1e-6))
        return by_length(select(ahead, backward, "distance", "mutual"), *self.lengths)

    def _encode(self, model: LexicalModel, texts: list[str], side: int) -> csr_array:
        return model.encode(texts, self.pair[side], ("query", "document")[side])


def _at(pairs: Mined, found: Found, precision: float, unpaired: float | None) -> tuple[Mined, Precision | None]:
    """The pairs of an estimated precision; none where no threshold gives it."""
    try:
        estimate = choose_threshold(found, precision=precision, unpaired=unpaired)
    except ValueError:
        return Mined(*(part[:0] for part in pairs)), None
    return _reaching(pairs, estimate.threshold), estimate


def _reaching(pairs: Mined, threshold: float) -> Mined:
    return Mined(*(part[pairs.score >= threshold] for part in pairs))
