"""The page of `hfxling demo`, and a Space of the Hub: translations, word links, mining and scores of a model.

`hfxling demo` starts this file; a Space holds a copy beside demo.json, which names its model. Every answer comes from a
verb of hfxling. Text, requests and files are limited here, since anybody may send them.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

# All files of the server and of its users; it is removed when the process ends. Gradio reads its name when imported.
FOLDER = tempfile.TemporaryDirectory(prefix="hfxling-demo-")
os.environ["GRADIO_TEMP_DIR"] = FOLDER.name

import gradio as gr

import hfxling
from hfxling.data.faults import FaultFinder
from hfxling.data.sample import LANGUAGES, sample_texts
from hfxling.models.loading import stored_kind

# What a CPU does while somebody waits.
MAX_LINES = 1_000
MAX_LETTERS = 2_000  # of a line
MAX_LINKED = 200  # letters of a sentence whose links are drawn: its cells are as many as the product of both lengths
MAX_TEXT = 200_000  # letters of a field
MAX_REQUEST = 4 * 2**20  # bytes
MAX_FOREIGN = 0.5  # of the lines that may be in another language
SHOWN = 200  # mined pairs on the page; the file has all
TERMS = 12  # reasons of a score on the page
BEGIN = (20, 5, 60)  # sentences of the sample that stand there to begin with
FONT = ["ui-sans-serif", "system-ui", "Noto Sans", "Noto Sans CJK SC", "Noto Sans Lao", "Noto Sans Thai", "sans-serif"]
BUTTON = {"concurrency_id": "model", "concurrency_limit": 1}  # a tokenizer answers one question at a time
Pair = tuple[str, str]
Rows = list[list[Any]]


class Shown:
    """A model of any method, and what it can do.

    Args:
        model: folder or Hub id.
        lexical: of a lexical encoder, alone or beside the model.
        languages: to begin with; by default the model's first two.
        candidates: text to begin with; by default of the sample corpus.
        revision: branch, tag or commit of the model, or of what stands in its place.
        lexical_revision: of the lexical encoder.
        **options: of `hfxling.load_encoder`.

    Attributes:
        encoder: what finds translations and mines.
        dense: what has dense vectors, for the map and for cosines.
        links: what explains scores, if anything does.
        aligner: what draws word links, if anything does.
        languages: those that can be chosen.
        pair: those to begin with.

    Raises:
        ValueError: no model that is known, or a language that it lacks.
        FileNotFoundError: no such folder or Hub id.
    """

    def __init__(
        self,
        model: str | None = None,
        lexical: str | None = None,
        *,
        languages: Pair | None = None,
        candidates: list[str] | None = None,
        revision: str | None = None,
        lexical_revision: str | None = None,
        **options: Any,
    ):
        kind = _kind(model, revision)
        if kind == hfxling.LexicalConfig.model_type and lexical is None:
            model, lexical, lexical_revision = None, model, lexical_revision or revision
        self.encoder = hfxling.load_encoder(
            model, lexical, revision=revision, lexical_revision=lexical_revision, **options
        )
        self.links = None
        self.dense = self.encoder
        if lexical is not None:
            self.links = self.encoder.lexical if model else self.encoder
            self.dense = self.encoder.dense if model else hfxling.load_encoder(lexical, revision=lexical_revision)
        self.aligner = model if kind == hfxling.AlignerConfig.model_type else None
        self.revision = revision
        if self.links is not None:
            self.aligner = self.links.model
        own_languages = list(self.encoder.languages)
        self.pair = tuple(languages or (own_languages or ["zh", "vi"])[:2])
        self.languages = own_languages or list(dict.fromkeys((*LANGUAGES, *self.pair)))
        for language in self.pair:
            if language not in self.languages:
                raise ValueError(f"language {language!r} is none of the model's: {', '.join(self.languages)}.")
        self.candidates = candidates

    @property
    def has_scores(self) -> bool:
        """Whether it scores pairs: cosines of dense vectors, or links."""
        return self.links is not None or self.dense.method == "cosine"

    def nearest(self, sentences: str, candidates: str, source: str, target: str) -> tuple[Rows, Any]:
        """The best candidates of every sentence, and all of them on a plane."""
        pair = (source, target)
        sides = _read(sentences, candidates, pair, ("sentences", "candidates"))
        found = hfxling.nearest(sides[0], candidates=sides[1], model=self.encoder, languages=pair, progress=False)
        rows = []
        for sentence, texts, scores in zip(found.sentences, found.texts, found.scores):
            for rank, (text, score) in enumerate(zip(texts, scores), 1):
                rows.append([sentence if rank == 1 else "", text, round(float(score), 3)])
        return rows, self._map(sides, pair)

    def _map(self, sides: list[list[str]], pair: Pair) -> Any:
        """Both sides on the two directions in which their vectors differ most, without texts that have none."""
        import pandas as pd

        columns = ["x", "y", "side", "text"]
        if not hasattr(self.dense, "dimension"):  # sparse vectors
            return pd.DataFrame(columns=columns)
        parts = pair if self.dense.languages else ("query", "document") if self.dense.routes else None
        vectors = np.concatenate(hfxling.encode(*sides, model=self.dense, language=parts, progress=False).vectors)
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        is_drawn = np.isfinite(norms[:, 0]) & (norms[:, 0] > 0)
        unit = vectors[is_drawn] / norms[is_drawn]
        if len(unit) < 2:
            return pd.DataFrame(columns=columns)
        unit = unit - unit.mean(0)
        _, _, directions = np.linalg.svd(unit, full_matrices=False)
        points = unit @ directions[:2].T
        texts = np.array(sides[0] + sides[1], dtype=object)[is_drawn]
        names = np.array(["sentences"] * len(sides[0]) + ["candidates"] * len(sides[1]), dtype=object)[is_drawn]
        return pd.DataFrame({"x": points[:, 0], "y": points[:, -1], "side": names, "text": texts})

    def word_links(self, source: str, target: str, *pair: str) -> tuple[dict, str, Rows]:
        """A table of both sentences' segments, dark where they belong together; the score, and what makes it."""
        sides, words, terms = self._explained(source, target, pair)
        weights = np.zeros((len(words.source), len(words.target)))
        for (i, j), score in zip(words.links, words.scores):
            weights[i, j] = score
        if terms:
            weights[:] = 0.0
            for term in terms:
                cells = _cells(term, sides, words)
                for cell in cells:
                    weights[cell] += term.contribution / len(cells)
        strongest = max(weights.max(initial=0.0), 1e-9)
        linked = dict(zip(words.links, words.scores))
        data, styling = [], []
        for i, unit in enumerate(words.source):
            data.append([sides[0][unit.start : unit.end]])
            styling.append([""])
            for j in range(len(words.target)):
                data[-1].append(f"{linked[i, j]:.2f}" if (i, j) in linked else "")
                share = max(weights[i, j], 0.0) / strongest
                styling[-1].append(f"background: rgba(48, 99, 142, {share:.2f})" if share >= 0.01 else "")
        headers = ["", *(sides[1][unit.start : unit.end] for unit in words.target)]
        table = {"headers": headers, "data": data, "metadata": {"styling": styling, "display_value": data}}
        told = "Numbers are links, with how sure the model is of each."
        if terms:
            told = f"Score {sum(term.contribution for term in terms):+.3f}. {told} Click a cell to see what makes it."
        return table, told, _term_rows(terms[:TERMS])

    def reasons(self, source: str, target: str, source_language: str, target_language: str, cell: list[int]) -> Rows:
        """What makes the weight of a cell of that table."""
        sides, words, terms = self._explained(source, target, (source_language, target_language))
        place = (cell[0], cell[1] - 1)  # the first column holds the source's segments
        return _term_rows([term for term in terms if place in _cells(term, sides, words)] or terms[:TERMS])

    def _explained(self, source: str, target: str, pair: tuple[str, ...]) -> tuple[list[str], Any, list]:
        sides = [" ".join(text.split()) for text in (source, target)]
        _read(*sides, pair, ("sentence", "translation"), longest=MAX_LINKED)
        options = {"model": self.aligner, "languages": pair}
        if isinstance(self.aligner, str):
            options["revision"] = self.revision
        (words,) = hfxling.align_words([sides[0]], [sides[1]], units="segments", progress=False, **options).pairs
        if self.links is None:
            return sides, words, []
        return sides, words, hfxling.explain(*sides, **options).terms

    def mine(self, source: str, target: str, *pair: str, folder: Path) -> tuple[Rows, str, str]:
        """Pairs of two texts, how many there are, and a file of all."""
        sides = _read(source, target, pair, ("first text", "second text"))
        k = min(4, len(sides[0]), len(sides[1]))
        with tempfile.TemporaryDirectory(dir=folder) as cache:
            mined = hfxling.mine(
                *sides, model=self.encoder, languages=pair, k=k, margin="distance", cache_dir=cache, progress=False
            )
        path = Path(tempfile.mkdtemp(dir=folder), f"pairs.{pair[0]}-{pair[1]}.tsv")
        mined.save(path)
        rows = [[round(row.score, 3), row.source, row.target, row.flags] for row in mined.rows[:SHOWN]]
        more = f" The first {SHOWN} are shown." if len(mined.rows) > SHOWN else ""
        told = f"{len(mined.rows)} pairs of {len(sides[0])} and {len(sides[1])} sentences, the surest first.{more}"
        return rows, told, str(path)

    def quality(self, source: str, target: str, *pair: str) -> dict:
        """Scores and flags of line-aligned translations."""
        sides = _read(source, target, pair, ("sentences", "translations"))
        model = None if self.encoder is self.links else self.dense
        judged = hfxling.quality(*sides, model=model, lexical=self.links, languages=pair, progress=False)
        data = []
        for row, (left, right) in enumerate(zip(*sides)):
            scores = [round(float(values[row]), 3) for values in judged.scores.values()]
            data.append([left, right, *scores, ", ".join(judged.flags[row])])
        return {"headers": ["sentence", "translation", *judged.scores, "flags"], "data": data}


