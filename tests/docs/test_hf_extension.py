"""`hf xling ...`: the Hub's command line starts ours."""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def test_the_hubs_command_line_starts_ours(tmp_path):
    pytest.importorskip("click", reason="the Hub's older command line needs click, and does not bring it")
    project = tomllib.loads((ROOT / "examples" / "hf-xling" / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    module, _, function = project["scripts"]["hf-xling"].partition(":")
    program = tmp_path / "hf-xling"  # as pip writes it
    program.write_text(f"#!{sys.executable}\nfrom {module} import {function}\n{function}()\n", encoding="utf-8")
    program.chmod(0o755)
    folder = tmp_path / ".local" / "share" / "hf" / "extensions" / "hf-xling"
    folder.mkdir(parents=True)
    manifest = {"owner": "hfxling", "repo": "hf-xling", "repo_id": "hfxling/hf-xling", "short_name": "xling"}
    manifest |= {"executable_path": str(program), "type": "python", "installed_at": "2026-11-25T00:00:00"}
    (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    hf = Path(sys.executable).with_name("hf")
    environment = os.environ | {"HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    done = subprocess.run([hf, "xling", "mine", "--help"], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "--languages" in done.stdout
    assert project["dependencies"] == ["hfxling[train]"]
