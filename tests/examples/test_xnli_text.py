"""XNLI: reading local and Hub examples, splitting by premise, accuracy rows, and what the classifier starts from."""

import gzip

import datasets
import numpy as np
import pytest
import torch
from tiny_models import save_tiny, tiny_encoder, tiny_tokenizer

from examples.xnli import LABELS, NliArguments, load_classifier, load_nli, load_nli_data, nli_results, split_by_premise
from hfxling.evaluation.significance import mean_interval

HEADER = "genre\tlabel\tpremise\thypothesis\n"
TINY = {"base_model": "unused"}


def examples(count, labels=LABELS):
    """Each premise with a hypothesis of every label."""
    return [(labels[i % 3], f"premise {i // 3}", f"hypothesis {i}") for i in range(count)]


def write(path, rows):
    text = HEADER + "".join(f"fiction\t{label}\t{premise}\t{hypothesis}\n" for label, premise, hypothesis in rows)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


@pytest.mark.parametrize("suffix", [".tsv", ".tsv.gz"])
def test_local_files_are_read_by_language(tmp_path, suffix):
    write(tmp_path / f"test.sw{suffix}", examples(4))
    dataset = load_nli(tmp_path / f"test.{{lang}}{suffix}", "sw")
    assert dataset[:] == {
        "premise": ["premise 0"] * 3 + ["premise 1"],
        "hypothesis": [f"hypothesis {i}" for i in range(4)],
        "label": [0, 1, 2, 0],
    }


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (HEADER + "g\tneutral\tp\th\ng\tmaybe\tp\th\n", ["line 3", "'maybe'", "entailment, neutral, contradiction"]),
        (HEADER + "g\tneutral\tp\t \n", ["line 2", "hypothesis is empty"]),
        (HEADER + "g\tneutral\tp\n", ["line 2", "3 columns where the header has 4"]),
        ("label\tsentence1\tsentence2\n", ["line 1", "premise, hypothesis, label"]),
        (HEADER, ["no example"]),
    ],
)
def test_bad_lines_are_named(tmp_path, text, parts):
    path = tmp_path / "dev.tsv"
    path.write_text(text)
    with pytest.raises(ValueError) as caught:
        load_nli(path, "en")
    assert "\n" not in str(caught.value)
    assert all(part in str(caught.value) for part in ["dev.tsv", *parts])
    with pytest.raises(FileNotFoundError, match=r"dev\.sw\.tsv: no such TSV file"):
        load_nli(tmp_path / "dev.{lang}.tsv", "sw")


@pytest.fixture
def fake_hub(monkeypatch):
    def serve(names, labels):
        def load_dataset(name, config, *, split, revision):
            asked.append((name, config, split, revision))
            if split == "train" and config == "xx":
                raise ValueError("BuilderConfig 'xx' not found.\nAvailable: ['en']")
            texts = [f"{config} {i}" for i in range(len(labels))]
            dataset = datasets.Dataset.from_dict({"premise": texts, "hypothesis": texts, "label": labels, "id": labels})
            return dataset.cast_column("label", datasets.ClassLabel(names=list(names))) if names else dataset

        asked = []
        monkeypatch.setattr(datasets, "load_dataset", load_dataset)
        return asked

    return serve


@pytest.mark.parametrize("names", [LABELS, ("contradiction", "entailment", "neutral")])
def test_hub_labels_are_ours_whatever_their_order(fake_hub, names):
    asked = fake_hub(names, [0, 1, 2, -1, 0])
    dataset = load_nli("facebook/xnli", "sw", split="validation", revision="v1")
    assert asked == [("facebook/xnli", "sw", "validation", "v1")]
    assert [LABELS[label] for label in dataset["label"]] == [names[i] for i in (0, 1, 2, 0)]
    assert dataset.column_names == ["premise", "hypothesis", "label"]


def test_hub_sets_that_do_not_fit_are_refused_in_one_line(fake_hub):
    fake_hub(("yes", "no", "perhaps"), [0, 1])
    with pytest.raises(ValueError, match=r"configuration en.*perhaps.*not entailment"):
        load_nli("org/nli", "en")
    fake_hub(None, [0, 1])
    with pytest.raises(ValueError, match="labels Value"):
        load_nli("org/nli", "en")
    with pytest.raises(ValueError, match="configuration xx, split train") as caught:
        load_nli("org/nli", "xx", split="train")
    assert "\n" not in str(caught.value)


def test_accuracy_per_language_and_average_over_the_same_items():
    gold = datasets.Dataset.from_dict({"premise": list("abcdef"), "hypothesis": list("abcdef"), "label": [0, 1, 2] * 2})
    perfect, half = np.array([0, 1, 2] * 2), np.array([0, 1, 2, 1, 2, 0])
    english, swahili, average = nli_results(
        {"en": perfect, "sw": half}, {"en": gold, "sw": gold}, dataset="xnli", split="test", settings={"steps": 3}
    )
    assert (english.direction, english.value, english.n) == ("en->en", 100, 6)
    assert (swahili.direction, swahili.value) == ("en->sw", 50)
    assert (swahili.low, swahili.high) == mean_interval([100, 100, 100, 0, 0, 0])
    assert (average.metric, average.direction, average.value) == ("accuracy avg-2", "en->xx", 75)
    assert (average.low, average.high) == mean_interval([100, 100, 100, 50, 50, 50])
    assert average.settings == {"steps": 3, "languages": ["en", "sw"]}
    with pytest.raises(ValueError, match=r"sw: predictions of shape \(5,\) for 6 examples"):
        nli_results({"sw": half[:5]}, {"sw": gold}, dataset="xnli", split="test")


