"""The page of `hfxling demo`, and a Space of the Hub: translations, word links, mining and scores of a model.

`hfxling demo` starts this file; a Space holds a copy beside demo.json, which names its model. Every answer comes from a
verb of hfxling. Text, requests and questions that wait are limited here, since anybody may come.
"""

from __future__ import annotations

import functools
import json
import os
import re
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from html import escape
from importlib.util import find_spec
from pathlib import Path
from typing import Any

# All files of the server and of its visitors; it is removed when the process ends. Gradio reads its name when imported.
FOLDER = tempfile.TemporaryDirectory(prefix="hfxling-demo-")
os.environ["GRADIO_TEMP_DIR"] = FOLDER.name

import gradio as gr
import numpy as np
from huggingface_hub import ModelCard, hf_hub_download
from scipy.sparse.csgraph import connected_components
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from transformers import PreTrainedConfig

import hfxling
from hfxling.data.sample import LANGUAGES, sample_texts

# What a CPU does while somebody waits.
MAX_LINES = 1_000
MAX_LETTERS = 2_000  # of a line
MAX_LINKED = 400  # letters of a sentence whose words are linked: the work grows with the product of both lengths
MAX_TEXT = 200_000  # letters of a field
MAX_REQUEST = 4 * 2**20  # bytes
MAX_WAITING = 20  # questions
SHOWN = 200  # mined pairs on the page; the file has all
REASONS = 12  # of a score, on the page
ONE_AT_A_TIME = {"concurrency_id": "model", "concurrency_limit": 1}  # a tokenizer answers one question at a time
SIDES = ("sentence", "translation")
FONT = ["ui-sans-serif", "system-ui", "Noto Sans", "Noto Sans CJK SC", "Noto Sans Lao", "Noto Sans Thai", "sans-serif"]
Rows = list[list[Any]]


