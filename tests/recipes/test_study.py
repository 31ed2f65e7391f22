"""Studies, and that every configuration that is shipped can be read."""

import json
import re
from pathlib import Path

import pytest
import yaml
from builders import TEST, TRAIN, command_line, sentence_pairs
from transformers import TrainingArguments
from versions import older

from hfxling.arguments import parse_arguments, resolved
from hfxling.evaluation.results import EvalResult, read_results
from hfxling.evaluation.tables import UNTRAINED
from hfxling.methods import METHODS, aligner, method
from hfxling.methods.publishing import Run
from recipes import study
from recipes.study import finished_runs, read_study

LAST = f"{TRAIN + 1}-{TRAIN + TEST}"
SHOW = {"metric": ["P@1"], "direction": ["forward"], "centering": ["none"], "method": ["cosine"]}
ROOT = Path(__file__).resolve().parents[2]
CONFIGS = ROOT / "recipes" / "configs"
PACKAGED = ["outputs/encoders/me5-small"]  # encoders that benchmarks/encoders.py writes


def _is_shown(row):
    return (row.metric, row.settings["centering"], row.settings["method"]) == ("P@1", "none", "cosine")


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    """pairs.tsv, and back.tsv with the same pairs the other way round."""
    folder, pairs = tmp_path_factory.mktemp("data"), sentence_pairs(TRAIN + TEST)
    folder.joinpath("pairs.tsv").write_text("".join(f"{zh}\t{vi}\n" for zh, vi in pairs), encoding="utf-8")
    folder.joinpath("back.tsv").write_text("".join(f"{vi}\t{zh}\n" for zh, vi in pairs), encoding="utf-8")
    return folder


@pytest.fixture
def configuration(data, tiny_bert, tmp_path):
    """Write the YAML of a study with these rows and options; returns its path."""

    def write(rows, study=(), **options):
        content = {
            "study": {"name": "tiny", "title": "Tiny", "rows": rows, "seeds": [0, 1], "show": SHOW, **dict(study)}
        }
        content |= {
            "base_model": str(tiny_bert),
            "train_data": [f"{data}/pairs.tsv@1-{TRAIN}"],
            "layer": "2",
            "fit": "cca",
        }
        content |= {"test_data": [f"{data}/pairs.tsv@{LAST}"]}
        content |= {"pairs": ["zh-vi"], "cache_dir": str(data / "cache"), "use_cpu": True}
        path = tmp_path / "study.yaml"
        path.write_text(yaml.safe_dump(content | options), encoding="utf-8")
        return path

    return write


@pytest.fixture
def run(tmp_path, capsys):
    """Run a study; returns its result rows, what it printed, and the JSON of the last line."""

    def call(path, *words):
        study.main(["--config", str(path), "--results_dir", str(tmp_path / "results"), *words])
        lines = capsys.readouterr().out.rstrip("\n").split("\n")
        return read_results(tmp_path / "results" / "tiny.json"), lines, json.loads(lines[-1])

    return call


def test_rows_of_layers_that_the_encoder_lacks_are_left_out(configuration, run, tmp_path):
    rows = [
        {"label": "two", "paper": [63.1, 81.7]},
        {"label": "nine", "set": {"layer": "9"}, "paper": [60.9, 79.1]},
        {"label": "last, ridge", "set": {"layer": "last", "fit": "ridge"}},
    ]
    results, lines, summary = run(configuration(rows, study={"paper_columns": ["P@1", "P@5"]}))
    assert summary["name"] == "tiny"
    assert summary["settings"] == {"seeds": [0, 1]}
    assert list(summary["figures"]) == ["two", "last, ridge"]
    table = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line.startswith("| ")]
    assert [line[0] for line in table] == ["", "two", "last, ridge"]
    assert [line[-2:] for line in table] == [["paper P@1", "paper P@5"], ["63.1", "81.7"], ["", ""]]
    for label, fit, layer in (("two", "cca", "2"), ("last, ridge", "ridge", "last")):
        found = [row for row in results if row.settings.get("row") == label]
        assert {(row.settings["fit"], row.settings["layer"], row.n) for row in found} == {(fit, layer, TEST)}
        first = next(row for row in found if row.settings["centering"] == "none" and row.metric == "P@1")
        assert summary["figures"][label]["P@1"].startswith(f"{first.value:.1f} ±0.0 (")
    content = json.loads((tmp_path / "results" / "tiny.json").read_text(encoding="utf-8"))
    assert (content["title"], content["rows"]) == ("Tiny", rows)


