"""Word links out of soft alignments, on the user's own words or on the model's segments.

Matrices are padded batches: (B, S, T) for B sentence pairs, at most S source and T target units, weights of zero at
padding.
"""

from __future__ import annotations

import re
from bisect import bisect_right, insort
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hfxling.data.pharaoh import Link
from hfxling.data.segment import Span

if TYPE_CHECKING:
    from hfxling.data.segment import Encoding, Vocabulary

    from .link_prior import LinkPrior

SYMMETRIZATIONS = ("intersection", "union", "grow-diag-final-and", "forward", "backward")
MEAN = "mean"
SIMILARITIES = ("argmax", "itermax")
METHODS = (*SYMMETRIZATIONS, MEAN, *SIMILARITIES)
UNITS = ("words", "segments")
_CHUNK = 2_000  # pairs that are sorted by length together
_CELLS = 400_000  # segments x segments x pairs of a batch
_NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


def default_method(prior: LinkPrior | None) -> str:
    """How links are decided where nobody says: a model with a prior is sure enough of itself for `mean`."""
    return "grow-diag-final-and" if prior is None else MEAN


@dataclass(frozen=True)
class SoftAlignment:
    """A batch of sentence pairs' soft alignments.

    Attributes:
        forward: (B, S, T), for every target unit the weights of the source units: columns sum to 1.
        backward: (B, S, T), for every source unit the weights of the target units: rows sum to 1.
        similarity: (B, S, T) cosines of the units' contextual vectors, -1 for a unit without segments.
        sizes: (B, 2) source and target units of each pair.
    """

    forward: np.ndarray
    backward: np.ndarray
    similarity: np.ndarray
    sizes: np.ndarray


@dataclass(frozen=True)
class AlignedLine:
    """Links of one sentence pair.

    Attributes:
        source: the units of the source line, with their places in it.
        target: those of the target line.
        links: (position of source unit, position of target unit), sorted.
        soft: the pair's own soft alignment, a batch of one.
        hard: (1, S, T) bool, the same links as a matrix.
    """

    source: list[Span]
    target: list[Span]
    links: list[Link]
    soft: SoftAlignment
    hard: np.ndarray


