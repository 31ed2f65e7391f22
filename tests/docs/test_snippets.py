"""Every snippet of README and guides, run in the order of its page in a folder of its own.

Models of the Hub are tiny ones in folders of the same names; text is that of the sample corpus. Blocks of `console`
show commands with their output, which is compared; "..." stands for lines that are left out.
"""

import logging
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest
from accelerate.commands.launch import launch_command_parser
from tiny_models import save_tiny

from hfxling.cli import main
from hfxling.data.sample import sample_texts

ROOT = Path(__file__).resolve().parents[2]
GUIDES = [f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("guide_*.md"))]
PAGES = [
    "README.md",
    "docs/index.md",
    "docs/from_sentence_transformers.md",
    "docs/choose.md",
    *GUIDES,
    "docs/recipes.md",
]
# What recipes get here beside the words on the page, so that they end soon.
SHORTER = {
    "recipes/study.py": ["--fit", "cca", "--max_train_pairs", "200"],
    "recipes/siamese.py": ["--max_train_pairs", "200"],
}
MODELS = (
    "sentence-transformers/LaBSE",
    "intfloat/multilingual-e5-small",
    "google-bert/bert-base-multilingual-cased",
)
FIT = "hfxling fit my.zh my.vi --languages zh vi"
UNSURE = re.compile(r"^\| (static|sparse) .*$", re.MULTILINE)  # these lines have CPU seconds in their seventh column


def snippets(page: str) -> list[tuple[str, str]]:
    """(language, text) of a page's fenced blocks; in a shell's block every command is one."""
    found = []
    for block in (ROOT / page).read_text(encoding="utf-8").split("\n```")[1::2]:
        language, _, text = block.partition("\n")
        if language == "bash":
            commands = text.replace("\\\n", " ").split("\n")
            found += [(language, " ".join(command.split())) for command in commands if command.strip()]
        elif language == "console":
            found += [(language, part) for part in re.split(r"^\$ ", text, flags=re.MULTILINE) if part.strip()]
        elif language == "python":
            found.append((language, text))
    return found


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """A folder with the files and models that pages name; a page's own snippets add to it."""
    folder = tmp_path_factory.mktemp("pages")
    for name in MODELS:
        save_tiny("bert", folder / name, layers=7)
    (folder / "recipes").symlink_to(ROOT / "recipes")
    return folder


@pytest.fixture(scope="module")
def fitted(place) -> Path:
    """What the command that guides begin with writes; docs/index.md is where it is run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        write_text(place)
        main([*shlex.split(FIT)[1:], "--output", "fitted"])
    return place / "fitted"


def write_text(folder: Path) -> None:
    """The files of docs/index.md."""
    text = next(text for language, text in snippets("docs/index.md") if language == "python")
    exec(compile(text, "docs/index.md", "exec"), {})
    for lang in ("zh", "vi"):
        assert (folder / f"my.{lang}").is_file()


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_the_snippets_of_a_page_run(page, place, fitted, monkeypatch, capsys, publisher):
    monkeypatch.chdir(place)
    monkeypatch.setattr("hfxling.words.encoder._MOST_UNKNOWN", 1.0)  # the tiny encoder knows few letters
    write_text(place)
    if page == "docs/recipes.md":  # lines 1544 to 1997 are its test
        for language in ("zh", "vi"):
            texts = sample_texts(language, generated=1997 - len(sample_texts(language, generated=0)))
            Path(f"my.{language}").write_text("\n".join(texts) + "\n", encoding="utf-8")
    done = 0
    for language, text in snippets(page):
        capsys.readouterr()
        if page in GUIDES and text == FIT:
            shutil.copytree(fitted, place / "outputs" / "fit", dirs_exist_ok=True)
            continue
        if language == "python":
            done += run_python(page, text)
        elif language == "console":
            command, _, shown = text.partition("\n")
            main(shlex.split(command, comments=True)[1:])
            assert_shown(shown, capsys.readouterr().out)
            done += 1
        else:
            done += run_shell(shlex.split(text, comments=True), place, publisher, monkeypatch)
        assert "error" not in capsys.readouterr().err.lower(), text
    assert done > 0


def run_python(page: str, text: str) -> bool:
    """Run a snippet; not where it needs a package that is not installed, which another test stands in for."""
    for package in ("langchain_huggingface", "haystack", "qdrant_client"):
        if package in text and find_spec(package) is None:
            return False
    exec(compile(text, page, "exec"), {})
    return True


def run_shell(words: list[str], place: Path, publisher, monkeypatch) -> bool:
    """Run a command of a shell's block; what another test runs is looked at only."""
    if words[:1] == ["make"]:
        done = subprocess.run(["make", "-n", *words[1:]], cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    elif words[:1] == ["pip"]:
        name = words[2].partition("[")[2].rstrip("]")
        assert name in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    elif words[:2] == ["hfxling", "publish"]:  # to the stand-in for the Hub
        words = [word.replace("you/", "org/") for word in words]
        done = publisher.command(*words[1:], cwd=place)
        assert done.returncode == 0, done.stderr
    elif words[:1] == ["hfxling"]:
        main(words[1:])
    elif words[:1] == ["python"]:
        monkeypatch.setattr(sys, "argv", [*words[1:], *SHORTER.get(words[1], [])])
        monkeypatch.setattr(logging.getLogger("hfxling"), "level", logging.NOTSET)
        runpy.run_path(words[1], run_name="__main__")
    elif words[:2] == ["accelerate", "launch"]:  # of several hours; the recipe's own tests start it
        launch = launch_command_parser().parse_args(words[2:])
        assert (ROOT / launch.config_file).is_file()
        assert (ROOT / launch.training_script).is_file()
        config = launch.training_script_args[launch.training_script_args.index("--config") + 1]
        assert (ROOT / config).is_file()
        return False
    else:
        assert words[:2] == ["hf", "auth"]
        return False
    return True


def assert_shown(shown: str, printed: str) -> None:
    """What a page shows of a command's output is what it prints, but for seconds and lines left out."""
    pattern = r"[\s\S]*".join(re.escape(without_seconds(part)) for part in re.split(r"^\.\.\.\n?", shown, flags=re.M))
    assert re.fullmatch(rf"\s*{pattern}\s*", without_seconds(printed)), printed


def without_seconds(text: str) -> str:
    """The text with CPU seconds of the table of `fit` left out."""

    def kept(match: re.Match) -> str:
        cells = match[0].split("|")
        return "|".join([*cells[:7], " ", *cells[8:]])

    return UNSURE.sub(kept, text) if "CPU s" in text else text


def test_the_first_page_is_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 120
