"""The card's table of short and coarse vectors."""

from __future__ import annotations

from collections.abc import Sequence

from hfxling.evaluation.results import EvalResult, format_table
from hfxling.evaluation.short_vectors import PRECISIONS


def is_short(row: EvalResult) -> bool:
    """Whether a row is one of `short_vector_results`: it has a table of its own."""
    return "dimensions" in row.settings


def short_table(rows: Sequence[EvalResult]) -> str:
    """P@1 by components kept and precision, a line for each data set, direction and number of components."""
    lines: dict[tuple, dict[str, str]] = {}
    for row in rows:
        place = (row.dataset, row.split, row.direction, row.settings["dimensions"])
        line, precision = lines.setdefault(place, {}), row.settings["precision"]
        line[precision] = f"{row.value:.1f}"
        if precision == "int8":
            line["range"] = f"{row.settings['range']:g}"
    header = ["Dataset", "Split", "Direction", "Components", *PRECISIONS, "int8 range"]
    return format_table(header, [[*place, *map(line.get, (*PRECISIONS, "range"))] for place, line in lines.items()])
