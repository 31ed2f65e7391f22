"""A trained aligner from lines of text to word links, on the user's own words or on the model's segments."""

from __future__ import annotations

import re
import unicodedata
from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from hfxling.data.pharaoh import Link
from hfxling.data.segment import Encoding, Span, Vocabulary, load_vocabularies
from hfxling.missing import one_line_where_missing
from hfxling.models.modeling_aligner import AlignerModel
from hfxling.sentences.neighbours import slices, unit_or_zero

from .links import MEAN, METHODS, PROBABILITY, UNITS, SoftAlignment, decode
from .pairs import like_sizes, pad, pad_matrices
from .prior import LinkPrior

_CHUNK = 2_000  # pairs that are sorted by length at once
_CELLS = 400_000  # size of a batch: segments x segments x pairs


def default_method(prior: LinkPrior | None) -> str:
    """How links are decided by default: `mean` for a model with a prior, which is sure enough of itself.

    Without a prior, the vectors know more than the attention does, so they decide (`aligner_study_gold_dev`).
    """
    return "itermax" if prior is None else MEAN


@dataclass(frozen=True)
class AlignedLine:
    """Links of one sentence pair."""

    source: list[Span]  # units of the source line, with their places in it
    target: list[Span]
    links: list[Link]  # (position of source unit, position of target unit), sorted
    soft: SoftAlignment  # the pair's own, a batch of one
    probability: np.ndarray | None = None  # (1, S, T) that a link is right, if that is known


class LineAligner(ABC):
    """From lines of text to links: what all aligners share.

    Args:
        languages: codes of source and target.
        units: "words" (what white space sets apart in the lines, as Pharaoh counts them), "segments" (the
            vocabularies' own) or "characters".
        method: one of `METHODS`.
    """

    def __init__(self, languages: Sequence[str], units: str, method: str):
        if units not in UNITS:
            raise ValueError(f"units={units!r} is not one of {', '.join(UNITS)}.")
        if method not in METHODS:
            raise ValueError(f"method={method!r} is not one of {', '.join(METHODS)}.")
        self.languages, self.units, self.method = tuple(languages), units, method

    def __call__(
        self, source: Sequence[str], target: Sequence[str], *, batch_size: int | None = None
    ) -> Iterator[AlignedLine]:
        """Align line i of the source with line i of the target, in that order; an empty side gives no links.

        Batches have `batch_size` pairs, by default as many as `_CELLS` allows; the links do not depend on it.
        """
        if len(source) != len(target):
            raise ValueError(f"{len(source)} source and {len(target)} target lines; give files aligned line by line.")
        for start in range(0, len(source), _CHUNK):
            prepared, sizes = self._prepared(source[start : start + _CHUNK], target[start : start + _CHUNK])
            aligned: list[AlignedLine | None] = [None] * len(prepared)
            order = np.lexsort((-sizes[:, 1], -sizes[:, 0]))  # largest first
            batches = like_sizes(sizes, order, _CELLS)
            if batch_size:
                batches = (order[part] for part in slices(len(order), batch_size))
            for rows in batches:
                for row, line in zip(rows, self._decided([prepared[row] for row in rows])):
                    aligned[row] = line
            yield from aligned

    @abstractmethod
    def _prepared(self, source: Sequence[str], target: Sequence[str]) -> tuple[list, np.ndarray]:
        """What `_decided` needs of every pair, and (N, 2) sizes by which pairs are batched."""

    @abstractmethod
    def _decided(self, batch: list) -> list[AlignedLine]:
        """The links of some of these pairs."""


class Aligner(LineAligner):
    """A trained model and its vocabularies, from lines of text to links.

    Args:
        model: a model with `align_states(source, target, languages, prior)`, such as `AlignerModel`.
        vocabularies: vocabularies of both languages.
        languages: codes of source and target.
        units: as for `LineAligner`.
        method: one of `METHODS` except "probability"; by default `default_method` chooses.
        prior: the prior that the attention starts from, if the model was trained with one.
    """

    def __init__(
        self,
        model,
        vocabularies: Mapping[str, Vocabulary],
        languages: Sequence[str],
        *,
        units: str = "words",
        method: str | None = None,
        prior: LinkPrior | None = None,
    ):
        if method == PROBABILITY:
            raise ValueError("symmetrize=probability is for links learnt from text and for encoders; give mean.")
        super().__init__(languages, units, method or default_method(prior))
        self.model, self.prior = model, prior
        self.vocabularies = vocabularies_of(vocabularies, languages)

    def _prepared(self, source: Sequence[str], target: Sequence[str]) -> tuple[list, np.ndarray]:
        """Segments and units of both sides of every pair, and the numbers of segments."""
        sides = []
        sizes = np.empty((len(source), 2), int)
        for number, (vocabulary, lines) in enumerate(zip(self.vocabularies, (source, target))):
            side = []
            for row, (line, encoded) in enumerate(zip(lines, vocabulary.encode_batch(lines))):
                side.append((encoded, units_of(line, encoded.spans, self.units)))
                sizes[row, number] = len(encoded.ids)
            sides.append(side)
        return list(zip(*sides)), sizes

    def _decided(self, batch: list) -> list[AlignedLine]:
        encoded, units = [], []
        for side in zip(*batch):  # `batch` has pairs of sides, each (segments, units)
            encoded.append([line for line, _ in side])
            units.append([line_units for _, line_units in side])
        soft = self._soft(encoded, units)
        return aligned_lines(list(zip(*units)), soft, decode(soft, self.method))

    def _soft(self, batch: list[list[Encoding]], units: list[list[list[Span]]]) -> SoftAlignment:
        """Run the model and gather its segments' weights and vectors into units."""
        source_ids, target_ids = [row.ids for row in batch[0]], [row.ids for row in batch[1]]
        device, prior = self.model.device, None
        source_side, target_side = _on(device, pad(source_ids)), _on(device, pad(target_ids))
        if self.prior is not None:
            posteriors = self.prior.posteriors(source_ids, target_ids)
            longest = source_side["mask"].shape[1], target_side["mask"].shape[1]
            forward, backward = pad_matrices(posteriors, longest)
            prior = [forward.to(device), backward.to(device)]
        with torch.no_grad():
            states = self.model.align_states(source_side, target_side, self.languages, prior)
        source, target = _memberships(units[0], batch[0]), _memberships(units[1], batch[1])
        source_means = source / np.maximum(source.sum(2, keepdims=True), 1)
        target_means = target / np.maximum(target.sum(2, keepdims=True), 1)
        # A unit's segments look together (mean) and are looked at together (sum).
        forward = source @ _array(states.target_to_source).swapaxes(1, 2) @ target_means.swapaxes(1, 2)
        backward = source_means @ _array(states.source_to_target) @ target.swapaxes(1, 2)
        left = unit_or_zero(source_means @ _array(states.source_contextual))
        right = unit_or_zero(target_means @ _array(states.target_contextual))
        sizes = np.array([list(map(len, units[0])), list(map(len, units[1]))]).T
        has_segments = source.any(2)[:, :, None] & target.any(2)[:, None]
        return SoftAlignment(forward, backward, np.where(has_segments, left @ right.swapaxes(1, 2), -1), sizes)


