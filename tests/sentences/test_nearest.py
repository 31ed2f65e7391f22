"""Neighbours by models with and without parts for languages."""

from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformer
from tiny_models import save_routed, save_static, save_tiny

import hfxling
from hfxling.cli import main
from hfxling.data.sample import sample_texts
from hfxling.encoders.dense import SentenceEncoder
from hfxling.encoders.fusion import fit_fusion
from hfxling.encoders.protocol import Encoder
from hfxling.encoders.sparse import LexicalEncoder
from hfxling.files import weights_hash


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    save_tiny("bert", folder / "plain")
    save_routed(folder / "plain", folder / "routed")
    save_routed(folder / "plain", folder / "asymmetric", ("document", "query"))
    return folder


def expected(model, sentence, candidates, *tasks) -> tuple[float, str]:
    source, target = (
        torch.nn.functional.normalize(model.encode(texts, task=task, convert_to_tensor=True), dim=1)
        for texts, task in zip(([sentence], candidates), tasks or (None, None))
    )
    best = (source @ target.T)[0].max(0)
    return best.values.item(), candidates[best.indices]


def test_a_model_without_parts_and_candidates_of_a_file(folder, tmp_path):
    candidates = ["hello", "rain today", "I love apples"]
    (tmp_path / "c.txt").write_text("hello\n\nrain today\n  I love apples\n", encoding="utf-8")
    asked = ["今天下雨", "我爱你"]
    found = hfxling.nearest(asked, model=folder / "plain", candidates=tmp_path / "c.txt", top=2)
    assert found.sentences == asked
    assert found.rows.shape == found.scores.shape == (2, 2)
    score, text = expected(SentenceTransformer(str(folder / "plain")), asked[0], candidates)
    assert (found.scores[0, 0], found.texts[0][0]) == (pytest.approx(score, abs=1e-6), text)
    in_memory = hfxling.nearest(asked, model=SentenceTransformer(str(folder / "plain")), candidates=candidates, top=9)
    assert in_memory.rows.shape == (2, 3), "as many as there are"
    line_of = np.array([0, 2, 3])  # the second line is empty
    np.testing.assert_array_equal(line_of[in_memory.rows[:, :2]], found.rows)
    with_blank = ["hello", "", "rain today", "  I love apples"]
    found = hfxling.nearest(asked, model=folder / "plain", candidates=with_blank, top=2)
    for places, texts in zip(found.rows, found.texts):
        assert [with_blank[place].strip() for place in places] == texts


def test_sentences_and_candidates_of_any_kind_of_list(folder):
    asked, candidates = ["今天下雨", "我爱你"], ["hello", "rain today", "I love apples"]
    wanted = hfxling.nearest(asked, model=folder / "plain", candidates=candidates)
    columns = Dataset.from_dict({"asked": asked, "candidates": [*candidates[:2]]})
    kinds = [
        (np.array(asked), np.array(candidates)),
        (iter(asked), iter(candidates)),
        (tuple(asked), dict.fromkeys(candidates)),
    ]
    for given, searched in kinds:
        found = hfxling.nearest(given, model=folder / "plain", candidates=searched)
        assert found.table() == wanted.table()
    of_columns = hfxling.nearest(columns["asked"], model=folder / "plain", candidates=columns["candidates"])
    assert of_columns.sentences == asked
    assert of_columns.rows.shape == (2, 2)


def test_queries_of_a_file(folder, tmp_path, capsys, caplog, monkeypatch):
    (tmp_path / "te.zh").write_text("今天下雨\n\n我爱你\n", encoding="utf-8")
    options = {"model": folder / "plain", "candidates": ["hello", "rain today"]}
    wanted = hfxling.nearest(["今天下雨", "我爱你"], **options)
    monkeypatch.chdir(tmp_path)
    assert hfxling.nearest(Path("te.zh"), **options).table() == wanted.table()
    assert hfxling.nearest(queries="te.zh", **options).table() == wanted.table()
    assert hfxling.nearest(queries="te.zh@3-3", **options).sentences == ["我爱你"]
    assert not caplog.messages
    (tmp_path / "c.txt").write_text("hello\nrain today\n", encoding="utf-8")
    main(["nearest", "--queries", "te.zh", "--model", str(folder / "plain"), "--candidates", "c.txt"])
    assert capsys.readouterr().out == wanted.table() + "\n"
    with pytest.raises(ValueError, match=r"sentences and queries='te\.zh': give one of them"):
        hfxling.nearest("今天下雨", queries="te.zh", **options)
    with pytest.raises(ValueError, match=r"sentences='te\.zh' and queries='te\.zh': give one of them"):
        hfxling.nearest(Path("te.zh"), queries="te.zh", **options)
    with pytest.raises(ValueError, match="give a file; sentences in memory are the first argument"):
        hfxling.nearest(queries=["今天下雨"], **options)
    with pytest.raises(FileNotFoundError, match="none is not a file"):
        hfxling.nearest(Path("none"), **options)


