"""DAP training: gradient caching, two processes, a kill in mid-epoch, and the steps around it."""

import json
import os
import re
import shutil
import socket
import subprocess
from pathlib import Path

import dap_tiny_run
import pytest
import torch
import torch.nn.functional as F
from builders import command_line
from safetensors.torch import load_file
from tiny_models import save_tiny, tiny_tokenizer
from transformers import AutoConfig, TrainingArguments

from hfxling.data.sample import sample_texts
from hfxling.evaluation.results import read_results
from hfxling.methods.dap.arguments import TRAINING_DEFAULTS
from hfxling.methods.dap.train import DapTrainer, RandomState, split_batch
from hfxling.models import DapForPreTraining, DapModel
from hfxling.models.losses import translation_ranking_loss
from hfxling.models.pretraining_dap import text_ids
from recipes import dap

ROOT = Path(__file__).resolve().parents[3]
RUN = ROOT / "tests" / "support" / "dap_tiny_run.py"
SHARDED = RUN.with_name("dap_fsdp_run.py")
SOURCE = ["我爱吃苹果", "你好", "今天下雨", "他在", "你好"]  # pairs 1 and 4 share the source, 0 and 2 the target
TARGET = ["i eat apples", "hello, you", "i eat apples", "he is in", "you there"]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory) -> Path:
    return save_tiny("bert", tmp_path_factory.mktemp("encoder"))


def run(python: str, script: Path, *words) -> subprocess.CompletedProcess:
    """Run a script in a process of its own."""
    command = [python, str(script), *map(str, words)]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=300)