def load_aligner(name: str, **hub_kwargs) -> tuple[AlignerModel, dict[str, Vocabulary]]:
    """An `AlignerModel` in evaluation mode and its vocabularies by language, from a folder or a Hub repository."""
    with one_line_where_missing(name, "model", "an aligner"):
        model = AlignerModel.from_pretrained(name, **hub_kwargs).eval()
        return model, load_vocabularies(name, model.config.languages, **hub_kwargs)


def vocabularies_of(vocabularies: Mapping[str, Vocabulary], languages: Sequence[str]) -> list[Vocabulary]:
    """The vocabularies of some languages; ValueError for a language that has none."""
    for language in languages:
        if language not in vocabularies:
            raise ValueError(f"language {language!r} is none of the model's: {', '.join(vocabularies)}.")
    return [vocabularies[language] for language in languages]


def words(line: str) -> list[Span]:
    """The words that white space sets apart, as Pharaoh links count them."""
    return [Span(match.group(), *match.span()) for match in re.finditer(r"\S+", line)]


def units_of(line: str, segments: list[Span], units: str) -> list[Span]:
    """The units of a line: words, the vocabulary's segments, or characters (with their combining marks)."""
    if units == "segments":
        return segments
    if units == "words":
        return words(line)
    spans: list[Span] = []
    for place, letter in enumerate(line):
        kind = unicodedata.category(letter)
        if (kind[0] == "M" or kind == "Cf") and spans and spans[-1].end == place:  # a part of the letter before
            spans[-1] = Span(spans[-1].text + letter, spans[-1].start, place + 1)
        elif not letter.isspace() and kind != "Cf":
            spans.append(Span(letter, place, place + 1))
    return spans


def membership(units: list[Span], segments: list[Span]) -> np.ndarray:
    """(U, S) float: 1 where segment s is part of unit u.

    A segment belongs to the unit in which it starts, and to every unit that starts inside it.
    """
    table = np.zeros((len(units), len(segments)), np.float32)
    starts = [unit.start for unit in units]
    for column, segment in enumerate(segments):
        first = max(0, bisect_right(starts, segment.start) - 1)
        last = max(first, bisect_left(starts, segment.end) - 1)
        table[first : last + 1, column] = 1
    return table


def aligned_lines(
    units: Sequence[Sequence[list[Span]]], soft: SoftAlignment, links: np.ndarray, probability: np.ndarray | None = None
) -> list[AlignedLine]:
    """A batch split into its pairs, each with its units, its links and their probabilities (both (B, S, T))."""
    lines = []
    for row, (s, t) in enumerate(soft.sizes):
        cut = np.s_[row : row + 1, :s, :t]  # without padding
        size = soft.sizes[row : row + 1]
        line_soft = SoftAlignment(soft.forward[cut], soft.backward[cut], soft.similarity[cut], size)
        line_links = list(map(tuple, np.argwhere(links[row, :s, :t]).tolist()))
        line_probability = None if probability is None else probability[cut]
        lines.append(AlignedLine(*units[row], line_links, line_soft, line_probability))
    return lines


def _memberships(units: list[list[Span]], encoded: list[Encoding]) -> np.ndarray:
    """(B, U, S) padded tables of `membership`."""
    most_units = max(1, *map(len, units))
    most_segments = max(1, *(len(row.spans) for row in encoded))
    table = np.zeros((len(units), most_units, most_segments), np.float32)
    for cells, line_units, row in zip(table, units, encoded):
        cells[: len(line_units), : len(row.spans)] = membership(line_units, row.spans)
    return table


def _on(device: torch.device, tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: tensor.to(device) for name, tensor in tensors.items()}


def _array(tensor: torch.Tensor) -> np.ndarray:
    return tensor.float().cpu().numpy()
