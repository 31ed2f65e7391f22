"""Batches, budget, best weights, resuming: on pairs of made-up word ids."""

import numpy as np
import pytest
import torch
from transformers import TrainingArguments

from hfxling.evaluation.results import EvalResult
from hfxling.methods.aligner.arguments import TRAINING_DEFAULTS, AlignerSettings
from hfxling.methods.aligner.data import PairBatches
from hfxling.methods.aligner.train import BEST, best_score, train_aligner
from hfxling.models.configuration_aligner import AlignerConfig
from hfxling.models.modeling_aligner import AlignerModel
from hfxling.words.pairs import EncodedPairs, pad

WORDS = 12


def word_for_word(pairs: int, languages=("lo", "zh"), seed: int = 0) -> EncodedPairs:
    """Target word i is the translation of source word i, in the opposite order."""
    rng = np.random.default_rng(seed)
    source = [rng.integers(4, WORDS, rng.integers(2, 7)).tolist() for _ in range(pairs)]
    return EncodedPairs(languages, source, [row[::-1] for row in source])


def tiny_model(*languages: str, dropout: float = 0.1) -> AlignerModel:
    torch.manual_seed(0)
    sizes = dict.fromkeys(languages or ("lo", "zh"), WORDS)
    return AlignerModel(AlignerConfig(vocab_sizes=sizes, size=16, dropout=dropout))


def arguments(**settings) -> AlignerSettings:
    return AlignerSettings(**settings)


def training_arguments(folder, **settings) -> TrainingArguments:
    defaults = {"per_device_train_batch_size": 8, "save_strategy": "no", "use_cpu": True, "disable_tqdm": True}
    return TrainingArguments(
        **TRAINING_DEFAULTS | {"learning_rate": 0.01, "output_dir": str(folder)} | defaults | settings
    )


def precision(model: AlignerModel) -> list[EvalResult]:
    """P@1 of the static vectors: word i translates word i."""
    tables = [torch.nn.functional.normalize(model.static_table(lang)[4:], dim=1) for lang in ("lo", "zh")]
    hits = (tables[0] @ tables[1].T).argmax(1) == torch.arange(WORDS - 4)
    return [EvalResult("P@1", 100 * hits.float().mean().item(), WORDS - 4, "words", "train")]


def test_every_pair_comes_once_an_epoch_in_batches_of_one_language_pair():
    corpora = [word_for_word(21), word_for_word(13, ("lo", "th"), seed=1)]
    batches = PairBatches(corpora, 4)
    orders = []
    for epoch in (0, 1):
        batches.set_epoch(epoch)
        orders.append([(number, rows.tolist()) for number, rows in batches.batches])
        for number, corpus in enumerate(corpora):
            seen = [row for n, rows in orders[-1] if n == number for row in rows]
            assert sorted(seen) == list(range(len(corpus.source)))
    assert orders[0] != orders[1]
    batches.set_epoch(0)
    assert [(number, rows.tolist()) for number, rows in batches.batches] == orders[0]
    item = batches[0]
    assert item["languages"] == corpora[orders[0][0][0]].languages
    assert item["source"]["word_ids"].shape[0] == len(orders[0][0][1])


def test_four_updates_take_each_batch_side_by_side_and_direction_by_direction():
    batches = PairBatches([word_for_word(9)], 4, updates="four")
    items = [batches[i] for i in range(8)]
    assert len(batches) == 12
    assert [(item["encode"], item["directions"]) for item in items[:4]] == [
        ((side,), (direction,)) for side in (0, 1) for direction in (0, 1)
    ]
    assert all(torch.equal(item["source"]["word_ids"], items[0]["source"]["word_ids"]) for item in items[:4])
    assert not torch.equal(items[4]["target"]["word_ids"], items[0]["target"]["word_ids"])


