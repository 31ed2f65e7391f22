"""Training the split: on vectors made of a meaning and a language, and the rules around it."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tiny_models import tiny_tokenizer
from transformers import TrainingArguments

from hfxling.data.scored import ScoredPairs
from hfxling.models import DisentanglerModel
from hfxling.training.disentangler import run, study_row
from hfxling.training.disentangler.arguments import TRAINING_DEFAULTS, DisentanglerArguments
from hfxling.training.disentangler.corpus import PairCorpus, PairText
from hfxling.training.disentangler.data import SplitData, encode
from hfxling.training.disentangler.evaluate import evaluate
from hfxling.training.disentangler.train import default_objective, fit, split_vectors

SIZE, PAIRS = 16, 120
LANGUAGES = {"en": 0, "de": 1, "ne": 2}


def made_of(meaning, language, rng):
    """Vectors in which the first dimensions mean something and one of the last three tells the language."""
    vectors = 0.1 * rng.standard_normal((len(meaning), SIZE)).astype(np.float32)
    vectors[:, : meaning.shape[1]] += meaning
    vectors[:, SIZE - 3 + LANGUAGES[language]] += 6
    return vectors


@pytest.fixture(scope="module")
def data() -> SplitData:
    """Two language pairs, and a test set whose gold scores say how alike the meanings are."""
    from datasets import Dataset

    rng = np.random.default_rng(0)
    pairs, train = [], []
    for languages in (("en", "de"), ("ne", "en")):
        meaning = rng.standard_normal((PAIRS, 8))
        train.append(tuple(made_of(meaning, language, rng) for language in languages))
        texts = [f"{languages} {i}" for i in range(PAIRS)]
        columns = {"source": texts, "target": texts, "row": range(PAIRS)}
        pairs.append(PairText(languages, Dataset.from_dict(columns), PAIRS, {}, 0))
    meaning = rng.standard_normal((200, 8))
    other = meaning + rng.uniform(0, 3, (200, 1)) * rng.standard_normal((200, 8))
    gold = np.array([a @ b / np.linalg.norm(a) / np.linalg.norm(b) for a, b in zip(meaning, other)])
    tests = [ScoredPairs("made", "test", "en->de", ["x"] * 200, ["y"] * 200, gold)]
    vectors = [(made_of(meaning, "en", rng), made_of(other, "de", rng))]
    return SplitData(PairCorpus(pairs, tests, {}, "made"), train, vectors, [], "encoder", "made-up")


def arguments(tmp_path, **options):
    names = set(DisentanglerArguments.__dataclass_fields__)
    settings = {"pairs": ["en-de", "ne-en"], "train_data": ["x.tsv"], "qe": "folder", "base_model": "none"}
    settings |= {"init": "default", "probe_pairs": 12} | {k: v for k, v in options.items() if k in names}
    training = {"num_train_epochs": 40, "learning_rate": 5e-3, "per_device_train_batch_size": 64, "disable_tqdm": True}
    training |= {"save_total_limit": 99} | {k: v for k, v in options.items() if k not in names}
    arguments = TrainingArguments(str(tmp_path), use_cpu=True, **(TRAINING_DEFAULTS | training))
    return DisentanglerArguments(**settings), arguments


def checkpoints(training_args):
    return Path(training_args.output_dir).glob("checkpoint-*")


def values(results):
    return {(r.metric, r.direction, r.settings["stage"]): r for r in results}


@pytest.fixture(scope="module")
def fitted(data, tmp_path_factory):
    args, training_args = arguments(tmp_path_factory.mktemp("fit"))
    return args, training_args, fit(args, training_args, data)


def test_the_split_finds_what_means_and_what_is_language(data, fitted):
    args, _, split = fitted
    rows = values(evaluate(args, data, split, seed=0))
    before, after = (rows["Pearson", "en->de", stage] for stage in ("before", "after"))
    assert after.value > before.value + 0.02
    assert after.settings["paired"]["p_value"] < 0.05
    assert rows["language accuracy of the language part", None, "after"].value > 95
    assert rows["alignment", None, "after"].value < rows["alignment", None, "before"].value
    assert rows["alignment", None, "after"].settings["paired"]["high"] < 0
    assert rows["language accuracy", None, "after"].value < rows["language accuracy", None, "before"].value == 100
    assert before.seed is None
    assert after.seed == 0
    pooled, meaning, language = split_vectors(split.head, data.train[0][0])
    np.testing.assert_allclose(meaning + language, pooled, atol=1e-6)


def test_the_log_has_every_term_and_the_trajectory_every_epoch(data, fitted):
    _, training_args, split = fitted
    last = max(checkpoints(training_args), key=lambda path: int(path.name.split("-")[1]))
    history = json.loads((last / "trainer_state.json").read_text())["log_history"]
    terms = [set(entry) & {"loss_mean", "loss_lang", "loss_cross", "loss_sep"} for entry in history if "loss" in entry]
    assert all(len(found) == 4 for found in terms)
    assert [epoch for epoch, *_ in split.trajectory] == list(range(int(split.about["epochs"]) + 1))
    assert split.about["best_epoch"] <= split.about["epochs"] <= 40


def test_the_best_epoch_is_kept(data, fitted):
    _, training_args, split = fitted
    step = int(split.about["best_epoch"]) * 4  # 216 training pairs in batches of 64
    (best,) = [path for path in checkpoints(training_args) if path.name == f"checkpoint-{step}"]
    stored = load_file(best / "model.safetensors")
    assert torch.equal(stored["head.linear.weight"], split.head.linear.weight)


def test_training_stops_after_the_patience(data, tmp_path):
    args, training_args = arguments(tmp_path, patience=2, learning_rate=0.0)
    split = fit(args, training_args, data)
    assert (split.about["epochs"], split.about["best_epoch"]) == (3, 1)


def test_a_resumed_run_gives_the_same_split(data, tmp_path):
    args, training_args = arguments(tmp_path / "whole", num_train_epochs=4, patience=9)
    whole = fit(args, training_args, data)
    args, training_args = arguments(
        tmp_path / "again", num_train_epochs=4, patience=9, resume_from_checkpoint=str(tmp_path / "whole/checkpoint-8")
    )
    again = fit(args, training_args, data)
    assert torch.allclose(whole.head.linear.weight, again.head.linear.weight, atol=1e-6)
    np.testing.assert_allclose(again.trajectory, whole.trajectory, atol=1e-6)


def test_the_seed_decides(data, tmp_path):
    def weight(seed, name):
        args, training_args = arguments(tmp_path / name, seed=seed, num_train_epochs=1)
        return fit(args, training_args, data).head.linear.weight

    first = weight(1, "a")
    assert torch.equal(first, weight(1, "b"))
    assert not torch.allclose(first, weight(2, "c"), atol=1e-3)


def test_a_study_row_tells_what_it_cost(data, tmp_path, monkeypatch):
    args, training_args = arguments(tmp_path, num_train_epochs=1, probe_pairs=0)
    encoded = []
    monkeypatch.setattr("hfxling.training.disentangler.encode", lambda args: encoded.append(args) or data)
    cache = {}
    for _ in range(2):
        rows = study_row(args, training_args, cache)
    assert len(encoded) == 1
    costs = [row.settings.keys() >= {"epochs", "train_cpu_s", "objective"} for row in rows]
    assert costs == [row.settings["stage"] == "after" for row in rows]


def test_a_study_row_without_training_has_the_vectors_own_rows(data, tmp_path):
    args, training_args = arguments(tmp_path, objective="none")
    assert {row.settings["stage"] for row in run(args, training_args, data)} == {"before"}
    with pytest.raises(ValueError, match="objective='none' trains nothing; choose one of intra, inter, both"):
        fit(args, training_args, data)


def test_default_objectives():
    """Paper, section 3.2."""
    assert (default_objective("encoder"), default_objective("llm")) == ("both", "inter")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"objective": "all"}, "objective='all' is not one of auto, none, intra, inter, both"),
        ({"encoder_kind": "bert"}, "encoder_kind='bert' is not one of"),
        ({"pooling": "max"}, "pooling='max' is not one of"),
        ({"layer": "top"}, "layer='top': give a number"),
        ({"patience": 0}, "patience=0 must be >= 1"),
        ({"base_model": None}, "give --base_model"),
        ({"train_vectors": ["en-de=a.npy+b.npy"]}, "belong together"),
        ({"base_model": None, "train_vectors": ["a"], "test_vectors": ["b"], "init": "published"}, "goes on with"),
    ],
)
def test_settings_that_are_refused(options, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        arguments(tmp_path, **options)


def test_early_stopping_needs_the_best_model(data, tmp_path):
    args, training_args = arguments(tmp_path, load_best_model_at_end=False)
    with pytest.raises(ValueError, match="early stopping needs load_best_model_at_end"):
        fit(args, training_args, data)


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """Training and test text with vectors for it."""
    folder, rng = tmp_path_factory.mktemp("text"), np.random.default_rng(0)
    words = ["".join(rng.choice(list("abcdefghij"), 12)) for _ in range(60)]
    train = [*(f"{word}\t{word[::-1]}" for word in words[:40]), f"{words[0]}\t{words[0][::-1]}", f"{words[50]}\tx"]
    folder.joinpath("train.tsv").write_text("\n".join(train) + "\n")
    rows = [f"{word}\t{word[::-1]}\t{i}" for i, word in enumerate(words[45:])]
    folder.joinpath("en-de.test20.tsv").write_text("source\ttarget\tz_mean\n" + "\n".join(rows) + "\n")
    for name, count in (("train", 42), ("test", 15), ("short", 3)):
        for side in ("source", "target"):
            np.save(folder / f"{name}.{side}.npy", rng.standard_normal((count, 5)).astype(np.float32))
    return folder


def with_vectors(text, train="train", test="test", **options):
    def entry(name):
        return [f"en-de={text}/{name}.source.npy+{text}/{name}.target.npy"]

    settings = {"pairs": ["en-de"], "train_data": [f"{text}/train.tsv"], "qe": str(text)}
    settings |= {"train_vectors": entry(train), "test_vectors": entry(test)} | options
    return encode(DisentanglerArguments(**settings))


def test_given_vectors_follow_what_was_dropped(text):
    data = with_vectors(text)
    kept = [*range(40)]  # row 40 repeats row 0, row 41 is a test sentence
    assert data.corpus.pairs[0].train["row"] == kept
    np.testing.assert_array_equal(data.train[0][1], np.load(text / "train.target.npy")[kept])
    np.testing.assert_array_equal(data.scored[0][0], np.load(text / "test.source.npy"))
    assert (data.kind, data.model, data.hidden_size) == ("encoder", "vectors", 5)
    assert with_vectors(text, encoder_kind="llm").kind == "llm"


def test_bad_vectors_are_refused_with_their_rows(text):
    with pytest.raises(ValueError, match=r"short\.source\.npy: 3 vectors for 42 texts"):
        with_vectors(text, train="short")
    broken = np.load(text / "train.source.npy")
    broken[2], broken[7] = np.nan, 0
    np.save(text / "broken.source.npy", broken)
    np.save(text / "broken.target.npy", broken)
    with pytest.raises(ValueError, match="NaN, infinite or all-zero vectors in rows 3, 8"):
        with_vectors(text, train="broken")
    for side in ("source", "target"):
        np.save(text / f"wide.{side}.npy", np.ones((15, 6), np.float32))
    with pytest.raises(ValueError, match=r"different widths \[5, 6\]"):
        with_vectors(text, test="wide")
    with pytest.raises(ValueError, match="train_vectors: no entry en-de=SOURCE_FILE"):
        with_vectors(text, train_vectors=["de-en=a+b"])


def test_the_encoder_sees_the_prompt(text, tiny_bert, tmp_path):
    def encoded(**options):
        settings = {"pairs": ["en-de"], "train_data": [f"{text}/train.tsv"], "qe": str(text)}
        settings |= {"base_model": str(tiny_bert), "cache_dir": str(tmp_path), "pooling": "mean"}
        return encode(DisentanglerArguments(**(settings | options)))

    plain, prompted = encoded(), encoded(prompt="find: ")
    model = DisentanglerModel.from_encoder(str(tiny_bert), pooling="mean")
    for data, prompt in ((plain, ""), (prompted, "find: ")):
        batch = tiny_tokenizer()([prompt + data.corpus.scored[0].source[0]], return_tensors="pt")
        with torch.inference_mode():
            expected = model.head.prepare(model(batch["input_ids"], batch["attention_mask"]).pooled)
        found = model.head.prepare(torch.from_numpy(np.array(data.scored[0][0][:1])))
        assert torch.allclose(found, expected, atol=1e-5)
    assert plain.kind == "encoder"
    assert encoded(pooling="last").kind == "llm"
    assert "en 0.0% unknown" in plain.corpus.coverage
