"""From lines to links: from what the text repeats, from what an encoder knows, or from both in one EM.

A text is read in two views, as words and as pieces (Chinese and Japanese: as learnt words and as characters). In each
view an agreeing and an independent pair of HMMs learn from it (`prior.py`). With an encoder, every E step also uses its
similarities. The first links then show in which directions vectors of translations differ; these directions get less
weight (`word_map`), and EM begins anew. The posteriors of all HMMs, converted to the wanted units, and the encoder's
attention give the probability of every link (`probability.py`).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hfxling.data.segment import Encoding, Span, Vocabulary, default_segmenter, word_segmenter
from hfxling.data.texts import spread_rows
from hfxling.sentences.neighbours import unit_or_zero

from .aligner import AlignedLine, LineAligner, aligned_lines, membership, units_of
from .classes import equal_classes, word_classes
from .encoder import WordEncoder, similarities
from .links import PROBABILITY, SIMILARITIES, TEMPERATURE, SoftAlignment, attention, decode
from .pairs import EncodedPairs
from .prior import LinkPrior, posteriors_of
from .probability import THRESHOLDS, Directions, link_probability

logger = logging.getLogger(__name__)

LEARN_FROM = 20_000  # most pairs that an encoder reads for learning; without one, links learn from all pairs
LONGEST = 150  # segments of a sentence that links are learnt from, as in training an aligner
LONGEST_LINE = 2_000  # units of a line that is aligned
MAP_FROM = 2_000  # most pairs, the first ones, whose links the map of vectors is learnt from
SURE, SHRINKAGE = 0.8, 0.3  # least probability of these links; share of the identity in the map. Chosen on xlwa-dev


@dataclass(frozen=True)
class View:
    """One way to cut both languages into segments, and the links between them."""

    vocabularies: list[Vocabulary]  # of source and target
    # Link probabilities: an agreeing and an independent pair of directions; of a saved model only one pair.
    priors: list[LinkPrior]


@dataclass(frozen=True)
class _ReadPair:
    """What is known about a sentence pair before links are decided."""

    units: tuple[list[Span], list[Span]]
    memberships: list[tuple[np.ndarray, np.ndarray]]  # for every view (U, segments): which segments a unit is made of
    ids: list[tuple[list[int], list[int]]]  # for every view
    similarity: list[np.ndarray] | None  # (S, T) cosines by an encoder: of the units, then of every view's segments


class JointAligner(LineAligner):
    """From lines of text to links, by statistical links, an encoder, or both.

    Args:
        languages: codes of source and target.
        views: statistical links; [] for an encoder alone.
        encoder: similarities of words; None for links alone.
        units: as for `LineAligner`; segments are those of the first view.
        method: one of `METHODS`; by default "probability".

    Attributes:
        kind: which of these it is; `probability.py` has weights for each kind.
        word_map: (H, H) map that the encoder's vectors of words are multiplied by; None if none was learnt.

    Raises:
        ValueError: as `LineAligner`; a method that compares vectors, or segments as units, if there are none.
    """

    def __init__(
        self,
        languages: Sequence[str],
        views: Sequence[View],
        encoder: WordEncoder | None = None,
        *,
        units: str = "words",
        method: str | None = None,
    ):
        super().__init__(languages, units, method or PROBABILITY)
        if encoder is None and method in SIMILARITIES:
            raise ValueError(f"symmetrize={method} compares vectors, and links have none; give mean, or an encoder.")
        if units == "segments" and not views:
            raise ValueError("units=segments needs links, which are between segments; an encoder alone has none.")
        self.views, self.encoder = list(views), encoder
        self.word_map: np.ndarray | None = None
        self._already_read: dict[tuple[str, str], _ReadPair] = {}

    @classmethod
    def learn(
        cls,
        languages: Sequence[str],
        source: Sequence[str],
        target: Sequence[str],
        encoder: WordEncoder | None = None,
        **options,
    ) -> JointAligner:
        """Learn links from line-aligned text, in the views of `view_segmenters`; options are those of the class.

        An encoder is used in every E step, and reads at most `LEARN_FROM` pairs, see `learnt_rows`. A pair with an
        empty side teaches nothing.

        Raises:
            ValueError: no pair with words on both sides; and as the class.
        """
        if encoder is not None and len(source) > LEARN_FROM:
            logger.info("links are learnt from %d of the %d pairs, with the encoder", LEARN_FROM, len(source))
            rows = learnt_rows(len(source))
            source, target = [source[row] for row in rows], [target[row] for row in rows]
        views = []
        for segmenters in view_segmenters(languages):
            views.append(View(vocabularies_of_text(languages, (source, target), segmenters), []))
        aligner = cls(languages, views, encoder, **options)
        read = aligner._read if encoder is None else aligner._read_with_map
        aligner._learn_links(read(source, target))
        return aligner

    def _read_with_map(self, source: Sequence[str], target: Sequence[str]) -> list[_ReadPair]:
        """Learn the map of the encoder's vectors from the first pairs, and read all pairs with it."""
        kept_by_caller = dict(self.encoder.kept)
        first_pairs = source[:MAP_FROM], target[:MAP_FROM]
        for side in first_pairs:
            self.encoder.keep(side)  # needed for the first links, for the map learnt from them, and with the map
        self.word_map = learn_map(self.languages, self.views, self.encoder, *first_pairs)
        pairs = self._read_and_remember(source, target)
        self.encoder.kept = kept_by_caller
        return pairs

    def _read_and_remember(self, source: Sequence[str], target: Sequence[str]) -> list[_ReadPair]:
        """`_read`, so that the same pairs are not read again when they are aligned."""
        pairs = self._read(source, target)
        self._already_read = dict(zip(zip(source, target), pairs))
        return pairs

    def _learn_links(self, pairs: Sequence[_ReadPair]) -> None:
        """Fill every view's priors by EM."""
        for number, view in enumerate(self.views):
            source, target, cosines = [], [], []
            for pair in pairs:
                source_ids, target_ids = pair.ids[number]
                source.append(source_ids[:LONGEST])
                target.append(target_ids[:LONGEST])
                if self.encoder is not None:
                    cosines.append(pair.similarity[1 + number][:LONGEST, :LONGEST])
            classes = [word_classes(vocabulary) for vocabulary in view.vocabularies]
            equal = equal_classes(view.vocabularies)
            encoded = EncodedPairs(self.languages, source, target)
            view.priors[:] = LinkPrior.learn(encoded, classes, equal=equal, similarities=cosines or None)

    def forget(self) -> None:
        """Free the sentence pairs that were learnt from; to be aligned, they are read again."""
        self._already_read = {}

    @property
    def kind(self) -> str:
        """What the links are made from."""
        if not self.views:
            return "encoder"
        is_saved = len(self.views[0].priors) == 1
        if self.encoder is None:
            return "saved" if is_saved else "links"
        return "saved and encoder" if is_saved else "links and encoder"

    def _prepared(self, source: Sequence[str], target: Sequence[str]) -> tuple[list, np.ndarray]:
        """What is known about every pair with its weights, and the numbers of its units."""
        read = self._read(source, target)
        sizes = np.array([[len(pair.units[0]), len(pair.units[1])] for pair in read])
        weights = zip(*self._weights(read))  # pair by pair
        return list(zip(read, weights)), sizes

    def weights(self, source: Sequence[str], target: Sequence[str]) -> list[list[Directions]]:
        """For every prior, then for the encoder, the (S, T) forward and backward weights of every pair's units."""
        return self._weights(self._read(source, target))

    def log_likelihoods(self, source: Sequence[str], target: Sequence[str]) -> np.ndarray:
        """(N,) mean log probability of a segment given the other side, over both directions, all views and priors.

        The higher it is, the likelier the two sentences translate each other; it is -inf if a side is empty.
        """
        if not self.views:
            raise ValueError("an encoder alone has no probabilities of words; give links, or learn them from text.")
        read = self._read(source, target)
        scores = []
        for number, view in enumerate(self.views):
            source_ids = [pair.ids[number][0] for pair in read]
            target_ids = [pair.ids[number][1] for pair in read]
            cosines = None if self.encoder is None else [pair.similarity[1 + number] for pair in read]
            scores += [prior.log_likelihoods(source_ids, target_ids, cosines) for prior in view.priors]
        return np.mean(scores, axis=0)

    @property
    def decisive(self) -> int:
        """How many of `weights` are posteriors; for an encoder alone its attention takes their place."""
        return max(1, len(self.views[0].priors)) if self.views else 1

    def _read(self, source: Sequence[str], target: Sequence[str]) -> list[_ReadPair]:
        """Cut both sides into units and segments, and compare these if there is an encoder."""
        distinct = dict.fromkeys(zip(source, target))
        read = {pair: self._already_read[pair] for pair in distinct if pair in self._already_read}
        new = [pair for pair in distinct if pair not in read]
        sides = [[pair[0] for pair in new], [pair[1] for pair in new]]
        encoded, units = [], []
        for side, lines in enumerate(sides):
            encoded.append([view.vocabularies[side].encode_batch(lines) for view in self.views])
            units.append(self._units(lines, encoded[side]))
        similarity = self._similarity(sides, encoded, units)
        for number, pair in enumerate(new):
            pair_units = units[0][number], units[1][number]
            memberships, ids = [], []
            for view in range(len(self.views)):
                left, right = encoded[0][view][number], encoded[1][view][number]
                memberships.append((membership(pair_units[0], left.spans), membership(pair_units[1], right.spans)))
                ids.append((left.ids, right.ids))
            cosines = None if similarity is None else [matrices[number] for matrices in similarity]
            read[pair] = _ReadPair(pair_units, memberships, ids, cosines)
        return [read[pair] for pair in zip(source, target)]

    def _units(self, lines: Sequence[str], encoded: Sequence[Sequence[Encoding]]) -> list[list[Span]]:
        rows = []
        for number, line in enumerate(lines):
            segments = encoded[0][number].spans if encoded else []
            units = units_of(line, segments, self.units)
            if len(units) > LONGEST_LINE:
                logger.warning("a line of %d units gets no links: the limit is %d", len(units), LONGEST_LINE)
                units = []
            rows.append(units)
        return rows

    def _similarity(
        self, sides: Sequence[Sequence[str]], encoded: Sequence[Sequence[Sequence[Encoding]]], units: Sequence
    ) -> list[list[np.ndarray]] | None:
        """For the units, then for every view's segments: the (S, T) cosines of every pair."""
        if self.encoder is None:
            return None
        vectors = []
        for language, lines, encoded_views, side_units in zip(self.languages, sides, encoded, units):
            views = [side_units]
            for encoded_lines in encoded_views:
                views.append([row.spans for row in encoded_lines])
            side_vectors = self.encoder(lines, views, language)
            if self.word_map is not None:
                for view in side_vectors:
                    view[:] = [rows @ self.word_map for rows in view]
            vectors.append(side_vectors)
        return [similarities(source, target) for source, target in zip(*vectors)]

    def _weights(self, read: Sequence[_ReadPair]) -> list[list[Directions]]:
        """For every prior, then for the encoder, every pair's (S, T) forward and backward weights between units.

        Priors of the same kind are averaged over views. A unit's segments look together (mean) and are looked at
        together (sum).
        """
        weights: list[list[Directions]] = []
        for number, view in enumerate(self.views):
            posteriors = self._posteriors(read, number, view.priors)
            if not weights:
                weights = posteriors
                continue
            for total, of_view in zip(weights, posteriors):
                for (forward, backward), (view_forward, view_backward) in zip(total, of_view):
                    forward += view_forward  # in place: `_posteriors` has divided by the number of views
                    backward += view_backward
        if self.encoder is not None:
            weights.append([_attention(pair.similarity[0]) for pair in read])
        return weights

    def _posteriors(self, read: Sequence[_ReadPair], number: int, priors: list[LinkPrior]) -> list[list[Directions]]:
        """For each prior of a view the posteriors of links between units, divided by the number of views."""
        source, target, cosines = [], [], []
        for pair in read:
            is_aligned = bool(pair.units[0] and pair.units[1])  # a line that is too long has segments but no units
            source.append(pair.ids[number][0] if is_aligned else [])
            target.append(pair.ids[number][1] if is_aligned else [])
            if pair.similarity is not None:
                cosines.append(pair.similarity[1 + number] if is_aligned else np.zeros((0, 0)))
        posteriors = posteriors_of(priors, source, target, cosines or None)
        share = 1 / len(self.views)
        weights: list[list[Directions]] = [[] for _ in priors]
        for row, pair in enumerate(read):
            source_sum, target_sum = pair.memberships[number]
            source_mean = source_sum / np.maximum(source_sum.sum(1, keepdims=True), 1)
            target_mean = target_sum / np.maximum(target_sum.sum(1, keepdims=True), 1)
            for prior_posteriors, prior_weights in zip(posteriors, weights):
                forward, backward = prior_posteriors[row]
                if not forward.size:
                    shape = len(pair.units[0]), len(pair.units[1])
                    prior_weights.append((np.zeros(shape), np.zeros(shape)))
                    continue
                forward = share * (source_sum @ forward @ target_mean.T)
                backward = share * (source_mean @ backward @ target_sum.T)
                prior_weights.append((forward, backward))
        return weights

    def _decided(self, batch: list[tuple[_ReadPair, Sequence[Directions]]]) -> list[AlignedLine]:
        sizes = np.array([[len(pair.units[0]), len(pair.units[1])] for pair, _ in batch])
        shape = len(batch), *np.maximum(1, sizes.max(0))
        similarity = np.full(shape, -1.0)
        stacked = [np.zeros((2, *shape)) for _ in batch[0][1]]
        for row, (pair, weights) in enumerate(batch):
            s, t = sizes[row]
            for padded, both_directions in zip(stacked, weights):
                padded[:, row, :s, :t] = both_directions
            if self.encoder is not None:
                similarity[row, :s, :t] = pair.similarity[0]
        probability = link_probability(self.kind, stacked, self.decisive, sizes)
        soft = SoftAlignment(*np.mean(stacked[: self.decisive], axis=0), similarity, sizes)
        links = probability > THRESHOLDS[self.kind]
        if self.method != PROBABILITY:
            links = decode(soft, self.method)
        return aligned_lines([pair.units for pair, _ in batch], soft, links, probability)


