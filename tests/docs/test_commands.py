"""The command under every table of docs/results is one that its program accepts, and asks for what the file has."""

import argparse
import importlib
import json
import re
import shlex
from pathlib import Path

import pytest
import yaml
from transformers import TrainingArguments

from docs import commands
from hfxling.arguments import NOT_PUBLISHED, parse_arguments, resolved
from hfxling.evaluation.results import EvalResult, as_json, read_results
from hfxling.methods import method
from recipes.study import RECIPE, read_study

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / "results").glob("*.json"))
# Options that were told otherwise when a file was written: names of folders and lines, and where it took several runs.
OTHERWISE = ("data", "train_data", "folders", "name", "statistical")


def entries() -> dict[str, dict]:
    """What docs/results/questions.yaml says of every results file."""
    pages = yaml.safe_load((ROOT / "docs" / "results" / "questions.yaml").read_text(encoding="utf-8"))
    found = {}
    for page in pages.values():
        found |= page["files"]
    return found


ABOUT = entries()


def python_commands(text: str) -> list[list[str]]:
    """Script and options of every line that runs a script; 0 for a loop's variable."""
    found = []
    for line in text.replace("\\\n", " ").split("\n"):
        words = shlex.split(re.sub(r"\$\w+", "0", line))
        if words[:1] == ["python"] and words[1] != "-m":
            found.append(words[1:])
    return found


class Read(Exception):
    """Ends a script that has read its options; they are its argument."""


def options_of(script: str, words: list[str], monkeypatch) -> dict:
    """A program's options as it reads them: it refuses unknown ones, and asks for those that are missing."""
    assert (ROOT / script).is_file()
    name = Path(script).stem
    if script == RECIPE:
        study = read_study(words)
        assert (ROOT / words[words.index("--config") + 1]).is_file()
        assert study.args.results_dir == "results"
        return resolved(*study.settings()[0])
    if script.startswith("recipes/"):
        module = method(name)
        types = (module.Arguments, TrainingArguments)
        return resolved(*parse_arguments(types, words, defaults=module.TRAINING_DEFAULTS))
    module = importlib.import_module(name)
    if name == "margin_scale":  # reads its options as a recipe does
        return resolved(*parse_arguments((module.SiameseArguments, module.Naming), words))
    parse_args = argparse.ArgumentParser.parse_args

    def read(parser, argv=None, namespace=None):
        raise Read(vars(parse_args(parser, argv, namespace)))

    with monkeypatch.context() as patch:
        patch.setattr(argparse.ArgumentParser, "parse_args", read)
        with pytest.raises(Read) as found:
            module.main(words)
    return found.value.args[0]


def last(value) -> str:
    """A value without the folders above it."""
    return Path(str(value)).name


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_command_of_a_results_file_asks_for_the_settings_that_it_has(path, monkeypatch):
    monkeypatch.chdir(ROOT)
    content = json.loads(path.read_text(encoding="utf-8"))
    about = ABOUT.get(path.stem, {})
    for script, *words in python_commands(about.get("before", "")):
        options_of(script, words, monkeypatch)
    ((script, *words),) = python_commands(commands.command_of(path.stem, about, content["recipe"], ROOT))
    then, now = content["settings"], as_json(options_of(script, words, monkeypatch))
    if script == RECIPE:
        left_out = NOT_PUBLISHED.union(*(row.get("set") or {} for row in content["rows"]))
        if "activation_checkpointing" not in TrainingArguments.__dataclass_fields__:  # of an older transformers
            left_out |= {"activation_checkpointing", "gradient_checkpointing"}
        then, now = ({key: each[key] for key in each.keys() - left_out} for each in (then, now))
        assert now == then
        return
    for name in (then.keys() & now.keys()).difference(OTHERWISE):
        if isinstance(now[name], str | int | float) and isinstance(then[name], str | int | float):
            assert (name, last(now[name])) == (name, last(then[name]))
        elif isinstance(then[name], list) and all(isinstance(each, str | int) for each in now[name]):
            assert {last(each) for each in now[name]} == {last(each) for each in then[name]}, name