def test_a_study_without_any_row_left_is_an_error(configuration, run):
    with pytest.raises(ValueError, match="study tiny: the encoder has none of the layers"):
        run(configuration([{"label": "nine", "set": {"layer": "9"}}]))


def test_fractions_end_in_a_forecast(configuration, run):
    rows = [{"label": "half", "set": {"fraction": 0.5}}, {"label": "all"}]
    results, lines, summary = run(configuration(rows, fit="procrustes"))
    runs = {
        (row.settings["row"], row.settings["pairs"], row.seed) for row in results if row.settings["stage"] == "after"
    }
    assert runs == {(label, pairs, seed) for label, pairs in (("half", TRAIN // 2), ("all", TRAIN)) for seed in (0, 1)}
    gain, low, high = summary["figures"]["another_1000_pairs"]
    assert low <= gain <= high
    assert any(line.startswith(f"another 1,000 pairs, points of P@1: {gain:+.1f} (90 % band") for line in lines)


def test_rows_on_other_text_do_not_share_vectors(configuration, run, data):
    back = {"pairs": ["vi-zh"]} | {
        key: [f"{data}/back.tsv@{lines}"] for key, lines in (("train_data", f"1-{TRAIN}"), ("test_data", LAST))
    }
    half = f"{data}/pairs.tsv@{TRAIN + 1}-{TRAIN + TEST // 2}"
    rows = [
        {"label": "there"},
        {"label": "back", "set": back},
        {
            "label": "first half of the test",
            "set": {"test_data": [half]},
        },
    ]
    results, _, summary = run(configuration(rows, fit="procrustes"))
    about = {row.settings["row"]: (row.direction, row.n) for row in reversed(results) if "row" in row.settings}
    assert about == {
        "there": ("zh->vi", TEST),
        "back": ("vi->zh", TEST),
        "first half of the test": ("zh->vi", TEST // 2),
    }
    after = {
        (row.settings["row"], row.direction): row.value
        for row in results
        if row.settings["stage"] == "after" and _is_shown(row)
    }
    assert after["there", "vi->zh"] == after["back", "vi->zh"]
    assert summary["figures"]["back"]["P@1"].startswith(f"{after['back', 'vi->zh']:.1f}")


def test_the_command_line_sets_keys_of_study_and_model(configuration, run):
    path = configuration([{"label": "one"}], study={"name": "other"})
    results, _, _ = run(path, "--name", "tiny", "--layer", "1", "--seeds=3")
    after = next(row for row in results if row.settings["stage"] == "after")
    assert (after.settings["layer"], after.seed) == ("1", 3)


def test_a_stopped_study_goes_on_and_rows_may_have_fewer_seeds(tmp_path, monkeypatch, capsys):
    done = []

    def one_run(args, training_args, prepared):
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append((training_args.seed, args.size))
        row = EvalResult("P@1", args.size + training_args.seed, 5, "d", "test", settings={"stage": "after"})
        return Run([row], {"steps": 1})

    monkeypatch.setattr(aligner, "prepare", lambda rows, training_args: [row.size for row in rows])
    monkeypatch.setattr(aligner, "run", one_run)
    rows = [
        {"label": "small", "set": {"size": 8}},
        {"label": "middle", "set": {"size": 12}, "seeds": [1]},
        {"label": "large", "set": {"size": 16}},
    ]
    content = {"study": {"name": "tiny", "title": "Tiny", "method": "aligner", "seeds": [0, 1], "rows": rows}}
    content |= {"pairs": ["lo-zh"], "train_data": ["sample"], "use_cpu": True}
    path = tmp_path / "study.yaml"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    command = ["--config", str(path), "--results_dir", str(tmp_path)]
    with pytest.raises(KeyboardInterrupt):
        study.main([*command, "--disable_tqdm", "true"])
    assert done == [(0, 8), (0, 16)]
    done.insert(0, None)  # so that nothing stops it
    study.main(command)
    assert done[3:] == [(1, 8), (1, 12), (1, 16)]
    study.main(command)  # nothing is left to run
    assert len(done) == 6
    values = {(row.settings["row"], row.seed): row.value for row in read_results(tmp_path / "tiny.json")}
    wanted = {("small", 0): 8, ("large", 0): 16, ("small", 1): 9, ("middle", 1): 13, ("large", 1): 17}
    assert values == wanted
    assert json.loads(capsys.readouterr().out.rstrip().split("\n")[-1])["figures"]["middle"] == {
        "P@1": "13.0",
        "steps": "1",
    }
    rows.append({"label": "new", "set": {"size": 20}})
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    study.main(command)
    assert done[6:] == [(0, 20), (1, 20)]


def test_cpu_minutes_of_a_study_that_was_stopped_add_up(tmp_path, monkeypatch):
    result = EvalResult("P@1", 1.0, 5, "d", "test", settings={"stage": "after"})
    monkeypatch.setattr(aligner, "prepare", lambda rows, training_args: None)
    monkeypatch.setattr(aligner, "run", lambda args, training_args, prepared: Run([result], {"steps": 1}))
    rows = [{"label": "small", "set": {"size": 8}}, {"label": "large", "set": {"size": 16}}]
    content = {"study": {"name": "tiny", "title": "Tiny", "method": "aligner", "seeds": [0], "rows": rows}}
    content |= {"pairs": ["lo-zh"], "train_data": ["sample"], "use_cpu": True}
    path, written = tmp_path / "study.yaml", tmp_path / "tiny.json"

    def minutes_after(seconds, rows):
        """What the file says after a process of so many CPU seconds, a tenth of them in those that it started."""
        content["study"]["rows"] = rows
        path.write_text(yaml.safe_dump(content), encoding="utf-8")
        monkeypatch.setattr("os.times", lambda: (0.8 * seconds, 0.1 * seconds, 0.1 * seconds, 0.0, 1e9))
        study.main(["--config", str(path), "--results_dir", str(tmp_path)])
        return json.loads(written.read_text(encoding="utf-8")).get("cpu_minutes")

    assert minutes_after(90, rows[:1]) == 1.5
    assert minutes_after(60, rows) == 2.5, "those of the run that it goes on with, once"
    assert minutes_after(600, rows) == 2.5, "nothing was left to run"
    longer = [*rows, {"label": "new", "set": {"size": 20}}]
    others = [{"label": label, "set": {"size": 24}} for label in ("small", "large", "new")]
    assert minutes_after(30, longer) == 3.0
    assert minutes_after(30, others) == 0.5, "no row was taken over"
    without = json.loads(written.read_text(encoding="utf-8"))
    del without["cpu_minutes"]
    written.write_text(json.dumps(without), encoding="utf-8")
    assert minutes_after(30, [*others, longer[0] | {"label": "further"}]) is None


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        ([{"label": "a"}], {"study": {"seed": 1}}, "unknown key 'seed' in .*study.yaml, study; .* is 'seeds'"),
        ([{"label": "a"}], {"learning_rat": 1}, "unknown key 'learning_rat' in .*yaml; .* is 'learning_rate'"),
        ([{"label": "a"}, {"lable": "b"}], {}, "unknown key 'lable' in .*yaml, row 2; .* is 'label'"),
        ([{"label": "a", "set": {"layr": 2}}], {}, "unknown key 'layr' in .*yaml, row 1; .* is 'layer'"),
        ([{"label": "a"}, {"label": "a"}], {}, "every row needs a label of its own"),
        ([{"label": "a", "set": {"fit": "lda"}}], {}, "fit='lda' is not one of auto, centred, cca"),
        ([{"label": "a"}], {"base_model": "no/such/encoder"}, "base_model='no/such/encoder' is neither"),
    ],
)
def test_mistakes_in_a_study_are_one_line(rows, options, message, configuration, tmp_path, refusal):
    words = ["--config", str(configuration(rows, **options)), "--results_dir", str(tmp_path / "results")]
    assert re.search(message, refusal(lambda: study.main(words)))
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("study: [", "not valid YAML"),
        ("layer: 2", "has no 'study' entry with rows or grid; to train one model use the method's recipe"),
        ("- 1", "need lines of the form"),
        (None, "no such configuration"),
        ("study: {name: ../../s, title: t, rows: [{label: a}]}", "name='../../s': use only letters"),
        ("study: {name: s, title: t, rows: [3]}", r"rows=\[3\]: give a list of entries with keys"),
        ("study: {name: s, title: t, grid: [3]}", r"grid=\[3\]: give a list of entries"),
        ("study: {name: s, title: t, grid: [{a: 3}]}", "grid: .*give each label the keys that it sets"),
        ("study: {name: s, title: t, rows: [{label: a, set: 3}]}", "row a: set=3: give the keys that it sets"),
        ("study: {name: s, title: t, rows: [{label: a, seeds: 3}]}", "row a: seeds=3: give a list of numbers"),
    ],
)
def test_files_that_are_no_study(text, message, tmp_path):
    path = tmp_path / "study.yaml"
    if text is not None:
        path.write_text(text)
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        read_study([f"--config={path}"])