def vocabularies_of_text(
    languages: Sequence[str], sides: Sequence[Sequence[str]], segmenters: Sequence[str]
) -> list[Vocabulary]:
    """Words or pieces learnt from both sides' lines; a repeated line counts once, an empty one not at all."""
    vocabularies = []
    for language, lines, segmenter in zip(languages, sides, segmenters):
        distinct = [line for line in dict.fromkeys(lines) if line]
        vocabularies.append(Vocabulary.learn(distinct, language, segmenter=segmenter))
    return vocabularies


def view_segmenters(languages: Sequence[str]) -> list[tuple[str, str]]:
    """What cuts source and target in every view: words, then pieces or characters; one view if both are the same."""
    source, target = languages
    words = word_segmenter(source), word_segmenter(target)
    pieces = default_segmenter(source), default_segmenter(target)
    return list(dict.fromkeys([words, pieces]))


def learnt_rows(count: int) -> list[int]:
    """The pairs that an encoder reads for learning: at most `LEARN_FROM`, spread over the text."""
    return spread_rows(count, LEARN_FROM).tolist()


def segment_similarities(
    languages: Sequence[str],
    vocabularies: Sequence[Vocabulary],
    encoder: WordEncoder,
    source: Sequence[str],
    target: Sequence[str],
) -> list[np.ndarray]:
    """For every pair the (S, T) cosines of its segments, with vectors evened out by the map of first links."""
    aligner = JointAligner(languages, [View(list(vocabularies), [])], encoder, units="segments")
    return [pair.similarity[1] for pair in aligner._read_with_map(source, target)]


