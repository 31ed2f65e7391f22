"""What the pages promise: files that exist, Python that imports what there is, shell that parses."""

import ast
import importlib
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = [path for pattern in ("README.md", "CONTRIBUTING.md", "docs/**/*.md") for path in sorted(ROOT.glob(pattern))]


def blocks(path: Path, language: str) -> list[str]:
    """Contents of a Markdown file's fenced blocks of one language."""
    return re.findall(rf"^```{language}\n(.*?)^```", path.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("path", [*DOCS, ROOT / "Makefile"], ids=lambda path: path.name)
def test_files_that_the_docs_name_exist(path):
    """Those with "foo" in their name stand for a method to be added."""
    text = path.read_text(encoding="utf-8")
    named = set(re.findall(r"\b(?:recipes|benchmarks|tools|spaces|tests|docs|hfxling|model_cards)/[\w./*-]*\w", text))
    assert sorted(name for name in named if "foo" not in name and not any(ROOT.glob(name))) == []


@pytest.mark.parametrize("path", DOCS, ids=lambda path: path.name)
def test_python_in_the_docs_parses_and_imports_what_there_is(path):
    for block in blocks(path, "python"):
        for node in ast.walk(ast.parse(block, path.name)):
            if isinstance(node, ast.ImportFrom) and node.module.split(".")[0] == "hfxling":
                module = importlib.import_module(node.module)
                assert [alias.name for alias in node.names if not hasattr(module, alias.name)] == []


@pytest.mark.parametrize("path", DOCS, ids=lambda path: path.name)
def test_shell_in_the_docs_parses(path):
    for block in blocks(path, "(?:bash|sh|shell)"):
        done = subprocess.run(["bash", "-n"], input=block, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
