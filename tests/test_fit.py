"""The functions that fit from Python: equal to the recipes' folders, on any model, refusing what cannot work."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from builders import sentence_pairs
from huggingface_hub import ModelCard
from huggingface_hub.utils import are_progress_bars_disabled
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Pooling, Transformer
from tiny_models import HIDDEN, save_routed, tiny_encoder, tiny_tokenizer
from tokenizers import Tokenizer
from transformers import TrainingArguments

import hfxling
from hfxling.data import segment
from hfxling.encoders.dense import SentenceEncoder
from hfxling.encoders.frozen import token_limit
from hfxling.methods import disentangler, method
from hfxling.methods.siamese import closed_form
from hfxling.methods.siamese.closed_form import fit_closed_form
from hfxling.words.aligner import Aligner, load_aligner
from hfxling.words.prior import load_prior

COUNT = 60
PAIRS = sentence_pairs(COUNT + 12)
ZH, VI = ([pair[side] for pair in PAIRS[:COUNT]] for side in (0, 1))
UNSEEN = [[*(pair[side] for pair in PAIRS[COUNT:]), PAIRS[0][side] * 9] for side in (0, 1)]  # one is cut
QUICK = {"num_train_epochs": 2, "learning_rate": 1e-2, "use_cpu": True}
CLOSED = {"fit": "procrustes", "progress": False}
SMALL = {"size": 8, "evaluate_every": 1, "num_train_epochs": 2, "use_cpu": True}


def save_spread(kind: str, folder: Path) -> Path:
    """A tiny encoder whose vectors differ enough from text to text: centring small differences magnifies rounding."""
    encoder = tiny_encoder(kind)
    with torch.no_grad():
        for weight in encoder.parameters():
            if weight.ndim > 1:
                weight.mul_(1 + 9 * (weight.std() < 0.1))
    encoder.save_pretrained(folder)
    tiny_tokenizer(512).save_pretrained(folder)  # more than there are positions: of those XLM-R keeps some back
    return folder


@pytest.fixture(scope="module")
def tiny_bert(tmp_path_factory) -> Path:
    return save_spread("bert", tmp_path_factory.mktemp("bert"))


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    """The same text as a recipe reads it."""
    folder = tmp_path_factory.mktemp("text")
    for name, rows in (("train", PAIRS[:COUNT]), ("test", PAIRS[COUNT:])):
        folder.joinpath(f"{name}.tsv").write_text("".join(f"{zh}\t{vi}\n" for zh, vi in rows), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def plain(tiny_bert) -> SentenceTransformer:
    """A SentenceTransformer that ends in unit length after a Dense module, as LaBSE does."""
    torch.manual_seed(2)
    modules = [Transformer(str(tiny_bert)), Pooling(HIDDEN, "cls"), Dense(HIDDEN, 12), Normalize()]
    return SentenceTransformer(modules=modules, device="cpu")


def cut_encoder(folder: Path, layer: int, pooling: str) -> SentenceTransformer:
    """An encoder that ends after a layer, as the recipe cuts it, and pooling."""
    encoder = Transformer(str(folder), config_kwargs={"num_hidden_layers": layer})
    encoder.max_seq_length = token_limit(encoder.tokenizer, encoder.config)
    return SentenceTransformer(modules=[encoder, Pooling(HIDDEN, pooling)], device="cpu")


def by_recipe(name, files, folder, options, **settings):
    """The folder that the method's recipe writes."""
    package = method(name)
    trainer = {key: options[key] for key in QUICK.keys() & options.keys()}
    ours = {key: value for key, value in options.items() if key not in trainer}
    text = {"pairs": ["zh-vi"], "train_data": [str(files / "train.tsv")], "test_data": [str(files / "test.tsv")]}
    args = package.Arguments(**text, keep_leaks=True, **settings, **ours)
    defaults = package.TRAINING_DEFAULTS | {"output_dir": str(folder / "run"), "disable_tqdm": True}
    training_args = TrainingArguments(**defaults | trainer)
    package.run(args, training_args, package.prepare([args], training_args)).write(folder / "model")
    return str(folder / "model")


