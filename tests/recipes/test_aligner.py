"""The recipe on a slice of the embedded corpus: trains, measures, publishes, goes on from what it published."""

import json

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

import hfxling
from hfxling.methods.aligner.evaluate import GOLD_METHODS
from hfxling.models.configuration_aligner import AlignerConfig
from hfxling.models.modeling_aligner import AlignerModel
from hfxling.words.prior import load_prior
from recipes.aligner import main

SMALL = [
    *("--pairs", "lo-zh", "--train_data", "sample", "--max_train_pairs", "48"),
    *("--size", "8", "--num_train_epochs", "1", "--evaluate_every", "1", "--use_cpu", "--disable_tqdm", "true"),
]


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    AlignerConfig.register_for_auto_class()
    AlignerModel.register_for_auto_class("AutoModel")
    folder = tmp_path_factory.mktemp("run")
    extra = ["--pairs", "lo-zh", "lo-th", "--negatives", "inter+intra"]
    return folder, main([*SMALL, *extra, "--output_dir", str(folder)])


def test_results_before_and_after_are_published(published):
    folder, results = published
    stages = {row.settings.get("stage") for row in results if row.dataset == "dictionary lo-zh" and row.metric == "P@1"}
    assert stages == {"before", "after"}
    stored = json.loads((folder / "model" / "results.json").read_text())
    assert len(stored["results"]) == len(results)
    assert stored["reached"]["steps"] == 6  # 48 pairs of each of two language pairs, in batches of 16
    card = (folder / "model" / "README.md").read_text()
    assert "lo-th" in card
    assert 'task="lo"' in card


def test_the_folder_loads_and_knows_all_languages(published):
    folder, _ = published
    assert AlignerModel.from_pretrained(folder / "model").config.languages == ["lo", "zh", "th"]
    model = SentenceTransformer(str(folder / "model"), device="cpu")
    assert model.encode(["ฝน"], task="th").shape == (1, 8)


def test_training_goes_on_from_a_published_model(published, tmp_path):
    folder, _ = published
    with pytest.raises(ValueError, match="has a prior for no pair"):
        main([*SMALL, "--model", str(folder / "model"), "--prior", "true", "--output_dir", str(tmp_path)])
    results = main([*SMALL, "--model", str(folder / "model"), "--output_dir", str(tmp_path)])
    assert AlignerModel.from_pretrained(tmp_path / "model").config.languages == ["lo", "zh", "th"]
    assert results


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (["--model", "nowhere/at-all"], "model='nowhere/at-all' is neither the folder of an aligner"),
        (["--dictionaries", "lo-vi"], "'lo-vi' is not of the form lo-zh=FILE"),
        (["--dictionaries", "lo-zh=a.tsv", "lo-zh=b.tsv"], "dictionaries: lo-zh is given twice"),
        (["--dictionaries", "lo-zh=none.tsv"], "none.tsv: no such dictionary"),
    ],
)
def test_what_a_user_can_get_wrong(extra, message, tmp_path):
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        main([*SMALL, *extra, "--output_dir", str(tmp_path)])


def test_a_prior_travels_with_the_model_and_gold_links_are_scored(tmp_path):
    gold = tmp_path / "gold.tsv"
    gold.write_text("ຂ້ອຍ ກິນ\t我 吃\t0-0 1-1\nເຈົ້າ\t你\t0-0\n", encoding="utf-8")
    more = tmp_path / "more.tsv"
    more.write_text("ຂ້ອຍ ກິນ ເຂົ້າ\t我 吃 饭\nເຈົ້າ ມາ\t你 来\n", encoding="utf-8")
    words = [
        *SMALL,
        "--train_data",
        "sample",
        str(more),
        "--prior",
        "true",
        "--gold",
        f"lo-zh={gold}",
        "--output_dir",
        str(tmp_path / "out"),
    ]
    results = main(words)
    scored = [row for row in results if row.metric == "AER" and row.settings["stage"] == "after"]
    assert [row.settings["decoding"] for row in scored] == [*GOLD_METHODS, "prior alone", "by agreement"]
    folder = tmp_path / "out" / "model"
    config = AlignerModel.from_pretrained(folder).config
    assert config.priors == ["lo-zh"]
    prior, swapped = (load_prior(str(folder), config, pair) for pair in (("lo", "zh"), ("zh", "lo")))
    ids = [[5, 6, 7]], [[8, 9]]
    for one, two in zip(prior.posteriors(*ids)[0], swapped.posteriors(*ids[::-1])[0][::-1]):
        np.testing.assert_array_equal(one, two.T)
    assert load_prior(str(folder), config, ("lo", "th")) is None
    main([*SMALL, "--model", str(folder), "--output_dir", str(tmp_path / "on")])  # goes on with the prior that it has
    assert (tmp_path / "on" / "model" / "prior_lo-zh.safetensors").is_file()
    again = main([*words, "--model", str(folder), "--num_train_epochs", "0", "--output_dir", str(tmp_path / "again")])
    values = [[row.value for row in rows if row.settings["stage"] == "after"] for rows in (results, again)]
    assert values[0] == pytest.approx(values[1])
    assert len(hfxling.align_words(["ຂ້ອຍ ກິນ ເຂົ້າ"], ["我 吃 饭"], model=folder, symmetrize="mean").pairs) == 1
