"""From lines to links, on words and segments, whatever the batch."""

import random
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from tiny_models import tiny_aligner

from hfxling.data.segment import learn_vocabularies
from hfxling.words.aligner import Aligner, words
from hfxling.words.links import METHODS

SOURCE = ["dog eats rice", "a cat sees the dog", "", "rice", "the cat eats a lot of rice today", "unknownword dog"]
TARGET = ["狗吃饭", "猫看见狗", "空", "", "今天 猫 吃 很多 饭", "狗"]


@pytest.fixture(scope="module")
def vocabularies():
    return learn_vocabularies({"en": SOURCE, "zh": TARGET}, segmenters={"en": "words"}, pieces=100)


@pytest.fixture(scope="module")
def model(vocabularies):
    model = tiny_aligner(vocabularies, dropout=0.0)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.7)
    return model


def aligner(model, vocabularies, **kwargs) -> Aligner:
    return Aligner(model, vocabularies, ("en", "zh"), **kwargs)


@pytest.mark.parametrize("units", ["words", "segments"])
@pytest.mark.parametrize("method", [method for method in METHODS if method != "probability"])
def test_links_do_not_depend_on_the_batch(model, vocabularies, units, method):
    align = aligner(model, vocabularies, units=units, method=method)
    together = list(align(SOURCE, TARGET))
    alone = list(align(SOURCE, TARGET, batch_size=1))
    single = [next(align([s], [t])) for s, t in zip(SOURCE, TARGET)]
    pairs = list(align(SOURCE * 3, TARGET * 3, batch_size=4))
    assert [row.links for row in together] == [row.links for row in alone] == [row.links for row in single]
    assert [row.links for row in pairs] == 3 * [row.links for row in together]
    for a, b in zip(together, single):
        assert np.allclose(a.soft.forward, b.soft.forward, atol=1e-5)
        assert np.allclose(a.soft.backward, b.soft.backward, atol=1e-5)
    assert any(row.links for row in together)


def test_empty_sides_have_no_links_and_units_slice_back(model, vocabularies):
    for units in ("words", "segments"):
        rows = list(aligner(model, vocabularies, units=units, method="union")(SOURCE, TARGET))
        assert rows[2].links == rows[3].links == []
        for row, source, target in zip(rows, SOURCE, TARGET):
            assert [source[a:b] for _, a, b in row.source] == [span.text for span in row.source]
            assert [target[a:b] for _, a, b in row.target] == [span.text for span in row.target]
            assert all(i < len(row.source) and j < len(row.target) for i, j in row.links)


class FixedModel:
    """Attention that is given, so that what becomes of it can be told."""

    device = torch.device("cpu")

    def __init__(self, target_to_source, source_to_target):
        self.tables = [torch.tensor(x, dtype=torch.float32)[None] for x in (target_to_source, source_to_target)]

    def align_states(self, source, target, languages, prior=None):
        vectors = [torch.ones(*side["mask"].shape, 2) for side in (source, target)]
        return SimpleNamespace(
            target_to_source=self.tables[0],
            source_to_target=self.tables[1],
            source_contextual=vectors[0],
            target_contextual=vectors[1],
        )


def test_segments_of_a_word_look_together_and_are_looked_at_together(vocabularies):
    """Source "dog rice", target words 狗吃 饭 of three segments."""
    to_source = [[1.0, 0.0], [0.4, 0.6], [0.3, 0.7]]
    to_target = [[0.5, 0.3, 0.2], [0.1, 0.2, 0.7]]
    align = aligner(FixedModel(to_source, to_target), vocabularies, method="grow-diag-final-and")
    row = next(align(["dog rice"], ["狗吃 饭"]))
    assert np.allclose(row.soft.forward[0], [[0.7, 0.3], [0.3, 0.7]])
    assert np.allclose(row.soft.backward[0], [[0.8, 0.2], [0.3, 0.7]])
    assert row.links == [(0, 0), (1, 1)]


def test_fuzzed_lines_align_without_an_error(model, vocabularies):
    draw = random.Random(2)
    pool = [*"dog cat rice \t\u200b\u3000\u0301狗猫饭👩\u200d👧ﷺ\ufeff'´", "ນ້ຳ", "<pad>", "\x1c"]
    lines = [["".join(draw.choices(pool, k=draw.randrange(30))) for _ in range(400)] for _ in range(2)]
    for row, source, target in zip(aligner(model, vocabularies)(*lines), *lines):
        assert [span.text for span in row.source] == source.split()
        assert [span.text for span in row.target] == target.split()
        assert all(i < len(row.source) and j < len(row.target) for i, j in row.links)


def test_a_very_long_sentence_is_aligned(model, vocabularies):
    row = next(aligner(model, vocabularies)(["dog eats rice " * 150], ["狗吃饭" * 150]))
    assert len(row.source) == 450
    assert len(row.target) == 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m, v: aligner(m, v, units="letters"), "units='letters' is not one of words, segments"),
        (lambda m, v: aligner(m, v, method="best"), "method='best' is not one of probability"),
        (lambda m, v: Aligner(m, v, ("en", "lo")), "language 'lo' is none of the model's: en, zh"),
        (lambda m, v: next(aligner(m, v)(["a"], [])), "1 source and 0 target lines"),
    ],
)
def test_mistakes(model, vocabularies, call, message):
    with pytest.raises(ValueError, match=message):
        call(model, vocabularies)


def test_words_are_those_of_str_split():
    line = "\u3000a  b\u00a0c\td\u200be "
    assert [word.text for word in words(line)] == line.split()
    assert all(line[word.start : word.end] == word.text for word in words(line))