def _kind(model: str | None, revision: str | None) -> str | None:
    """The model_type of a folder or Hub model; None where stock modules stand without one."""
    if model is None or ((Path(model) / "modules.json").is_file() and not (Path(model) / "config.json").is_file()):
        return None
    try:
        return stored_kind(model, {"revision": revision} if revision else {})
    except OSError:  # whoever loads it says what is missing
        return None


def _read(first: str, second: str, pair: tuple[str, ...], names: Pair, longest: int = MAX_LETTERS) -> list[list[str]]:
    """Lines of two texts.

    Raises:
        ValueError: text that is empty, too long or in another language.
    """
    if pair[0] == pair[1]:
        raise ValueError(f"Both languages are {pair[0]!r}. Choose two.")
    sides = []
    for text, name in zip((first, second), names):
        sides.append(lines_of(text, f"the {name}", longest))
    for lines, order, name in zip(sides, (pair[::-1], pair), names):
        _check_language(lines, order, f"the {name}")
    return sides


def lines_of(text: str, name: str, longest: int = MAX_LETTERS) -> list[str]:
    """Lines that hold text; ValueError for none, for more than a page is for, for one that is no sentence."""
    if len(text) > MAX_TEXT:
        raise ValueError(f"{name.capitalize()}: {len(text):,} letters, and this page takes {MAX_TEXT:,}.")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        raise ValueError(f"There is no text in {name}. Write something, one sentence a line.")
    if len(lines) > MAX_LINES:
        advice = "On your own machine hfxling mine takes any number of them."
        raise ValueError(f"{name.capitalize()}: {len(lines):,} lines, and this page takes {MAX_LINES:,}. {advice}")
    for number, line in enumerate(lines, 1):
        if len(line) > longest:
            message = f"line {number} has {len(line):,} letters, and a sentence here {longest:,}. Put one a line."
            raise ValueError(f"{name.capitalize()}: {message}")
    return lines


