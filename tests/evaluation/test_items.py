"""Items in result rows: what they hold, and that they read back."""

import json
from dataclasses import replace

import numpy as np
import pytest

from hfxling.evaluation.averages import mean_result
from hfxling.evaluation.items import Items, mean_items
from hfxling.evaluation.results import EvalResult, read_results, write_results


@pytest.mark.parametrize(
    ("items", "packed"),
    [
        (mean_items([100, 0, 100]), ["%101"]),
        (mean_items([1, 0, 7]), ["107"]),
        (mean_items([0.25, -1e-7]), [[0.25, -1e-7]]),
        (Items("F1", (np.array([[1, 1, 1], [0, 1, 2]]),)), ["10", "11", "12"]),
        (Items("pearson", (np.array([[0.5, 1 / 3], [1, 2]]),)), [[0.5, 1.0], [0.333333, 2.0]]),
    ],
)
def test_columns_are_packed_and_read_back(items, packed):
    content = items.pack()
    assert content == {"kind": items.kind, "groups": [packed]}
    read = Items.unpack(json.loads(json.dumps(content)))
    assert read.kind == items.kind
    assert np.allclose(read.groups[0], items.groups[0], rtol=1e-5)


@pytest.mark.parametrize(
    "content",
    [
        None,
        {"kind": "mean", "groups": []},
        {"kind": "mode", "groups": [["%1"]]},
        {"kind": "mean", "groups": [["%1", "%0"]]},
        {"kind": "mean", "groups": [["x"]]},
        {"kind": "mean", "groups": [[[1.0, None]]]},
        {"kind": "mean", "groups": [[[]]]},
        {"kind": "F1", "groups": [["1", "11", "1"]]},
    ],
)
def test_what_is_no_items_is_refused(content):
    with pytest.raises(ValueError, match="items that cannot be read"):
        Items.unpack(content)


def test_a_results_file_keeps_items_only_where_asked(tmp_path):
    row = mean_result("P@1", [100.0, 0.0], dataset="d", split="test", settings={"a": np.float32(0.5)})
    row = replace(row, low=9.5, high=90.5)  # a file keeps six decimals
    bare = EvalResult("x", 1.0, 1, "d", "test")
    write_results(tmp_path / "without.json", [row, bare])
    write_results(tmp_path / "with.json", [row, bare], with_items=True)
    assert "items" not in (tmp_path / "without.json").read_text()
    kept, none = read_results(tmp_path / "with.json")
    assert kept.items.groups[0].ravel().tolist() == [100, 0]
    assert none.items is None
    assert kept == row, "items are no part of what a row says"
    text = (tmp_path / "with.json").read_text()
    (tmp_path / "broken.json").write_text(text.replace('"%10"', '"%1x"'))
    with pytest.raises(ValueError, match=r"broken.json: results\[0\]: items that cannot be read; measure it again"):
        read_results(tmp_path / "broken.json")