def run_two(python: str, script: Path, *words) -> tuple[str, str]:
    """Run a script in two processes, as torchrun would; gives standard output and error of the first one."""
    command = [python, str(script), *map(str, words)]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    common = {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    common |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    started = []
    for rank in ("0", "1"):
        started.append(subprocess.Popen(command, env=os.environ | common | {"RANK": rank, "LOCAL_RANK": rank}, **pipes))
    try:
        said = [process.communicate(timeout=300) for process in started]
    finally:
        for process in started:
            process.kill()
    for process, (_, stderr) in zip(started, said):
        assert process.returncode == 0, stderr
    return said[0]


def build(encoder, dropout=0.0, **fields) -> DapForPreTraining:
    torch.manual_seed(0)
    fields = {"mask_token_id": 4, "special_token_ids": [0, 1, 2, 3, 4]} | fields
    model = DapForPreTraining.from_encoder(str(encoder), **fields)
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = dropout
    for layer in model.rtl.layers if model.rtl is not None else []:
        layer.dropout = dropout
    return model


def batch() -> dict:
    tokenizer = tiny_tokenizer()
    sides = {}
    for name, texts in (("source", SOURCE), ("target", TARGET)):
        encoded = tokenizer(texts, padding=True, return_tensors="pt")
        sides[name] = {"input_ids": encoded["input_ids"], "attention_mask": encoded["attention_mask"]}
    return sides


def gradients(model, folder, chunk_size) -> tuple[torch.Tensor, dict]:
    args = TrainingArguments(**TRAINING_DEFAULTS | {"output_dir": str(folder), "use_cpu": True, "max_steps": 1})
    trainer = DapTrainer(model, args, train_dataset=[0], data_collator=list, chunk_size=chunk_size)
    trainer.current_gradient_accumulation_steps = 2
    model.zero_grad()
    loss = trainer.training_step(model, batch())
    return loss, {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize(
    "fields", [{}, {"rtl_direction": "both", "rtl_weight": 0.3, "rtl_layers": 1}, {"objective": "tr", "margin": 0.2}]
)
def test_gradient_caching_equals_the_one_shot_step(encoder, tmp_path, fields):
    model = build(encoder, **fields)
    whole, expected = gradients(model, tmp_path, None)
    chunked, cached = gradients(model, tmp_path, 2)  # two chunks of 2 pairs, one of 1
    assert torch.allclose(whole, chunked, atol=1e-5)
    assert expected.keys() == cached.keys()
    for name in expected:
        assert torch.allclose(expected[name], cached[name], atol=1e-5), name


@pytest.mark.parametrize("chunk_size", [None, 2])
def test_a_loss_that_is_not_finite_ends_training(encoder, tmp_path, chunk_size):
    model = build(encoder)
    with torch.no_grad():
        model.dap.encoder.get_input_embeddings().weight.fill_(1e38)
    with pytest.raises(ValueError, match=r"step 1: the loss is nan\. Lower learning_rate"):
        gradients(model, tmp_path, chunk_size)


def test_both_passes_of_gradient_caching_drop_out_the_same_units(encoder):
    model = build(encoder, dropout=0.5).train()
    state = RandomState()
    first = model.embed(**batch())[2]
    assert not torch.equal(first, model.embed(**batch())[2])
    state.restore()
    assert torch.equal(first, model.embed(**batch())[2])


def test_pairs_that_share_a_text_are_no_negatives_of_each_other(encoder):
    model = build(encoder, objective="tr").eval()
    *_, x, y = model.embed(**batch())
    pairs = list(zip(SOURCE, TARGET))
    same = torch.tensor([[a == c or b == d for c, d in pairs] for a, b in pairs])
    assert same.sum() == 9
    expected = (translation_ranking_loss(x, y, same=same) + translation_ranking_loss(y, x, same=same)) / 2
    assert torch.allclose(model(**batch()).loss, expected, atol=1e-6)
    assert not torch.allclose(expected, (translation_ranking_loss(x, y) + translation_ranking_loss(y, x)) / 2)


def test_text_ids_do_not_depend_on_the_batch():
    side = batch()["source"]
    wide = {name: F.pad(value, (0, 3)) for name, value in side.items()}
    ids = text_ids(side, wide)
    assert torch.equal(ids[:, 0], ids[:, 1])
    assert len(ids[:, 0].unique()) == len(set(SOURCE))
    shuffled = {"input_ids": torch.tensor([[2, 7, 8, 3], [2, 8, 7, 3], [2, 7, 8, 3]])}
    shuffled["attention_mask"] = torch.tensor([[1, 1, 1, 1], [1, 1, 1, 1], [1, 1, 1, 0]])
    assert len(text_ids(shuffled).unique()) == 3


def test_split_batch_keeps_rows_together_and_passes_on_the_rest():
    chunks = split_batch(batch() | {"language": torch.arange(5), "gather": len}, 2)
    assert [len(chunk["language"]) for chunk in chunks] == [2, 2, 1]
    assert torch.equal(torch.cat([c["target"]["input_ids"] for c in chunks]), batch()["target"]["input_ids"])
    assert all(chunk["gather"] is len for chunk in chunks)


@pytest.mark.slow
def test_two_processes_train_the_single_process_model(encoder, warm_python, tmp_path):
    """In chunks, too; and weights in pieces have the whole model's gradients, which is in the script of both."""
    dap_tiny_run.train([str(encoder), str(tmp_path / "one"), "--steps", "3", "--dropout", "0"])
    script = RUN.with_name("dap_two_processes_run.py")
    run_two(warm_python, script, encoder, tmp_path / "two", tmp_path / "two, chunked")
    one, *others = (
        load_file(tmp_path / name / "model" / "model.safetensors") for name in ("one", "two", "two, chunked")
    )
    start = load_file(encoder / "model.safetensors")
    moved = {key: (one[f"dap.encoder.{key}"] - value).abs().max() for key, value in start.items()}
    assert moved["embeddings.word_embeddings.weight"] > 1e-3
    for other in others:
        for key in one:
            assert torch.allclose(one[key], other[key], atol=1e-5), key


@pytest.fixture(scope="module")
def text(tmp_path_factory) -> dict:
    """Options that name a little text: sixty pairs to train on, twenty to test on."""
    folder = tmp_path_factory.mktemp("text")
    sides = {lang: sample_texts(lang, generated=0)[:80] for lang in ("zh", "vi", "en")}
    for lang in ("zh", "vi"):
        rows = "".join(map("{}\t{}\n".format, sides[lang], sides["en"]))
        (folder / f"{lang}-en.tsv").write_text(rows, encoding="utf-8")
    pairs = f"{folder}/{{source}}-{{target}}.tsv"
    return {"train_data": f"{pairs}@1-60", "test_data": f"{pairs}@61-80"}


def recipe_options(encoder, text, folder, **more) -> list[str]:
    given = {"base_model": encoder, "pairs": ["zh-en", "vi-en"], **text}
    given |= {"max_steps": 3, "use_cpu": True, "disable_tqdm": True, "logging_steps": 1, "save_strategy": "no"}
    given |= {"output_dir": folder / "out", "cache_dir": folder / "lengths"}
    return command_line(given | more)


@pytest.mark.slow
def test_the_recipe_with_weights_in_pieces_publishes_the_whole_model(encoder, text, warm_python, tmp_path):
    config = AutoConfig.from_pretrained(encoder)  # without dropout, so that one process can be compared
    plain = shutil.copytree(encoder, tmp_path / "plain")
    config.hidden_dropout_prob = config.attention_probs_dropout_prob = 0.0
    config.save_pretrained(plain)
    # Adam would blow rounding errors up where gradients vanish; with this epsilon it is nearly plain descent.
    common = {"adam_epsilon": 1.0, "learning_rate": 1.0, "bucket": 2}
    dap.main(recipe_options(plain, text, tmp_path / "one", per_device_train_batch_size=4, **common))
    words = recipe_options(plain, text, tmp_path / "two", per_device_train_batch_size=2, **common)
    words += command_line({"eval_strategy": "steps", "eval_steps": 2, "save_strategy": "steps", "save_steps": 2})
    # Then in the file's own precision, in chunks, the last of the three steps only.
    again = recipe_options(plain, text, tmp_path / "three", per_device_train_batch_size=2, **common)
    again += ["--chunk_size", "1", "--resume_from_checkpoint", str(tmp_path / "two" / "out" / "checkpoint-2")]
    said, _ = run_two(warm_python, SHARDED, "no", *words, "--", "bf16", *again, "--")
    said, said_again, _ = said.split("NEXT\n")
    assert len(re.findall(r"eval \S+ zh->en P@1", said)) == 2, said  # step 2 and the last
    assert len(re.findall("^epoch [0-9.]+: loss ", said_again, re.M)) == 1, said_again
    before = DapModel.from_pretrained(plain).state_dict()
    one, two, three = (
        DapModel.from_pretrained(tmp_path / name / "out" / "model").state_dict() for name in ("one", "two", "three")
    )
    moved = {name: (one[name] - before[name]).norm() for name in before}
    assert moved["encoder.embeddings.word_embeddings.weight"] > 0.1
    for name in moved:
        assert (one[name] - two[name]).norm() <= 1e-3 * moved[name] + 2e-6, name  # of rounding
        assert (three[name] - one[name]).norm() <= 0.2 * moved[name] + 3e-4, name  # some hardly move
    results = read_results(tmp_path / "two" / "out" / "model" / "results.json")
    results = [row for row in results if "dimensions" not in row.settings]  # of short vectors
    assert [row.settings["stage"] for row in results] == ["before"] * 4 + ["after"] * 4


@pytest.mark.parametrize("path", sorted((ROOT / "recipes" / "accelerate_configs").iterdir()), ids=lambda p: p.stem)
def test_accelerate_reads_the_shipped_configurations(path):
    from accelerate.commands.config.config_args import load_config_from_file

    assert load_config_from_file(str(path)).num_processes >= 8


@pytest.mark.slow
def test_killed_run_goes_on_as_if_nothing_had_happened(encoder, warm_python, tmp_path):
    dap_tiny_run.train([str(encoder), str(tmp_path / "whole")])
    assert run(warm_python, RUN, encoder, tmp_path / "killed", "--kill_after", 5).returncode == -9
    assert not (tmp_path / "killed" / "model").exists()
    checkpoint = tmp_path / "killed" / "checkpoint-3"
    dap_tiny_run.train([str(encoder), str(tmp_path / "killed"), "--resume", str(checkpoint)])
    expected, found = (json.loads((tmp_path / name / "losses.json").read_text()) for name in ("whole", "killed"))
    assert set(found) == {str(step) for step in range(1, 9)}
    for step in map(str, range(4, 9)):
        for part in ("loss", "loss_tr", "loss_rtl", "loss_tlm", "learning_rate"):
            assert found[step][part] == expected[step][part], (step, part)
    one, two = (load_file(tmp_path / name / "model" / "model.safetensors") for name in ("whole", "killed"))
    assert all(torch.equal(one[key], two[key]) for key in one)