def close(first, second):
    return np.allclose(first, second, atol=1e-5)


def cosines(model, source, target):
    """Those of all texts of both sides: components that hardly differ in strength are only known up to a turn."""
    sides = (model.encode_query(source, convert_to_tensor=True), model.encode_document(target, convert_to_tensor=True))
    vectors = torch.nn.functional.normalize(torch.cat(sides).float())
    return vectors @ vectors.T


def strengths(model):
    """How far translations agree in every component."""
    return (model.encode_query(ZH) * model.encode_document(VI)).mean(0)


# Heads -----------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("bert", {"layer": 2}),
        ("bert", {"layer": 1, "one_map": True}),
        ("bert", {"fit": "tied", "layer": 2}),
        ("xlm-roberta", {"fit": "cca", "layer": 2}),
        ("mt5", {"fit": "procrustes", "layer": 1}),
        ("distilbert", {"fit": "ridge", "layer": 3}),
        ("bert", {"fit": "procrustes", "layer": 3, "pooling": "cls", "centering": "train"}),
        ("bert", {"fit": "infonce", "layer": 0, **QUICK}),
        ("bert", {"fit": "contrastive", "layer": 1, "per_language": True, "centering": "train", **QUICK}),
    ],
)
def test_a_head_is_that_of_the_recipe(kind, options, files, tmp_path):
    encoder = save_spread(kind, tmp_path / "encoder")
    settings = {"base_model": str(encoder), "cache_dir": str(tmp_path / "cache")}
    options = dict(options)
    layer, pooling = options.pop("layer"), options.pop("pooling", "mean")
    folder = by_recipe("siamese", files, tmp_path, options | {"layer": str(layer), "pooling": pooling}, **settings)
    published = SentenceTransformer(folder, device="cpu")
    cut = cut_encoder(encoder, layer, pooling)
    fitted = hfxling.fit_head(cut, ZH, VI, languages=("zh", "vi"), progress=False, **options)
    fitted.save_pretrained(str(tmp_path / "saved"))
    saved = SentenceTransformer(str(tmp_path / "saved"), device="cpu")
    both = UNSEEN[0] + UNSEEN[1]
    for encode in ("encode_query", "encode_document"):
        expected = getattr(fitted, encode)(both)
        assert np.ptp(expected, axis=0).max() > 0.01
        assert close(getattr(saved, encode)(both), expected)
    assert close(cosines(fitted, both, both), cosines(published, both, both))
    assert close(strengths(fitted), strengths(published))
    for model in (saved, published):
        assert close(model.encode(UNSEEN[1], task="vi"), model.encode_document(UNSEEN[1]))
    assert saved.max_seq_length == published.max_seq_length
    assert [type(module) for module in fitted] == [type(module) for module in published]


def test_any_model_keeps_its_own_modules(plain, tmp_path):
    before = {name: value.clone() for name, value in plain.state_dict().items()}
    fitted = hfxling.fit_head(plain, ZH, VI, fit="procrustes", progress=False)
    vectors = plain.encode(ZH), plain.encode(VI)
    of_source, of_target, _ = fit_closed_form("procrustes", *vectors)
    mapped = np.vstack([of_source(vectors[0]), of_target(vectors[1])])
    mapped /= np.linalg.norm(mapped, axis=1, keepdims=True)
    assert close(cosines(fitted, ZH, VI), mapped @ mapped.T)
    assert (np.diff(strengths(fitted)) < 1e-5).all()
    assert fitted[0] is plain[0]
    assert len(plain) == 4
    assert all(torch.equal(value, before[name]) for name, value in plain.state_dict().items())
    assert fitted.get_embedding_dimension() == 12
    names = [SentenceEncoder(model).label for model in (plain, fitted)]
    assert names[1] == f"{names[0]} with a head"
    fitted.save_pretrained(str(tmp_path / "model"))
    assert not list(tmp_path.rglob("*.py"))
    saved = SentenceTransformer(str(tmp_path / "model"), device="cpu", trust_remote_code=False)
    assert close(saved.encode_query(ZH), fitted.encode_query(ZH))
    assert close(saved.encode_document(VI), fitted.encode_document(VI))