@pytest.mark.parametrize("given", ["te.zh", ["te.zh"]])
def test_a_string_that_names_a_file_is_a_sentence_with_a_warning(folder, tmp_path, caplog, monkeypatch, given):
    (tmp_path / "te.zh").write_text("今天下雨\n我爱你\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    found = hfxling.nearest(given, model=folder / "plain", candidates=["hello"])
    assert found.sentences == ["te.zh"]
    (message,) = caplog.messages
    assert "'te.zh' names a file, but is looked up as a sentence" in message
    assert "give it as queries" in message


def test_the_command_prints_the_table(folder, tmp_path, capfd):
    (tmp_path / "c.txt").write_text("xin chào\ntrời mưa\n", encoding="utf-8")
    asked = ["今天下雨", "我爱你"]
    given = ["--model", str(folder / "routed"), "--candidates", str(tmp_path / "c.txt"), "--top", "2"]
    main(["nearest", *asked, *given, "--source_lang", "zh", "--target_lang", "vi"])
    found = hfxling.nearest(asked, model=folder / "routed", candidates=tmp_path / "c.txt", languages=("zh", "vi"))
    shown = capfd.readouterr().out
    assert shown == found.table() + "\n"
    assert [line for line in shown.split("\n") if line and not line.startswith(" ")] == asked
    assert f"  {found.scores[0, 0]:.3f}  {found.texts[0][0]}" in shown


def test_a_models_languages_are_its_routes_in_their_order(folder):
    candidates, model = sample_texts("vi", "test"), SentenceTransformer(str(folder / "routed"))
    found = hfxling.nearest("今天下雨", model=folder / "routed")
    score, text = expected(model, "今天下雨", candidates, "zh", "vi")
    assert (found.scores[0, 0], found.texts[0][0]) == (pytest.approx(score, abs=1e-6), text)
    assert {*found.texts[0]} <= {*candidates}
    found = hfxling.nearest(["bạn"], model=folder / "routed", languages=("vi", "zh"), top=1)
    score, _ = expected(model, "bạn", sample_texts("zh", "test"), "vi", "zh")
    assert found.scores[0, 0] == pytest.approx(score, abs=1e-6)


def test_parts_for_queries_and_documents_are_no_languages(folder):
    found = hfxling.nearest(["hello"], model=folder / "asymmetric", languages=("zh", "en"), top=1)
    model = SentenceTransformer(str(folder / "asymmetric"))
    score, _ = expected(model, "hello", sample_texts("en", "test"), "query", "document")
    assert found.scores[0, 0] == pytest.approx(score, abs=1e-6)


def test_a_candidate_without_known_segments_is_but_far_away(tmp_path):
    rows = hfxling.load_parallel("sample", "zh", "vi").select(range(60))
    links = hfxling.fit_lexical(rows["source"], rows["target"], ("zh", "vi"), rank=4, progress=False)
    candidates = ["☃☃☃", rows["target"][0]]
    found = hfxling.nearest(rows["source"][0], lexical=links, candidates=candidates)
    assert found.texts == [candidates[::-1]]
    assert np.isfinite(found.scores).all()


def test_texts_of_which_static_embeddings_know_no_word_match_nothing(tmp_path, caplog):
    known = save_static(tmp_path / "static")[:4]
    options = {"model": tmp_path / "static", "progress": False}
    found = hfxling.nearest(["zzz", known[0]], candidates=["www", *known], top=9, **options)
    assert found.texts[0] == []
    assert found.texts[1][0] == known[0]
    assert sorted(found.rows[1]) == [1, 2, 3, 4]
    assert (found.rows[0] == -1).all()
    assert np.isnan(found.scores[0]).all()
    assert found.table().split("\n")[:4] == ["", "zzz", "", known[0]]
    assert "1 of 2 texts have no vector, as the model knows no word of them" in caplog.text
    assert "1 of 5 texts have no vector" in caplog.text
    assert "the first is 'www'" in caplog.text
    assert hfxling.nearest("zzz", candidates=known, **options).texts == [[]]
    with pytest.raises(ValueError, match="candidates: static knows no word of any of them"):
        hfxling.nearest(known, candidates=["www"], **options)


def test_what_is_no_text_or_no_language(folder, refusal):
    no_text = b"\xff\xfe".decode("utf-8", "surrogateescape")
    assert "sentence 2, " in refusal(lambda: hfxling.nearest(["a", no_text], model=folder / "plain", candidates=["b"]))
    named = refusal(lambda: hfxling.nearest("a", model=folder / "plain", languages=("../../../\x1b", "vi")))
    assert "language '../../../\\x1b': a code is 2-3 small letters" in named


class NoNumbers(Encoder):
    """An encoder whose last vector is NaN."""

    def _vectors(self, texts, route, role, progress):
        vectors = np.ones((len(texts), 4), np.float32)
        vectors[-1] = np.nan
        return vectors


def test_vectors_without_numbers_are_refused(refusal):
    line = refusal(lambda: hfxling.nearest(["a"], model=NoNumbers("broken", "1"), candidates=["b", "c"]))
    assert "NaN" in line


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        ("plain", {}, "no text for language None: give candidates, or give languages, such as zh vi"),
        ("plain", {"languages": ("en", "fr")}, "no text for language fr: give candidates"),
        ("routed", {"languages": ("zh", "th")}, "routed has parts for zh, vi and none for th"),
        ("routed", {"candidates": "{}/empty"}, "no sentence in it"),
        ("routed", {"candidates": [" "]}, "candidates has no sentence; give at least one"),
        ("plain", {"candidates": "{}/none"}, "is not a file"),
        ("plain", {"candidates": "{}"}, "is a folder; give a text file"),
        ("plain", {"top": 0}, "top=0: give 1 or more"),
        ("plain", {"sentences": ["a", " "]}, "sentence 2 is empty; give text"),
        ("plain", {"sentences": []}, "no sentence; give at least one"),
        ("plain", {"sentences": ["a", None]}, "sentence 2 is None; give text"),
        ("plain", {"candidates": ["a", 3]}, r"candidates\[1\] is 3; give sentences"),
        ("none", {}, "is neither the folder of a model"),
    ],
)
def test_mistakes(folder, tmp_path, model, options, message):
    (tmp_path / "empty").write_text("\n  \n")
    given = {"sentences": ["hello"], "model": folder / model} | options
    if isinstance(given.get("candidates"), str):
        given["candidates"] = given["candidates"].format(tmp_path)
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        hfxling.nearest(**given)


