"""Lists beside a long text: what is drawn, on which side it stands, and what is right."""

from types import SimpleNamespace

import numpy as np
import precision_list as benchmark
import pytest


class Numbered:
    """Vectors by a text's number, so that translations have the same."""

    def of(self, texts):
        vectors = []
        for text in texts:
            seed = int(text.split()[-1])
            vectors.append(np.random.default_rng(seed).normal(size=24))
        return np.array(vectors, np.float32)


@pytest.mark.parametrize("language", ["vi", "zh"])
def test_all_or_none_of_a_list_is_translated(language, monkeypatch):
    monkeypatch.setattr(benchmark, "LINES", 300)
    lines = {"zh": [f"zh {i}" for i in range(300)], "vi": [f"vi {i}" for i in range(300)]}
    others = [[f"{side} {1000 + i}" for i in range(900)] for side in ("zh", "vi")]
    monkeypatch.setattr(benchmark, "read_text", lambda *_: lines)
    monkeypatch.setattr(benchmark, "distractors", lambda *_: others)
    args = SimpleNamespace(data="", distractors=900, precisions=[0.9])
    text = benchmark.Text(language, Numbered(), args)
    truth, _, low, high, recall = text.measure(100, 1, seed=0)[0.9]
    assert (truth, recall) == (1, 1)
    assert low <= 1 <= high
    assert text.measure(100, 0, seed=0) == {0.9: []}
