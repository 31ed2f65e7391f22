"""The picture of a soft alignment frames the links and names every unit."""

import numpy as np
import pytest

from hfxling.evaluation.plots import draw_alignment

pytest.importorskip("matplotlib")


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
        with pytest.raises(ValueError, match="is no alignment of"):
            draw_alignment(tmp_path / "pair.png", np.eye(2), source, ["b", "c"])
    assert not any(tmp_path.iterdir())