def test_a_folder_without_a_layer_gives_its_own_vectors(plain, tmp_path):
    plain.save_pretrained(str(tmp_path))
    fitted, again = (hfxling.fit_head(model, ZH, VI, **CLOSED) for model in (plain, tmp_path))
    assert close(again.encode_query(ZH), fitted.encode_query(ZH))


def test_languages_are_never_guessed(plain):
    unnamed = hfxling.fit_head(plain, ZH, VI, fit="cca", progress=False)
    named = hfxling.fit_head(plain, ZH, VI, languages=["zh-tw", "vi"], fit="cca", progress=False)
    assert close(named.encode(ZH, task="zh-tw"), unnamed.encode_query(ZH))
    assert close(named.encode(VI, task="vi"), unnamed.encode_document(VI))
    assert named.model_card_data.language == ["zh-tw", "vi"]
    assert unnamed.model_card_data.language == []
    for model, task in ((unnamed, {}), (unnamed, {"task": "src"}), (named, {})):
        with pytest.raises(ValueError, match="task"):
            model.encode(ZH, **task)


def test_one_map_for_both_languages_needs_no_task(plain):
    fitted = hfxling.fit_head(plain, ZH, VI, fit="infonce", languages=("zh", "vi"), progress=False, **QUICK)
    vectors = fitted.encode(VI)
    assert close(vectors, fitted.encode_query(VI))
    assert close(vectors, fitted.encode_document(VI))
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


def test_one_prompt_stands_before_every_text_now_and_later(tiny_bert, tmp_path):
    modules = [Transformer(str(tiny_bert)), Pooling(HIDDEN)]
    bare = SentenceTransformer(modules=modules, device="cpu", prompts={"query": "ask "})
    prompted = SentenceTransformer(modules=modules, device="cpu", prompts={"in": "in "}, default_prompt_name="in")
    expected = hfxling.fit_head(bare, ["in " + text for text in ZH], ["in " + text for text in VI], **CLOSED)
    given = hfxling.fit_head(bare, ZH, VI, prompt="in ", **CLOSED)
    own = hfxling.fit_head(prompted, ZH, VI, **CLOSED)
    none = hfxling.fit_head(prompted, ZH, VI, prompt="", **CLOSED)
    own.save_pretrained(str(tmp_path))
    for model in (given, own, SentenceTransformer(str(tmp_path), device="cpu")):
        assert close(model.encode_query(ZH), expected.encode_query(["in " + text for text in ZH]))
        assert close(model.encode(VI, task="document"), expected.encode_document(["in " + text for text in VI]))
    without = hfxling.fit_head(bare, ZH, VI, **CLOSED)
    assert close(none.encode_query(ZH), without.encode_query(ZH))
    assert not close(none.encode_query(ZH), own.encode_query(ZH))


def test_a_family_that_wants_a_prompt_gets_it_and_text_is_read_as_it_is_seen(tiny_bert, tmp_path):
    folder = tmp_path / "multilingual-e5-small"  # by whose name the family is known
    shutil.copytree(tiny_bert, folder)
    told = hfxling.fit_head(tiny_bert, ZH, VI, prompt="query: ", **CLOSED)
    invisible = [f"{text[:1]}\u200b{text[1:]}" for text in ZH]
    fitted = hfxling.fit_head(folder, invisible, VI, **CLOSED)
    assert close(fitted.encode_query(ZH), told.encode_query(ZH))
    assert not close(fitted.encode_query(ZH), hfxling.fit_head(tiny_bert, ZH, VI, **CLOSED).encode_query(ZH))
    split = hfxling.fit_disentangler(folder, ZH, VI, progress=False, **QUICK)
    assert split.prompts[split.default_prompt_name] == "query: "


