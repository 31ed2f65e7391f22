from importlib import import_module
from types import SimpleNamespace

import numpy as np
import pytest

evaluate = import_module("hfxling.methods.lexical.evaluate")  # the package has a function of this name
WORDS = ("a", "b", "c", "tidak", "không")


def counted(model, texts, lang):
    """Known words of each text, counted."""
    return np.array([[text.split().count(word) for word in WORDS] for text in texts], float)


def links(source, target, languages):
    """Cosines of counted words; NaN where a text has no known one, as `LexicalModel.score` has it."""
    x, y = (counted(None, texts, lang) for texts, lang in zip((source, target), languages))
    with np.errstate(invalid="ignore"):
        return (x * y).sum(1) / np.sqrt((x * x).sum(1) * (y * y).sum(1))


@pytest.fixture
def wins(monkeypatch):
    """What `spoilt` finds of texts that translate themselves, by method, metric and direction."""
    monkeypatch.setattr(evaluate, "static_sentences", counted)

    def found(lines):
        rows = evaluate.spoilt(
            SimpleNamespace(score=links), (lines, lines), ("id", "vi"), {}, seed=0, dataset="x", split="test"
        )
        return {(row.settings["method"], row.metric, row.direction): row.value for row in rows}

    return found


def test_a_longer_copy_does_not_win_by_its_length(wins):
    found = wins(["a b c", "a b", "b c"])
    for direction in ("id->vi", "vi->id"):
        assert found["static, cosine", "negated copy wins", direction] == 0  # inner products would tie
        assert found["static, cosine", "shuffled copy wins", direction] == 100


def test_a_copy_that_lost_its_last_known_word_loses(wins):
    found = wins(["a x"] * 20)  # where "x" is dropped the copy ties, where "a" is, nothing known is left
    for direction in ("id->vi", "vi->id"):
        assert 0 < found["sparse, inner product", "dropped copy wins", direction] < 100
