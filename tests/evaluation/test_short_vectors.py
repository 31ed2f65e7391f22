import numpy as np
import pytest

from hfxling.evaluation.retrieval import retrieval_results
from hfxling.evaluation.short_vectors import FinalVectors, coded, short_vector_results

WIDTH = 300
FIELDS = {"dataset": "x", "split": "test", "seed": 3}


def sides(count, seed=0, noise=1.3):
    rng = np.random.default_rng(seed)
    strength = 0.985 ** np.arange(WIDTH)
    meaning = rng.normal(size=(count, WIDTH)) * strength
    return [(meaning + noise * (strength + 0.02) * rng.normal(size=meaning.shape)).astype(np.float32) for _ in range(2)]


@pytest.fixture(scope="module")
def rows():
    return short_vector_results(FinalVectors(("zh", "vi"), sides(200), sides(50, seed=1), FIELDS))


def row(rows, dimensions, precision, direction="zh->vi"):
    (found,) = (
        x
        for x in rows
        if (x.settings["dimensions"], x.settings["precision"], x.direction) == (dimensions, precision, direction)
    )
    return found


def test_every_length_precision_and_direction_is_measured_once(rows):
    places = [(x.settings["dimensions"], x.settings["precision"], x.direction) for x in rows]
    wanted = {
        (d, p, way)
        for d in (64, 128, 256, WIDTH)
        for p in ("float32", "int8", "binary")
        for way in ("zh->vi", "vi->zh")
    }
    assert len(places) == len(wanted)
    assert {*places} == wanted
    assert {(x.metric, x.dataset, x.seed, x.settings["stage"], x.n) for x in rows} == {("P@1", "x", 3, "after", 200)}
    sizes = {(x.settings["dimensions"], x.settings["precision"]): x.settings["bytes"] for x in rows}
    assert (sizes[64, "float32"], sizes[64, "int8"], sizes[64, "binary"], sizes[WIDTH, "binary"]) == (256, 64, 8, 38)


def test_all_components_as_they_are_find_what_the_vectors_find(rows):
    whole = retrieval_results(*sides(200), source_lang="zh", target_lang="vi", **FIELDS)
    assert [row(rows, WIDTH, "float32", way).value for way in ("zh->vi", "vi->zh")] == [
        x.value for x in whole if x.metric == "P@1"
    ]


def test_short_vectors_are_the_first_components(rows):
    cut = [side[:, :64] for side in sides(200)]
    assert (
        row(rows, 64, "float32").value == retrieval_results(*cut, source_lang="zh", target_lang="vi", **FIELDS)[0].value
    )
    assert row(rows, 64, "float32").value < row(rows, WIDTH, "float32").value


def test_int8_with_one_range_for_all_components_costs_next_to_nothing(rows):
    whole, train = row(rows, WIDTH, "float32").value, sides(50, seed=1)
    assert abs(row(rows, WIDTH, "int8").value - whole) <= 2
    most = max(np.abs(side / np.linalg.norm(side, axis=1, keepdims=True)).max() for side in train)
    assert row(rows, WIDTH, "int8").settings["range"] == pytest.approx(most, abs=1e-3)
    unit = train[0] / np.linalg.norm(train[0], axis=1, keepdims=True)
    np.testing.assert_allclose(
        coded(unit, "int8", most) * most / 127.5, unit, atol=1.51 * most / 127.5
    )  # codes are rounded down


def test_bits_are_compared_by_how_many_agree():
    vectors = np.array([[0.5, -0.5, 0.1, -0.7], [0.9, 0.1, -0.3, -0.3], [0.0, 0.0, 0.0, 0.0]], np.float32)
    codes = coded(vectors, "binary", 1.0)
    np.testing.assert_array_equal(codes, [[1, -1, 1, -1], [1, 1, -1, -1], [0, 0, 0, 0]])
    assert codes[0] @ codes[1] == 0  # two bits of four agree


def test_a_text_without_a_vector_is_found_by_nothing():
    test = sides(20, noise=0.0)
    for side in test:
        side[7] = 0.0
    rows = short_vector_results(FinalVectors(("zh", "vi"), test, sides(50, seed=1), FIELDS))
    assert row(rows, WIDTH, "float32").value == 95.0