def test_sorting_both_sides_leaves_little_padding():
    rng = np.random.default_rng(0)
    lengths = rng.integers(5, 60, 400)
    noise = np.maximum(1, lengths + rng.integers(-8, 9, 400))
    corpus = EncodedPairs(("lo", "zh"), [[4] * n for n in lengths], [[4] * n for n in noise])
    batches = PairBatches([corpus], 16)
    real = padded = 0
    for i in range(len(batches)):
        for side in ("source", "target"):
            mask = batches[i][side]["mask"]
            real, padded = real + int(mask.sum()), padded + mask.numel()
    assert padded / real < 1.15


def test_padding_by_hand():
    side = pad([[5, 6, 7], [8]])
    assert side["word_ids"].tolist() == [[5, 6, 7], [8, 0, 0]]
    assert side["mask"].tolist() == [[1, 1, 1], [1, 0, 0]]


@pytest.mark.parametrize("updates", ["one", "four"])
def test_training_finds_the_translations_and_keeps_the_best_weights(tmp_path, updates):
    model = tiny_model()
    settings = training_arguments(tmp_path, num_train_epochs=6 if updates == "one" else 2, learning_rate=0.03)
    record = train_aligner(
        arguments(updates=updates, evaluate_every=1), settings, model, [word_for_word(96)], [precision]
    )
    assert record["best_score"] == max(score for *_, score in record["scores"]) > 80
    assert precision(model)[0].value == record["best_score"] == best_score(tmp_path)
    assert [epoch for epoch, *_ in record["scores"]] == list(range(1, int(settings.num_train_epochs) + 1))
    assert record["steps"] == settings.num_train_epochs * 12 * (1 if updates == "one" else 4)
    assert not model.training


def test_the_contrastive_terms_share_of_the_loss_is_told(tmp_path):
    model, text = tiny_model(dropout=0.0), word_for_word(8)
    model.config.contrastive_weight = 3.0
    with torch.no_grad():
        start = model.pair_loss(**PairBatches([text], 8, updates="one", seed=0)[0])
    settings = training_arguments(tmp_path, num_train_epochs=4, logging_steps=1)
    first, last = train_aligner(arguments(), settings, model, [text])["contrastive_share"]
    assert first == pytest.approx(float(3 * start.loss_contrastive / start.loss), rel=1e-3)
    assert last != first
    model.config.contrastive_weight = 0.0
    assert "contrastive_share" not in train_aligner(arguments(), settings, model, [text])


def test_of_equal_scores_the_later_state_is_kept_and_test_rows_choose_nothing(tmp_path):
    watched = iter((5.0, 99.0, 1.0))
    weights = []

    def score(model):
        weights.append(model.embedding.words.of_lo.weight.detach().clone())
        rows = [EvalResult("P@1", value, 1, "words", "train") for value in (50.0, 50.0)]
        return [*rows, EvalResult("P@1", next(watched), 1, "dictionary", "test")]

    model = tiny_model()
    settings = training_arguments(tmp_path, num_train_epochs=3)
    record = train_aligner(arguments(evaluate_every=1), settings, model, [word_for_word(16)], [score])
    assert torch.equal(model.embedding.words.of_lo.weight, weights[2])
    assert not torch.equal(weights[1], weights[2])
    assert record["best_score"] == 50
    assert [point["dictionary_P@1"] for point in record["curve"]] == [5, 99, 1]
    assert [point["score"] for point in record["curve"]] == [50] * 3


def test_several_language_pairs_in_one_model(tmp_path):
    model = tiny_model("lo", "zh", "th")
    before = {name: value.clone() for name, value in model.named_parameters()}
    pairs = [word_for_word(16), word_for_word(16, ("lo", "th")), word_for_word(16, ("th", "zh"))]
    train_aligner(arguments(), training_arguments(tmp_path, num_train_epochs=1), model, pairs)
    moved = {name for name, value in model.named_parameters() if not torch.equal(value, before[name])}
    assert before.keys() - moved == {"embedding.pieces.weight"}  # these words have no pieces


