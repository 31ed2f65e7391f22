"""The page of `hfxling demo`: fields, buttons and where the answers go."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gradio as gr

from hfxling.data.sample import LANGUAGES, sample_texts

from . import demo_pictures as pictures
from .demo_model import ShownModel, lines_of

logger = logging.getLogger(__name__)
SENTENCES = (20, 5, 60)  # of the sample's test text, to begin with
PAIRS = 40  # sentences of the texts to be mined, to begin with
FONT = ["ui-sans-serif", "system-ui", "Noto Sans", "Noto Sans CJK SC", "Noto Sans Lao", "Noto Sans Thai", "sans-serif"]
CSS = pictures.CSS + ".gradio-container { max-width: 1080px !important; margin: 0 auto; } .hx-head { margin: .6em 0; }"
BUTTON = {"concurrency_id": "model", "concurrency_limit": 1}  # a tokenizer answers one question at a time


def page(model: ShownModel, candidates: list[str] | None = None) -> tuple[gr.Blocks, dict[str, Any]]:
    """The page of a model and how it looks, for `launch`; `candidates` by default of the sample corpus."""
    with gr.Blocks(title=model.label, analytics_enabled=False) as blocks:
        gr.Markdown(f"# {model.label}\n{_does(model)}", elem_classes="hx-head")
        with gr.Row(visible=len(model.languages) > 1):
            chosen = [
                gr.Dropdown(model.languages, value=lang, label=f"language of the {name}", elem_id=name)
                for name, lang in zip(("sentences", "translations"), model.pair)
            ]
        begun = [_nearest(model, chosen, candidates)]
        if model.has_links:
            begun.append(_links(model, chosen))
        begun.append(_mining(model, chosen))
        for language in chosen:
            for fields, texts in begun:
                language.change(texts, chosen, fields, show_progress="hidden")
    theme = gr.themes.Soft(primary_hue="rose", secondary_hue="sky", neutral_hue="slate", font=FONT, font_mono=FONT[:1])
    return blocks, {"theme": theme, "css": CSS}


def _does(model: ShownModel) -> str:
    """What it can do, in a line."""
    skills = [
        "finds translations",
        *["shows which words they hang on"] * model.has_links,
        "mines two texts for pairs",
    ]
    return f"{', '.join(skills[:-1])} and {skills[-1]}".capitalize() + "."


def _nearest(model: ShownModel, chosen: list, candidates: list[str] | None) -> tuple[list, Callable]:
    """The tab of nearest translations; its fields and, of two languages, what they hold to begin with."""

    def texts(*pair: str) -> tuple[str, str]:
        given = candidates if candidates and pair[1] == model.pair[1] else _sample(pair[1])
        sources = _sample(pair[0])
        return "\n".join(sources[row] for row in SENTENCES if row < len(sources)), "\n".join(given)

    def answer(sentences: str, text: str, *pair: str) -> tuple[str, str]:
        found = model.nearest(sentences, text, pair)
        return pictures.hits(found), pictures.sentence_map(found)

    with gr.Tab("Nearest translations", id="nearest"):
        begin = texts(*model.pair)
        with gr.Row():
            sentences = gr.Textbox(begin[0], label="sentences, one a line", lines=5, max_lines=5)
            found = gr.Textbox(begin[1], label="candidates, one a line", lines=5, max_lines=5)
        button = gr.Button("Find translations", variant="primary")
        told = gr.HTML()
        drawn = gr.HTML()
        inputs = [sentences, found, *chosen]
        button.click(_told(answer, 2), inputs, [told, drawn], api_name="nearest", **BUTTON)
    return [sentences, found], texts


def _links(model: ShownModel, chosen: list) -> tuple[list, Callable]:
    """The tab of one pair's links; returns as `_nearest`."""

    def texts(*pair: str) -> tuple[str, str]:
        return tuple(side[SENTENCES[0]] if side else "" for side in map(_sample, pair))

    def answer(source: str, target: str, *pair: str) -> str:
        return pictures.links(model.links(source, target, pair))

    with gr.Tab("Word links", id="links"):
        begin = texts(*model.pair)
        with gr.Row():
            sentence = gr.Textbox(begin[0], label="a sentence", lines=2)
            translation = gr.Textbox(begin[1], label="its translation, or what might be one", lines=2)
        button = gr.Button("Show links", variant="primary")
        drawn = gr.HTML(js_on_load=pictures.ON_LOAD)
        inputs = [sentence, translation, *chosen]
        button.click(_told(answer, 1), inputs, drawn, api_name="links", **BUTTON)
    return [sentence, translation], texts


def _mining(model: ShownModel, chosen: list) -> tuple[list, Callable]:
    """The tab of mining; returns as `_nearest`. The texts to begin with overlap by half, one in another order."""
    folder = Path(tempfile.mkdtemp(prefix="hfxling-demo-"))

    def texts(*pair: str) -> tuple[str, str]:
        source, target = (_sample(lang)[start:][:PAIRS] for lang, start in zip(pair, (0, PAIRS // 2)))
        return "\n".join(source), "\n".join(sorted(target))

    def answer(source: str, target: str, *pair: str) -> tuple[str, Any]:
        path = Path(tempfile.mkdtemp(dir=folder)) / f"pairs.{pair[0]}-{pair[1]}.tsv"
        rows = model.mine(source, target, pair, path)
        counts = tuple(len(lines_of(text, "")) for text in (source, target))
        return pictures.pairs(rows, counts), gr.DownloadButton(value=str(path), visible=True)

    with gr.Tab("Mine two texts", id="mine"):
        begin = texts(*model.pair)
        with gr.Row():
            source = gr.Textbox(begin[0], label="a text, one sentence a line", lines=10, max_lines=10)
            target = gr.Textbox(begin[1], label="another one, in the other language", lines=10, max_lines=10)
        with gr.Row():
            button = gr.Button("Mine pairs", variant="primary")
            download = gr.DownloadButton("Download as TSV", visible=False)
        told = gr.HTML()
        inputs, outputs = [source, target, *chosen], [told, download]
        hidden = gr.DownloadButton(visible=False)
        button.click(_told(answer, 2, hidden), inputs, outputs, api_name="mine", **BUTTON)
    return [source, target], texts


def _told(answer: Callable, outputs: int, nothing: Any = "") -> Callable:
    """The same function with a message in place of the first of its outputs where it raises one for users."""

    def answered(*inputs: str):
        try:
            return answer(*inputs)
        except (ValueError, FileNotFoundError) as error:
            message = pictures.note(str(error))
        return (message, *[nothing] * (outputs - 1)) if outputs > 1 else message

    return answered


def _sample(lang: str) -> list[str]:
    """The sample corpus' natural test sentences, where it has the language."""
    return sample_texts(lang, "test", generated=0) if lang in LANGUAGES else []
