"""Statistical word links: two HMMs, one a direction, trained to agree.

The model is that of Vogel et al. (1996), the agreement that of Liang et al. (2006). It knows words only by their ids,
and learns from a few hundred sentence pairs, where a neural aligner needs thousands. An encoder that knows both
languages may help: with the similarities of the words in context, each E step multiplies the probability of a target
word t, given a source word s of a sentence of S words, by

    (FLOOR + (1 - FLOOR) S softmax_s(cos(x_s, y_t) / TEMPERATURE)) ** WEIGHT

and likewise in the other direction. So what the encoder knows and what the text repeats help each other: the tables
learn from links that the encoder helped to find. Only the tables and jumps are learnt, never the encoder.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from safetensors.numpy import load_file, save_file
from threadpoolctl import ThreadpoolController
from transformers.utils import cached_file

from hfxling.data.segment import Vocabulary
from hfxling.data.texts import picked
from hfxling.files import atomic_path
from hfxling.missing import one_line_where_missing
from hfxling.progress import bar

from .classes import word_classes
from .links import TEMPERATURE, attention
from .pairs import EncodedPairs, like_sizes, stack

MODEL_1, AGREE, HMM = 5, 3, 2  # rounds of EM by Model 1 and by HMM; the directions agree from round AGREE on
NULL = 0.1  # prior probability that a word has no counterpart
SAME = 10  # words of equal classes (numbers, names, cognates) start 10 times likelier. Chosen on xlwa-dev gold links
FLOOR, WEIGHT = 0.02, 0.7  # of the encoder inside EM. Chosen on xlwa-dev gold links
WINDOW = 50  # jumps beyond count as this long
NEVER = 1e-10  # probability of two words that never occurred together
# Odds against chance of words that known links do not link. Most of them were rare in the text that was learnt from, or
# not in it, and something else, such as an encoder, may know better. Chosen on xlwa-dev gold links.
UNLINKED = 0.1
_PRIOR_JUMPS = 100  # the jumps stored with links count as 100 jumps of the text
_LEAST = 1e-3  # expected links below this are not counted
_CELLS = 300_000  # size of a batch: source words x target words x pairs
_MOST_EMPTY = 20  # a grid of a batch's distinct words is quicker up to 20 times the batch's own cells


class _Tables(NamedTuple):
    """One direction: how probable a target class is given a source class, and a jump along the source."""

    keys: np.ndarray  # (N,) sorted source class * target classes + target class; source class 0 is NULL
    probability: np.ndarray  # (N,)
    jump: np.ndarray  # (2 WINDOW + 1,), jumps of -WINDOW..WINDOW
    classes: int  # of the target side
    unknown: float = NEVER  # probability of a pair that is not among the keys


Similarities = Sequence[np.ndarray]
_ARRAYS = ("keys", "probability", "jump")  # arrays of a table that are saved


class _Cells(NamedTuple):
    """Which words of a batch's sentence pairs occur together, in one direction.

    Two words that occur together several times are looked up in the tables once: these have millions of keys, and a
    batch a few thousand.
    """

    met: np.ndarray  # (K,) places in the tables, see `places_of`
    places: np.ndarray  # (B, T, 1 + S) int32, of each cell in `met`


class _Batch(NamedTuple):
    """Sentence pairs of similar lengths; lists have an entry for each direction, as `LinkPrior.tables` has."""

    rows: np.ndarray  # (B,) numbers of the pairs
    sides: list[tuple[np.ndarray, np.ndarray]]  # class ids (B, S) and (B, T), padded with -1; then exchanged
    cells: list[_Cells]
    factors: list[np.ndarray | None]  # (B, T, S) and (B, S, T) factors from an encoder, None without one


class LinkPrior:
    """Link probabilities of a language pair's words, given both sentences.

    Args:
        languages: codes of source and target.
        classes: for each side (V,) the class of every word id; no word has class 0.
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
        agree: Sequence[bool] = (True, False),
        equal: np.ndarray | None = None,
        similarities: Similarities | None = None,
    ) -> list[LinkPrior]:
        """Learn from the sentences of one language pair; seconds for a few thousand, with a bar.

        Directions that are trained to agree give fewer wrong links, but also fewer translations to choose from.

        Args:
            pairs: the text.
            classes: for each side those of every id, see `word_classes`.
            agree: for every prior whether its directions agree or are independent; by default one prior of each kind.
            equal: for every source class the target class that is written alike, see `equal_classes`; links between
                these start likelier than others.
            similarities: for every pair (S, T) cosines of its words by an encoder, which every E step uses.
        """
        tables, batches = _untrained(classes, pairs, equal, similarities)
        tables = _trained(tables, batches, range(AGREE), agree=False)  # so far all are the same
        turns = range(AGREE, MODEL_1 + HMM)
        return [cls(pairs.languages, classes, _trained(tables, batches, turns, agree=each)) for each in agree]

    @classmethod
    def of_odds(cls, languages: tuple[str, str], there, back) -> LinkPrior:
        """A prior from known odds of translation against chance, as a lexical model keeps them.

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
            tables.append(_Tables(keys[order], values[order].astype(np.float64), _first_jumps(), width, UNLINKED))
        return cls(languages, classes, tables)

    def with_jumps_of(self, pairs: EncodedPairs) -> LinkPrior:
        """The same links with the jumps of a text; a text without words changes nothing."""
        tables = list(self.tables)
        for _ in range(HMM):
            jumps = [_PRIOR_JUMPS * table.jump for table in self.tables]
            for batch in self._batches(pairs.source, pairs.target):
                for direction, (_, expected_jumps, _) in enumerate(_expected_both(tables, batch)):
                    jumps[direction] += expected_jumps
            tables = [table._replace(jump=jump / jump.sum()) for table, jump in zip(tables, jumps)]
        return LinkPrior(self.languages, self.classes, tables)

    def log_likelihoods(
        self,
        source: Sequence[Sequence[int]],
        target: Sequence[Sequence[int]],
        similarities: Similarities | None = None,
    ) -> np.ndarray:
        """(N,) mean log probability of a word given the other side's, both directions averaged; see `posteriors_of`.

        A pair with an empty side gets -inf.
        """
        result = np.full(len(source), -np.inf)
        for batch in self._batches(source, target, similarities):
            total = np.zeros(len(batch.rows))
            for (_, _, log_likelihood), (_, target_ids) in zip(_expected_both(self.tables, batch), batch.sides):
                total += log_likelihood / (target_ids >= 0).sum(1) / 2
            result[batch.rows] = total
        return result

    def posteriors(
        self, source: Sequence[Sequence[int]], target: Sequence[Sequence[int]]
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        """For each sentence pair the (S, T) probabilities that a target word comes from a source word, and vice versa.

        1 minus the sum of a column of the first, or of a row of the second, is the probability of no counterpart. Both
        sides are word ids of every sentence.
        """
        return posteriors_of([self], source, target)[0]

    def _batches(
        self, source: Sequence, target: Sequence, similarities: Similarities | None = None
    ) -> Iterator[_Batch]:
        for rows, sides in _by_length(self.classes, source, target):
            cells = [cells_of(table, *side) for table, side in zip(self.tables, sides)]
            yield _Batch(rows, sides, cells, encoder_factors(rows, sides, similarities))

    def _posteriors(self, batch: _Batch) -> list[np.ndarray]:
        """(B, T, S) and (B, S, T) posteriors of links."""
        (forward, *_), (backward, *_) = _expected_both(self.tables, batch)
        return [forward[:, :, 1:], backward[:, :, 1:]]

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
        """Read what `save` wrote, from a folder or a Hub repository."""
        file = prior_file(languages)
        tensors = load_file(cached_file(folder, file, **hub_kwargs))
        try:
            classes = tensors["classes.source"], tensors["classes.target"]
            tables = []
            for name, emitted_classes in zip(("forward", "backward"), reversed(classes)):
                arrays = [tensors[f"{name}.{field}"] for field in _ARRAYS]
                table = _Tables(*arrays, int(emitted_classes.max()) + 1)
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
    """`LinkPrior.posteriors` for priors that were learnt together, so that they know the same words.

    Similarities are as for `LinkPrior.learn`.
    """
    posteriors: list[list] = []
    for _ in priors:
        # Batches leave out pairs with an empty side: these keep what is set here.
        empty = [np.zeros((len(s), len(t))) for s, t in zip(source, target)]
        posteriors.append(list(zip(empty, empty)))
    for batch in priors[0]._batches(source, target, similarities):  # the places in its tables hold for all priors
        for prior, pair_posteriors in zip(priors, posteriors):
            forward, backward = prior._posteriors(batch)
            for position, row in enumerate(batch.rows):
                s, t = len(source[row]), len(target[row])
                pair_posteriors[row] = forward[position, :t, :s].T, backward[position, :s, :t]
    return posteriors


def link_counts_of(
    priors: Sequence[LinkPrior], pairs: EncodedPairs, sizes: Sequence[int], similarities: Similarities | None = None
):
    """(V, W) sparse matrix of how often each source word is expected to be linked to each target word.

    For several priors, which were learnt together, it is their sum.
    """
    from scipy.sparse import coo_array

    links_of: list[list] = [[] for _ in priors]
    for batch in priors[0]._batches(pairs.source, pairs.target, similarities):  # as in `posteriors_of`
        source, target = map(stack, picked(batch.rows, pairs.source, pairs.target))
        for prior, links in zip(priors, links_of):
            forward, backward = prior._posteriors(batch)
            mean = (forward.swapaxes(1, 2) + backward) / 2
            pair, i, j = np.nonzero(mean > _LEAST)
            links.append((mean[pair, i, j], source[pair, i], target[pair, j]))
    counts = []
    for links in links_of:
        values, rows, columns = map(np.concatenate, zip(*links))
        counts.append(coo_array((values, (rows, columns)), shape=tuple(sizes)).tocsr())
    return sum(counts[1:], start=counts[0])


def translation_counts(
    pairs: EncodedPairs, vocabularies: Sequence[Vocabulary], similarities: Similarities | None = None
):
    """(V, W) sparse link counts for a lexicon, the sum of an agreeing and an independent prior learnt from the text.

    Independent directions keep rarer translations, which raises P@1 if agreement is too sure of itself.
    """
    classes = [word_classes(vocabulary) for vocabulary in vocabularies]
    sizes = [len(vocabulary) for vocabulary in vocabularies]
    priors = LinkPrior.learn(pairs, classes, similarities=similarities)
    return link_counts_of(priors, pairs, sizes, similarities)


def load_prior(folder: str, config, languages: Sequence[str], **hub_kwargs) -> LinkPrior | None:
    """The prior that a model was trained with for these languages, in either order; None if there was none."""
    for order in (tuple(languages), tuple(languages)[::-1]):
        if "-".join(order) in config.priors:
            with one_line_where_missing(folder, "model", "an aligner with a statistical prior"):
                prior = LinkPrior.load(folder, order, **hub_kwargs)
            sizes = [config.vocab_sizes[language] for language in order]
            if [len(classes) for classes in prior.classes] != sizes:
                raise ValueError(
                    f"{folder}: {prior_file(order)} was made with other vocabularies; fetch or publish it again."
                )
            return prior if order == tuple(languages) else prior.reversed()
    return None


def _check_table(table: _Tables) -> None:
    """Raise ValueError if a table holds values that no training gives."""
    if table.keys.ndim != 1 or table.probability.shape != table.keys.shape or table.jump.shape != (2 * WINDOW + 1,):
        raise ValueError(f"arrays of shape {table.keys.shape}, {table.probability.shape} and {table.jump.shape}")
    if len(table.keys) == 0 or table.keys[0] < 0 or not (np.diff(table.keys) > 0).all():
        raise ValueError("keys that are not in ascending order")
    for numbers in (table.probability, table.jump):
        if not (np.isfinite(numbers).all() and numbers.min() >= 0):
            raise ValueError("numbers that are not probabilities")


def prior_file(languages: Sequence[str]) -> str:
    """Name of a language pair's prior in a model folder."""
    return f"prior_{'-'.join(languages)}.safetensors"


