"""Which checkpoint a run goes on from: a whole one, of the same training, and alone in its folder."""

import os
import shutil
import time
from dataclasses import replace
from pathlib import Path

import pytest
from builders import command_line, sentence_pairs
from transformers import TrainingArguments

from hfxling.files import alone_in
from hfxling.methods.checkpoints import RECORD, check_record, checkpoint_of, newest_checkpoint
from hfxling.recipe import run_recipe


@pytest.fixture(scope="module")
def text(tmp_path_factory) -> Path:
    folder, pairs = tmp_path_factory.mktemp("text"), sentence_pairs(64)
    for name, rows in (("train", pairs[:40]), ("other", pairs[2:40]), ("test", pairs[40:52]), ("new", pairs[52:])):
        folder.joinpath(f"{name}.tsv").write_text("".join(f"{zh}\t{vi}\n" for zh, vi in rows), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def train(text, tiny_bert, tmp_path_factory):
    """Run the siamese recipe with a trained head; it leaves checkpoints 5, 10 and 15."""
    cache = tmp_path_factory.mktemp("cache")

    def call(out, **options):
        shared = {"base_model": tiny_bert, "pairs": "zh-vi", "layer": 2, "fit": "infonce", "cache_dir": cache}
        shared |= {"train_data": text / "train.tsv", "test_data": text / "test.tsv", "num_train_epochs": 3}
        shared |= {"per_device_train_batch_size": 8, "save_steps": 5, "save_total_limit": 9}
        shared |= {"use_cpu": True, "disable_tqdm": True, "output_dir": out}
        return run_recipe("siamese", command_line(shared | options))

    return call


@pytest.fixture(scope="module")
def trained(train, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    train(folder)
    return folder


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seed": 1}, "seed=42, not 1"),
        ({"learning_rate": 0.5}, "learning_rate=5e-05, not 0.5"),
        ({"layer": 1}, "layer='2', not '1'"),
        ({"per_device_train_batch_size": 4}, "batch_size=8, not 4"),
        ({"per_device_train_batch_size": 8, "gradient_accumulation_steps": 2}, "gradient_accumulation_steps=1, not 2"),
        ({"data_seed": 7}, "data_seed=None, not 7"),
        ({"train_data": "other.tsv"}, "training text="),
        ({"base_model": "copy"}, "base_model="),
    ],
)
def test_a_checkpoint_of_another_training_is_refused(options, message, trained, train, text, tiny_bert, tmp_path):
    folder = shutil.copytree(trained, tmp_path / "run")
    if "train_data" in options:
        options = {"train_data": text / options["train_data"]}
    if "base_model" in options:
        options = {"base_model": shutil.copytree(tiny_bert, tmp_path / "copy")}
    with pytest.raises(ValueError, match=f"it was trained with {message}") as error:
        train(folder, resume_from_checkpoint=True, **options)
    assert "\n" not in str(error.value)


def test_the_same_training_goes_on_whatever_it_is_tested_on(trained, train, text, tmp_path):
    folder = shutil.copytree(trained, tmp_path / "run")
    for path in (folder / "checkpoint-15", folder / "model"):
        shutil.rmtree(path)
    assert train(folder, resume_from_checkpoint=True, test_data=text / "new.tsv")
    assert (folder / "checkpoint-15" / RECORD).is_file()


def test_a_checkpoint_without_a_record_is_an_older_versions(tmp_path):
    check_record(None, {"seed": 1})
    check_record(str(tmp_path), {"seed": 1})


@pytest.mark.parametrize("name", ["rng_state.pth", "optimizer.pt", "scheduler.pt", "model.safetensors"])
@pytest.mark.parametrize("cut", [True, False])
def test_a_damaged_checkpoint_is_passed_over(name, cut, trained, tmp_path):
    folder = shutil.copytree(trained, tmp_path / "run")
    path = folder / "checkpoint-15" / name
    content = bytearray(path.read_bytes())
    if cut:
        del content[len(content) // 2 :]
    else:
        for place in range(64, len(content) - 64, 7):
            content[place] ^= 255
    path.write_bytes(bytes(content))
    assert newest_checkpoint(folder) == str(folder / "checkpoint-10")
    asked = TrainingArguments(output_dir=str(folder), resume_from_checkpoint=str(folder / "checkpoint-15"))
    with pytest.raises(ValueError, match=r"no whole checkpoint in .*checkpoint-15; the newest whole one is .*-10"):
        checkpoint_of(asked)
    assert checkpoint_of(replace(asked, resume_from_checkpoint="true")) == str(folder / "checkpoint-10")


def test_where_the_clock_went_back_the_new_checkpoint_stays(trained, train, tmp_path):
    folder = shutil.copytree(trained, tmp_path / "run")
    for path in (folder / "checkpoint-15", folder / "model"):
        shutil.rmtree(path)
    tomorrow = time.time() + 86_400
    for number in (5, 10):
        os.utime(folder / f"checkpoint-{number}", (tomorrow + number, tomorrow + number))
    train(folder, resume_from_checkpoint=True, save_total_limit=2)
    assert {path.name for path in folder.glob("checkpoint-*")} == {"checkpoint-10", "checkpoint-15"}


def test_two_runs_do_not_share_a_folder(trained, train, tmp_path):
    message = "another run writes there; wait for it, or name another"
    with alone_in(tmp_path / "run", "output_dir"), pytest.raises(ValueError, match=message):
        train(tmp_path / "run")
    assert not (tmp_path / "run").exists()
