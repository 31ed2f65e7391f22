"""Parallel text from the Hub, with `datasets.load_dataset` replaced, and from the embedded corpus."""

import sys
import types

import datasets
import pytest

from hfxling.data.parallel import load_parallel

PAIRS = [("你好。", "Xin chào."), ('他说"好"。', 'Anh ấy nói "được".'), ("再见。", "Tạm biệt.")]


def pairs_of(dataset):
    return [(row["source"], row["target"]) for row in dataset]


def one_line(caught, *parts):
    message = str(caught.value)
    assert "\n" not in message
    for part in parts:
        assert part in message


@pytest.fixture
def fake_hub(monkeypatch):
    def serve(dataset):
        def load_dataset(name, config, *, split, revision):
            if isinstance(dataset, Exception):
                raise dataset
            asked.append((name, config, split, revision))
            return dataset

        asked = []
        monkeypatch.setattr(datasets, "load_dataset", load_dataset)
        return asked

    return serve


@pytest.mark.parametrize(
    "columns",
    [
        {"id": [1, 2, 3], "translation": [{"vi": t, "zh": s} for s, t in PAIRS], "zh": ["no", "no", "no"]},
        {"vi": [t for _, t in PAIRS], "zh": [f" {s} " for s, _ in PAIRS], "source": ["x", "y", "z"]},
        {"target": [t for _, t in PAIRS], "source": [s for s, _ in PAIRS]},
        {"anchor": [s for s, _ in PAIRS], "positive": [t for _, t in PAIRS], "negative": ["x", "y", "z"]},
    ],
)
def test_hub_columns(fake_hub, columns):
    asked = fake_hub(datasets.Dataset.from_dict(columns))
    dataset = load_parallel("org/pairs", "zh", "vi", split="dev", config="zh-vi", revision="v1")
    assert asked == [("org/pairs", "zh-vi", "dev", "v1")]
    assert dataset.column_names == ["source", "target", "source_lang", "target_lang"]
    assert pairs_of(dataset) == PAIRS


def test_hub_rows_without_text_are_left_out(fake_hub, recwarn):
    fake_hub(datasets.Dataset.from_dict({"q": ["a", "", "c", None], "a": ["1", "2", "\u200b", "4"]}))
    dataset = load_parallel("pairs", "en", "vi", source_column="q", target_column="a")
    assert [list(row.values()) for row in dataset] == [["a", "1", "en", "vi"]]
    messages = [str(warning.message) for warning in recwarn if "left out" in str(warning.message)]
    told = "pairs, split train: left out 3 of 4 rows that have no text on a side, or more than 1,000,000 letters"
    assert messages == [told]


def test_hub_row_without_translation_is_left_out(fake_hub):
    fake_hub(datasets.Dataset.from_dict({"translation": [{"zh": "一", "vi": "một"}, None]}))
    with pytest.warns(UserWarning, match="left out 1 of 2 rows"):
        assert pairs_of(load_parallel("org/x", "zh", "vi")) == [("一", "một")]


@pytest.mark.parametrize(
    ("dataset", "error", "part"),
    [
        (datasets.Dataset.from_dict({"text": ["a"], "label": [1]}), ValueError, "columns ['text', 'label']"),
        (datasets.Dataset.from_dict({"zh": [], "vi": []}), ValueError, "has no rows"),
        (datasets.Dataset.from_dict({"zh": [1], "vi": ["a"]}), ValueError, "column 'zh' holds a number (1), not text"),
        (datasets.exceptions.DatasetNotFoundError("'org/x'\ndoesn't exist"), FileNotFoundError, "check name and"),
        (ValueError("Unknown split 'train'. Should be one of ['dev']."), ValueError, "one of ['dev']"),
        (ConnectionError("offline"), ValueError, "(offline)"),
    ],
)  # fmt: skip
def test_hub_errors(fake_hub, dataset, error, part):
    fake_hub(dataset)
    with pytest.raises(error) as caught:
        load_parallel("org/x", "zh", "vi")
    one_line(caught, "org/x", part)


@pytest.mark.parametrize(("data", "origin"), [("org/x", "a Hub dataset"), ("sample", "the sample")])
def test_lines_are_for_local_files(data, origin):
    with pytest.raises(ValueError, match=f"lines='1-2' does not apply to {origin}"):
        load_parallel(data, "zh", "vi", lines="1-2")


def test_sample_is_loaded_by_its_own_loader(monkeypatch):
    rows = datasets.Dataset.from_dict(
        {"source": ["一"], "target": ["ໜຶ່ງ"], "source_lang": ["zh"], "target_lang": ["lo"]}
    )
    module = types.ModuleType("hfxling.data.sample")
    module.load_sample = lambda *args: rows if args == ("zh", "lo", "test") else pytest.fail(str(args))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    assert pairs_of(load_parallel("sample", "zh", "lo", split="test")) == [("一", "ໜຶ່ງ")]
