"""The lexical model: its inner product against the equations, what explains it, and what it refuses."""

import math
from collections import Counter

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer
from tokenizers.processors import TemplateProcessing

from hfxling import fit_lexical, load_parallel, save_lexical
from hfxling.models.configuration_lexical import LexicalConfig
from hfxling.models.modeling_lexical import HUB, LENGTH, LexicalModel

PAIR = ("zh", "vi")


def texts(pair=PAIR, split="train", count=60):
    rows = load_parallel("sample", *pair, split=split)[:count]
    return rows["source"], rows["target"]


@pytest.fixture(scope="module")
def model():
    return fit_lexical(*texts(), PAIR, rank=16)


@pytest.fixture(scope="module")
def held_out():
    return texts(split="test", count=8)


@pytest.fixture(scope="module")
def several():
    lines = {(language, "zh"): texts((language, "zh")) for language in ("vi", "lo")}
    return fit_lexical(lines, rank=16)


def shares(model, text, language, view):
    """How much of a text each of its segments is."""
    ids = model.tokenizers[language][view].encode(text).ids
    return {i: count / len(ids) for i, count in Counter(ids).items() if i > 3}


def likelihood(model, given, text, languages, view):
    """F of a text's shares given another's, term by term."""
    odds = model.links[":".join(languages)][view].matrix().toarray()
    inside = {t: sum(share * float(odds[s, t]) for s, share in given.items()) for t in text}
    return sum(share * math.log(1 + model.config.mixture * inside[t]) for t, share in text.items())


def equation(model, source, target, pair):
    """The score of `LexicalModel`'s docstring."""
    config, (x, y) = model.config, pair
    total = 0.0
    for view, weight in enumerate(config.view_weights):
        query, document = (shares(model, *side, view) for side in ((source, x), (target, y)))
        for given, text, order in ((query, document, (x, y)), (document, query, (y, x))):
            total += weight * likelihood(model, given, text, order, view)
            if config.hub_weight:
                rows = model.anchors[f"of_{order[0]}"][view].matrix().toarray()
                rows = [dict(zip(np.flatnonzero(row), row[row > 0])) for row in rows]
                levels = sorted(likelihood(model, row, text, order, view) for row in rows)
                total -= weight * config.hub_weight * np.mean(levels[-config.hub_neighbours :])
    lengths = [len(model.tokenizers[lang][0].encode(text).ids) for text, lang in ((source, x), (target, y))]
    mean = config.length_means[y] - config.length_means[x]
    distance = (math.log(lengths[1] / lengths[0]) - mean) / config.length_sigma
    return total - config.length_scale * distance**2


def check(model, source, target, pair):
    found = (model.encode(source, pair[0]) @ model.encode(target, pair[1], "document").T).toarray()
    expected = [[equation(model, x, y, pair) for y in target] for x in source]
    np.testing.assert_allclose(found, expected, atol=1e-5)
    np.testing.assert_allclose(model.score(source, target, pair), np.diag(expected), atol=1e-5)
    assert np.abs(expected).max() > 0.5


def test_the_inner_product_is_the_equation_in_both_directions(model, held_out):
    source, target = held_out
    check(model, source[:3], target[:3], PAIR)
    check(model, target[:3], source[:3], PAIR[::-1])
    assert model.config.length_scale > 0
    assert model.config.hub_weight > 0
    assert 1 < model.config.balance < 20


def test_places_take_no_more_memory_than_they_need(model, held_out):
    vectors = model.encode(held_out[0], PAIR[0])
    assert {vectors.data.dtype, vectors.indices.dtype, vectors.indptr.dtype} == {
        np.dtype(np.float32),
        np.dtype(np.int32),
    }


def test_the_plain_sum_of_both_directions(held_out):
    plain = {"views": ["fine"], "min_ratio": 0.0, "hub_weight": 0.0, "length_prior": 0.0}
    model = fit_lexical(*texts(), PAIR, rank=4, **plain)
    check(model, held_out[0][:4], held_out[1][:4], PAIR)
    assert model.encode(held_out[0], "zh")[:, -model.config.extra_dims :].nnz == 0


