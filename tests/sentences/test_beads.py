"""Beads against a slow programme, planted ones, and sides that do not fit together."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from scipy.sparse import csr_array

from hfxling.sentences import beads as engine
from hfxling.sentences.beads import align_documents, match_documents

MEANINGS = np.random.default_rng(0).normal(size=(2000, 64))


def planted(side: list[tuple[int, ...]], asked: Counter | None = None):
    """Vectors of sentences with these meanings: their sums, and a little noise of each text's own."""

    def encode(spans):
        if asked is not None:
            asked.update(spans)
        rows = [[m for sentence in side[i:j] for m in sentence] for i, j in spans]
        noise = [np.random.default_rng([i, j]).normal(size=64) for i, j in spans]
        return np.stack([MEANINGS[row].sum(0) + 0.1 * x for row, x in zip(rows, noise)]).astype(np.float32)

    return encode


def aligned(source, target, **options) -> list[tuple]:
    whole = range(len(source)), range(len(target))
    (beads,) = align_documents(planted(source), planted(target), [whole], **options)
    for part, side in zip(whole, list(zip(*beads))[:2]):
        assert [i for found in side for i in found] == [*part]  # every sentence once, in order
    assert all(bead.score == 0 for bead in beads if not (bead.source and bead.target))
    return [(*map(tuple, bead[:2]),) for bead in beads]


def singles(numbers) -> list[tuple[int]]:
    return [(i,) for i in numbers]


def spoilt(count: int, rng: np.random.Generator) -> list[tuple[int, ...]]:
    """Meanings 0 to `count`, some joined, some dropped."""
    found, i = [], 0
    while i < count:
        change = rng.random()
        size = 0 if change < 0.1 else 2 if change < 0.2 else 1
        found += [tuple(range(i, min(i + size, count)))] if size else []
        i += max(size, 1)
    return found


def slow_sum(gain) -> float:
    """The largest sum, cell by cell; `gain(i, j, a, b)` of a bead that ends after i and j sentences."""
    rows, columns, most = gain.shape
    best = np.zeros((rows + 1, columns + 1))
    for i in range(rows + 1):
        for j in range(columns + 1):
            ways = [0.0, best[i - 1, j] if i else 0.0, best[i, j - 1] if j else 0.0]
            for a in range(1, min(i, most) + 1):
                ways += [best[i - a, j - b] + gain(i, j, a, b) for b in range(1, min(j, most) + 1)]
            best[i, j] = max(ways)
    return best[-1, -1]


class Gain:
    """What a bead adds, written from the page: the score less what both sides score by chance, weighted."""

    def __init__(self, sides, sizes, method: str, most: int):
        rng = np.random.default_rng(0)
        self.shape, self.method, self.sides = (*sizes, most), method, sides
        self.drawn = []
        for size in sizes:
            self.drawn.append([])
            for k in range(1, most + 1):
                spans = [(i, min(i + k, size)) for i in range(max(size - k + 1, 1))]
                self.drawn[-1].append([spans[i] for i in np.sort(rng.permutation(len(spans))[: engine.SAMPLE])])

    def score(self, x, y) -> float:
        x, y = (np.asarray(side([span]).toarray() if self.method == "dot" else side([span]))[0]
                for side, span in zip(self.sides, (x, y)))  # fmt: skip
        return float(x @ y if self.method == "dot" else x @ y / np.linalg.norm(x) / np.linalg.norm(y))

    def __call__(self, i, j, a, b) -> float:
        x, y, at = (i - a, i), (j - b, j), engine.QUANTILE[self.method]
        scores = (
            [self.score(x, other) for other in self.drawn[1][b - 1]],
            [self.score(other, y) for other in self.drawn[0][a - 1]],
        )
        chance = [sorted(found)[int(at * (len(found) - 1))] if len(found) > 1 else 0 for found in scores]
        return (self.score(x, y) - sum(chance) / 2) * ((a + b) / 2) ** engine.JOINING[self.method]


@pytest.mark.parametrize("method", ["cosine", "dot"])
@pytest.mark.parametrize(("sizes", "most"), [((6, 5), 3), ((3, 8), 2), ((7, 1), 4), ((4, 4), 1)])
def test_the_sum_is_that_of_a_slow_programme(method, sizes, most):
    rng = np.random.default_rng(sum(sizes))
    sides = []
    for size in sizes:
        spans = {(i, j): k for k, (i, j) in enumerate((i, j) for i in range(size) for j in range(i + 1, size + 1))}
        vectors = rng.normal(size=(len(spans), 8)).astype(np.float32)
        vectors = csr_array(vectors * (rng.random(vectors.shape) < 0.5)) if method == "dot" else vectors
        sides.append(lambda asked, spans=spans, vectors=vectors: vectors[[spans[span] for span in asked]])
    (beads,) = align_documents(*sides, [(*map(range, sizes),)], method=method, max_joined=most)
    gain = Gain(sides, sizes, method, most)
    assert sum(bead.score for bead in beads) == pytest.approx(slow_sum(gain), abs=1e-4)
    for x, y, score in beads:
        if x and y:
            assert score == pytest.approx(gain(x.stop, y.stop, len(x), len(y)), abs=1e-4)


