"""The XNLI recipe on a task that a tiny encoder can learn, from files to a folder that loads anywhere."""

import json
import random
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tiny_models import tiny_encoder, tiny_tokenizer
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from examples import xnli
from examples.xnli import LABELS, TRAINING_DEFAULTS, NliArguments, load_nli
from hfxling.arguments import parse_arguments
from hfxling.evaluation.results import read_results

ROOT = Path(__file__).resolve().parents[2]
# The hypothesis gives the label away, in each language.
WORDS = {"en": {"entailment": "yy", "neutral": "uu", "contradiction": "oo"}}
WORDS["vi"] = {"entailment": "yyx", "neutral": "xu", "contradiction": "oox"}


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    folder, rng = tmp_path_factory.mktemp("nli"), random.Random(0)
    for name, lang, count in (("train", "en", 120), ("test", "en", 30), ("test", "vi", 30)):
        rows = []
        for i in range(count):
            premise = "".join(random.Random(i // 3).choices("abcdefgh", k=4 + i // 3 % 5))
            label = LABELS[i % 3]
            rows.append(f"{label}\t{premise}\t{WORDS[lang][label]} {rng.choice('kln')}\n")
        text = "label\tpremise\thypothesis\n" + "".join(rows)
        folder.joinpath(f"{name}.{lang}.tsv").write_text(text, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def encoder(tmp_path_factory) -> Path:
    """Without dropout, so that runs can be compared; so narrow an encoder learns from larger weights."""
    folder, model = tmp_path_factory.mktemp("encoder"), tiny_encoder("bert", layers=1)
    model.config.hidden_dropout_prob = model.config.attention_probs_dropout_prob = 0.0
    with torch.no_grad():
        for weight in model.parameters():
            weight *= 10 if weight.dim() > 1 else 1
    model.save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def run(data, encoder):
    def call(out, **options):
        shared = {"base_model": encoder, "train_data": data / "train.{lang}.tsv", "test_data": data / "test.{lang}.tsv"}
        shared |= {"test_langs": ["en", "vi"], "num_train_epochs": 8, "learning_rate": 1e-2, "output_dir": out}
        shared |= {"per_device_train_batch_size": 12, "use_cpu": True, "disable_tqdm": True}
        words = []
        for key, value in (shared | options).items():
            words += [f"--{key}", *map(str, value if isinstance(value, list) else [value])]
        return xnli.main(words)

    return call


@pytest.fixture(scope="module")
def finished(run, tmp_path_factory):
    out = tmp_path_factory.mktemp("run")
    return out, run(out)


def test_what_is_learnt_in_english_is_tested_in_every_language(finished, data):
    out, results = finished
    assert [(row.split, row.direction, row.metric, row.n) for row in results] == [
        ("dev", "en->en", "accuracy", 12),
        ("test", "en->en", "accuracy", 30),
        ("test", "en->vi", "accuracy", 30),
        ("test", "en->xx", "accuracy avg-2", 60),
    ]
    assert results[1].value > 80
    assert results[3].value == pytest.approx((results[1].value + results[2].value) / 2)
    path = out / "model" / "results.json"
    assert [row.value for row in read_results(path)] == pytest.approx([row.value for row in results])
    reached = json.loads(path.read_text())["reached"]
    assert (reached["fine_tuned_on"], reached["steps"]) == ("108 examples (en)", 72)
    assert reached["train_cpu_s"] > 0
    # the folder alone predicts what was measured
    model = AutoModelForSequenceClassification.from_pretrained(out / "model")
    tokenizer = AutoTokenizer.from_pretrained(out / "model")
    test = load_nli(data / "test.vi.tsv", "vi")
    with torch.no_grad():
        inputs = tokenizer(test["premise"][:], test["hypothesis"][:], padding=True, return_tensors="pt")
        predicted = model(**inputs).logits.argmax(-1)
    accuracy = 100 * (predicted == torch.tensor(test["label"][:])).float().mean().item()
    assert results[2].value == pytest.approx(accuracy)
    assert model.config.id2label == dict(enumerate(LABELS))


def test_the_best_epoch_by_development_accuracy_is_kept(finished):
    _, results = finished
    settings = results[0].settings
    assert results[0].value == pytest.approx(settings["dev_accuracy"])
    assert settings["steps"] == 72
    assert settings["best_step"] < 72, "the case must tell the best epoch from the last"


def test_a_run_that_is_resumed_ends_as_if_it_had_not_stopped(finished, run, tmp_path):
    out, results = finished
    first = sorted(out.glob("checkpoint-*"), key=lambda p: int(p.name.split("-")[1]))[0]
    assert first.name != "checkpoint-72"
    shutil.copytree(first, tmp_path / first.name)
    again = run(tmp_path, resume_from_checkpoint="true")
    assert [row.value for row in again] == [row.value for row in results]
    weights = [load_file(folder / "model" / "model.safetensors") for folder in (out, tmp_path)]
    assert all(torch.allclose(weights[0][name], weights[1][name], atol=1e-6) for name in weights[0])


def test_accumulated_batches_train_as_one_large_batch(run, tmp_path):
    options = {"max_steps": 3, "optim": "sgd", "learning_rate": 1.0, "eval_strategy": "no", "save_strategy": "no"}
    options |= {"load_best_model_at_end": False, "lr_scheduler_type": "constant"}
    run(tmp_path / "one", **options)
    run(tmp_path / "two", **options, per_device_train_batch_size=4, gradient_accumulation_steps=3)
    weights = [load_file(tmp_path / name / "model" / "model.safetensors") for name in ("one", "two")]
    for name, tensor in weights[0].items():
        assert torch.allclose(tensor, weights[1][name], atol=1e-5), name
    assert weights[0]["classifier.bias"].abs().max() > 1e-3, "the steps must move the weights"  # they start at 0


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"resume_from_checkpoint": "true"}, "resume_from_checkpoint=true: no whole checkpoint in"),
        ({"push_to_hub": True}, "hf upload"),
        ({"train_data": "wrong.tsv"}, "wrong.tsv, line 3: label 'perhaps' is not one of entailment"),
        ({"base_model": "no/where"}, "base_model='no/where'"),
    ],
)
def test_mistakes_end_in_one_line(run, data, tmp_path, refusal, options, part):
    wrong = data / "wrong.tsv"
    wrong.write_text("premise\thypothesis\tlabel\na\tb\tneutral\na\tb\tperhaps\n")
    if options.get("train_data"):
        options = {"train_data": wrong}
    assert part in refusal(lambda: run(tmp_path / "out", **options))


@pytest.mark.parametrize("name", ["mbert", "local"])
def test_configurations_hold_known_keys_and_the_papers_numbers(name):
    from transformers import TrainingArguments

    defaults = TRAINING_DEFAULTS
    path = ROOT / "examples" / "configs" / "xnli" / f"{name}.yaml"
    args, training = parse_arguments(
        (NliArguments, TrainingArguments), ["--config", str(path), "--use_cpu", "true"], defaults=defaults
    )
    assert (training.learning_rate, training.weight_decay, args.max_length) == (5e-5, 0.0, 128)
    if name == "mbert":
        assert (training.per_device_train_batch_size, training.num_train_epochs) == (256, 2)
        assert len(set(args.test_langs)) == 15
