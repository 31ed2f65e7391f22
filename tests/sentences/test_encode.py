"""Text in, vectors out: those of sentence-transformers or of a layer, whole or not at all, resumed after a kill."""

import gzip
import os
from pathlib import Path

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer
from tiny_models import save_routed, save_tiny

import hfxling
from hfxling.cli import main
from hfxling.encoders.dense import SentenceEncoder
from hfxling.encoders.frozen import FrozenEncoder

LINES = ["我爱吃苹果", "hello, world", "", "今天下雨", "hello, world", "a much longer sentence than these"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    save_tiny("bert", folder / "plain")
    save_routed(folder / "plain", folder / "routed")
    return folder


@pytest.fixture
def text(tmp_path) -> Path:
    path = tmp_path / "text.zh"
    path.write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    return path


def run(text: Path, folder: Path, **options) -> np.ndarray:
    """Vectors of the text, which are written beside it."""
    output = options.pop("output", text.with_name("text.npy"))
    (vectors,) = hfxling.encode(text, model=folder / "plain", output=output, **options).vectors
    return vectors


def test_vectors_are_those_of_sentence_transformers(folder, text, tmp_path):
    found = run(text, folder, output=tmp_path / "out/vectors.npy")
    expected = SentenceTransformer(str(folder / "plain")).encode(LINES)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["vectors.npy"]


def test_some_lines_of_a_file(folder, text):
    (found,) = hfxling.encode(f"{text}@2-3", model=folder / "plain").vectors
    np.testing.assert_allclose(found, SentenceTransformer(str(folder / "plain")).encode(LINES[1:3]), atol=1e-6)


def test_several_files_each_with_its_language(folder, text, tmp_path, capfd):
    packed = tmp_path / "text.vi.gz"
    packed.write_bytes(gzip.compress("tôi ăn táo\nbạn\n".encode()))
    outputs = [str(tmp_path / "zh.npy"), str(tmp_path / "vi.npy")]
    files = [str(text), str(packed), "--model", str(folder / "routed")]
    main(["encode", *files, "--language", "zh", "vi", "--output", *outputs])
    assert capfd.readouterr().out == ""
    first, second = map(np.load, outputs)
    model = SentenceTransformer(str(folder / "routed"))
    np.testing.assert_allclose(first, model.encode(LINES, task="zh"), atol=1e-6)
    np.testing.assert_allclose(second, model.encode(["tôi ăn táo", "bạn"], task="vi"), atol=1e-6)
    assert not np.allclose(first, model.encode(LINES, task="vi"), atol=1e-3)
    assert {path.name for path in tmp_path.iterdir()} == {"text.zh", "zh.npy", "text.vi.gz", "vi.npy"}


@pytest.mark.parametrize(("layer", "index"), [("2", 2), ("last", None), ("all", "all")])
def test_a_layer_of_a_frozen_encoder(folder, text, tmp_path, layer, index):
    found = run(text, folder, layer=layer, pooling="cls")
    expected = FrozenEncoder(str(folder / "plain"), [(index, "cls")])(LINES)[:, 0]
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_standard_input(folder, tmp_path, capfd):
    (tmp_path / "lines").write_text("hello\n你好\n", encoding="utf-8")
    kept = os.dup(0)
    with open(tmp_path / "lines") as lines:
        os.dup2(lines.fileno(), 0)
    try:
        main(["encode", "-", "--model", str(folder / "plain"), "--output", str(tmp_path / "v.npy")])
    finally:
        os.dup2(kept, 0)
        os.close(kept)
    said = capfd.readouterr()
    assert said.out == ""
    assert "2 x 16: " in said.err
    expected = SentenceTransformer(str(folder / "plain")).encode(["hello", "你好"])
    np.testing.assert_allclose(np.load(tmp_path / "v.npy"), expected, atol=1e-6)


def test_a_stopped_run_goes_on_and_leaves_nothing_under_the_final_name(folder, text, tmp_path, monkeypatch):
    monkeypatch.setattr("hfxling.data.features.CHUNK", 2)
    asked: list[str] = []
    whole = SentenceEncoder.encode

    def stops(self, texts, *args, **kwargs):
        if len(asked) == 2:
            raise KeyboardInterrupt
        asked.extend(texts)
        return whole(self, texts, *args, **kwargs)

    monkeypatch.setattr(SentenceEncoder, "encode", stops)
    with pytest.raises(KeyboardInterrupt):
        run(text, folder)
    assert not (tmp_path / "text.npy").exists()
    again: list[str] = []
    monkeypatch.setattr(
        SentenceEncoder, "encode", lambda self, texts, *a, **k: again.extend(texts) or whole(self, texts, *a, **k)
    )
    found = run(text, folder)
    assert not {*asked} & {*again}
    assert sorted(asked + again) == sorted({*LINES}), "every distinct line once"
    monkeypatch.undo()
    np.testing.assert_allclose(found, SentenceTransformer(str(folder / "plain")).encode(LINES), atol=1e-6)
    assert {path.name for path in tmp_path.iterdir()} == {"text.zh", "text.npy"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"language": ["vi", "zh"]}, "2 languages for 1 text"),
        ({"output": ["a.npy", "b.npy"]}, "1 text(s), 2 output(s)"),
        ({"output": "a.bin"}, "output='a.bin': vectors are written as .npy"),
        ({"pooling": "cls"}, "pooling needs a layer"),
        ({"layer": "first"}, "layer='first': give a number"),
        ({"layer": "9"}, "layer=9 is "),
        ({"layer": "1", "language": "vi"}, "takes no language"),
        ({"batch_size": 0}, "batch_size=0"),
    ],
)
def test_mistakes(folder, text, options, message):
    with pytest.raises(ValueError) as error:
        hfxling.encode(text, model=folder / "plain", **options)
    assert message in str(error.value)
    assert [path.name for path in text.parent.iterdir()] == [text.name]


