"""The test of `hfxling fit`, from a record; what it gives is tested in tests/selection/test_select.py."""

import pytest
from builders import sentence_pairs

from hfxling.data.corpus import Corpus
from hfxling.methods import tested

PAIRS = sentence_pairs(12)
SIDES = [[pair[side] for pair in PAIRS] for side in (0, 1)]


@pytest.fixture
def corpus():
    """Text of which two pairs are in the test text."""
    return Corpus.in_memory({("zh", "vi"): SIDES})


@pytest.fixture
def source(tmp_path):
    """Where the test text lies."""
    path = tmp_path / "test.tsv"
    path.write_text("".join(f"{pair[0]}\t{pair[1]}\n" for pair in PAIRS[:2]), encoding="utf-8")
    return str(path)


def test_links_that_were_tested_with_another_model_lose_the_pairs_of_the_test_text(corpus, source, tmp_path):
    record = {"card": {}, "test": {"source": source, "kind": None, "encoder": {}}}
    assert tested.tested_again(record, tmp_path, corpus, seed=42, device="cpu", trust_remote_code=False) == []
    assert (corpus.pairs[0].leaks, len(corpus.pairs[0].train)) == (2, 10)


def test_a_record_cannot_say_how_its_encoder_is_loaded(corpus, source, tmp_path, monkeypatch):
    given = []

    def load(*folders, **options):
        given.append(options)
        raise FileNotFoundError

    monkeypatch.setattr(tested, "load_encoder", load)
    encoder = {"model": "org/any", "revision": None, "prompt": None, "trust_remote_code": True}
    record = {"card": {}, "test": {"source": source, "kind": "head", "encoder": encoder}}
    assert tested.tested_again(record, tmp_path, corpus, seed=42, device="cpu", trust_remote_code=False) == []
    assert given == [
        {"model": "org/any", "revision": None, "prompt": None, "trust_remote_code": False, "device": "cpu"}
    ]


def test_without_a_test_nothing_is_measured(corpus, tmp_path):
    assert tested.tested_again({}, tmp_path, corpus, seed=42, device="cpu", trust_remote_code=False) == []
    record = {"test": {"source": None, "kind": "static", "encoder": {}}}
    assert tested.tested_again(record, tmp_path, corpus, seed=42, device="cpu", trust_remote_code=False) == []
    assert len(corpus.pairs[0].train) == 12
