"""Tasks that were finished are kept and not measured again, as long as nothing changed."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from builders import command_line, sentence_pairs
from tiny_models import save_tiny

from hfxling.evaluation.results import EvalResult, read_results
from hfxling.old import evaluate
from hfxling.old.tasks import Task

ROOT = Path(__file__).resolve().parents[2]
ZH_EN = {"source_lang": "zh", "target_lang": "en"}


@pytest.fixture
def options(tmp_path) -> dict:
    save_tiny("bert", tmp_path / "model", layers=1)
    lines = "".join(f"{a}\t{b}\n" for a, b in sentence_pairs(40))
    (tmp_path / "pairs.tsv").write_text(lines, encoding="utf-8")
    place = {"output": tmp_path / "out", "data": tmp_path / "pairs.tsv", "device": "cpu"}
    return {"model": tmp_path / "model", "task": ["retrieval", "geometry", "probe"], **place, **ZH_EN}


@pytest.fixture
def counted(monkeypatch) -> list:
    """Names of the tasks that were measured."""
    calls = []
    for name in ("retrieval", "geometry", "probe"):
        task = evaluate.TASKS[name]

        def measure(*args, task=task, name=name):
            calls.append(name)
            return task.measure(*args)

        monkeypatch.setitem(evaluate.TASKS, name, Task(task.load, measure, task.needs, task.dense, task.files))
    return calls


def run(options):
    return evaluate.main(command_line(options))


def test_nothing_is_measured_twice_and_nothing_loaded(options, counted, monkeypatch):
    first = run(options | {"task": ["retrieval"]})
    assert counted == ["retrieval"]
    rows = run(options)
    assert counted == ["retrieval", "geometry", "probe"]
    assert [row.value for row in rows[:4]] == [row.value for row in first]
    monkeypatch.setattr(evaluate.EvaluateArguments, "any_encoder", None)
    again = run(options)
    assert len(counted) == 3
    assert [row.value for row in again] == pytest.approx([row.value for row in rows], abs=1e-6)
    written = read_results(options["output"] / "results.json")
    assert [row.items.pack() for row in written if row.items] == [row.items.pack() for row in again if row.items]


@pytest.mark.parametrize("change", ["model", "text", "setting", "prompt"])
def test_another_model_text_or_setting_is_measured_anew(options, counted, change):
    options["task"] = ["retrieval"]
    run(options)
    if change == "model":
        save_tiny("bert", options["model"], layers=2)
    elif change == "text":
        with open(options["data"], "a", encoding="utf-8") as file:
            file.write("你好\tfurther\n")
    run(options | ({"methods": "csls"} if change == "setting" else {"prompt": "x"} if change == "prompt" else {}))
    assert counted == ["retrieval"] * 2
    run(options | {"batch_size": 3} | ({"methods": "csls"} if change == "setting" else {}))
    assert len(counted) == (3 if change == "prompt" else 2) - (change == "prompt"), "a batch size changes nothing"


def test_a_file_that_is_not_what_its_name_says_is_refused(options, refusal, capfd):
    options["task"] = ["retrieval"]
    run(options)
    capfd.readouterr()
    (path,) = (options["output"] / "tasks").iterdir()
    path.write_text(path.read_text(encoding="utf-8").replace(path.stem[-16:], "0" * 16), encoding="utf-8")
    assert f"{path} was measured with another model, text or setting" in refusal(lambda: run(options))
    path.write_text("{", encoding="utf-8")
    assert f"{path}: not a results file" in refusal(lambda: run(options))


def test_killed_after_two_tasks_it_repeats_none(options, counted):
    words = command_line(options)
    code = f"""
import os, signal
from hfxling.old import evaluate
from hfxling.old.tasks import Task
probe = evaluate.TASKS["probe"]
def kill(*args):
    os.kill(os.getpid(), signal.SIGKILL)
evaluate.TASKS["probe"] = Task(probe.load, kill, probe.needs, probe.dense, probe.files)
evaluate.main({words!r})
"""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, env=environment)
    assert done.returncode == -signal.SIGKILL
    assert not (options["output"] / "results.json").exists()
    rows = run(options)
    assert counted == ["probe"]
    assert {row.settings["task"] for row in rows} == {"retrieval", "geometry", "probe"}
    assert "key" not in json.loads((options["output"] / "results.json").read_text(encoding="utf-8"))


def test_rows_of_earlier_runs_are_whole(options, monkeypatch):
    def odd(args, text, encoder, baseline, about):
        return [EvalResult("odd", 1 / 3, 3, unit="", **about)]

    monkeypatch.setitem(evaluate.TASKS, "odd", Task(lambda args, data: (None, "x"), odd, needs=()))
    first, second = (run(options | {"task": ["odd"]}) for _ in range(2))
    assert second[0].value == pytest.approx(first[0].value, abs=1e-6)
    assert (second[0].low, second[0].n, second[0].settings) == (None, 3, {"task": "odd"})


def test_a_model_that_is_first_downloaded_is_kept_under_its_commit(options, counted, monkeypatch):
    known = []

    def any_encoder(args, name=None, load=evaluate.EvaluateArguments.any_encoder):
        known.append("commit")
        return load(args, name)

    monkeypatch.setattr(evaluate.EvaluateArguments, "any_encoder", any_encoder)
    monkeypatch.setattr(evaluate.EvaluateArguments, "fingerprints", lambda args: known[:1] or [None])
    options["task"] = ["retrieval"]
    run(options)
    run(options)
    assert counted == ["retrieval"]
    monkeypatch.setattr(evaluate.EvaluateArguments, "fingerprints", lambda args: [None])
    run(options)
    run(options)
    assert counted == ["retrieval"] * 3, "what cannot be told apart is never taken"
