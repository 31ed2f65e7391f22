"""Statistical word links: two HMMs, one a direction, trained to agree.

Vogel et al. (1996) for the model, Liang et al. (2006) for the agreement. It knows no words but by their ids, and learns
from a few hundred sentence pairs where a neural aligner wants thousands. An encoder that knows both languages may help:
with similarities of the words in context, each E step multiplies the probability of a target word t given a source word
s of a sentence of S words by

    (FLOOR + (1 - FLOOR) S softmax_s(cos(x_s, y_t) / TEMPERATURE)) ** WEIGHT

and likewise in the other direction. What the encoder knows and what the text repeats then inform each other: the tables
learn from links that the encoder helped to find, and only the tables and jumps are learnt, never the encoder.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from safetensors.numpy import load_file, save_file
from transformers.utils import cached_file

from hfxling.data.segment import Vocabulary
from hfxling.data.texts import picked
from hfxling.files import atomic_path
from hfxling.missing import one_line_where_missing
from hfxling.progress import bar

from .classes import word_classes
from .links import TEMPERATURE, attention
from .pairs import EncodedPairs, stack

MODEL_1, AGREE, HMM = 5, 3, 2  # rounds of EM by Model 1 and by HMM; the directions agree from round AGREE on
NULL = 0.1  # prior probability that a word has no counterpart
SAME = 10  # times as probable words of equal classes start: numbers, names, cognates. Chosen on xlwa-dev gold links
FLOOR, WEIGHT = 0.02, 0.7  # of the encoder inside EM. Chosen on xlwa-dev gold links
WINDOW = 50  # jumps beyond count as this long
NEVER = 1e-10  # probability of a pair of words that never met
_PRIOR_JUMPS = 100  # those that links come with count as so many of a text's own
_LEAST = 1e-3  # expected links that are counted
_CELLS = 300_000  # source words x target words x pairs of a batch


class _Tables(NamedTuple):
    """One direction: how probable a target class is given a source class, and a jump along the source."""

    keys: np.ndarray  # (N,) sorted source class * target classes + target class; source class 0 is NULL
    probability: np.ndarray  # (N,)
    jump: np.ndarray  # (2 WINDOW + 1,), jumps of -WINDOW..WINDOW
    classes: int  # of the target side


Similarities = Sequence[np.ndarray]
_ARRAYS = ("keys", "probability", "jump")  # of a table, as they are saved


class _Batch(NamedTuple):
    """Sentence pairs of like lengths; the fields of each direction are (its own side, the other side)."""

    rows: np.ndarray  # (B,) numbers of the pairs
    sides: list[tuple[np.ndarray, np.ndarray]]  # class ids (B, S) and (B, T), padded with -1; the same exchanged
    places: list[np.ndarray]  # (B, T, 1 + S) and (B, S, 1 + T) of the words in the tables, see `_places`
    factors: list[np.ndarray | None]  # (B, T, S) and (B, S, T) of an encoder, None without one


class LinkPrior:
    """Link probabilities of a language pair's words, given both sentences.

    Args:
        languages: codes of source and target.
        classes: for each side (V,) the class of every word id; 0 is no class of a word.
        tables: target given source, source given target.
    """

    def __init__(self, languages: tuple[str, str], classes: Sequence[np.ndarray], tables: Sequence[_Tables]):
        self.languages, self.classes, self.tables = tuple(languages), tuple(classes), tuple(tables)

    @classmethod
    def learn(
        cls,
        pairs: EncodedPairs,
        classes: Sequence[np.ndarray],
        *,
        equal: np.ndarray | None = None,
        similarities: Similarities | None = None,
    ) -> LinkPrior:
        """Learn from the sentences of one language pair; seconds for a few thousand, with a bar.

        The directions are trained to agree, which gives fewer wrong links, and fewer translations to choose from.

        Args:
            pairs: the text.
            classes: for each side those of every id, see `word_classes`.
            equal: of every source class the target class that is written alike, see `equal_classes`; their links start
                likelier than others.
            similarities: of every pair (S, T) cosines of its words by an encoder, which every E step heeds.

        Raises:
            ValueError: no pair with words on both sides.
        """
        tables, batches = _untrained(classes, pairs, equal, similarities)
        return cls(pairs.languages, classes, _trained(tables, batches, range(MODEL_1 + HMM), agree=True))

    @classmethod
    def learn_both(
        cls,
        pairs: EncodedPairs,
        classes: Sequence[np.ndarray],
        *,
        equal: np.ndarray | None = None,
        similarities: Similarities | None = None,
    ) -> list[LinkPrior]:
        """A prior whose directions agree, and one whose directions are independent; arguments as for `learn`."""
        tables, batches = _untrained(classes, pairs, equal, similarities)
        tables = _trained(tables, batches, range(AGREE), agree=False)  # so far both are the same
        turns = range(AGREE, MODEL_1 + HMM)
        agreeing = _trained(tables, batches, turns, agree=True)
        independent = _trained(tables, batches, turns, agree=False)
        return [cls(pairs.languages, classes, agreeing), cls(pairs.languages, classes, independent)]

    @classmethod
    def of_odds(cls, languages: tuple[str, str], there, back) -> LinkPrior:
        """A prior of known odds of translation against chance, as a lexical model keeps them.

        `there` is (V, W) sparse, P(t|s) / P(t) for every source and target word; `back` (W, V) the same from target to
        source. A word without a counterpart is as probable as by chance, and jumps are those that learning starts from.
        """
        classes = [np.arange(size) for size in there.shape]
        tables = []
        for odds in (there, back):
            cells = odds.tocoo()
            width = odds.shape[1]
            keys = np.concatenate([np.arange(width), cells.row.astype(np.int64) * width + cells.col])
            values = np.concatenate([np.ones(width), cells.data])
            order = np.argsort(keys)
            tables.append(_Tables(keys[order], values[order].astype(np.float64), _first_jumps(), width))
        return cls(languages, classes, tables)

    def with_jumps_of(self, pairs: EncodedPairs) -> LinkPrior:
        """The same links, with the jumps that are expected in a text; a text without words changes nothing."""
        tables = list(self.tables)
        for _ in range(HMM):
            jumps = [_PRIOR_JUMPS * table.jump for table in self.tables]
            for batch in self._batches(pairs.source, pairs.target):
                for d, (_, own_jumps, _) in enumerate(_expected_both(tables, batch)):
                    jumps[d] += own_jumps
            tables = [table._replace(jump=jump / jump.sum()) for table, jump in zip(tables, jumps)]
        return LinkPrior(self.languages, self.classes, tables)

    def log_likelihoods(
        self,
        source: Sequence[Sequence[int]],
        target: Sequence[Sequence[int]],
        similarities: Similarities | None = None,
    ) -> np.ndarray:
        """(N,) mean log probability of a word given the other side's, both directions averaged; arguments as above.

        A pair with an empty side has -inf.
        """
        result = np.full(len(source), -np.inf)
        for batch in self._batches(source, target, similarities):
            total = np.zeros(len(batch.rows))
            for (_, _, log_likelihood), (_, target_ids) in zip(_expected_both(self.tables, batch), batch.sides):
                total += log_likelihood / (target_ids >= 0).sum(1) / 2
            result[batch.rows] = total
        return result

    def posteriors(
        self,
        source: Sequence[Sequence[int]],
        target: Sequence[Sequence[int]],
        similarities: Similarities | None = None,
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        """For each sentence pair the (S, T) probabilities that a target word comes from a source word, and vice versa.

        What is missing to 1 in a column of the first, or a row of the second, is the probability of no counterpart.
        Both sides are word ids of every sentence, similarities those of `learn`.
        """
        return posteriors_of([self], source, target, similarities)[0]

    def _batches(
        self, source: Sequence, target: Sequence, similarities: Similarities | None = None
    ) -> Iterator[_Batch]:
        for rows, sides in _batches(self.classes, source, target):
            places = [_places(table, _keys(table, *side)) for table, side in zip(self.tables, sides)]
            yield _Batch(rows, sides, places, _factors(rows, sides, similarities))

    def _posteriors(self, batch: _Batch) -> list[np.ndarray]:
        """(B, T, S) and (B, S, T) posteriors of links."""
        (forward, *_), (backward, *_) = _expected_both(self.tables, batch)
        return [forward[:, :, 1:], backward[:, :, 1:]]

    def link_counts(self, pairs: EncodedPairs, sizes: Sequence[int], similarities: Similarities | None = None):
        """(V, W) sparse matrix of how often each source word is expected to be linked to each target word."""
        from scipy.sparse import coo_array

        values, rows, columns = [], [], []
        for batch in self._batches(pairs.source, pairs.target, similarities):
            forward, backward = self._posteriors(batch)
            links = (forward.swapaxes(1, 2) + backward) / 2
            pair, i, j = np.nonzero(links > _LEAST)
            source, target = map(stack, picked(batch.rows, pairs.source, pairs.target))
            values.append(links[pair, i, j])
            rows.append(source[pair, i])
            columns.append(target[pair, j])
        places = np.concatenate(rows), np.concatenate(columns)
        return coo_array((np.concatenate(values), places), shape=tuple(sizes)).tocsr()

    def save(self, folder: str | Path) -> None:
        """Write `prior_SOURCE-TARGET.safetensors` in the folder."""
        tensors = {"classes.source": self.classes[0], "classes.target": self.classes[1]}
        for name, table in zip(("forward", "backward"), self.tables):
            for field in _ARRAYS:
                tensors[f"{name}.{field}"] = getattr(table, field)
        with atomic_path(Path(folder) / prior_file(self.languages)) as scratch:
            save_file(tensors, scratch)

    @classmethod
    def load(cls, folder: str, languages: Sequence[str], **hub_kwargs) -> LinkPrior:
        """Read what `save` wrote, from a folder or a Hub repository.

        Raises:
            ValueError: it is damaged.
        """
        file = prior_file(languages)
        tensors = load_file(cached_file(folder, file, **hub_kwargs))
        try:
            classes = tensors["classes.source"], tensors["classes.target"]
            tables = []
            for name, of in zip(("forward", "backward"), reversed(classes)):
                arrays = [tensors[f"{name}.{field}"] for field in _ARRAYS]
                table = _Tables(*arrays, int(of.max()) + 1)
                _check_table(table)
                tables.append(table)
            if min(classes[0].min(), classes[1].min()) < 0:
                raise ValueError("a class below 0")
        except (KeyError, ValueError, TypeError) as error:
            raise ValueError(f"{folder}: {file} is damaged ({error}); fetch or publish it again.") from None
        return cls(languages, classes, tables)

    def reversed(self) -> LinkPrior:
        """The same with source and target exchanged."""
        return LinkPrior(self.languages[::-1], self.classes[::-1], self.tables[::-1])


def posteriors_of(
    priors: Sequence[LinkPrior],
    source: Sequence[Sequence[int]],
    target: Sequence[Sequence[int]],
    similarities: Similarities | None = None,
) -> list[list[tuple[np.ndarray, np.ndarray]]]:
    """`LinkPrior.posteriors` of priors that were learnt together, as `learn_both` does: they know the same words."""
    posteriors: list[list] = []
    for _ in priors:
        nothing = [np.zeros((len(s), len(t))) for s, t in zip(source, target)]
        posteriors.append(list(zip(nothing, nothing)))
    for batch in priors[0]._batches(source, target, similarities):
        for prior, of_prior in zip(priors, posteriors):
            forward, backward = prior._posteriors(batch)
            for i, row in enumerate(batch.rows):
                s, t = len(source[row]), len(target[row])
                of_prior[row] = forward[i, :t, :s].T, backward[i, :s, :t]
    return posteriors


def translation_counts(
    pairs: EncodedPairs, vocabularies: Sequence[Vocabulary], similarities: Similarities | None = None
):
    """(V, W) sparse link counts for a lexicon: the sum of an agreeing and an independent prior's, learnt from the text.

    Independent directions keep rarer translations, which raises P@1 where agreement is too sure of itself.
    """
    classes = [word_classes(vocabulary) for vocabulary in vocabularies]
    sizes = [len(vocabulary) for vocabulary in vocabularies]
    agreeing, independent = LinkPrior.learn_both(pairs, classes, similarities=similarities)
    return agreeing.link_counts(pairs, sizes, similarities) + independent.link_counts(pairs, sizes, similarities)


def load_prior(folder: str, config, languages: Sequence[str], **hub_kwargs) -> LinkPrior | None:
    """The prior that a model was trained with for these languages, in whichever order; None where there was none."""
    for order in (tuple(languages), tuple(languages)[::-1]):
        if "-".join(order) in config.priors:
            with one_line_where_missing(folder, "model", "an aligner with a statistical prior"):
                prior = LinkPrior.load(folder, order, **hub_kwargs)
            sizes = [config.vocab_sizes[language] for language in order]
            if [len(of) for of in prior.classes] != sizes:
                raise ValueError(f"{folder}: {prior_file(order)} is of other vocabularies; fetch or publish it again.")
            return prior if order == tuple(languages) else prior.reversed()
    return None


def _check_table(table: _Tables) -> None:
    """Raise ValueError where a table holds what no training gives."""
    if table.keys.ndim != 1 or table.probability.shape != table.keys.shape or table.jump.shape != (2 * WINDOW + 1,):
        raise ValueError(f"arrays of shape {table.keys.shape}, {table.probability.shape} and {table.jump.shape}")
    if len(table.keys) == 0 or table.keys[0] < 0 or not (np.diff(table.keys) > 0).all():
        raise ValueError("keys that do not rise")
    for numbers in (table.probability, table.jump):
        if not (np.isfinite(numbers).all() and numbers.min() >= 0):
            raise ValueError("probabilities that are none")


def prior_file(languages: Sequence[str]) -> str:
    """Name of a language pair's prior in a model folder."""
    return f"prior_{'-'.join(languages)}.safetensors"