def test_views_add_up_with_their_weights(held_out):
    source, target = texts()
    model = fit_lexical(source, target, PAIR, views=["words", "characters"], view_weights=[0.7, 0.3], rank=4)
    check(model, held_out[0][:2], held_out[1][:2], PAIR)


def test_several_languages_do_not_interfere(several):
    two = fit_lexical(*texts(("vi", "zh")), ("vi", "zh"), rank=4)
    for pair in (("vi", "zh"), ("zh", "lo"), ("lo", "vi")):  # the last one through zh
        check(several, *texts(pair, "test", 2), pair)
    assert set(several.config.pairs) == {(a, b) for a in ("vi", "zh", "lo") for b in ("vi", "zh", "lo") if a != b}
    zh = several.encode(texts(split="test")[0][:2], "zh")
    same = several.encode(texts(split="test")[0][:2], "zh", "document")
    words = slice(None, -several.config.extra_dims)
    assert abs(zh[:, words] @ same[:, words].T).max() == 0
    assert two.config.pairs == [("vi", "zh"), ("zh", "vi")]


def test_an_explanation_adds_up_to_the_score(model, held_out):
    for source, target in zip(*held_out):
        terms = model.explain(source, target, PAIR)
        assert sum(term.contribution for term in terms) == pytest.approx(
            model.score([source], [target], PAIR)[0], abs=1e-5
        )
        assert sum(abs(term.share) for term in terms) == pytest.approx(1)
        sizes = [abs(term.contribution) for term in terms]
        assert sizes == sorted(sizes, reverse=True)
        assert [term.source for term in terms].count(LENGTH) == 1
        assert [term.target for term in terms].count(HUB) == 1
    assert any(term.source in source and term.target in target.lower() for term in terms[:3])


def test_few_dimensions_keep_what_matters(model, held_out):
    source, target = held_out
    full = model.score(source, target, PAIR)
    few = model.encode(source, "zh", max_active_dims=80)
    assert np.diff(few.indptr).max() == 80
    whole = model.encode(source, "zh").toarray()
    kept = few.toarray()
    assert (kept[:, -7:] == whole[:, -7:]).all()
    assert (kept[kept != 0] == whole[kept != 0]).all()
    near = few.multiply(model.encode(target, "vi", "document")).sum(1)
    assert np.corrcoef(near, full)[0, 1] > 0.8


def test_tokenized_text_gives_the_same_vectors(model, held_out):
    ids = [[torch.tensor([each.encode(text).ids]) for each in model.tokenizers["vi"]] for text in held_out[1]]
    for role in ("query", "document"):
        expected = model.encode(held_out[1], "vi", role).toarray()
        found = torch.cat([model(row, language="vi", role=role).sentence_embedding for row in ids])
        np.testing.assert_allclose(found.numpy(), expected, atol=1e-7)


def test_marks_that_a_tokenizer_puts_around_texts_do_not_count(model, held_out, monkeypatch):
    expected = model.encode(held_out[0], "zh").toarray()
    marked = {lang: [Tokenizer.from_str(each.to_str()) for each in views] for lang, views in model.tokenizers.items()}
    for each in (each for views in marked.values() for each in views):
        each.post_processor = TemplateProcessing(single="<s> $A </s>", special_tokens=[("<s>", 2), ("</s>", 3)])
    monkeypatch.setattr(model, "tokenizers", marked)
    np.testing.assert_array_equal(model.encode(held_out[0], "zh").toarray(), expected)


def test_saved_and_loaded_it_is_the_same(model, held_out, tmp_path):
    save_lexical(model, tmp_path / "model")
    loaded = LexicalModel.from_pretrained(tmp_path / "model")
    for role in ("query", "document"):
        assert (loaded.encode(held_out[0], "zh", role) != model.encode(held_out[0], "zh", role)).nnz == 0
    with pytest.raises(ValueError, match="copy the folder that it came from"):
        save_lexical(loaded, tmp_path / "again")
    (tmp_path / "model" / "tokenizer_vi" / "tokenizer.json").unlink()
    with pytest.raises(ValueError, match="tokenizer_vi cannot be read"):
        LexicalModel.from_pretrained(tmp_path / "model")


