"""Projections are principal components of unit vectors; pictures show every point and name every unit."""

import numpy as np
import pytest
from sklearn.decomposition import PCA

from hfxling.evaluation.plots import draw_alignment, plot_trajectory, project_2d, scatter_before_after

pytest.importorskip("matplotlib")


def groups(*counts, size=8, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((count, size)).astype(np.float32) + i for i, count in enumerate(counts)]


def test_projection_is_the_pca_of_all_unit_vectors_together():
    source, target = groups(20, 30)
    together = np.concatenate([x / np.linalg.norm(x, axis=1, keepdims=True) for x in (source, target)])
    expected = PCA(2).fit_transform(together)
    found = np.concatenate(project_2d(source, target))
    for axis in range(2):
        sign = np.sign(found[0, axis] * expected[0, axis])
        np.testing.assert_allclose(found[:, axis], sign * expected[:, axis], atol=1e-5)


def test_a_png_of_both_stages_with_a_line_for_each_pair(tmp_path, monkeypatch):
    from matplotlib.axes import Axes
    from matplotlib.collections import LineCollection
    from matplotlib.image import imread

    lines, labels = [], []
    add_collection, scatter = Axes.add_collection, Axes.scatter

    def seen_lines(axes, collection, **settings):
        if isinstance(collection, LineCollection):
            lines.append(np.array(collection.get_segments()))
        return add_collection(axes, collection, **settings)

    def seen_scatter(axes, x, y, *, label, **settings):
        labels.append((axes.get_title(), label, np.stack([x, y])))
        return scatter(axes, x, y, label=label, **settings)

    monkeypatch.setattr(Axes, "add_collection", seen_lines)
    monkeypatch.setattr(Axes, "scatter", seen_scatter)
    path = tmp_path / "new" / "embeddings.png"
    before, after = groups(12, 12), groups(12, 12, seed=1)
    for array in (*before, *after):
        array[10:] = np.nan  # past the limit: drawing them would fail
    scatter_before_after(path, before, after, ["zh", "vi"], limit=10)
    assert imread(path).shape[:2] == (552, 1200)
    assert [label for _, label, _ in labels] == ["zh", "vi", "zh", "vi"]
    for stage, pair in enumerate((before, after)):
        source, target = project_2d(*(side[:10] for side in pair))
        ends = lines[stage]  # (pairs, source and target, x and y)
        np.testing.assert_array_equal(ends[:, 0], source)
        np.testing.assert_array_equal(ends[:, 1], target)
        np.testing.assert_array_equal(labels[2 * stage][2], source.T)


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


def test_links_are_framed_and_units_are_numbered(tmp_path, monkeypatch):
    from matplotlib.axes import Axes

    frames, labels, add, ticks = [], [], Axes.add_patch, Axes.set_xticks
    monkeypatch.setattr(Axes, "add_patch", lambda axes, patch: frames.append(patch.get_xy()) or add(axes, patch))
    monkeypatch.setattr(Axes, "set_xticks", lambda axes, at, names, **k: labels.extend(names) or ticks(axes, at, names))
    path = tmp_path / "pair.png"
    draw_alignment(path, np.eye(2, 3), ["今天", "ມື້"], ["hôm", "nay", "$x$"], [(0, 0), (1, 2)])
    assert path.read_bytes().startswith(b"\x89PNG")
    assert np.allclose(np.array(frames) + 0.46, [(0, 0), (2, 1)])  # across, down
    assert labels == ["0 hôm", "1 nay", "2 $x$"]


def test_a_matrix_of_another_shape_is_refused(tmp_path):
    for source in (["a"], []):
        with pytest.raises(ValueError, match="does not fit"):
            draw_alignment(tmp_path / "pair.png", np.eye(2), source, ["b", "c"])
    assert not any(tmp_path.iterdir())
