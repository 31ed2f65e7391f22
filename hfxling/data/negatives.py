"""Non-parallel pairs for the contrastive loss, and the strategies that choose among them (paper, Table 13)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

STRATEGIES = ("random", "worst", "average", "easiest")
# How a pool of candidates becomes one loss. The paper's "worst" is read as the candidate with the largest loss, the
# closest one; its prose also fits the opposite, the farthest, which is therefore here as "easiest".


def labelled_pairs(
    targets: Sequence, *, pool_size: int = 1, parallel_only: bool = False, seed: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Every parallel pair once, and every source once more with a pool of wrong targets.

    Args:
        targets: N target texts (or anything comparable); row i is the translation of source i.
        pool_size: K candidates for every source; 1 is a plain random non-parallel pair.
        parallel_only: leave the non-parallel half out.
        seed: of the drawing.

    Returns:
        `source` (R,) and `target` (R, K) row numbers and `label` (R,), 0 for parallel and 1 for non-parallel, with
        R = 2N or N. Parallel rows repeat their own target K times, so that one reduction over K fits both halves.

    Raises:
        ValueError: when there is no wrong target to draw: fewer than two distinct targets.
    """
    if pool_size < 1:
        raise ValueError(f"pool_size={pool_size}: a pool needs at least one candidate.")
    count = len(targets)
    rows = np.arange(count)
    own = np.repeat(rows[:, None], pool_size, axis=1)
    if parallel_only:
        return rows, own, np.zeros(count, np.int64)
    identity = np.unique(np.asarray(targets, dtype=object).astype(str), return_inverse=True)[1]
    if identity.max(initial=0) == 0:
        raise ValueError(f"{count} pairs with a single distinct target: non-parallel pairs need at least two.")
    rng = np.random.default_rng(seed)
    wrong = rng.integers(count, size=(count, pool_size))
    while (clash := identity[wrong] == identity[:, None]).any():  # also a repeated translation is no negative
        wrong[clash] = rng.integers(count, size=int(clash.sum()))
    label = np.repeat([0, 1], count)
    return np.concatenate([rows, rows]), np.concatenate([own, wrong]), label
