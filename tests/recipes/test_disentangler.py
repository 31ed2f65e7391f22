"""The disentangler recipe, from text or vectors to a folder that loads anywhere."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from builders import command_line
from sentence_transformers import SentenceTransformer
from transformers import TrainingArguments

from hfxling.arguments import parse_arguments
from hfxling.encoders.frozen import FrozenEncoder
from hfxling.evaluation.results import read_results
from hfxling.methods.disentangler.arguments import TRAINING_DEFAULTS, DisentanglerArguments
from hfxling.models import DisentanglerModel
from recipes import disentangler

ROOT = Path(__file__).resolve().parents[2]
CONFIGS = sorted((ROOT / "recipes" / "configs").glob("disentangler/*_*.yaml"))
CHARACTERS = "我爱吃苹果你好今天下雨的是在有人不"


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    """Text of two language pairs, a QE set with scores, and one of its sentences in the training text."""
    folder, rng = tmp_path_factory.mktemp("data"), np.random.default_rng(0)
    texts = ["".join(rng.choice(list(CHARACTERS), 8)) for _ in range(140)]
    latin = ["".join(rng.choice(list("abdeghiklmnopqrstuvxy "), 8)).strip() + "n" for _ in texts]
    for pair, start in (("zh-vi", 0), ("zh-id", 60)):
        rows = [f"{a}\t{b}" for a, b in zip(texts[start : start + 60], latin[start : start + 60])]
        folder.joinpath(f"{pair}.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    (folder / "qe").mkdir()
    scores = rng.standard_normal(20)
    rows = [f"{a}\t{b}\t{score}" for a, b, score in zip(texts[119:139], latin[119:139], scores)]
    text = "source\ttarget\tz_mean\n" + "\n".join(rows) + "\n"
    (folder / "qe" / "zh-vi.test20.tsv").write_text(text, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def run(data, tiny_bert):
    """Run the recipe with the settings that every test shares."""

    def call(out, **options):
        shared = {"base_model": tiny_bert, "pairs": ["zh-vi", "zh-id"], "train_data": data / "{source}-{target}.tsv"}
        shared |= {"qe": data / "qe", "cache_dir": data / "cache", "num_train_epochs": 2, "use_cpu": True}
        shared |= {"learning_rate": 1e-2, "disable_tqdm": True, "probe_pairs": 6, "heads": "joint"}
        disentangler.main(command_line(shared | options | {"output_dir": out}))
        return Path(out) / "model"

    return call


@pytest.fixture(scope="module")
def published(run, tmp_path_factory) -> Path:
    return run(tmp_path_factory.mktemp("out"), prompt="in ")


def test_the_folder_is_complete_and_the_card_counts_the_leak(published):
    names = {path.name for path in published.iterdir()}
    assert names >= {"modules.json", "model.safetensors", "README.md", "results.json", "config.yaml", "trajectory.png"}
    assert names >= {"modeling_disentangler.py", "configuration_disentangler.py", "stock.py", "1_Pooling", "2_Dense"}
    card = (published / "README.md").read_text(encoding="utf-8")
    assert re.search(r", zh-vi .*\| +60 \| .*\| +0 \|.*, zh-id .*\| +59 \| .*\| +1 \|", card, re.DOTALL)
    assert "zh->vi" in card
    content = json.loads((published / "results.json").read_text(encoding="utf-8"))
    assert len(content["trajectory"]) == 3
    assert content["settings"]["objective"] == "both"


def test_the_folder_is_the_model_that_was_measured(published, data):
    rows = {(r.metric, r.settings["stage"]): r for r in read_results(published / "results.json") if r.split == "test20"}
    loaded = SentenceTransformer(str(published), device="cpu")
    text = (data / "qe" / "zh-vi.test20.tsv").read_text(encoding="utf-8").split("\n")[1:-1]
    source, target, scores = zip(*(line.split("\t") for line in text))
    cosines = (loaded.encode(list(source)) * loaded.encode(list(target))).sum(1)
    gold = np.array(scores, float)
    assert rows["Pearson", "after"].value == pytest.approx(np.corrcoef(cosines, gold)[0, 1], abs=1e-4)
    assert rows["Pearson", "before"].value != pytest.approx(rows["Pearson", "after"].value, abs=1e-4)


def test_every_language_pair_has_a_head_and_a_folder_of_its_own(run, data, tmp_path):
    scored = (data / "qe" / "zh-vi.test20.tsv").read_text(encoding="utf-8")
    (tmp_path / "qe").mkdir()
    for name in ("zh-vi", "zh-id", "en-de"):
        (tmp_path / "qe" / f"{name}.test20.tsv").write_text(scored, encoding="utf-8")
    more = {"heads": "auto", "qe": tmp_path / "qe"}
    run(tmp_path / "out", **more)
    heads = {}
    for pair in ("zh-vi", "zh-id"):
        folder = tmp_path / "out" / pair / "model"
        heads[pair] = DisentanglerModel.from_pretrained(folder).head.linear.weight
        tested = {row.direction for row in read_results(folder / "results.json") if row.split == "test20"}
        assert tested == {pair.replace("-", "->")}
        assert f"{pair}-meaning" in (folder / "README.md").read_text(encoding="utf-8")
    assert not torch.equal(heads["zh-vi"], heads["zh-id"])
    run(tmp_path / "out", resume_from_checkpoint=True, **more)
    again = DisentanglerModel.from_pretrained(tmp_path / "out" / "zh-id" / "model").head.linear.weight
    assert torch.equal(again, heads["zh-id"])
    with pytest.raises(ValueError, match="which of 2 heads"):
        run(tmp_path / "out", resume_from_checkpoint="checkpoint-1", **more)
    with pytest.raises(ValueError, match="there is no test set for zh-id; give others, or --heads joint"):
        run(tmp_path / "none", pairs=["zh-id"], heads="pair")


def test_training_goes_on_from_a_published_folder(published, run, tmp_path):
    folder = run(tmp_path, base_model=published, init="published", prompt="in ", learning_rate=0)
    first, again = (DisentanglerModel.from_pretrained(path).head.linear.weight for path in (published, folder))
    assert torch.equal(first, again)
    with pytest.raises(ValueError, match="was published with other settings"):
        run(tmp_path / "other", base_model=published, init="published", prompt="in ", bias=False)


def test_the_published_configuration_gives_the_same_model_again(published, tmp_path, data, no_matplotlib):
    options = {"config": published / "config.yaml", "cache_dir": data / "cache", "output_dir": tmp_path}
    disentangler.main(command_line(options))
    again = DisentanglerModel.from_pretrained(tmp_path / "model").head.linear.weight
    assert torch.allclose(again, DisentanglerModel.from_pretrained(published).head.linear.weight, atol=1e-6)
    names = [{path.name for path in folder.iterdir()} for folder in (published, tmp_path / "model")]
    assert names[0] - names[1] == {"trajectory.png"}  # without matplotlib only the picture is missing


def test_vectors_alone_give_the_same_split_as_their_encoder(run, published, data, tiny_bert, tmp_path):
    encoder, entries = FrozenEncoder(str(tiny_bert), [(None, "mean")], prompt="in "), {"train": [], "test": []}
    for split, paths in (("train", data.glob("*.tsv")), ("test", data.glob("qe/*.tsv"))):
        for path in paths:
            rows = [line.split("\t") for line in path.read_text(encoding="utf-8").split("\n")[split == "test" : -1]]
            files = [tmp_path / f"{split}.{path.stem}.{side}.npy" for side in range(2)]
            for side, file in enumerate(files):
                np.save(file, encoder([row[side].strip() for row in rows])[:, 0])
            entries[split].append(f"{path.name.split('.')[0]}={files[0]}+{files[1]}")
    vectors = {f"{split}_vectors": found for split, found in entries.items()}
    folder = run(tmp_path / "vectors", base_model=None, **vectors)
    with_encoder = DisentanglerModel.from_pretrained(published)
    model = DisentanglerModel.from_pretrained(folder)
    assert torch.allclose(model.head.linear.weight, with_encoder.head.linear.weight, atol=1e-5)
    snippet = re.search(r"```python\n(.*?)```", (folder / "README.md").read_text(encoding="utf-8"), re.DOTALL)[1]
    names = {}
    exec(snippet.replace('"zh-vi-id-meaning"', repr(str(folder))), names)
    parts = names["parts"]
    assert torch.allclose(parts.meaning + parts.language, parts.pooled, atol=1e-6)


def test_retrieval_where_there_are_no_scores(run, data, tmp_path):
    rows = data.joinpath("zh-vi.tsv").read_text(encoding="utf-8").split("\n")
    tmp_path.joinpath("test.tsv").write_text("\n".join(rows[:15]) + "\n", encoding="utf-8")
    folder = run(tmp_path / "out", qe=None, test_data=tmp_path / "test.tsv", pairs=["zh-vi"], objective="inter")
    rows = [row for row in read_results(folder / "results.json") if row.split == "test"]
    assert {(row.metric, row.direction) for row in rows} == {
        (m, d) for m in ("P@1", "P@5") for d in ("zh->vi", "vi->zh")
    }
    assert {row.n for row in rows} == {15}


ERRORS = {
    "missing file": ({"train_data": "no.tsv", "pairs": "zh-vi"}, "no.tsv does not exist"),
    "unknown key": ({"objectve": "both"}, "unknown key 'objectve' .* nearest known one is 'objective'"),
    "no test": ({"qe": None}, "nothing to test on"),
    "missing encoder": ({"base_model": "no/such/encoder"}, "base_model='no/such/encoder' is neither the folder"),
    "several pairs": ({"train_data": "no.tsv"}, "'no.tsv': which of zh-vi, zh-id is it for?"),
    "missing folder": ({"qe": "nowhere"}, "nowhere: no files like en-de.test20.tsv"),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors_are_one_line_and_leave_nothing(case, run, tmp_path, refusal):
    options, message = ERRORS[case]
    assert re.search(message, refusal(lambda: run(tmp_path / "out", **options)))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_the_papers_settings_are_in_its_configurations(path):
    types = (DisentanglerArguments, TrainingArguments)
    options = command_line({"config": path, "use_cpu": True, "bf16": False})
    args, training_args = parse_arguments(types, options, defaults=TRAINING_DEFAULTS)
    assert training_args.load_best_model_at_end
    assert (training_args.per_device_train_batch_size, training_args.learning_rate) == (512, 1e-4)
    assert args.objective == ("inter" if "gemini" in path.stem or "qwen3" in path.stem else "both")
