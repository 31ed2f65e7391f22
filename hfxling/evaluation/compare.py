"""Do models differ on the same items? Paired tests of what `hfxling evaluate` measured, corrected for their number."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hfxling.evaluation.items import Items
from hfxling.evaluation.mining import f1_of, f1_test
from hfxling.evaluation.results import EvalResult, format_table, p_told, read_results
from hfxling.evaluation.significance import PairedTest, holm, paired_test
from hfxling.evaluation.similarity import compare_correlations, pearson
from hfxling.verbs import Result, check_list, verb

if TYPE_CHECKING:
    from hfxling.evaluation.evaluate import Evaluation

    Run = str | Path | Evaluation
else:
    Run = str | Path  # a command line names files


@dataclass(frozen=True)
class Comparison:
    """One figure of two models."""

    first: EvalResult
    other: EvalResult
    name: str  # of the other's file
    test: PairedTest  # other - first
    p_value: float  # corrected for the number of comparisons

    def verdict(self, level: float = 0.05) -> str:
        """Whether the other's figure is higher than the first's, lower, or not distinguishable from it."""
        if self.p_value >= level:
            return "not distinguishable"
        return "higher" if self.test.difference > 0 else "lower"


@dataclass(frozen=True, repr=False)
class Comparisons(Result):
    """The first model's figures beside the same figures of each other model.

    Attributes:
        comparisons: one per figure and other model.
        level: p-values below it count as a difference.
    """

    comparisons: list[Comparison]
    level: float

    def table(self) -> str:
        """One line per comparison, with its verdict."""
        headers = ["task", "direction", "metric", "similarity", "n", "first", "compared with", "its value"]
        headers += ["difference", "95 %", "p (Holm)", ""]
        table = []
        for one in self.comparisons:
            first, other, test = one.first, one.other, one.test
            digits = first.digits
            ends = [f"{end:.{digits}f}" for end in (test.low, test.high) if end is not None]
            methods = dict.fromkeys(row.settings.get("method") for row in (first, other))
            similarity = " against ".join(filter(None, methods))
            line = [first.settings.get("task"), first.direction, first.metric, similarity, first.n]
            line.append(f"{first.value:.{digits}f}")
            line += [one.name, f"{other.value:.{digits}f}", f"{test.difference:+.{digits}f}", " to ".join(ends)]
            line += [p_told(one.p_value).removeprefix("= "), one.verdict(self.level)]
            table.append(line)
        return format_table(headers, table)


@verb
def compare(files: list[Run], *, metrics: Sequence[str] = (), level: float = 0.05) -> Comparisons:
    """Test whether models differ on what was measured.

    The tests are paired: they use the outcome of every item, which `hfxling evaluate` keeps. Means are compared by
    sign-flip tests, correlations by Williams' test, F1 by swapping the outcomes of sentences. The p-values are
    corrected for the number of comparisons (Holm 1979); the intervals are not.

    Example:
        >>> print(hfxling.compare(["a/results.json", "b/results.json"], metrics=["P@1"]).table())

    Args:
        files: results.json of two or more models, the folders that hold them, or results of `evaluate`. The first is
            compared with each of the others.
        metrics: metrics to compare, such as P@1; by default all that have items.
        level: significance level: a p-value below it counts as a difference.

    Returns:
        All comparisons, with a table of them.

    Raises:
        ValueError: for fewer than two files, or one file twice; if the models were measured on different text, or the
            items are missing or contradict their figure.
        FileNotFoundError: if a file does not exist.
    """
    if isinstance(files, str | Path):
        raise ValueError(f"files={files}: give two results.json or more, all different.")
    places = [_results_file(file) for file in files if isinstance(file, str | Path)]
    if len(files) < 2 or len(set(map(os.path.realpath, places))) < len(places):
        listed = " ".join(map(str, places)) or f"{len(files)} evaluation(s)"
        raise ValueError(f"files={listed}: give two results.json or more, all different.")
    if not 0 < level < 1:
        raise ValueError(f"level={level}: give a number between 0 and 1, such as 0.05.")
    runs = _rows_by_name(files)
    check_list("metrics", metrics)
    if metrics:
        measured = {row.metric for row in chain.from_iterable(runs.values()) if row.items}
        for metric in metrics:
            if measured and metric not in measured:  # without any, `compare_results` says what is missing
                raise ValueError(f"metrics={metric!r} is not one of {', '.join(sorted(measured))}.")
        for name, rows in runs.items():
            runs[name] = [row for row in rows if row.metric in metrics]
    return Comparisons(compare_results(runs), level)


def _rows_by_name(files: Sequence[Run]) -> dict[str, Sequence[EvalResult]]:
    """Rows by the name of their file or of their model; a number distinguishes models of the same name."""
    runs: dict[str, Sequence[EvalResult]] = {}
    for number, file in enumerate(files, 1):
        if isinstance(file, str | Path):
            name = str(_results_file(file))
            runs[name] = read_results(name)
            continue
        rows = getattr(file, "rows", None)
        if not rows or not isinstance(rows[0], EvalResult):
            raise ValueError(f"files: {file!r:.60} is neither a results.json nor a result of `evaluate`; give one.")
        name = str(rows[0].model)
        runs[f"{name} ({number})" if name in runs else name] = rows
    return runs


def _results_file(place: str | Path) -> Path:
    """The results.json in a folder that `hfxling evaluate` wrote; any other path as it is."""
    place = Path(place)
    return place / "results.json" if place.is_dir() else place


def compare_results(runs: Mapping[str, Sequence[EvalResult]]) -> list[Comparison]:
    """Compare every figure of the first run with the same figure of each other run; p-values are corrected over all.

    `runs` are rows with their items, by the run's name.
    """
    for name, rows in runs.items():
        if not any(row.items for row in rows):
            raise ValueError(f"{name}: no row has its items; measure again with hfxling evaluate, which keeps them.")
        for row in rows:
            if row.items:
                check_items(name, row)
    (first_name, first), *others = runs.items()
    tests = []
    for name, rows in others:
        common = [*matched(first, rows)]
        if not common:
            raise ValueError(f"{first_name} and {name} have no figure in common; measure both on the same tasks.")
        for one, other in common:
            problem = "different text" if one.revision != other.revision else _mismatch(one.items, other.items)
            if problem:
                what = f"{one.metric} {one.direction or ''} of {one.dataset}".replace("  ", " ")
                raise ValueError(f"{what}: {first_name} and {name} have {problem}; measure both on the same text.")
            sides = [other.items, one.items]
            if one.metric == "AER":  # its items are those of an F1, which falls when AER rises
                sides.reverse()
            tests.append((one, other, name, paired(*sides)))
    corrected = holm([test.p_value for *_, test in tests])
    return [Comparison(*parts, float(p_value)) for parts, p_value in zip(tests, corrected)]


def check_items(name: str, row: EvalResult) -> None:
    """Refuse a row whose items give another figure than the row states: the file was changed.

    Files keep six digits of every item and six decimals of every value, so small differences are allowed.
    """
    groups = row.items.groups
    if row.items.kind == "mean":
        figure = float(np.mean([group.mean() for group in groups]))
        rounding = 1e-5 * max(np.abs(group).max() for group in groups)
    elif row.items.kind == "F1":
        figure = float(f1_of(groups[0].sum(0)))
        if row.metric == "AER":  # its items are tested as those of an F1
            figure = 100 - figure
        rounding = 1e-4
    else:
        figure = float(np.mean([pearson(group[:, 0], group[:, 1]) for group in groups]))
        roundings = []
        for group in groups:
            largest = np.abs(group).max(0)
            roundings.append(1e-5 * np.max(largest / group.std(0)))
        rounding = max(roundings)
    if not abs(figure - row.value) <= rounding + 1e-5:
        what = " ".join(filter(None, (row.metric, row.direction, "of", row.dataset)))
        raise ValueError(f"{name}: {what} is {row.value:g}, but its items give {figure:g}; measure it again.")


def paired(a: Items, b: Items) -> PairedTest:
    """The test that fits the figure: sign flips for means, swaps for F1, and `compare_correlations`."""
    if a.kind == "F1":
        return f1_test(a.groups[0], b.groups[0])
    if a.kind == "mean":
        return paired_test(_weighted(a.groups), _weighted(b.groups))
    return compare_correlations([(x[:, 0], x[:, 1], y[:, 1]) for x, y in zip(a.groups, b.groups)])


def matched(first: Sequence[EvalResult], rows: Sequence[EvalResult]) -> Iterator[tuple[EvalResult, EvalResult]]:
    """Pairs of rows with the same figure; their similarities may differ if each model has only one."""
    for one in first:
        same = [row for row in rows if row.items and one.items and _figure(row) == _figure(one)]
        alike = [row for row in same if row.settings.get("method") == one.settings.get("method")]
        is_only = sum(_figure(row) == _figure(one) for row in first) == 1
        if len(alike) == 1:
            yield one, alike[0]
        elif len(same) == 1 and is_only:
            yield one, same[0]


def _figure(row: EvalResult) -> tuple:
    settings = row.settings
    return settings.get("task"), row.metric, row.direction, settings.get("centering"), settings.get("languages")


def _mismatch(a: Items, b: Items) -> str | None:
    if a.kind != b.kind or [group.shape for group in a.groups] != [group.shape for group in b.groups]:
        return "different items"
    gold_column = {"pearson": 0, "F1": 2}.get(a.kind)  # does not depend on the model
    if gold_column is None:
        return None
    for group, other in zip(a.groups, b.groups):
        if (group[:, gold_column] != other[:, gold_column]).any():
            return "different gold"
    return None


def _weighted(groups: Sequence[np.ndarray]) -> np.ndarray:
    """All items' scores, weighted so that their mean is the mean of the groups' means."""
    total = sum(map(len, groups))
    return np.concatenate([group[:, 0] * (total / len(groups) / len(group)) for group in groups])