def _batches(classes: Sequence[np.ndarray], source: Sequence, target: Sequence) -> Iterator[tuple[np.ndarray, list]]:
    """Rows of like lengths and the sides of either direction, see `_Batch`; pairs with an empty side are left out."""
    lengths = np.array([list(map(len, source)), list(map(len, target))])
    order = np.lexsort(lengths[::-1])
    order = order[lengths[:, order].min(0) > 0]
    start = 0
    while start < len(order):
        longest = np.maximum.accumulate(lengths[:, order[start : start + _CELLS]], axis=1).prod(0)
        size = max(1, np.searchsorted(longest * np.arange(1, len(longest) + 1), _CELLS, side="right"))
        rows = order[start : start + size]
        sides = []
        for known, side in zip(classes, (source, target)):
            ids = stack([side[row] for row in rows])
            sides.append(np.where(ids >= 0, known[ids], -1))
        yield rows, [(sides[0], sides[1]), (sides[1], sides[0])]
        start += size


def _untrained(
    classes: Sequence[np.ndarray],
    pairs: EncodedPairs,
    equal: np.ndarray | None,
    similarities: Similarities | None,
) -> tuple[list[_Tables], list[_Batch]]:
    """Tables of all classes that meet in a sentence pair, and the text with its places in them.

    All are equally probable, but those of words that are written alike.

    Raises:
        ValueError: no pair with words on both sides.
    """
    blank = []
    for of in classes[::-1]:
        blank.append(_Tables(np.empty(0, int), np.empty(0), _first_jumps(), int(of.max() + 1)))
    batches, met = [], []
    for rows, sides in _batches(classes, pairs.source, pairs.target):
        # Every cell is sorted once, here: keys of all batches together are looked up in order and without repetition.
        distinct, places = [], []
        for table, side in zip(blank, sides):
            keys, inverse = np.unique(_keys(table, *side), return_inverse=True)
            distinct.append(keys)
            places.append(inverse.astype(np.int32))
        batches.append(_Batch(rows, sides, places, _factors(rows, sides, similarities)))
        met.append(distinct)
    if not batches:
        names = "-".join(pairs.languages)
        raise ValueError(f"{names}: none of {len(pairs.source)} pairs has words on both sides; give parallel text.")
    tables = []
    for d, table in enumerate(blank):
        keys = np.unique(np.concatenate([distinct[d] for distinct in met]), return_counts=True)[0]  # else it hashes
        keys = keys[keys >= 0]
        tables.append(table._replace(keys=keys, probability=np.full(len(keys), 1.0 / table.classes)))
        for batch, distinct in zip(batches, met):
            batch.places[d] = _places(tables[d], distinct[d])[batch.places[d]]
    return tables if equal is None else _likelier_where_equal(tables, equal), batches