class Demo:
    """A model of any method, and what it answers.

    Args:
        model: folder or Hub id.
        lexical: of a lexical model, alone or beside the model.
        languages: to begin with; by default the model's first two.
        candidates: text that is searched to begin with; by default of the sample corpus.
        revision: branch, tag or commit of the model, or of what stands in its place.
        lexical_revision: of the lexical model.
        **options: of `hfxling.load_encoder`.

    Attributes:
        encoder: what finds translations and mines.
        dense: what gives cosines; None for a lexical model alone.
        lexical: what explains scores; None for a dense model alone.
        linked_by: what says to `hfxling.align_words` whose word links are shown; empty for a model without any.
        directions: languages that can be chosen, such as "zh to vi", the first ones to begin with.
        card: of the model.
        name: the Hub id; of a folder the name that its card has.

    Raises:
        ValueError: no model that is known, or a language that it lacks.
        FileNotFoundError: no such folder or Hub id.
    """

    def __init__(
        self,
        model: str | None = None,
        lexical: str | None = None,
        *,
        languages: Sequence[str] | None = None,
        candidates: list[str] | None = None,
        revision: str | None = None,
        lexical_revision: str | None = None,
        **options: Any,
    ):
        kind = kind_of(model, revision)
        if kind == hfxling.LexicalConfig.model_type and lexical is None:
            model, lexical, lexical_revision = None, model, lexical_revision or revision
        revisions = {"revision": revision, "lexical_revision": lexical_revision}
        self.encoder = hfxling.load_encoder(model, lexical, **revisions, **options)
        self.dense, self.lexical, self.linked_by = self.encoder, None, {}
        if kind == hfxling.AlignerConfig.model_type:
            self.linked_by = {"model": model, "revision": revision}
        if lexical is not None:
            self.dense = self.encoder.dense if model else None
            self.lexical = self.encoder.lexical if model else self.encoder
            self.linked_by = {"model": self.lexical.model}
        self.card = read_card(model or lexical, revision if model else lexical_revision)
        self.name = self.encoder.label
        if Path(model or lexical).exists():  # a folder, whose name says less than its card
            self.name = self.card.data.get("model_name") or self.name
        self.candidates = candidates
        first = list(languages or self.encoder.languages or ["zh", "vi"])[:2]
        known = self.encoder.languages or list(dict.fromkeys([*first, *LANGUAGES]))
        for language in first:
            if language not in known:
                raise ValueError(f"language {language!r} is none of the model's: {', '.join(known)}.")
        pairs = [(source, target) for source in known for target in known if source != target]
        pairs.sort(key=lambda pair: pair != tuple(first))
        self.directions = [f"{source} to {target}" for source, target in pairs]

    def heading(self) -> str:
        """Name and description of the model, from its card."""
        name = self.name
        title = name if Path(self.encoder.name).exists() else f"[{name}](https://huggingface.co/{self.encoder.name})"
        introduction = re.split("^##", self.card.text, maxsplit=1, flags=re.MULTILINE)[0]
        paragraphs = [part.strip() for part in introduction.split("\n\n")]
        plain = [part for part in paragraphs if part[:1].isalpha() and "<" not in part]
        return "\n\n".join([f"# {title}", *plain])

    def examples(self, direction: str) -> tuple[list[str], list[str]]:
        """Sentences and their translations: the sample corpus' test text, then the example of the card."""
        pair = direction.split(" to ")
        sides = [], []
        for side, language in zip(sides, pair):
            if set(pair) <= set(LANGUAGES):
                texts = sample_texts(language, "test", generated=0)
                side += texts[20:] + texts[:20]  # the first one shows word links well
        for widget in self.card.data.get("widget") or []:
            texts = [widget.get("source_sentence"), *widget.get("sentences", ())]
            by_language = dict(zip(self.card.data.language or (), texts))
            for side, language in zip(sides, pair):
                side += [by_language[language]] if set(pair) <= set(by_language) else []
        return sides

    def nearest(self, sentences: str, candidates: str, direction: str) -> tuple[str, Rows]:
        """Find the nearest translations of sentences among candidates.

        Args:
            sentences: one a line.
            candidates: sentences of the other language, one a line.
            direction: languages of both, such as "zh to vi".
        """
        pair = direction.split(" to ")
        sides = [lines_of(sentences, "the sentences"), lines_of(candidates, "the candidates")]
        found = hfxling.nearest(sides[0], candidates=sides[1], model=self.encoder, languages=pair, progress=False)
        rows = []
        for sentence, texts, scores in zip(found.sentences, found.texts, found.scores):
            for rank, (text, score) in enumerate(zip(texts, scores)):
                rows.append([sentence if rank == 0 else "", text, f"{score:.2f}"])
        return f"The best of {len(sides[1])} candidates for each sentence.", rows

    def links(self, sentence: str, translation: str, direction: str) -> tuple[str, dict, dict, Rows, Rows]:
        """Show which words of a sentence and its translation belong together, how sure that is, and what it scores.

        Args:
            sentence: one sentence.
            translation: its translation, or what might be one.
            direction: languages of both, such as "zh to vi".
        """
        pair = direction.split(" to ")
        texts = []
        for text, name in ((sentence, "the sentence"), (translation, "the translation")):
            check_text(text, name)
            lines = lines_of(" ".join(text.split()), name, longest=MAX_LINKED)
            texts.append(lines[0])
        options = {"languages": pair, "units": "segments", "progress": False}
        (words,) = hfxling.align_words([texts[0]], [texts[1]], **self.linked_by, **options).pairs
        links = []
        for (i, j), score in zip(words.links, words.scores):
            source, target = words.source[i], words.target[j]
            linked = texts[0][source.start : source.end], texts[1][target.start : target.end]
            links.append([*linked, f"{score:.2f}"])
        coloured = coloured_texts(texts, words)
        told = f"{len(links)} links, with how sure the model is of each: 1 is certain."
        if self.lexical is None:
            return told, *coloured, links, []
        explained = hfxling.explain(*texts, model=self.lexical.model, languages=pair)
        reasons = [[term.source, term.target, f"{term.contribution:+.2f}"] for term in explained.terms[:REASONS]]
        return f"Score {explained.score:+.2f}, {told}", *coloured, links, reasons

    def mine(self, source: str, target: str, direction: str, progress=gr.Progress(track_tqdm=True)) -> tuple:  # noqa: B008
        """Find the pairs of two texts that translate each other, the surest first, and write all of them as TSV.

        Args:
            source: a text, one sentence a line.
            target: another text in the other language, one sentence a line.
            direction: languages of both, such as "zh to vi".
            progress: shown in the page.
        """
        pair = direction.split(" to ")
        sides = [lines_of(source, "the first text"), lines_of(target, "the second text")]
        progress(0, desc="reading")
        k = min(4, len(sides[0]), len(sides[1]))
        with tempfile.TemporaryDirectory(dir=FOLDER.name) as cache:
            options = {"model": self.encoder, "languages": pair, "cache_dir": cache}
            mined = hfxling.mine(*sides, k=k, margin="distance", **options)
        path = Path(FOLDER.name, f"pairs.{pair[0]}-{pair[1]}.tsv")  # Gradio copies it before the next question
        mined.save(path)
        rows = [[f"{row.score:.1f}", row.source, row.target, row.flags] for row in mined.rows[:SHOWN]]
        more = f" The first {SHOWN} are shown." if len(mined.rows) > SHOWN else ""
        told = f"{len(mined.rows)} pairs of {len(sides[0])} and {len(sides[1])} sentences, the surest first.{more}"
        return told, rows, gr.DownloadButton(value=path, interactive=True)

    def quality(self, source: str, target: str, direction: str) -> tuple[str, Rows]:
        """Score translations line by line, and flag what looks wrong.

        Args:
            source: sentences, one a line.
            target: their translations, line by line.
            direction: languages of both, such as "zh to vi".
        """
        pair = direction.split(" to ")
        sides = [lines_of(source, "the sentences"), lines_of(target, "the translations")]
        judged = hfxling.quality(*sides, model=self.dense, lexical=self.lexical, languages=pair, progress=False)
        rows = []
        for row, texts in enumerate(zip(*sides)):
            scores = [f"{values[row]:.2f}" for values in judged.scores.values()]
            rows.append([*texts, *scores, ", ".join(judged.flags[row])])
        count = sum(len(flags) > 0 for flags in judged.flags)
        return f"{count} of {len(rows)} pairs have a flag: their text alone looks wrong.", rows


