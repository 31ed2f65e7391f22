import tracemalloc

import numpy as np
import pytest

from hfxling.evaluation import retrieval
from hfxling.evaluation.retrieval import (
    before_after_results,
    gold_ranks,
    hits_at,
    language_mean,
    postprocess,
    rank_translations,
    ranking_results,
    retrieval_results,
    unlike_blanks,
)
from hfxling.evaluation.significance import paired_test
from hfxling.sentences.neighbours import unit

LANGS = {"source_lang": "zh", "target_lang": "vi"}
DATA = {"dataset": "made up", "split": "test"}


def noisy_pairs(n=60, m=None, d=16, noise=0.8, seed=0):
    rng = np.random.default_rng(seed)
    source = rng.standard_normal((n, d))
    return source, np.concatenate(
        [source + noise * rng.standard_normal((n, d)), rng.standard_normal(((m or n) - n, d))]
    )


def slow_ranks(source, target, csls_k=None):
    """Straight from the definitions, in float64."""
    source = source / np.linalg.norm(source, axis=1, keepdims=True)
    target = target / np.linalg.norm(target, axis=1, keepdims=True)
    scores = source @ target.T
    if csls_k:
        of_source = np.sort(scores, axis=1)[:, -csls_k:].mean(axis=1)
        of_target = np.sort(scores, axis=0)[-csls_k:].mean(axis=0)
        scores = 2 * scores - of_source[:, None] - of_target
    n = len(source)
    forward = [sum(scores[i, j] >= scores[i, i] for j in range(len(target))) for i in range(n)]
    backward = [sum(scores[i, j] >= scores[j, j] for i in range(n)) for j in range(n)]
    return forward, backward


@pytest.mark.parametrize("block_size", [3, 7, 60, 1000])
@pytest.mark.parametrize("candidates", [60, 95])
@pytest.mark.parametrize(("method", "csls_k"), [("cosine", None), ("csls", 1), ("csls", 10)])
def test_ranks_equal_the_definition(method, csls_k, candidates, block_size):
    source, target = noisy_pairs(m=candidates)
    ranks = gold_ranks(source, target, method=method, csls_k=csls_k or 10, block_size=block_size)
    expected = slow_ranks(source, target, csls_k)
    assert max(map(max, expected)) > 5, "the case must hold misses too"
    np.testing.assert_array_equal(ranks, expected)


@pytest.mark.parametrize("block_size", [17, 64, 1000])
@pytest.mark.parametrize("method", ["cosine", "csls"])
def test_a_duplicate_of_the_translation_ties_and_counts_against(method, block_size):
    source, _ = noisy_pairs(n=300, d=768)
    target = source.astype(np.float32)
    target[150:] = 3 * target[:150]  # row i and row i + 150 are the same vector but for its length
    forward, backward = gold_ranks(source, target, method=method, block_size=block_size)
    assert (forward[:150] == 2).all()
    assert (backward[:150] == 1).all()


@pytest.mark.parametrize("method", ["cosine", "csls"])
def test_a_collapsed_encoder_gets_the_last_rank(method):
    same = np.ones((300, 8))
    for ranks in gold_ranks(same, same, method=method):
        assert (ranks == 300).all()


def test_the_translation_itself_counts_once_whatever_the_rounding(monkeypatch):
    monkeypatch.setitem(retrieval.TIE, "cosine", -0.5)  # rounding far worse than any real one
    for ranks in gold_ranks(np.eye(8), np.eye(8), block_size=3):
        assert (ranks == 1).all()


@pytest.mark.parametrize("block_size", [50, 1000])
def test_gaps_below_float32_precision_are_ranked_as_float64_ranks_them(block_size):
    rng = np.random.default_rng(0)
    source = rng.standard_normal(64) + 3e-4 * rng.standard_normal((200, 64))
    target = rng.standard_normal(64) + 3e-4 * rng.standard_normal((230, 64))
    scores = unit(source).astype(np.float64) @ unit(target).astype(np.float64).T
    gaps = np.diff(np.sort(scores, axis=1))
    assert np.median(gaps) < 1e-6, "the case must hold close calls"
    gold = np.diag(scores) - retrieval.TIE["cosine"]
    forward, backward = gold_ranks(source, target, block_size=block_size)
    np.testing.assert_array_equal(forward, (scores >= gold[:, None]).sum(axis=1))
    np.testing.assert_array_equal(backward, (scores[:, :200] >= gold).sum(axis=0))


