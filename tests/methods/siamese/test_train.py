"""The head's losses, the drawn pairs, and that cached vectors train the same head as the encoder in the loop."""

import numpy as np
import pytest
import torch
from tiny_models import HIDDEN, tiny_tokenizer
from transformers import TrainingArguments

from hfxling.methods.heads import head_trainer_arguments
from hfxling.methods.siamese.arguments import TRAINING_DEFAULTS, HeadSettings
from hfxling.methods.siamese.data import labelled_pairs
from hfxling.methods.siamese.train import HeadObjective, PairRows, order_components
from hfxling.methods.trainer import XlingTrainer
from hfxling.models import SiameseConfig, SiameseHead, SiameseModel

LANGUAGES = ("zh", "vi")


def settings(fit="contrastive", **changes):
    return HeadSettings(fit=fit, **changes)


def head(**settings):
    torch.manual_seed(0)
    return SiameseHead(SiameseConfig(hidden_size=HIDDEN, **{"dropout": 0.0} | settings))


def features(count, seed=0):
    return torch.randn(count, HIDDEN, generator=torch.Generator().manual_seed(seed))


def arguments(folder, **changes):
    values = TRAINING_DEFAULTS | {"num_train_epochs": 3, "per_device_train_batch_size": 8, "learning_rate": 1e-2}
    quiet = {"use_cpu": True, "disable_tqdm": True, "logging_steps": 1}
    return TrainingArguments(**values | quiet | changes | {"output_dir": str(folder)})


def train(module, rows, folder, **changes):
    trainer = XlingTrainer(
        module, head_trainer_arguments(arguments(folder, **changes)), train_dataset=rows, data_collator=rows.collate
    )
    trainer.train()
    return trainer


@pytest.mark.parametrize("negatives", ["random", "worst", "average", "easiest"])
def test_contrastive_objective_equals_a_slow_loop(negatives):
    module = HeadObjective(head(), settings(negatives=negatives, pool_size=3, margin=1.5), LANGUAGES)
    source, target, label = features(4), features(12, seed=1).view(4, 3, HIDDEN), torch.tensor([0, 1, 1, 0])
    target[label == 0] = target[label == 0][:, :1]  # a parallel pair repeats its own target
    losses = []
    for i in range(4):
        pool = []
        for k in range(3):
            distance = (module.head.project(source[i]) - module.head.project(target[i, k]) + 1e-6).norm().item()
            pool.append(0.5 * max(0.0, 1.5 - distance) ** 2 if label[i] else 0.5 * distance**2)
        losses.append({"worst": max, "easiest": min}.get(negatives, lambda p: sum(p) / 3)(pool))
    out = module(source, target, label)
    assert out["loss"].item() == pytest.approx(sum(losses) / 4, rel=1e-5)
    assert (out["loss_parallel"] + out["loss_non_parallel"]).item() == pytest.approx(out["loss"].item(), rel=1e-5)


def test_a_bias_cancels_without_dropout_only():
    """Dropout takes different components from the two sides, and with them different parts of the bias."""
    norms = {}
    for dropout in (0.0, 0.2):
        module = HeadObjective(
            head(dropout=dropout, bias=True), settings(dropout=dropout, bias=True), LANGUAGES
        ).train()
        torch.nn.init.constant_(module.head.maps["shared"][0].bias, 0.3)
        module(features(64), features(64, seed=1)[:, None], torch.arange(64) % 2)["loss"].backward()
        norms[dropout] = module.head.maps["shared"][0].bias.grad.norm().item()
    assert norms[0.0] < 1e-5 < 0.05 < norms[0.2]


def test_infonce_objective_is_symmetric():
    module = HeadObjective(head(), settings("infonce"), LANGUAGES)
    x, y, label = features(5), features(5, seed=1), torch.zeros(5)
    assert module(x, y[:, None], label)["loss"].item() == pytest.approx(module(y, x[:, None], label)["loss"].item())


def test_a_sentences_other_translations_are_no_negatives_of_infonce():
    module = HeadObjective(head(), settings("infonce"), LANGUAGES)
    x, y, label = features(4), features(4, seed=1), torch.zeros(4)
    y[2] = y[0]  # two sources share a target

    def slow(queries, answers):
        cosines = torch.nn.functional.cosine_similarity(queries[:, None], answers[None], dim=-1) / 0.05
        kept = [[j for j in range(4) if j == i or {i, j} != {0, 2}] for i in range(4)]
        return sum(torch.logsumexp(cosines[i, kept[i]], 0) - cosines[i, i] for i in range(4)) / 4

    projected = module.head.project(x), module.head.project(y)
    expected = (slow(*projected) + slow(*projected[::-1])) / 2
    assert module(x, y[:, None], label)["loss"].item() == pytest.approx(expected.item(), rel=1e-4)


