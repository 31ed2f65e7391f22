"""A picture of one sentence pair's soft alignment."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from .plots import save_png

# Fonts with letters that the default one lacks; those that are installed are used, letter by letter.
_FONTS = (
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "Noto Sans SC",
    "WenQuanYi Micro Hei",
    "PingFang SC",
    "Microsoft YaHei",
)
_FONTS += ("Noto Sans Lao", "Noto Sans Thai", "Lao UI", "Leelawadee UI", "Phetsarath OT", "Arial Unicode MS")


def draw_alignment(
    path: str | Path,
    matrix: np.ndarray,
    source: Sequence[str],
    target: Sequence[str],
    links: Iterable[tuple[int, int]] = (),
) -> None:
    """Write a PNG: source units downwards, target units across, weights in grey, links framed.

    Every label begins with the unit's position, so that it can be told even where no font has its letters.

    Args:
        path: of the PNG.
        matrix: (S, T) weights, 0..1.
        source: S texts.
        target: T texts.
        links: framed cells.

    Raises:
        ValueError: a matrix of another shape than the texts, or a side without units.
    """
    from matplotlib import font_manager
    from matplotlib.figure import Figure

    matrix = np.asarray(matrix)
    if matrix.shape != (len(source), len(target)) or not matrix.size:
        raise ValueError(f"a matrix of shape {matrix.shape} is no alignment of {len(source)} and {len(target)} units.")
    installed = {font.name for font in font_manager.fontManager.ttflist}
    family = ["DejaVu Sans", *(name for name in _FONTS if name in installed)]
    rows, columns = matrix.shape
    figure = Figure(figsize=(2 + 0.32 * min(columns, 200), 1.5 + 0.28 * min(rows, 200)), layout="constrained")
    axes = figure.subplots()
    axes.imshow(matrix, cmap="Greys", vmin=0, vmax=1, aspect="auto")
    for i, j in links:
        axes.add_patch(_frame(i, j))
    axes.set_xticks(range(columns), [f"{j} {text}" for j, text in enumerate(target)], rotation=60, ha="left")
    axes.set_yticks(range(rows), [f"{i} {text}" for i, text in enumerate(source)])
    axes.tick_params(top=True, labeltop=True, bottom=False, labelbottom=False, length=0, labelsize=8)
    for label in (*axes.get_xticklabels(), *axes.get_yticklabels()):
        label.set(fontfamily=family, parse_math=False)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        save_png(figure, path)


def _frame(i: int, j: int):
    from matplotlib.patches import Rectangle

    return Rectangle((j - 0.46, i - 0.46), 0.92, 0.92, fill=False, edgecolor="#d1495b", linewidth=1.6)
