"""Draw the pictures of README and docs from results/, as SVG for light and for dark pages.

python docs/pictures.py     # also those of word links and of mining, whose links are fitted here in a few seconds

They are written by hand, without matplotlib, so that the same results give the same files everywhere.
`python docs/render.py` draws those of results/, too, and its --check compares them.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

import numpy as np

from hfxling.evaluation.results import EvalResult, read_results

ROOT = Path(__file__).resolve().parents[1]
FOLDER = Path("docs") / "pictures"
FONT = "system-ui, 'Noto Sans', 'Noto Sans CJK SC', 'Noto Sans Lao', sans-serif"
TABLE = "retrieval_table_me5"
LEAST_SHOWN = 50  # P@1 in % that the learning curve's axis begins at
SENTENCES = ("司机不肯打表。", "Tài xế không chịu bật đồng hồ tính tiền.")


@dataclass(frozen=True)
class Theme:
    """Colours of a page."""

    name: str
    text: str
    faint: str
    grid: str
    series: tuple[str, str, str, str]


THEMES = (
    Theme("light", "#1f2328", "#59636e", "#d1d9e0", ("#b8c4ce", "#1a7f76", "#c2571a", "#6b4fbb")),
    Theme("dark", "#f0f6fc", "#9198a1", "#3d444d", ("#5b6874", "#3fb8ac", "#f0883e", "#a48bf0")),
)


def main() -> None:
    for path, text in [*result_pictures(ROOT), *sample_pictures()]:
        (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / path).write_text(text, encoding="utf-8")
        print(f"wrote {path}")


def result_pictures(root: Path) -> Iterator[tuple[Path, str]]:
    """(path below the root, SVG) of every picture that shows what stands in results/."""
    table = read_results(root / "results" / f"{TABLE}.json")
    labels = json.loads((root / "results" / f"{TABLE}.json").read_text(encoding="utf-8"))["rows"]
    curve = read_results(root / "results" / "learning_curve_pairs_me5.json")
    for theme in THEMES:
        yield FOLDER / f"retrieval_{theme.name}.svg", bars(table, [row["label"] for row in labels], theme)
        yield FOLDER / f"pairs_{theme.name}.svg", learning_curve(curve, theme)


def sample_pictures() -> Iterator[tuple[Path, str]]:
    """(path, SVG) of what links learnt from the sample corpus explain and mine."""
    import hfxling
    from hfxling.data.sample import sample_texts

    chinese, vietnamese = (sample_texts(language, "train", generated=0) for language in ("zh", "vi"))
    model = hfxling.fit_lexical(chinese, vietnamese, ("zh", "vi"), progress=False)
    terms = model.explain(*SENTENCES, ("zh", "vi"))

    held_out = [sample_texts(language, "test", generated=0) for language in ("zh", "vi")]
    heaps = held_out[0][:60], held_out[1][30:90]  # news.zh and news.vi of docs/index.md
    mined = hfxling.mine(*heaps, languages=("zh", "vi"), lexical=model, progress=False)
    translations = set(zip(*held_out))
    scores = [row.score for row in mined.rows]
    is_right = [(row.source, row.target) in translations for row in mined.rows]
    for theme in THEMES:
        yield FOLDER / f"links_{theme.name}.svg", heat_map(terms, theme)
        yield FOLDER / f"mined_{theme.name}.svg", histogram(scores, is_right, theme)


def bars(rows: Sequence[EvalResult], labels: Sequence[str], theme: Theme) -> str:
    """A bar a model: the mean of P@1 over language pairs and directions, with the range of these."""
    values, of_pairs = defaultdict(list), []
    for row in rows:
        if row.metric == "P@1" and "candidates" not in row.settings:
            values[row.settings["row"]].append(row.value)
            of_pairs.append(row.dataset)
    shown = [label for label in labels if values[label]]
    left, width, step = 210, 400, 26
    height = 44 + step * len(shown) + 26
    best = max(shown, key=lambda label: np.mean(values[label]))
    pairs = ", ".join(dict.fromkeys(of_pairs))
    drawing = Drawing(left + width + 70, height, theme)
    drawing.text(8, 20, "Translations found first, in %", size=15, weight="bold")
    drawing.text(8, 38, f"both directions of {pairs}; encoder: multilingual-e5-small", faint=True)
    for percent in (0, 25, 50, 75, 100):
        x = left + width * percent / 100
        drawing.line(x, 50, x, height - 22, theme.grid)
        drawing.text(x, height - 6, str(percent), anchor="middle", faint=True, size=11)
    for place, label in enumerate(shown):
        y = 54 + step * place
        value = float(np.mean(values[label]))
        colour = theme.series[2] if label == best else theme.series[0 if label.startswith("encoder") else 1]
        drawing.text(left - 8, y + 14, label, anchor="end")
        drawing.box(left, y, width * value / 100, step - 7, colour)
        drawing.text(left + width * value / 100 + 6, y + 14, f"{value:.1f}", weight="bold")
    return drawing.svg("Translations found first by each model")


def learning_curve(rows: Sequence[EvalResult], theme: Theme) -> str:
    """Lines of P@1 over the number of training pairs, means over language pairs and directions.

    The encoder as it came, which needs no pairs, is a level line.
    """
    points: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    as_it_came = []
    for row in rows:
        label, _, size = row.settings["row"].removesuffix(" pairs").rpartition(", ")
        if row.metric != "P@1":
            continue
        if size.isdigit():
            points[label][int(size)].append(row.value)
        else:
            as_it_came.append(row.value)
    names = {"auto": "head", "fine-tuned": "fine-tuned", "sparse": "sparse", "fused": "fused"}
    sizes = sorted({size for line in points.values() for size in line})
    left, top, width, height = 44, 56, 470, 240
    drawing = Drawing(left + width + 170, top + height + 44, theme)
    drawing.text(8, 20, "How many sentence pairs are enough?", size=15, weight="bold")
    drawing.text(
        8, 38, "Translations found first in %, mean of lo-zh and zh-vi, news; multilingual-e5-small", faint=True
    )

    def position(size: int, value: float) -> tuple[float, float]:
        share = (math.log(size) - math.log(sizes[0])) / (math.log(sizes[-1]) - math.log(sizes[0]))
        return left + width * share, top + height * (100 - value) / (100 - LEAST_SHOWN)

    for percent in range(LEAST_SHOWN, 101, 10):
        y = position(sizes[0], percent)[1]
        drawing.line(left, y, left + width, y, theme.grid)
        drawing.text(left - 6, y + 4, str(percent), anchor="end", faint=True, size=11)
    for size in sizes:
        drawing.text(
            position(size, LEAST_SHOWN)[0], top + height + 18, f"{size:,}", anchor="middle", faint=True, size=11
        )
    drawing.text(left + width / 2, top + height + 36, "training pairs", anchor="middle", faint=True)
    level = position(sizes[0], float(np.mean(as_it_came)))[1]
    drawing.line(left, level, left + width, level, theme.faint)
    ends = [[level, "the encoder", theme.faint]]
    for (label, name), colour in zip(names.items(), theme.series):
        places = [position(size, float(np.mean(points[label][size]))) for size in sizes]
        drawing.path(places, colour)
        ends.append([places[-1][1], name, colour])
    ends.sort()
    for place in range(1, len(ends)):
        ends[place][0] = max(ends[place][0], ends[place - 1][0] + 16)  # labels that do not lie on each other
    for y, name, colour in ends:
        drawing.text(left + width + 8, y + 4, name, colour=colour, weight="bold")
    return drawing.svg("Translations found first by number of training pairs")


def heat_map(terms: Sequence, theme: Theme) -> str:
    """Cells of two sentences' segments, the darker the more they add to the score."""
    added = defaultdict(float)
    for term in terms:
        if not term.source.startswith("("):
            added[term.source, term.target] += term.contribution
    rows = sorted({source for source, _ in added}, key=lambda part: (SENTENCES[0].find(part), len(part)))
    columns = sorted({target for _, target in added}, key=lambda part: (SENTENCES[1].lower().find(part), len(part)))
    cell_width, cell_height, left, top = 74, 30, 76, 90
    drawing = Drawing(left + cell_width * len(columns) + 12, top + cell_height * len(rows) + 12, theme)
    drawing.text(8, 20, "Why are these two translations of each other?", size=15, weight="bold")
    drawing.text(8, 42, f"{SENTENCES[0]}  ↔  {SENTENCES[1]}", size=14)
    strongest = max(added.values())
    for column, target in enumerate(columns):
        drawing.text(left + cell_width * (column + 0.5), top - 10, target, anchor="middle")
    for row, source in enumerate(rows):
        y = top + cell_height * row
        drawing.text(left - 10, y + 20, source, anchor="end")
        for column, target in enumerate(columns):
            x = left + cell_width * column
            drawing.box(x + 1, y + 1, cell_width - 2, cell_height - 2, theme.grid, opacity=0.35)
            value = added.get((source, target), 0.0)
            if value > 0:
                opacity = 0.15 + 0.85 * value / strongest
                drawing.box(x + 1, y + 1, cell_width - 2, cell_height - 2, theme.series[2], opacity=opacity)
                drawing.text(x + cell_width / 2, y + 20, f"+{value:.2f}", anchor="middle", size=12)
    return drawing.svg("Word links that make the score of a sentence pair")