def _check_language(lines: list[str], pair: tuple[str, ...], name: str) -> None:
    """Refuse text that is for the most part in another language than the second of the pair."""
    finder = FaultFinder(*pair)
    foreign = [line for line in lines if finder.is_foreign(line)]
    if len(foreign) > MAX_FOREIGN * len(lines):
        looks = "it looks" if len(lines) == 1 else f"{len(foreign):,} of its {len(lines):,} lines look"
        raise ValueError(
            f"{name.capitalize()} should be in {pair[1]!r}, but {looks} like another language ({foreign[0][:40]!r}). "
            "Give other text, or choose another language above."
        )


def _cells(term: Any, sides: list[str], words: Any) -> list[tuple[int, int]]:
    """Cells that a term of the score lies over: a longer segment covers several units."""
    sources = _covered(term.source, sides[0], words.source)
    targets = _covered(term.target, sides[1], words.target)
    return [(i, j) for i in sources for j in targets]


def _covered(segment: str, text: str, units: list) -> list[int]:
    """Positions of the units that a segment of the model stands for, wherever it occurs in the text."""
    covered = set()
    starts = {unit.start for unit in units}
    ends = {unit.end for unit in units}
    text = text.lower()
    start = text.find(segment)
    while segment and start >= 0:
        end = start + len(segment)
        if start in starts and end in ends:
            covered |= {place for place, unit in enumerate(units) if start <= unit.start and unit.end <= end}
        start = text.find(segment, start + 1)
    return sorted(covered)


