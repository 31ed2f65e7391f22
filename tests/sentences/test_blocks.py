"""Neighbours of both sides in one pass against those of all scores in float64."""

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array, random_array

from hfxling.sentences import blocks as module
from hfxling.sentences.blocks import both_ways
from hfxling.sentences.neighbours import TIE, best_first, bytes_of, unit


def vectors(count, seed, d=24):
    return np.random.default_rng(seed).standard_normal((count, d), dtype=np.float32)


def whole(x):
    """Few distinct vectors: many ties."""
    x = np.round(x[:, :5])
    x[~x.any(axis=1)] = 1
    return x


def by_definition(queries, candidates, k, method):
    if method == "cosine":
        scores = unit(queries).astype(np.float64) @ unit(candidates).astype(np.float64).T
    else:
        scores = (queries.astype(np.float64) @ candidates.astype(np.float64).T).toarray()
    return best_first(np.broadcast_to(np.arange(scores.shape[1]), scores.shape), scores, k, TIE[method])


def assert_same(found, source, target, k, method="cosine"):
    wanted = by_definition(source, target, k, method), by_definition(target, source, k, method)
    for side, (rows, scores) in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(side.rows, rows)
        np.testing.assert_allclose(side.scores, scores, atol=1e-6)


CASES = {
    "random": (vectors(700, 0), vectors(611, 1)),
    "far from the origin": (vectors(700, 0) + 3, vectors(611, 1) + 3),
    "ties": (whole(vectors(700, 0)), whole(vectors(611, 1))),
    "all alike": (np.ones((300, 8), np.float32), np.ones((400, 8), np.float32)),
    "lengths of their own": (vectors(300, 2) * np.arange(1, 301)[:, None], vectors(280, 3)),
    "few": (vectors(5, 4), vectors(4, 5)),
    "one small side": (vectors(700, 6), vectors(4, 7)),
}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("case", CASES)
def test_the_same_as_one_side_after_the_other(case, dtype, monkeypatch):
    assert_same(both_ways(*CASES[case], 4, dtype=dtype), *CASES[case], 4)
    monkeypatch.setattr(module, "_LARGEST", 64)  # many blocks, the last ones not full
    assert_same(both_ways(*CASES[case], 4, dtype=dtype), *CASES[case], 4)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("case", CASES)
def test_the_same_by_vectors_that_lie_on_the_device(case, dtype, monkeypatch):
    """As on a GPU that holds both sides."""
    monkeypatch.setattr(module, "_PAIRS_ON_GPU", 100)
    sides = []
    for side, name in zip(CASES[case], ("source", "target")):
        sides.append(module.Side(side, name, "cpu"))
        sides[-1].load()
    found = module.search_blocks(*sides, 4, 64, getattr(torch, dtype))
    assert_same(found, *CASES[case], 4)


def test_vectors_on_disk_are_read_block_by_block(tmp_path):
    for name, side in zip("ab", CASES["random"]):
        np.save(tmp_path / f"{name}.npy", side)
    mapped = [np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in "ab"]
    assert_same(both_ways(*mapped, 3), *CASES["random"], 3)


def sparse(count, seed):
    drawn = random_array((count, 200), density=0.1, rng=np.random.default_rng(seed), dtype=np.float32)
    return csr_array(drawn - drawn.power(2) * 2)  # of either sign


@pytest.mark.parametrize("size", [32, 4096])
def test_sparse_vectors_by_inner_product(size, monkeypatch):
    monkeypatch.setattr(module, "_LARGEST", size)
    source, target = sparse(150, 0), sparse(170, 1)
    assert_same(both_ways(source, target, 4), source, target, 4, "dot")


def test_long_vectors_that_float32_cannot_tell_apart():
    """Scores near 0 of vectors of length 10,000: what float32 leaves open hangs on the lengths, not on the scores."""
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.standard_normal((24, 24)))[0]
    source, target = (1e4 * rng.standard_normal((60, 12)) @ half for half in (basis[:12], basis[12:]))
    source, target = (x.astype(np.float32) for x in (source, target))
    exact = source.astype(np.float64) @ target.astype(np.float64).T
    found = both_ways([source], [target], 3)
    for side, scores in zip(found, (exact, exact.T)):
        np.testing.assert_array_equal(side.rows, np.argsort(-scores, axis=1, kind="stable")[:, :3])


def test_several_matrices_add_up(monkeypatch):
    monkeypatch.setattr(module, "_LARGEST", 64)
    source, target = (vectors(150, 0), sparse(150, 0)), (vectors(170, 1), sparse(170, 1))
    joined = [csr_array(np.hstack([dense, other.toarray()])) for dense, other in (source, target)]
    assert_same(both_ways(source, target, 4), *joined, 4, "dot")


def test_a_global_setting_that_lowers_precision_changes_nothing():
    precision = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("medium")
        found = both_ways(*CASES["random"], 4)
    finally:
        torch.set_float32_matmul_precision(precision)
    assert_same(found, *CASES["random"], 4)


def changed(x, row, value):
    x = x.copy()
    x[row] = value
    return x


X, Y = CASES["random"]
BAD = {
    "k=5 must lie between 1 and the smaller side's number of vectors, 4": (X, Y[:4], {"k": 5}),
    "k=0 must lie": (X, Y, {"k": 0}),
    "2 of 700 source vectors are zero, NaN or infinite: row 3, 9 (counted from 0)": (changed(X, [3, 9], 0), Y, {}),
    "1 of 611 target vectors are zero, NaN or infinite: row 7": (X, changed(Y, 7, np.nan), {}),
    "1 of 700 source vectors are zero, NaN or infinite: row 5": (changed(X.astype(float), 5, 1e-60), Y, {}),
    "1 of 611 target vectors are zero, NaN or infinite: row 8": (X, changed(Y.astype(float), 8, 1e60), {}),
    "1 of 700 source vectors are NaN or infinite: row 2": (csr_array(changed(X, 2, np.inf)), csr_array(Y), {}),
    "source vectors have 24 dimensions, target vectors 20": (X, Y[:, :20], {}),
    "give the same kind": (X, csr_array(Y), {}),
    "source vectors must be a non-empty": (X[:0], Y, {}),
    "[700, 699] vectors; give as many of each kind": ((X, csr_array(X[:-1])), (Y, csr_array(Y)), {}),
    "dtype='float16' is not one of float32, bfloat16": (X, Y, {"dtype": "float16"}),
    "MiB or more": (X, Y, {"memory": "1MiB"}),
    "memory='much'": (X, Y, {"memory": "much"}),
}


@pytest.mark.parametrize("message", BAD)
def test_what_cannot_be_compared(message):
    source, target, options = BAD[message]
    with pytest.raises(ValueError) as error:
        both_ways(source, target, **{"k": 4} | options)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_the_least_memory_that_is_named_is_enough():
    with pytest.raises(ValueError, match="cannot hold a block") as error:
        both_ways(X, Y, 4, memory=1000)
    least = str(error.value).split("give ")[1].split(" or more")[0]
    assert_same(both_ways(X, Y, 4, memory=least), X, Y, 4)


def test_sizes():
    assert [bytes_of(text) for text in ("4GiB", "1.5 MiB", "500 MB", "4096", 7)] == [2**32, 1572864, 5 * 10**8, 4096, 7]