def histogram(scores: Sequence[float], is_right: Sequence[bool], theme: Theme) -> str:
    """A square a mined pair, stacked by score, right ones and wrong ones in two colours, and where to cut."""
    lowest, highest = math.floor(min(scores)), math.floor(max(scores)) + 1
    step, left, top = 26, 24, 76
    counts = [sum(math.floor(score) == whole for score in scores) for whole in range(lowest, highest)]
    bottom = top + step * (max(counts) + 1)
    drawing = Drawing(left + step * (highest - lowest) + 24, bottom + 44, theme)
    colours = {True: theme.series[1], False: theme.series[2]}
    cut = precise_threshold(scores, is_right)
    drawing.text(8, 20, f"Scores of {len(scores)} mined pairs", size=15, weight="bold")
    for x, right, name in ((8, True, "translations"), (150, False, "others, found for sentences without one")):
        number = sum(each == right for each in is_right)
        drawing.box(x, 32, 12, 12, colours[right])
        drawing.text(x + 18, 43, f"{number} {name}", faint=True)

    stacked = dict.fromkeys(range(lowest, highest), 0)
    for score, right in sorted(zip(scores, is_right), key=lambda pair: not pair[1]):  # right ones below
        whole = math.floor(score)
        stacked[whole] += 1
        x, y = left + step * (whole - lowest), bottom - step * stacked[whole]
        drawing.box(x + 1, y + 1, step - 2, step - 2, colours[right])
    for whole in range(lowest, highest + 1):
        drawing.text(left + step * (whole - lowest), bottom + 16, str(whole), anchor="middle", faint=True, size=11)
    drawing.text(left + step * (highest - lowest) / 2, bottom + 36, "score", anchor="middle", faint=True)
    x = left + step * (cut - lowest)
    drawing.line(x, top - 6, x, bottom, theme.text)
    drawing.text(x + 6, top + 4, f"--threshold {cut:.1f}: 95 % are right", weight="bold")
    return drawing.svg("Scores of mined pairs, right and wrong ones")


