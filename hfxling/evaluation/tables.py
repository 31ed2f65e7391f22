"""A study's result rows as a table, with the paper's figures; and a forecast for more training data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from .results import EvalResult, interval_told, p_told

UNTRAINED = "no training"
COSTS = {"steps": "steps", "train_cpu_s": "CPU s"}  # setting of a row: column
_TOLD_APART = ("method", "protocol", "centering", "decoding")  # settings that get columns of their own if they vary


def study_table(
    results: Sequence[EvalResult], rows: Sequence[dict], paper: Sequence[str] = (), show: Mapping | None = None
) -> tuple[list, list[list]]:
    """Header and one line per row: mean over the seeds, standard deviation, 95% interval; last the paper's figures.

    Columns are the test sets, metrics, directions and settings in `show` (by default all), or only the averages if a
    test set has some, and the costs of a run. If rows start from different encoders, each figure is followed by that of
    its encoder. The interval is over test items, averaged over the seeds.

    Args:
        results: results of all runs.
        rows: rows of the study, in their order.
        paper: names of the paper's columns.
        show: metric, direction or setting -> the values to show.
    """
    shown = _wanted(results, show or {})
    name_of = _column_names(shown, forward="forward" in (show or {}).get("direction", ()))
    cells: dict[str, dict[str, list[EvalResult]]] = {}  # by the column and the row's label
    settings: set[str] = set()
    stages: set[str] = set()
    for row in shown:
        cells.setdefault(name_of(row), {}).setdefault(_label(row), []).append(row)
        settings.update(row.settings)
        stages.add(row.settings["stage"])
    has_several_encoders = any(len(by_label.get(UNTRAINED, ())) > 1 for by_label in cells.values())
    costs = [name for name in COSTS if name in settings]

    header = ["", "seeds"]
    for column in cells:
        header.append(column)
        if has_several_encoders:
            header.append("encoder")
    header += [COSTS[name] for name in costs]
    header += [f"paper {name}" for name in paper]

    figures_of_paper = {row["label"]: row.get("paper") or [] for row in rows}
    labels = list(figures_of_paper)
    if "before" in stages and not has_several_encoders:
        labels.insert(0, UNTRAINED)
    table = []
    for label in dict.fromkeys(labels):
        measured = [by_label.get(label, []) for by_label in cells.values()]
        runs = max(measured, key=len, default=[])
        if not runs:
            continue
        # One row may be the mean over several seeds.
        line = [label, max(len(runs), len(runs[0].settings.get("by_seed", ())))]
        for of_column in measured:
            line.append(cell(of_column))
            if has_several_encoders:
                line.append(starting_point(of_column))
        for name in costs:
            values = [row.settings.get(name) for row in runs]
            line.append("" if None in values else f"{np.mean(values):.0f}")
        published = [f"{value:g}" for value in figures_of_paper.get(label, ())]
        published += [""] * len(paper)
        table.append(line + published[: len(paper)])
    return header, table


def _label(row: EvalResult) -> str:
    return row.settings.get("row", UNTRAINED)


def _wanted(results: Sequence[EvalResult], show: Mapping) -> list[EvalResult]:
    """The rows that a table shows, without those of a curve."""
    rows = averages([row for row in results if row.settings.get("stage") != "during"])
    first_direction: dict[str, str | None] = {}
    for row in rows:
        first_direction.setdefault(_label(row), row.direction)
    return [row for row in rows if _passes(row, show, first_direction)]


def _passes(row: EvalResult, show: Mapping, first_direction: Mapping[str, str | None]) -> bool:
    values = {"metric": row.metric, "direction": row.direction} | row.settings
    for key, allowed in show.items():
        if key == "direction" and "forward" in allowed:
            if row.direction != first_direction[_label(row)]:
                return False
        elif key in values and values[key] not in allowed:
            return False
    return True


def averages(results: Sequence[EvalResult]) -> list[EvalResult]:
    """The rows, without the single languages of data sets that have averages."""
    averaged = {row.dataset for row in results if "avg" in row.metric}
    return [row for row in results if row.dataset not in averaged or "avg" in row.metric]


def _column_names(shown: Sequence[EvalResult], forward: bool) -> Callable[[EvalResult], str]:
    """A function from a row to the name of its column, without what all rows have in common."""
    varied = [name for name in _TOLD_APART if len({row.settings.get(name) for row in shown}) > 1]
    has_several_sets = len({row.dataset for row in shown}) > 1 and not forward

    def name(row: EvalResult) -> str:
        parts = [row.metric]
        if has_several_sets:
            parts.insert(0, row.dataset)
        if not forward:
            parts.append(row.direction)
        for key in varied:
            value = row.settings.get(key)
            if key == "centering" and value:
                value = None if value == "none" else f"centred ({value})"
            parts.append(value)
        return " ".join(filter(None, parts))

    return name


def cell(rows: list[EvalResult], *, interval: bool = True) -> str:
    """One figure over the seeds: mean, standard deviation and, with `interval`, the 95% interval over test items."""
    if not rows:
        return ""
    values = [row.value for row in rows]
    digits = rows[0].digits
    text = f"{np.mean(values):.{digits}f}"
    if len(values) > 1:
        text += f" ±{np.std(values, ddof=1):.{digits}f}"
    lows = [row.low for row in rows]
    highs = [row.high for row in rows]
    if interval and None not in lows + highs:
        text += f" ({interval_told(np.mean(lows), np.mean(highs), digits)})"
    return text


def starting_point(rows: list[EvalResult]) -> str:
    """The encoder's figure before training, computed from the paired differences."""
    tested = [row for row in rows if "paired" in row.settings]
    if not tested:
        return ""
    p_value = np.median([row.settings["paired"]["p_value"] for row in tested])
    value = np.mean([row.value - row.settings["paired"]["difference"] for row in tested])
    return f"{value:.{tested[0].digits}f} (p {p_told(p_value)})"


