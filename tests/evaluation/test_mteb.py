"""mteb's own API with our models: languages of both sides, prompts, scores; unknown tasks and no network."""

import json
from pathlib import Path

import pytest
from builders import sentence_pairs
from sentence_transformers import SentenceTransformer
from tiny_models import save_routed, save_tiny

mteb = pytest.importorskip("mteb", reason="needs mteb: pip install 'hfxling[mteb]'")

from datasets import Dataset, DatasetDict  # noqa: E402
from mteb.abstasks.task_metadata import TaskMetadata  # noqa: E402
from mteb.abstasks.text.bitext_mining import AbsTaskBitextMining  # noqa: E402

import hfxling  # noqa: E402
from hfxling.evaluation.mining import gold_only  # noqa: E402

SOURCE = [text for text, _ in sentence_pairs(25)]
TARGET = [f"{text}{other[:3]}" for text, other in sentence_pairs(25)]  # a random encoder knows letters alone


class Local(AbsTaskBitextMining):
    """A task whose text needs no network."""

    metadata = TaskMetadata(
        name="LocalBitext",
        dataset={"path": "local/text", "revision": "r1"},
        description="x",
        type="BitextMining",
        category="t2t",
        modalities=["text"],
        eval_splits=["test"],
        eval_langs={"zh-en": ["cmn-Hans", "eng-Latn"]},
        main_score="f1",
        reference=None,
        date=None,
        domains=None,
        task_subtypes=None,
        license=None,
        annotations_creators=None,
        dialect=None,
        sample_creation=None,
        bibtex_citation=None,
    )

    def load_data(self, **kwargs):
        split = Dataset.from_dict({"sentence1": SOURCE, "sentence2": TARGET})
        self.dataset, self.data_loaded = DatasetDict({"zh-en": DatasetDict({"test": split})}), True


@pytest.fixture
def run(tmp_path, monkeypatch):
    get = mteb.get_task
    monkeypatch.setattr(
        mteb, "get_task", lambda name, **about: Local() if name == "LocalBitext" else get(name, **about)
    )
    save_tiny("bert", tmp_path / "plain", layers=1)

    def call(name="LocalBitext", model="plain", **options):
        options = {"model": tmp_path / model, "mteb": [name], "output": tmp_path / "out", "device": "cpu"} | options
        return hfxling.evaluate(**options).rows

    return call


def test_scores_are_those_of_our_own_functions(run, tmp_path):
    (row,) = run()
    model = SentenceTransformer(str(tmp_path / "plain"), device="cpu")
    assert row.value == pytest.approx(gold_only(model.encode(SOURCE), model.encode(TARGET)).mean() / 100)
    assert 0.1 < row.value < 1
    assert (row.metric, row.n, row.direction, row.revision) == ("mteb f1", 25, "zh-en", "r1")
    assert (row.dataset, row.settings["task"]) == ("LocalBitext", "mteb:LocalBitext")


def test_each_side_takes_its_languages_part_of_the_model(run, tmp_path):
    save_routed(tmp_path / "plain", tmp_path / "routed", ("zh", "en"))
    (row,) = run(model="routed")
    model = SentenceTransformer(str(tmp_path / "routed"), device="cpu")
    right, wrong = (
        gold_only(model.encode(SOURCE, task="zh"), model.encode(TARGET, task=task)).mean() / 100
        for task in ("en", "zh")
    )
    assert row.value == pytest.approx(right)
    assert right != pytest.approx(wrong), "the case must tell parts apart"


def test_the_files_of_mteb_say_what_the_model_is(run, tmp_path):
    card = "---\nlicense: mit\nlanguage: [zh, vi]\nbase_model: org/base\ndatasets: [org/pairs]\n---\n# A model\n"
    (tmp_path / "plain" / "README.md").write_text(card, encoding="utf-8")
    (row,) = run()
    (meta,) = (json.loads(path.read_text()) for path in (tmp_path / "out/mteb").rglob("model_meta.json"))
    model = SentenceTransformer(str(tmp_path / "plain"), device="cpu")
    parameters = sum(tensor.numel() for tensor in model.parameters())
    about = (meta["n_parameters"], meta["embed_dim"], meta["max_tokens"], meta["similarity_fn_name"])
    assert about == (parameters, model.encode(["a"]).shape[1], model.max_seq_length, "cosine")
    assert (meta["license"], meta["adapted_from"], meta["languages"]) == ("mit", "org/base", ["zho-Hans", "vie-Latn"])
    assert meta["training_datasets"] in (["org/pairs"], "{'org/pairs'}")
    (scores,) = (json.loads(path.read_text()) for path in (tmp_path / "out/mteb").rglob("LocalBitext.json"))
    assert scores["scores"]["test"][0]["main_score"] == pytest.approx(row.value, abs=1e-6)


def test_a_finished_task_is_kept(run, tmp_path, monkeypatch):
    (row,) = run()
    monkeypatch.setattr(mteb, "evaluate", None)
    assert run()[0].value == pytest.approx(row.value, abs=1e-6)


def test_mistakes_end_in_one_line(run, refusal):
    assert "mteb='Nope' is not a task of mteb" in refusal(lambda: run("Nope"))
    assert "mteb=STS17: could not fetch its text" in refusal(lambda: run("STS17", only_languages=["ara"]))
    assert not Path("outputs/evaluate/results.json").exists()