@pytest.mark.parametrize("seed", range(4))
def test_the_band_loses_nothing(monkeypatch, seed):
    rng = np.random.default_rng(seed)
    source, target = spoilt(500, rng), spoilt(500, rng)
    target = target[:100] + singles(range(1000, 1000 + 60 * seed)) + target[100 + 40 * seed :]  # exchanged, missing
    found = aligned(source, target)
    monkeypatch.setattr(engine, "WHOLE", 500)
    monkeypatch.setattr(engine, "ENCODED", 64)
    assert aligned(source, target) == found
    assert sum(len(x) == len(y) == 1 for x, y in found) > 150


def test_what_is_missing_joined_or_in_another_order_is_found():
    source = singles(range(40))
    target = singles(range(40))
    target[30:32] = [(31,), (30,)]
    target[20:23] = [(20, 21, 22)]
    target[10:12] = [(10, 11)]
    del target[5]
    target.insert(3, (999,))
    found = aligned(source, target)
    assert ((5,), ()) in found
    assert ((), (3,)) in found
    assert ((10, 11), (10,)) in found
    assert ((20, 21, 22), (19,)) in found
    assert ((30, 31), (27, 28)) in found
    assert sum(len(x) == len(y) == 1 for x, y in found) == 40 - 1 - 2 - 3 - 2
    assert {(y, x) for x, y in aligned(target, source)} == {*found}


def test_most_sentences_that_are_joined():
    source, target = singles(range(20)), [*singles(range(8)), (8, 9, 10), *singles(range(11, 20))]
    assert ((8, 9, 10), (8,)) in aligned(source, target)
    assert max(len(x) for x, _ in aligned(source, target, max_joined=2)) == 2


@pytest.mark.parametrize("sizes", [(0, 3), (3, 0), (1, 1), (1, 400), (300, 2)])
def test_sides_of_unlike_lengths(monkeypatch, sizes):
    monkeypatch.setattr(engine, "WHOLE", 300)
    found = aligned(*(singles(range(size)) for size in sizes))
    assert sum(bool(x and y) for x, y in found) == min(sizes)


def test_a_text_without_a_direction_is_no_translation():
    vectors = np.eye(6, dtype=np.float32)
    source = lambda spans: np.stack([vectors[i:j].sum(0) * (j - i > 1 or i != 2) for i, j in spans])  # noqa: E731
    (beads,) = align_documents(
        source, lambda spans: np.stack([vectors[i:j].sum(0) for i, j in spans]), [(range(6),) * 2]
    )
    assert sum(len(bead.source) for bead in beads) == 6
    assert np.isfinite([bead.score for bead in beads]).all()


def test_vectors_are_asked_for_once(monkeypatch):
    monkeypatch.setattr(engine, "vectors_of_random_texts", lambda encode, documents, most, rng: [None] * most)
    monkeypatch.setattr(engine, "_chance", lambda vectors, drawn, method: np.zeros((len(vectors), len(drawn))))
    monkeypatch.setattr(engine, "ENCODED", 16)
    asked = Counter(), Counter()
    sides = [planted(singles(range(100)), counter) for counter in asked]
    documents = [(range(60), range(70)), (range(60, 100), range(70, 100))]
    assert len([*align_documents(*sides, documents)]) == 2
    for counter, parts in zip(asked, zip(*documents)):
        expected = {(i, j) for d in parts for i in d for j in range(i + 1, min(i + 4, d.stop) + 1)}
        assert {*counter} == expected
        assert counter.total() < 1.05 * len(expected)  # shorter texts that stand for longer ones, at the beginning


@pytest.mark.parametrize("kind", [np.asarray, csr_array])
def test_a_long_stretch_is_held_in_portions(monkeypatch, kind):
    """However far the columns of a row reach: neither more texts at once nor other beads."""
    sides, most = [planted(singles(x)) for x in (range(8), range(400))], []

    def counting(encode):
        def asked(spans):
            most.append(len(spans))
            return kind(encode(spans))

        return asked

    found = []
    for size in (1000, 16):
        monkeypatch.setattr(engine, "ENCODED", size)
        method = "cosine" if kind is np.asarray else "dot"
        found += align_documents(*map(counting, sides), [(range(8), range(400))], method=method)
    assert max(most[:10]) > 1000
    assert max(most[-26:]) <= 16 * engine.MAX_JOINED
    assert [bead[:2] for bead in found[0]] == [bead[:2] for bead in found[1]]
    np.testing.assert_allclose(*([bead.score for bead in beads] for beads in found), rtol=1e-5)


def test_documents_are_paired():
    sizes = [5, 9, 3, 7, 6]
    ends = np.cumsum([0, *sizes]).tolist()
    source = [range(*both) for both in pairwise(ends)]
    order = [3, 0, 4, 2]
    target, meanings = [], []
    for i in order:
        target.append(range(len(meanings), len(meanings) + sizes[i] - 1))
        meanings += singles(source[i])[1:]
    encode = planted(singles(range(30))), planted(meanings)
    found = match_documents(*encode, (source, target))
    assert found == sorted((i, at) for at, i in enumerate(order))
    assert match_documents(*encode[::-1], (target, source)) == sorted((at, i) for at, i in enumerate(order))