def test_a_truncated_model_is_mapped_at_full_width_and_stays_truncated(tiny_bert):
    modules = [Transformer(str(tiny_bert)), Pooling(HIDDEN)]
    whole = hfxling.fit_head(SentenceTransformer(modules=modules, device="cpu"), ZH, VI, **CLOSED)
    short = SentenceTransformer(modules=modules, device="cpu", truncate_dim=4)
    assert close(hfxling.fit_head(short, ZH, VI, **CLOSED).encode_query(ZH), whole.encode_query(ZH))
    assert short.encode(ZH).shape == (COUNT, 4)


def test_a_model_in_bfloat16(plain, tiny_bert):
    half = SentenceTransformer(str(tiny_bert), device="cpu", model_kwargs={"dtype": torch.bfloat16})
    fitted = hfxling.fit_head(half, ZH, VI, fit="procrustes", progress=False)
    whole = hfxling.fit_head(tiny_bert, ZH, VI, fit="procrustes", progress=False)
    assert fitted.dtype == torch.bfloat16
    assert np.allclose(cosines(fitted, ZH, VI), cosines(whole, ZH, VI), atol=0.1)


def test_every_distinct_text_is_encoded_once(plain, monkeypatch):
    seen = []
    encode = SentenceTransformer.encode
    monkeypatch.setattr(SentenceTransformer, "encode", lambda *a, **k: seen.append(a[1]) or encode(*a, **k))
    hfxling.fit_head(plain, ZH + ZH[:5], VI + VI[3:8], **CLOSED)
    (texts,) = seen
    assert sorted(texts) == sorted(ZH + VI)


def test_bars_are_shown_unless_nobody_wants_them(plain, monkeypatch, capfd):
    shown = []
    monkeypatch.setattr(closed_form, "tqdm", lambda parts, **settings: shown.append(settings["disable"]) or parts)
    for progress in (True, False):
        capfd.readouterr()
        hfxling.fit_head(plain, ZH, VI, progress=progress)
        assert ("Batches" in capfd.readouterr().err) == progress
    assert shown == [False] * 4 + [True] * 4  # folds dealt out four times