def test_a_premise_is_on_one_side_of_the_split(tmp_path):
    dataset = load_nli(write(tmp_path / "dev.tsv", examples(60)), "en")
    train, dev = split_by_premise(dataset, 0.2, seed=1)
    assert (len(train), len(dev)) == (48, 12)
    assert not set(train["premise"]) & set(dev["premise"])
    assert split_by_premise(dataset, 0.2, seed=1)[1]["premise"][:] == dev["premise"][:]
    assert split_by_premise(dataset, 0.2, seed=2)[1]["premise"][:] != dev["premise"][:]


def test_local_data_take_development_from_training(tmp_path):
    write(tmp_path / "train.en.tsv", examples(60))
    write(tmp_path / "test.sw.tsv", examples(9))
    args = NliArguments(
        **TINY,
        train_data=str(tmp_path / "train.{lang}.tsv"),
        test_data=str(tmp_path / "test.{lang}.tsv"),
        test_langs=["sw"],
        max_train_rows=10,
    )
    data = load_nli_data(args)
    assert (len(data.train), len(data.dev), {lang: len(d) for lang, d in data.test.items()}) == (10, 6, {"sw": 9})


def test_hub_data_take_the_named_splits(fake_hub):
    asked = fake_hub(LABELS, [0, 1, 2])
    load_nli_data(NliArguments(**TINY, test_langs=["ar", "vi"]))
    assert [(config, split) for _, config, split, _ in asked] == [
        ("en", "train"),
        ("en", "validation"),
        ("ar", "test"),
        ("vi", "test"),
    ]


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ({"dev_share": 1.0}, "dev_share=1.0"),
        ({"test_langs": []}, "test_langs is empty"),
        ({"max_train_rows": 0}, "max_train_rows=0"),
        ({"train_data": "dev.en.tsv.gz"}, "--test_data"),
        ({"test_data": "test.sw.tsv"}, "put {lang} in it"),
    ],
)
def test_arguments_that_cannot_work_are_refused(arguments, part):
    with pytest.raises(ValueError) as caught:
        NliArguments(**TINY | arguments)
    assert part in str(caught.value)


@pytest.mark.parametrize("kind", ["bert", "xlm-roberta"])
def test_classifier_starts_from_the_encoder_with_a_seeded_head(tmp_path, kind):
    save_tiny(kind, tmp_path)
    model, tokenizer = load_classifier(str(tmp_path), seed=1)
    again, other = load_classifier(str(tmp_path), seed=1)[0], load_classifier(str(tmp_path), seed=2)[0]
    encoder = tiny_encoder(kind).state_dict()
    state = model.base_model.state_dict()
    assert all(torch.equal(state[name], encoder[name]) for name in state if "pooler" not in name)
    heads = [torch.cat([p.flatten() for p in m.classifier.parameters()]) for m in (model, again, other)]
    assert torch.equal(heads[0], heads[1])
    assert not torch.equal(heads[0], heads[2])
    assert model.config.id2label == dict(enumerate(LABELS))
    assert tokenizer("a", "b")["input_ids"]


def test_a_pooler_of_zeros_is_drawn_anew_and_a_trained_one_kept(tmp_path):
    encoder = tiny_encoder("bert")
    tiny_tokenizer().save_pretrained(tmp_path)
    encoder.save_pretrained(tmp_path)
    kept = load_classifier(str(tmp_path))[0].bert.pooler.dense.weight
    assert torch.equal(kept, encoder.pooler.dense.weight)
    for parameter in encoder.pooler.parameters():
        torch.nn.init.zeros_(parameter)
    encoder.save_pretrained(tmp_path)
    drawn = load_classifier(str(tmp_path))[0].bert.pooler.dense.weight
    assert drawn.std().item() == pytest.approx(encoder.config.initializer_range, rel=0.3)


def test_a_checkpoint_without_its_encoder_is_refused(tmp_path):
    save_tiny("bert", tmp_path)
    other = tiny_encoder("bert", layers=2)
    other.config.num_hidden_layers = 3
    other.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=r"lacks 16 weights of its encoder \(first: bert\.encoder\.layer\.2"):
        load_classifier(str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"base_model='.*none'") as caught:
        load_classifier(str(tmp_path / "none"))
    assert "\n" not in str(caught.value)


@pytest.mark.shared
def test_the_real_files_are_row_aligned(shared_data):
    gold = [load_nli(shared_data / "xnli" / "dev.{lang}.tsv.gz", lang)["label"][:] for lang in ("en", "ur")]
    assert gold[0] == gold[1]
    assert np.bincount(gold[0]).tolist() == [830] * 3
