"""Columns of a study's table are named by what tells them apart."""

from hfxling.evaluation.results import EvalResult
from hfxling.evaluation.tables import study_table


def row(metric, **settings):
    return EvalResult(metric, 50.0, 9, "made", "test", settings={"stage": "after", "row": "x"} | settings)


def test_a_figure_without_centring_is_not_called_centred():
    rows = [row("P@1", centering="none"), row("P@1", centering="train"), row("AER", method="itermax")]
    header, _ = study_table(rows, [{"label": "x"}])
    assert header[2:] == ["P@1", "P@1 centred (train)", "AER itermax"]


def test_a_mean_over_seeds_says_over_how_many():
    lines = study_table([row("P@1", by_seed=[0.1, 0.3, 0.2])], [{"label": "x"}])[1]
    assert lines[0][:2] == ["x", 3]
    assert study_table([row("P@1")], [{"label": "x"}])[1][0][1] == 1
