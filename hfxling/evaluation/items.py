"""The single items of a figure, so that two models can be compared later on the same items."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

COLUMNS = {"mean": 1, "pearson": 2, "F1": 3}  # kind: numbers per item


@dataclass(frozen=True, eq=False)
class Items:
    """Per-item outcomes of one figure, which is the mean over the groups.

    A group of kind "mean" has (N, 1) scores in the figure's unit, whose mean is its figure; one of "pearson" (N, 2)
    human scores and the model's; one of "F1" (N, 3) counts of right, found and wanted pairs.
    """

    kind: str
    groups: tuple[np.ndarray, ...]

    def pack(self) -> dict:
        """As JSON: columns of hits (0 or 100) or counts as a string of digits, others as lists with six digits."""
        return {"kind": self.kind, "groups": [[*map(_packed, group.T)] for group in self.groups]}

    @classmethod
    def unpack(cls, content) -> Items:
        """What `pack` made."""
        try:
            kind = content["kind"]
            groups = []
            for packed in content["groups"]:
                columns = [_unpacked(column) for column in packed]
                groups.append(np.stack(columns, axis=1))
            if groups and all(group.shape[1] == COLUMNS[kind] and len(group) for group in groups):
                return cls(kind, tuple(groups))
        except (KeyError, TypeError, ValueError, AttributeError):
            pass
        raise ValueError("items that cannot be read")


def mean_items(*groups) -> Items:
    """Items of a mean of per-item scores, or of the mean over several groups' means."""
    return Items("mean", tuple(np.asarray(group, np.float64)[:, None] for group in groups))


def _packed(column: np.ndarray) -> str | list[float]:
    if np.isin(column, range(10)).all():
        return _digits(column)
    if np.isin(column, (0, 100)).all():
        return "%" + _digits(column / 100)
    return [float(f"{value:.6g}") for value in column.tolist()]


def _digits(column: np.ndarray) -> str:
    return "".join(map(str, column.astype(int).tolist()))


def _unpacked(column: str | list[float]) -> np.ndarray:
    if isinstance(column, str):
        scale = 100.0 if column.startswith("%") else 1.0
        return scale * np.array([*map(int, column.removeprefix("%"))], np.float64)
    values = np.array(column, np.float64)
    if values.ndim != 1 or not np.isfinite(values).all():
        raise ValueError("not a list of numbers")
    return values
