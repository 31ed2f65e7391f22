"""The order of a vector's components: what translations share most stands first, so that the rest may be cut off."""

from __future__ import annotations

import numpy as np


def strength_rotation(source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """(D, D) rotation, row = new component, by which translations at unit length agree: the strongest comes first.

    The eigenvectors of the symmetric part of X'Y/n. The first k rows keep more of what translations have in common than
    any other k directions, and what they do not share, such as language identity, comes last or is subtracted. Turning
    both languages' vectors changes no cosine. Uncentred on purpose: where a language's mean is no translation of the
    other's, it then counts against its direction; on NTREX that finds more left-out training pairs than the centred
    matrix or the one of all vectors. Of vectors that are in this order already the rotation is the identity.

    Args:
        source: (N, D) vectors of any length; row i translates target row i.
        target: (N, D).
    """
    x, y = _unit(np.asarray(source, np.float64)), _unit(np.asarray(target, np.float64))
    cross = x.T @ y / len(x)
    rotation = np.linalg.eigh((cross + cross.T) / 2)[1][:, ::-1].T
    largest = np.take_along_axis(rotation, np.abs(rotation).argmax(1)[:, None], axis=1)
    return rotation * np.sign(largest)


def _unit(vectors: np.ndarray) -> np.ndarray:
    """Rows at length 1, rows of zeros as they are."""
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