def precise_threshold(scores: Sequence[float], is_right: Sequence[bool], precision: float = 0.95) -> float:
    """The lowest threshold, in tenths, that keeps at least this share of right pairs."""
    for tenths in range(math.floor(10 * min(scores)), math.floor(10 * max(scores)) + 1):
        threshold = tenths / 10
        kept = [right for score, right in zip(scores, is_right) if score >= threshold]
        if sum(kept) >= precision * len(kept):
            return threshold
    raise ValueError(f"no threshold keeps {precision:.0%} of right pairs")


class Drawing:
    """An SVG that is put together shape by shape; lengths are pixels."""

    def __init__(self, width: float, height: float, theme: Theme):
        self.width, self.height, self.theme = width, height, theme
        self.parts: list[str] = []

    def text(
        self, x: float, y: float, text: str, *, anchor: str = "start", size: int = 13, weight: str = "normal",
        faint: bool = False, colour: str | None = None,
    ) -> None:  # fmt: skip
        """Words, with x at their start, middle or end."""
        fill = colour or (self.theme.faint if faint else self.theme.text)
        self.parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" font-weight="{weight}" '
            f'fill="{fill}">{escape(text)}</text>'
        )

    def box(self, x: float, y: float, width: float, height: float, colour: str, *, opacity: float = 1.0) -> None:
        """A filled rectangle."""
        self.parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="2" fill="{colour}" '
            f'fill-opacity="{opacity:.2f}"/>'
        )

    def line(self, x: float, y: float, to_x: float, to_y: float, colour: str) -> None:
        """A thin line."""
        self.parts.append(f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{to_x:.1f}" y2="{to_y:.1f}" stroke="{colour}"/>')

    def path(self, places: Sequence[tuple[float, float]], colour: str) -> None:
        """A line through points, which are marked."""
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        self.parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2.5"/>')
        for x, y in places:
            self.parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>')

    def svg(self, title: str) -> str:
        """The whole file."""
        size = f'width="{self.width:g}" height="{self.height:g}" viewBox="0 0 {self.width:g} {self.height:g}"'
        head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" font-family="{FONT}">'
        return "\n".join([head, f"<title>{escape(title)}</title>", *self.parts, "</svg>"]) + "\n"


if __name__ == "__main__":
    main()
