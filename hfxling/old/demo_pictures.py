"""The page's pictures as HTML, drawn by the browser: its fonts have the letters of every language."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

from hfxling.sentences.bitext import ScoredPair

from .demo_model import Hits, Links

SOURCE, TARGET = "#d1495b", "#30638e"  # as in the pictures of hfxling.evaluation.plots
WIDTH, HEIGHT, MARGIN = 760, 430, 46  # of the map of sentences, in pixels
LABEL = 26  # letters of a label on it
SHOWN = 200  # mined pairs on the page; the file has them all
TERMS = 10  # reasons in the list
CSS = f"""
.hx-note {{ border-left: 4px solid {SOURCE}; background: #d1495b14; padding: .8em 1em; border-radius: 6px; }}
.hx-calm {{ border-color: {TARGET}; background: #30638e14; }}
.hx-hit {{ margin: 0 0 1.2em; }}
.hx-hit b {{ font-size: 1.1em; color: {SOURCE}; }}
.hx-row {{ display: flex; gap: .8em; align-items: baseline; padding: .25em .6em; margin-top: .2em;
  background: linear-gradient(to right, #30638e26 var(--at), transparent var(--at)); border-radius: 6px; }}
.hx-row i {{ font-style: normal; font-variant-numeric: tabular-nums; opacity: .65; min-width: 4em; text-align: right; }}
.hx-map {{ width: 100%; border: 1px solid var(--border-color-primary); border-radius: 10px; }}
.hx-map text {{ font-size: 13px; paint-order: stroke; stroke: var(--background-fill-primary); stroke-width: 4px;
  fill: var(--body-text-color); }}
.hx-map circle:hover {{ stroke: var(--body-text-color); stroke-width: 2px; }}
.hx-links {{ display: flex; flex-wrap: wrap; gap: 1.5em 2.5em; align-items: flex-start; }}
.hx-heat {{ overflow-x: auto; max-width: 100%; }}
.hx-heat table {{ border-collapse: separate; border-spacing: 2px; width: auto; margin: 0; }}
.hx-heat :is(table, tr, th, td) {{ border: 0 !important; background: none !important; }}
.hx-heat :is(th, td) {{ padding: 0 !important; font-weight: 500; white-space: nowrap; }}
.hx-heat tbody th {{ text-align: right; padding-right: .5em !important; color: {SOURCE}; }}
.hx-heat thead th {{ vertical-align: bottom; color: {TARGET}; }}
.hx-heat thead span {{ writing-mode: vertical-rl; transform: rotate(180deg); padding: .4em 0; }}
.hx-heat button, .hx-heat i {{ display: block; width: 30px; height: 30px; border-radius: 5px; border: 0; padding: 0;
  background: color-mix(in srgb, {TARGET} var(--at), var(--background-fill-secondary)); }}
.hx-heat button {{ cursor: pointer; }}
.hx-heat button:hover, .hx-heat button.on {{ outline: 3px solid {SOURCE}; }}
.hx-heat .hx-linked {{ box-shadow: inset 0 0 0 2px {SOURCE}; }}
.hx-why {{ flex: 1; min-width: 280px; }}
.hx-why h4 {{ margin: 0 0 .4em; }}
.hx-picked {{ min-height: 5.5em; margin-bottom: 1em; }}
.hx-less {{ background: linear-gradient(to right, #d1495b26 var(--at), transparent var(--at)); }}
.hx-pairs {{ width: 100%; border: 0 !important; }}
.hx-pairs td {{ padding: .35em .6em; vertical-align: top; border: 0 !important; }}
.hx-pairs tr {{ border: 0 !important; border-bottom: 1px solid var(--border-color-primary) !important; }}
.hx-pairs td:first-child {{ font-variant-numeric: tabular-nums; opacity: .65; }}
.hx-dim {{ opacity: .65; }}
"""
# Shows the reasons of the cell that is clicked; the page is not asked again.
ON_LOAD = """
element.addEventListener("click", event => {
  const cell = event.target.closest("button[data-why]");
  if (!cell) return;
  element.querySelectorAll("button.on").forEach(other => other.classList.remove("on"));
  cell.classList.add("on");
  element.querySelector(".hx-picked").innerHTML = cell.dataset.why;
});
"""


def note(text: str, *, calm: bool = False) -> str:
    """A message: what is wrong, or what to do."""
    return f'<div class="hx-note{" hx-calm" * calm}" role="{"note" if calm else "alert"}">{escape(text)}</div>'


def hits(found: Hits) -> str:
    """Every sentence with its candidates, a bar behind each as long as its score."""
    blocks = []
    for sentence, places, scores in zip(found.sentences, found.places, found.scores):
        best = max(scores[0], 1e-9)
        rows = (_bar(f"{score:.3f}", found.candidates[row], score / best) for row, score in zip(places, scores))
        blocks.append(f'<div class="hx-hit"><b>{escape(sentence)}</b>{"".join(rows)}</div>')
    return "".join(blocks)


def sentence_map(found: Hits) -> str:
    """All sentences on a plane, each joined with its best candidate; SVG with the texts as tooltips."""
    together = np.concatenate(found.points)
    low, span = together.min(0), np.maximum(np.ptp(together, axis=0), 1e-9)
    room = np.array([WIDTH, HEIGHT]) - 2 * MARGIN
    queries, candidates = (MARGIN + (points - low) / span * room for points in found.points)
    best = {int(places[0]) for places in found.places}
    drawn = [_dot(point, text, TARGET, 3.5, 0.45) for point, text in zip(candidates, found.candidates)]
    for query, (place, *_) in zip(queries, found.places):
        ends = (*query, *candidates[place])
        drawn.append('<line x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}" stroke="#888"/>'.format(*ends))
    drawn += [_dot(candidates[place], found.candidates[place], TARGET, 6, 1) for place in sorted(best)]
    drawn += [_dot(point, text, SOURCE, 6, 1) for point, text in zip(queries, found.sentences)]
    named = []
    for query, sentence, (place, *_) in zip(queries, found.sentences, found.places):
        is_right = bool(query[0] > candidates[place][0])  # away from each other
        named += [(query, sentence, is_right), (candidates[place], found.candidates[place], not is_right)]
    return (
        f'<svg class="hx-map" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="map of the sentences">'
        f"{''.join(drawn)}{''.join(_labels(named))}</svg>"
        '<p class="hx-dim">Your sentences in red, the candidates in blue; a line leads to the best one. Point at a dot '
        "to read it. The two directions in which the sentences' vectors differ most (PCA).</p>"
    )


def links(found: Links) -> str:
    """The heat map, whose cells tell their reasons when they are clicked, and the list of what counts most."""
    top = max(found.weights.max(initial=0.0), 1e-9)
    header = "".join(f"<th><span>{escape(unit)}</span></th>" for unit in found.target)
    rows = []
    for i, unit in enumerate(found.source):
        cells = "".join(_cell(found, i, j, top) for j in range(len(found.target)))
        rows.append(f"<tr><th>{escape(unit)}</th>{cells}</tr>")
    told = note("Click a coloured cell to see what makes it.", calm=True)
    return (
        '<div class="hx-links"><div class="hx-heat"><table>'
        f"<thead><tr><th></th>{header}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
        f'<div class="hx-why"><div class="hx-picked">{told}</div>{_terms(found)}</div></div>'
    )


def pairs(rows: Sequence[ScoredPair], counts: tuple[int, int]) -> str:
    """What was mined, as a table."""
    cells = []
    for score, source, target, *_, flags in rows[:SHOWN]:
        flag = f' <span class="hx-dim">({escape(flags.replace(",", ", ").replace("_", " "))})</span>' * bool(flags)
        cells.append(f"<tr><td>{score:.3f}</td><td>{escape(source)}</td><td>{escape(target)}{flag}</td></tr>")
    more = f" The first {SHOWN} are shown, the file has all." * (len(rows) > SHOWN)
    number = f"{len(rows):,} pair{'s' * (len(rows) != 1)} of {counts[0]:,} and {counts[1]:,} sentences"
    told = (
        f"{number}, the surest first. The score is how much closer a pair is than its neighbours; where the right "
        f"pairs end is for you to see.{more}"
    )
    return f'{note(told, calm=True)}<table class="hx-pairs"><tbody>{"".join(cells)}</tbody></table>'


def _bar(number: str, text: str, share: float, kind: str = "") -> str:
    at = 100 * min(max(share, 0.0), 1.0)
    return f'<div class="hx-row{kind}" style="--at:{at:.0f}%"><i>{number}</i><span>{escape(text)}</span></div>'


def _dot(point: np.ndarray, text: str, color: str, size: float, opacity: float) -> str:
    place = f'cx="{point[0]:.1f}" cy="{point[1]:.1f}" r="{size}"'
    return f'<circle {place} fill="{color}" fill-opacity="{opacity}"><title>{escape(text)}</title></circle>'


def _labels(named: Sequence[tuple[np.ndarray, str, bool]]) -> list[str]:
    """A text beside each point, to its right or left; lower where another one is in its way."""
    taken: list[tuple[float, float, float]] = []
    drawn = []
    for (x, y), text, is_right in sorted(named, key=lambda item: float(item[0][1])):
        short = text if len(text) <= LABEL else f"{text[:LABEL]}…"
        width = sum(13 if letter >= "\u2e80" else 7.5 for letter in short)
        is_right = x + 10 + width < WIDTH if is_right else x - 10 - width < 0
        start = x + 10 if is_right else x - 10 - width
        while any(start < stop and left < start + width and abs(y - other) < 15 for left, stop, other in taken):
            y += 15
        taken.append((start, start + width, y))
        anchor = f'x="{x + 10:.1f}"' if is_right else f'x="{x - 10:.1f}" text-anchor="end"'
        drawn.append(f'<text {anchor} y="{y + 4:.1f}">{escape(short)}</text>')
    return drawn


def _cell(found: Links, i: int, j: int, top: float) -> str:
    at = f"--at:{100 * max(found.weights[i, j], 0.0) / top:.0f}%"
    if (i, j) not in found.reasons:
        return f'<td><i style="{at}"></i></td>'
    rows = sorted(found.reasons[i, j], key=lambda reason: -abs(reason[1]))
    words = f"{found.source[i]} – {found.target[j]}"
    why = f"<h4>{escape(words)}</h4>" + "".join(_bar(f"{value:+.3f}", text, 0) for text, value in rows)
    linked = ' class="hx-linked"' * ((i, j) in found.framed)
    told = f'title="{escape(words)}: {found.weights[i, j]:.3f}" data-why="{escape(why)}"'
    return f'<td><button type="button"{linked} style="{at}" {told}></button></td>'


def _terms(found: Links) -> str:
    if found.score is None:
        return '<p class="hx-dim">Dark cells are where the model looks; framed ones are its links.</p>'
    size = max(abs(value) for _, value in found.terms)
    shown = found.terms[:TERMS]
    rows = [_bar(f"{value:+.3f}", text, abs(value) / size, " hx-less" * (value < 0)) for text, value in shown]
    left = len(found.terms) - len(shown)
    rest = sum(value for _, value in found.terms[len(shown) :])
    more = f'<p class="hx-dim">{left} more add {rest:+.3f}.</p>' * bool(left)
    return (
        f"<h4>Score {found.score:+.3f}</h4>{''.join(rows)}{more}"
        '<p class="hx-dim">What speaks for and against a translation, added up.</p>'
    )