def _by_length(classes: Sequence[np.ndarray], source: Sequence, target: Sequence) -> Iterator[tuple[np.ndarray, list]]:
    """Rows of similar lengths and the sides for both directions (see `_Batch`), without pairs with an empty side."""
    lengths = np.array([list(map(len, source)), list(map(len, target))]).T
    order = np.lexsort((lengths[:, 1], lengths[:, 0]))  # by the source's length, then by the target's
    order = order[lengths[order].min(1) > 0]
    for rows in like_sizes(lengths, order, _CELLS):
        sides = []
        for side_classes, side in zip(classes, (source, target)):
            ids = stack([side[row] for row in rows])
            sides.append(np.where(ids >= 0, side_classes[ids], -1))
        yield rows, [(sides[0], sides[1]), (sides[1], sides[0])]


def _untrained(
    classes: Sequence[np.ndarray],
    pairs: EncodedPairs,
    equal: np.ndarray | None,
    similarities: Similarities | None,
) -> tuple[list[_Tables], list[_Batch]]:
    """Tables of all classes that occur together in a sentence pair, and the text with its places in them.

    All have the same probability, except for words that are written alike.
    """
    blank = []
    for emitted_classes in classes[::-1]:
        blank.append(_Tables(np.empty(0, int), np.empty(0), _first_jumps(), int(emitted_classes.max() + 1)))
    batches = []
    for rows, sides in _by_length(classes, pairs.source, pairs.target):
        cells = []
        for table, side in zip(blank, sides):
            cells.append(_distinct(table, *side))  # places follow when all keys are known
        batches.append(_Batch(rows, sides, cells, encoder_factors(rows, sides, similarities)))
    if not batches:
        names = "-".join(pairs.languages)
        raise ValueError(f"{names}: none of {len(pairs.source)} pairs has words on both sides; give parallel text.")
    tables = []
    for direction, table in enumerate(blank):
        all_keys = np.concatenate([batch.cells[direction].met for batch in batches])
        # The counts are not needed, but without them numpy (2.3 and later) hashes, which takes 20 times as long.
        keys = np.unique(all_keys, return_counts=True)[0]
        keys = keys[keys >= 0]  # without the key of padding
        tables.append(table._replace(keys=keys, probability=np.full(len(keys), 1.0 / table.classes)))
        for batch in batches:
            cells = batch.cells[direction]
            batch.cells[direction] = cells._replace(met=places_of(tables[direction], cells.met))
    if equal is not None:
        tables = _likelier_where_equal(tables, equal)
    return tables, batches


