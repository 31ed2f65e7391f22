import json

import numpy as np
import pytest

from hfxling.evaluation.calibration import LENGTHS, Calibration, fit_calibration, log_lengths


@pytest.fixture(scope="module")
def cosines():
    return np.random.default_rng(0).uniform(0.2, 0.9, size=400)


def fit(cosines, human, **settings):
    return fit_calibration({"cosine": cosines}, human, **settings)


def noise(size, seed=1):
    return np.random.default_rng(seed).normal(0, 2, size=size)


def test_a_line_is_found_again(cosines):
    fitted = fit(cosines, 100 * cosines - 10 + noise(400))
    assert fitted.kind == "linear"
    np.testing.assert_allclose(fitted({"cosine": [0.3, 0.8]}), [20, 70], atol=1)
    assert fitted.errors["linear"]["mae"] == pytest.approx(2 * np.sqrt(2 / np.pi), rel=0.1)
    assert fitted.errors["linear"]["pearson"] > 0.99
    assert fitted.errors["mean"]["mae"] > 10


def test_a_step_needs_the_isotonic_map(cosines):
    fitted = fit(cosines, 80.0 * (cosines > 0.5) + noise(400))
    assert fitted.kind == "isotonic"
    np.testing.assert_allclose(fitted({"cosine": [0.4, 0.6]}), [0, 80], atol=3)
    assert fitted.errors["isotonic"]["mae"] < fitted.errors["linear"]["mae"] / 3


def test_scores_that_are_equal_but_for_one():
    """A fold without that one has a single score to learn from."""
    scores = np.zeros(40)
    scores[0] = 1
    human = 50 + noise(40)
    fitted = fit(scores, human)
    assert fitted({"cosine": [0.0]})[0] == pytest.approx(human[1:].mean())


@pytest.mark.parametrize("shape", [lambda x: -50 * x, lambda x: -80.0 * (x > 0.5)])
def test_human_scores_that_fall(cosines, shape):
    """Error rates: the better the translation, the lower."""
    fitted = fit(cosines, shape(cosines) + noise(400))
    assert fitted({"cosine": 0.3}) > fitted({"cosine": 0.8}) + 20


def test_errors_are_those_of_pairs_that_were_not_fitted(cosines):
    fitted = fit(cosines, np.random.default_rng(2).normal(50, 10, size=400))
    assert abs(fitted.errors["isotonic"]["pearson"]) < 0.15
    assert fitted.errors["isotonic"]["mae"] > 0.98 * fitted.errors["mean"]["mae"]


def test_constant_outside_the_knots(cosines):
    fitted = fit(cosines, 100 * cosines + noise(400))
    assert fitted({"cosine": -1.0}) == fitted({"cosine": cosines.min()})
    assert fitted({"cosine": 1.0}) == fitted({"cosine": cosines.max()})


@pytest.mark.parametrize("step", [False, True])
def test_saved_and_loaded(cosines, tmp_path, step):
    human = 80.0 * (cosines > 0.5) + noise(400) if step else 100 * cosines + noise(400)
    fitted = fit(cosines, human, settings={"model": "me/zh-vi"})
    fitted.save(tmp_path / "c.json")
    loaded = Calibration.load(tmp_path / "c.json")
    assert loaded == fitted
    np.testing.assert_array_equal(loaded({"cosine": cosines}), fitted({"cosine": cosines}))
    assert [path.name for path in tmp_path.iterdir()] == ["c.json"]


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        ([0.1] * 3, [1.0] * 2, r"shapes \(3,\) and \(2,\)"),
        (list(range(19)), list(range(19)), "19 pairs have a human score, but a calibration needs at least 20"),
        ([], [], "^0 pairs"),
        ([0.5] * 30, list(range(30)), "all 30 values of the cosine are 0.5"),
        (list(range(30)), [7] * 30, "all 30 values of the human score are 7"),
        (list(range(30)), [*range(29), float("nan")], "human score 30 of 30 is nan"),
    ],
)
def test_what_cannot_be_calibrated(x, y, message):
    with pytest.raises(ValueError, match=message):
        fit(x, y)


