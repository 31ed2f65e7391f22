"""Every snippet of docs/words.md, run; a tiny encoder stands for that of the Hub, 60 pairs for the sample."""

import json
import shlex
from pathlib import Path

import pytest
from tiny_models import save_tiny

import hfxling
from hfxling.cli import main
from hfxling.data.pharaoh import read_links
from hfxling.data.sample import sample_texts

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/words.md").read_text(encoding="utf-8")


def snippets() -> list[tuple[str, str]]:
    """(language, text) of the page's fenced blocks."""
    found = []
    for block in PAGE.split("\n```")[1::2]:
        language, _, text = block.partition("\n")
        found.append((language, text))
    return found


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """A folder with an encoder under its name on the Hub, and text."""
    folder = tmp_path_factory.mktemp("words")
    save_tiny("bert", folder / "intfloat/multilingual-e5-small")
    for language in ("zh", "vi"):
        lines = sample_texts(language)[:60]
        (folder / f"my.{language}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


@pytest.mark.parametrize(("language", "text"), snippets(), ids=lambda value: value[:30])
def test_a_snippet_runs(place, monkeypatch, language, text):
    monkeypatch.chdir(place)
    monkeypatch.setattr("hfxling.words.encoder._MOST_UNKNOWN", 1.0)  # the tiny encoder knows few letters
    if language == "bash":
        for line in text.strip().splitlines():
            main(shlex.split(line)[1:])
        return
    rows = hfxling.load_parallel("sample", "zh", "vi")
    few = {side: list(rows[side])[:60] for side in ("source", "target")}
    monkeypatch.setattr(hfxling, "load_parallel", lambda *args, **kwargs: few, raising=False)
    exec(compile(text, "docs/words.md", "exec"), {})
    if "links.txt" in text:
        assert len(read_links("links.txt")) == 60


def test_the_table_is_that_of_the_results():
    from align_table import MARKS, table_of

    figures = json.loads((ROOT / "results/align_table.json").read_text(encoding="utf-8"))["figures"]
    assert f"{MARKS[0]}\n{table_of(figures)}\n{MARKS[1]}" in PAGE
