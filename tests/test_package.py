"""The package as a whole: who imports whom, what stands where, what importing costs, what a wheel holds."""

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from importlib import import_module
from pathlib import Path

import pytest
import yaml

import hfxling
import hfxling.methods
from hfxling.commands import COMMANDS

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "hfxling"
TRAINING = PACKAGE / "methods"
PYTHON = [
    path
    for top in ("hfxling", "recipes", "examples", "spaces", "tools", "benchmarks", "docs", "tests")
    for path in (ROOT / top).rglob("*.py")
]

# Which parts of the package a part may import beside itself; a file under models imports its siblings and nothing else.
# A verb's module is a door: it may use every room, and nothing of the rooms uses it.
_CORE = {"files", "parts", "progress", "missing", "values"}
ALLOWED: dict[str, set[str]] = {
    "__init__": set(),  # public names are loaded when they are first used
    "__main__": {"cli"},
    "files": set(),
    "parts": {"files"},
    "progress": set(),
    "missing": set(),
    "values": set(),
    "console": {"missing", "progress"},
    "verbs": {"missing", "files", "progress", "encoders"},
    "arguments": {"files"},
    "models": set(),
    "data": _CORE,
    "sentences": _CORE | {"data"},
    "evaluation": _CORE | {"data", "sentences"},
    "encoders": _CORE | {"models", "data", "sentences"},
    "words": _CORE | {"models", "data", "sentences", "encoders"},
    "hub": _CORE | {"encoders", "models", "evaluation", "data"},
    "commands": {"__init__"},
    "cli": {"__init__", "commands", "console", "arguments", "missing", "files", "progress"},
}
ALLOWED["methods"] = {*ALLOWED} - {"__init__", "__main__", "commands", "cli"}
ALLOWED["recipe"] = ALLOWED["methods"] | {"methods"}
ALLOWED["selection"] = ALLOWED["fit"] = ALLOWED["recipe"]
VERBS = {hfxling._PUBLIC[command.verb] for command in COMMANDS.values()}
# Parts of the verbs `evaluate`, which take encoders, and `bootstrap`, which learns links.
VERBS |= {"hfxling.evaluation.tasks", "hfxling.evaluation.mteb", "hfxling.sentences.grow"}
RECIPES = {"recipes", *(path.stem for path in (ROOT / "recipes").glob("*.py"))}

Tree = dict[str, str]  # a module's dotted name to its source; that of a package ends in .__init__


def read_tree() -> Tree:
    """The package's modules."""
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts): path.read_text(encoding="utf-8")
        for path in sorted(PACKAGE.rglob("*.py"))
    }