@pytest.mark.parametrize(
    ("recipe", "wanted"),
    [
        (RECIPE, "no recipes/configs/.* has this name, so add 'command: python recipes/study.py --config ...' to new"),
        ("benchmarks/x.py", "no script has this name, so add 'command: python benchmarks/x.py ...' .* to new"),
    ],
)
def test_a_file_that_no_command_is_known_of_is_named(recipe, wanted):
    with pytest.raises(ValueError, match=f"results/new.json: which command makes it[?] {wanted} in docs/results/"):
        commands.command_of("new", {}, recipe, ROOT)
    assert commands.command_of("new", {"command": "python x.py --new"}, recipe, ROOT) == "python x.py --new"


def test_a_script_that_has_moved_is_found():
    assert commands.command_of("mutants", {}, "benchmarks/mutants.py", ROOT) == "python tools/mutants.py"


def row(label, seconds, *, seed=0, stage="after", name="train_cpu_s", **fields):
    settings = {"stage": stage, "row": label} | ({} if seconds is None else {name: seconds})
    about = {"metric": "P@1", "value": 1.0, "n": 9, "dataset": "made", "split": "test", "seed": seed}
    return EvalResult(**about | fields, settings=settings)


STUDIED = [
    row("a", None, stage="before"),
    row("a", 30, stage="during", name="cpu_seconds"),
    row("a", 60, stage="during", name="cpu_seconds"),
    row("a", 60),
    row("a", 60, metric="P@5", dataset="other"),
    row("a", 120, seed=1),
    row("b", 600),
]


def test_a_training_run_counts_once():
    assert commands.training_minutes(RECIPE, STUDIED) == 1 + 2 + 10
    assert commands.training_minutes("benchmarks/align_baselines.py", STUDIED) == 1 + 1 + 2 + 10
    assert commands.training_minutes(RECIPE, [*STUDIED, row("c", None)]) is None
    assert commands.training_minutes("benchmarks/other.py", STUDIED) is None
    assert commands.training_minutes(RECIPE, STUDIED[:1]) is None


def test_links_of_both_kinds_of_vectors_count_once():
    rows = read_results(ROOT / "results" / "links_with_encoder.json")
    seconds = [each.settings["train_cpu_s"] for each in rows if each.settings["row"].startswith("sparse")]
    there_and_back = 2
    minutes = commands.training_minutes("benchmarks/links_with_encoder.py", rows)
    assert minutes == pytest.approx(sum(seconds) / there_and_back / 60)


@pytest.mark.parametrize(
    ("content", "rows", "told"),
    [
        ({"cpu_minutes": 37.4}, STUDIED, ", in 37 CPU minutes"),
        ({"cpu_minutes": 1234.5}, [], ", in 1,234 CPU minutes"),
        ({"cpu_minutes": 3.14}, [], ", in 3.1 CPU minutes"),
        ({"cpu_minutes": 0.2}, [], ", in less than a CPU minute"),
        ({}, STUDIED, ", in 13 CPU minutes of training, and testing beside"),
        ({}, [], "; CPU minutes were not recorded"),
    ],
)
def test_minutes_are_those_of_the_file_or_of_training_or_not_known(content, rows, told):
    assert commands.minutes_told({"recipe": RECIPE} | content, rows) == told


def test_what_stands_under_a_table():
    content = {"recipe": "benchmarks/pivot.py", "cpu_minutes": 5}
    line = "`python benchmarks/pivot.py` makes this table, in 5.0 CPU minutes."
    assert commands.made_by("pivot", {}, content, [], ROOT) == line
    one = commands.made_by("pivot", {"before": "make x"}, content, [], ROOT)
    assert one == f"{line} Before it comes `make x`."
    several = commands.made_by("pivot", {"before": "make x\nmake y\n"}, content, [], ROOT)
    assert several == f"{line} Before it comes:\n\n```bash\nmake x\nmake y\n```"
