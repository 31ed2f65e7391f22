"""Training the split: on vectors made of a meaning and a language, and the rules around it."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import TrainingArguments

from hfxling.data.corpus import Corpus, PairText
from hfxling.data.scored import ScoredPairs
from hfxling.evaluation.similarity import cosines
from hfxling.methods.disentangler import run
from hfxling.methods.disentangler.arguments import TRAINING_DEFAULTS, DisentanglerArguments
from hfxling.methods.disentangler.data import Prepared, prepare
from hfxling.methods.disentangler.evaluate import evaluate
from hfxling.methods.disentangler.train import default_objective, division, fit, fit_heads, language_of, meaning_of
from hfxling.methods.frozen import PairVectors

SIZE, PAIRS = 16, 120
LANGUAGES = {"en": 0, "de": 1, "ne": 2}


def made_of(meaning, language, rng):
    """Vectors in which the first dimensions mean something and one of the last three tells the language."""
    vectors = 0.1 * rng.standard_normal((len(meaning), SIZE)).astype(np.float32)
    vectors[:, : meaning.shape[1]] += meaning
    vectors[:, SIZE - 3 + LANGUAGES[language]] += 6
    return vectors


@pytest.fixture(scope="module")
def data() -> Prepared:
    """Two language pairs, and a test set whose gold scores say how alike the meanings are."""
    from datasets import Dataset

    rng = np.random.default_rng(0)
    pairs, vectors = [], []
    for languages in (("en", "de"), ("ne", "en")):
        meaning = rng.standard_normal((PAIRS, 8))
        sides = tuple(made_of(meaning, language, rng) for language in languages)
        vectors.append(PairVectors(languages, sides, (sides[0][:0], sides[1][:0])))
        texts = [f"{languages} {i}" for i in range(PAIRS)]
        text = Dataset.from_dict({"source": texts, "target": texts, "row": range(PAIRS)})
        pairs.append(PairText(languages, text, text.select([]), PAIRS))
    meaning = rng.standard_normal((200, 8))
    other = meaning + rng.uniform(0, 3, (200, 1)) * rng.standard_normal((200, 8))
    gold = np.array([a @ b / np.linalg.norm(a) / np.linalg.norm(b) for a, b in zip(meaning, other)])
    tests = [ScoredPairs("made", "test", "en->de", ["x"] * 200, ["y"] * 200, gold)]
    scored = [(made_of(meaning, "en", rng), made_of(other, "de", rng))]
    return Prepared(Corpus(pairs, "made", tests), vectors, scored, "encoder", "made-up")


def arguments(tmp_path, **options):
    names = set(DisentanglerArguments.__dataclass_fields__)
    settings = {"pairs": ["en-de", "ne-en"], "train_data": ["{pair}.tsv"], "qe": "folder", "base_model": "none"}
    settings |= {"heads": "joint"}
    settings |= {"init": "default", "probe_pairs": 12} | {k: v for k, v in options.items() if k in names}
    training = {"num_train_epochs": 40, "learning_rate": 5e-3, "per_device_train_batch_size": 64, "disable_tqdm": True}
    training |= {"save_total_limit": 99} | {k: v for k, v in options.items() if k not in names}
    arguments = TrainingArguments(use_cpu=True, **(TRAINING_DEFAULTS | training | {"output_dir": str(tmp_path)}))
    return DisentanglerArguments(**settings), arguments


def measured(args, data, heads, **options):
    return evaluate(data, heads, args, origin={}, probe_pairs=args.probe_pairs, **options)


def checkpoints(training_args):
    return Path(training_args.output_dir).glob("checkpoint-*")


def values(results):
    return {(r.metric, r.direction, r.settings["stage"]): r for r in results}


@pytest.fixture(scope="module")
def fitted(data, tmp_path_factory):
    args, training_args = arguments(tmp_path_factory.mktemp("fit"))
    return args, training_args, fit(data.train, args, training_args)


def test_the_split_finds_what_means_and_what_is_language(data, fitted):
    args, _, split = fitted
    rows = values(measured(args, data, [split.head] * 2, seed=0))
    before, after = (rows["Pearson", "en->de", stage] for stage in ("before", "after"))
    assert after.value > before.value + 0.02
    assert after.settings["paired"]["p_value"] < 0.05
    assert rows["language accuracy of the language part", None, "after"].value > 95
    assert rows["alignment", None, "after"].value < rows["alignment", None, "before"].value
    assert rows["alignment", None, "after"].settings["paired"]["high"] < 0
    assert rows["language accuracy", None, "after"].value < rows["language accuracy", None, "before"].value == 100
    assert before.seed is None
    assert after.seed == 0
    vectors = data.train[0][0]
    both = meaning_of(split.head, vectors) + language_of(split.head, vectors)
    np.testing.assert_allclose(both, vectors, atol=1e-6)


def test_heads_of_their_own_are_what_each_pair_would_get_alone(data, tmp_path):
    args, training_args = arguments(tmp_path, heads="pair", num_train_epochs=1)
    heads = [split.head for split in fit_heads(data.train, [("en", "de"), ("ne", "en")], args, training_args)]
    args, alone = arguments(tmp_path / "alone", num_train_epochs=1)
    assert torch.equal(
        fit(data.train[1:], args, alone, rows=division(data.train, 0.1)[1:]).head.linear.weight,
        heads[1].linear.weight,
    )
    rows = values(measured(args, data, heads))
    meanings = [meaning_of(heads[0], side) for side in data.scored[0]]
    expected = np.corrcoef(cosines(*meanings), data.corpus.scored[0].scores)[0, 1]
    assert rows["Pearson", "en->de", "after"].value == pytest.approx(expected)


def test_the_log_has_every_term_and_the_trajectory_every_epoch(data, fitted):
    _, training_args, split = fitted
    last = max(checkpoints(training_args), key=lambda path: int(path.name.split("-")[1]))
    history = json.loads((last / "trainer_state.json").read_text())["log_history"]
    terms = [set(entry) & {"loss_mean", "loss_lang", "loss_cross", "loss_sep"} for entry in history if "loss" in entry]
    assert all(len(found) == 4 for found in terms)
    assert [epoch for epoch, *_ in split.trajectory] == list(range(int(split.reached["epochs"]) + 1))
    assert split.reached["best_epoch"] <= split.reached["epochs"] <= 40


def test_the_best_epoch_is_kept(data, fitted):
    _, training_args, split = fitted
    step = int(split.reached["best_epoch"]) * 4  # 216 training pairs in batches of 64
    (best,) = [path for path in checkpoints(training_args) if path.name == f"checkpoint-{step}"]
    stored = load_file(best / "model.safetensors")
    assert torch.equal(stored["head.linear.weight"], split.head.linear.weight)


def test_training_stops_after_the_patience(data, tmp_path):
    args, training_args = arguments(tmp_path, patience=2, learning_rate=0.0)
    split = fit(data.train, args, training_args)
    assert (split.reached["epochs"], split.reached["best_epoch"]) == (3, 1)


def test_a_resumed_run_gives_the_same_split(data, tmp_path):
    args, training_args = arguments(tmp_path / "whole", num_train_epochs=4, patience=9)
    whole = fit(data.train, args, training_args)
    args, training_args = arguments(
        tmp_path / "again", num_train_epochs=4, patience=9, resume_from_checkpoint=str(tmp_path / "whole/checkpoint-8")
    )
    again = fit(data.train, args, training_args)
    assert torch.allclose(whole.head.linear.weight, again.head.linear.weight, atol=1e-6)
    np.testing.assert_allclose(again.trajectory, whole.trajectory, atol=1e-6)


def test_a_resumed_run_has_waited_as_long_as_before(data, tmp_path):
    """With a rate of 0 no epoch is better than the first: a whole run stops after the third."""

    def resumed(name, checkpoint):
        rest = {"patience": 2, "learning_rate": 0.0, "resume_from_checkpoint": str(tmp_path / "whole" / checkpoint)}
        return fit(data.train, *arguments(tmp_path / name, **rest)).reached

    whole = fit(data.train, *arguments(tmp_path / "whole", patience=2, learning_rate=0.0, save_total_limit=9)).reached
    assert (whole["epochs"], whole["best_epoch"]) == (3, 1)
    assert resumed("from the second", "checkpoint-8") == whole
    assert resumed("from the end", "checkpoint-12") == whole


def test_the_seed_decides(data, tmp_path):
    def weight(seed, name):
        args, training_args = arguments(tmp_path / name, seed=seed, num_train_epochs=1)
        return fit(data.train, args, training_args).head.linear.weight

    assert not torch.allclose(weight(1, "a"), weight(2, "b"), atol=1e-3)


def test_a_run_tells_what_it_cost(data, tmp_path):
    args, training_args = arguments(tmp_path, num_train_epochs=1, probe_pairs=0)
    assert run(args, training_args, data).reached.keys() >= {"epochs", "train_cpu_s", "train_seconds", "objective"}


def test_division_is_complete_disjoint_and_in_order():
    ((used, held), small) = division([(np.zeros((101, 2)),) * 2, (np.zeros((4, 2)),) * 2], 0.1)
    assert len(held) == 10
    assert sorted([*used, *held]) == list(range(101))
    assert (np.diff(used) > 0).all()
    assert [len(part) for part in small] == [2, 2]
    with pytest.raises(ValueError, match=r"^3 pairs, validation_share=0\.1: need at least 4"):
        division([(np.zeros((3, 2)),) * 2], 0.1)


def test_default_objectives():
    """Paper, section 3.2."""
    assert (default_objective("encoder"), default_objective("llm")) == ("both", "inter")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"objective": "all"}, "objective='all' is not one of auto, intra, inter, both"),
        ({"encoder_kind": "bert"}, "encoder_kind='bert' is not one of"),
        ({"pooling": "max"}, "pooling='max' is not one of"),
        ({"layer": "top"}, "layer='top': give a number"),
        ({"patience": 0}, "patience=0 must be >= 1"),
        ({"probe_pairs": -1}, "probe_pairs=-1: give 0 or more"),
        ({"base_model": None}, "give --base_model"),
        ({"train_vectors": ["en-de=a.npy+b.npy"]}, "belong together"),
        (
            {"base_model": None, "train_vectors": ["a"], "test_vectors": ["b"], "init": "published"},
            "trains the split of a published model",
        ),
    ],
)
def test_settings_that_are_refused(options, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        arguments(tmp_path, **options)


def test_early_stopping_needs_the_best_model(tmp_path):
    args, training_args = arguments(tmp_path, load_best_model_at_end=False)
    with pytest.raises(ValueError, match="early stopping needs load_best_model_at_end"):
        prepare([args], training_args)


def test_no_epochs_split_nothing(tmp_path):
    args, training_args = arguments(tmp_path, num_train_epochs=0)
    with pytest.raises(ValueError, match=r"^num_train_epochs=0: a split that is not trained"):
        prepare([args], training_args)
