"""How sentence vectors lie on the unit sphere: alignment of translations, and uniformity (Wang and Isola 2020)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np

from hfxling.sentences.neighbours import check_pairing, unit

from .averages import mean_result
from .results import EvalResult


def alignment(source, target) -> np.ndarray:
    """(N,) squared distances of unit vectors to those of their translations; the mean is L_align, 0 best and 4 worst.

    Raises:
        ValueError: for unequal shapes, or rows that are zero, NaN or infinite.
    """
    source, target = unit(source), unit(target)
    check_pairing(source, target)
    return np.square(source - target).sum(1, dtype=np.float64)


def uniformity(vectors, *, block: int = 1024) -> float:
    """L_uniform = log E exp(-2 |x - z|^2) over all pairs of different rows; 0 if all are equal, lower is more even.

    The (N, D) vectors are length-normalised. The result is exact, over all pairs, computed `block` rows at a time.

    Raises:
        ValueError: for fewer than two vectors, or rows that are zero, NaN or infinite.
    """
    vectors = unit(vectors)
    if len(vectors) < 2:
        raise ValueError(f"Uniformity compares vectors with each other; {len(vectors)} are too few, give two or more.")
    total = 0.0
    for start in range(0, len(vectors), block):
        rows = vectors[start : start + block]
        for other in range(start, len(vectors), block):
            # |x - z|^2 = 2 - 2 x.z, so exp(-2 |x - z|^2) = exp(4 (x.z - 1))
            kernel = rows @ vectors[other : other + block].T
            np.minimum(kernel, 1, out=kernel)  # rounding may go beyond
            kernel -= 1
            kernel *= 4
            np.exp(kernel, out=kernel)
            part = kernel.sum(dtype=np.float64)
            if other == start:
                total += part - kernel.trace(dtype=np.float64)  # without the rows with themselves
            else:
                total += 2 * part  # (x, z) and (z, x)
    return float(np.log(total / (len(vectors) * (len(vectors) - 1))))


def geometry_results(
    pairs: Sequence[tuple], *, baseline: Sequence[tuple] | None = None, settings: dict | None = None, **fields
) -> list[EvalResult]:
    """L_align over all pairs, with its 95 % interval, and L_uniform over all vectors of all languages.

    `pairs` has (source, target), (N, D) vectors each, for each language pair. With another system's vectors of the same
    sentences as `baseline`, the alignment row holds the paired test. `fields` are those of `EvalResult`.
    """
    distances = np.concatenate([alignment(*sides) for sides in pairs])
    theirs = None if baseline is None else np.concatenate([alignment(*sides) for sides in baseline])
    vectors = np.concatenate(list(chain.from_iterable(pairs)))
    fields |= {"unit": "", "settings": dict(settings or {})}
    return [
        mean_result("alignment", distances, baseline=theirs, **fields),
        EvalResult("uniformity", uniformity(vectors), len(vectors), **fields),
    ]
