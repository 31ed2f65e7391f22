"""Vectors kept by text: each is encoded once, whoever asks."""

import numpy as np
from stored_vectors import StoredVectors

from hfxling.encoders.protocol import Encoder


class Counts(Encoder):
    """Gives a text's length, and remembers what it was asked for."""

    dimension = 2

    def __init__(self, revision: str):
        super().__init__("counts", revision)
        self.asked = []

    def _vectors(self, texts, route, role, progress):
        self.asked += texts
        return np.array([[len(text), 1] for text in texts], np.float32)


def test_each_text_is_encoded_once(tmp_path):
    encoder = Counts("1")
    vectors = StoredVectors(encoder, tmp_path)
    assert vectors.of(["aaa", "b", "aaa"]).tolist() == [[3, 1], [1, 1], [3, 1]]
    assert vectors.of(["cc", "b"]).tolist() == [[2, 1], [1, 1]]
    assert encoder.asked == ["b", "aaa", "cc"]
    assert vectors.of([]).shape == (0, 2)
    again = Counts("1")
    assert StoredVectors(again, tmp_path).of(["b", "cc"]).tolist() == [[1, 1], [2, 1]]
    assert not again.asked
    other = Counts("2")
    StoredVectors(other, tmp_path).of(["b"])
    assert other.asked == ["b"], "another model has vectors of its own"
