"""Which versions of other packages the package says that it works with, and which it is tested with."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def pinned(name: str) -> dict[str, str]:
    """Versions by package."""
    lines = (ROOT / name).read_text(encoding="utf-8").split()
    return dict(re.sub("_", "-", line).split("==") for line in lines)


def test_the_oldest_versions_are_those_that_are_tested():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    needed = [*project["dependencies"], *extras["train"], *extras["eval"]]
    # Versions that are left out stand behind: transformers>=5.10.1,!=5.13.*
    bounds = dict(re.fullmatch(r"([\w-]+)>=([\d.]+)(?:,!=[\d.*]+)*", each).groups() for each in needed)
    del bounds["matplotlib"]  # draws pictures, and decides no figure
    assert pinned("constraints-lowest.txt") == bounds
    assert bounds.keys() <= pinned("constraints.txt").keys()
