"""Vectors of a disentangler's text: given in files, or from an encoder with a prompt."""

import numpy as np
import pytest
import torch
from tiny_models import tiny_tokenizer

from hfxling.methods.disentangler.arguments import DisentanglerArguments
from hfxling.methods.disentangler.data import prepare
from hfxling.models import DisentanglerModel


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """Training and test text with vectors for it."""
    folder, rng = tmp_path_factory.mktemp("text"), np.random.default_rng(0)
    words = ["".join(rng.choice(list("abcdefghij"), 12)) for _ in range(60)]
    train = [*(f"{word}\t{word[::-1]}" for word in words[:40]), f"{words[0]}\t{words[0][::-1]}", f"{words[50]}\tx"]
    folder.joinpath("train.tsv").write_text("\n".join(train) + "\n")
    rows = [f"{word}\t{word[::-1]}\t{i}" for i, word in enumerate(words[45:])]
    folder.joinpath("en-de.test20.tsv").write_text("source\ttarget\tz_mean\n" + "\n".join(rows) + "\n")
    for name, count in (("train", 42), ("test", 15), ("short", 3)):
        for side in ("source", "target"):
            np.save(folder / f"{name}.{side}.npy", rng.standard_normal((count, 5)).astype(np.float32))
    return folder


def with_vectors(text, train="train", test="test", **options):
    def entry(name):
        return [f"en-de={text}/{name}.source.npy+{text}/{name}.target.npy"]

    settings = {"pairs": ["en-de"], "train_data": [f"{text}/train.tsv"], "qe": str(text)}
    settings |= {"train_vectors": entry(train), "test_vectors": entry(test)} | options
    return prepare([DisentanglerArguments(**settings)])


def test_given_vectors_follow_what_was_dropped(text):
    data = with_vectors(text)
    kept = [*range(40)]  # row 40 repeats row 0, row 41 is a test sentence
    assert data.corpus.pairs[0].train["row"] == kept
    np.testing.assert_array_equal(data.train[0][1], np.load(text / "train.target.npy")[kept])
    np.testing.assert_array_equal(data.scored[0][0], np.load(text / "test.source.npy"))
    assert (data.kind, data.model, data.vectors[0].train[0].shape[1]) == ("encoder", "vectors", 5)
    assert with_vectors(text, encoder_kind="llm").kind == "llm"


def test_too_few_pairs_are_refused_before_vectors_are_read(text):
    with pytest.raises(ValueError, match="pair en-de: 3 of 3 training pairs are left, and at least 4 are needed"):
        with_vectors(text, train="nowhere", train_data=[f"{text}/train.tsv@1-3"])


def test_bad_vectors_are_refused_with_their_rows(text):
    with pytest.raises(ValueError, match=r"short\.source\.npy: 3 vectors for 42 texts"):
        with_vectors(text, train="short")
    broken = np.load(text / "train.source.npy")
    broken[2], broken[7] = np.nan, 0
    np.save(text / "broken.source.npy", broken)
    np.save(text / "broken.target.npy", broken)
    with pytest.raises(ValueError, match="NaN, infinite, all-zero or tiny vectors in rows 3, 8"):
        with_vectors(text, train="broken")
    for side in ("source", "target"):
        np.save(text / f"wide.{side}.npy", np.ones((15, 6), np.float32))
    with pytest.raises(ValueError, match=r"different widths \[5, 6\]"):
        with_vectors(text, test="wide")
    with pytest.raises(ValueError, match="train_vectors: no entry en-de=SOURCE_FILE"):
        with_vectors(text, train_vectors=["de-en=a+b"])


def test_the_encoder_sees_the_prompt(text, tiny_bert, tmp_path):
    def encoded(**options):
        settings = {"pairs": ["en-de"], "train_data": [f"{text}/train.tsv"], "qe": str(text)}
        settings |= {"base_model": str(tiny_bert), "cache_dir": str(tmp_path), "pooling": "mean"}
        return prepare([DisentanglerArguments(**(settings | options))])

    plain, prompted = encoded(), encoded(prompt="find: ")
    model = DisentanglerModel.from_encoder(str(tiny_bert), pooling="mean")
    for data, prompt in ((plain, ""), (prompted, "find: ")):
        batch = tiny_tokenizer()([prompt + data.corpus.scored[0].source[0]], return_tensors="pt")
        with torch.inference_mode():
            expected = model.head.prepare(model(batch["input_ids"], batch["attention_mask"]).pooled)
        found = model.head.prepare(torch.from_numpy(np.array(data.scored[0][0][:1])))
        assert torch.allclose(found, expected, atol=1e-5)
    assert plain.kind == "encoder"
    assert encoded(pooling="last").kind == "llm"
    assert "en 0.0% unknown" in plain.corpus.coverage
