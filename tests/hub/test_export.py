"""Graphs beside the weights, and what they cost."""

import json
import shutil

import numpy as np
import pytest
from builders import command_line, sentence_pairs
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer

import hfxling
from hfxling.cli import main
from hfxling.evaluation.results import read_results
from hfxling.files import alone_in
from hfxling.hub.onnx import TokenEncoder, onnx_run
from recipes import siamese

pytest.importorskip("onnxscript")

TEXTS = ["我爱吃苹果", "今天下雨", "你好"]


@pytest.fixture
def folder(request, tiny_bert, small_sample, tmp_path):
    """A recipe's folder on the embedded corpus."""
    fit, layer = request.param
    options = {"base_model": tiny_bert, "pairs": "zh-vi", "train_data": "sample", "layer": layer, "fit": fit}
    options |= {"max_train_pairs": 60, "cache_dir": tmp_path / "cache", "normalize_input": False}
    options |= {"use_cpu": True, "disable_tqdm": True}
    siamese.main(command_line(options | {"output_dir": tmp_path}))
    return tmp_path / "model"


@pytest.mark.slow
@pytest.mark.parametrize("folder", [("discriminant", 1)], indirect=True)
def test_a_graph_and_one_of_eight_bits_are_written_measured_and_told(folder, capsys, monkeypatch):
    before = read_results(folder / "results.json")
    files = [folder.parent / "some.zh", folder.parent / "some.vi"]
    for file, texts in zip(files, zip(*sentence_pairs(40))):
        file.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    pairs = {"source": files[0], "target": files[1]}
    exported = hfxling.export(folder, int8=True, **pairs, languages=("zh", "vi"))
    figures = exported.figures
    assert [*figures] == ["torch", "onnx", "onnx int8"]
    assert figures["onnx int8"]["megabytes"] <= figures["onnx"]["megabytes"]
    assert figures["onnx"]["megabytes"] == round((folder / "onnx" / "model.onnx").stat().st_size / 1e6, 1)
    kept = exported.is_int8_kept
    assert kept == ("they are not kept" not in exported.table())
    assert exported.files == [folder / "onnx" / name for name in ["model.onnx"] + ["model_int8.onnx"] * kept]
    assert "zh->vi" in exported.table().splitlines()[0]
    names = {path.name for path in (folder / "onnx").iterdir()}
    assert names == {"model.onnx"} | ({"model_int8.onnx"} if kept else set())
    assert not list(folder.glob(".onnx*"))
    expected = SentenceTransformer(str(folder), device="cpu").encode(TEXTS)
    found = TokenEncoder(onnx_run(folder / "onnx" / "model.onnx"), folder)(TEXTS)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    rows = read_results(folder / "results.json")
    assert rows[: len(before)] == before
    forms = ["torch", "onnx"] + ["onnx int8"] * kept
    assert [(row.settings["runtime"], row.direction) for row in rows[len(before) :]] == [
        (form, way) for form in forms for way in ("zh->vi", "vi->zh")
    ]
    assert all(
        row.n == 40 and ("paired" in row.settings) == (row.settings["runtime"] != "torch")
        for row in rows[len(before) :]
    )
    content = json.loads((folder / "results.json").read_text())
    assert content["runtimes"]["onnx"]["change"]["difference"] == 0
    assert content["reached"]["fit"] == "discriminant"
    assert "runtime onnx" in (folder / "README.md").read_text()

    # once more, with the graph as it is, and eight bits lose too much: the earlier copy goes, and so do its rows
    shutil.copy(folder / "onnx" / "model.onnx", folder.parent)
    monkeypatch.setattr("hfxling.hub.onnx.write_onnx", lambda _, path: shutil.copy(folder.parent / "model.onnx", path))
    monkeypatch.setattr("hfxling.hub.export.MOST_LOST", -200.0)
    main(["export", str(folder), "--int8", "--source", str(files[0]), "--target", str(files[1])])
    assert "they are not kept" in capsys.readouterr().out
    assert {path.name for path in (folder / "onnx").iterdir()} == {"model.onnx"}
    again = read_results(folder / "results.json")
    assert [row.settings["runtime"] for row in again[len(before) :]] == ["torch"] * 2 + ["onnx"] * 2

    # and without pairs: what was measured is not of this graph, what was written by hand stays
    card = (folder / "README.md").read_text()
    (folder / "README.md").write_text(card.replace("## Limits", "Written by hand.\n\n## Limits"))
    hfxling.export(folder)
    assert read_results(folder / "results.json") == before
    assert "runtimes" not in json.loads((folder / "results.json").read_text())
    card = (folder / "README.md").read_text()
    assert "from fastembed import TextEmbedding" in card
    assert "Written by hand.\n\n## Limits" in card
    assert "runtime" not in card
    assert hfxling.verify(folder, files_only=True).faults == []


@pytest.mark.slow
@pytest.mark.parametrize("folder", [("cca", 0)], indirect=True)
def test_a_graph_a_language_lies_where_its_branch_is(folder):
    with alone_in(folder, "model"), pytest.raises(ValueError, match="another run writes there"):
        hfxling.export(folder)
    assert not list(folder.rglob("*.onnx"))
    (folder / ".onnx.dead.hfxling-scratch").mkdir()
    assert hfxling.export(folder).figures == {}
    assert not list(folder.glob(".onnx*")), "what a killed run left is gone"
    assert hfxling.verify(folder, files_only=True).faults == [], (
        "the record knows of the graphs, so the folder can be published"
    )
    model = SentenceTransformer(str(folder), device="cpu")
    for lang in ("zh", "vi"):
        found = TokenEncoder(onnx_run(folder / lang / "onnx" / "model.onnx"), folder)(TEXTS)
        np.testing.assert_allclose(found, model.encode(TEXTS, task=lang), atol=1e-5)
        weights = load_file(folder / lang / "2_Dense" / "model.safetensors")
        assert weights.keys() == {"linear.weight", "linear.bias"}
    assert not (folder / "onnx").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"int8": True}, "int8 needs sentence pairs"),
        ({"target": "a"}, "target without source"),
        ({"source": "sample", "languages": ("zh",)}, "give the codes of two languages"),
    ],
)
def test_what_is_refused(options, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        hfxling.export(tmp_path, **options)


def test_no_model_there(tmp_path):
    with pytest.raises(FileNotFoundError, match="no model there"):
        hfxling.export(tmp_path)