def test_the_similarity_matrix_is_never_held_whole():
    source, target = noisy_pairs(n=4000, d=8)
    for method in ("cosine", "csls"):
        tracemalloc.start()
        gold_ranks(source, target, method=method, block_size=256)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 4000 * 4000 * 4 / 8


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"source": np.ones((3, 4)), "target": np.ones((2, 4))}, "3 source rows .* got 2"),
        ({"target": np.ones((3, 5))}, "4 dimensions, target vectors 5"),
        ({"source": np.ones(4)}, "shape"),
        ({"source": np.ones((0, 4))}, "non-empty"),
        ({"source": [[1, 1, 1, 1], [np.nan, 0, 0, 0], [np.nan, 1, 1, 1]]}, r"2 of 3 vectors .* row 1, 2 "),
        ({"target": [[1, 1, 1, 1], [np.inf, 0, 0, 0], [1, 1, 1, 1]]}, "row 1 "),
        ({"method": "euclid"}, "'euclid' is not one of cosine, csls"),
        ({"method": "csls"}, "csls_k=10 must lie between 1 and .* 3"),
        ({"method": "csls", "csls_k": 0}, "csls_k=0"),
    ],
)
def test_what_cannot_be_ranked_is_refused_in_one_line(change, message):
    with pytest.raises(ValueError, match=message) as error:
        gold_ranks(**{"source": np.ones((3, 4)), "target": np.ones((3, 4)), **change})
    assert "\n" not in str(error.value)


def test_unit_survives_extreme_lengths():
    x = unit(np.array([[1e30, 1e30], [3e-30, 4e-30]], dtype=np.float32))
    np.testing.assert_allclose(x, [[0.5**0.5, 0.5**0.5], [0.6, 0.8]], rtol=1e-6)


def test_postprocess_is_unit_center_unit():
    x = np.array([[3.0, 4.0], [0.0, 2.0]])
    mean = language_mean(x)
    np.testing.assert_allclose(mean, [0.3, 0.9])
    np.testing.assert_allclose(postprocess(x, mean), np.array([[3, -1], [-3, 1]]) / 10**0.5, rtol=1e-6)
    np.testing.assert_allclose(postprocess(x), [[0.6, 0.8], [0, 1]], rtol=1e-6)


def test_postprocess_refuses_a_mean_of_another_width():
    with pytest.raises(ValueError, match=r"shape \(3,\), but the vectors need \(2,\)"):
        postprocess(np.ones((4, 2)), np.ones(3))


def test_precision_is_the_percentage_of_ranks_up_to_k():
    assert hits_at([1, 2, 5, 6], 5).mean() == 75
    assert hits_at([1, 2, 5, 6], 1).mean() == 25
    with pytest.raises(ValueError, match="P@0"):
        hits_at([1], 0)


def test_rows_tell_direction_value_interval_and_conditions():
    source, target = noisy_pairs(m=80)
    rows = retrieval_results(source, target, **LANGS, methods=("cosine", "csls"), csls_k=4, ks=(1, 5), **DATA, seed=3)
    forward, backward = slow_ranks(source, target)
    assert [(row.metric, row.direction) for row in rows[:4]] == [
        ("P@1", "zh->vi"),
        ("P@5", "zh->vi"),
        ("P@1", "vi->zh"),
        ("P@5", "vi->zh"),
    ]
    assert rows[0].value == pytest.approx(100 * np.mean(np.array(forward) == 1))
    assert rows[3].value == pytest.approx(100 * np.mean(np.array(backward) <= 5))
    assert all(row.low < row.value < row.high and row.n == 60 and row.seed == 3 for row in rows)
    assert rows[0].settings == {"method": "cosine", "centering": "none", "candidates": 80}
    assert rows[-1].settings == {"method": "csls", "centering": "none", "csls_k": 4}


def shifted_pairs():
    """Good pairs that a constant offset of each language hides, train and test drawn alike."""
    source, target = noisy_pairs(n=400, d=24, noise=0.4)
    source[:, 0] += 9
    target[:, 1] += 9
    return source, target


def test_centering_takes_the_language_out():
    source, target = shifted_pairs()
    train, test = slice(0, 300), slice(300, 400)
    means = (language_mean(source[train]), language_mean(target[train]))
    score = {
        centering: retrieval_results(source[test], target[test], **LANGS, centering=centering, means=means, **DATA)[0]
        for centering in ("none", "train", "corpus")
    }
    assert score["none"].value < 70
    assert score["train"].value > 90
    assert score["corpus"].value > 90
    assert [row.settings["centering"] for row in score.values()] == list(score)