def _term_rows(terms: list) -> Rows:
    return [[term.source, term.target, f"{term.contribution:+.3f}"] for term in terms]


def _sample(language: str) -> list[str]:
    """The sample corpus' natural test sentences, where it has the language."""
    return sample_texts(language, "test", generated=0) if language in LANGUAGES else []


def _answered(function: Callable) -> Callable:
    """The same function, whose errors for users are shown in the page."""

    def answer(*inputs: Any) -> Any:
        try:
            return function(*inputs)
        except (ValueError, FileNotFoundError) as error:
            raise gr.Error(escape(str(error)), duration=None, print_exception=False) from None

    return answer


def page(shown: Shown, folder: Path) -> gr.Blocks:
    """The page of a model; files for its users are written into `folder`."""
    with gr.Blocks(title=shown.encoder.label, analytics_enabled=False, delete_cache=(3600, 3600)) as blocks:
        gr.Markdown(f"# {escape(shown.encoder.label)}")
        with gr.Row(visible=len(shown.languages) > 1):
            chosen = []
            for name, language in zip(("sentences", "translations"), shown.pair):
                chosen.append(gr.Dropdown(shown.languages, value=language, label=f"language of the {name}"))
        tabs = [_nearest_tab(shown, chosen)]
        if shown.aligner is not None:
            tabs.append(_links_tab(shown, chosen))
        tabs.append(_mining_tab(shown, chosen, folder))
        if shown.has_scores:
            tabs.append(_quality_tab(shown, chosen))
        for language in chosen:
            for fields, texts in tabs:
                language.change(texts, chosen, fields, show_progress="hidden", api_visibility="private")
    return blocks.queue(max_size=20)


def _fields(begin: Pair, labels: Pair, lines: int) -> list[gr.Textbox]:
    with gr.Row():
        return [gr.Textbox(text, label=label, lines=lines, max_lines=lines) for text, label in zip(begin, labels)]


def _nearest_tab(shown: Shown, chosen: list) -> tuple[list, Callable]:
    """A tab; its fields, and what they hold to begin with, of two languages."""

    def texts(*pair: str) -> Pair:
        sentences = _sample(pair[0])
        given = shown.candidates if shown.candidates and pair[1] == shown.pair[1] else _sample(pair[1])
        return "\n".join(sentences[row] for row in BEGIN if row < len(sentences)), "\n".join(given)

    with gr.Tab("Nearest translations", id="nearest"):
        fields = _fields(texts(*shown.pair), ("sentences, one a line", "candidates, one a line"), 5)
        button = gr.Button("Find translations", variant="primary")
        table = gr.Dataframe(headers=["sentence", "translation", "score"], label="nearest", wrap=True)
        places = gr.ScatterPlot(
            x="x", y="y", color="side", tooltip=["text"], height=430, label="map", x_title=" ", y_title=" "
        )
        answer = _answered(shown.nearest)
        button.click(answer, [*fields, *chosen], [table, places], api_name="nearest", **BUTTON)
    return fields, texts


