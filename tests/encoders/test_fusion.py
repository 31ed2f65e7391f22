"""Dense and sparse scores as one: against a slow sum, chosen by known pairs, kept with what it was made for."""

import json
from dataclasses import replace

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from scipy.sparse import csr_array, random_array

from hfxling.encoders.fusion import CSLS_K, FILE, GRID, ROLES, TENSORS, Fusion, fit_fusion, pool_rows, stored
from hfxling.evaluation.retrieval import gold_ranks

COUNT, KNOWN = 60, 40


def texts(dense_noise: float, sparse_noise: float, seed: int = 0) -> list:
    """Dense and sparse vectors of queries and of their translations, each blurred by so much."""
    rng = np.random.default_rng(seed)
    dense, sparse = rng.normal(size=(COUNT, 8)), random_array((COUNT, 50), density=0.2, rng=rng).toarray()
    sides = []
    for _ in range(2):
        blurred = sparse * rng.lognormal(sigma=sparse_noise, size=sparse.shape)
        sides.append((dense + rng.normal(scale=dense_noise + 1e-9, size=dense.shape), csr_array(blurred)))
    return sides


def part(side, rows):
    return side[0][rows], side[1][rows]


def fitted(sides, count: int = KNOWN) -> Fusion:
    """Vectors are the same in either role here."""
    known, (zh, vi) = [part(side, slice(0, count)) for side in sides], [part(s, slice(count, None)) for s in sides]
    pools = {(lang, role): pool for lang, pool in (("zh", zh), ("vi", vi)) for role in ROLES}
    folds = [[(*known, (zh, vi)), (*known[::-1], (vi, zh))]]
    return fit_fusion(folds, pools, lexical="abc", languages=("zh", "vi"))


def fused(fusion: Fusion, sides) -> list:
    return [fusion.vectors(*side, *key) for side, key in zip(sides, zip(("zh", "vi"), ROLES))]


def slow(fusion: Fusion, sides, i: int, j: int) -> float:
    """One fused score from the definition of CSLS."""
    total = 0.0
    for kind, weight in enumerate((fusion.weight, 1 - fusion.weight)):
        pools = fusion.pools["zh", "query"], fusion.pools["vi", "document"]
        matrices = [x[kind] if kind == 0 else x[kind].toarray() for x in (*sides, *pools)]
        if kind == 0:
            matrices = [x / np.linalg.norm(x, axis=1, keepdims=True) for x in matrices]
        query, document, of_queries, of_documents = matrices
        near = [np.sort(pool @ x)[-CSLS_K:].mean() for pool, x in ((of_documents, query[i]), (of_queries, document[j]))]
        total += weight * (2 * query[i] @ document[j] - sum(near)) / fusion.deviations[kind]
    return total


def test_the_inner_product_is_the_sum_of_both_scores():
    sides = texts(0.5, 0.5)
    fusion = fitted(sides)
    assert 0 < fusion.weight < 1
    query, document = fused(fusion, sides)
    scores = (query @ document.T).toarray()
    for i, j in [(0, 0), (3, 7), (59, 1)]:
        assert scores[i, j] == pytest.approx(slow(fusion, sides, i, j), abs=2e-3)  # pools are in half precision
    alone = fusion.vectors(*part(sides[0], [3]), "zh", "query")
    assert abs(alone - query[[3]]).max() < 1e-5


def test_texts_are_compared_with_those_of_the_other_role():
    sides, others = texts(0.5, 0.5), texts(0.5, 0.5, seed=1)
    fusion = fitted(sides)
    same = fusion.vectors(*sides[0], "zh", "query").toarray()
    for role, matters in (("query", False), ("document", True)):
        pools = fusion.pools | {("vi", role): others[1]}
        changed = replace(fusion, pools=stored(pools)).vectors(*sides[0], "zh", "query").toarray()
        assert (abs(changed - same).max() > 1e-2) == matters


def test_of_weights_that_find_equally_much_the_middle_one_is_taken():
    assert fitted(texts(0, 0)).weight == 0.5


def test_what_a_few_pairs_show_by_chance_moves_the_weight_little():
    weights = [fitted(texts(0.7, 0.9, seed), count=16).weight for seed in range(20)]
    assert np.median(weights) == 0.5
    assert 0.4 < min(weights) < max(weights) < 0.9