def two_scores(size=300):
    """Two scores that say as much each, and together all there is."""
    rng = np.random.default_rng(3)
    found = {"cosine": rng.normal(0.5, 0.1, size), "links": rng.normal(3, 2, size)}
    return found, 10 * (found["cosine"] - 0.5) + 0.5 * (found["links"] - 3) + rng.normal(0, 0.1, size)


def test_several_scores_are_weighted_together(tmp_path):
    values, human = two_scores()
    fitted = fit_calibration(values, human)
    assert fitted.kind == "linear"
    assert fitted.features["cosine"] == pytest.approx(20 * fitted.features["links"], rel=0.1)
    assert np.abs(fitted(values) - human).mean() < 0.12
    errors = {choice: error["mae"] for choice, error in fitted.errors.items()}
    assert errors["cosine + links, linear"] < min(errors["cosine, linear"], errors["links, linear"]) / 3
    fitted.save(tmp_path / "c.json")
    assert Calibration.load(tmp_path / "c.json") == fitted
    values["links"][0] = np.nan
    assert np.isnan(fitted(values)).tolist() == [True] + [False] * 299


def test_a_score_that_says_nothing_is_left_out():
    values, _ = two_scores()
    human = 4 * values["links"] + noise(300)
    values["cosine"] = np.random.default_rng(5).permutation(values["cosine"])
    fitted = fit_calibration(values, human)
    alone, both = (fitted.errors[f"{names}, linear"]["mae"] for names in ("links", "cosine + links"))
    assert alone == pytest.approx(both, rel=0.05)
    assert fitted.errors["cosine, linear"]["mae"] > 0.98 * fitted.errors["mean"]["mae"]
    assert "links" in fitted.features


def test_lengths_compete_beside_scores_and_never_alone():
    values, human = two_scores()
    lengths = {name: np.random.default_rng(i).uniform(2, 5, 300) for i, name in enumerate(LENGTHS)}
    fitted = fit_calibration(values | lengths, human - 2 * lengths["source length"])
    assert fitted.features["source length"] < 0 < fitted.features["links"]
    sets = {choice.rpartition(",")[0] for choice in fitted.errors}
    assert sets == {"", "cosine", "links", "cosine + links", "cosine + links + source length + target length"}
    np.testing.assert_allclose(log_lengths(["abc", "é"]), [np.log(3), 0])
    assert fit_calibration(values | dict.fromkeys(LENGTHS, np.ones(300)), human)  # all texts as long as each other


def test_the_file_of_one_cosine_is_what_it_was(cosines, tmp_path):
    fit_calibration({"cosine": cosines}, 100 * cosines + noise(400)).save(tmp_path / "c.json")
    content = json.loads((tmp_path / "c.json").read_text())
    assert [*content] == ["kind", "cosines", "scores", "errors", "pairs", "settings"]
    assert [*content["errors"]] == ["linear", "isotonic", "mean"]


GOOD = {"kind": "linear", "cosines": [0, 1], "scores": [0, 100], "errors": {}, "pairs": 20}


@pytest.mark.parametrize(
    "changed",
    [
        {"kind": "cubic"},
        {"cosines": [1, 0]},
        {"cosines": [0.5], "scores": [1]},
        {"scores": [0, 1, 2]},
        {"cosines": [0, 0.5, 1], "scores": [0, 100, 50]},
        {"cosines": "ab"},
        {"slope": 3},
        {"scores": [0, float("nan")]},
        {"features": {}},
        {"features": ["links"]},
        {"features": {"links": "x"}},
    ],
)
def test_damaged_files_are_refused(tmp_path, changed):
    path = tmp_path / "c.json"
    path.write_text(json.dumps(GOOD))
    assert Calibration.load(path)({"cosine": 0.5}) == 50
    path.write_text(json.dumps(GOOD | changed))
    with pytest.raises(ValueError, match=r"c\.json: not a calibration"):
        Calibration.load(path)


def test_files_that_are_none(tmp_path):
    with pytest.raises(FileNotFoundError, match="fit one from human scores first"):
        Calibration.load(tmp_path / "none.json")
    for content in ("score\tflags\n", "[" * 100_000):
        (tmp_path / "text.json").write_text(content)
        with pytest.raises(ValueError, match="not a calibration"):
            Calibration.load(tmp_path / "text.json")