def test_a_text_without_known_segments_is_said(model, caplog, monkeypatch):
    import logging

    monkeypatch.setattr(logging.getLogger("transformers"), "propagate", True)
    vectors = model.encode(["你好", "ⲀⲂⲄ ⲈⲊ"], "zh")
    assert "1 of 2 texts have no segment that the model knows in 'zh'" in caplog.text
    assert np.isfinite(vectors.data).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda model: model.encode(["你好", " "], "zh"), r"text 1 \(counted from 0\) is ' '"),
        (lambda model: model.encode("你好", "zh"), "one string"),
        (lambda model: model.encode(["你好"], "de"), "language='de' is not one of this model's: zh, vi"),
        (lambda model: model.encode(["你好"], "zh", "target"), "role='target' is not one of query, document"),
        (lambda model: model.encode(["你好"], "zh", max_active_dims=2), "max_active_dims=2: give 7 or more"),
        (lambda model: model.score(["你好"], [], PAIR), "1 source and 0 target texts"),
        (lambda model: model.explain("你好", "你好", ("zh", "zh")), "no links between zh and zh"),
        (lambda model: model([torch.tensor([[10**6]])] * 2, language="zh"), "input_ids has 1000000"),
        (lambda model: model([torch.tensor([[5]])] * 3, language="zh"), "each of the views fine, coarse"),
    ],
)
def test_what_cannot_be_encoded_is_refused_in_one_line(call, message, model):
    with pytest.raises(ValueError, match=message) as error:
        call(model)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"languages": ["zh"]}, "vocab_sizes=.*: give one for each of languages="),
        ({"vocab_sizes": {"zh": [9, 9], "vi": [9]}}, "give one number for each of views"),
        ({"links": {"zh:vi": [2]}}, "both ways"),
        ({"links": {"zh:zh": [2]}}, "both ways"),
        ({"mixture": 0.0}, "must be more than 0"),
    ],
)
def test_a_configuration_that_contradicts_itself_is_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        LexicalConfig(**{"languages": ["zh", "vi"], "vocab_sizes": {"zh": [9], "vi": [9]}} | fields)


def test_weights_hold_what_the_configuration_counts(model, tmp_path):
    model.save_pretrained(tmp_path)
    stored = load_file(tmp_path / "model.safetensors")
    values = {tensor.numel() for name, tensor in stored.items() if name.endswith("values")}
    assert values == {count for counts in model.config.links.values() for count in counts} | {
        count for counts in model.config.anchors.values() for count in counts[1:]
    }


def test_qdrant_finds_what_the_inner_product_finds(model, held_out):
    qdrant = pytest.importorskip("qdrant_client", reason="qdrant-client is not installed: pip install -e '.[dev]'")
    client, vectors = qdrant.QdrantClient(":memory:"), qdrant.models.SparseVector
    client.create_collection("texts", {}, {"links": qdrant.models.SparseVectorParams()})
    queries, documents = model.encode(held_out[0], "zh"), model.encode(held_out[1], "vi", "document")
    points = [
        qdrant.models.PointStruct(id=i, vector={"links": vectors(**row)})
        for i, row in enumerate(model.to_qdrant(documents))
    ]
    client.upsert("texts", points)
    scores = (queries @ documents.T).toarray()
    for row, expected in zip(model.to_qdrant(queries), scores):
        found = client.query_points("texts", query=vectors(**row), using="links", limit=len(points)).points
        np.testing.assert_allclose([expected[point.id] for point in found], np.sort(expected)[::-1], atol=1e-5)
        np.testing.assert_allclose([point.score for point in found], np.sort(expected)[::-1], atol=1e-5)