def test_unrelated_sentences_differ_by_one_in_either_score():
    sides = texts(0.5, 0.5)
    fusion = fitted(sides)
    for kind in (0, 1):
        one = Fusion(1.0 - kind, fusion.deviations, fusion.pools, "abc", ("zh", "vi"), KNOWN)
        query, document = fused(one, [part(side, slice(0, KNOWN)) for side in sides])
        scores = (query @ document.T).toarray()
        low, high = np.quantile(scores[~np.eye(KNOWN, dtype=bool)], [0.25, 0.75])
        assert (high - low) / 1.349 == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize(("dense_noise", "sparse_noise", "weights"), [(0, 9, (0.7, 1)), (9, 0, (0, 0.35))])
def test_what_is_blurred_counts_less(dense_noise, sparse_noise, weights):
    assert weights[0] <= fitted(texts(dense_noise, sparse_noise)).weight <= weights[1]


def test_together_they_find_more():
    sides = texts(0.9, 0.9)
    fusion = fitted(sides)
    ranks = [
        gold_ranks(*(side[0] for side in sides)),
        gold_ranks(*(side[1] for side in sides), method="dot"),
        gold_ranks(*fused(fusion, sides), method="dot"),
    ]
    dense, sparse, both = (np.mean([row == 1 for row in rank]) for rank in ranks)
    assert both > max(dense, sparse)


def test_it_is_kept_with_the_hash_of_its_sparse_encoder(tmp_path):
    sides = texts(0.5, 0.5)
    fusion = fitted(sides)
    fusion.save(tmp_path)
    again = Fusion.load(tmp_path, "abc")
    assert again.languages == ("zh", "vi")
    for vectors, loaded in zip(fused(fusion, sides), fused(again, sides)):
        assert abs(vectors - loaded).max() == 0
    with pytest.raises(ValueError, match="was made for the lexical model abc, not abd"):
        Fusion.load(tmp_path, "abd")
    for name in (FILE, TENSORS):
        (tmp_path / name).rename(tmp_path / "away")
        with pytest.raises(FileNotFoundError, match="hfxling fit"):
            Fusion.load(tmp_path, "abc")
        (tmp_path / "away").rename(tmp_path / name)
    (tmp_path / FILE).write_text("{}")
    with pytest.raises(ValueError, match="is damaged"):
        Fusion.load(tmp_path, "abc")
    with pytest.raises(FileNotFoundError, match="hfxling fit"):
        Fusion.load(tmp_path / "elsewhere", "abc")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("weight", 2),
        ("weight", -3),
        ("weight", "half"),
        ("deviations", [1.0, 0.0]),
        ("deviations", [1.0, float("nan")]),
        ("languages", ["zh", "zh"]),
        ("zh.query.sparse.indices", 1_000_000_000),
        ("zh.query.sparse.indices", -1),
        ("zh.query.sparse.indptr", 1_000_000_000),
        ("zh.query.sparse.shape", 3),
        ("vi.document.dense", np.nan),
        ("vi.document.sparse.data", np.inf),
    ],
)
def test_a_fusion_with_false_numbers_is_refused(tmp_path, name, value):
    fitted(texts(0.5, 0.5)).save(tmp_path)
    Fusion.load(tmp_path, "abc")
    about = json.loads((tmp_path / FILE).read_text())
    tensors = load_file(tmp_path / TENSORS)
    if name in about:
        (tmp_path / FILE).write_text(json.dumps(about | {name: value}))
    else:
        tensors[name].reshape(-1)[1] = value
        save_file(tensors, tmp_path / TENSORS)
    with pytest.raises(ValueError, match=r"fusion.json or fusion.safetensors is damaged \(.+\); fit again"):
        Fusion.load(tmp_path, "abc")


def test_weights_favour_neither_score_and_lie_densely_where_they_are_small():
    np.testing.assert_allclose(GRID, 1 - np.array(GRID[::-1]), atol=1e-12)
    assert (GRID[0], GRID[-1]) == (0, 1)
    odds = np.array(GRID[1:-1]) / (1 - np.array(GRID[1:-1]))
    np.testing.assert_allclose(odds[2:] / odds[:-2], 2)  # two steps double them


def test_a_pool_is_a_sample_of_all_pairs():
    assert pool_rows(5).tolist() == [0, 1, 2, 3, 4]
    rows = pool_rows(5000)
    assert len({*rows.tolist()}) == len(rows) == 1000
    assert rows.max() > 4500
