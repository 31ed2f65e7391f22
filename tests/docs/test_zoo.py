"""Published models: each has a record of a run that a reader can repeat, and a card that says what the record says."""

import inspect
import json
import re
import shlex

import pytest

import hfxling
from docs.zoo import CARDS, ROOT, zoo_card, zoo_records, zoo_table
from hfxling.data.licences import release_fault
from hfxling.data.sources import Source
from hfxling.evaluation.results import read_results
from hfxling.hub.agreement import card_faults
from hfxling.hub.record import is_intact

RECORDS = zoo_records(ROOT)
PAIRS = ("lo-zh", "id-zh", "vi-zh", "th-zh", "lo-th")


def record_of(path):
    return json.loads(path.read_text(encoding="utf-8"))


def test_every_card_has_a_record():
    assert {path.stem for path in (ROOT / CARDS).glob("*.md")} == {path.stem for path in RECORDS}
    assert {f"{pair}{part}" for pair in PAIRS for part in ("", "-lexical")} <= {path.stem for path in RECORDS}


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_a_record_is_whole_and_of_public_things(path):
    content = path.read_text(encoding="utf-8")
    record = json.loads(content)
    assert is_intact(record)
    assert record["files"]
    assert record["card"]["repo_id"] == f"hfxling/{path.stem}"
    assert not re.search(r"\.\./|\"\./|/work/|/home/|/root/|/tmp/", content)
    parts = {entry["name"]: entry["licence"] for entry in record["card"]["train_data"]}
    if "/" in record["card"]["base_model"]:
        parts["base"] = record["card"]["base_licence"]
    assert release_fault(record["card"]["licence"], parts) is None
    assert not card_faults(zoo_card(path), read_results(path), record["card"])


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_its_command_is_one_for_a_reader(path):
    """Options are those of the command or the recipe, and text is what the page says how to fetch."""
    card = record_of(path)["card"]
    words = shlex.split(card["training_command"])
    assert card["training_command"] in zoo_card(path)
    options = {word.removeprefix("--") for word in words if word.startswith("--")}
    if words[:2] == ["hfxling", "fit"]:
        assert options <= {*inspect.signature(hfxling.select).parameters}
    else:
        assert words[:3] == ["accelerate", "launch", f"recipes/{card['method']}.py"]
    sources = [Source.parse(word) for word in words if "NTREX/" in word]
    assert sources
    for source in sources:
        assert re.fullmatch(r"NTREX/NTREX-128/newstest2019-ref\.[a-z]{3}(-CN)?\.txt(\+NTREX.*)?", source.data)


def test_the_table_has_every_model():
    table = zoo_table(ROOT)
    for path in RECORDS:
        assert f"[{path.stem}]({CARDS}/{path.stem}.md)" in table
    assert all(re.search(r"\d\d\.\d / \d\d\.\d", line) for line in table.splitlines()[2:])
