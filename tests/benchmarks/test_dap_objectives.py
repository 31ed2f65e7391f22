"""Objectives against TR: the same items, equal steps and equal time."""

import dap_objectives
import numpy as np
import pytest

from hfxling.evaluation.items import Items, mean_items
from hfxling.evaluation.results import EvalResult, read_results, write_results

SEEDS = (0, 1)


def rows(hits, counts, stage="after", **about) -> list[EvalResult]:
    """P@1 of two languages' hits, and AER of two sets."""
    settings = {"stage": stage} | about
    items = mean_items(*hits)
    found = [EvalResult("P@1 avg-trained", 0, 4, "tatoeba", "test", "xx->eng", settings=settings, items=items)]
    for name, table in counts.items():
        items = Items("F1", (table,))
        found.append(EvalResult("AER", 0, len(table), "gold links", "test", name, settings=settings, items=items))
    average = settings | {"average_of": [name.replace("->", "-") for name in counts]}
    return [*found, EvalResult("AER avg-trained", 0, 4, "gold links", "test", settings=average)]


@pytest.fixture
def runs(tmp_path):
    """Two kept runs of TR and of DAP: DAP is as fast as TR at step 200, twice as slow after it."""
    rng = np.random.default_rng(0)
    made = {}
    for label in ("TR", "TR+RTL 1 (DAP)"):
        for seed in SEEDS:
            tables = {}
            for step in (100, 200, 300):
                hits = [100.0 * rng.integers(2, size=n) for n in (30, 50)]
                counts = {}
                for name in ("zh->en", "en->fr"):
                    given = rng.integers(3, 9, 20) * 2
                    counts[name] = np.stack([np.minimum(given, 8) - rng.integers(3, size=20), given, [8] * 20], 1)
                tables[step] = hits, counts
            cpu = {100: 10.0, 200: 20.0, 300: 30.0 if label == "TR" else 60.0}
            kept = rows(*tables[300])
            for step, table in tables.items():
                kept += rows(*table, stage="during", step=step, train_cpu_s=cpu[step])
            write_results(tmp_path / f"{label}-{seed}" / "results.json", kept, with_items=True)
            made[label, seed] = tables
    return tmp_path, made


def test_differences_are_those_of_the_items_at_equal_steps_and_in_equal_time(runs, tmp_path, capsys):
    folder, made = runs
    dap_objectives.main(["--runs", str(folder), "--results_dir", str(tmp_path / "out")])
    found = {(row.settings["row"], row.metric): row for row in read_results(tmp_path / "out" / "dap_objectives.json")}
    assert len(found) == 4
    for way, step in (("equal steps", 300), ("equal time", 200)):
        row = found[f"TR+RTL 1 (DAP), {way}", "P@1 avg-trained - TR"]
        by_seed = [
            np.mean([x.mean() for x in made["TR+RTL 1 (DAP)", seed][step][0]])
            - np.mean([x.mean() for x in made["TR", seed][300][0]])
            for seed in SEEDS
        ]
        assert row.settings["by_seed"] == pytest.approx(by_seed, abs=1e-3)
        assert row.value == pytest.approx(np.mean(by_seed), abs=1e-5)
        assert row.low < row.value < row.high
        assert row.settings.get("steps_by_seed") == (None if step == 300 else [200, 200])
        row = found[f"TR+RTL 1 (DAP), {way}", "AER avg-trained - TR"]

        def error_rate(table):
            right, given, wanted = table.sum(0)
            return 100 * (1 - 2 * right / (given + wanted))

        by_seed = [
            np.mean([error_rate(x) for x in made["TR+RTL 1 (DAP)", seed][step][1].values()])
            - np.mean([error_rate(x) for x in made["TR", seed][300][1].values()])
            for seed in SEEDS
        ]
        assert row.settings["by_seed"] == pytest.approx(by_seed, abs=1e-3)
        assert (row.settings["p_value"] < 0.05) == (row.low > 0 or row.high < 0)


def test_seeds_that_an_objective_lacks_are_left_out_and_without_tr_there_is_nothing(runs, tmp_path):
    folder, _ = runs
    (folder / "TR-1" / "results.json").unlink()
    assert {label: [*by_seed] for label, by_seed in dap_objectives.read_runs(folder).items()} == {
        "TR": [0],
        "TR+RTL 1 (DAP)": [0],
    }
    with pytest.raises(FileNotFoundError, match="no run of TR in it"):
        dap_objectives.read_runs(tmp_path / "nothing")


def test_a_third_of_the_lines_translate_each_other():
    bitext = dap_objectives.heap([f"s{i}" for i in range(8)], [f"t{i}" for i in range(8)])
    assert bitext.source == ["s0", "s3", "s6", "s1", "s4", "s7"]
    assert bitext.target == ["t0", "t3", "t6", "t2", "t5"]
    assert bitext.gold.tolist() == [[0, 0], [1, 1], [2, 2]]
