"""The package as a whole: who imports whom, what importing costs, what a wheel holds, and what the docs promise."""

import ast
import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import hfxling

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "hfxling"
WITHOUT_MODELS = ("data", "evaluation", "mining", "hub")
RECIPES = {"recipes", *(path.stem for path in (ROOT / "recipes").glob("*.py"))}
DOCS = [path for pattern in ("README.md", "CONTRIBUTING.md", "docs/*.md") for path in sorted(ROOT.glob(pattern))]


def imports(path: Path, source: str):
    """(dots, module) of every import statement, those inside functions included; `from . import x` gives (1, "")."""
    for node in ast.walk(ast.parse(source, path.name)):
        if isinstance(node, ast.Import):
            yield from ((0, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.level, node.module or ""


def absolute(path: Path, dots: int, module: str) -> str:
    """What a relative import stands for, by the place of the file below the repository."""
    if not dots:
        return module
    package = path.relative_to(ROOT).parts[:-1]
    return ".".join((*package[: len(package) + 1 - dots], *filter(None, [module])))


def violations(path: Path, source: str) -> list[str]:
    """Imports that break the layering: models know only their siblings, and what measures never knows models."""
    folder = path.relative_to(ROOT).parts[1]
    found = []
    for dots, module in imports(path, source):
        target = absolute(path, dots, module)
        is_sibling = dots == 1 and module and (path.parent / f"{module}.py").is_file()
        if (
            (folder == "models" and (dots or target.split(".")[0] == "hfxling") and not is_sibling)
            or (folder in WITHOUT_MODELS and f"{target}.".startswith("hfxling.models."))
            or (not dots and target.split(".")[0] in RECIPES | {"tests"})
        ):
            found.append(f"{path.relative_to(ROOT)}: {'.' * dots}{module}")
    return found


def test_imports_run_one_way():
    files = sorted(PACKAGE.rglob("*.py"))
    assert len(files) > 20
    assert [problem for path in files for problem in violations(path, path.read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize(
    ("place", "source", "is_allowed"),
    [
        ("models/x.py", "from .losses import pair_distance", True),
        ("models/x.py", "def f():\n    from ..files import atomic_path", False),
        ("models/x.py", "from . import losses", False),
        ("models/x.py", "import hfxling.files", False),
        ("models/x.py", "from .nothing import x", False),
        ("evaluation/x.py", "from hfxling.files import atomic_path", True),
        ("evaluation/x.py", "from ..models import SiameseModel", False),
        ("data/sample/x.py", "def f():\n    import hfxling.models.pooling", False),
        ("training/x.py", "from hfxling.models.losses import pair_distance", True),
        ("training/x.py", "from siamese import main", False),
    ],
)
def test_the_layering_test_can_fail(place, source, is_allowed):
    assert (violations(PACKAGE / place, source) == []) == is_allowed


def test_no_recipe_imports_another():
    for path in sorted((ROOT / "recipes").glob("*.py")):
        tops = {module.split(".")[0] for _, module in imports(path, path.read_text(encoding="utf-8"))}
        assert not tops & RECIPES, path.name


def test_importing_the_package_is_cheap():
    code = "import sys, hfxling; dir(hfxling); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "hfxling" in loaded
    assert not loaded & {"torch", "transformers", "datasets", "sentence_transformers", "numpy", "yaml"}


def test_every_public_name_resolves_to_something_documented():
    assert len(hfxling.__all__) == len(set(hfxling.__all__)) > 5
    for name in hfxling.__all__:
        assert getattr(hfxling, name).__doc__, name
    assert set(hfxling.__all__) <= set(dir(hfxling))
    with pytest.raises(AttributeError, match="no attribute 'Siamese'"):
        hfxling.Siamese  # noqa: B018


@pytest.mark.slow
def test_a_wheel_carries_its_data_and_works_from_another_folder(tmp_path):
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True, cwd=tmp_path)
    (wheel,) = tmp_path.glob("*.whl")
    install = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-index", "--quiet", "--target", "site"]
    subprocess.run([*install, str(wheel)], check=True, capture_output=True, cwd=tmp_path)
    tracked = {path.relative_to(ROOT) for path in PACKAGE.rglob("*") if path.is_file() and path.suffix != ".pyc"}
    assert {path for path in tracked if not (tmp_path / "site" / path).is_file()} == set()
    code = """import hfxling, json
from hfxling.hub.card import CardInfo, render_card
pairs = hfxling.load_parallel("sample", "zh", "vi", split="dev")
info = CardInfo("org/x", "siamese", "org/base", ["zh"], "mit", [{"name": "d", "pairs": 1}], "Search.", ["Small."])
print(json.dumps([hfxling.__file__, pairs[0], len(render_card([], info))]))"""
    environment = os.environ | {"PYTHONPATH": str(tmp_path / "site"), "HF_HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    place, pair, length = ast.literal_eval(done.stdout)
    assert Path(place).is_relative_to(tmp_path)
    assert pair["source"]
    assert pair["target"] != pair["source"]
    assert length > 500


def blocks(path: Path, language: str) -> list[str]:
    """Contents of a Markdown file's fenced blocks of one language."""
    return re.findall(rf"^```{language}\n(.*?)^```", path.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("path", [*DOCS, ROOT / "Makefile"], ids=lambda path: path.name)
def test_files_that_the_docs_name_exist(path):
    """Those with "foo" in their name stand for a method to be added."""
    text = path.read_text(encoding="utf-8")
    named = set(re.findall(r"\b(?:recipes|benchmarks|tests|docs|hfxling|model_cards)/[\w./*-]*\w", text))
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
