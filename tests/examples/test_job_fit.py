"""The scripts for rented machines, run here; what they would publish is looked at instead."""

import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest
from builders import sentence_pairs

import hfxling
from examples import job_fit, job_mine

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def published(monkeypatch, tmp_path) -> list:
    """Arguments of what is published, in a folder with pairs and two texts."""
    monkeypatch.chdir(tmp_path)
    calls = []

    def publish(folder, **options):
        calls.append((folder, options))
        return SimpleNamespace(table=lambda: "published")

    monkeypatch.setattr(hfxling, "publish", publish, raising=False)
    pairs = sentence_pairs(60)
    Path("pairs.tsv").write_text("".join(f"{zh}\t{vi}\n" for zh, vi in pairs), encoding="utf-8")
    for side, name in enumerate(("zh.txt", "vi.txt")):
        Path(name).write_text("".join(f"{pair[side]}\n" for pair in pairs), encoding="utf-8")
    return calls


@pytest.mark.slow
def test_a_model_is_fitted_and_used_to_mine(published):
    job_fit.main(["pairs.tsv", "zh", "vi", "me/zh-vi", "mit"])
    assert Path("outputs/job/model/README.md").is_file()
    job_mine.main(["zh.txt", "vi.txt", "zh", "vi", "outputs/job/model", "me/mined", "mit"])
    assert Path("mined.tsv").is_file()
    (model, of_model), (data, of_data) = published
    assert (model, of_model["repo"]) == ("outputs/job/model", "me/zh-vi")
    assert (data, of_data["repo"], of_data["dataset"]) == ("mined.tsv", "me/mined", True)


@pytest.mark.parametrize("script", [job_fit, job_mine])
def test_uv_reads_what_a_script_needs(script):
    text = Path(script.__file__).read_text(encoding="utf-8")
    block = text.partition("# ///\n")[0].partition("# /// script\n")[2]
    needs = tomllib.loads("".join(line.removeprefix("# ") for line in block.splitlines(keepends=True)))
    assert needs["dependencies"] == ["hfxling[train]"]
