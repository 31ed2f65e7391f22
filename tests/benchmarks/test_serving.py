"""The benchmark on made-up text and a tiny encoder: every row is there, and a run that was stopped goes on."""

import json

import pytest
import serving
from builders import sentence_pairs
from tiny_models import save_tiny

from hfxling.evaluation.results import read_results


@pytest.mark.slow
def test_every_row_is_measured_once(tmp_path, capsys, monkeypatch):
    pytest.importorskip("onnxscript")
    pairs = sentence_pairs(120)
    monkeypatch.setattr(serving, "TRAIN", "1-90")
    monkeypatch.setattr(serving, "TEST", "91-120")
    monkeypatch.setattr(serving, "GATE", "1-20")
    (tmp_path / "ntrex").mkdir()
    for side, lang in enumerate(("zh", "vi")):
        (tmp_path / "ntrex" / f"{lang}.txt").write_text("".join(f"{pair[side]}\n" for pair in pairs), encoding="utf-8")
    encoder = save_tiny("bert", tmp_path / "tiny")
    options = ["--data", str(tmp_path), "--encoders", f"{encoder}@0", "--pairs", "zh-vi", "--graphs", "zh-vi"]
    options += ["--results_dir", str(tmp_path), "--cache_dir", str(tmp_path / "cache")]
    figures = serving.main(options)
    rows = read_results(tmp_path / "serving.json")
    whole = [row for row in rows if row.metric == "P@1"]
    labels = ["static", *(f"tiny {name}" for name in ("encoder", *serving.HEADS, *serving.GRAPHS.values()))]
    assert sorted(row.settings["row"] for row in whole) == sorted(labels * 2)
    assert all(row.n == 30 for row in rows)
    assert all("paired" in row.settings for row in whole if row.settings["row"].endswith(" raw"))
    assert {"tiny discriminant raw: points lost", "tiny cca raw: points lost"} <= figures.keys()
    assert figures["tiny discriminant raw, ONNX: points lost"] == 0
    assert {row.settings["dimensions"] for row in rows if "dimensions" in row.settings} >= {16}
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert str(tmp_path) not in json.dumps(told["settings"]["encoders"])

    for name in ("static", "heads", "graphs"):
        monkeypatch.setattr(serving, name, None)  # nothing is measured again
    serving.main(options)
    assert read_results(tmp_path / "serving.json") == rows
