"""The mining benchmarks: what they count, and that a small one runs."""

import json

import bootstrap
import mining
import mining_f1
import numpy as np
import pytest
from distractors import SOURCES, distractors
from scipy.sparse import csr_array

from hfxling.sentences import Mined
from hfxling.sentences.grow import Grown, Round
from hfxling.sentences.precision import Precision


def test_the_race_in_small(tmp_path, capsys):
    pytest.importorskip("faiss")
    argv = ["--rows", "300", "--width", "32", "--memory", "64MiB", "--results_dir", str(tmp_path)]
    mining.main(argv)
    figures = json.loads(capsys.readouterr().out.splitlines()[-1])["figures"]
    assert figures["same_pairs"] == 1.0
    assert {*mining.GOALS} <= {*figures}
    assert (tmp_path / "mining.json").is_file()


def test_f1_by_hand():
    # gold pairs are 0-0, 1-1, 2-2; found best first: 1-1, 5-4, 0-0
    found = Mined(np.array([1, 5, 0]), np.array([1, 4, 0]), np.array([3.0, 2, 1]))
    assert mining_f1.curve(found, 3) == pytest.approx([2 / 4, 2 / 5, 4 / 6])
    assert mining_f1.best_setting({("distance", 4): found}, 3) == (("distance", 4), 1.0)
    table = mining_f1.outcome(found, found.score >= 2, 3, 6)
    assert table.sum(0).tolist() == [1, 2, 3]
    fields = {"n": 3, "dataset": "zh-vi", "split": "test"}
    rows = mining_f1.rows(table, table, {}, fields)
    assert [row.metric for row in rows] == ["F1", "recall", "precision"]
    assert [row.value for row in rows] == pytest.approx([40, 100 / 3, 50])


def test_differences_are_of_the_same_sentences():
    bare = np.zeros((400, 3))
    bare[:100, 2] = bare[:120, 1] = 1
    bare[:40, 0] = 1
    better = bare.copy()
    better[:90, 0] = 1
    fields = {"n": 100, "dataset": "zh-vi", "split": "test", "seed": 0, "model": "a"}
    own, same = (mining_f1.rows(table, bare, {}, fields)[0] for table in (better, bare.copy()))
    assert own.settings["paired"]["p_value"] < 0.01
    assert own.settings["paired"]["low"] > 0
    assert same.settings["paired"]["difference"] == 0
    assert same.settings["paired"]["p_value"] == 1
    assert "paired" not in mining_f1.rows(bare, bare, {}, fields)[0].settings


def test_rows_of_a_bitext():
    estimate = Precision(1.0, 0.9, 0.8, 0.95, 0.7, 0.5, 100)
    last = Round(1, 200, 9, 6, 4, estimate)
    more = {"findable": 10, "first": "zh->vi"}
    fields = {"seed": 0, "model": "100 pairs", "dataset": "zh-vi"}
    rows = bootstrap.of_bitext(np.array([1, 1, 1, 0], bool), more, fields)
    rows += bootstrap.of_estimate(Grown(None, None, [last], last), more, fields)
    assert {row.metric: row.value for row in rows} == {"precision": 75, "recall": 30, "estimated precision": 90}
    assert [row.n for row in rows] == [4, 10, 4]


@pytest.mark.shared
@pytest.mark.parametrize("pair", SOURCES)
def test_distractors_are_no_translations_of_each_other(shared_data, pair):
    found = distractors(shared_data, pair, 2000, ((), ()))
    for side, sources in zip(found, SOURCES[pair]):
        assert len({*side}) == len(side) == (2000 if sources else 0)
    assert not {*SOURCES[pair][0]} & {*SOURCES[pair][1]}


def test_rows_of_a_model():
    class Echo:
        def encode(self, texts, language, role):
            return csr_array(np.eye(3)[[int(text) for text in texts]])

    fields = {"settings": {"seed_pairs": 100}, "seed": 0, "model": "100 pairs", "dataset": "zh-vi"}
    (row,) = bootstrap.of_model(Echo(), [["0", "1", "2"], ["0", "2", "1"]], ["zh", "vi"], **fields)
    assert (row.metric, row.n, row.direction) == ("P@1", 3, "zh->vi")
    assert row.value == pytest.approx(100 / 3)
