"""What every benchmark promises: options, a last line for programs, a results file that is rendered."""

import importlib
import json
from pathlib import Path

import harness
import pytest

from hfxling.evaluation.results import EvalResult
from hfxling.evaluation.tables import study_table

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
PROGRAMS = sorted(path.stem for path in BENCHMARKS.glob("*.py") if "__main__" in path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_benchmark_starts(name, capsys):
    """Its imports hold, so a change of the package has not left it behind."""
    assert len(PROGRAMS) > 9
    with pytest.raises(SystemExit) as stop:
        importlib.import_module(name).main(["--help"])
    assert not stop.value.code
    assert "usage" in capsys.readouterr().out


@pytest.mark.parametrize("goals", [None, {"ratio": "> 2"}])
def test_report_ends_with_one_object(tmp_path, capsys, goals):
    figures = {"lo-zh": {"ratio": 0.00065, "bf16": None}, "pairs": 3}
    path = tmp_path / "x.json"
    assert harness.report("x", figures, {"size": 1}, title="T", path=path, goals=goals, curve=[1, 2]) == figures
    *lines, last = capsys.readouterr().out.splitlines()
    assert json.loads(last) == {"name": "x", "figures": figures | {"curve": [1, 2]}, "settings": {"size": 1}}
    (shown,) = (line for line in lines if "ratio" in line)
    assert "0.00065" in shown
    assert ("> 2" in shown) == bool(goals)
    content = json.loads(path.read_text())
    assert (content["title"], content["figures"], content["results"]) == ("T", figures, [])
    assert (content["recipe"], content["curve"]) == ("benchmarks/x.py", [1, 2])


def test_a_stopped_run_goes_on_with_the_same_settings_only(tmp_path):
    settings = {"name": "made", "results_dir": str(tmp_path), "pairs": ("a-b",), "epochs": 3, "seeds": 1}
    assert harness.earlier_rows(settings, "seeds") == []
    rows = [EvalResult("Pearson", 0.1, 9, "made", "dev", settings={"stage": "after", "row": label}) for label in "xy"]
    harness.write_rows("x", rows, settings, title="T", labels=["x", "y"], metrics=["Pearson"])
    assert harness.earlier_rows(settings | {"seeds": 2}, "seeds") == rows
    assert harness.earlier_rows(settings | {"epochs": 4}, "seeds") == []
    assert harness.earlier_rows(settings | {"further": None}, "seeds") == []
    content = json.loads((tmp_path / "made.json").read_text())
    _, table = study_table(rows, content["rows"], content["paper_columns"], content["show"])
    assert [line[0] for line in table] == ["x", "y"]  # it can be rendered before it is complete


def test_cpu_minutes_of_a_stopped_run_are_added_once(tmp_path, monkeypatch):
    settings = {"name": "made", "results_dir": str(tmp_path), "pairs": ["a-b"]}
    path = tmp_path / "made.json"
    rows = [EvalResult("P@1", 10.0, 9, "made", "dev", settings={"stage": "after", "row": label}) for label in "xyz"]

    def written(seconds, rows):
        """What the file says after so many CPU seconds of the process."""
        monkeypatch.setattr("os.times", lambda: (seconds, 0.0, 0.0, 0.0, 1e9))
        harness.write_rows("x", rows, settings, title="T", labels=["x", "y"], metrics=["P@1"])
        return json.loads(path.read_text(encoding="utf-8")).get("cpu_minutes")

    assert harness.earlier_rows(settings) == []
    assert written(60, rows[:1]) == 1.0
    assert written(120, rows[:2]) == 2.0, "still the same run"

    assert harness.earlier_rows(settings) == rows[:2]
    assert [written(30, rows), written(90, rows)] == [2.5, 3.5]

    assert harness.earlier_rows(settings | {"pairs": ["c-d"]}) == []
    assert written(30, rows) == 0.5, "nothing was taken over"


def test_cpu_minutes_are_left_out_where_those_of_the_earlier_run_are_not_known(tmp_path, monkeypatch):
    path = tmp_path / "x.json"
    path.write_text(json.dumps({"settings": {"size": 1}, "figures": {"ratio": 1}}), encoding="utf-8")
    monkeypatch.setattr("os.times", lambda: (60.0, 0.0, 0.0, 0.0, 1e9))

    def written():
        harness.report("x", {"ratio": 1}, {"size": 1}, path=path)
        return json.loads(path.read_text(encoding="utf-8")).get("cpu_minutes")

    assert harness.earlier_file(path, {"size": 1})["figures"] == {"ratio": 1}
    assert written() is None
    assert harness.earlier_file(path, {"size": 2}) == {}
    assert written() == 1.0
    harness.minutes_unknown(path)
    assert written() is None


def test_a_results_file_names_the_folder_of_its_script(tmp_path):
    path = tmp_path / "chaos.json"
    harness.report("chaos", {}, {}, path=path, folder="tools")
    assert json.loads(path.read_text(encoding="utf-8"))["recipe"] == "tools/chaos.py"
