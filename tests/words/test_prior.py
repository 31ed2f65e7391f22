"""The statistical aligner: against a slow one, on text whose links are known, and with what it never saw."""

from itertools import product

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from scipy.sparse import csr_array
from threadpoolctl import threadpool_limits

from hfxling.data.segment import Vocabulary
from hfxling.words import prior as link_prior
from hfxling.words.pairs import EncodedPairs
from hfxling.words.prior import LinkPrior, link_counts_of, posteriors_of, translation_counts

WORDS = 30
CLASSES = [np.arange(WORDS) + 1] * 2


def sentences(count: int, seed: int = 0) -> tuple[EncodedPairs, list[set]]:
    """Word i is translated by i; neighbours change places, and some sentences end in a word without counterpart."""
    rng = np.random.default_rng(seed)
    pairs, links = EncodedPairs(("lo", "zh"), [], []), []
    for _ in range(count):
        source = rng.choice(np.arange(4, WORDS - 1), rng.integers(3, 9), replace=False).tolist()
        order = list(range(len(source)))
        if rng.random() < 0.5:
            order[0], order[1] = 1, 0
        extra = [WORDS - 1] * (rng.random() < 0.3)
        pairs.source.append(source)
        pairs.target.append([source[i] for i in order] + extra)
        links.append({(i, j) for j, i in enumerate(order)})
    return pairs, links


def slow_posterior(table, source, target) -> np.ndarray:
    """By summing over all state sequences: (S, T)."""
    where = dict(zip(table.keys.tolist(), table.probability))
    size, window = len(source), link_prior.WINDOW

    def emission(word, j):
        return where.get(word * table.classes + target[j], link_prior.NEVER)

    def jump(i, k):
        return table.jump[k - i + window] / sum(table.jump[m - i + window] for m in range(size))

    total, expected = 0.0, np.zeros((size, len(target)))
    for states in product(range(2 * size), repeat=len(target)):  # i: linked to i; size + i: to none, i before
        p, before = 1.0, None
        for j, state in enumerate(states):
            i, linked = state % size, state < size
            if before is None:
                first = [table.jump[m + 1 + window] for m in range(size)]
                p *= first[i] / sum(first)
            elif linked:
                p *= jump(before, i)
            elif i != before:
                p = 0.0
            p *= (1 - link_prior.NULL) * emission(source[i], j) if linked else link_prior.NULL * emission(0, j)
            before = i
        total += p
        for j, state in enumerate(states):
            expected[state % size, j] += p * (state < size)
    return expected / total


def test_posteriors_are_sums_over_all_alignments():
    pairs, _ = sentences(40)
    prior = LinkPrior.learn(pairs, CLASSES)[0]
    source, target = (
        [[5, 9, 7], [8, 4]],
        [[7, 5, 29], [4, 8, 6, 11]],
    )  # of unequal lengths, words that never met among them
    found = prior.posteriors(source, target)
    for s, t, (forward, backward) in zip(source, target, found):
        x, y = np.array(s) + 1, np.array(t) + 1
        np.testing.assert_allclose(forward, slow_posterior(prior.tables[0], x, y), atol=1e-6)
        np.testing.assert_allclose(backward.T, slow_posterior(prior.tables[1], y, x), atol=1e-6)


@pytest.mark.parametrize(
    "kinds", [6, 1000]
)  # words that meet often, and words that hardly do, are looked up in two ways
def test_cells_are_what_meets_in_a_batch(kinds):
    pairs, _ = sentences(40)
    table = LinkPrior.learn(pairs, CLASSES)[0].tables[0]._replace(classes=kinds)
    random = np.random.default_rng(1)
    source, target = random.integers(0, kinds, (60, 2)), random.integers(0, kinds, (60, 3))
    source[::2, 1:] = target[::3, 2:] = -1
    keys = link_prior.keys_of(table, source, target)
    cells = link_prior.cells_of(table, source, target)
    met, places = np.unique(keys, return_inverse=True)
    np.testing.assert_array_equal(cells.met, link_prior.places_of(table, met))
    np.testing.assert_array_equal(cells.places, places)