def test_nothing_is_left_behind(plain, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    hfxling.fit_head(plain, ZH, VI, fit="infonce", progress=False, **QUICK)
    hfxling.fit_disentangler(plain, ZH, VI, progress=False, **QUICK)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("fit", [hfxling.fit_head, hfxling.fit_disentangler])
def test_the_card_of_a_saved_model_says_what_is_known(fit, tiny_bert, tmp_path):
    encoder = tmp_path / "models--org--encoder" / "snapshots" / ("0" * 40)
    shutil.copytree(tiny_bert, encoder)
    options = CLOSED if fit is hfxling.fit_head else {"progress": False, **QUICK}
    model = fit(encoder, ZH, VI, languages=("zh", "vi"), **options)
    model.model_card_data.license = "cc-by-4.0"
    model.save_pretrained(str(tmp_path / "model"))
    card = ModelCard.load(tmp_path / "model" / "README.md")
    assert (card.data.base_model, card.data.license, card.data.language) == ("org/encoder", "cc-by-4.0", ["zh", "vi"])
    assert {"hfxling", "cross-lingual", "sentence-transformers"} <= {*card.data.tags}
    (widget,) = card.data.widget
    assert widget == {"source_sentence": "今天下雨。", "sentences": ["Hôm nay trời mưa.", "Nhà ga ở đâu?"]}
    assert "Built on `org/encoder` for zh, vi." in card.text
    assert 'encode_query(["今天下雨。"])' in card.text, "the snippet is in the model's languages"
    assert re.search(rf"\| texts in memory .*\| +{len(ZH)} \|", card.text)  # the training text
    for told in ("**This model has not been evaluated.**", "## Limits", "seed: 42", "```bibtex"):
        assert told in card.text
    assert "trust_remote_code" not in card.text, "no code is saved"


def test_the_card_of_a_model_that_is_trained_further_is_that_of_sentence_transformers(plain, tmp_path):
    model = hfxling.fit_head(plain, ZH, VI, **CLOSED)
    model.model_card_data.add_tags("generated_from_trainer")  # as its Trainer does
    model.save_pretrained(str(tmp_path))
    card = ModelCard.load(tmp_path / "README.md")
    assert "Sentence Transformers Documentation" in card.text
    assert "has not been evaluated" not in card.text


@pytest.mark.slow
def test_a_fitted_model_is_pushed_as_any_other(hub, publisher, plain, tiny_bert, tmp_path):
    plain.save_pretrained(str(tmp_path / "base"))
    code = """
import sys, json, hfxling
texts = json.load(open("texts.json"))
model = hfxling.fit_head("base", *texts, languages=("zh", "vi"), progress=False)
model.push_to_hub("org/head", token="any")
print(json.dumps(model.encode_document(texts[1]).tolist()))
"""
    (tmp_path / "texts.json").write_text(json.dumps([ZH, VI]))
    run = publisher.run(code, cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    files = hub.files("org/head")
    assert not [name for name in files if name.endswith(".py")]
    for name, content in files.items():
        (tmp_path / "pulled" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "pulled" / name).write_bytes(content)
    pulled = SentenceTransformer(str(tmp_path / "pulled"), device="cpu")
    assert close(pulled.encode_document(VI), json.loads(run.stdout.strip().splitlines()[-1]))
    card = files["README.md"].decode()
    assert 'SentenceTransformer("org/head")' in card
    assert "- vi\n" in card


@pytest.mark.parametrize(
    ("source", "target", "options", "message"),
    [
        (ZH, VI[:-1], {}, "60 source, 59 target texts"),
        (ZH[:9], VI[:9], {}, "9 source, 9 target texts: give the same number of each, at least ten"),
        (["", *ZH], ["a", *VI], {}, r"source\[0\] is ''"),
        (ZH, [*VI[:-1], None], {}, r"target\[59\] is None"),
        (ZH, [*VI[:-1], " \n"], {}, r"target\[59\] is ' \\n'"),
        ("text", VI, {}, "give a list of source texts"),
        (ZH, None, {}, "give a list of source texts"),
        ({*ZH}, VI, {}, "a set has no order"),
        (ZH, VI, {"languages": "zh-vi"}, "give the codes of two languages"),
        (ZH, VI, {"languages": ("zh", "zh")}, "two languages"),
        (ZH, VI, {"languages": ("zh", "vn")}, "language 'vn'"),
        (ZH, VI, {"fit": "pca"}, "fit='pca' is not one of auto, centred, cca"),
        (ZH, VI, {"temprature": 1}, "unknown option 'temprature'; the nearest known one is 'temperature'"),
        (ZH, VI, {"output_dir": "out"}, "unknown option 'output_dir'"),
        (ZH, VI, {"fraction": 0.5}, "unknown option 'fraction'"),
        (ZH, VI, {"per_device_train_batch_size": 0}, "per_device_train_batch_size=0: give 1 or more"),
        (ZH, VI, {"learning_rate": float("nan")}, "learning_rate=nan: give 0 or more"),
        (ZH, VI, {"temperature": 0}, "temperature=0 > 0|temperature=0"),
        (ZH, VI, {"init": "published", "fit": "infonce"}, "init='published'"),
        (ZH, VI, {"layer": 9}, "unknown option 'layer'"),
        ({("zh", "vi"): (ZH, VI)}, VI, {}, "leave target and languages out"),
        ({("zh", "vi"): (ZH, VI), ("zh", "en"): (ZH, VI)}, None, {}, "a head is for one language pair"),
    ],
)
def test_what_cannot_work_is_said_in_one_line(source, target, options, message, tiny_bert):
    with pytest.raises(ValueError, match=message) as error:
        hfxling.fit_head(tiny_bert, source, target, progress=False, **options)
    assert "\n" not in str(error.value)


def test_models_that_cannot_be_mapped(plain, tiny_bert, tmp_path):
    routed = SentenceTransformer(str(save_routed(tiny_bert, tmp_path / "routed")), device="cpu")
    for model in (routed, tmp_path / "routed", hfxling.fit_head(plain, ZH, VI, **CLOSED)):
        with pytest.raises(ValueError, match="has routes"):
            hfxling.fit_head(model, ZH, VI, progress=False)
    with pytest.raises(FileNotFoundError, match=r"model='.*nowhere' is neither"):
        hfxling.fit_head(tmp_path / "nowhere", ZH, VI, progress=False)


def test_a_split_that_early_stopping_cannot_end_is_refused_before_anything_is_encoded(tmp_path):
    for options, message in (
        ({"num_train_epochs": 0}, "num_train_epochs=0: a split that is not trained"),
        ({"load_best_model_at_end": False}, "early stopping needs load_best_model_at_end"),
    ):
        with pytest.raises(ValueError, match=message):
            hfxling.fit_disentangler(tmp_path / "nowhere", ZH, VI, progress=False, **options)


def test_vectors_that_are_not_finite_are_refused(tiny_bert):
    dense = Dense(HIDDEN, HIDDEN, init_bias=torch.full((HIDDEN,), torch.nan))
    model = SentenceTransformer(modules=[Transformer(str(tiny_bert)), Pooling(HIDDEN), dense], device="cpu")
    with pytest.raises(ValueError, match="gives vectors with NaN or infinite numbers"):
        hfxling.fit_head(model, ZH, VI, progress=False)


# Disentangler -----------------------------------------------------------------------------
def test_a_split_is_that_of_the_recipe(files, tiny_bert, tmp_path):
    settings = {"base_model": str(tiny_bert), "cache_dir": str(tmp_path / "cache"), "probe_pairs": 0}
    folder = by_recipe("disentangler", files, tmp_path, QUICK | {"prompt": "in "}, **settings)
    published = SentenceTransformer(folder, device="cpu")
    fitted = hfxling.fit_disentangler(tiny_bert, ZH, VI, prompt="in ", languages=("zh", "vi"), progress=False, **QUICK)
    fitted.save_pretrained(str(tmp_path / "saved"))
    saved = SentenceTransformer(str(tmp_path / "saved"), device="cpu")
    for texts in UNSEEN:
        assert close(fitted.encode(texts), published.encode(texts))
        assert close(saved.encode(texts), published.encode(texts))
        assert close(saved.encode_query(texts), published.encode(texts))


def test_a_split_of_several_language_pairs(plain, monkeypatch):
    seen = []
    fit = disentangler.fit

    def watched(vectors, settings, training_args, *, kind):
        seen.append((vectors, kind))
        return fit(vectors, settings, training_args, kind=kind)

    monkeypatch.setattr(disentangler, "fit", watched)
    texts = {("zh", "vi"): (ZH[:30], VI[:30]), ("zh", "id"): (ZH[30:], VI[30:])}
    fitted = hfxling.fit_disentangler(plain, texts, progress=False, **QUICK)
    assert [len(source) for source, _ in seen[0][0]] == [30, 30]
    assert close(seen[0][0][1][0], plain.encode(ZH[30:]))
    assert fitted.model_card_data.language == ["zh", "vi", "id"]
    assert seen[0][1] == "encoder"
    last = SentenceTransformer(modules=[plain[0], Pooling(HIDDEN, "lasttoken")], device="cpu")
    hfxling.fit_disentangler(last, ZH, VI, progress=False, **QUICK)
    hfxling.fit_disentangler(last, ZH, VI, encoder_kind="encoder", progress=False, **QUICK)
    assert [kind for _, kind in seen[1:]] == ["llm", "encoder"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"objective": "other"}, "objective='other' is not one of"),
        ({"layer": 1}, "unknown option 'layer'"),
        ({"sts": "folder"}, "unknown option 'sts'"),
    ],
)
def test_what_a_split_refuses(options, message, plain):
    with pytest.raises(ValueError, match=message):
        hfxling.fit_disentangler(plain, ZH, VI, progress=False, **options)


