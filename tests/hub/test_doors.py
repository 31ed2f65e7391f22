"""A published folder is opened as its readers will."""

import subprocess
from pathlib import Path

import pytest
import torch
from builders import sentence_pairs
from safetensors.torch import load_file, save_file

import hfxling
from hfxling.hub.doors import door_faults


@pytest.fixture
def folder(tiny_bert, tmp_path) -> Path:
    """A head's folder."""
    pairs = sentence_pairs(20)
    sides = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    options = {"model": str(tiny_bert), "only": ["centred"], "cache_dir": tmp_path / "cache", "output": tmp_path}
    return hfxling.select(*sides, languages=("zh", "vi"), choose="centred", **options).folders["folder"]


def test_a_folder_is_opened_once_and_again_when_it_is_changed(folder, warm_python, monkeypatch):
    monkeypatch.setattr("sys.executable", warm_python)
    started = []
    run = subprocess.run
    monkeypatch.setattr(subprocess, "run", lambda *words, **options: started.append(words) or run(*words, **options))
    assert door_faults(folder, "siamese") == []
    assert door_faults(folder, "siamese") == []
    assert len(started) == 1
    weights = folder / "3_Dense" / "model.safetensors"
    save_file({name: torch.full_like(tensor, torch.nan) for name, tensor in load_file(weights).items()}, weights)
    (fault,) = door_faults(folder, "siamese")
    assert "the folder does not open in a fresh process" in fault
    assert len(started) == 2
