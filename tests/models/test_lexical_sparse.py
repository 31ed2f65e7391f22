"""The sparse module: which language and role a text gets, and that its vectors are the model's."""

import numpy as np
import pytest
from sentence_transformers import SparseEncoder

from hfxling import fit_lexical, load_parallel
from hfxling.models.lexical_sparse import LexicalSparse

TEXTS = ["今天下雨。", "你好。"]


@pytest.fixture(scope="module")
def module():
    rows = load_parallel("sample", "zh", "vi")[:40]
    model = fit_lexical(rows["source"], rows["target"], ("zh", "vi"), rank=8, progress=False)
    return LexicalSparse(model.eval())


@pytest.mark.parametrize(
    ("asked", "language", "role"),
    [
        ({"task": "query"}, "zh", "query"),
        ({"task": "document"}, "vi", "document"),
        ({"task": "zh"}, "zh", "query"),
        ({"task": "vi"}, "vi", "document"),
        ({"task": "query", "language": "vi"}, "vi", "query"),
        ({"task": "document", "language": "zh"}, "zh", "document"),
        ({"language": "vi"}, "vi", "document"),
    ],
)
def test_language_and_role(module, asked, language, role):
    features = module.preprocess(TEXTS, **asked)
    assert (features["texts"], features["language"], features["role"]) == (TEXTS, language, role)


def test_decode_names_the_segments_of_a_text_and_what_they_are_linked_with(module):
    encoder = SparseEncoder(modules=[module])
    ((name, weight), *others) = encoder.decode(encoder.encode_query("下雨"), top_k=40)
    named = {name, *(other for other, _ in others)}
    assert {"zh:下", "zh:雨", "vi:mưa"} <= named
    assert weight >= max(value for _, value in others)

    shared = encoder.intersection(encoder.encode_query("下雨"), encoder.encode_document("mưa"))
    assert {"zh:雨", "vi:mưa"} & {name for name, _ in encoder.decode(shared)}

    vectors = module.model.encode(["下雨"], "zh")
    names = module.model.dimension_names()
    assert len(names) == vectors.shape[1]
    own = {names[number] for number in vectors.indices if names[number].startswith("zh:")}
    assert {"zh:下", "zh:雨"} <= own
    explained = {term.target for term in module.model.explain("下雨", "mưa", ("zh", "vi"))}
    assert {f"vi:{target}" for target in explained if not target.startswith("(")} <= {*names}


@pytest.mark.parametrize("asked", [{}, {"task": "th"}, {"task": "query", "language": "th"}])
def test_a_text_without_a_language_of_the_model_is_refused(module, asked):
    with pytest.raises(ValueError, match="give the language of the texts as task, one of zh, vi"):
        module.preprocess(TEXTS, **asked)


def test_a_prompt_stands_before_every_text(module):
    assert module.preprocess(["a", "b"], prompt="p: ", task="query")["texts"] == ["p: a", "p: b"]


def test_vectors_are_the_models(module):
    expected = module.model.encode(TEXTS, "zh", "query")
    found = module(module.preprocess(TEXTS, task="query"))["sentence_embedding"]
    assert found.shape == expected.shape == (2, module.get_embedding_dimension())
    np.testing.assert_allclose(found.numpy(), expected.toarray())
    extra = module.model.config.extra_dims
    few = module(module.preprocess(TEXTS, task="query"), max_active_dims=extra)["sentence_embedding"]
    np.testing.assert_allclose(few.numpy(), module.model.encode(TEXTS, "zh", "query", max_active_dims=extra).toarray())


def test_a_sparse_encoder_keeps_it_in_its_own_folder(module, tmp_path):
    """Where the model's code and configuration are looked for, and no folder `0_LexicalSparse` below it."""
    SparseEncoder(modules=[module]).save(str(tmp_path))
    assert (tmp_path / "model.safetensors").is_file()
    assert (tmp_path / "config.json").is_file()
    assert not [*tmp_path.glob("0_*")]


@pytest.mark.parametrize("place", ["", "sparse"])
def test_it_is_read_from_its_folder_and_the_one_above(module, tmp_path, monkeypatch, place):
    """The folder of the second door has no weights of its own."""
    asked = []
    monkeypatch.setattr(
        "hfxling.models.lexical_sparse.AutoModel.from_pretrained",
        lambda name, **options: asked.append((name, options)) or module.model,
    )
    module.save(str(tmp_path))
    (tmp_path / "sparse").mkdir()
    loaded = LexicalSparse.load(
        str(tmp_path / place), revision="r", cache_folder="c", token=None, local_files_only=True
    )
    assert loaded.model is module.model
    expected = {"trust_remote_code": True, "revision": "r", "cache_dir": "c", "local_files_only": True}
    assert asked == [(str(tmp_path), expected)]
    assert set(loaded.tokenizer) == {"zh", "vi"}


def test_a_name_of_the_hub_is_left_as_it_is(module, monkeypatch):
    asked = []
    monkeypatch.setattr(
        "hfxling.models.lexical_sparse.AutoModel.from_pretrained",
        lambda name, **options: asked.append(name) or module.model,
    )
    LexicalSparse.load("org/name")
    assert asked == ["org/name"]