@pytest.fixture(scope="module")
def lexical(zh_vi_links, folder) -> Path:
    """A lexical model; the routed model is to be added to it."""
    pairs = hfxling.load_parallel("sample", "zh", "vi")
    sides = pairs["source"][:150], pairs["target"][:150]
    sparse, dense = LexicalEncoder(str(zh_vi_links)), SentenceEncoder(str(folder / "routed"))
    keys = list(product(("zh", "vi"), ("query", "document")))
    vectors = {key: tuple(x.encode(sides[key[0] == "vi"], *key) for x in (dense, sparse)) for key in keys}
    fold = vectors["zh", "query"], vectors["vi", "document"]
    fusion = fit_fusion([[(*fold, fold)]], vectors, lexical=weights_hash(zh_vi_links), languages=("zh", "vi"))
    fusion.save(folder / "routed")
    return zh_vi_links


def test_links_alone_and_beside_a_model(folder, lexical):
    candidates = sample_texts("vi", "test")
    links = hfxling.nearest(["司机不肯打表。"], lexical=lexical, top=1)
    sparse = LexicalEncoder(str(lexical))
    scores = sparse.encode(["司机不肯打表。"], "zh", "query") @ sparse.encode(candidates, "vi", "document").T
    assert links.scores[0, 0] == pytest.approx(scores.max(), abs=1e-4)
    assert links.texts == [[candidates[scores.toarray().argmax()]]]
    fused = hfxling.nearest(["司机不肯打表。"], model=folder / "routed", lexical=lexical, top=1)
    assert fused.scores[0, 0] != pytest.approx(links.scores[0, 0], abs=1e-3)


def test_a_model_without_fusion_or_of_other_languages(folder, lexical, refusal):
    assert "has no fusion.json" in refusal(lambda: hfxling.nearest(["a"], lexical=lexical, model=folder / "plain"))
    line = refusal(
        lambda: hfxling.nearest(["a"], lexical=lexical, model=folder / "routed", languages=("en", "vi"), top=1)
    )
    assert "has parts for zh, vi and none for en" in line
    assert "give --model, --lexical or both" in refusal(lambda: hfxling.nearest(["a"]))
