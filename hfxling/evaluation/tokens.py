"""Do translated words lie close together? The token-alignment score over gold word links (paper of DAP, Fig. 1).

A sentence pair's score is the mean cosine of its linked words minus the mean cosine of its unlinked words. The second
mean is over all unlinked word pairs of the sentence pair: the limit of random draws, without their noise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from hfxling.data.pharaoh import AlignedPair

from .averages import mean_result
from .results import EvalResult
from .significance import paired_test

TokenStates = Callable[[list[list[str]]], list[np.ndarray]]


@dataclass(frozen=True, eq=False)
class TokenScores:
    """Mean cosines of every sentence pair."""

    linked: np.ndarray  # (N,) over the sure links; NaN if a pair has none
    unlinked: np.ndarray  # (N,) over word pairs that are neither sure nor possible links; NaN if there are none

    @property
    def measured(self) -> np.ndarray:
        """(N,) whether a pair has both."""
        return np.isfinite(self.linked) & np.isfinite(self.unlinked)


def sample_pairs(source_lang: str, target_lang: str, split: str = "test") -> list[AlignedPair]:
    """The generated sentences of the embedded corpus with their gold links; no benchmark."""
    from hfxling.data.sample import check_sample, linked_sentences

    source_lang, target_lang = check_sample((source_lang, target_lang), split)
    pairs = []
    for sentence in linked_sentences(split):
        links = frozenset(sentence.links(source_lang, target_lang))
        pairs.append(AlignedPair(sentence.words[source_lang], sentence.words[target_lang], links, links))
    return pairs


def token_scores(pairs: Sequence[AlignedPair], token_states: TokenStates) -> TokenScores:
    """Score every pair with gold links (`hfxling.data.pharaoh.read_aligned`, `sample_pairs`) by its words' vectors.

    `token_states` is called once with all sentences as lists of words, sources first. It returns one (words, H) array
    per sentence, with a NaN row for a word without a vector (cut off, or without a piece of its own); such words count
    neither as linked nor as unlinked.
    """
    sentences = [list(pair.source) for pair in pairs] + [list(pair.target) for pair in pairs]
    units = [_unit(states) for states in token_states(sentences)]
    source, target = units[: len(pairs)], units[len(pairs) :]
    linked, unlinked = np.full(len(pairs), np.nan), np.full(len(pairs), np.nan)
    for number, pair in enumerate(pairs):
        linked[number], unlinked[number] = _pair_means(pair, source[number], target[number])
    return TokenScores(linked, unlinked)


def token_results(scores: TokenScores, *, direction: str, settings: dict | None = None, **fields) -> list[EvalResult]:
    """Rows "linked cosine", "unlinked cosine" and their difference "token alignment", with 95% intervals over pairs.

    The last row's "p_value" tests that linked and unlinked do not differ. `settings` are added to every row's; `fields`
    are further fields of `EvalResult`: dataset, split, revision, model, model_revision, seed.
    """
    is_measured = scores.measured
    if not is_measured.any():
        raise ValueError(
            f"none of the {len(is_measured)} pairs has both linked and unlinked words; give text with word links."
        )
    row_settings = dict(settings or {})
    if not is_measured.all():
        row_settings["left_out"] = int((~is_measured).sum())
    linked, unlinked = scores.linked[is_measured], scores.unlinked[is_measured]
    with_test = row_settings | {"p_value": paired_test(linked, unlinked).p_value}
    fields |= {"unit": "", "direction": direction}
    return [
        mean_result("linked cosine", linked, settings=row_settings, **fields),
        mean_result("unlinked cosine", unlinked, settings=row_settings, **fields),
        mean_result("token alignment", linked - unlinked, settings=with_test, **fields),
    ]


def _unit(states: np.ndarray) -> np.ndarray:
    """Rows of length 1 in float64; NaN for a row of zeros."""
    states = np.asarray(states, dtype=np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        return states / np.linalg.norm(states, axis=1, keepdims=True)


def _pair_means(pair: AlignedPair, source: np.ndarray, target: np.ndarray) -> tuple[float, float]:
    """Mean cosine of the linked cells and of the unlinked ones; NaN if there are none."""
    cosines = source @ target.T
    unlinked, sure, neither = 0, 1, 2
    kind = np.full(cosines.shape, unlinked, np.int8)
    for links, name in ((pair.possible, neither), (pair.sure, sure)):  # in this order: sure ones are possible, too
        if links:
            kind[tuple(zip(*links))] = name
    kind[np.isnan(cosines)] = neither
    return _mean(cosines[kind == sure]), _mean(cosines[kind == unlinked])


def _mean(cells: np.ndarray) -> float:
    return float(cells.mean()) if cells.size else np.nan
