"""Shard by shard the same as at once."""

import json

import numpy as np
import pytest
from scipy.sparse import csr_array

from hfxling.sentences import blocks
from hfxling.sentences.blocks import both_ways
from hfxling.sentences.shards import clear, search


def vectors(count, seed, d=12):
    return np.random.default_rng(seed).standard_normal((count, d))


SOURCE, TARGET = vectors(40, 0), vectors(30, 1)


@pytest.mark.parametrize(("shard", "number"), [(1, 10), (7, 6), (39, 2), (1000, 1)])  # 4 rows at least
def test_the_same_as_at_once(tmp_path, shard, number):
    done = []
    found = search([SOURCE], [TARGET], 4, tmp_path, {}, shard=shard, done=done.append)
    assert sum(done) == 40 * 30
    assert len([*tmp_path.glob("forward_*.parquet")]) == number
    for side, expected in zip(found, both_ways(SOURCE, TARGET, 4)):
        np.testing.assert_array_equal(side.rows, expected.rows)
        np.testing.assert_allclose(side.scores, expected.scores, atol=1e-9)


def test_several_parts(tmp_path):
    parts = [[x, csr_array(x * 2)] for x in (SOURCE, TARGET)]
    found = search(*parts, 3, tmp_path, {}, shard=20)
    for side, expected in zip(found, both_ways(*parts, 3)):
        np.testing.assert_array_equal(side.rows, expected.rows)


def test_shards_that_are_there_are_not_searched_again(tmp_path, monkeypatch):
    first = search([SOURCE], [TARGET], 4, tmp_path, {"text": "a"}, shard=15)
    monkeypatch.setattr(blocks, "both_ways", None)
    again = search([SOURCE], [TARGET], 4, tmp_path, {"text": "a"}, shard=15)
    np.testing.assert_array_equal(first[1].rows, again[1].rows)
    clear(tmp_path)
    assert not tmp_path.exists()


@pytest.mark.parametrize(("change", "named"), [({"text": "b"}, "text"), ({"k": 3}, "k"), ({"shard": 20}, "shard")])
def test_another_search_is_refused(tmp_path, change, named):
    search([SOURCE], [TARGET], 4, tmp_path, {"text": "a"}, shard=15)
    before = json.loads((tmp_path / "key.json").read_text(encoding="utf-8"))
    options = {"text": "a", "k": 4, "shard": 15} | change
    with pytest.raises(ValueError, match=f"another {named};"):
        search([SOURCE], [TARGET], options["k"], tmp_path, {"text": options["text"]}, shard=options["shard"])
    assert json.loads((tmp_path / "key.json").read_text(encoding="utf-8")) == before


@pytest.mark.parametrize("content", [b"", b"\x00" * 50, "cut", "other"])
@pytest.mark.parametrize("name", ["key.json", "forward_0.parquet", "backward_0.parquet"])
def test_damaged_files_are_named(tmp_path, name, content):
    search([SOURCE], [TARGET], 4, tmp_path, {"text": "a"}, shard=15)
    path = tmp_path / name
    path.write_bytes({"cut": path.read_bytes()[:-9], "other": b"[1, 2]"}.get(content, content))
    with pytest.raises(ValueError, match=f"{name} is damaged .*remove the folder") as told:
        search([SOURCE], [TARGET], 4, tmp_path, {"text": "a"}, shard=15)
    assert "\n" not in str(told.value)
