"""The recipe on a slice of the embedded corpus: trains, measures, publishes, goes on from what it published."""

import json

import pytest
from sentence_transformers import SentenceTransformer

from hfxling.models.configuration_aligner import AlignerConfig
from hfxling.models.modeling_aligner import AlignerModel
from recipes.aligner import main

SMALL = [
    *("--source_lang", "lo", "--target_lang", "zh", "--train_data", "sample", "--max_train_pairs", "48"),
    *("--size", "8", "--num_train_epochs", "1", "--evaluate_every", "1", "--use_cpu", "--disable_tqdm", "true"),
]


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    AlignerConfig.register_for_auto_class()
    AlignerModel.register_for_auto_class("AutoModel")
    folder = tmp_path_factory.mktemp("run")
    extra = ["--extra_pairs", "lo-th=sample", "--negatives", "inter+intra"]
    return folder, main([*SMALL, *extra, "--output_dir", str(folder)])


def test_results_before_and_after_are_published(published):
    folder, results = published
    stages = {row.settings.get("stage") for row in results if row.dataset == "dictionary lo-zh" and row.metric == "P@1"}
    assert stages == {"before", "after"}
    stored = json.loads((folder / "model" / "results.json").read_text())
    assert len(stored["results"]) == len(results)
    assert stored["trained"]["steps"] == 6  # 48 pairs of each of two language pairs, in batches of 16
    card = (folder / "model" / "README.md").read_text()
    assert "extra_pairs" in card
    assert 'task="lo"' in card


def test_the_folder_loads_and_knows_all_languages(published):
    folder, _ = published
    assert AlignerModel.from_pretrained(folder / "model").config.languages == ["lo", "zh", "th"]
    model = SentenceTransformer(str(folder / "model"), device="cpu")
    assert model.encode(["ฝน"], task="th").shape == (1, 8)


def test_training_goes_on_from_a_published_model(published, tmp_path):
    folder, _ = published
    results = main([*SMALL, "--model", str(folder / "model"), "--output_dir", str(tmp_path)])
    assert AlignerModel.from_pretrained(tmp_path / "model").config.languages == ["lo", "zh", "th"]
    assert results


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (["--model", "nowhere/at-all"], "model='nowhere/at-all' is no aligner's folder or Hub id"),
        (["--dictionaries", "lo-vi"], "'lo-vi' is not of the form lo-zh=FILE"),
        (["--dictionaries", "lo-zh=none.tsv"], "none.tsv: no such dictionary"),
    ],
)
def test_what_a_user_can_get_wrong(extra, message, tmp_path):
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        main([*SMALL, *extra, "--output_dir", str(tmp_path)])


def test_a_start_from_cooccurrences_knows_words_before_training(tmp_path):
    results = main([*SMALL, "--init", "cooccurrence", "--max_steps", "1", "--output_dir", str(tmp_path)])
    before = next(row for row in results if row.metric == "P@5" and row.settings.get("stage") == "before")
    assert before.value > 5
    assert not (tmp_path / "best.safetensors").exists()  # the Dice dictionary could not choose