def test_no_text_that_is_read_is_written_over(folder, text, tmp_path):
    texts = [tmp_path / "a.npy", tmp_path / "b.npy"]
    for path in texts:
        path.write_text(text.read_text())
    for output in (texts[::-1], [tmp_path / "c.npy", texts[0]]):
        with pytest.raises(ValueError, match="is read, too"):
            hfxling.encode(*texts, model=folder / "plain", output=output)
    assert [path.read_text() for path in texts] == [text.read_text()] * 2


def test_text_and_language_that_are_not_there(folder, text, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"none\.txt: no such file"):
        hfxling.encode(tmp_path / "none.txt", model=folder / "plain")
    (tmp_path / "empty").touch()
    with pytest.raises(ValueError, match="no line in it"):
        hfxling.encode(tmp_path / "empty", model=folder / "plain")
    with pytest.raises(ValueError, match="routed has parts for zh, vi; say which: give --language zh"):
        hfxling.encode(text, model=folder / "routed")
    with pytest.raises(ValueError, match="routed has parts for zh, vi and none for th"):
        hfxling.encode(text, model=folder / "routed", language="th")


def test_texts_and_a_model_in_memory(folder):
    model = SentenceTransformer(str(folder / "plain"))
    first, second = hfxling.encode(LINES, ["hello"], model=model).vectors
    np.testing.assert_allclose(first, model.encode(LINES), atol=1e-6)
    np.testing.assert_allclose(second, model.encode(["hello"]), atol=1e-6)
    text = hfxling.encode(LINES, model=model).to_text()
    np.testing.assert_allclose([[*map(float, line.split("\t"))] for line in text.splitlines()], first, atol=1e-5)


def test_vectors_without_numbers_are_refused(folder, tmp_path, monkeypatch, refusal):
    monkeypatch.setattr(SentenceEncoder, "_vectors", lambda self, texts, *rest: np.full((len(texts), 16), np.nan))
    assert "NaN" in refusal(lambda: hfxling.encode(["a"], model=folder / "plain"))
    assert "NaN" in refusal(lambda: hfxling.encode(["a"], model=folder / "plain", output=tmp_path / "a.npy"))
    assert not (tmp_path / "a.npy").exists()