def _first_jumps() -> np.ndarray:
    """(2 WINDOW + 1,) probabilities of jumps that learning starts from; one word ahead is likeliest."""
    jumps = np.exp(-0.5 * np.abs(np.arange(-WINDOW, WINDOW + 1) - 1.0))
    return jumps / jumps.sum()


def _likelier_where_equal(tables: Sequence[_Tables], equal: np.ndarray) -> list[_Tables]:
    """Both directions' tables where words of equal classes are likelier; `equal` is as for `LinkPrior.learn`."""
    turned = np.zeros(tables[0].classes, int)  # from target classes to source classes
    turned[equal] = np.arange(len(equal))
    turned[0] = 0
    likelier = []
    for table, own_equal in zip(tables, (equal, turned)):
        source, target = np.divmod(table.keys, table.classes)
        factor = np.where(own_equal[source] == target, SAME, 1)
        likelier.append(table._replace(probability=factor * table.probability))
    return likelier


def _trained(tables: Sequence[_Tables], batches: Sequence[_Batch], turns: range, *, agree: bool) -> list[_Tables]:
    """Tables after these rounds of EM."""
    with bar(total=len(turns) * len(batches), unit="batches", label="links", delay=2) as shown:
        for turn in turns:
            hmm = turn >= MODEL_1
            counts = [np.zeros(len(table.keys) + 1) for table in tables]
            jumps = [np.ones(2 * WINDOW + 1), np.ones(2 * WINDOW + 1)]
            for batch in batches:
                expected = _expected_both(tables, batch, hmm=hmm)
                posteriors = [posterior for posterior, _, _ in expected]
                if agree and turn >= AGREE:
                    posteriors = _agreed(*posteriors)
                for d, (posterior, places) in enumerate(zip(posteriors, batch.places)):
                    counts[d] += np.bincount(places.ravel(), posterior.ravel(), len(counts[d]))
                    if hmm:
                        jumps[d] += expected[d][1]
                shown.update()
            tables = [_estimated(table, x[:-1], jump, hmm=hmm) for table, x, jump in zip(tables, counts, jumps)]
    return tables


