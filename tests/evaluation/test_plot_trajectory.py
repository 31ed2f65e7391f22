"""The picture of alignment and uniformity draws every epoch of every run."""

import numpy as np
import pytest

from hfxling.evaluation.plots import plot_trajectory

pytest.importorskip("matplotlib")


def test_every_point_of_every_run_is_drawn(tmp_path, monkeypatch):
    from matplotlib.axes import Axes
    from matplotlib.image import imread

    drawn, plot = {}, Axes.plot

    def seen(axes, x, y, *, label, **settings):
        drawn[label] = np.stack([x, y], 1)
        return plot(axes, x, y, label=label, **settings)

    monkeypatch.setattr(Axes, "plot", seen)
    runs = {"intra": [(0.8, -2.6), (0.7, -3.0), (0.7, -3.1)], "inter": [(0.8, -2.6), (0.4, -1.7)]}
    plot_trajectory(tmp_path / "trajectory.png", runs)
    assert imread(tmp_path / "trajectory.png").shape[:2] == (552, 648)
    assert {name: points.tolist() for name, points in drawn.items()} == {
        name: [list(point) for point in points] for name, points in runs.items()
    }
