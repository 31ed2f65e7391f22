"""Do the token vectors of translated words find each other? Word links by IterMax, against gold ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from hfxling.data.pharaoh import AlignedPair, Link
from hfxling.data.sources import Pair
from hfxling.evaluation.alignment import alignment_results, count_links
from hfxling.evaluation.items import Items
from hfxling.evaluation.results import EvalResult
from hfxling.sentences.neighbours import unit_or_zero
from hfxling.words.links import itermax_links

TokenStates = Callable[[Sequence[Sequence[str]]], list[np.ndarray]]
Gold = Mapping[Pair, Sequence[AlignedPair]]
Links = Mapping[Pair, Sequence[set[Link]]]
DATASET = "gold links"


def word_links(gold: Sequence[AlignedPair], token_states: TokenStates) -> list[set[Link]]:
    """Links of every pair by IterMax (Jalili Sabet et al. 2020) over the cosines of the words' vectors.

    Args:
        gold: sentence pairs; their links are not looked at.
        token_states: lists of words to one (words, H) array each; a NaN row, of a word without a vector, gets no link.
    """
    states = token_states([pair.source for pair in gold] + [pair.target for pair in gold])
    source_states, target_states = states[: len(gold)], states[len(gold) :]
    links = []
    for source, target in zip(source_states, target_states):
        source_units, target_units = unit_or_zero(source), unit_or_zero(target)
        cosines = source_units.astype(np.float64) @ target_units.astype(np.float64).T
        cosines = np.nan_to_num(cosines, nan=-1.0)
        (hard,) = itermax_links(cosines[None], np.array([cosines.shape]))
        links.append(set(map(tuple, np.argwhere(hard).tolist())))
    return links


def link_results(
    links: Links, gold: Gold, groups: Mapping[str, Sequence[Pair]], *, settings: dict, **fields
) -> list[EvalResult]:
    """AER of every set, and the mean over the sets of each group (name -> language pairs), which count alike."""
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