def test_a_resumed_run_ends_with_the_weights_of_an_uninterrupted_one(tmp_path):
    def run(folder, **settings):
        model = tiny_model(dropout=0.3)
        defaults = {"save_strategy": "steps", "save_steps": 5, "save_total_limit": None, "num_train_epochs": 3}
        arguments_ = training_arguments(folder, **defaults | settings)
        record = train_aligner(arguments(evaluate_every=1), arguments_, model, [word_for_word(30)], [precision])
        return model.state_dict(), record

    whole, record_of_whole = run(tmp_path / "whole")
    checkpoint = tmp_path / "whole" / "checkpoint-5"
    resumed, record = run(tmp_path / "resumed", resume_from_checkpoint=str(checkpoint))
    assert record["steps"] == 12
    assert [epoch for epoch, *_ in record["scores"]] == [1, 2, 3]  # the first is the checkpoint's
    assert record["curve"][0] == record_of_whole["curve"][0]
    assert [point["words_P@1"] for point in record["curve"]] == [score for *_, score in record["scores"]]
    # The scores are few and ties are many: compare the last weights, which the checkpoint of the last step holds.
    last = [
        torch.load(tmp_path / name / "checkpoint-12" / "optimizer.pt", weights_only=True)["state"]
        for name in ("whole", "resumed")
    ]
    for key, state in last[0].items():
        torch.testing.assert_close(state["exp_avg"], last[1][key]["exp_avg"], rtol=0, atol=0)
    assert whole.keys() == resumed.keys()


def test_the_budget_ends_training_cleanly_and_is_counted_across_a_resume(tmp_path):
    model = tiny_model()
    settings = training_arguments(tmp_path, num_train_epochs=10_000, save_strategy="steps", save_steps=1)
    record = train_aligner(arguments(cpu_seconds=0.3), settings, model, [word_for_word(40)], [precision])
    assert 0.3 <= record["cpu_seconds"] < 5
    assert record["epochs"] < 10_000
    assert record["scores"][-1][0] == record["epochs"]
    settings = training_arguments(
        tmp_path / "more",
        num_train_epochs=10_000,
        resume_from_checkpoint=str(tmp_path / f"checkpoint-{record['steps']}"),
    )
    again = train_aligner(arguments(cpu_seconds=0.3), settings, tiny_model(), [word_for_word(40)], [precision])
    assert again["steps"] == record["steps"] + 1


def test_best_weights_of_an_earlier_run_are_not_taken_over(tmp_path):
    def score(value):
        return lambda model: [EvalResult("P@1", value, 1, "words", "train")]

    for value in (90.0, 10.0):
        settings = training_arguments(tmp_path, num_train_epochs=1)
        record = train_aligner(arguments(), settings, tiny_model(), [word_for_word(8)], [score(value)])
        assert record["best_score"] == value
    assert (tmp_path / BEST).is_file()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"updates": "two"}, "updates='two' is not one of one, four"),
        ({"cpu_seconds": -1.0}, "cpu_seconds=-1.0: give 0 or more"),
        ({"segmenters": ["lo"]}, "'lo' is not of the form"),
        ({"negatives": "hard"}, "negatives='hard' is not one of"),
        ({"size": 5}, "size=5"),
    ],
)
def test_arguments_that_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        arguments(**settings)


def test_bf16_where_the_processor_has_no_lstm_in_it(tmp_path, monkeypatch):
    def refuse(*args):
        raise RuntimeError("could not create a primitive descriptor")

    monkeypatch.setattr(torch.nn.LSTM, "forward", refuse)
    settings = training_arguments(tmp_path, bf16=True)
    with pytest.raises(ValueError, match="bf16=True: this processor cannot compute an LSTM in bfloat16"):
        train_aligner(arguments(), settings, tiny_model(), [word_for_word(8)])