@pytest.mark.parametrize("means", [None, (np.ones(24), None)])
def test_train_centering_needs_both_means(means):
    with pytest.raises(ValueError, match="needs means of both zh and vi"):
        rank_translations(*shifted_pairs(), **LANGS, centering="train", means=means)


@pytest.mark.parametrize(
    "options",
    [{"methods": ["dot", "cosine"]}, {"methods": ["cosine", "dot"]}, {"methods": ["dot"], "centering": "corpus"}],
)
def test_inner_products_are_measured_alone_and_as_they_are(options):
    with pytest.raises(ValueError, match="method 'dot' takes the vectors as they are"):
        rank_translations(np.eye(3), np.eye(3), source_lang="zh", target_lang="vi", **options)


def test_an_unknown_centering_is_refused():
    with pytest.raises(ValueError, match="'test' is not one of none, train, corpus"):
        rank_translations(*shifted_pairs(), **LANGS, centering="test")


def test_rows_against_a_baseline_carry_the_paired_test():
    before = rank_translations(*noisy_pairs(noise=1.5), **LANGS)
    after = rank_translations(*noisy_pairs(noise=0.6), **LANGS)
    row = ranking_results(after, baseline=before, settings={"stage": "after"}, **DATA)[0]
    test = paired_test(100 * (after[0].ranks == 1), 100 * (before[0].ranks == 1))
    assert row.settings["stage"] == "after"
    assert row.settings["paired"] == vars(test)
    assert test.difference > 10
    assert test.p_value < 0.01


def test_what_is_learnt_is_tested_against_the_encoder_as_it_came():
    nothing, there, back = np.zeros(3), np.array([100.0, 100, 0]), np.array([0.0, 100, 100])
    hits = {"encoder": (nothing, back), "head": (there, back)}
    rows = before_after_results(hits, ("zh", "vi"), settings={"candidates": 3}, **DATA)
    assert [row.direction for row in rows] == ["zh->vi", "vi->zh"] * 2
    assert [row.value for row in rows] == pytest.approx([0, 200 / 3, 200 / 3, 200 / 3])
    settings = {"stage": "after", "row": "head", "candidates": 3, "paired": vars(paired_test(there, nothing))}
    assert rows[2].settings == settings
    assert rows[3].settings["paired"]["difference"] == 0
    assert rows[0].settings == {"stage": "before", "row": "encoder", "candidates": 3}
    assert "paired" not in before_after_results({"head": (there, back)}, ("zh", "vi"), **DATA)[0].settings


def test_a_baseline_ranked_otherwise_is_refused():
    source, target = noisy_pairs()
    plain = rank_translations(source, target, **LANGS)
    centred = rank_translations(source, target, **LANGS, centering="corpus")
    with pytest.raises(ValueError, match="rank both models the same way"):
        ranking_results(plain, baseline=centred, **DATA)


@pytest.mark.parametrize("centering", ["none", "corpus"])
def test_a_text_without_a_vector_is_missed_and_its_translation_too(centering):
    source, target = noisy_pairs(30, noise=0.1)
    whole = rank_translations(source, target, source_lang="zh", target_lang="vi", methods=("cosine", "csls"))
    assert all(np.all(ranking.ranks == 1) for ranking in whole)
    source[3] = 0
    target[[3, 7]] = 0
    options = {"methods": ("cosine", "csls"), "centering": centering}
    for ranking in rank_translations(source, target, source_lang="zh", target_lang="vi", **options):
        np.testing.assert_array_equal(np.flatnonzero(ranking.ranks > 1), [3, 7])
        np.testing.assert_array_equal(ranking.ranks[[3, 7]], 31)
    nothing = np.zeros_like(source)
    for ranking in rank_translations(nothing, target, source_lang="zh", target_lang="vi", centering=centering):
        assert np.all(ranking.ranks == 31), "no k finds it"


def test_texts_without_a_vector_are_like_nothing_not_even_each_other():
    source, target = np.array([[1.0, 2.0], [0.0, 0.0]]), np.array([[0.0, 0.0], [3.0, 4.0]])
    left, right = unlike_blanks(source, target)
    assert left.shape == right.shape == (2, 4)
    assert all(np.abs(side).sum(1).min() > 0 for side in (left, right))
    np.testing.assert_array_equal(left @ right.T, [[0, 11], [0, 0]])