def _first_jumps() -> np.ndarray:
    """(2 WINDOW + 1,) probabilities of jumps that learning starts from; one word ahead is likeliest."""
    jumps = np.exp(-0.5 * np.abs(np.arange(-WINDOW, WINDOW + 1) - 1.0))
    return jumps / jumps.sum()


def _likelier_where_equal(tables: Sequence[_Tables], equal: np.ndarray) -> list[_Tables]:
    """Both directions' tables, with words of equal classes likelier; `equal` is as for `LinkPrior.learn`."""
    equal_source = np.zeros(tables[0].classes, int)  # for every target class the source class that is written alike
    equal_source[equal] = np.arange(len(equal))
    equal_source[0] = 0  # source classes without an equal one wrote here
    likelier = []
    for table, equal_class in zip(tables, (equal, equal_source)):
        given, emitted = np.divmod(table.keys, table.classes)
        factor = np.where(equal_class[given] == emitted, SAME, 1)  # no emitted class is 0, so "none" matches nothing
        likelier.append(table._replace(probability=factor * table.probability))
    return likelier


def _trained(tables: Sequence[_Tables], batches: Sequence[_Batch], turns: range, *, agree: bool) -> list[_Tables]:
    """Tables after these rounds of EM."""
    with bar(total=len(turns) * len(batches), unit="batches", label="links", delay=2) as shown:
        for turn in turns:
            hmm = turn >= MODEL_1
            counts = [np.zeros(len(table.keys) + 1) for table in tables]  # the last one is for padding, see `places_of`
            jumps = [np.ones(2 * WINDOW + 1), np.ones(2 * WINDOW + 1)]  # each as if seen once: no jump is impossible
            for batch in batches:
                expected = _expected_both(tables, batch, hmm=hmm)
                posteriors = [posterior for posterior, _, _ in expected]
                if agree:
                    posteriors = _agreed(*posteriors)
                for direction, (posterior, cells) in enumerate(zip(posteriors, batch.cells)):
                    met_counts = np.bincount(cells.places.ravel(), posterior.ravel(), len(cells.met))
                    counts[direction][cells.met] += met_counts  # each place occurs once
                    if hmm:
                        jumps[direction] += expected[direction][1]
                shown.update()
            estimated = []
            for table, key_counts, jump in zip(tables, counts, jumps):
                estimated.append(_estimated(table, key_counts[:-1], jump, hmm=hmm))
            tables = estimated
    return tables


