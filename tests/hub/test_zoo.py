"""The zoo's table: what is in it, and that every entry is what its command makes."""

import itertools
import json
import re
import shlex
from pathlib import Path

import pytest

from hfxling.data.sources import Source
from hfxling.hub.zoo import ZOO

ROOT = Path(__file__).resolve().parents[2]
CARDS = ROOT / "model_cards"
PAIRS = ("lo-zh", "id-zh", "vi-zh", "th-zh", "lo-th")


def test_the_zoo_has_every_family():
    wanted = {"zh-vi-sf", "zh-vi-sf-xlm", "zh-vi-sf-xlmr", "zh-vi-sf-mt5", "zh-vi-sf-cca", "dap-mbert", "dap-xlmr"}
    wanted |= {f"{name}-meaning" for name in ("labse", "me5", "qwen3", "gemini")}
    wanted |= {f"{pair}-{method}" for pair in PAIRS for method in ("aligner", "lexical")} | {"five-lexical"}
    assert wanted <= set(ZOO)
    assert {path.stem for path in CARDS.glob("*.md")} == set(ZOO)
    assert {path.stem for path in CARDS.glob("*.json")} <= set(ZOO)


@pytest.mark.parametrize("name", ZOO)
def test_a_command_runs_for_a_reader(name):
    """Configurations are ours, text is what the lines before fetch or the Hub has, no encoder is a folder."""
    words = ZOO[name].words()
    options = dict(itertools.pairwise(words))
    if "--config" in options:
        assert (ROOT / options["--config"]).is_file()
    assert re.fullmatch(r"\w[\w.-]*/\w[\w.-]*", ZOO[name].base or "a/b")
    start = words.index("--train_data") + 1 if "--train_data" in words else len(words)
    for word in words[start:]:
        if word.startswith("--"):
            break
        source = Source.parse(word)
        assert source.data.startswith("NTREX/") == bool(ZOO[name].before), word
        assert source.data.startswith("NTREX/") or ":" in source.data, "a data set of the Hub has a configuration"
    assert ".." not in ZOO[name].command()
    assert shlex.split(ZOO[name].command().splitlines()[-1])[1] == f"recipes/{ZOO[name].method}.py"


@pytest.mark.parametrize("name", ZOO)
def test_a_card_has_figures_where_there_is_a_record_and_else_the_command(name):
    card = (CARDS / f"{name}.md").read_text(encoding="utf-8")
    is_trained = (CARDS / f"{name}.json").is_file()
    assert ("model-index" in card) == is_trained
    assert ("Not trained at full size yet" in card) != is_trained
    assert ZOO[name].repo_id in card
    assert not re.search(r"\.\./|/work/|/home/|/root/", card)
    if is_trained:
        record = json.loads((CARDS / f"{name}.json").read_text(encoding="utf-8"))
        assert {"files", "digest"} <= record.keys()
    else:
        assert ZOO[name].command() in card
        assert ("It may not be released" in card) == bool(ZOO[name].release_fault())


def test_what_may_not_be_released_is_known():
    kept = {name for name, each in ZOO.items() if each.release_fault()}
    assert kept == {"zh-vi-sf-xlm", "dap-mbert", "dap-xlmr"}
