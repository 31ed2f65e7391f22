"""Pictures of embedding spaces (paper, Fig. 7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from hfxling.files import atomic_path


def save_png(figure, path: str | Path) -> None:
    """Write a matplotlib figure, whole or not at all."""
    with atomic_path(path) as scratch:
        figure.savefig(scratch, format="png", dpi=120)


def project_2d(*groups: np.ndarray) -> list[np.ndarray]:
    """The (N, D) groups on the two principal components of their unit vectors taken together, (N, 2) each."""
    units = [group / np.linalg.norm(group, axis=1, keepdims=True) for group in groups]
    together = np.concatenate(units)
    mean = together.mean(0)
    _, _, components = np.linalg.svd(together - mean, full_matrices=False)
    return [(group - mean) @ components[:2].T for group in units]


def scatter_before_after(
    path: str | Path,
    before: tuple[np.ndarray, np.ndarray],
    after: tuple[np.ndarray, np.ndarray],
    languages: Sequence[str],
    *,
    limit: int = 500,
) -> None:
    """Write a PNG: both languages' sentence vectors before and after training, a thin line joining each pair.

    Args:
        path: of the PNG.
        before: source and target vectors, (N, D) each.
        after: the same sentences' vectors after training.
        languages: codes of the two sides, for the legend.
        limit: pairs drawn at most.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4.6), layout="constrained")
    for axes, title, pair in zip(figure.subplots(1, 2), ("before", "after"), (before, after)):
        source, target = project_2d(*(np.asarray(side[:limit]) for side in pair))
        axes.plot(*np.stack([source, target], 1).T, color="0.8", linewidth=0.4, zorder=1)
        axes.scatter(*source.T, s=9, label=languages[0], color="#d1495b", zorder=2)
        axes.scatter(*target.T, s=9, label=languages[1], color="#30638e", zorder=2)
        axes.set(title=title, xticks=[], yticks=[])
        axes.legend(loc="upper right")
    save_png(figure, path)


def scatter_tokens(
    path: str | Path,
    stages: Mapping[str, tuple[Sequence[np.ndarray], Sequence[np.ndarray]]],
    languages: Sequence[str],
    *,
    pairs: int = 100,
) -> None:
    """Write a PNG of token vectors by language, one panel a stage (DAP paper, Fig. 1: 100 sentence pairs).

    Args:
        path: of the PNG.
        stages: title (e.g. "before", "after") -> source and target sides, each one (words, H) array a sentence; rows
            that are not finite are left out.
        languages: codes of the two sides, for the legend.
        pairs: sentence pairs drawn at most.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5 * len(stages), 4.6), layout="constrained")
    panels = figure.subplots(1, len(stages), squeeze=False)[0]
    for axes, (title, sides) in zip(panels, stages.items()):
        tokens = [np.concatenate(side[:pairs]) for side in sides]
        projected = project_2d(*(side[np.isfinite(side).all(axis=1)] for side in tokens))
        for points, language, color in zip(projected, languages, ("#d1495b", "#30638e")):
            axes.scatter(*points.T, s=6, alpha=0.6, linewidths=0, label=language, color=color)
        axes.set(title=title, xticks=[], yticks=[])
        axes.legend(loc="upper right")
    save_png(figure, path)


def plot_trajectory(path: str | Path, runs: Mapping[str, Sequence[tuple[float, float]]]) -> None:
    """Write a PNG of alignment against uniformity, epoch by epoch (disentangler paper, Fig. 2); lower left is better.

    Args:
        path: of the PNG.
        runs: name, e.g. an objective, to its (L_align, L_uniform) points, the first one before training.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.4, 4.6), layout="constrained")
    axes = figure.subplots()
    for name, points in runs.items():
        align, uniform = np.asarray(points, dtype=float).reshape(-1, 2).T
        (line,) = axes.plot(align, uniform, marker=".", linewidth=0.8, label=name)
        axes.scatter(align[:1], uniform[:1], marker="s", s=30, color="0.2", zorder=3)
        axes.scatter(align[-1:], uniform[-1:], marker="*", s=110, color=line.get_color(), zorder=3)
    axes.set(xlabel="alignment (translations closer: left)", ylabel="uniformity (more even: down)")
    axes.legend()
    save_png(figure, path)