def test_posteriors_without_jumps_are_those_of_model_1():
    """NULL has its share, all words of the sentence the same part of the rest."""
    pairs, _ = sentences(40)
    prior = LinkPrior.learn(pairs, CLASSES)[0]
    table, sides = prior.tables[0], (np.array([[6, 10, 8, -1], [9, 5, 7, 12]]), np.array([[8, 6, 30], [5, 9, -1]]))
    where = dict(zip(table.keys.tolist(), table.probability))
    emissions = link_prior.emissions_of(table, link_prior.cells_of(table, *sides), None, *sides)
    found, jumps, _ = link_prior.expected_counts(emissions, sides, None)
    assert jumps is None
    for source, target, posterior in zip(*sides, found):
        words = source[source >= 0]
        for word, row in zip(target, posterior):
            parts = [where.get(s * table.classes + word, link_prior.NEVER) for s in (0, *words)]
            parts = [link_prior.NULL * parts[0], *((1 - link_prior.NULL) * part / len(words) for part in parts[1:])]
            expected = np.zeros(5)
            if word >= 0:
                expected[: len(parts)] = np.array(parts) / sum(parts)
            np.testing.assert_allclose(row, expected, rtol=1e-6, atol=1e-12)


def test_known_links_are_found_and_words_without_counterpart_have_none():
    pairs, links = sentences(200)
    prior = LinkPrior.learn(pairs, CLASSES)[0]
    unseen, gold = sentences(50, seed=1)
    for sides, wanted in ((pairs, links), (unseen, gold)):
        found = [
            {(int(i), int(j)) for i, j in zip(*np.nonzero((forward + backward) / 2 > 0.5))}
            for forward, backward in prior.posteriors(sides.source, sides.target)
        ]
        right = sum(len(a & b) for a, b in zip(found, wanted))
        assert right / sum(map(len, wanted)) > 0.97
        assert right / sum(map(len, found)) > 0.97


def test_independent_directions_agree_in_no_round(monkeypatch):
    pairs, _ = sentences(60)
    (independent,) = LinkPrior.learn(pairs, CLASSES, agree=[False])
    monkeypatch.setattr(link_prior, "AGREE", 0)
    (again,) = LinkPrior.learn(pairs, CLASSES, agree=[False])
    np.testing.assert_array_equal(again.tables[0].probability, independent.tables[0].probability)


def test_a_pair_alone_and_among_others_has_the_same_posteriors(monkeypatch):
    pairs, _ = sentences(60)
    prior = LinkPrior.learn(pairs, CLASSES)[0]
    together = prior.posteriors(pairs.source, pairs.target)
    monkeypatch.setattr(link_prior, "_CELLS", 1)
    alone = prior.posteriors(pairs.source, pairs.target)
    for one, two in zip(together, alone):
        np.testing.assert_allclose(one, two, atol=1e-6)
    empty = prior.posteriors([[], [5]], [[4], [5]])
    assert [x.shape for x in empty[0]] == [(0, 1), (0, 1)]


def test_expected_counts_are_the_posteriors_summed():
    pairs, _ = sentences(30)
    prior = LinkPrior.learn(pairs, CLASSES)[0]
    counts = link_counts_of([prior], pairs, [WORDS, WORDS]).toarray()
    total = sum((f + b).sum() / 2 for f, b in prior.posteriors(pairs.source, pairs.target))
    assert counts.sum() == pytest.approx(total, rel=0.01)
    assert counts[4:-1].argmax(1).tolist() == list(range(4, WORDS - 1))


def test_a_lexicon_counts_what_agreeing_and_independent_directions_find():
    pairs, _ = sentences(30)
    vocabularies = [
        Vocabulary.learn([" ".join(f"w{i:02}x" for i in range(4, WORDS))], "lo", segmenter="whitespace")
    ] * 2
    counts = translation_counts(pairs, vocabularies).toarray()
    alone = [link_counts_of([prior], pairs, [WORDS, WORDS]) for prior in LinkPrior.learn(pairs, CLASSES)]
    assert abs(alone[0] - alone[1]).sum() > 1
    np.testing.assert_allclose(counts, (alone[0] + alone[1]).toarray(), atol=1e-6)


def test_keys_of_null_and_of_padding():
    pairs, _ = sentences(10)
    table = LinkPrior.learn(pairs, CLASSES)[0].tables[0]._replace(classes=10)
    keys = link_prior.keys_of(table, np.array([[4, -1]]), np.array([[5, 6, -1]]))
    assert keys.tolist() == [[[5, 45, -1], [6, 46, -1], [-1, -1, -1]]]