def configurations(pattern):
    return [pytest.param(path, id=f"{path.parent.name}/{path.stem}") for path in sorted(CONFIGS.glob(pattern))]


def results_of(path):
    """The results file of a study's configuration."""
    study = yaml.safe_load(path.read_text(encoding="utf-8"))["study"]
    return ROOT / "results" / f"{study['name']}.json"


def left_to_the_command_line(path, given):
    """Of the options given those that neither the configuration nor a row of its study sets."""
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    study = content.get("study", {})
    rows = [*study.get("rows", ()), *({"set": keys} for axis in study.get("grid", ()) for keys in axis.values())]
    own = {*content, *(key for row in rows for key in row.get("set") or {})}
    return command_line({key: value for key, value in given.items() if key not in own})


@pytest.mark.parametrize("path", [p for name in METHODS for p in configurations(f"{name}/**/*.yaml")])
def test_shipped_configurations(path):
    name = path.relative_to(CONFIGS).parts[0]
    given = {"train_data": "x.tsv", "test_data": "y.tsv", "base_model": "x"} if name == "siamese" else {}
    words = ["--config", str(path), "--use_cpu", "true", *left_to_the_command_line(path, given)]
    if path.parent.name != "studies":
        types = (method(name).Arguments, TrainingArguments)
        _, training_args = parse_arguments(types, [*words, "--bf16", "false"], defaults=method(name).TRAINING_DEFAULTS)
        assert training_args.output_dir.startswith("outputs/")
        return
    read = read_study(words)
    assert read.args.method == name
    assert read.args.name in (f"{name}_study_{path.stem}", path.stem.replace("heads", "siamese"))
    assert len(read.settings()) == len(read.rows) > 1
    assert all(len(row.get("paper") or []) <= len(read.args.paper_columns) for row in read.rows)