def learning_curve(results: Sequence[EvalResult], rows: Sequence[dict]) -> Forecast | None:
    """What another 1,000 pairs would add to P@1; None if no row sets a `fraction`."""
    if not any("fraction" in (row.get("set") or {}) for row in rows):
        return None
    show = {"metric": ["P@1"], "centering": ["none"], "method": ["cosine"], "direction": ["forward"]}
    curve = [row for row in _wanted(results, show) if row.settings["stage"] == "after"]
    return forecast([row.settings["pairs"] for row in curve], [row.value for row in curve])


@dataclass(frozen=True)
class Forecast:
    """Expected score at a larger size, with a 90 % band."""

    size: int  # training pairs
    value: float
    low: float
    high: float
    gain: float  # over the fitted score at the largest measured size
    gain_low: float
    gain_high: float

    def __str__(self) -> str:
        return (
            f"{self.gain:+.1f} (90 % band {self.gain_low:+.1f} to {self.gain_high:+.1f}), "
            f"to {self.value:.1f} ({self.low:.1f} to {self.high:.1f}) at {self.size:,} pairs"
        )


def forecast(sizes: np.ndarray, scores: np.ndarray, extra: int = 1000) -> Forecast:
    """Fit `score = a + b log2(size)` to the runs and evaluate it at the largest size plus `extra`.

    A straight line in the logarithm is the simplest curve that such learning curves follow over a few doublings. The
    bands are those of least squares (Student's t); the band of the score is for a single further run, so it includes
    the scatter of runs.

    `sizes` are the numbers of training pairs of (R,) runs, `scores` what each run reached.
    """
    from scipy import stats

    sizes, scores = np.asarray(sizes, np.float64), np.asarray(scores, np.float64)
    runs = len(sizes)
    if len(np.unique(sizes)) < 2 or runs < 3:
        listed = ", ".join(f"{size:.0f}" for size in np.unique(sizes)) or "none"
        raise ValueError(f"a learning curve needs three runs with at least two sizes, got {runs} (sizes: {listed}).")
    x = np.log2(sizes)
    largest, at = np.log2(sizes.max()), np.log2(sizes.max() + extra)
    line = stats.linregress(x, scores)
    residuals = scores - (line.intercept + line.slope * x)
    scatter = np.sqrt(residuals @ residuals / (runs - 2))
    wide = stats.t.ppf(0.95, runs - 2)  # 5 % on either side
    value, gain = line.intercept + line.slope * at, line.slope * (at - largest)
    # The variances of a run, of the fitted mean and of the slope add up. The gain is a difference on the line and has
    # only the last.
    margin = wide * np.sqrt(scatter**2 * (1 + 1 / runs) + (line.stderr * (at - x.mean())) ** 2)
    gain_margin = wide * line.stderr * (at - largest)
    size = int(sizes.max() + extra)
    return Forecast(size, value, value - margin, value + margin, gain, gain - gain_margin, gain + gain_margin)
