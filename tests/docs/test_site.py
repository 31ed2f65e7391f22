"""The site: builds without a warning, so that every link leads somewhere, and shows every public name."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import hfxling

pytest.importorskip("mkdocs", reason="needs mkdocs-material and mkdocstrings: pip install -e '.[docs]'")
pytest.importorskip("mkdocstrings", reason="needs mkdocstrings: pip install -e '.[docs]'")

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    env = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_every_public_name_is_documented(site):
    page = (site / "api.html").read_text(encoding="utf-8")
    shown = {name.rpartition(".")[2] for name in re.findall(r'<h3 id="([\w.]+)"', page)}
    assert set(hfxling.__all__) <= shown


def test_pictures_are_where_pages_look_for_them(site):
    for page in site.rglob("*.html"):
        for source in re.findall(r'(?:src|srcset)="([^":]+\.(?:png|svg))"', page.read_text(encoding="utf-8")):
            if page.name != "404.html":
                assert (page.parent / source).is_file(), f"{page.name}: {source}"


def test_nothing_is_loaded_from_elsewhere(site):
    page = (site / "index.html").read_text(encoding="utf-8")
    assert re.findall(r'<(?:script|img)[^>]*src="https?:[^"]*"', page) == []
    assert re.findall(r'<link[^>]*rel="(?:stylesheet|preconnect)"[^>]*href="https?:[^"]*"', page) == []


def test_the_navigation_names_every_page():
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))

    def pages(entry) -> list[str]:
        if isinstance(entry, str):
            return [entry]
        parts = entry.values() if isinstance(entry, dict) else entry
        return [page for part in parts for page in pages(part)]

    named = pages(settings["nav"])
    there = [str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")]
    assert sorted(named) == sorted(there)


def test_pages_in_no_section_have_no_empty_column(site):
    """The start page's code has room for it; a guide has the other guides at its side."""
    column = 'data-md-type="navigation" hidden'
    assert column in (site / "index.html").read_text(encoding="utf-8")
    assert column not in (site / "guide_mine.html").read_text(encoding="utf-8")
