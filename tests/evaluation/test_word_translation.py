"""Dictionaries, word tables, and P@k by CSLS against a plain loop over the equation."""

import gzip

import numpy as np
import pytest
from scipy.sparse import coo_array

from hfxling.data.segment import Vocabulary
from hfxling.evaluation.word_translation import (
    WordTable,
    lexicon_results,
    link_vectors,
    protocol_results,
    read_dictionary,
    score_lexicon,
    translate,
    word_table,
)


def table(words, vectors, own=None) -> WordTable:
    vectors = np.asarray(vectors, np.float32)
    vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return WordTable(list(words), vectors, len(words) if own is None else own)


@pytest.fixture
def tables():
    rng = np.random.default_rng(0)
    source, target = rng.normal(size=(30, 6)), rng.normal(size=(40, 6))
    target[:30] += 1.2 * source
    return table([f"s{i}" for i in range(30)], source), table([f"t{i}" for i in range(40)], target, own=35)


def slow_csls(source: WordTable, target: WordTable, k: int = 3) -> np.ndarray:
    """Eq. 17, neighbourhoods over the vocabularies' own words only."""
    cosines = source.vectors.astype(np.float64) @ target.vectors.T.astype(np.float64)
    near_source = [np.sort(row[: target.vocabulary_size])[-k:].mean() for row in cosines]
    near_target = [np.sort(column[: source.vocabulary_size])[-k:].mean() for column in cosines.T]
    return np.array(
        [[2 * cosines[i, j] - near_source[i] - near_target[j] for j in range(len(near_target))] for i in range(30)]
    )


def test_translations_are_those_of_the_equation(tables):
    expected = slow_csls(*tables)
    rows, scores = translate(tables[0].vectors, *tables, top=5)
    assert np.array_equal(rows, np.argsort(-expected, axis=1)[:, :5])
    assert np.allclose(scores, -np.sort(-expected, axis=1)[:, :5], atol=1e-5)
    assert not np.array_equal(rows, np.argsort(-(tables[0].vectors @ tables[1].vectors.T), axis=1)[:, :5])


def test_ranks_take_the_best_of_several_translations(tables):
    expected = slow_csls(*tables)
    dictionary = {f"s{i}": {f"t{i}", f"t{(7 * i) % 40}", "nowhere"} for i in range(30)}
    scores = score_lexicon(dictionary, *tables)
    for word, rank in zip(scores.words, scores.ranks):
        i = int(word[1:])
        right = {i, (7 * i) % 40}
        best = max(expected[i, j] for j in right)
        assert rank == 1 + sum(expected[i, j] >= best for j in range(40) if j not in right)


def test_ties_count_against_the_model():
    source, target = table(["a", "b", "c"], np.eye(3)), table(["x", "y", "z"], [[1, 0, 0], [1, 0, 0], [0, 0, 1]])
    assert score_lexicon({"a": {"x"}, "c": {"z"}}, source, target).ranks.tolist() == [2, 1]
    assert score_lexicon({"a": {"x", "y"}}, source, target).ranks.tolist() == [1]


def test_coverage_is_counted_both_ways(tables):
    dictionary = {"s1": {"t1"}, "s2": {"gone"}, "gone": {"t3"}, "away": {"gone"}}
    scores = score_lexicon(dictionary, *tables)
    assert scores.words == ["s1"]
    rows = lexicon_results(scores, dictionary, dataset="d", split="test", direction="lo->zh", settings={"a": 1})
    values = {row.metric: (row.value, row.n) for row in rows}
    assert values["coverage"] == (25, 4)
    assert values["source coverage"] == values["target coverage"] == (50, 4)
    assert values["P@1"][1] == 1
    assert rows[0].settings == {"candidates": 40, "a": 1}
    changed = lexicon_results(scores, dictionary | {"away": {"else"}}, dataset="d", split="test")
    assert rows[0].revision != changed[0].revision


