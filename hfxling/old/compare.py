"""Test whether models differ: the first results.json against each other one, on the same items.

hfxling compare A/results.json B/results.json [C/results.json ...] [--metrics P@1]

The files are those of hfxling evaluate, which keeps the outcome of every item. Sign-flip tests for means, Williams' for
correlations, swaps of sentences' outcomes for F1; p-values are corrected for the number of comparisons (Holm 1979), the
intervals are not. What was measured on different text is refused.
"""

from __future__ import annotations

from dataclasses import dataclass

from hfxling.arguments import key, parse_arguments
from hfxling.evaluation.comparison import Comparison, compare_results, comparison_table
from hfxling.evaluation.results import format_table, read_results


@dataclass(kw_only=True)
class CompareArguments:
    """What is compared."""

    files: list[str] = key(
        "results.json of two models or more, the first compared with each other one", positional=True
    )
    metrics: list[str] = key("only these, such as P@1; by default all that have items", [])
    level: float = key("corrected p-values below it tell models apart", 0.05)

    def __post_init__(self):
        if len(self.files) < 2 or len({*self.files}) < len(self.files):
            raise ValueError(f"files={' '.join(self.files)}: give two results.json or more, all different.")
        if not 0 < self.level < 1:
            raise ValueError(f"level={self.level}: give a number between 0 and 1, such as 0.05.")


def main(argv: list[str] | None = None) -> list[Comparison]:
    (args,) = parse_arguments((CompareArguments,), argv, prog="hfxling compare", description=__doc__)
    runs = {path: read_results(path) for path in args.files}
    if args.metrics:
        known = {row.metric for rows in runs.values() for row in rows if row.items}
        for metric in args.metrics:
            if metric not in known:
                raise ValueError(f"metrics={metric!r} is none of {', '.join(sorted(known))}.")
        runs = {path: [row for row in rows if row.metric in args.metrics] for path, rows in runs.items()}
    comparisons = compare_results(runs)
    print(format_table(*comparison_table(comparisons, args.level)))
    return comparisons
