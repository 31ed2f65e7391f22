"""Neighbours by models with and without parts for languages."""

from itertools import product
from pathlib import Path

import pytest
import torch
from sentence_transformers import SentenceTransformer
from tiny_models import save_routed, save_tiny

import hfxling
from hfxling.data.sample import sample_texts
from hfxling.encoders.dense import SentenceEncoder
from hfxling.encoders.fusion import fit_fusion
from hfxling.encoders.sparse import LexicalEncoder
from hfxling.old import evaluate, nearest
from hfxling.old.model import FusedArguments


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    save_tiny("bert", folder / "plain")
    save_routed(folder / "plain", folder / "routed")
    save_routed(folder / "plain", folder / "asymmetric", ("document", "query"))
    return folder


def shown(capsys) -> list[tuple[str, list[tuple[float, str]]]]:
    blocks = capsys.readouterr().out.strip("\n").split("\n\n")
    return [
        (lines[0], [(float(score), text) for score, text in (line.strip().split("  ", 1) for line in lines[1:])])
        for lines in (block.split("\n") for block in blocks)
    ]


def expected(model, sentence, candidates, *tasks) -> tuple[float, str]:
    source, target = (
        torch.nn.functional.normalize(model.encode(texts, task=task, convert_to_tensor=True), dim=1)
        for texts, task in zip(([sentence], candidates), tasks or (None, None))
    )
    best = (source @ target.T)[0].max(0)
    return best.values.item(), candidates[best.indices]


def test_a_model_without_parts_and_candidates_of_a_file(folder, tmp_path, capsys):
    candidates = ["hello", "rain today", "I love apples"]
    (tmp_path / "c.txt").write_text("hello\n\nrain today\n  I love apples\n", encoding="utf-8")
    asked = ["今天下雨", "我爱你"]
    nearest.main([*asked, "--model", str(folder / "plain"), "--candidates", str(tmp_path / "c.txt"), "--top", "2"])
    found = shown(capsys)
    assert [sentence for sentence, _ in found] == asked
    assert {len(hits) for _, hits in found} == {2}
    score, text = expected(SentenceTransformer(str(folder / "plain")), asked[0], candidates)
    assert found[0][1][0] == (pytest.approx(score, abs=1e-3), text)


def test_a_models_languages_are_its_routes_in_their_order(folder, capsys):
    candidates, model = sample_texts("vi", "test"), SentenceTransformer(str(folder / "routed"))
    nearest.main(["今天下雨", "--model", str(folder / "routed")])
    ((_, hits),) = shown(capsys)
    score, text = expected(model, "今天下雨", candidates, "zh", "vi")
    assert hits[0] == (pytest.approx(score, abs=1e-3), text)
    assert {text for _, text in hits} <= {*candidates}
    nearest.main(["bạn", "--model", str(folder / "routed"), "--source_lang", "vi", "--target_lang", "zh", "--top", "1"])
    ((_, hits),) = shown(capsys)
    score, _ = expected(model, "bạn", sample_texts("zh", "test"), "vi", "zh")
    assert hits[0][0] == pytest.approx(score, abs=1e-3)


def test_parts_for_queries_and_documents_are_no_languages(folder, capsys):
    nearest.main(["hello", "--model", str(folder / "asymmetric"), "--target_lang", "en", "--top", "1"])
    ((_, hits),) = shown(capsys)
    model = SentenceTransformer(str(folder / "asymmetric"))
    score, _ = expected(model, "hello", sample_texts("en", "test"), "query", "document")
    assert hits[0][0] == pytest.approx(score, abs=1e-3)


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        ("plain", [], "target_lang=None: give --candidates FILE, or a --target_lang"),
        ("plain", ["--target_lang", "fr"], "target_lang='fr': give --candidates"),
        ("routed", ["--target_lang", "th"], "routed has parts for zh, vi and none for th"),
        ("routed", ["--candidates", "{}/empty"], "no sentence in it"),
        ("plain", ["--candidates", "{}/none"], "does not exist"),
        ("plain", ["--candidates", "{}"], "is a folder; name a text file"),
        ("plain", ["--top", "0"], "top=0: give 1 or more"),
        ("plain", [" "], "sentence 2 is empty; give text"),
        ("none", [], "is neither the folder of a model"),
    ],
)
def test_mistakes(folder, tmp_path, model, options, message):
    (tmp_path / "empty").write_text("\n  \n")
    words = ["hello", "--model", str(folder / model), *(word.format(tmp_path) for word in options)]
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        nearest.main(words)


