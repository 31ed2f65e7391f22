"""Pictures of embedding spaces (paper, Fig. 7) and of one sentence pair's soft alignment."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from hfxling.files import atomic_path
from hfxling.sentences.neighbours import unit_or_zero

_COLORS = ("#d1495b", "#30638e")
# Fonts with letters that the default font lacks; the installed ones are used, letter by letter.
_FONTS = (
    *("Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans SC", "WenQuanYi Micro Hei", "PingFang SC", "Microsoft YaHei"),
    *("Noto Sans Lao", "Noto Sans Thai", "Lao UI", "Leelawadee UI", "Phetsarath OT", "Arial Unicode MS"),
)


def can_draw() -> bool:
    """Whether matplotlib is installed; ask before calling a function of this module."""
    return find_spec("matplotlib") is not None


def _panels(width: float, height: float = 4.6, count: int = 1) -> tuple:
    """A matplotlib figure, sizes in inches, and the axes of its panels side by side."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(1, count, squeeze=False)[0]


def _save_png(figure, path: str | Path) -> None:
    with atomic_path(path) as scratch:
        figure.savefig(scratch, format="png", dpi=min(120, 1800 / figure.get_figwidth()))  # a page's width


def project_2d(*groups: np.ndarray) -> list[np.ndarray]:
    """The (N, D) groups projected on the first two principal components of all their unit vectors, (N, 2) each."""
    units = [unit_or_zero(group) for group in groups]
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
    """Write a PNG: both languages' sentence vectors before and after training, with a thin line joining each pair.

    `before` and `after` are (N, D) source and target vectors of the same sentences, of which at most `limit` are drawn;
    `languages` are the codes of the two sides, for the legend.
    """
    from matplotlib.collections import LineCollection

    figure, panels = _panels(10, count=2)
    for axes, title, pair in zip(panels, ("before", "after"), (before, after)):
        sides = project_2d(np.asarray(pair[0][:limit]), np.asarray(pair[1][:limit]))
        ends = np.stack(sides, 1)  # of every pair's line, (N, 2, 2)
        axes.add_collection(LineCollection(ends, colors="0.8", linewidths=0.4, zorder=1))
        axes.set_title(title)
        _scatter(axes, sides, languages, s=9, zorder=2)
    _save_png(figure, path)


def scatter_tokens(
    path: str | Path,
    stages: Mapping[str, tuple[Sequence[np.ndarray], Sequence[np.ndarray]]],
    languages: Sequence[str],
    *,
    pairs: int = 100,
) -> None:
    """Write a PNG of token vectors by language, one panel per stage (DAP paper, Fig. 1: 100 sentence pairs).

    Args:
        path: file to write.
        stages: title (e.g. "before", "after") -> source and target sides, each with one (words, H) array per sentence;
            rows that are not finite are left out.
        languages: codes of the two sides, for the legend.
        pairs: largest number of sentence pairs to draw.
    """
    figure, panels = _panels(5 * len(stages), count=len(stages))
    for axes, (title, sides) in zip(panels, stages.items()):
        tokens = []
        for side in sides:
            vectors = np.concatenate(side[:pairs])
            tokens.append(vectors[np.isfinite(vectors).all(axis=1)])
        axes.set_title(title)
        _scatter(axes, project_2d(*tokens), languages, s=6, alpha=0.6, linewidths=0)
    _save_png(figure, path)


def _scatter(axes, sides: Sequence[np.ndarray], languages: Sequence[str], **style) -> None:
    for points, language, color in zip(sides, languages, _COLORS):
        axes.scatter(*points.T, label=language, color=color, **style)
    axes.set(xticks=[], yticks=[])
    axes.legend(loc="upper right")


def plot_trajectory(path: str | Path, runs: Mapping[str, Sequence[tuple[float, float]]]) -> None:
    """Write a PNG of alignment against uniformity, epoch by epoch (disentangler paper, Fig. 2); lower left is better.

    `runs` maps names, e.g. objectives, to their (L_align, L_uniform) points, the first one before training.
    """
    figure, (axes,) = _panels(5.4)
    for name, points in runs.items():
        align, uniform = np.asarray(points, dtype=float).reshape(-1, 2).T
        (line,) = axes.plot(align, uniform, marker=".", linewidth=0.8, label=name)
        axes.scatter(align[:1], uniform[:1], marker="s", s=30, color="0.2", zorder=3)
        axes.scatter(align[-1:], uniform[-1:], marker="*", s=110, color=line.get_color(), zorder=3)
    axes.set(xlabel="alignment (translations closer: left)", ylabel="uniformity (more even: down)")
    axes.legend()
    _save_png(figure, path)


def draw_alignment(
    path: str | Path,
    matrix: np.ndarray,
    source: Sequence[str],
    target: Sequence[str],
    links: Iterable[tuple[int, int]] = (),
) -> None:
    """Write a PNG of (S, T) weights, 0..1, in grey: S source units downwards, T target units across, links framed.

    Every label begins with the unit's position, so that it can be identified even if no font has its letters.
    """
    from matplotlib import font_manager
    from matplotlib.patches import Rectangle

    matrix = np.asarray(matrix)
    if matrix.shape != (len(source), len(target)) or not matrix.size:
        counts = f"{len(source)} source and {len(target)} target units"
        raise ValueError(f"a matrix of shape {matrix.shape} does not fit {counts}; give one of that shape.")
    installed = {font.name for font in font_manager.fontManager.ttflist}
    family = ["DejaVu Sans", *(name for name in _FONTS if name in installed)]
    rows, columns = matrix.shape
    figure, (axes,) = _panels(2 + 0.32 * min(columns, 200), 1.5 + 0.28 * min(rows, 200))
    axes.imshow(matrix, cmap="Greys", vmin=0, vmax=1, aspect="auto")
    for i, j in links:
        axes.add_patch(Rectangle((j - 0.46, i - 0.46), 0.92, 0.92, fill=False, edgecolor=_COLORS[0], linewidth=1.6))
    axes.set_xticks(range(columns), [f"{j} {text}" for j, text in enumerate(target)], rotation=60, ha="left")
    axes.set_yticks(range(rows), [f"{i} {text}" for i, text in enumerate(source)])
    axes.tick_params(top=True, labeltop=True, bottom=False, labelbottom=False, length=0, labelsize=8)
    for label in (*axes.get_xticklabels(), *axes.get_yticklabels()):
        label.set(fontfamily=family, parse_math=False)  # a "$" in a text begins no formula
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        _save_png(figure, path)