def test_text_without_words_is_refused():
    with pytest.raises(ValueError, match="lo-zh: none of 2 pairs has words on both sides"):
        LinkPrior.learn(EncodedPairs(("lo", "zh"), [[], [5]], [[4], []]), CLASSES)


def test_saved_and_loaded_it_is_the_same(tmp_path):
    pairs, _ = sentences(30)
    prior = LinkPrior.learn(pairs, CLASSES)[0]
    prior.save(tmp_path)
    again = LinkPrior.load(str(tmp_path), ("lo", "zh"))
    for one, two in zip(prior.posteriors(pairs.source, pairs.target), again.posteriors(pairs.source, pairs.target)):
        np.testing.assert_array_equal(one, two)


DAMAGE = {
    "forward.probability": lambda array: np.full_like(array, np.nan),
    "backward.jump": lambda array: array[:-1],
    "forward.keys": lambda array: array[::-1].copy(),
    "backward.keys": lambda array: array - array[-1],
    "classes.source": lambda array: array - array.max() - 1,
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_prior_is_refused(name, tmp_path):
    pairs, _ = sentences(30)
    LinkPrior.learn(pairs, CLASSES)[0].save(tmp_path)
    path = tmp_path / "prior_lo-zh.safetensors"
    tensors = load_file(path)
    tensors[name] = DAMAGE[name](tensors[name])
    save_file(tensors, path)
    with pytest.raises(ValueError, match=r"prior_lo-zh.safetensors is damaged"):
        LinkPrior.load(str(tmp_path), ("lo", "zh"))


def test_words_that_are_written_alike_are_linked_where_nothing_else_tells():
    """Two sentence pairs whose words come once: by counts alone every link is as good as another."""
    pairs = EncodedPairs(("en", "fr"), [[4, 5, 6], [7, 8, 9]], [[6, 4, 5], [8, 9, 7]])
    equal = np.arange(WORDS + 1)
    for start, least in ((None, 0), (equal, 6)):
        prior = LinkPrior.learn(pairs, CLASSES, equal=start)[0]
        both = [forward * backward for forward, backward in prior.posteriors(pairs.source, pairs.target)]
        found = sum(
            int(source[i] == target[both_of[i].argmax()])
            for source, target, both_of in zip(pairs.source, pairs.target, both)
            for i in range(3)
        )
        assert found >= least
        assert found < 6 or start is not None


def test_what_known_links_do_not_link_is_left_to_who_knows_better():
    """Of two words, 1 and 2, one is linked; whether the other has a counterpart is the encoder's to say."""
    odds = csr_array(np.diag([0.0, 50.0, 0.0]))
    prior = LinkPrior.of_odds(("en", "zh"), odds, odds)
    for cosine, is_linked in ((0.9, True), (-0.9, False)):
        similarity = np.array([[0.9, 0.0], [0.0, cosine]])
        ((forward, backward),) = posteriors_of([prior], [[1, 2]], [[1, 2]], [similarity])[0]
        assert min(forward[0, 0], backward[0, 0]) > 0.9
        assert (min(forward[1, 1], backward[1, 1]) > 0.4) == is_linked


def test_jumps_are_those_of_the_text_and_few_pairs_change_little():
    """Learnt in order, read backwards: the more text, the likelier jumps back."""
    pairs, _ = sentences(60)
    prior = LinkPrior.learn(pairs, CLASSES)[0]
    turned = EncodedPairs(pairs.languages, pairs.source, [row[::-1] for row in pairs.target])
    one = EncodedPairs(pairs.languages, turned.source[:1], turned.target[:1])
    back = link_prior.WINDOW - 1
    shares = [which.tables[0].jump[back] for which in (prior, prior.with_jumps_of(one), prior.with_jumps_of(turned))]
    assert shares[0] < shares[1] < shares[2]
    assert shares[1] < shares[0] + 0.1 < shares[2]
    np.testing.assert_array_equal(prior.with_jumps_of(one).tables[0].probability, prior.tables[0].probability)


def test_another_number_of_threads_changes_no_digit():
    numbers = np.random.default_rng(0)
    emissions = numbers.random((375, 4, 41), np.float32)
    sides, jump = (np.ones((375, 40), int), np.ones((375, 4), int)), numbers.random(2 * link_prior.WINDOW + 1)
    posteriors = []
    for threads in (1, 2):
        with threadpool_limits(threads, user_api="blas"):
            posteriors.append(link_prior.expected_counts(emissions, sides, jump)[0])
    assert np.array_equal(*posteriors)
