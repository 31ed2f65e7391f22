"""Mined pairs, and which of them are dropped; known pairs."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from hfxling.data.faults import FLAGS, FaultFinder, Flag
from hfxling.data.filters import PairGate, plain
from hfxling.data.pairs import is_source, read_pairs
from hfxling.data.parallel import sides_of
from hfxling.data.sources import load_pairs
from hfxling.data.texts import Texts
from hfxling.files import content_hash
from hfxling.progress import bar

from .engine import Mined
from .precision import LEAST
from .tables import columns_of

logger = logging.getLogger(__name__)
Dedup = Literal["source", "target", "both"]
Filter = Literal[Flag, "all"]


class ScoredPair(NamedTuple):
    """A pair of texts with their lines, and the translation faults that it may have."""

    score: float
    source: str
    target: str
    source_line: int
    target_line: int
    flags: str  # joined by commas


COLUMNS = ScoredPair._fields


def read_known(
    known: str | Path | Sequence, languages: tuple[str, str], least: int = LEAST
) -> tuple[list[str], list[str]]:
    """Both sides of at least `least` known pairs, each source once; `known` is as for `mine`."""
    sides = _sides_of(known, languages)
    distinct = {}
    for source, target in zip(*sides):
        distinct[plain(source)] = (source, target)
    if len(distinct) < least:
        raise ValueError(
            f"{len(distinct)} known pairs are too few to estimate a precision; give at least {least}, or leave them "
            "out."
        )
    sources, targets = zip(*distinct.values())
    return list(sources), list(targets)


def are_learnt(known: str | Path | Sequence, languages: tuple[str, str], learnt_from: Collection[str]) -> bool:
    """Whether a model has learnt from known pairs, by hashes of its text; if so, it scores them far higher."""
    return bool(learnt_from) and bool(_hashes(*_sides_of(known, languages), languages).intersection(learnt_from))


def _sides_of(known: str | Path | Sequence, languages: tuple[str, str]) -> tuple[Sequence[str], Sequence[str]]:
    """Both sides of known pairs, unchanged."""
    if is_source(known):
        known = [known]
    if all(is_source(part) for part in known):
        rows = load_pairs([str(part) for part in known], languages)
        return sides_of(rows)
    if len(known) != 2:
        raise ValueError(
            f"known pairs are a list of {len(known)}: give files, or two lists of equal length, [texts, translations]."
        )
    pairs = read_pairs(*known, languages)
    return pairs.source, pairs.target


def _hashes(source: Sequence[str], target: Sequence[str], languages: tuple[str, str]) -> set[str]:
    """Hashes of the pairs as they are, and as models learn from them: without repeated and identical ones."""
    gate = PairGate()
    kept_sources, kept_targets = [], []
    for source_text, target_text in zip(source, target):
        if gate.reason(source_text, target_text, *languages) is None:
            kept_sources.append(source_text)
            kept_targets.append(target_text)
    return {content_hash(source, target), content_hash(kept_sources, kept_targets)}


def without(side: Texts, known: Sequence[str]) -> Texts:
    """The side without the lines that are known texts."""
    taken = {plain(text) for text in known}
    others = ((line, text) for line, text in zip(side.lines, side.texts) if plain(text) not in taken)
    return Texts.of(side.name, others, f"{side.name}: every line is a known pair's; give text beside them.")


def flagged(
    mined: Mined,
    sides: Sequence[Texts],
    languages: tuple[str, str],
    *,
    filters: Sequence[str] = (),
    dedup: str | None = None,
    top: int | None = None,
) -> list[ScoredPair]:
    """The pairs with texts and flags, without those that filters drop, that repeat a text, or that come after `top`.

    Filters and dedup are those of `mine`, top a count.
    """
    sources = [sides[0].texts[row] for row in mined.source]
    targets = [sides[1].texts[row] for row in mined.target]
    if not sources:
        return []
    finder = FaultFinder.fit(zip(sources, targets), *languages)
    unwanted = set(FLAGS) if "all" in filters else set(filters)
    seen_sources: set[str] = set()
    seen_targets: set[str] = set()
    pairs = []
    candidates = zip(mined.score.tolist(), sources, targets, mined.source.tolist(), mined.target.tolist())
    for score, source, target, i, j in bar(candidates, total=len(sources), unit="pairs"):
        flags = finder.flags(source, target)
        source_name, target_name = plain(source), plain(target)
        is_double = dedup in ("source", "both") and source_name in seen_sources
        is_double |= dedup in ("target", "both") and target_name in seen_targets
        if is_double or unwanted.intersection(flags):
            continue
        seen_sources.add(source_name)
        seen_targets.add(target_name)
        pairs.append(ScoredPair(score, source, target, sides[0].lines[i], sides[1].lines[j], ",".join(flags)))
        if len(pairs) == top:
            break
    return pairs


def columns(pairs: Sequence[ScoredPair]) -> dict[str, list]:
    """The pairs as columns of a table."""
    return columns_of(COLUMNS, pairs)