def _keys(table: _Tables, source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """(B, T, 1 + S) keys of every target word with NULL and every source word, -1 at padding."""
    with_null = np.pad(source, ((0, 0), (1, 0)))[:, None]
    keys = with_null * table.classes + target[:, :, None]
    return np.where((with_null >= 0) & (target[:, :, None] >= 0), keys, -1)


def _places(table: _Tables, keys: np.ndarray) -> np.ndarray:
    """Places of keys among the table's, int32; the one behind the last for those that it has not."""
    places = np.searchsorted(table.keys, keys)
    known = table.keys[places.clip(max=len(table.keys) - 1)] == keys
    return np.where(known, places, len(table.keys)).astype(np.int32)


def _factors(
    rows: np.ndarray, sides: list[tuple[np.ndarray, np.ndarray]], similarities: Similarities | None
) -> list[np.ndarray | None]:
    """(B, T, S) and (B, S, T) that an encoder multiplies emissions by; NULL keeps its weight."""
    if similarities is None:
        return [None, None]
    source, target = sides[0]
    padded = np.zeros((len(rows), source.shape[1], target.shape[1]), np.float32)
    for place, row in zip(padded, rows):
        own = similarities[row]
        place[: own.shape[0], : own.shape[1]] = own
    sizes = np.stack([(source >= 0).sum(1), (target >= 0).sum(1)], axis=1)
    words = sizes.astype(np.float32)
    forward, backward = attention(padded, sizes, TEMPERATURE)
    factors = []
    for weights, count in ((forward.swapaxes(1, 2), words[:, 0]), (backward, words[:, 1])):
        factors.append((FLOOR + (1 - FLOOR) * weights * count[:, None, None]) ** WEIGHT)
    return factors


def _emissions(
    table: _Tables, places: np.ndarray, factor: np.ndarray | None, source: np.ndarray, target: np.ndarray
) -> np.ndarray:
    """(B, T, 1 + S) probability of each target word from NULL and from each source word, the share of NULL included."""
    emissions = table.probability.astype(np.float32).take(places, mode="clip")
    emissions[places == len(table.keys)] = NEVER
    emissions[:, :, 1:] *= np.float32(1 - NULL) * (source >= 0)[:, None]
    emissions[:, :, 0] *= NULL
    if factor is not None:
        emissions[:, :, 1:] *= factor
    emissions[target < 0] = np.eye(1, emissions.shape[2])  # behind the end everything stays where it is
    return emissions


def _expected_both(tables: Sequence[_Tables], batch: _Batch, *, hmm: bool = True) -> list[tuple]:
    """`_expected` of both directions."""
    expected = []
    for table, places, factor, side in zip(tables, batch.places, batch.factors, batch.sides):
        emissions = _emissions(table, places, factor, *side)
        expected.append(_expected(emissions, side, table.jump if hmm else None))
    return expected


def _expected(emissions: np.ndarray, batch: Sequence[np.ndarray], jump: np.ndarray | None) -> tuple:
    """(B, T, 1 + S) posterior of NULL and every source word, zero at padding; expected jumps; (B,) log likelihoods.

    By Model 1 where there are no jump probabilities, and then without jumps.
    """
    inside, real = (batch[0] >= 0).astype(np.float32), (batch[1] >= 0).astype(np.float32)
    if jump is None:
        size = inside.sum(1)[:, None]
        total = emissions[:, :, 0] + emissions[:, :, 1:].sum(2) / size
        posterior = emissions * (real / total)[:, :, None]
        posterior[:, :, 1:] /= size[:, :, None]
        return posterior, None, np.log(np.where(real, total, 1), dtype=float).sum(1)
    null, words = emissions[:, :, :1], emissions[:, :, 1:]
    positions = np.arange(inside.shape[1])
    offsets = np.clip(positions - positions[:, None], -WINDOW, WINDOW) + WINDOW
    jump = jump.astype(np.float32)
    steps = jump[offsets]
    leaving = np.maximum(inside @ steps.T, 1e-30)  # a sentence's jumps end inside it
    start = inside * jump[np.clip(positions + 1, 0, WINDOW) + WINDOW]
    before = start / start.sum(1, keepdims=True)
    shape = *emissions.shape[:2], 2, len(positions)  # linked to a position, or to none and there before
    states = np.empty(shape, np.float32)
    scale = np.empty(shape[:2], np.float32)
    for j in range(emissions.shape[1]):
        reached = before if j == 0 else (before / leaving) @ steps * inside
        state = np.stack([reached * words[:, j], before * null[:, j]], axis=1)
        scale[:, j] = state.sum((1, 2))
        states[:, j] = state / scale[:, j, None, None]
        before = states[:, j].sum(1)
    posterior, jumps = np.empty_like(emissions), np.zeros_like(steps)
    future = np.ones_like(inside)
    for j in reversed(range(emissions.shape[1])):
        posterior[:, j, 1:] = states[:, j, 0] * future
        posterior[:, j, 0] = (states[:, j, 1] * future).sum(1)
        linked = words[:, j] * future / scale[:, j, None]
        unlinked = null[:, j] * future / scale[:, j, None]
        if j:
            jumps += (states[:, j - 1].sum(1) / leaving).T @ linked
        future = linked @ steps.T / leaving + unlinked
    counts = np.bincount(offsets.ravel(), (jumps * steps).ravel(), 2 * WINDOW + 1)
    return posterior * real[:, :, None], counts, np.log(np.where(real, scale, 1), dtype=float).sum(1)


def _agreed(forward: np.ndarray, backward: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(B, T, 1 + S) and (B, S, 1 + T) posteriors with those of links replaced by the product of both directions'."""
    both = forward[:, :, 1:] * backward[:, :, 1:].swapaxes(1, 2)
    forward = np.concatenate([forward[:, :, :1], both], axis=2)
    return forward, np.concatenate([backward[:, :, :1], both.swapaxes(1, 2)], axis=2)


def _estimated(table: _Tables, counts: np.ndarray, jumps: np.ndarray, *, hmm: bool) -> _Tables:
    """New tables from expected counts."""
    source = table.keys // table.classes
    probability = counts / np.maximum(np.bincount(source, counts)[source], 1e-300)
    return table._replace(probability=np.maximum(probability, NEVER), jump=jumps / jumps.sum() if hmm else table.jump)