def keys_of(table: _Tables, source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """(B, T, 1 + S) keys of every target word with NULL and every source word, -1 at padding."""
    with_null = np.pad(source, ((0, 0), (1, 0)))[:, None]
    keys = with_null * table.classes + target[:, :, None]
    return np.where((with_null >= 0) & (target[:, :, None] >= 0), keys, -1)


def places_of(table: _Tables, keys: np.ndarray) -> np.ndarray:
    """Places of keys in the table, int32; the place after the last for keys that it lacks."""
    places = np.searchsorted(table.keys, keys)
    is_there = table.keys[places.clip(max=len(table.keys) - 1)] == keys
    return np.where(is_there, places, len(table.keys)).astype(np.int32)


def cells_of(table: _Tables, source: np.ndarray, target: np.ndarray) -> _Cells:
    """What occurs together in a batch's sides, looked up in the table."""
    cells = _distinct(table, source, target)
    return cells._replace(met=places_of(table, cells.met))


def _distinct(table: _Tables, source: np.ndarray, target: np.ndarray) -> _Cells:
    """What occurs together in a batch's sides; `met` still holds keys, sorted to make looking them up quick."""
    keys = keys_of(table, source, target)
    given, given_numbers = _numbered(np.pad(source, ((0, 0), (1, 0))))
    emitted, emitted_numbers = _numbered(target)
    grid = len(given) * len(emitted)
    if grid > _MOST_EMPTY * keys.size:
        met, places = np.unique(keys, return_inverse=True)
        return _Cells(met, places.astype(np.int32))
    # The same, in a fifth of the time: every pair of the batch's own words is a square of a grid, in the order of the
    # keys. Square 0 is padding; it stands for everything that is not a pair of words.
    squares = given_numbers[:, None, :] * len(emitted) + emitted_numbers[:, :, None]
    squares[keys < 0] = 0
    is_met = np.zeros(grid, bool)
    is_met[squares] = True
    met_squares = np.flatnonzero(is_met)
    row, column = np.divmod(met_squares, len(emitted))
    met = given[row] * table.classes + emitted[column]
    met[met_squares == 0] = -1
    place_of_square = is_met.cumsum(dtype=np.int32) - 1
    return _Cells(met, place_of_square[squares])


def _numbered(classes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distinct classes of a side, -1 (padding) first, and for each class its number among them."""
    distinct, numbers = np.unique(np.append(-1, classes), return_inverse=True)
    return distinct, numbers[1:].reshape(classes.shape)


def encoder_factors(
    rows: np.ndarray, sides: list[tuple[np.ndarray, np.ndarray]], similarities: Similarities | None
) -> list[np.ndarray | None]:
    """(B, T, S) and (B, S, T) factors by which an encoder multiplies emissions; NULL keeps its weight."""
    if similarities is None:
        return [None, None]
    source, target = sides[0]
    padded = np.zeros((len(rows), source.shape[1], target.shape[1]), np.float32)
    for cells, row in zip(padded, rows):
        cosines = similarities[row]
        cells[: cosines.shape[0], : cosines.shape[1]] = cosines
    sizes = np.stack([(source >= 0).sum(1), (target >= 0).sum(1)], axis=1)
    words = sizes.astype(np.float32)
    forward, backward = attention(padded, sizes, TEMPERATURE)
    factors = []
    for weights, count in ((forward.swapaxes(1, 2), words[:, 0]), (backward, words[:, 1])):
        # The equation at the top of this file. S times a softmax is 1 on average over the S words, so it can be
        # compared with NULL, which is left as it is.
        factors.append((FLOOR + (1 - FLOOR) * weights * count[:, None, None]) ** WEIGHT)
    return factors


def emissions_of(
    table: _Tables, cells: _Cells, factor: np.ndarray | None, source: np.ndarray, target: np.ndarray
) -> np.ndarray:
    """(B, T, 1 + S) probability of each target word from NULL and each source word, with the share of NULL."""
    probability = table.probability.take(cells.met, mode="clip").astype(np.float32)
    probability[cells.met == len(table.keys)] = table.unknown
    emissions = probability[cells.places]
    emissions[:, :, 1:] *= np.float32(1 - NULL) * (source >= 0)[:, None]
    emissions[:, :, 0] *= NULL
    if factor is not None:
        emissions[:, :, 1:] *= factor
    # After the end NULL emits with probability 1, so the position stays where it is and no likelihood is lost.
    emissions[target < 0] = np.eye(1, emissions.shape[2])
    return emissions


def _expected_both(tables: Sequence[_Tables], batch: _Batch, *, hmm: bool = True) -> list[tuple]:
    """`expected_counts` of both directions."""
    expected = []
    for table, cells, factor, side in zip(tables, batch.cells, batch.factors, batch.sides):
        emissions = emissions_of(table, cells, factor, *side)
        expected.append(expected_counts(emissions, side, table.jump if hmm else None))
    return expected


def expected_counts(emissions: np.ndarray, side: Sequence[np.ndarray], jump: np.ndarray | None) -> tuple:
    """(B, T, 1 + S) posterior of NULL and every source word, zero at padding; expected jumps; (B,) log likelihoods.

    Without jump probabilities it is Model 1, which has no jumps.
    """
    inside, real = (side[0] >= 0).astype(np.float32), (side[1] >= 0).astype(np.float32)
    if jump is not None:
        # Matrices are small: several threads make nothing quicker, are slower on a busy machine, and change the last
        # digits.
        with _linear_algebra().limit(limits=1, user_api="blas"):
            return _expected_by_hmm(emissions, inside, real, jump.astype(np.float32))
    size = inside.sum(1)[:, None]
    total = emissions[:, :, 0] + emissions[:, :, 1:].sum(2) / size
    posterior = emissions * (real / total)[:, :, None]
    posterior[:, :, 1:] /= size[:, :, None]
    return posterior, None, _log_likelihoods(total, real)


@cache
def _linear_algebra() -> ThreadpoolController:
    """Control of the libraries that numpy has loaded."""
    return ThreadpoolController()


def _expected_by_hmm(emissions: np.ndarray, inside: np.ndarray, real: np.ndarray, jump: np.ndarray) -> tuple:
    """`expected_counts` by forward and backward passes; `inside` (B, S) and `real` (B, T) are 1 where there are words.

    A state is a source position, and whether the target word is linked to it (0), or to NULL after a word that was (1).
    A word without a counterpart leaves the position where it is, and the next jump starts from there.
    """
    emissions = np.ascontiguousarray(emissions.swapaxes(0, 1))  # (T, B, 1 + S): a step's numbers are side by side
    null, words = emissions[:, :, :1], emissions[:, :, 1:]
    positions = np.arange(inside.shape[1])
    jump_places = np.clip(positions - positions[:, None], -WINDOW, WINDOW) + WINDOW  # in `jump`, from i to k
    steps = jump[jump_places]
    leaving = np.maximum(inside @ steps.T, 1e-30)  # sum of the jumps from i, as a sentence's jumps end inside it
    start = inside * jump[np.clip(positions + 1, 0, WINDOW) + WINDOW]  # jumps from the place before the first word
    start /= start.sum(1, keepdims=True)
    reached, position = start, start
    linked = np.empty(words.shape, np.float32)  # the word is linked to the position
    unlinked = np.empty_like(linked)  # the word is linked to NULL, and the position is that of the last link
    departing = np.empty_like(linked)  # the sum of both, divided by the sum of the jumps from there
    scale = np.empty(words.shape[:2], np.float32)  # each word's states are scaled to sum to 1, or they would vanish
    for j in range(len(words)):
        linked[j] = reached * words[j]
        unlinked[j] = position * null[j]
        position = linked[j] + unlinked[j]
        scale[j] = position.sum(1)
        position /= scale[j, :, None]
        departing[j] = position / leaving
        reached = departing[j] @ steps * inside
    posterior, jumps = np.empty_like(emissions), np.zeros_like(steps)
    future = np.ones_like(inside)  # likelihood of what follows, scaled alike; times the states it gives the posterior
    for j in reversed(range(len(words))):
        future /= scale[j, :, None]
        posterior[j, :, 1:] = linked[j] * future
        posterior[j, :, 0] = (unlinked[j] * future).sum(1)
        following = words[j] * future
        if j:  # the first word is reached from outside the sentence
            jumps += departing[j - 1].T @ following
        future = following @ steps.T / leaving + null[j] * future
    counts = np.bincount(jump_places.ravel(), (jumps * steps).ravel(), 2 * WINDOW + 1)
    return posterior.swapaxes(0, 1) * real[:, :, None], counts, _log_likelihoods(scale.T, real)


def _log_likelihoods(word_likelihoods: np.ndarray, real: np.ndarray) -> np.ndarray:
    """(B,) sums of the logarithms over a sentence's words."""
    return np.log(np.where(real, word_likelihoods, 1), dtype=float).sum(1)


def _agreed(forward: np.ndarray, backward: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(B, T, 1 + S) and (B, S, 1 + T) posteriors; those of links are replaced by the product of both directions."""
    both = forward[:, :, 1:] * backward[:, :, 1:].swapaxes(1, 2)
    forward = np.concatenate([forward[:, :, :1], both], axis=2)
    return forward, np.concatenate([backward[:, :, :1], both.swapaxes(1, 2)], axis=2)


def _estimated(table: _Tables, counts: np.ndarray, jumps: np.ndarray, *, hmm: bool) -> _Tables:
    """New tables from expected counts; words that occurred together are never less likely than words that did not."""
    source = table.keys // table.classes
    probability = counts / np.maximum(np.bincount(source, counts)[source], 1e-300)
    return table._replace(probability=np.maximum(probability, NEVER), jump=jumps / jumps.sum() if hmm else table.jump)