def imports(source: str) -> Iterator[tuple[int, str, str | None]]:
    """(dots, module, name) of every import, those inside functions and under TYPE_CHECKING included."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((0, alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.level, node.module or "", alias.name) for alias in node.names)


def resolved(tree: Tree, importer: str, dots: int, module: str, name: str | None) -> str | None:
    """The module of the tree that an import means; None for what is not in it."""
    above = importer.split(".")[:-dots] if dots else []
    parts = [*above, *filter(None, module.split(".")), *([name] if name else [])]
    for found in (parts, parts[:-1]):
        for candidate in (".".join(found), ".".join([*found, "__init__"])):
            if candidate in tree:
                return candidate
    return None


def part_of(module: str) -> str:
    """The part of the package that a module belongs to."""
    return module.split(".")[1]


def method_of(tree: Tree, module: str) -> str | None:
    """The method whose flat under training a module belongs to."""
    parts = module.split(".")
    is_flat = parts[1] == "methods" and len(parts) > 3 and ".".join([*parts[:3], "__init__"]) in tree
    return parts[2] if is_flat else None


def is_allowed(tree: Tree, importer: str, target: str) -> bool:
    """Whether one module of the package may import another."""
    here, there = part_of(importer), part_of(target)
    if importer in VERBS:
        return there not in ("commands", "cli")
    if target in VERBS:
        return here in ("cli", "selection")
    if here == there == "methods" and (method := method_of(tree, target)):
        return method_of(tree, importer) == method or importer == "hfxling.methods.__init__"  # the registry
    return here == there or there in ALLOWED[here]


def forbidden_imports(tree: Tree) -> list[str]:
    """Imports that the table refuses."""
    found = []
    for importer, source in tree.items():
        for dots, module, name in imports(source):
            target = resolved(tree, importer, dots, module, name)
            if importer.startswith("hfxling.models."):
                own = [*importer.split(".")[:-1], module]
                refused = (dots or module.split(".")[0] == "hfxling") and (dots != 1 or ".".join(own) not in tree)
            elif target:
                refused = not is_allowed(tree, importer, target)
            else:
                refused = not dots and module.split(".")[0] in {
                    *RECIPES,
                    "tests",
                    "benchmarks",
                    "docs",
                    "examples",
                    "spaces",
                }
            if refused:
                found.append(f"{importer}: {'.' * dots}{module}" + (f" import {name}" if name else ""))
    return found


def circle(tree: Tree) -> list[str]:
    """Modules that import each other in a ring, for any import statement; [] where there is no such ring.

    An import also runs the `__init__` of every package above the module, those that the importer lies in excepted.
    """
    graph: dict[str, set[str]] = {}
    for importer, source in tree.items():
        targets = {resolved(tree, importer, *statement) for statement in imports(source)} - {None}
        for target in list(targets):
            parts = target.split(".")[:-1]
            above = (".".join(parts[:depth]) for depth in range(1, len(parts) + 1))
            targets |= {f"{package}.__init__" for package in above if not importer.startswith(f"{package}.")}
        graph[importer] = targets
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return error.args[1]
    return []


def test_imports_run_one_way():
    tree = read_tree()
    assert len(tree) > 60
    assert {part_of(module) for module in tree} <= set(ALLOWED)
    assert forbidden_imports(tree) == []


def test_no_modules_import_each_other():
    assert circle(read_tree()) == []


MADE_UP = dict.fromkeys(
    (
        *("__init__", "files", "arguments", "encoders.__init__", "words.__init__", "words.prior"),
        *("data.__init__", "data.readers", "data.sample.__init__", "evaluation.__init__"),
        *("evaluation.results", "hub.__init__", "hub.card", "sentences.__init__", "sentences.neighbours"),
        *("models.__init__", "cli", "models.losses", "models.modeling_x", "methods.__init__", "methods.trainer"),
        *("methods.x.__init__", "methods.x.data", "methods.y.__init__", "methods.y.data"),
    ),
    "",
)
MADE_UP = {f"hfxling.{name}": source for name, source in MADE_UP.items()}


@pytest.mark.parametrize(
    ("module", "source", "allowed"),
    [
        ("models.modeling_x", "from .losses import pair_distance", True),
        ("models.modeling_x", "def f():\n    from ..files import atomic_path", False),
        ("models.modeling_x", "from . import losses", False),
        ("models.modeling_x", "import hfxling.files", False),
        ("models.modeling_x", "from hfxling.models.losses import pair_distance", False),
        ("models.modeling_x", "from .nothing import x", False),
        ("data.readers", "from hfxling.files import atomic_path", True),
        ("data.sample.__init__", "def f():\n    import hfxling.models.losses", False),
        ("data.readers", "from ..sentences import neighbours", False),
        ("sentences.neighbours", "from hfxling.hub.card import x", False),
        ("evaluation.results", "from hfxling.sentences.neighbours import unit", True),
        ("evaluation.results", "if TYPE_CHECKING:\n    from ..models import XModel", False),
        ("evaluation.results", "from hfxling.encoders import FrozenEncoder", False),
        ("encoders.__init__", "from hfxling.models import modeling_x", True),
        ("encoders.__init__", "from hfxling.evaluation.results import EvalResult", False),
        ("words.prior", "from hfxling.data import readers", True),
        ("words.prior", "from hfxling.evaluation.results import EvalResult", False),
        ("hub.card", "from hfxling import encoders", True),
        ("hub.card", "from hfxling.methods.trainer import x", False),
        ("hub.card", "from hfxling import XModel", False),
        ("methods.trainer", "from hfxling.hub.card import render_card", True),
        ("methods.x.data", "from ..trainer import x", True),
        ("methods.x.data", "from hfxling.arguments import parse_arguments", True),
        ("methods.x.data", "from . import data", True),
        ("methods.x.data", "from ..y.data import prepare", False),
        ("methods.x.data", "from hfxling.methods import y", False),
        ("methods.trainer", "def f():\n    from hfxling.methods.x import prepare", False),
        ("methods.x.data", "from hfxling.cli import main", False),
        ("methods.__init__", "from . import x, y", True),
        ("methods.trainer", "from recipes.siamese import main", False),
        ("arguments", "import yaml", True),
        ("arguments", "from hfxling.data.readers import read_lines", False),
    ],
)
def test_the_table_of_imports_can_fail(module, source, allowed):
    assert forbidden_imports(MADE_UP) == []
    assert (forbidden_imports(MADE_UP | {f"hfxling.{module}": source}) == []) == allowed


@pytest.mark.parametrize(
    ("sources", "is_circle"),
    [
        ({"data.readers": "from .sample import x", "data.sample.__init__": "import os"}, False),
        ({"data.readers": "from .sample import x", "data.sample.__init__": "from ..readers import y"}, True),
        ({"methods.x.data": "from .. import trainer", "methods.trainer": "def f():\n    from .x import data"}, True),
        (
            {
                "files": "if TYPE_CHECKING:\n    import hfxling.encoders",
                "encoders.__init__": "from hfxling import files",
            },
            True,
        ),
        ({"methods.__init__": "from . import x", "methods.x.data": "from ..trainer import z"}, False),
        ({"methods.__init__": "from . import x", "methods.x.__init__": "from hfxling.methods import Y"}, True),
        ({"models.__init__": "from .losses import f", "models.losses": "from .modeling_x import g"}, False),
        ({"models.losses": "from .losses import f"}, True),
    ],
)
def test_the_search_for_circles_can_fail(sources, is_circle):
    assert circle(MADE_UP) == []
    assert bool(circle(MADE_UP | {f"hfxling.{module}": source for module, source in sources.items()})) == is_circle


def imports_of_recipes(source: str) -> list[str]:
    """What a file outside the package imports from recipes, by either name."""
    return [module for dots, module, _ in imports(source) if not dots and module.split(".")[0] in RECIPES]


@pytest.mark.parametrize("top", ["recipes", "benchmarks", "tools", "docs"])
def test_nothing_imports_a_recipe(top):
    for path in sorted((ROOT / top).glob("*.py")):
        assert imports_of_recipes(path.read_text(encoding="utf-8")) == [], path
    assert imports_of_recipes("def f():\n    import siamese\nfrom recipes.dap import main") == [
        "recipes.dap",
        "siamese",
    ]


NEEDED = {"__init__", "card"}  # files of a method's folder
USUAL = NEEDED | {"arguments", "data", "train", "evaluate"}  # those that need no reason
CONTRACT = {"Arguments", "TRAINING_DEFAULTS", "prepare", "run", "measure", "card"}
METHODS = sorted(path.parent.name for path in TRAINING.glob("*/__init__.py"))


def flat_problems(files: set[str], init: str) -> list[str]:
    """What a method's flat lacks: its files, the names its `__init__` promises, a reason for each further file."""
    tree = ast.parse(init)
    bound = {alias.asname or alias.name for n in tree.body if isinstance(n, ast.ImportFrom) for alias in n.names}
    bound |= {n.name for n in tree.body if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    bound |= {target.id for n in tree.body if isinstance(n, ast.Assign) for target in n.targets}
    reasons = set(re.findall(r"(\w+)\.py: \S", ast.get_docstring(tree) or ""))
    return [
        *(f"no {name}.py" for name in sorted(NEEDED - files)),
        *(f"__init__ has no {name}" for name in sorted(CONTRACT - bound)),
        *(f"{name}.py without a reason in the docstring of __init__" for name in sorted(files - USUAL - reasons)),
        *(f"a reason for {name}.py, which is not there" for name in sorted(reasons - files)),
    ]


@pytest.mark.parametrize("method", METHODS)
def test_every_method_has_the_same_flat(method):
    assert sorted(hfxling.methods.METHODS) == METHODS
    folder = TRAINING / method
    files = {path.stem for path in folder.glob("*.py")}
    assert flat_problems(files, (folder / "__init__.py").read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("files", "reason", "names", "count"),
    [
        (USUAL, "", "Arguments, TRAINING_DEFAULTS, prepare, run, measure, card", 0),
        (NEEDED, "", "Arguments, TRAINING_DEFAULTS, prepare, run, measure, card", 0),
        (USUAL - {"card"}, "", "Arguments, TRAINING_DEFAULTS, prepare, run, measure, card", 1),
        (USUAL, "", "Arguments, TRAINING_DEFAULTS, prepare", 3),
        (USUAL | {"mixing"}, "mixing.py and so on", "Arguments, TRAINING_DEFAULTS, prepare, run, measure, card", 1),
        (USUAL | {"mixing"}, "mixing.py: epochs", "Arguments, TRAINING_DEFAULTS, prepare, run, measure, card", 0),
        (USUAL, "mixing.py: epochs", "Arguments, TRAINING_DEFAULTS, prepare, run, measure, card", 1),
    ],
)
def test_the_test_of_flats_can_fail(files, reason, names, count):
    assert len(flat_problems(files, f'"""A method.\n\n{reason}\n"""\nfrom .arguments import {names}')) == count


OUTSIDE = (
    "recipes",
    "examples",
    "benchmarks",
    "tools",
    "docs",
)  # folders of tests that mirror what is not in the package
# Tests of no single module.
OF_THE_WHOLE = {
    "test_package*.py": "imports, files and versions of all parts",
    "test_safe_outputs.py": "every command, at its worst",
    "docs/test_*.py": "the pages, which are no code",
    "models/test_every_method.py": "one matrix that every method goes through",
}


def has_counterpart(test: Path, root: Path = ROOT) -> bool:
    """Whether tests/FOLDER/test_NAME.py, or test_NAME_PART.py, stands as hfxling/FOLDER/NAME does, or recipes/NAME."""
    inside = test.relative_to(root / "tests")
    top = inside.parts[0]
    base = root if top in OUTSIDE else root / "tests" if top == "support" else root / "hfxling"
    words = inside.stem.removeprefix("test_").split("_")
    places = [base / inside.parent / "_".join(words[:count]) for count in range(len(words), 0, -1)]
    return any(place.with_suffix(".py").is_file() or (place / "__init__.py").is_file() for place in places)


def test_tests_mirror_the_tree(tmp_path):
    tests = sorted((ROOT / "tests").rglob("test_*.py"))
    assert len(tests) > 60
    named = {path for name in OF_THE_WHOLE for path in (ROOT / "tests").glob(name)}
    assert [str(path.relative_to(ROOT)) for path in tests if path not in named and not has_counterpart(path)] == []
    for name in ("hfxling/data/sample/__init__.py", "hfxling/data/parallel.py", "recipes/dap.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    good = ("data/test_parallel.py", "data/test_parallel_hub.py", "data/test_sample.py", "recipes/test_dap.py")
    assert all(has_counterpart(tmp_path / "tests" / name, tmp_path) for name in good)
    bad = ("test_parallel.py", "data/test_dap.py", "data/test_paralle.py", "recipes/test_parallel.py")
    assert not any(has_counterpart(tmp_path / "tests" / name, tmp_path) for name in bad)


def named_args(source: str) -> list[str]:
    """Functions that take a parameter named args, as if it were the command line's; those that the Trainer calls do."""
    named = []
    for function in ast.walk(ast.parse(source)):
        if isinstance(function, ast.FunctionDef):
            parameters = {each.arg for each in (*function.args.args, *function.args.kwonlyargs)}
            if "args" in parameters and "control" not in parameters:
                named.append(function.name)
    return named


def test_settings_end_at_the_border():
    for name, source in read_tree().items():
        assert named_args(source) == [], name
    assert named_args("def f(a, *, args): ...\ndef g(*args): ...\ndef h(args, state, control): ...") == ["f"]


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


@pytest.mark.parametrize("name", METHODS)
def test_the_citation_file_names_every_paper_as_the_cards_do(name):
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == hfxling.__version__
    (paper,) = (entry for entry in citation["references"] if entry["notes"].split(";")[0] == name)
    bibtex = import_module(f"hfxling.methods.{name}.card").CITATION.replace("{", "").replace("}", "")
    fields = {key: " ".join(value.split()) for key, value in re.findall(r"(\w+) = (.+?),\n(?=  \w|$)", bibtex, re.S)}
    authors = " and ".join(f"{author['family-names']}, {author['given-names']}" for author in paper["authors"])
    assert authors.replace(",", "") == fields["author"].replace(",", "")
    assert (paper["title"], str(paper.get("year"))) == (fields["title"], str(fields.get("year")))


def test_every_methods_classes_are_public():
    from hfxling.models import MODELS

    assert {model.__name__ for model in MODELS} == {entry.model for entry in hfxling.methods.METHODS.values()}
    for model in MODELS:
        assert {model.__name__, model.config_class.__name__} <= set(hfxling.__all__)


@pytest.mark.slow
def test_a_wheel_carries_its_data_and_works_from_another_folder(warm_python, tmp_path):
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True, cwd=tmp_path)
    (wheel,) = tmp_path.glob("*.whl")
    install = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-index", "--no-compile", "--target", "site"]
    subprocess.run([*install, str(wheel)], check=True, capture_output=True, cwd=tmp_path)
    tracked = {path.relative_to(ROOT) for path in PACKAGE.rglob("*") if path.is_file() and path.suffix != ".pyc"}
    assert {path for path in tracked if not (tmp_path / "site" / path).is_file()} == set()
    code = """import hfxling, json
from hfxling.hub.card import CardInfo, render_card
pairs = hfxling.load_parallel("sample", "zh", "vi", split="dev")
data = {"name": "d", "pairs": 1}
info = CardInfo("org/x", "siamese", "A head.", "@misc{x}", "org/base", ["zh"], "mit", [data], "Search.", ["Small."])
from hfxling.hub.demo import page_folder
page = str(page_folder() / "app.py")
print(json.dumps([hfxling.__file__, pairs[0], len(render_card([], info)), page]))"""
    environment = os.environ | {"PYTHONPATH": str(tmp_path / "site"), "HF_HOME": str(tmp_path)}
    done = subprocess.run([warm_python, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    place, pair, length, page = ast.literal_eval(done.stdout)
    assert Path(place).is_relative_to(tmp_path)
    assert Path(page).is_relative_to(tmp_path / "site")
    assert wheel.stat().st_size < 1_000_000
    assert pair["source"]
    assert pair["target"] != pair["source"]
    assert length > 500