def kind_of(model: str | None, revision: str | None) -> str | None:
    """The model_type of a folder or Hub model; None where there is none."""
    try:
        return PreTrainedConfig.get_config_dict(model, revision=revision)[0].get("model_type") if model else None
    except OSError:  # whoever loads it says what is missing
        return None


def read_card(model: str, revision: str | None) -> ModelCard:
    """The card of a folder or Hub model; an empty one where there is none that can be read."""
    try:
        is_here = Path(model).exists()
        path = Path(model, "README.md") if is_here else hf_hub_download(model, "README.md", revision=revision)
        return ModelCard.load(path)
    except (OSError, ValueError):
        return ModelCard("---\n{}\n---\n")


def check_text(text: Any, name: str) -> None:
    """Raise ValueError for what a program may send and no keyboard writes: no text, half a letter."""
    if not isinstance(text, str):
        raise ValueError(f"{name.capitalize()}: {type(text).__name__} is no text. Send a string.")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{name.capitalize()}: half a surrogate pair is no letter. Send whole ones.") from None


def lines_of(text: str, name: str, longest: int = MAX_LETTERS) -> list[str]:
    """Lines that hold text; ValueError for none, for more than a page is for, for one that is no sentence."""
    check_text(text, name)
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


def coloured_texts(texts: Sequence[str], words: Any) -> list[gr.HighlightedText]:
    """Both sentences; words that are linked have one colour, the stronger the surer the surest of their links is."""
    size = len(words.source)
    links = np.zeros((size + len(words.target),) * 2)
    for (i, j), score in zip(words.links, words.scores):
        links[i, size + j] = score
    _, groups = connected_components(links, directed=False)
    colours = {}
    for number, group in enumerate(dict.fromkeys(groups)):
        lightness = 95 - 35 * links[groups == group].max()
        colours[str(group)] = f"hsl({137 * number % 360}, 75%, {lightness:.0f}%)"  # hues far from those before
    is_linked = links.any(0) | links.any(1)
    sides = []
    for text, units, first in zip(texts, (words.source, words.target), (0, size)):
        entities = []
        for place, unit in enumerate(units, first):
            if is_linked[place]:
                entities.append({"start": unit.start, "end": unit.end, "entity": str(groups[place])})
        sides.append(gr.HighlightedText({"text": text, "entities": entities}, color_map=colours))
    return sides


