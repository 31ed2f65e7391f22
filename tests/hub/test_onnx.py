"""Graphs of folders: equal to torch for any batch, through onnxruntime alone."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from methods import METHODS, TEXTS, tokens
from transformers import AutoTokenizer

from hfxling.hub import onnx
from hfxling.hub.onnx import INT8, MODEL, OUTPUT, TokenEncoder, check_packages, load_models, onnx_run, torch_run
from hfxling.models.stock import StockModel

onnxruntime = pytest.importorskip("onnxruntime")
VARIANT = {"layer": 1, "pooling": "last", "encoder": "xlm-roberta"}


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A folder, its model, its graphs, and the program that torch made of it, which takes seconds.

    A siamese model's graphs are compared in test_export.py.
    """
    method, scratch = METHODS["disentangler"], tmp_path_factory.mktemp("disentangler")
    model = method.build(scratch / "encoder", **VARIANT)
    method.write(model, scratch / "encoder", scratch / "model")
    (loaded,) = load_models(scratch / "model").values()
    programs, export = [], torch.onnx.export

    def watched(*args, **options):
        programs.append(export(*args, **options))
        return programs[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.onnx, "export", watched)
        onnx.write_onnx(loaded, scratch / MODEL)
    onnx.write_int8(scratch / MODEL, scratch / INT8)
    return scratch, model, programs[0]


def test_the_whole_pipeline_is_in_the_graph(written):
    folder, model, _ = written
    tokenizer = AutoTokenizer.from_pretrained(folder / "model")
    session = onnxruntime.InferenceSession(str(folder / MODEL))
    assert [each.name for each in session.get_inputs()] == ["input_ids", "attention_mask"]
    assert [each.name for each in session.get_outputs()] == [OUTPUT]
    for texts in (TEXTS, TEXTS[:1], [*TEXTS, "hello " * 40]):
        inputs = tokens(model, tokenizer, texts)
        with torch.inference_mode():
            expected = model(**inputs).sentence_embedding.numpy()
        (found,) = session.run(None, {name: value.numpy() for name, value in inputs.items()})
        np.testing.assert_allclose(found, expected, atol=1e-5)
        np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=1e-5)


def test_a_graph_names_no_folder_of_this_machine(written):
    folder, *_ = written
    for name in (MODEL, INT8):
        content = (folder / name).read_bytes()
        assert b".py" not in content
        assert bytes(Path(onnx.__file__).parents[2]) not in content


def test_texts_come_back_in_their_order_and_eight_bits_are_close(written):
    folder, model, _ = written
    texts = [TEXTS[2], TEXTS[1] * 9, TEXTS[0]]
    expected = TokenEncoder(torch_run(model), folder / "model")(texts)
    alone = [TokenEncoder(torch_run(model), folder / "model")([text])[0] for text in texts]
    np.testing.assert_allclose(expected, alone, atol=1e-6)
    np.testing.assert_allclose(TokenEncoder(onnx_run(folder / MODEL), folder / "model")(texts), expected, atol=1e-5)
    coarse = TokenEncoder(onnx_run(folder / INT8), folder / "model")(texts)
    assert (coarse * expected).sum(1).min() > 0.99
    assert np.abs(coarse - expected).max() > 1e-5
    assert (folder / INT8).stat().st_size < (folder / MODEL).stat().st_size


def test_a_prompt_stands_before_every_text(written):
    folder, model, _ = written
    encode = TokenEncoder(torch_run(model), folder / "model", "is it, ")
    plain = TokenEncoder(torch_run(model), folder / "model")
    np.testing.assert_allclose(encode(["rain"]), plain(["is it, rain"]), atol=1e-6)


def test_other_vectors_than_torch_are_refused_and_nothing_is_left(written, tmp_path, monkeypatch):
    _, model, program = written
    monkeypatch.setattr(torch.onnx, "export", lambda *args, **options: program)
    monkeypatch.setattr(onnx, "onnx_run", lambda path: lambda ids, mask: np.zeros((len(ids), 16), np.float32))
    with pytest.raises(ValueError, match="this encoder cannot be exported"):
        onnx.write_onnx(model, tmp_path / MODEL)
    assert list(tmp_path.iterdir()) == []


def test_weights_that_a_file_cannot_hold_lie_beside_it(written, tmp_path, monkeypatch):
    folder, model, program = written
    monkeypatch.setattr(torch.onnx, "export", lambda *args, **options: program)
    monkeypatch.setattr(onnx, "_LARGEST", 0)
    onnx.write_onnx(model, tmp_path / "onnx" / MODEL)
    assert {path.name for path in (tmp_path / "onnx").iterdir()} == {MODEL, f"{MODEL}.data"}
    (tmp_path / "onnx").rename(tmp_path / "elsewhere")
    found = TokenEncoder(onnx_run(tmp_path / "elsewhere" / MODEL), folder / "model")(TEXTS)
    np.testing.assert_allclose(found, TokenEncoder(torch_run(model), folder / "model")(TEXTS), atol=1e-5)


def test_a_model_that_treats_its_languages_differently_gives_one_a_language(tmp_path):
    method = METHODS["siamese"]
    model = method.build(tmp_path / "encoder", **method.variants["per language"])
    method.write(model, tmp_path / "encoder", tmp_path / "model")
    found = load_models(tmp_path / "model")
    assert [*found] == ["zh", "vi"]
    inputs = tokens(model, AutoTokenizer.from_pretrained(tmp_path / "model"), TEXTS)
    with torch.inference_mode():
        for lang, one in found.items():
            expected = model(**inputs, language=lang).sentence_embedding
            torch.testing.assert_close(one(**inputs).sentence_embedding, expected, atol=1e-6, rtol=0)


def test_folders_without_a_head_and_missing_packages(tiny_bert, tmp_path, monkeypatch):
    heads = ", ".join(name for name, method in METHODS.items() if issubclass(method.cls, StockModel))
    with pytest.raises(ValueError, match=rf"it is no encoder with a head of its own \({heads}\)"):
        load_models(tiny_bert)
    with pytest.raises(FileNotFoundError, match="no model there"):
        load_models(tmp_path)
    check_packages()
    monkeypatch.setattr(onnx, "find_spec", lambda name: None if name == "onnxscript" else sys)
    with pytest.raises(ValueError, match=r"ONNX needs onnxscript: pip install 'hfxling\[onnx\]'"):
        check_packages()
