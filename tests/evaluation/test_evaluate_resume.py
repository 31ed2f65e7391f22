"""Tasks that were finished are kept and not measured again, as long as nothing changed."""

import json
import sys
from pathlib import Path

import pytest
from builders import sentence_pairs
from tiny_models import save_tiny

import hfxling
from hfxling.evaluation.results import EvalResult, read_results
from hfxling.evaluation.tasks import TASKS, Task

ROOT = Path(__file__).resolve().parents[2]
EVALUATE = "hfxling.evaluation.evaluate"  # the module; hfxling.evaluate is the function


@pytest.fixture
def options(tmp_path) -> dict:
    save_tiny("bert", tmp_path / "model", layers=1)
    lines = "".join(f"{a}\t{b}\n" for a, b in sentence_pairs(40))
    (tmp_path / "pairs.tsv").write_text(lines, encoding="utf-8")
    return {
        "model": tmp_path / "model",
        "task": ["retrieval", "geometry", "probe"],
        "source": str(tmp_path / "pairs.tsv"),
        "languages": ("zh", "en"),
        "output": tmp_path / "out",
        "device": "cpu",
    }


@pytest.fixture
def counted(monkeypatch) -> list:
    """Names of the tasks that were measured."""
    calls = []
    for name in ("retrieval", "geometry", "probe"):
        measure = TASKS[name].measure

        def counting(self, *args, measure=measure, name=name):
            calls.append(name)
            return measure(self, *args)

        monkeypatch.setattr(TASKS[name], "measure", counting)
    return calls


def run(options):
    return hfxling.evaluate(**options).rows


def test_nothing_is_measured_twice_and_nothing_loaded(options, counted, monkeypatch):
    first = run(options | {"task": ["retrieval"]})
    assert counted == ["retrieval"]
    rows = run(options)
    assert counted == ["retrieval", "geometry", "probe"]
    assert [row.value for row in rows[:4]] == [row.value for row in first]
    monkeypatch.setattr(f"{EVALUATE}.load_encoder", lambda *given, **options: pytest.fail("a model was loaded"))
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
        with open(options["source"], "a", encoding="utf-8") as file:
            file.write("你好\tfurther\n")
    run(options | ({"methods": ["csls"]} if change == "setting" else {"prompt": "x"} if change == "prompt" else {}))
    assert counted == ["retrieval"] * 2
    run(options | {"batch_size": 3} | ({"methods": ["csls"]} if change == "setting" else {}))
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


def test_stopped_after_two_tasks_it_repeats_none(options, counted, monkeypatch):
    def stop(*args):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(TASKS["probe"], "measure", stop)
        with pytest.raises(KeyboardInterrupt):
            run(options)
    assert counted == ["retrieval", "geometry"]
    assert not (options["output"] / "results.json").exists()
    rows = run(options)
    assert counted == ["retrieval", "geometry", "probe"]
    assert {row.settings["task"] for row in rows} == {"retrieval", "geometry", "probe"}
    assert "key" not in json.loads((options["output"] / "results.json").read_text(encoding="utf-8"))


def test_rows_of_earlier_runs_are_whole(options, monkeypatch):
    class Odd(Task):
        needs = ()

        def read(self, text):
            return None, "x"

        def measure(self, text, encoder, row):
            return [EvalResult("odd", 1 / 3, 3, unit="", **row)]

    monkeypatch.setitem(TASKS, "odd", Odd)
    first, second = (run(options | {"task": ["odd"]}) for _ in range(2))
    assert second[0].value == pytest.approx(first[0].value, abs=1e-6)
    assert (second[0].low, second[0].n, second[0].settings) == (
        None,
        3,
        {"task": "odd", "kind": "dense vectors"},
    )


def test_the_role_of_a_model_is_part_of_what_was_measured(options, counted, tmp_path):
    """The same folder as model and as lexical model has other vectors: its static and its sparse ones."""
    rows = hfxling.load_parallel("sample", "zh", "vi").select(range(200))
    links = hfxling.fit_lexical(rows["source"], rows["target"], ("zh", "vi"), rank=4, progress=False)
    hfxling.save_lexical(links, tmp_path / "links")
    options |= {"task": ["retrieval"], "source": "sample", "split": "dev", "languages": ("zh", "vi")}
    del options["model"]
    dense = run(options | {"model": tmp_path / "links"})
    sparse = run(options | {"lexical": tmp_path / "links"})
    assert counted == ["retrieval"] * 2
    assert (dense[0].settings["method"], sparse[0].settings["method"]) == ("cosine", "dot")
    assert sparse[0].value > dense[0].value
    again = run(options | {"lexical": tmp_path / "links"})
    assert len(counted) == 2
    assert again[0].value == pytest.approx(sparse[0].value, abs=1e-6)


def test_another_commit_of_the_same_model_is_measured_anew(options, counted, monkeypatch):
    options["task"] = ["retrieval"]
    commits = {"main": "a" * 40, "v2": "b" * 40, None: "a" * 40}
    loaded = []

    def load_encoder(model, *lexical, revision=None, load=sys.modules[EVALUATE].load_encoder, **more):
        loaded.append(revision)
        return load(folder, *lexical, **more)

    folder = options["model"]
    monkeypatch.setattr(f"{EVALUATE}.load_encoder", load_encoder)
    monkeypatch.setattr(f"{EVALUATE}.identity", lambda model, revision=None: commits[revision])
    options["model"] = "org/model"
    for revision in (None, "main", "v2", "v2"):
        run(options | {"revision": revision})
    assert counted == ["retrieval"] * 2
    assert loaded == ["a" * 40, "b" * 40], "the commit that the key holds is the one that is loaded"
    commits["main"] = "c" * 40
    run(options | {"revision": "main"})
    assert len(counted) == 3


def test_a_loaded_model_is_never_taken_from_an_earlier_run(options, counted):
    from sentence_transformers import SentenceTransformer

    options |= {"task": ["retrieval"], "model": SentenceTransformer(str(options["model"]), device="cpu")}
    run(options)
    run(options)
    assert counted == ["retrieval"] * 2
    assert not (options["output"] / "tasks").exists()