def learn_map(
    languages: Sequence[str], views: Sequence[View], encoder: WordEncoder, source: Sequence[str], target: Sequence[str]
) -> np.ndarray | None:
    """A map of the encoder's vectors, from sure links of the first view; None if there are no such links."""
    # A separate view: the links of the caller's view are learnt later, with the map.
    aligner = JointAligner(languages, [View(views[0].vocabularies, [])], encoder, units="segments")
    aligner._learn_links(aligner._read_and_remember(source, target))
    left: list[np.ndarray] = []
    right: list[np.ndarray] = []
    lines = list(aligner(source, target))
    source_vectors = encoder(source, [[line.source for line in lines]], languages[0])[0]
    target_vectors = encoder(target, [[line.target for line in lines]], languages[1])[0]
    for line, source_segments, target_segments in zip(lines, source_vectors, target_vectors):
        for i, j in line.links:
            if line.probability[0][i, j] >= SURE:
                left.append(source_segments[i])
                right.append(target_segments[j])
    return word_map(np.array(left), np.array(right)) if left else None


def word_map(source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """(H, H) symmetric map that evens out the differences between linked words' vectors: C ** -1/2.

    C = (1 - SHRINKAGE) D + SHRINKAGE I mean(diag D), D the mean of d d^T / 2 over differences d of linked vectors.

    Source and target are (L, H) vectors of words and of those that they are linked to.
    """
    difference = unit_or_zero(source) - unit_or_zero(target)
    width = difference.shape[1]
    spread = difference.T @ difference / (2 * len(difference))
    level = max(np.trace(spread) / width, 1e-12)  # so that C has an inverse even if no linked vectors differ
    values, directions = np.linalg.eigh((1 - SHRINKAGE) * spread + SHRINKAGE * level * np.eye(width))
    return ((directions / np.sqrt(values)) @ directions.T).astype(np.float32)


def _attention(similarity: np.ndarray) -> Directions:
    """(S, T) forward and backward attention of one pair."""
    if not similarity.size:
        return similarity, similarity
    sizes = np.array([similarity.shape])
    forward, backward = attention(similarity[None].astype(np.float32), sizes, TEMPERATURE)
    return forward[0], backward[0]
