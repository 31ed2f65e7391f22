"""Runs that come one by one: rows stay, the paired test takes the seeds that both objectives have."""

import json

import aligner_paper
import numpy as np
import pytest

from hfxling.data.sample import dictionary
from hfxling.evaluation.results import read_results
from recipes.aligner import main

SMALL = [
    *("--pairs", "lo-zh", "--train_data", "sample", "--max_train_pairs", "48", "--size", "8", "--curve", "true"),
    *("--num_train_epochs", "1", "--evaluate_every", "1", "--learning_rate", "0.05"),
    *("--use_cpu", "--disable_tqdm", "true"),
]


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> dict:
    folders = {}
    words = tmp_path_factory.mktemp("dictionary") / "lo-zh.tsv"
    words.write_text("".join(f"{word}\t{other}\n" for word, other in dictionary("lo", "zh")), encoding="utf-8")
    for weight, seed in ((0, 0), (1, 0), (1, 1)):
        folders[weight, seed] = str(tmp_path_factory.mktemp(f"run-{weight}-{seed}"))
        chosen = ["--contrastive_weight", str(weight), "--seed", str(seed), "--output_dir", folders[weight, seed]]
        main([*SMALL, *chosen, "--dictionaries", f"lo-zh={words}"])
    return folders


def test_rows_of_earlier_runs_stay(runs, tmp_path, capsys):
    def measure(*keys):
        aligner_paper.main([*(runs[key] for key in keys), "--name", "paper", "--results_dir", str(tmp_path)])
        return read_results(tmp_path / "paper.json")

    def after(rows, label):
        return [r for r in rows if r.metric == "P@1" and r.settings["stage"] == "after" and r.settings["row"] == label]

    alone = measure((1, 0))
    assert not any("paired" in row.settings for row in alone)
    both = measure((0, 0))
    assert len(both) == 2 * len(alone)
    assert {row.settings["row"] for row in both} == {"inter, avg", aligner_paper.BASE}
    assert {row.settings["protocol"] for row in after(both, "inter, avg")} == {"vocabulary", "composed"}
    for own, base in zip(after(both, "inter, avg"), after(both, aligner_paper.BASE), strict=True):
        paired = own.settings["paired"]
        assert paired["seeds"] == [0]
        assert paired["difference"] == pytest.approx(own.value - base.value)
        assert np.mean(own.items.groups[0]) == pytest.approx(own.value)
    three = measure((1, 1))
    assert all(row.settings["paired"]["seeds"] == [0] for row in after(three, "inter, avg"))
    assert {row.seed for row in three} == {0, 1}
    assert len(measure((1, 1))) == len(three)
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["figures"].keys() == {"inter, avg", aligner_paper.BASE}


def test_links_of_the_same_text_stand_beside_the_runs(runs, tmp_path, monkeypatch):
    pytest.importorskip("eflomal")
    monkeypatch.setattr(aligner_paper, "SAMPLES", 1)
    argv = [runs[0, 0], "--name", "paper", "--results_dir", str(tmp_path)]
    aligner_paper.main([*argv, "--statistical"])
    aligner_paper.main([*argv[1:], runs[1, 1]])
    rows = [row for row in read_results(tmp_path / "paper.json") if row.metric == "P@1"]
    after = {(row.settings["row"], row.seed): row for row in rows if row.settings["stage"] == "after"}
    assert after.keys() == {*aligner_paper.STATISTICAL, (aligner_paper.BASE, 0), ("inter, avg", 1)}
    assert len({row.n for row in rows if row.settings["protocol"] == "vocabulary"}) == 1
    links = after["statistical links, expected", None]
    assert links.settings["paired"]["with"] == aligner_paper.BASE
    assert links.settings["paired"]["difference"] == pytest.approx(links.value - after[aligner_paper.BASE, 0].value)