def _links_tab(shown: Shown, chosen: list) -> tuple[list, Callable]:
    """As `_nearest_tab`."""

    def texts(*pair: str) -> Pair:
        sides = [_sample(language) for language in pair]
        return tuple(side[BEGIN[0]] if side else "" for side in sides)

    def picked(source: str, target: str, first: str, second: str, event: gr.SelectData) -> Rows:
        return _answered(shown.reasons)(source, target, first, second, event.index)

    with gr.Tab("Word links", id="links"):
        fields = _fields(texts(*shown.pair), ("a sentence", "its translation, or what might be one"), 2)
        button = gr.Button("Show links", variant="primary")
        told = gr.Markdown()
        table = gr.Dataframe(label="links", max_height=2_000)
        terms = gr.Dataframe(headers=["of the sentence", "of its translation", "adds"], label="what makes the score")
        answer = _answered(shown.word_links)
        button.click(answer, [*fields, *chosen], [table, told, terms], api_name="links", **BUTTON)
        if shown.links is not None:
            table.select(picked, [*fields, *chosen], terms, api_visibility="private", **BUTTON)
    return fields, texts


def _mining_tab(shown: Shown, chosen: list, folder: Path) -> tuple[list, Callable]:
    """As `_nearest_tab`; the texts to begin with overlap by half, one in another order."""

    def texts(*pair: str) -> Pair:
        return "\n".join(_sample(pair[0])[:40]), "\n".join(sorted(_sample(pair[1])[20:60]))

    def mined(*inputs: str) -> tuple[Rows, str, Any]:
        rows, told, path = shown.mine(*inputs, folder=folder)
        return rows, told, gr.DownloadButton(value=path, visible=True)

    with gr.Tab("Mine two texts", id="mine"):
        labels = ("a text, one sentence a line", "another one, in the other language")
        fields = _fields(texts(*shown.pair), labels, 10)
        with gr.Row():
            button = gr.Button("Mine pairs", variant="primary")
            download = gr.DownloadButton("Download as TSV", visible=False)
        told = gr.Markdown()
        table = gr.Dataframe(headers=["score", "source", "target", "flags"], label="pairs", wrap=True)
        answer = _answered(mined)
        button.click(answer, [*fields, *chosen], [table, told, download], api_name="mine", **BUTTON)
    return fields, texts


def _quality_tab(shown: Shown, chosen: list) -> tuple[list, Callable]:
    """As `_nearest_tab`; every fifth translation to begin with is that of another sentence."""

    def texts(*pair: str) -> Pair:
        source, target = (_sample(language)[:20] for language in pair)
        for row in range(4, len(target), 5):
            target[row] = target[row - 2]
        return "\n".join(source), "\n".join(target)

    with gr.Tab("Score translations", id="quality"):
        fields = _fields(texts(*shown.pair), ("sentences, one a line", "their translations, line by line"), 10)
        button = gr.Button("Score", variant="primary")
        table = gr.Dataframe(label="scores", wrap=True)
        button.click(_answered(shown.quality), [*fields, *chosen], table, api_name="quality", **BUTTON)
    return fields, texts


class BoundedRequests:
    """Refuses requests whose body is larger than any that the page sends: part of the server, not of the model."""

    def __init__(self, app: Callable):
        self.app = app

    async def __call__(self, scope: dict, receive: Callable, send: Callable) -> None:
        """Serve a request, whose body is cut off where it is too long."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        size = int(dict(scope["headers"]).get(b"content-length", 0))
        if size > MAX_REQUEST:
            await send({"type": "http.response.start", "status": 413, "headers": []})
            await send({"type": "http.response.body", "body": b"too large"})
            return
        received = 0

        async def counted() -> dict:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            return {"type": "http.disconnect"} if received > MAX_REQUEST else message

        await self.app(scope, counted, send)


def launch(port: int | None = None, **settings: Any) -> None:
    """Show a model until the process is stopped; no file is left behind.

    Args:
        port: of the page; by default the first free one from 7860, or what GRADIO_SERVER_PORT says.
        **settings: of `Shown`.
    """
    from starlette.middleware import Middleware

    shown = Shown(**settings)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # or else FOLDER stays
    page(shown, Path(FOLDER.name)).launch(
        server_port=port,
        max_file_size=MAX_REQUEST,
        app_kwargs={"middleware": [Middleware(BoundedRequests)]},
        footer_links=[],
        theme=gr.themes.Soft(primary_hue="rose", neutral_hue="slate", font=FONT, font_mono=FONT),
    )


if __name__ == "__main__":
    launch(**json.loads(Path(__file__).with_name("demo.json").read_text(encoding="utf-8")))