# Aligner -----------------------------------------------------------------------------
def remembered(learn):
    """Pieces of one text learnt once: of pieces that are equally good the trainer takes others from run to run."""
    learnt = {}

    def learn_once(learner, name, words, size, **limits):
        words = list(words)
        key = (name, size, str(words), str(limits))
        if key not in learnt:
            learnt[key] = learn(learner, name, words, size, **limits)
        return Tokenizer.from_str(learnt[key].to_str())

    return learn_once


@pytest.mark.parametrize("prior", [False, True])
def test_an_aligner_is_that_of_the_recipe_and_saved_as_it_is(prior, files, tmp_path, monkeypatch):
    monkeypatch.setattr("hfxling.data.segment._learn", remembered(segment._learn))
    torch.manual_seed(5)  # whatever ran before
    fitted = hfxling.fit_aligner(ZH, VI, ("zh", "vi"), progress=False, prior=prior, **SMALL)
    hfxling.save_aligner(fitted, tmp_path / "saved")
    folder = by_recipe("aligner", files, tmp_path, SMALL, prior=prior)
    published, vocabularies = load_aligner(folder)
    for name, value in published.state_dict().items():
        assert torch.allclose(value, fitted.model.state_dict()[name], atol=1e-5), name
    assert {lang: len(vocabulary) for lang, vocabulary in vocabularies.items()} == {
        lang: len(vocabulary) for lang, vocabulary in zip(fitted.languages, fitted.vocabularies)
    }
    model, vocabularies = load_aligner(str(tmp_path / "saved"))
    stored = load_prior(str(tmp_path / "saved"), model.config, ("zh", "vi"))
    assert (stored is not None) == prior
    loaded = Aligner(model, vocabularies, ("zh", "vi"), method=fitted.method, prior=stored)
    links, again = ([line.links for line in aligner_(*UNSEEN)] for aligner_ in (fitted, loaded))
    assert links == again
    assert any(links)
    assert fitted.method == ("mean" if prior else "itermax")
    assert SentenceTransformer(str(tmp_path / "saved"), device="cpu").encode(ZH, task="zh").shape == (COUNT, 8)


