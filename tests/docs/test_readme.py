"""Every snippet of the README, run in the order of the page in a folder that has what it asks for.

Models of the Hub are tiny ones in folders of the same names, text is that of the sample corpus.
"""

import logging
import runpy
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from tiny_models import save_tiny

import hfxling
from hfxling.cli import main
from hfxling.data.sample import sample_texts
from hfxling.encoders.sparse import LexicalEncoder

ROOT = Path(__file__).resolve().parents[2]
# What recipes get here beside the words on the page, so that they end soon.
SHORTER = {"recipes/study.py": ["--num_train_epochs", "1"], "recipes/siamese.py": []}
SHORTER = {name: [*words, "--max_train_pairs", "200"] for name, words in SHORTER.items()}


def snippets() -> list[tuple[str, str]]:
    """(language, text) of the page's fenced blocks; in a shell's block every command is one."""
    found = []
    for block in (ROOT / "README.md").read_text(encoding="utf-8").split("\n```")[1::2]:
        language, _, text = block.partition("\n")
        lines = text.replace("\\\n", " ").split("\n") if language == "bash" else [text]
        found += [(language, " ".join(line.split()) if language == "bash" else line) for line in lines if line.strip()]
    return found


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """A folder with the files that the page names: text, encoders, and what `make quickstart` leaves behind."""
    folder = tmp_path_factory.mktemp("readme")
    for lang in ("zh", "vi"):
        texts = sample_texts(lang, generated=1997 - len(sample_texts(lang, generated=0)))
        (folder / f"my.{lang}").write_text("\n".join(texts) + "\n", encoding="utf-8")
    for name in (
        "sentence-transformers/LaBSE",
        "intfloat/multilingual-e5-small",
        "google-bert/bert-base-multilingual-cased",
    ):
        save_tiny("bert", folder / name, layers=7)
    (folder / "recipes").symlink_to(ROOT / "recipes")
    zh, vi = (sample_texts(lang)[:700] for lang in ("zh", "vi"))
    model = hfxling.fit_lexical(zh, vi, ("zh", "vi"), rank=16, progress=False)
    hfxling.save_lexical(model, folder / "outputs/quickstart/model")
    return folder


def test_the_page_has_snippets():
    assert {language for language, _ in snippets()} == {"bash", "python"}
    assert len(snippets()) > 8


@pytest.mark.slow
@pytest.mark.parametrize(("language", "text"), snippets(), ids=lambda value: value[:40])
def test_a_snippet_runs(place, monkeypatch, capsys, language, text):
    monkeypatch.chdir(place)
    if language == "python":
        exec(compile(text, "README.md", "exec"), {})
        return
    words = shlex.split(text, comments=True)
    if words[0] == "make":  # `make test` runs this; the commands behind the others have tests of their own
        done = subprocess.run(["make", "-n", *words[1:]], cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    elif words[0] == "pip":
        name = words[2].partition("[")[2].rstrip("]")
        assert name in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    elif words[0] == "hfxling":
        few = len(words) > 3 and words[1] == "fit"  # of 1,997 pairs it would take minutes
        main(shortened(words[1:]) if few else words[1:])
    else:
        assert words[0] == "python"
        monkeypatch.setattr(sys, "argv", [*words[1:], *SHORTER.get(words[1], [])])
        monkeypatch.setattr(logging.getLogger("hfxling"), "level", logging.NOTSET)
        runpy.run_path(words[1], run_name="__main__")
    assert "error" not in capsys.readouterr().err.lower()


def shortened(words: list[str]) -> list[str]:
    """The same command on the first 120 lines of its files."""
    for word in words[1:3]:
        lines = Path(word).read_text(encoding="utf-8").splitlines(keepends=True)[:120]
        Path(f"few.{word}").write_text("".join(lines), encoding="utf-8")
    return [words[0], *(f"few.{word}" for word in words[1:3]), *words[3:]]


def test_the_translations_that_the_page_shows_are_found(place):
    encoder = LexicalEncoder(str(place / "outputs/quickstart/model"))
    texts = sample_texts("vi", "test")
    scores = encoder.encode(["司机不肯打表。"], "zh", "query") @ encoder.encode(texts, "vi", "document").T
    assert texts[scores.toarray().argmax()] == "Tài xế không chịu bật đồng hồ tính tiền."