@pytest.fixture(scope="module")
def lexical(tmp_path_factory, folder) -> Path:
    """A lexical encoder; the routed model is to be added to it."""
    path, pairs = tmp_path_factory.mktemp("lexical") / "zh-vi", hfxling.load_parallel("sample", "zh", "vi")
    sides = pairs["source"][:150], pairs["target"][:150]
    hfxling.save_lexical(hfxling.fit_lexical(*sides, ("zh", "vi"), rank=8), path)
    sparse, dense = LexicalEncoder(str(path)), SentenceEncoder(str(folder / "routed"))
    keys = list(product(("zh", "vi"), ("query", "document")))
    vectors = {key: tuple(x.encode(sides[key[0] == "vi"], *key) for x in (dense, sparse)) for key in keys}
    fold = vectors["zh", "query"], vectors["vi", "document"]
    fusion = fit_fusion([(*fold, fold)], vectors, lexical=sparse.revision, languages=("zh", "vi"))
    fusion.save(folder / "routed")
    return path


def test_links_alone_and_beside_a_model(folder, lexical, capsys):
    candidates = sample_texts("vi", "test")
    nearest.main(["司机不肯打表。", "--lexical", str(lexical), "--top", "1"])
    ((_, (hit,)),) = shown(capsys)
    sparse = LexicalEncoder(str(lexical))
    scores = sparse.encode(["司机不肯打表。"], "zh", "query") @ sparse.encode(candidates, "vi", "document").T
    assert hit == (pytest.approx(scores.max(), abs=1e-3), candidates[scores.toarray().argmax()])
    nearest.main(["司机不肯打表。", "--model", str(folder / "routed"), "--lexical", str(lexical), "--top", "1"])
    ((_, (fused,)),) = shown(capsys)
    assert fused[0] != pytest.approx(hit[0], abs=1e-3)


def test_a_model_without_fusion_or_of_other_languages(folder, lexical, refusal):
    models = ["--lexical", str(lexical), "--model"]
    assert "has no fusion.json" in refusal(lambda: nearest.main(["a", *models, str(folder / "plain")]))
    other = ["--source_lang", "en", "--target_lang", "vi"]
    said = refusal(lambda: nearest.main(["a", *other, *models, str(folder / "routed")]))
    assert "is for zh and vi, not en" in said


@pytest.mark.parametrize(("model", "revision"), [(None, "v1"), ("org/dense", None)])
def test_a_revision_is_that_of_the_links_where_they_stand_alone(monkeypatch, model, revision):
    loaded, dense = [], []
    monkeypatch.setattr("hfxling.encoders.LexicalEncoder", lambda *given: loaded.append(given))
    monkeypatch.setattr("hfxling.encoders.SentenceEncoder", lambda *given: dense.append(given[:2]))
    monkeypatch.setattr("hfxling.old.model.FusedEncoder", lambda *given: given[2])
    found = FusedArguments(model=model, lexical="org/links", model_revision="v1").scorer()
    assert loaded == [("org/links", revision) if revision else ("org/links",)]
    assert (found, dense) == (("v1", [("org/dense", "v1")]) if model else (None, []))


def test_both_are_evaluated(folder, lexical, tmp_path):
    data = ["--task", "retrieval", "--source_lang", "zh", "--target_lang", "vi", "--data", "sample"]
    data += ["--lexical", str(lexical), "--output", str(tmp_path)]
    for model in ([], ["--model", str(folder / "routed")]):
        rows = evaluate.main([*data, *model])
        assert {row.settings["method"] for row in rows} == {"dot"}
        assert {row.direction for row in rows} == {"zh->vi", "vi->zh"}
        assert rows[0].value > 20  # the random encoder alone finds next to nothing
    assert rows[0].model == "routed + zh-vi"
