"""The run that heads on the vectors of whole language pairs share, as another method would use it."""

import pytest
import torch
from builders import sentence_pairs
from transformers import TrainingArguments

from hfxling.methods.frozen import FrozenArguments
from hfxling.methods.heads import measure_head, prepare_pairs, run_head
from hfxling.models import DisentanglerConfig, DisentanglerHead, DisentanglerModel


@pytest.fixture
def recipe(tiny_bert, tmp_path):
    pairs = sentence_pairs(40)
    text = {"zh-vi": pairs, "vi-zh": [(vi, zh) for zh, vi in pairs]}
    for name, rows in text.items():
        tmp_path.joinpath(f"{name}.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in rows), encoding="utf-8")
    files = f"{tmp_path}/{{source}}-{{target}}.tsv"
    sources = {"train_data": [f"{files}@1-30"], "test_data": [f"{files}@31-40"]}
    return FrozenArguments(["zh-vi", "vi-zh"], **sources, base_model=str(tiny_bert), cache_dir=str(tmp_path / "cache"))


def fit(vectors):
    """A head that keeps the first half of the components."""
    assert [pair.languages for pair in vectors] == [("zh", "vi"), ("vi", "zh")]
    width = vectors[0].train[0].shape[1]
    head = DisentanglerHead(DisentanglerConfig(hidden_size=width))
    with torch.no_grad():
        head.linear.weight.copy_(torch.diag((torch.arange(width) < width // 2).float()))
        head.linear.bias.zero_()
    return head, {"kept": 0.5}


def test_a_head_is_measured_the_same_before_and_after_it_is_written(recipe, tmp_path):
    training_args = TrainingArguments(str(tmp_path / "out"), use_cpu=True, report_to="none")
    run = run_head(DisentanglerModel, fit, recipe, training_args, prepare_pairs([recipe], training_args))
    assert {"kept": 0.5, "pairs": 60}.items() <= run.reached.items()
    run.write(tmp_path / "model")
    measured, corpus = measure_head(DisentanglerModel, recipe, training_args, tmp_path / "model")
    assert corpus.language_pairs == [("zh", "vi"), ("vi", "zh")]
    rows = {(row.direction, row.metric, row.settings["stage"], row.revision): row.value for row in run.results}
    assert len(rows) == len(run.results) == 16
    assert {(r.direction, r.metric, r.settings["stage"], r.revision): r.value for r in measured.results} == rows
    assert len(measured.results) == 16
    assert len(measured.all_results()) > 16  # short vectors