def page(demo: Demo) -> gr.Blocks:
    """The page of a model: a tab for everything that it can do, filled in and answered when it opens."""
    with gr.Blocks(title=demo.name, analytics_enabled=False, delete_cache=(3600, 3600)) as blocks:
        gr.Markdown(demo.heading())
        direction = gr.Dropdown(demo.directions, label="languages")
        with gr.Tab("Find"):
            _find_tab(demo, direction)
        if demo.linked_by:
            with gr.Tab("Words"):
                _words_tab(demo, direction)
        with gr.Tab("Mine"):
            _mine_tab(demo, direction)
        if demo.lexical is not None or demo.dense.method == "cosine":
            with gr.Tab("Score"):
                _score_tab(demo, direction)
    return blocks.queue(max_size=MAX_WAITING)


def _find_tab(demo: Demo, direction: gr.Dropdown) -> None:
    def begin(languages: str) -> tuple[list[str], list[str]]:
        sources, targets = demo.examples(languages)
        is_first = languages == demo.directions[0]
        return sources[:3], demo.candidates if demo.candidates and is_first else sorted(targets[:60])

    fields = _fields("sentences, one a line", "candidates, one a line", lines=5)
    button = gr.Button("Find translations", variant="primary")
    told = gr.Markdown()
    table = _table("nearest", {"sentence": 40, "translation": 40, "score": 20})
    _connect(demo.nearest, begin, direction, fields, button, [told, table])


def _words_tab(demo: Demo, direction: gr.Dropdown) -> None:
    def begin(languages: str) -> tuple[list[str], list[str]]:
        sources, targets = demo.examples(languages)
        return sources[:1], targets[:1]

    fields = _fields("a sentence", "its translation, or what might be one", lines=2)
    button = gr.Button("Show links", variant="primary")
    told = gr.Markdown()
    with gr.Row():
        texts = [gr.HighlightedText(label=side, show_inline_category=False, min_width=300) for side in SIDES]
    with gr.Row():
        links = _table("links", {"sentence": 38, "translation": 38, "sure": 24})
        reasons = _table("what makes the score", {"sentence": 38, "translation": 38, "adds": 24})
        reasons.visible = demo.lexical is not None
    _connect(demo.links, begin, direction, fields, button, [told, *texts, links, reasons])


def _mine_tab(demo: Demo, direction: gr.Dropdown) -> None:
    def begin(languages: str) -> tuple[list[str], list[str]]:
        sources, targets = demo.examples(languages)
        return sources[:40], sorted(targets[20:60] or targets)  # half of each has no translation there

    fields = _fields("a text, one sentence a line", "another one, in the other language", lines=8)
    button = gr.Button("Mine pairs", variant="primary")
    told = gr.Markdown()
    download = gr.DownloadButton("Download as TSV", interactive=False)
    table = _table("pairs", {"score": 19, "sentence": 31, "translation": 31, "flags": 19})
    _connect(demo.mine, begin, direction, fields, button, [told, table, download], at_once=False)


