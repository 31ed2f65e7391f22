"""A fine-tuned encoder published as its adapter alone."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer

import hfxling
from hfxling.evaluation.results import read_results
from hfxling.hub.adapter import adapter_alone, adapter_faults
from hfxling.hub.agreement import card_faults
from hfxling.hub.checks import folder_contents
from hfxling.hub.record import file_faults, is_intact
from hfxling.hub.upload import read_content

TEXTS = ["今天下雨。", "车站在哪里？"]


@pytest.fixture(scope="module")
def whole(tiny_bert, tmp_path_factory) -> Path:
    """What `hfxling fit --choose finetuned` writes."""
    place = tmp_path_factory.mktemp("tuned")
    rows = hfxling.load_parallel("sample", "zh", "vi")
    for side, language in (("source", "zh"), ("target", "vi")):
        (place / f"my.{language}").write_text("\n".join(rows[side][:60]), encoding="utf-8")
    selection = hfxling.select(
        str(place / "my.zh"),
        str(place / "my.vi"),
        languages=("zh", "vi"),
        model=tiny_bert,
        only=["finetuned"],
        choose="finetuned",
        licence="cc0-1.0",
        output=place / "fit",
        cache_dir=place / "cache",
        device="cpu",
        progress=False,
    )
    return selection.folders["folder"]


@pytest.fixture
def alone(whole, tmp_path) -> Path:
    """The folder that a client downloads."""
    folder = tmp_path / "alone"
    for name, content in adapter_alone(folder_contents(whole)).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(read_content(content))
    return folder


def test_sentence_transformers_loads_it_on_its_base(whole, alone):
    vectors = SentenceTransformer(str(whole), device="cpu").encode(TEXTS)
    assert np.allclose(SentenceTransformer(str(alone), device="cpu").encode(TEXTS), vectors, atol=2e-3)
    assert not list(alone.rglob("*.py"))
    assert not (alone / "model.safetensors").exists()


def test_its_record_and_card_are_of_it(alone):
    record = json.loads((alone / "results.json").read_text(encoding="utf-8"))
    assert is_intact(record)
    assert file_faults(alone, record["files"]) == []
    card = (alone / "README.md").read_text(encoding="utf-8")
    assert card_faults(card, read_results(alone / "results.json"), record["card"]) == []
    assert record["card"]["relation"] == "adapter"
    assert "- lora\n" in card
    assert "AutoModel.from_pretrained(" in card
    assert "subfolder" not in card
    assert "trust_remote_code" not in card


def test_it_is_verified_on_its_base(alone, tmp_path):
    verified = hfxling.verify(alone, cache_dir=tmp_path / "cache", device="cpu")
    assert verified.faults == []
    (alone / "adapter_config.json").write_text("{}", encoding="utf-8")
    assert "adapter_config.json: is not what was recorded" in hfxling.verify(alone, files_only=True).table()


def test_an_adapter_of_other_weights_is_refused(whole, tmp_path):
    assert adapter_faults(whole) == []
    other = tmp_path / "other"
    shutil.copytree(whole, other)
    tensors = load_file(other / "adapter" / "adapter_model.safetensors")
    save_file({name: tensor + 1 for name, tensor in tensors.items()}, other / "adapter" / "adapter_model.safetensors")
    (fault,) = adapter_faults(other)
    assert "with its base it gives another encoder" in fault
    shutil.rmtree(other / "adapter")
    (fault,) = adapter_faults(other)
    assert fault.startswith("adapter/adapter_config.json: is missing")


def test_publishing_asks_for_a_base_that_others_can_load(whole, tiny_bert, publisher):
    place = whole.parent
    refused = publisher.command("publish", str(whole), "--repo", "org/alone", "--adapter", cwd=place)
    assert refused.returncode == 2
    assert f"{str(tiny_bert)!r} is a path of this machine" in refused.stderr
    names = [f"{tiny_bert}=org/base", f"{place.parent}/=texts/"]
    words = ("--repo", "org/alone", "--adapter", "--dry_run", "--base_licence", "mit", "--names", *names)
    done = publisher.command("publish", str(whole), *words, cwd=place)
    assert done.returncode == 0, done.stderr
    assert "adapter_model.safetensors" in done.stdout
    assert " model.safetensors" not in done.stdout