def test_negatives_are_never_translations():
    texts = ["a", "b", "a", "c", "a", "b"]
    source, target, label = labelled_pairs(texts, pool_size=50, seed=1)
    assert label.tolist() == [0] * 6 + [1] * 6
    assert (target[:6] == np.arange(6)[:, None]).all()
    for row, wrong in zip(source[6:], target[6:]):
        assert texts[row] not in {texts[i] for i in wrong}
    assert len(labelled_pairs(texts, parallel_only=True)[0]) == 6


def test_a_pool_is_no_larger_than_the_text():
    assert labelled_pairs(["a", "b", "a", "c"], pool_size=100_000)[1].shape == (8, 2)


def test_negatives_need_two_distinct_targets():
    with pytest.raises(ValueError, match="only one distinct target"):
        labelled_pairs(["a", "a"])


@pytest.mark.parametrize("loss", ["contrastive", "infonce"])
def test_training_lowers_the_loss_moves_every_parameter_and_logs_parts(loss, tmp_path):
    # A bias shared by both languages cancels in a distance: only the softmax of cosines moves it.
    module = HeadObjective(head(bias=loss == "infonce"), settings(loss), LANGUAGES)
    before = {name: value.clone() for name, value in module.named_parameters()}
    source = features(32)
    target = source + 3 * features(1, seed=1)  # the other language: the same, shifted
    rows = PairRows(source, target, [str(i) for i in range(32)], module.settings)
    trainer = train(module, rows, tmp_path, save_strategy="no", num_train_epochs=8)
    assert all(not torch.equal(before[name], value) for name, value in module.named_parameters())
    logged = [entry for entry in trainer.state.log_history if "loss" in entry]
    assert np.mean([e["loss"] for e in logged[-4:]]) < np.mean([e["loss"] for e in logged[:4]])
    assert ("loss_non_parallel" in logged[0]) == (loss == "contrastive")


def test_cached_vectors_train_the_same_head_as_the_encoder_in_the_loop(tiny_bert, tmp_path):
    model = SiameseModel.from_encoder(str(tiny_bert), layer=2, dropout=0.0)
    zh = ["我爱吃苹果", "你好", "今天下雨", "你在吗", "他不吃", "我好", "苹果的", "有人", "天下", "人人"]
    vi = ["ăn táo", "chào", "mưa", "bạn đâu", "không ăn", "tôi", "của táo", "có", "dưới", "người"]

    def encode(texts):
        batch = tiny_tokenizer()(list(texts), padding=True, return_tensors="pt")
        with torch.no_grad():
            return model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).pooled

    class InTheLoop:
        """Encodes the rows that a batch asks for, at every step."""

        def __init__(self, texts):
            self.texts = texts

        def __getitem__(self, rows):
            return encode([self.texts[i] for i in np.ravel(rows)]).view(*np.shape(rows), HIDDEN)

    weights = []
    for vectors in ((encode(zh), encode(vi)), (InTheLoop(zh), InTheLoop(vi))):
        module = HeadObjective(head(), settings(pool_size=2), LANGUAGES)
        rows = PairRows(*vectors, vi, module.settings)
        train(module, rows, tmp_path / "run", save_strategy="no", num_train_epochs=1)
        weights.append(module.head.maps["shared"][0].weight.detach())
    assert torch.allclose(weights[0], weights[1], atol=1e-5)
    assert not torch.allclose(weights[0], head().maps["shared"][0].weight, atol=1e-2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"fit": "triplet"}, "fit='triplet' is not one of auto, centred, cca, "),
        ({"negatives": "hardest"}, "negatives='hardest' is not one of random"),
        ({"distance": "dot"}, "distance='dot' is not one of euclidean"),
        ({"margin": -1.0}, "margin=-1.0 must be >= 0"),
        ({"temperature": 0.0}, "temperature=0.0 > 0"),
    ],
)
def test_settings_that_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        settings(**change)


@pytest.mark.parametrize(
    "made", [{}, {"per_language": True, "languages": ["zh", "vi"], "bias": True}, {"head": "tanh"}]
)
def test_components_come_in_order_of_strength_and_no_cosine_changes(made):
    module, sides = head(**made).eval(), {lang: features(50, seed).numpy() for seed, lang in enumerate(("zh", "vi"))}
    sides["vi"] = sides["zh"] + 0.5 * sides["vi"]
    before = [module(torch.from_numpy(side), lang) for lang, side in sides.items()]
    order_components(module, sides)
    after = [module(torch.from_numpy(side), lang) for lang, side in sides.items()]
    torch.testing.assert_close(after[0] @ after[1].T, before[0] @ before[1].T, atol=1e-5, rtol=0)
    shared = (after[0] * after[1]).mean(0)
    assert (made.get("head") == "tanh") == bool((shared.diff() > 1e-6).any())
