"""Whether models differ on what `hfxling evaluate` measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from hfxling.evaluation.comparison import Comparison, compare_results, comparison_table
from hfxling.evaluation.results import format_table, read_results
from hfxling.verbs import verb


@dataclass(frozen=True)
class Comparisons:
    """The first model's figures beside the same ones of each other model.

    Attributes:
        comparisons: one a figure and model.
        level: p-values below it tell models apart.
    """

    comparisons: list[Comparison]
    level: float

    def table(self) -> str:
        """A line a comparison, with its verdict."""
        return format_table(*comparison_table(self.comparisons, self.level))


@verb
def compare(files: list[str | Path], *, metrics: Sequence[str] = (), level: float = 0.05) -> Comparisons:
    """Test whether models differ on what was measured.

    `hfxling evaluate` keeps the outcome of every item. Means are compared by sign-flip tests, correlations by
    Williams' test, F1 by swaps of sentences' outcomes. The p-values are corrected for the number of comparisons (Holm
    1979), the intervals are not.

    Example:
        >>> print(hfxling.compare(["a/results.json", "b/results.json"], metrics=["P@1"]).table())

    Args:
        files: results.json of two models or more; the first is compared with each other one.
        metrics: compare only these, such as P@1; by default all that have items.
        level: p-values below it tell models apart.

    Returns:
        All comparisons, with a table of them.

    Raises:
        ValueError: fewer than two files or the same one twice, text that is not the same, no items, or items that
            contradict their figure.
        FileNotFoundError: no such file.
    """
    names = [str(file) for file in files]
    if isinstance(files, str | Path) or len(names) < 2 or len(set(names)) < len(names):
        listed = files if isinstance(files, str | Path) else " ".join(names)
        raise ValueError(f"files={listed}: give two results.json or more, all different.")
    if not 0 < level < 1:
        raise ValueError(f"level={level}: give a number between 0 and 1, such as 0.05.")
    runs = {name: read_results(name) for name in names}
    if metrics:
        measured = {row.metric for row in chain.from_iterable(runs.values()) if row.items}
        for metric in metrics:
            if metric not in measured:
                raise ValueError(f"metrics={metric!r} is none of {', '.join(sorted(measured))}.")
        for name, rows in runs.items():
            runs[name] = [row for row in rows if row.metric in metrics]
    return Comparisons(compare_results(runs), level)