def directed_links(soft: SoftAlignment, null: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """The best source unit of every target unit, and the best target unit of every source unit.

    Args:
        soft: of B pairs.
        null: a unit whose best partner weighs no more than this stays without link.

    Returns:
        Two (B, S, T) bool arrays, forward and backward.
    """
    forward = _is_largest(soft.forward, 1) & (soft.forward > null)
    return forward, _is_largest(soft.backward, 2) & (soft.backward > null)


def symmetrize(forward: np.ndarray, backward: np.ndarray, method: str = "grow-diag-final-and") -> np.ndarray:
    """One set of links out of two directions (Och & Ney 2003; Koehn et al. 2003).

    Args:
        forward: (B, S, T) bool.
        backward: (B, S, T) bool.
        method: "intersection", "union", "forward", "backward", or "grow-diag-final-and": the intersection grows by
            links of the union beside it, horizontally, vertically and diagonally, that reach a unit without link, and
            then by links of either direction whose two units both have none.

    Returns:
        (B, S, T) bool.

    Raises:
        ValueError: an unknown method.
    """
    if method == "grow-diag-final-and":
        return np.stack([_grown(f, b) for f, b in zip(forward, backward)])
    if method not in SYMMETRIZATIONS:
        raise ValueError(f"symmetrization {method!r} is not one of {', '.join(SYMMETRIZATIONS)}.")
    simple = {"intersection": forward & backward, "union": forward | backward, "forward": forward, "backward": backward}
    return simple[method]


def argmax_links(similarity: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Links between units that are each other's most similar ones ("ArgMax" of SimAlign).

    Args:
        similarity: (B, S, T) cosines.
        sizes: (B, 2) source and target units of each pair.

    Returns:
        (B, S, T) bool.
    """
    similarity = np.where(_real(similarity.shape, sizes), similarity, -np.inf)
    return _is_largest(similarity, 1) & _is_largest(similarity, 2) & (similarity > -1)


def itermax_links(similarity: np.ndarray, sizes: np.ndarray, *, rounds: int = 2, alpha: float = 0.9) -> np.ndarray:
    """Mutual argmax repeated for what is still unaligned (Jalili Sabet et al. 2020, "IterMax").

    After a round, pairs of two aligned units are out, pairs of an aligned and an unaligned one count `alpha` of their
    similarity, scaled to 0..1. Pairs with at most two units on a side stop after the first round, as the authors' code
    does; so do pairs in which all units of a side are aligned.

    Args:
        similarity: (B, S, T) cosines.
        sizes: (B, 2) source and target units of each pair.
        rounds: at most.
        alpha: discount.

    Returns:
        (B, S, T) bool.
    """
    real = _real(similarity.shape, sizes)
    similarity = (similarity + 1) / 2
    links = argmax_links(similarity, sizes)
    more = sizes.min(1) > 2
    for _ in range(rounds - 1):
        free_source, free_target = ~links.any(2, keepdims=True), ~links.any(1, keepdims=True)
        open_ = (free_source | free_target) & real
        has_free = (free_source & real).any((1, 2)) & (free_target & real).any((1, 2)) & more
        discount = np.where(free_source & free_target, 1.0, alpha)
        scores = np.where(real, np.where(open_, similarity * discount, 0.0), -np.inf)
        links |= _is_largest(scores, 1) & _is_largest(scores, 2) & (scores > 0) & open_ & has_free[:, None, None]
    return links


def decode(soft: SoftAlignment, method: str = "grow-diag-final-and", null: float = 0.0) -> np.ndarray:
    """(B, S, T) bool links by one of `METHODS`.

    A symmetrization of both attentions, "mean" (links that both directions together find likelier than not: weights of
    more than 1/2 on average), or similarity alone.

    Raises:
        ValueError: an unknown method.
    """
    if method in SIMILARITIES:
        pick = argmax_links if method == "argmax" else itermax_links
        return pick(soft.similarity, soft.sizes)
    if method == MEAN:
        return (soft.forward + soft.backward) / 2 > max(0.5, null)
    if method not in SYMMETRIZATIONS:
        raise ValueError(f"method={method!r} is not one of {', '.join(METHODS)}.")
    return symmetrize(*directed_links(soft, null), method)


def _is_largest(matrix: np.ndarray, axis: int) -> np.ndarray:
    """Mask of the first largest entry along an axis."""
    mask = np.zeros(matrix.shape, bool)
    np.put_along_axis(mask, matrix.argmax(axis, keepdims=True), True, axis)
    return mask


def _real(shape: tuple[int, ...], sizes: np.ndarray) -> np.ndarray:
    """(B, S, T) mask of what is not padding."""
    rows, columns = np.arange(shape[1]), np.arange(shape[2])
    return (rows < sizes[:, :1])[:, :, None] & (columns < sizes[:, 1:])[:, None]


def _grown(forward: np.ndarray, backward: np.ndarray) -> np.ndarray:
    """grow-diag-final-and of one pair: the order of the original's loops, on the few places that hold a link."""
    candidates = set(zip(*np.nonzero(forward ^ backward)))
    links = forward & backward
    queue = list(zip(*np.nonzero(links)))
    has_source, has_target = links.any(1), links.any(0)
    added = bool(candidates)
    while added:
        added = False
        for i, j in _growing(queue):
            for place in ((i + down, j + right) for down, right in _NEIGHBOURS):
                if place in candidates and not (has_source[place[0]] and has_target[place[1]]):
                    candidates.remove(place)
                    insort(queue, place)
                    links[place] = has_source[place[0]] = has_target[place[1]] = added = True
    for direction in (forward, backward):
        for i, j in zip(*np.nonzero(direction)):
            if not (has_source[i] or has_target[j]):
                links[i, j] = has_source[i] = has_target[j] = True
    return links


def _growing(queue: list[Link]) -> Iterator[Link]:
    """The places of a sorted list in their order, those that are inserted behind the current one included."""
    place = queue[0] if queue else None
    while place is not None:
        yield place
        after = bisect_right(queue, place)
        place = queue[after] if after < len(queue) else None


# From lines to links -----------------------------------------------------------------------------


class Aligner:
    """A trained model and its vocabularies, from lines of text to links.

    Args:
        model: with `align_states(source, target, languages)`, as `AlignerModel` has it.
        vocabularies: of both languages.
        languages: codes of source and target.
        units: "words" (what white space sets apart in the lines, as Pharaoh counts them) or "segments" (the
            vocabularies' own).
        method: one of `METHODS`.
        null: see `directed_links`.
        prior: what the attention starts from, where the model was trained with one.

    Raises:
        ValueError: unknown units or method, or a language without vocabulary.
    """

    def __init__(
        self,
        model,
        vocabularies: Mapping[str, Vocabulary],
        languages: Sequence[str],
        *,
        units: str = "words",
        method: str = "grow-diag-final-and",
        null: float = 0.0,
        prior: LinkPrior | None = None,
    ):
        if units not in UNITS:
            raise ValueError(f"units={units!r} is not one of {', '.join(UNITS)}.")
        if method not in METHODS:
            raise ValueError(f"method={method!r} is not one of {', '.join(METHODS)}.")
        for lang in languages:
            if lang not in vocabularies:
                raise ValueError(f"language {lang!r} is none of the model's: {', '.join(vocabularies)}.")
        self.model, self.languages = model, tuple(languages)
        self.vocabularies = [vocabularies[lang] for lang in languages]
        self.units, self.method, self.null, self.prior = units, method, null, prior

    def __call__(
        self, source: Sequence[str], target: Sequence[str], *, batch_size: int | None = None
    ) -> Iterator[AlignedLine]:
        """Align line i of the source with line i of the target, in that order; an empty side gives no links.

        Args:
            source: lines.
            target: as many.
            batch_size: pairs at a time; by default as many as `_CELLS` lets in. The links do not depend on it.

        Raises:
            ValueError: unequal numbers of lines.
        """
        if len(source) != len(target):
            raise ValueError(f"{len(source)} source and {len(target)} target lines; give files aligned line by line.")
        for start in range(0, len(source), _CHUNK):
            lines = [side[start : start + _CHUNK] for side in (source, target)]
            encoded = [vocabulary.encode_batch(side) for vocabulary, side in zip(self.vocabularies, lines)]
            aligned: dict[int, AlignedLine] = {}
            for rows in _batches([[len(row.ids) for row in side] for side in encoded], batch_size):
                batch = [[side[row] for row in rows] for side in encoded]
                units = [
                    [_units(lines[side][row], encoded[side][row].spans, self.units) for row in rows] for side in (0, 1)
                ]
                aligned |= zip(rows, self._align(batch, units))
            yield from (aligned[row] for row in range(len(lines[0])))

    def _align(self, batch: list[list[Encoding]], units: list[list[tuple[list[Span], list[int]]]]) -> list[AlignedLine]:
        soft = self._soft(batch, units)
        links = decode(soft, self.method, self.null)
        rows = []
        for b, (s, t) in enumerate(soft.sizes):
            parts = (matrix[b : b + 1, :s, :t] for matrix in (soft.forward, soft.backward, soft.similarity, links))
            *own, hard = parts
            places = [(int(i), int(j)) for i, j in zip(*np.nonzero(hard[0]))]
            own_soft = SoftAlignment(*own, soft.sizes[b : b + 1])
            rows.append(AlignedLine(units[0][b][0], units[1][b][0], places, own_soft, hard))
        return rows

    def _soft(self, batch: list[list[Encoding]], units: list[list[tuple[list[Span], list[int]]]]) -> SoftAlignment:
        """Run the model and gather its segments' weights and vectors into units."""
        import torch

        from .aligner_batches import pad_matrices

        sides = [_padded([row.ids for row in side]) for side in batch]
        device, prior = self.model.device, None
        if self.prior is not None:
            found = self.prior.posteriors(*([row.ids for row in side] for side in batch))
            prior = [x.to(device) for x in pad_matrices(found, [x["mask"].shape[1] for x in sides])]
        with torch.no_grad():
            states = self.model.align_states(
                *({key: torch.from_numpy(x).to(device) for key, x in side.items()} for side in sides),
                self.languages,
                prior,
            )
        source, target = (_membership(side, x["mask"]) for side, x in zip(units, sides))
        source_means, target_means = (x / np.maximum(x.sum(2, keepdims=True), 1) for x in (source, target))
        # A unit's segments look together (mean) and are looked at together (sum).
        forward = source @ _array(states.target_to_source).swapaxes(1, 2) @ target_means.swapaxes(1, 2)
        backward = source_means @ _array(states.source_to_target) @ target.swapaxes(1, 2)
        vectors = (source_means @ _array(states.source_contextual), target_means @ _array(states.target_contextual))
        left, right = (x / np.maximum(np.linalg.norm(x, axis=2, keepdims=True), 1e-12) for x in vectors)
        sizes = np.array([[len(units[0][b][0]), len(units[1][b][0])] for b in range(len(batch[0]))])
        has_segments = source.any(2)[:, :, None] & target.any(2)[:, None]
        return SoftAlignment(forward, backward, np.where(has_segments, left @ right.swapaxes(1, 2), -1), sizes)


def load_aligner(name: str):
    """An `AlignerModel` in evaluation mode and its vocabularies by language, from a folder or a Hub repository.

    Raises:
        FileNotFoundError: no aligner there.
        ValueError: its tokenizers are missing or need a segmenter that is not registered.
    """
    from hfxling.data.segment import load_vocabularies
    from hfxling.models.modeling_aligner import AlignerModel

    try:
        model = AlignerModel.from_pretrained(name).eval()
    except OSError as error:
        cause = str(error).partition("\n")[0]
        what = "is neither the folder of an aligner nor to be had from the Hub"
        raise FileNotFoundError(f"model {name!r} {what} ({cause}); check the name and the connection.") from None
    return model, load_vocabularies(name, model.config.languages)


def words(line: str) -> list[Span]:
    """What white space sets apart: the words that Pharaoh links count."""
    return [Span(match.group(), *match.span()) for match in re.finditer(r"\S+", line)]


def _units(line: str, segments: list[Span], units: str) -> tuple[list[Span], list[int]]:
    """The units of a line, and for each segment the position of its unit."""
    if units == "segments":
        return segments, list(range(len(segments)))
    found = words(line)
    starts = [word.start for word in found]
    return found, [max(0, bisect_right(starts, segment.start) - 1) for segment in segments]


def _batches(lengths: list[list[int]], batch_size: int | None) -> Iterator[list[int]]:
    """Rows of like length, longest first, as many as `_CELLS` allows or `batch_size` says."""
    order = sorted(range(len(lengths[0])), key=lambda row: (lengths[0][row], lengths[1][row]), reverse=True)
    batch, sizes = [], [1, 1]
    for row in order:
        grown = [max(size, side[row]) for size, side in zip(sizes, lengths)]
        full = len(batch) == batch_size if batch_size else (len(batch) + 1) * grown[0] * grown[1] > _CELLS
        if batch and full:
            yield batch
            batch, grown = [], [max(1, side[row]) for side in lengths]
        batch.append(row)
        sizes = grown
    if batch:
        yield batch


def _padded(rows: list[list[int]]) -> dict[str, np.ndarray]:
    ids = np.zeros((len(rows), max(1, *map(len, rows))), np.int64)
    for row, place in zip(rows, ids):
        place[: len(row)] = row
    return {"word_ids": ids, "mask": (ids > 0).astype(np.int64)}


def _membership(units: list[tuple[list[Span], list[int]]], mask: np.ndarray) -> np.ndarray:
    """(B, U, S) float: 1 where segment s is part of unit u."""
    table = np.zeros((len(units), max(1, *(len(found) for found, _ in units)), mask.shape[1]), np.float32)
    for row, (_, owners) in zip(table, units):
        row[owners, np.arange(len(owners))] = 1
    return table


def _array(tensor) -> np.ndarray:
    return tensor.float().cpu().numpy()
