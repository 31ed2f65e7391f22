"""Every way from text to vectors gives what running each text plainly gives, in sorted, truncated, cut passes."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from tiny_models import HIDDEN, save_tiny, tiny_encoder, tiny_tokenizer
from transformers import AutoConfig, AutoTokenizer, PreTrainedTokenizerFast, XLMRobertaTokenizer

from hfxling import fit_lexical, load_parallel
from hfxling.encoders.dense import SentenceEncoder
from hfxling.encoders.frozen import FrozenEncoder, SentenceEmbedder, WordStates, load_tokenizer
from hfxling.encoders.identity import model_name
from hfxling.encoders.sparse import LexicalEncoder
from hfxling.hub.writing import export
from hfxling.methods.frozen import FrozenArguments
from hfxling.missing import one_line_where_missing
from hfxling.models import DapConfig, DapModel, SiameseModel
from hfxling.models.encoder import hidden_states, load_encoder
from hfxling.models.pooling import pool
from hfxling.sentences.blocks import nearest

FAMILIES = ("bert", "xlm-roberta", "distilbert", "xlm", "mt5")
VIEWS = [(0, "mean"), (2, "mean"), (None, "mean"), ("all", "mean"), (2, "cls"), (None, "last")]
TEXTS = ["bạn ăn táo", "我爱吃苹果", "", "hello, world. 42", "a", "今天下雨", "the same length", "one more sentence"]


@pytest.fixture(scope="module", params=FAMILIES)
def folder(request, tmp_path_factory):
    return str(save_tiny(request.param, tmp_path_factory.mktemp(request.param)))


@pytest.fixture
def views(folder):
    """All of them; the layers of mT5 share a final norm, so it has no "all"."""
    return [view for view in VIEWS if view[0] != "all" or AutoConfig.from_pretrained(folder).model_type != "mt5"]


@torch.inference_mode()
def plain_vectors(folder, texts, views):
    """(N, views, H): every text alone through the whole encoder."""
    model, tokenizer = load_encoder(folder), AutoTokenizer.from_pretrained(folder)
    rows = []
    for text in texts:
        inputs = {
            key: value
            for key, value in tokenizer(text, return_tensors="pt").items()
            if key in ("input_ids", "attention_mask")
        }
        states = hidden_states(model, inputs)
        read = {"all": sum(states[1:]) / (len(states) - 1), None: states[-1], 0: states[0], 2: states[2]}
        rows.append(torch.cat([pool(read[layer], inputs["attention_mask"], mode) for layer, mode in views]))
    return torch.stack(rows).numpy()


def batch_shapes(encoder):
    """The (B, S) of every pass from now on."""
    shapes = []
    encoder.model.register_forward_pre_hook(
        lambda _module, _args, inputs: shapes.append(tuple(inputs["input_ids"].shape)), with_kwargs=True
    )
    return shapes


def test_all_views_of_one_pass_equal_the_plain_ones(folder, views):
    encoder = FrozenEncoder(folder, views)
    shapes = batch_shapes(encoder)
    found = encoder(TEXTS)
    assert found.dtype == np.float32
    assert sum(count for count, _ in shapes) == len(TEXTS)
    np.testing.assert_allclose(found, plain_vectors(folder, TEXTS, views), atol=2e-6)


def test_layers_above_the_deepest_view_are_not_built(folder, views):
    def size(views):
        return sum(weight.numel() for weight in FrozenEncoder(folder, views).model.parameters())

    one, two, whole = size([(1, "cls")]), size([(1, "cls"), (2, "mean")]), size(views)
    assert one < two < whole
    assert whole - two == two - one  # a block
    assert size([(0, "mean")]) <= one - (two - one)


def test_texts_past_the_positions_are_cut(folder):
    encoder = FrozenEncoder(folder, [(2, "mean")])
    long = "abcdefghij" * 30
    assert encoder.max_length == 32  # the tokenizer's
    np.testing.assert_allclose(encoder([long]), plain_vectors(folder, [long[:30]], [(2, "mean")]), atol=2e-6)


def test_bfloat16_is_close_and_comes_out_as_float32(folder, views):
    exact = FrozenEncoder(folder, views)(TEXTS)
    rough = FrozenEncoder(folder, views, dtype="bfloat16")(TEXTS)
    assert rough.dtype == np.float32
    assert not np.array_equal(rough, exact)
    cosine = (rough * exact).sum(-1) / np.linalg.norm(rough, axis=-1) / np.linalg.norm(exact, axis=-1)
    assert cosine.min() > 0.999


@pytest.mark.parametrize("tokens", [1, 20, 64, 1024])
def test_batches_are_sorted_and_bounded_and_rows_keep_their_order(tiny_bert, tokens, monkeypatch):
    monkeypatch.setattr("hfxling.encoders.frozen.TOKENS_ON_CPU", tokens)
    encoder = FrozenEncoder(str(tiny_bert), [(2, "mean")], device="cpu")
    shapes = batch_shapes(encoder)
    texts = [text * times for times in (1, 3, 2) for text in ("ab", "c", "", "defg")]
    found = encoder(texts)
    np.testing.assert_allclose(found, plain_vectors(str(tiny_bert), texts, [(2, "mean")]), atol=2e-6)
    assert all(count == 1 or count * width <= tokens for count, width in shapes)
    assert [width for _, width in shapes] == sorted(width for _, width in shapes)
    assert len(shapes) == {1: 12, 20: 5, 64: 2, 1024: 1}[tokens]


def test_equally_long_texts_hold_no_padding(tiny_bert, monkeypatch):
    monkeypatch.setattr("hfxling.encoders.frozen.TOKENS_ON_CPU", 12)
    encoder = FrozenEncoder(str(tiny_bert), [(2, "mean")], device="cpu")
    shapes = batch_shapes(encoder)
    encoder(["abcd", "a", "efgh", "b", "c"])
    assert sorted(shapes) == [(2, 6), (3, 3)]


def test_no_texts(tiny_bert):
    assert FrozenEncoder(str(tiny_bert), [(2, "mean"), (1, "cls")])([]).shape == (0, 2, HIDDEN)


def set_tokenizer_limit(folder, limit):
    path = folder / "tokenizer_config.json"
    config = {key: value for key, value in json.loads(path.read_text()).items() if key != "model_max_length"}
    path.write_text(json.dumps(config | ({"model_max_length": limit} if limit else {})))


@pytest.mark.parametrize(
    ("kind", "limit"), [("bert", 40), ("xlm-roberta", 39), ("distilbert", 40), ("xlm", 40), ("mt5", 1024)]
)
def test_a_tokenizer_without_a_limit_leaves_the_encoders_own(kind, limit, tmp_path):
    set_tokenizer_limit(save_tiny(kind, tmp_path), None)
    encoder = FrozenEncoder(str(tmp_path), [(1, "mean")])
    assert encoder.max_length == limit
    shapes = batch_shapes(encoder)
    assert np.isfinite(encoder(["x" * 1500])).all()
    assert shapes == [(1, limit)]


def test_max_length_cuts_further(tiny_bert):
    short = FrozenEncoder(str(tiny_bert), [(2, "mean")], max_length=5)
    assert short.max_length == 5
    np.testing.assert_allclose(short(["abcdef"]), plain_vectors(str(tiny_bert), ["abc"], [(2, "mean")]), atol=2e-6)
    assert FrozenEncoder(str(tiny_bert), [(2, "mean")], max_length=99).max_length == 32


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"views": [(4, "mean")]}, r"layer=4 is outside hidden_states 0\.\.3"),
        ({"views": [(-1, "mean")]}, r"layer=-1 is outside hidden_states 0\.\.3"),
        ({"views": [("all", "mean"), (4, "mean")]}, r"layer=4: .* has hidden_states 0\.\.3"),
        ({"views": [(1, "mean"), (-1, "mean")]}, "layer=-1: .* has hidden_states"),
        ({"views": [("seven", "mean")]}, "layer='seven': .* has hidden_states"),
        ({"dtype": "bf16"}, "dtype='bf16' is not one of float32, bfloat16"),
        ({"max_length": 2}, "max_length=2 leaves no room beside the 2 special tokens"),
        ({"max_length": -3}, "max_length=-3"),
    ],
)
def test_settings_that_are_refused(tiny_bert, settings, message):
    with pytest.raises(ValueError, match=message):
        FrozenEncoder(str(tiny_bert), **{"views": [(2, "mean")]} | settings)


def test_features_are_cached_until_something_changes(tmp_path):
    model, cache = save_tiny("bert", tmp_path / "model"), tmp_path / "cache"

    def passes(views=((2, "mean"),), **settings):
        """How often the encoder runs for the texts."""
        encoder = FrozenEncoder(str(model), views, **settings)
        shapes = batch_shapes(encoder)
        found = encoder.features(TEXTS, cache)
        assert found.shape == (len(TEXTS), len(views), HIDDEN)
        ran = len(shapes)
        np.testing.assert_allclose(found, encoder(TEXTS), atol=1e-6)
        return ran

    assert passes() == 1
    assert passes() == 0
    assert passes([(1, "mean")]) == 1
    assert passes([(2, "cls")]) == 1
    assert passes([(2, "mean"), (1, "mean")]) == 1
    assert passes(dtype="bfloat16") == 1
    assert passes(max_length=6) == 1
    save_tiny("bert", model, layers=2)  # other weights under the same name
    assert passes() == 1
    set_tokenizer_limit(model, 7)
    assert passes() == 1
    assert passes() == 0


def test_recipes_arguments_name_an_encoder(tiny_bert):
    args = SimpleNamespace(
        base_model=str(tiny_bert), text_prompt=None, hub_kwargs={}, layer_index=2, pooling="cls", max_length=9
    )
    args.encode_dtype = "bfloat16"
    encoder = FrozenArguments.encoder(args)
    assert (encoder.views, encoder.dtype, encoder.max_length) == ([(2, "cls")], "bfloat16", 9)
    assert FrozenArguments.encoder(args, [(1, "mean"), (None, "last")]).views == [(1, "mean"), (None, "last")]


def test_a_model_that_is_not_there_is_named_in_one_line():
    with pytest.raises(FileNotFoundError, match=r"^base_model='no/where' is neither the folder of an encoder") as error:
        FrozenEncoder("no/where")
    assert "\n" not in str(error.value)
    assert str(error.value).endswith("check the name and the connection.")
    with (
        pytest.raises(FileNotFoundError, match=r"^model='x' is neither the folder of a bird nor .*\(line one\)"),
        one_line_where_missing("x", "model", "a bird"),
    ):
        raise OSError("line one\nline two")
    with pytest.raises(ValueError, match="other"), one_line_where_missing("x"):
        raise ValueError("other")


def test_results_call_a_folder_by_its_name_and_a_hub_model_by_its_id(tmp_path, monkeypatch):
    (tmp_path / "deep" / "mbert").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "deep")
    monkeypatch.chdir(tmp_path / "deep" / "mbert")
    names = (f"{tmp_path}/deep/mbert", f"{tmp_path}/deep/mbert/", ".", "org/mbert", f"{tmp_path}/link")
    assert [*map(model_name, names)] == ["mbert", "mbert", "mbert", "org/mbert", "link"]


@pytest.mark.parametrize("method", ["dap", "siamese"])
def test_a_model_in_training_embeds_as_it_does_text_by_text(tiny_bert, method):
    name, tokenizer = str(tiny_bert), AutoTokenizer.from_pretrained(tiny_bert)
    if method == "dap":
        model = DapModel.from_pretrained(name).eval()
    else:
        model = SiameseModel.from_encoder(name, layer=2, languages=["zh", "vi"]).eval()
    found = SentenceEmbedder(model, tokenizer, max_length=9)(TEXTS)
    assert found.dtype == np.float32
    for text, vector in zip(TEXTS, found):
        inputs = tokenizer(text, truncation=True, max_length=9, return_tensors="pt")
        with torch.no_grad():
            expected = model(inputs["input_ids"], inputs["attention_mask"]).sentence_embedding[0]
        np.testing.assert_allclose(vector, expected, atol=2e-6)
    assert SentenceEmbedder(model, tokenizer)([]).shape == (0, HIDDEN)


@pytest.mark.parametrize("kind", ["bert", "xlm-roberta", "mt5"])
@pytest.mark.parametrize("layer", [None, 1])
def test_word_vectors_are_the_means_of_their_pieces(kind, layer):
    model, tokenizer = tiny_encoder(kind), tiny_tokenizer()
    sentences = [["I", "love", "apples"], ["我", "爱", "苹果", "今天", "下雨"], ["no"]]
    found = WordStates(model, tokenizer, layer=layer)(sentences)
    for words, vectors in zip(sentences, found):
        ids = tokenizer("".join(words), return_tensors="pt")
        with torch.no_grad():
            states = model(ids["input_ids"], output_hidden_states=True).hidden_states
        state = states[-1 if layer is None else layer]
        if kind == "mt5" and layer is not None:
            state = model.encoder.final_layer_norm(state)
        start = 1
        for word, vector in zip(words, vectors):  # one piece a character
            expected = state[0, start : start + len(word)].mean(0)
            torch.testing.assert_close(torch.from_numpy(vector), expected, atol=1e-5, rtol=1e-4)
            start += len(word)


def test_words_without_a_piece_or_beyond_the_limit_have_no_vector():
    states = WordStates(tiny_encoder("bert"), tiny_tokenizer(max_length=8))
    (vectors,) = states([["abc", "", "def", "ghi"]])
    assert vectors.shape == (4, HIDDEN)
    assert np.isfinite(vectors).all(axis=1).tolist() == [True, False, True, False]
    assert states([]) == []


def test_slow_tokenizers_and_unknown_layers_are_refused():
    model = tiny_encoder("bert")
    with pytest.raises(ValueError, match="give a fast tokenizer"):
        WordStates(model, object())
    with pytest.raises(ValueError, match=r"layer=4: .* has hidden_states 0\.\.3"):
        WordStates(model, tiny_tokenizer(), layer=4)
    assert isinstance(tiny_tokenizer(), PreTrainedTokenizerFast)


@pytest.fixture(scope="module")
def lexical(tmp_path_factory):
    rows = load_parallel("sample", "zh", "vi", split="train")[:40]
    folder = tmp_path_factory.mktemp("links")
    fit_lexical(rows["source"], rows["target"], ("zh", "vi"), rank=4).save_pretrained(folder)
    return LexicalEncoder(str(folder))


def test_links_are_sparse_vectors_for_the_inner_product(lexical):
    rows = load_parallel("sample", "zh", "vi", split="test")[:6]
    queries, documents = lexical.encode(rows["source"], role="query"), lexical.encode(rows["target"], "vi")
    for side, lang, role, vectors in (("source", "zh", "query", queries), ("target", "vi", "document", documents)):
        assert abs(vectors - lexical.model.encode(rows[side], lang, role)).max() == 0
    scores = lexical.score(rows["source"], rows["target"], ("zh", "vi"))
    np.testing.assert_allclose(scores, (queries @ documents.T).toarray().diagonal(), atol=1e-5)
    assert nearest(queries, documents, 1, method=lexical.method)[0].shape == (6, 1)
    assert (lexical.label, len(lexical.revision)) == (Path(lexical.name).name, 16)


def test_a_text_of_which_nothing_is_known_has_no_score(lexical):
    known = load_parallel("sample", "zh", "vi", split="train")[0]
    sides = [known["source"], "ꙮ", known["source"]], [known["target"], known["target"], "ꙮꙮ"]
    scores = lexical.score(*sides, ("zh", "vi"))
    assert np.isnan(scores).tolist() == [False, True, True]


def test_lexical_encoders_that_cannot_be_had(lexical, tiny_bert):
    with pytest.raises(FileNotFoundError, match="lexical='no/such folder' is neither the folder of a lexical model"):
        LexicalEncoder("no/such folder")
    with pytest.raises(ValueError, match="is no lexical model"):
        LexicalEncoder(str(tiny_bert))
    with pytest.raises(ValueError, match="has parts for zh, vi and none for lo"):
        lexical.encode(["x"], "lo")
    with pytest.raises(ValueError, match="no links between zh and zh"):
        lexical.score(["x"], ["x"], ("zh", "zh"))


def test_what_nobody_sees_in_a_text_changes_no_vector_here_or_in_what_is_written(tmp_path):
    """Of an encoder whose class reads nothing but the vocabulary of its tokenizer.json."""
    save_tiny("xlm-roberta", tmp_path / "base")
    letters = [(letter, -3.0) for letter in "▁abcdefghijklmnopqrstuvwxyzệ"]
    special = [(name, 0.0) for name in ("<s>", "<pad>", "</s>", "<unk>")]
    vocabulary = [*special, *letters, ("<mask>", 0.0)]
    XLMRobertaTokenizer(vocab=vocabulary, model_max_length=30).save_pretrained(tmp_path / "base")
    plain, marked = ["ab cd", "việt"], ["\ufeffa\u00adb c\u200bd", "v\u2060ie\u0323\u0302t"]
    encoder = FrozenEncoder(str(tmp_path / "base"), [(None, "mean")])
    np.testing.assert_array_equal(encoder(marked), encoder(plain))
    other = SentenceEncoder(tmp_path / "base")
    np.testing.assert_array_equal(other.encode(marked), other.encode(plain))
    words = [other.word_states([text.split() for text in texts]) for texts in (marked, plain)]
    np.testing.assert_array_equal(np.concatenate(words[0]), np.concatenate(words[1]))
    assert (other.model.encode(marked) != other.model.encode(plain)).any()  # as without hfxling
    model = DapModel(DapConfig(encoder_config=encoder.model.config), encoder.model)
    export(model, load_tokenizer(str(tmp_path / "base")), tmp_path / "written")
    written = SentenceTransformer(str(tmp_path / "written"))
    np.testing.assert_array_equal(written.encode(marked), written.encode(plain))
    again = load_tokenizer(str(tmp_path / "written")).backend_tokenizer.normalizer
    assert str(again) == str(written.tokenizer.backend_tokenizer.normalizer)  # once is enough
