"""What goes into every encoder and comes out of it."""

import json

import numpy as np
import pytest

from hfxling.encoders.identity import training_text
from hfxling.encoders.protocol import Encoder


class Letters(Encoder):
    """An encoder with a part for zh and one for vi: a text's length, or NaN for "?"."""

    def __init__(self, languages=("zh", "vi"), **prompts):
        super().__init__("letters", "1", languages, **prompts)

    def _vectors(self, texts, route, role, progress):
        prompt = self.prompt_of(role) or ""
        return np.array([[np.nan if text == "?" else len(prompt + text)] for text in texts], np.float32)


def test_parts_by_language_or_else_by_role():
    encoder = Letters()
    assert [encoder.route("vi", "query"), encoder.route(None, "query"), encoder.route(None, "document")] == [
        "vi",
        "zh",
        "vi",
    ]
    assert Letters(()).route("th") is None
    with pytest.raises(ValueError, match="letters has parts for zh, vi and none for th"):
        encoder.encode(["a"], "th")
    with pytest.raises(ValueError, match="letters has parts for zh, vi; say which"):
        encoder.encode(["a"])


def test_a_prompt_for_all_or_for_a_role():
    encoder = Letters((), prompt="12", document_prompt="")
    assert [encoder.encode(["a"], None, role)[0, 0] for role in (None, "query", "document")] == [3, 3, 1]


def test_texts_and_vectors_are_looked_at():
    encoder = Letters(())
    with pytest.raises(ValueError, match=r"text 2, 'aaa.*, has 1,000,001 letters; give texts of at most 1,000,000"):
        encoder.encode(["a", "a" * 1_000_001])
    with pytest.raises(ValueError, match=r"text 1, .* is not UTF-8"):
        encoder.encode([b"\xff".decode("utf-8", "surrogateescape")])
    with pytest.raises(ValueError, match="letters gives vectors with NaN"):
        encoder.encode(["a", "?"])


def test_what_a_folder_says_it_learnt_from(tmp_path):
    record = tmp_path / "results.json"
    assert training_text(str(tmp_path)) == set()
    for content in ("[]", "null", '{"card": 3}', "{", "[" * 100_000):
        record.write_text(content, encoding="utf-8")
        assert training_text(str(tmp_path)) == set()
    record.write_text(json.dumps({"card": {"train_data": [{"name": "x", "revision": "abc"}]}}), encoding="utf-8")
    assert training_text(str(tmp_path)) == {"abc"}
    assert training_text("letters in memory") == set()