def test_what_an_aligner_refuses():
    with pytest.raises(ValueError, match="unknown option 'dictionaries'"):
        hfxling.fit_aligner(ZH, VI, ("zh", "vi"), dictionaries=["lo-zh=x"])
    with pytest.raises(ValueError, match="60 source, 59 target"):
        hfxling.fit_aligner(ZH, VI[1:], ("zh", "vi"))
    with pytest.raises(ValueError, match="negatives"):
        hfxling.fit_aligner(ZH, VI, ("zh", "vi"), negatives="none")


def test_nothing_is_shown_where_nothing_is_to_be(capfd):
    hfxling.fit_aligner(ZH, VI, ("zh", "vi"), progress=False, prior=True, **SMALL)
    assert "".join(capfd.readouterr()) == ""
    assert not are_progress_bars_disabled("hfxling")
    hfxling.fit_aligner(ZH, VI, ("zh", "vi"), **SMALL)
    assert "train loss" in "".join(capfd.readouterr())


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved")
    links = hfxling.fit_lexical(ZH, VI, ("zh", "vi"), rank=8, progress=False)
    hfxling.save_lexical(links, folder / "lexical", licence="cc-by-4.0", repo="org/zh-vi-links")
    aligner = hfxling.fit_aligner(ZH, VI, ("zh", "vi"), progress=False, **SMALL)
    hfxling.save_aligner(aligner, folder / "aligner")
    return folder


