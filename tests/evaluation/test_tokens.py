"""The token-alignment score against a slow loop, its reader, and the picture."""

import numpy as np
import pytest

from hfxling.data.pharaoh import AlignedPair
from hfxling.evaluation.plots import scatter_tokens
from hfxling.evaluation.significance import mean_interval, paired_test
from hfxling.evaluation.tokens import TokenScores, sample_pairs, token_results, token_scores

DATA = {"dataset": "made up", "split": "test"}


def pair_of(source, target, sure, possible):
    return AlignedPair(tuple(source), tuple(target), frozenset(sure), frozenset([*sure, *possible]))


def random_pairs(count=12, seed=0):
    rng, pairs = np.random.default_rng(seed), []
    for _ in range(count):
        n, m = rng.integers(2, 7, 2)
        cells = [(int(i), int(j)) for i in range(n) for j in range(m)]
        kinds = rng.choice(3, size=len(cells), p=[0.6, 0.25, 0.15])
        links = [[cell for cell, kind in zip(cells, kinds) if kind == which] for which in (1, 2)]
        pairs.append(pair_of([f"s{i}" for i in range(n)], [f"t{j}" for j in range(m)], *links))
    return pairs


def random_states(sentences, seed=1, size=5):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((len(words), size)).astype(np.float32) for words in sentences]


def slow_scores(pairs, states):
    linked, unlinked = [], []
    for number, pair in enumerate(pairs):
        source, target = states[number], states[len(pairs) + number]
        found, others = [], []
        for i, x in enumerate(source):
            for j, y in enumerate(target):
                if np.isnan(x).any() or np.isnan(y).any():
                    continue
                cosine = float(x @ y / (np.linalg.norm(x) * np.linalg.norm(y)))
                if (i, j) in pair.sure:
                    found.append(cosine)
                elif (i, j) not in pair.possible:
                    others.append(cosine)
        linked.append(sum(found) / len(found) if found else np.nan)
        unlinked.append(sum(others) / len(others) if others else np.nan)
    return linked, unlinked


def test_scores_equal_the_slow_loop():
    pairs = [*random_pairs(), pair_of(["a"], ["b"], [(0, 0)], []), pair_of(["a", "c"], ["b"], [], [(0, 0)])]
    states = random_states([p.source for p in pairs] + [p.target for p in pairs])
    states[3][0] = np.nan  # a word without a vector
    calls = []

    def token_states(sentences):
        calls.append(sentences)
        return states

    scores = token_scores(pairs, token_states)
    linked, unlinked = slow_scores(pairs, states)
    np.testing.assert_allclose(scores.linked, linked, atol=1e-6)
    np.testing.assert_allclose(scores.unlinked, unlinked, atol=1e-6)
    assert calls == [[list(p.source) for p in pairs] + [list(p.target) for p in pairs]]
    assert scores.measured.tolist() == [*[True] * 12, False, False]


def test_rows_carry_means_intervals_and_tests():
    rng = np.random.default_rng(0)
    scores = TokenScores(rng.normal(0.6, 0.1, 40), rng.normal(0.2, 0.1, 40))
    scores.linked[7] = np.nan
    rows = token_results(scores, direction="zh->en", settings={"stage": "after"}, **DATA)
    kept = np.arange(40) != 7
    gap = (scores.linked - scores.unlinked)[kept]
    assert [row.metric for row in rows] == ["linked cosine", "unlinked cosine", "token alignment"]
    assert [row.value for row in rows] == pytest.approx(
        [scores.linked[kept].mean(), scores.unlinked[kept].mean(), gap.mean()]
    )
    assert (rows[2].low, rows[2].high) == mean_interval(gap)
    assert {(row.n, row.unit, row.direction) for row in rows} == {(39, "", "zh->en")}
    assert all(row.settings["stage"] == "after" and row.settings["left_out"] == 1 for row in rows)
    assert rows[2].settings["p_value"] == paired_test(scores.linked[kept], scores.unlinked[kept]).p_value < 0.001


def test_what_cannot_be_scored_is_refused():
    pair = pair_of(["a", "b"], ["c", "d"], [(0, 0)], [])
    states = [np.zeros((2, 3)), np.zeros((2, 3))]
    with pytest.raises(ValueError, match="none of the 1 pairs"):
        token_results(token_scores([pair], lambda _: states), direction="a->b", **DATA)


def test_the_sample_comes_with_links_inside_its_sentences():
    pairs = sample_pairs("zh", "vi")
    assert sample_pairs("cmn", "vie") == pairs
    assert len(pairs) == 328
    assert all(i < len(pair.source) and j < len(pair.target) for pair in pairs for i, j in pair.sure)
    assert np.mean([len(pair.sure) for pair in pairs]) > 3
    with pytest.raises(ValueError, match="valid"):
        sample_pairs("zh", "vi", "valid")


def test_picture_has_a_panel_a_stage_and_a_colour_a_language(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    from matplotlib.axes import Axes

    drawn, scatter = [], Axes.scatter

    def seen(axes, x, y, *, label, **settings):
        drawn.append((axes.get_title(), label, len(x)))
        return scatter(axes, x, y, label=label, **settings)

    monkeypatch.setattr(Axes, "scatter", seen)
    sides = [random_states([["w"] * n for n in lengths], size=6) for lengths in ([3, 2, 4], [5, 1, 2])]
    sides[0][0][1] = np.nan
    path = tmp_path / "tokens.png"
    scatter_tokens(path, {"before": sides, "after": sides}, ["zh", "vi"], pairs=2)
    assert path.read_bytes().startswith(b"\x89PNG")
    assert [label for _, label, _ in drawn] == ["zh", "vi", "zh", "vi"]
    assert [count for *_, count in drawn] == [4, 6, 4, 6]