def test_a_word_of_several_segments_has_the_mean_of_their_vectors():
    vocabulary = Vocabulary.learn(["长颈鹿很高"], "zh")
    vectors = np.random.default_rng(0).normal(size=(len(vocabulary), 4))
    made = word_table(vocabulary, vectors, ["长颈鹿", "高", "鹿马", "长颈鹿", "高长"])
    assert made.words == [*vocabulary.words[4:], "长颈鹿", "高长"]
    assert made.vocabulary_size == 5
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    mean = units[vocabulary.encode("长颈鹿").ids].mean(0)
    assert np.allclose(made.vectors[5], mean / np.linalg.norm(mean), atol=1e-6)


def test_each_protocol_asks_for_its_words_among_its_candidates():
    vocabularies = [Vocabulary.learn(["a b c d"], "en", segmenter="words"), Vocabulary.learn(["我你他高"], "zh")]
    vectors = np.concatenate([np.ones((4, 8)), np.eye(4, 8)])
    dictionary = {"a": {"我", "他高"}, "b": {"你"}, "c d": {"他高"}, "e": {"高"}}
    rows = protocol_results(dictionary, vocabularies, [vectors] * 2, dataset="d", split="test")
    found = {row.settings["protocol"]: row for row in rows if row.metric == "P@1"}
    assert list(found) == ["vocabulary", "composed"]
    assert [(row.n, row.settings["candidates"]) for row in found.values()] == [(2, 4), (3, 5)]
    only = protocol_results({"c d": {"他高"}}, vocabularies, [vectors] * 2, dataset="d", split="test")
    assert {row.settings["protocol"] for row in only} == {"composed"}


def test_links_translate_by_their_shares_and_together_with_static_vectors():
    rng = np.random.default_rng(0)
    counts, static = rng.random((6, 5)), [rng.normal(size=(n, 4)) for n in (6, 5)]
    counts[2], static[0][0] = 0, 0  # a word without links, and a padding entry
    source, target = link_vectors(coo_array(counts))
    assert np.allclose((source @ target.T)[3] ** 2, counts[3] / counts[3].sum(), atol=1e-6)
    assert np.array_equal(link_vectors(counts)[0], source)
    both = link_vectors(counts, static)
    cosines = static[0][3] @ static[1].T / np.linalg.norm(static[0][3]) / np.linalg.norm(static[1], axis=1)
    assert np.allclose((both[0] @ both[1].T)[3], cosines + (source @ target.T)[3], atol=1e-6)
    assert np.isfinite(both[0]).all()


def test_dictionary_is_read_in_one_spelling(tmp_path):
    path = tmp_path / "lo-zh.tsv.gz"
    lines = ["ນ້ຳ\t水\tconcept", "ນໍ້າ\t河水\tomw", "ໜາ\t厚\tconcept+omw", "ໂຮງ\u200bຮຽນ\t学校\tomw"]
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    dictionary = read_dictionary(path)
    assert len(dictionary) == 3
    assert {"水", "河水"} in dictionary.values()
    assert "ໂຮງຮຽນ" in dictionary


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("b\ty\na\n", r"line 2: 'a' is not word TAB translation; correct"),
        ("b\ty\n\tx\n", "line 2"),
        ("", "has no entries"),
    ],
)
def test_a_dictionary_that_is_wrong(tmp_path, lines, message):
    (tmp_path / "d.tsv").write_text(lines, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        read_dictionary(tmp_path / "d.tsv")


def test_other_mistakes(tmp_path, tables):
    with pytest.raises(FileNotFoundError, match="no such dictionary"):
        read_dictionary(tmp_path / "d.tsv")
    with pytest.raises(ValueError, match="none of the 1 dictionary words has both a vector"):
        score_lexicon({"s1": {"x"}}, *tables)
    with pytest.raises(ValueError, match="2 vectors for the 6 words of 'zh'"):
        word_table(Vocabulary.learn(["长颈"], "zh"), np.ones((2, 3)))


@pytest.mark.shared
def test_real_lao_dictionary_matches_real_text_better_when_normalised(shared_data):
    text = (shared_data / "ntrex" / "lo.txt").read_text(encoding="utf-8")
    from hfxling.data.segment import normalize

    spelled = {line.split("\t")[0] for line in (shared_data / "dict" / "lo-zh.tsv").read_text("utf-8").split("\n")}
    plain = normalize(text)
    assert sum(normalize(word) in plain for word in spelled) > sum(word in text for word in spelled)
