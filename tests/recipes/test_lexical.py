"""The recipe on a slice of the embedded corpus: counts, measures, publishes, twice the same."""

import json

import pytest
from sentence_transformers import SentenceTransformer

from hfxling.models.configuration_lexical import LexicalConfig
from hfxling.models.modeling_lexical import LexicalModel
from recipes.lexical import main

SMALL = ["--pairs", "zh-vi", "--train_data", "sample", "--max_train_pairs", "60", "--rank", "16", "--views", "fine"]


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    LexicalConfig.register_for_auto_class()
    LexicalModel.register_for_auto_class("AutoModel")
    folder = tmp_path_factory.mktemp("run")
    return folder, main([*SMALL, "--output_dir", str(folder / "one")])


def files_of(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_results_of_both_kinds_of_vectors_are_published(published):
    folder, results = published
    kinds = {(row.settings["method"], row.direction, row.metric) for row in results}
    assert len(kinds) == len(results)
    assert sum(row.metric in ("P@1", "P@5") for row in results) == 8
    copies = {row.metric for row in results} - {"P@1", "P@5"}
    assert copies == {f"{kind} copy wins" for kind in ("shuffled", "dropped", "number", "negated")}
    stored = json.loads((folder / "one" / "model" / "results.json").read_text())
    short = [row for row in stored["results"] if "dimensions" in row["settings"]]
    assert len(short) == 2 * 3 * 1  # directions, precisions; the tables are narrower than the shortest
    assert len(stored["results"]) == len(results) + len(short)
    assert stored["reached"]["links"] > 100
    card = (folder / "one" / "model" / "README.md").read_text()
    assert 'revision="sparse"' in card
    assert "does not certify" in card
    assert "task=" not in card  # one table for both languages
    assert SentenceTransformer(str(folder / "one" / "model"), device="cpu").encode("今天下雨。").shape == (16,)


def test_the_same_text_and_seed_give_the_same_bytes(published):
    folder, _ = published
    before = files_of(folder / "one" / "model")
    main([*SMALL, "--output_dir", str(folder / "one")])
    after = files_of(folder / "one" / "model")
    assert before.keys() == after.keys()
    assert {name for name in before if before[name] != after[name]} <= {"results.json"}  # it says how long it took


def test_several_languages_and_those_that_no_text_is_of(tmp_path):
    main([*SMALL, "--pairs", "vi-zh", "id-zh", "--output_dir", str(tmp_path)])
    card = (tmp_path / "model" / "README.md").read_text()
    assert "No text of vi-id was seen" in card
    assert 'task="vi"' in card
    with pytest.raises(ValueError, match="3 pairs are too few"):
        main([*SMALL, "--max_train_pairs", "3", "--output_dir", str(tmp_path / "few")])
