"""Do the token vectors of translated words find each other? Word links by IterMax, against gold ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from hfxling.data.pharaoh import AlignedPair, Link, read_aligned
from hfxling.data.sources import Pair
from hfxling.evaluation.alignment import alignment_results, count_links
from hfxling.evaluation.items import Items
from hfxling.evaluation.results import EvalResult
from hfxling.words.links import itermax_links

TokenStates = Callable[[Sequence[Sequence[str]]], list[np.ndarray]]
Gold = Mapping[Pair, Sequence[AlignedPair]]
Links = Mapping[Pair, Sequence[set[Link]]]
DATASET = "gold links"
_BATCH = 64  # sentence pairs of like length linked at a time


def read_gold(files: Mapping[Pair, str]) -> dict[Pair, list[AlignedPair]]:
    """Sentence pairs with gold links of every language pair."""
    return {pair: read_aligned(path) for pair, path in files.items()}


def word_links(gold: Sequence[AlignedPair], token_states: TokenStates) -> list[set[Link]]:
    """Links of every pair by IterMax (Jalili Sabet et al. 2020) over the cosines of the words' vectors.

    Args:
        gold: sentence pairs; their links are not looked at.
        token_states: lists of words to one (words, H) array each; a NaN row, of a word without a vector, gets no link.
    """
    states = token_states([pair.source for pair in gold] + [pair.target for pair in gold])
    links = [set() for _ in gold]
    order = sorted(range(len(gold)), key=lambda i: len(gold[i].source))
    for start in range(0, len(gold), _BATCH):
        rows = order[start : start + _BATCH]
        source = [states[i] for i in rows]
        target = [states[len(gold) + i] for i in rows]
        cosines = _padded(source) @ _padded(target).swapaxes(1, 2)
        sizes = np.array([list(map(len, source)), list(map(len, target))]).T
        batch = itermax_links(np.where(np.isnan(cosines), -1.0, cosines), sizes)
        for row, hard in zip(rows, batch):
            links[row] = set(map(tuple, np.argwhere(hard).tolist()))
    return links


def _padded(states: Sequence[np.ndarray]) -> np.ndarray:
    """(B, S, H) rows of length 1, NaN where there is none."""
    units = np.full((len(states), max(map(len, states)), states[0].shape[1]), np.nan)
    for place, of_words in zip(units, states):
        place[: len(of_words)] = of_words / np.linalg.norm(of_words, axis=1, keepdims=True)
    return units


def link_results(
    links: Links, gold: Gold, groups: Mapping[str, Sequence[Pair]], *, settings: dict, **fields
) -> list[EvalResult]:
    """AER of every set, and the mean over the sets of a group, which count alike.

    Args:
        links: what was found.
        gold: what is true.
        groups: name -> language pairs.
        settings: of all rows.
        **fields: further ones of `EvalResult`.
    """
    rows, settings = {}, settings | {"method": "itermax"}
    for pair, pairs in gold.items():
        measured = alignment_results(links[pair], pairs, dataset=DATASET, split="test", settings=settings, **fields)
        row = next(row for row in measured if row.metric == "AER")
        # AER is 100 - F1 of these counts, so it can be tested as an F1 can.
        sure_hits, possible_hits, predicted, sure = count_links(links[pair], pairs).T
        items = Items("F1", (np.stack([sure_hits + possible_hits, 2 * predicted, 2 * sure], 1),))
        rows[pair] = replace(row, direction="->".join(pair), items=items)
    means = []
    for group, members in groups.items():
        value, n = np.mean([rows[pair].value for pair in members]), sum(rows[pair].n for pair in members)
        of_group = settings | {"languages": group, "average_of": ["-".join(pair) for pair in members]}
        means.append(EvalResult(f"AER avg-{group}", value, n, DATASET, "test", settings=of_group, **fields))
    return [*rows.values(), *means]