def _score_tab(demo: Demo, direction: gr.Dropdown) -> None:
    def begin(languages: str) -> tuple[list[str], list[str]]:
        sources, targets = demo.examples(languages)
        for row in range(4, len(targets), 5):
            targets[row] = targets[row - 2]  # that of another sentence
        return sources[:20], targets[:20]

    fields = _fields("sentences, one a line", "their translations, line by line", lines=8)
    button = gr.Button("Score", variant="primary")
    told = gr.Markdown()
    scores = {"cosine": demo.dense, "links": demo.lexical}
    columns = {name: 17 for name, model in scores.items() if model is not None}
    table = _table("scores", {"sentence": 30, "translation": 30, **columns, "flags": 17})
    _connect(demo.quality, begin, direction, fields, button, [told, table])


def _table(label: str, widths: dict[str, int]) -> gr.Dataframe:
    """An empty table; widths of its columns in per cent, by header."""
    percent = [f"{width}%" for width in widths.values()]
    return gr.Dataframe(headers=list(widths), column_widths=percent, label=label, wrap=True, min_width=300)


def _fields(*labels: str, lines: int) -> list[gr.Textbox]:
    with gr.Row():
        return [gr.Textbox(label=label, lines=lines, max_lines=lines, min_width=300) for label in labels]


def _connect(
    answer: Callable,
    begin: Callable,
    direction: gr.Dropdown,
    fields: list[gr.Textbox],
    button: gr.Button,
    outputs: list,
    *,
    at_once: bool = True,
) -> None:
    """Answer a click; when the page opens, and for other languages, fill the fields in and answer what they hold."""

    def start(languages: str) -> tuple:
        texts = ["\n".join(lines) for lines in begin(languages)]
        if at_once and all(texts):
            return *texts, *answer(*texts, languages)
        return *texts, *[None] * len(outputs)

    inputs = [*fields, direction]
    button.click(with_errors_shown(answer), inputs, outputs, api_name=answer.__name__, **ONE_AT_A_TIME)
    gr.on(
        None,
        functools.lru_cache(with_errors_shown(start)),
        direction,
        [*fields, *outputs],
        api_visibility="private",
        **ONE_AT_A_TIME,
    )


def with_errors_shown(function: Callable) -> Callable:
    """The same function, whose errors for users are shown in the page."""

    @functools.wraps(function)
    def answer(*inputs: Any, **named: Any) -> Any:
        try:
            return function(*inputs, **named)
        except (ValueError, FileNotFoundError) as error:
            raise gr.Error(escape(str(error)), duration=None, print_exception=False) from None

    return answer


class BoundedRequests:
    """Refuses requests that are larger than any of the page's: part of the server, not of the model."""

    def __init__(self, app: Callable):
        self.app = app

    async def __call__(self, scope: dict, receive: Callable, send: Callable) -> None:
        """Serve a request as far as it may be read."""
        received = 0

        async def bounded() -> dict:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > MAX_REQUEST:
                raise HTTPException(413, f"This page reads {MAX_REQUEST:,} bytes of a request.")
            return message

        await self.app(scope, bounded, send)


def launch(port: int | None = None, **settings: Any) -> None:
    """Show a model until the process is stopped; no file is left behind.

    Args:
        port: of the page; by default the first free one from 7860, or what GRADIO_SERVER_PORT says.
        **settings: of `Demo`.
    """
    demo = Demo(**settings)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # or else FOLDER stays
    page(demo).launch(
        server_port=port,
        max_file_size=MAX_REQUEST,
        mcp_server=find_spec("mcp") is not None,
        app_kwargs={"middleware": [Middleware(BoundedRequests)]},
        footer_links=["api"],
        theme=gr.themes.Soft(primary_hue="rose", neutral_hue="slate", font=FONT, font_mono=FONT),
    )


if __name__ == "__main__":
    launch(**json.loads(Path(__file__).with_name("demo.json").read_text(encoding="utf-8")))
