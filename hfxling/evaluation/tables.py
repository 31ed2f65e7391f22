"""A study's result rows as a table: rows of settings, columns of what was measured, the paper's figures last."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from .learning_curve import Forecast, forecast
from .results import EvalResult, interval_told, p_told

UNTRAINED = "no training"
COSTS = {"steps": "steps", "train_cpu_s": "CPU s"}  # settings of a row: column
_TOLD_APART = ("method", "protocol", "centering", "decoding")  # settings that make columns where they vary


def study_table(
    results: Sequence[EvalResult], rows: Sequence[dict], paper: Sequence[str] = (), show: Mapping | None = None
) -> tuple[list, list[list]]:
    """Header and one line a row: mean over the seeds, their standard deviation, the 95% interval; the paper's last.

    Columns are the test sets, metrics, directions and settings that `show` asks for (by default all of them), or the
    averages alone where a test set has some, and what a run cost. Where rows start from different encoders, each figure
    is followed by what its own encoder had. The interval is that over test items, averaged over the seeds.

    Args:
        results: of all runs.
        rows: of the study, in their order.
        paper: names of the paper's columns.
        show: metric, direction or setting -> what is shown of it.
    """
    shown = _wanted(results, show or {})
    name_of = _column_names(shown, forward="forward" in (show or {}).get("direction", ()))
    columns = list(dict.fromkeys(map(name_of, shown)))
    cells: dict[tuple, list[EvalResult]] = {}
    for row in shown:
        cells.setdefault((row.settings.get("row", UNTRAINED), name_of(row)), []).append(row)
    several = any(len(cells.get((UNTRAINED, column), ())) > 1 for column in columns)
    costs = [name for name in COSTS if any(name in row.settings for row in shown)]
    untrained = [UNTRAINED] * (not several and any(row.settings["stage"] == "before" for row in shown))
    labels = list(dict.fromkeys([*untrained, *(row["label"] for row in rows)]))
    figures = {row["label"]: row.get("paper") or [] for row in rows}
    table = []
    for label in labels:
        found = [cells.get((label, column), []) for column in columns]
        runs = max(found, key=len, default=[])
        if runs:
            spent = [
                f"{np.mean([row.settings[name] for row in runs]):.0f}" if name in runs[0].settings else ""
                for name in costs
            ]
            published = [f"{value:g}" for value in figures.get(label, ())]
            published = [*published, *[""] * len(paper)][: len(paper)]
            values = [text for at in found for text in ([cell(at), starting_point(at)] if several else [cell(at)])]
            seeds = max(len(runs), len(runs[0].settings.get("by_seed", ())))  # one row may be the mean over several
            table.append([label, seeds, *values, *spent, *published])
    names = [name for column in columns for name in ([column, "encoder"] if several else [column])]
    return ["", "seeds", *names, *(COSTS[name] for name in costs), *(f"paper {name}" for name in paper)], table


def _wanted(results: Sequence[EvalResult], show: Mapping) -> list[EvalResult]:
    """The rows that a table shows; those of a curve do not stand in it."""
    found = averages([row for row in results if row.settings.get("stage") != "during"])
    first: dict[str, str | None] = {}
    for row in found:
        first.setdefault(row.settings.get("row", UNTRAINED), row.direction)

    def passes(row: EvalResult) -> bool:
        values = {"metric": row.metric, "direction": row.direction} | row.settings
        for key, allowed in show.items():
            if key == "direction" and "forward" in allowed:
                if row.direction not in first.values() or first[row.settings.get("row", UNTRAINED)] != row.direction:
                    return False
            elif key in values and values[key] not in allowed:
                return False
        return True

    return [row for row in found if passes(row)]


def averages(results: Sequence[EvalResult]) -> list[EvalResult]:
    """The rows without the single languages of data sets that have averages."""
    averaged = {row.dataset for row in results if "avg" in row.metric}
    return [row for row in results if row.dataset not in averaged or "avg" in row.metric]


def _column_names(shown: Sequence[EvalResult], forward: bool) -> Callable[[EvalResult], str]:
    """A function from a row to its column: what all rows have in common is left out."""
    varied = [name for name in _TOLD_APART if len({row.settings.get(name) for row in shown}) > 1]
    several_sets = len({row.dataset for row in shown}) > 1 and not forward

    def name(row: EvalResult) -> str:
        direction = None if forward else row.direction
        settings = ((key, row.settings.get(key)) for key in varied)
        settings = (f"centred ({value})" if key == "centering" and value else value for key, value in settings)
        settings = (value for value in settings if value not in (None, "centred (none)"))
        return " ".join(filter(None, (row.dataset if several_sets else None, row.metric, direction, *settings)))

    return name


def cell(rows: list[EvalResult], *, interval: bool = True) -> str:
    """One figure over the seeds: mean, standard deviation and, if wanted, the mean 95% interval over test items."""
    if not rows:
        return ""
    values = [row.value for row in rows]
    digits = 1 if rows[0].unit == "%" else 3
    text = f"{np.mean(values):.{digits}f}" + (f" ±{np.std(values, ddof=1):.{digits}f}" if len(values) > 1 else "")
    lows, highs = ([getattr(row, end) for row in rows] for end in ("low", "high"))
    if interval and None not in lows + highs:
        text += f" ({interval_told(np.mean(lows), np.mean(highs), digits)})"
    return text


def starting_point(rows: list[EvalResult]) -> str:
    """What the encoder had before training, read off the paired differences."""
    paired = [row for row in rows if "paired" in row.settings]
    if not paired:
        return ""
    digits = 1 if paired[0].unit == "%" else 3
    p_value = np.median([row.settings["paired"]["p_value"] for row in paired])
    value = np.mean([row.value - row.settings["paired"]["difference"] for row in paired])
    return f"{value:.{digits}f} (p {p_told(p_value)})"


def learning_curve(results: Sequence[EvalResult], rows: Sequence[dict]) -> tuple[str, Forecast] | None:
    """(metric, forecast) of what another 1,000 pairs would bring, where rows set a `fraction`; else None."""
    if not any("fraction" in (row.get("set") or {}) for row in rows):
        return None
    show = {"metric": ["P@1"], "centering": ["none"], "method": ["cosine"], "direction": ["forward"]}
    curve = [row for row in _wanted(results, show) if row.settings["stage"] == "after"]
    return "P@1", forecast([row.settings["pairs"] for row in curve], [row.value for row in curve])
