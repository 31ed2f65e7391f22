"""Neighbours by models with and without parts for languages."""

from pathlib import Path

import pytest
import torch
from sentence_transformers import SentenceTransformer
from tiny_models import save_routed, save_tiny

from hfxling.cli import nearest
from hfxling.data.sample import sample_texts


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
        ("plain", ["--candidates", "{}/none"], "No such file"),
        ("none", [], "is neither the folder of a model"),
    ],
)
def test_mistakes(folder, tmp_path, model, options, message):
    (tmp_path / "empty").write_text("\n  \n")
    words = ["hello", "--model", str(folder / model), *(word.format(tmp_path) for word in options)]
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        nearest.main(words)
