"""Probabilities of links: features by hand, calibration on links that were not seen, and what is stored."""

import json

import numpy as np
import pytest

from hfxling.data.pharaoh import AlignedPair
from hfxling.data.segment import Span
from hfxling.methods.aligner.evaluate import gold_results
from hfxling.words.aligner import AlignedLine
from hfxling.words.confidence import (
    FEATURES,
    LinkConfidence,
    cross_validated,
    expected_calibration_error,
    gather,
    link_features,
)
from hfxling.words.links import SoftAlignment, decode


def aligned(forward, backward, similarity) -> AlignedLine:
    sizes = np.array([forward.shape])
    soft = SoftAlignment(forward[None], backward[None], similarity[None], sizes)
    links = [tuple(link) for link in np.argwhere(decode(soft, "union")[0]).tolist()]
    units = [[Span(str(i), i, i + 1) for i in range(n)] for n in forward.shape]
    return AlignedLine(*units, links, soft)


@pytest.fixture(scope="module")
def corpus():
    """Sentences whose gold links have more weight than others, with noise."""
    rng = np.random.default_rng(0)
    lines, gold = [], []
    for _ in range(200):
        s, t = rng.integers(3, 9, 2)
        right = np.zeros((s, t), bool)
        right[np.arange(s), rng.integers(0, t, s)] = True
        scores = [rng.normal(size=(s, t)) + 2 * right for _ in range(2)]
        weights = [np.exp(score) / np.exp(score).sum(axis, keepdims=True) for axis, score in enumerate(scores)]
        lines.append(aligned(*weights, rng.uniform(-1, 1, (s, t))))
        links = frozenset(map(tuple, np.argwhere(right).tolist()))
        gold.append(AlignedPair(("w",) * s, ("w",) * t, links, links))
    return lines, gold


def test_features_by_hand():
    forward = np.array([[0.5, 0.1], [0.5, 0.9]])
    backward = np.array([[0.6, 0.4], [0.7, 0.3]])
    line = aligned(forward, backward, np.array([[0.2, 0.3], [0.4, 0.5]]))
    assert line.links == [(0, 0), (1, 0), (1, 1)]
    found = dict(zip(FEATURES, link_features(line)[2]))
    assert found == pytest.approx(
        {
            "log_forward": np.log(0.9),
            "log_backward": np.log(0.3),
            "log_product": np.log(0.27),
            "mutual": 0,
            "log_rank_forward": 0,
            "log_rank_backward": np.log(2),
            "similarity": 0.5,
            "off_diagonal": 0,
            "log_fertility": np.log(2),
            "log_length": np.log(2),
        }
    )
    assert link_features(line)[0][FEATURES.index("mutual")] == 1


def test_a_line_without_links_has_no_features():
    assert link_features(AlignedLine([], [], [], None)).shape == (0, len(FEATURES))


def test_confidence_of_unseen_sentences_is_calibrated_and_tells_right_from_wrong(corpus):
    features, right, groups = gather(*corpus)
    probabilities = cross_validated(features, right, groups)
    assert expected_calibration_error(probabilities, right) < 0.05
    assert probabilities[right].mean() > probabilities[~right].mean() + 0.2
    raw = features[:, FEATURES.index("log_forward")]
    assert expected_calibration_error(np.exp(raw), right) > 0.05


def test_gather_counts_possible_links_as_right(corpus):
    lines, gold = corpus
    pair = AlignedPair(gold[0].source, gold[0].target, frozenset(), frozenset(lines[0].links))
    _, right, groups = gather(lines[:1], [pair])
    assert right.all()
    assert len(right) == len(lines[0].links)
    assert set(groups) == {0}


def test_what_is_stored_gives_the_same_probabilities(corpus, tmp_path):
    features, right, groups = gather(*corpus)
    fitted = LinkConfidence.fit(features, right, groups, method="union")
    fitted.save(tmp_path / "confidence.json")
    loaded = LinkConfidence.load(tmp_path / "confidence.json")
    assert np.array_equal(loaded(features), fitted(features))
    assert loaded.settings == {"method": "union"}
    assert fitted(np.zeros((0, len(FEATURES)))).shape == (0,)


def test_gold_links_give_the_calibration_error_of_the_default_decoding(corpus, tmp_path):
    lines, gold = corpus

    class Fixed:
        """An aligner whose lines are known."""

        prior = None

        def __call__(self, source, target):
            return iter(lines[: len(source)])

    def file(count: int) -> str:
        path = tmp_path / f"{count}.tsv"
        rows = [(*pair.source, "\t", *pair.target, "\t", *(f"{i}-{j}" for i, j in pair.sure)) for pair in gold[:count]]
        path.write_text("".join(" ".join(row).replace(" \t ", "\t") + "\n" for row in rows), encoding="utf-8")
        return str(path)

    rows = {row.metric: row for row in gold_results(Fixed(), file(len(gold)), decoding="itermax")}
    features, right, groups = gather(lines, gold)
    wanted = expected_calibration_error(cross_validated(features, right, groups), right)
    assert (rows["ECE"].value, rows["ECE"].n, rows["ECE"].unit) == (wanted, len(right), "")
    assert {"AER", "ECE"} <= rows.keys()
    for count, decoding in ((len(gold), "mean"), (9, "itermax")):
        assert "ECE" not in {row.metric for row in gold_results(Fixed(), file(count), decoding=decoding)}


def test_calibration_error_by_hand():
    assert expected_calibration_error([0.2, 0.2, 0.8, 0.8], [0, 0, 1, 1], bins=2) == pytest.approx(0.2)
    assert expected_calibration_error([0.5] * 4, [0, 1, 0, 1], bins=4) == pytest.approx(0)
    # Ties: the order of the links is of no matter.
    assert expected_calibration_error([0.5] * 4, [0, 0, 1, 1], bins=4) == pytest.approx(0)
    assert expected_calibration_error([1.0, 1.0, 0.0], [0, 0, 1]) == pytest.approx(1)


def test_mistakes(corpus, tmp_path):
    features, right, groups = gather(*corpus)
    with pytest.raises(ValueError, match="right and wrong links of 10 sentence pairs, got 200 with"):
        LinkConfidence.fit(features, np.ones_like(right), groups)
    with pytest.raises(ValueError, match="got 3 with"):
        LinkConfidence.fit(features[groups < 3], right[groups < 3], groups[groups < 3])
    with pytest.raises(FileNotFoundError, match="no confidence was fitted"):
        LinkConfidence.load(tmp_path / "nothing.json")
    for content in ("{", "[]", "[" * 100_000, json.dumps({"features": ["x"]}), json.dumps({"features": FEATURES})):
        (tmp_path / "bad.json").write_text(content)
        with pytest.raises(ValueError, match=r"bad.json is no confidence of this version .*fit it again"):
            LinkConfidence.load(tmp_path / "bad.json")