def test_a_grid_has_a_row_for_every_choice():
    read = read_study(["--config", str(CONFIGS / "siamese" / "studies" / "heads_ntrex_zh_vi.yaml")])
    assert len(read.rows) == 2 + 2 * 7 * 6
    assert read.rows[-1] == {
        "label": "mini-labse 6 contrastive",
        "set": {"base_model": "../shared/models/mini-labse", "layer": "6", "fit": "contrastive"},
    }


@pytest.mark.shared
@pytest.mark.parametrize("path", [p for p in configurations("*/studies/*.yaml") if results_of(p.values[0]).is_file()])
def test_a_finished_study_runs_nothing(path, shared_data, monkeypatch):
    """Settings and rows of a tracked results file are those of its configuration."""
    monkeypatch.chdir(ROOT)
    content = json.loads(results_of(path).read_text(encoding="utf-8"))
    then, measured_with = content["settings"], content["versions"]
    if any(older(name, measured_with[name]) for name in ("torch", "transformers", "sentence-transformers", "datasets")):
        pytest.skip("other versions measure anew")
    monkeypatch.setattr("recipes.study.package_versions", lambda: measured_with)
    given = {key: then[key] for key in ("base_model", "train_data", "test_data") if key in then}
    if given.get("base_model") in PACKAGED and not Path(given["base_model"]).is_dir():
        pytest.skip(f"write {given['base_model']} first: python benchmarks/encoders.py me5-small")
    words = left_to_the_command_line(path, given)
    words += ["--layer", then["layer"]] if "\nlayer:" in path.read_text(encoding="utf-8") else []
    read = read_study(["--config", str(path), "--results_dir", "results", *words])
    settings = read.settings()
    _, after = finished_runs(read, resolved(*settings[0]))
    done = {(row.seed, row.settings["row"]) for row in after}
    wanted = {
        (seed, row["label"])
        for row, (own, _) in zip(read.rows, settings)
        for seed in row.get("seeds", read.args.seeds)
        if own.is_possible() and row["label"] != UNTRAINED
    }
    stale = {(row.seed, row.settings["row"]) for row in read_results(read.path) if "stale" in row.settings}
    assert wanted - done == stale


def test_every_shipped_configuration_is_of_a_known_recipe():
    recipes = {path.stem for path in CONFIGS.parent.glob("*.py")}
    assert {path.name for path in CONFIGS.iterdir()} <= recipes
    assert {"quickstart.yaml", "mbert_zh_vi.yaml", "studies"} <= {path.name for path in (CONFIGS / "siamese").iterdir()}