def test_links_are_counted_with_the_help_of_a_loaded_encoder_as_of_a_named_one(tiny_bert, monkeypatch):
    monkeypatch.setattr("hfxling.words.encoder._MOST_UNKNOWN", 1.0)  # it knows few letters
    loaded = SentenceTransformer(str(tiny_bert), device="cpu")
    options = {"rank": 8, "device": "cpu", "progress": False}
    links = {}
    for name, model in {"named": tiny_bert, "loaded": loaded, "none": None}.items():
        links[name] = hfxling.fit_lexical(ZH, VI, ("zh", "vi"), model=model, **options)
    queries = {name: fitted.encode(ZH[:5], "zh").toarray() for name, fitted in links.items()}
    np.testing.assert_allclose(queries["loaded"], queries["named"], atol=1e-5)
    assert queries["none"].shape != queries["named"].shape or not np.allclose(queries["none"], queries["named"])
    assert tiny_bert.name in links["loaded"].origin["summary"]


@pytest.mark.parametrize(
    ("name", "repo", "licence"), [("lexical", "org/zh-vi-links", "cc-by-4.0"), ("aligner", "zh-vi-aligner", "other")]
)
def test_a_card_says_what_is_known_and_no_score(saved, name, repo, licence):
    card = ModelCard.load(saved / name / "README.md")
    assert card.data.license == licence
    assert {*card.data.language} == {"zh", "vi"}
    assert f'"{repo}"' in card.text  # in a snippet
    assert "**This model has not been evaluated.**" in card.text
    assert '["..."]' not in card.text
    assert re.search(rf"\| texts in memory .*\| +{COUNT} \|", card.text)  # the training text


def test_the_record_has_the_settings(saved):
    record = json.loads((saved / "lexical" / "results.json").read_text(encoding="utf-8"))
    assert record["results"] == []
    assert record["recipe"] == "hfxling.fit_lexical"
    assert "rank: 8" in (saved / "lexical" / "config.yaml").read_text(encoding="utf-8")
    assert "size: 8" in (saved / "aligner" / "config.yaml").read_text(encoding="utf-8")


def test_a_malformed_licence_is_refused_and_nothing_is_written(tmp_path):
    links = hfxling.fit_lexical(ZH, VI, ("zh", "vi"), rank=8, progress=False)
    for licence in ("CC BY", "cc-by-9.0"):
        with pytest.raises(ValueError, match=f"licence='{licence}' is not a licence of the Hub"):
            hfxling.save_lexical(links, tmp_path / "model", licence=licence)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_train_epochs": 3}, "unknown option 'num_train_epochs'"),
        ({"prompt": "query: "}, "is for a model, but none is given"),
        ({"seed": -1}, "seed=-1: give a whole number from 0"),
        ({"hub_weight": 1e300}, "hub_weight=1e[+]300: give 1000 or less"),
        ({"view_weights": [1e300, 1]}, "give weights above 0 and up to 1000"),
        ({"static_decay": float("nan")}, "static_decay=nan: give 0 or more"),
        ({"languages": "zh-vi"}, "give the codes of two languages"),
    ],
)
def test_options_of_links_that_would_do_nothing_or_harm(options, message):
    given = {"languages": ("zh", "vi")} | options
    with pytest.raises(ValueError, match=message):
        hfxling.fit_lexical(["你好"] * 12, ["chào"] * 12, **given)


def test_a_vocabulary_may_be_larger_than_its_text():
    pairs = hfxling.load_parallel("sample", "zh", "vi")[:40]
    model = hfxling.fit_lexical(pairs["source"], pairs["target"], ("zh", "vi"), vocab_size=10**9)
    assert max(map(max, model.config.vocab_sizes.values())) < 10**5
