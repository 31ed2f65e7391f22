"""The DAP recipe and its studies, from text to the published folder."""

import re
from pathlib import Path

import pytest
import torch
import yaml
from builders import command_line
from sentence_transformers import SentenceTransformer
from tiny_models import save_tiny
from transformers import AutoTokenizer

from hfxling.evaluation.results import read_results
from hfxling.hub.writing import export
from hfxling.models import DapModel
from recipes import dap, study

pytestmark = pytest.mark.usefixtures("small_sample")


@pytest.fixture(scope="module")
def encoder(tmp_path_factory) -> Path:
    return save_tiny("bert", tmp_path_factory.mktemp("encoder"))


def options(encoder, folder, **more) -> dict:
    given = {"base_model": str(encoder), "pairs": ["zh-en", "vi-en"], "train_data": ["sample"], "test_data": ["sample"]}
    given |= {"max_steps": 3, "per_device_train_batch_size": 8, "use_cpu": True, "disable_tqdm": True}
    given |= {"output_dir": str(folder / "out"), "cache_dir": str(folder / "lengths"), "save_strategy": "no"}
    return given | more


def words(given: dict) -> list[str]:
    return command_line(given)


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"objective": "tr+rtl+tlm", "rtl_direction": "both", "max_length": 20, "chunk_size": 2},
        {"lora": 2, "learning_rate": 0.01},
    ],
    ids=["paper", "everything", "lora"],
)
def test_from_text_to_the_published_folder(encoder, tmp_path, more, capsys):
    results = dap.main(words(options(encoder, tmp_path, **more)))
    folder = tmp_path / "out" / "model"
    written = read_results(folder / "results.json")
    assert [row.value for row in written][: len(results)] == pytest.approx([row.value for row in results], abs=1e-5)
    assert {(row.dataset, row.direction) for row in results} == {
        ("sample", direction) for direction in ("zh->en", "en->zh", "vi->en", "en->vi")
    }
    assert [row.settings["stage"] for row in results] == ["before"] * 4 + ["after"] * 4
    assert all("paired" in row.settings for row in results[4:])
    door = SentenceTransformer(str(folder), device="cpu").encode(["你好", "xin chào"])
    model = DapModel.from_pretrained(folder)
    assert not any("lora" in name for name, _ in model.named_parameters())
    before = DapModel.from_pretrained(encoder)
    moved = [not torch.equal(a, b) for a, b in zip(model.parameters(), before.parameters())]
    assert any(moved)
    assert door.shape == (2, model.config.hidden_size)
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert "Dual-Alignment" in card
    assert "sample, zh-en" in card
    assert "after" in capsys.readouterr().out


def test_row_updates_leave_words_alone_that_no_batch_has(encoder, tmp_path):
    dap.main(words(options(encoder, tmp_path, row_updates=True, chunk_size=4, weight_decay=0.1, max_steps=1)))
    pair = [DapModel.from_pretrained(path).encoder for path in (encoder, tmp_path / "out" / "model")]
    before, after = (model.get_input_embeddings().weight for model in pair)
    changed = (before != after).any(1).float().mean()
    assert 0 < changed < 0.9
    assert not torch.equal(pair[0].encoder.layer[0].output.dense.weight, pair[1].encoder.layer[0].output.dense.weight)


def test_training_goes_on_from_a_published_folder(encoder, tmp_path):
    export(DapModel.from_pretrained(encoder), AutoTokenizer.from_pretrained(encoder), tmp_path / "out" / "model")
    again = options(tmp_path / "out" / "model", tmp_path / "second", max_steps=1)
    results = dap.main(words(again))
    assert results[0].model == "out/model"
    assert (tmp_path / "second" / "out" / "model" / "model.safetensors").exists()


def test_a_study_keeps_curves_and_what_later_tests_need(encoder, tmp_path, tmp_path_factory):
    folder = tmp_path_factory.mktemp("tatoeba")
    for lang in ("vie", "deu"):
        for side in (lang, "eng"):
            text = "".join(f"{side} sentence {i}\n" for i in range(9))
            (folder / f"{lang}-eng.{side}").write_text(text, encoding="utf-8")
    gold = folder / "gold.tsv"
    gold.write_text("你 好\thello you\t0-0 1-1\n" * 8, encoding="utf-8")
    more = {"tatoeba": str(folder), "gold": [f"zh-en={gold}", f"fr-en={gold}"], "dev_pairs": 5, "curve_pairs": 8}
    more |= {"eval_strategy": "steps", "eval_steps": 2, "eval_on_start": True}
    given = options(encoder, tmp_path, **more)
    entry = {"name": "tiny", "title": "Tiny", "method": "dap", "rows": [{"label": "TR", "set": {"objective": "tr"}}]}
    entry |= {"seeds": [3], "keep": True}
    path = tmp_path / "study.yaml"
    path.write_text(yaml.safe_dump({"study": entry} | given), encoding="utf-8")
    study.main(["--config", str(path), "--results_dir", str(tmp_path)])
    results = read_results(tmp_path / "tiny.json")
    curve = [row for row in results if row.settings["stage"] == "during"]
    assert {row.settings["step"] for row in curve} == {0, 2, 3}
    spent = [row.settings["train_cpu_s"] for row in curve if row.metric == "AER avg-trained"]
    after = [row for row in results if row.settings["stage"] == "after"]
    assert spent == sorted(spent)
    assert all(row.settings["train_cpu_s"] >= spent[-1] for row in after)
    metrics = {"P@1 avg-trained", "P@1 avg-untrained", "AER avg-trained", "AER avg-untrained"}
    assert {row.metric for row in curve if row.dataset != "sample"} == metrics
    assert {row.metric for row in after} == metrics | {"P@1", "P@1 avg", "AER"}
    thinned = next(row for row in curve if row.metric == "P@1 avg-trained")
    assert (thinned.n, thinned.dataset) == (8, "tatoeba, 8 pairs a language")
    assert {row.n for row in curve if row.metric.startswith("AER")} == {2}
    assert {row.n for row in after if row.metric == "P@1" and row.dataset == "tatoeba"} == {9}
    kept = tmp_path / "out" / "TR-3"
    assert DapModel.from_pretrained(kept / "model").config.hidden_size
    items = [row for row in read_results(kept / "results.json") if row.items]
    assert {"P@1", "AER", "P@1 avg-trained"} <= {row.metric for row in items}


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"objectiv": "tr"}, "unknown key 'objectiv' .* is 'objective'"),
        ({"objective": "rtl"}, "objective='rtl' is not one of tr, tr\\+rtl"),
        ({"chunk_size": 0}, "chunk_size=0"),
        ({"chunk_size": 3, "rtl_direction": "both"}, "must be even"),
        ({"lora": -1}, "lora=-1"),
        ({"objective": "tr+tlm"}, "TLM joins both sides, and the encoder has 40 positions"),
        ({"pairs": ["xx-en"]}, "xx"),
        ({"pairs": ["zh-vi", "vi-en"]}, "all must have the same target language"),
        ({"test_data": ["nowhere/{source}.tsv"]}, "nowhere"),
        ({"learning_rate": 1e30}, "step 2: the loss is nan. Lower learning_rate"),
    ],
)
def test_mistakes_are_one_line(encoder, tmp_path, more, message, refusal):
    assert re.search(message, refusal(lambda: dap.main(words(options(encoder, tmp_path, **more)))))
    assert not (tmp_path / "out" / "model").exists()
