"""Pages that show numbers are what the results files say."""

import json
import re
import shutil
from pathlib import Path

import pytest
import yaml

from docs import render as cards
from hfxling.evaluation.results import EvalResult

ROOT = Path(__file__).resolve().parents[2]


def test_tracked_pages_are_up_to_date():
    cards.main(["--check"])


def test_a_changed_result_makes_its_pages_stale(tmp_path, monkeypatch):
    for name in ("recipes", "benchmarks", "tools"):
        (tmp_path / name).symlink_to(ROOT / name)
    for name in ("results", "model_cards", "docs"):
        shutil.copytree(ROOT / name, tmp_path / name)
    (tmp_path / "README.md").write_bytes((ROOT / "README.md").read_bytes())
    monkeypatch.setattr(cards, "ROOT", tmp_path)
    path = tmp_path / "results" / "retrieval_table.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    for row in content["results"]:
        row["value"] = 1.0
    path.write_text(json.dumps(content), encoding="utf-8")
    rendered = list(cards.pages())
    monkeypatch.setattr(cards, "pages", lambda: rendered)
    with pytest.raises(ValueError, match=r"lexical\.md, choose\.md: not what results/ say; run make cards"):
        cards.main(["--check"])
    cards.main([])
    cards.main(["--check"])


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("below_93", "below 93 %"),
        ("peak_mib", "peak MiB"),
        ("sentences_per_cpu_s", "sentences per CPU second"),
        ("cpu_s_to_dice", "CPU seconds to dice"),
        ("killed_percent", "killed in %"),
        ("query_per_s", "query per second"),
        ("the plain programme's", "the plain programme's"),
        ("en-fr fast_align", "en-fr fast_align"),
    ],
)
def test_keys_are_words_with_units_as_they_are_written(key, words):
    assert cards.as_words({"group": {key: 1}}) == {"group": {words: 1}}


def test_every_results_file_is_on_one_page():
    files = sorted((ROOT / "results").glob("*.json"))
    pages = cards.results_sections(files)
    shown = [name for page in pages.values() for name in page["files"]]
    assert sorted(shown) == [path.stem for path in files]
    unlisted = cards.results_sections([*files, Path("results/dap_new.json"), Path("results/foo.json")])
    assert "dap_new" in unlisted["dap"]["files"]
    assert "foo" in unlisted[cards.OTHERS]["files"]


def test_questions_name_no_figures():
    """Numbers of the tables would be typed by hand there, and stay when a study is measured again."""
    text = (ROOT / "docs" / "results" / "questions.yaml").read_text(encoding="utf-8")
    about = [about for page in yaml.safe_load(text).values() for about in page["files"].values()]
    known = {"question", "limits", "command", "before", "since"}
    assert all({"question", "limits"} <= {*each} <= known for each in about)
    assert all("?" in each["question"] for each in about)
    said = [f"{each['question']} {each['limits']}" for each in about]
    assert [each for each in said if re.search(r"\d\.\d|\d ?%", each)] == []


def test_a_curve_is_a_table_of_its_own_and_no_evidence():
    def row(step, value, seed, stage="during"):
        settings = {"stage": stage, "row": "TR", "step": step, "train_cpu_s": 10.0 * step}
        return EvalResult("P@1 avg", value, 9, "made", "test", "xx->en", settings=settings, seed=seed)

    rows = [row(0, 1.0, 0), row(0, 2.0, 1), row(100, 4.0, 0), row(100, 5.0, 1), row(100, 8.0, 0, "after")]
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in cards.curve_table(rows).split("\n") if line]
    assert lines[0] == ["while training", "metric", "direction", "", "step 0", "step 100"]
    assert lines[2:] == [["", "CPU s", "", "TR", "0.0", "1000.0"], ["made", "P@1 avg", "xx->en", "TR", "1.5", "4.5"]]
    assert cards.curve_table(rows[-1:]) == ""
    assert [cards.matches(each, {"metric": "P@1 avg"}) for each in rows] == [False] * 4 + [True]


def test_a_curve_over_epochs_has_a_row_a_protocol_and_few_points():
    def row(epoch, protocol):
        settings = {"stage": "during", "row": "base", "epoch": epoch, "cpu_seconds": epoch, "protocol": protocol}
        return EvalResult("P@1", epoch, 9, "made", "test", "lo->zh", settings=settings)

    rows = [row(float(epoch), protocol) for epoch in range(5, 205, 5) for protocol in ("vocabulary", "composed")]
    header, _, *lines = [
        [cell.strip() for cell in line.split("|")[1:-1]] for line in cards.curve_table(rows).split("\n") if line
    ]
    assert len(header) == 4 + 10
    assert (header[4], header[-1]) == ("epoch 20", "epoch 200")
    assert [(line[1], line[-1]) for line in lines] == [
        ("CPU s", "200.0"),
        ("P@1 composed", "200.0"),
        ("P@1 vocabulary", "200.0"),
    ]


def claims():
    text = (ROOT / "docs" / "results" / "claims.yaml").read_text(encoding="utf-8")
    return [claim for paper in yaml.safe_load(text).values() for claim in paper["claims"]]


@pytest.mark.parametrize("claim", claims(), ids=lambda claim: claim["claim"][:40])
def test_every_claim_has_a_verdict_and_rows_that_exist(claim):
    assert claim["verdict"] in cards.VERDICTS
    assert claim["said"]
    assert claim["why"]
    assert claim.get("rows") or claim["verdict"] == "cannot be tested" or "Not measured yet" in claim["why"]
    for rows in claim.get("rows", []):
        assert cards.evidence(rows).startswith(f"`{rows['file']}`")


@pytest.mark.parametrize("change", [{"labels": ["linear", "cubic"]}, {"direction": "zh->xx"}])
def test_a_row_that_is_not_there_is_named(change):
    rows = {"file": "siamese_study_structure", "labels": ["linear"], "metric": "P@1", "direction": "zh->vi"}
    with pytest.raises(ValueError, match=r"siamese_study_structure\.json has no (cubic|linear) of"):
        cards.evidence(rows | change)


def test_a_figure_that_is_not_there_is_named():
    with pytest.raises(ValueError, match=r"dap_step\.json has no gflops_foo of"):
        cards.evidence({"file": "dap_step", "figures": ["gflops_tr", "gflops_foo"]})


TESTED = {"encoder": "x 0", "centring": "train", "n": 50, "P@1": 12.345, "difference": 3.0, "low": 1.0, "high": 5.0}


def test_what_is_not_significant_is_said():
    tests = [
        TESTED | {"head": "cca", "against": cards.CENTRED, "p_holm": 0.001},
        TESTED | {"head": "cca", "against": "infonce, chosen", "p_holm": 0.2},
    ]
    header, _, line = (re.split(r" *\| *", line)[1:-1] for line in cards.tests_table(tests).split("\n"))
    assert line[:6] == ["x 0", "cca", "train", "", "12.3", "50"]
    found = dict(zip(header[6:], line[6:]))
    assert found["over the centred encoder"] == "+3.0 (1.0 to 5.0) p=0.001"
    assert found["over the one best on development pairs"] == "+3.0 (1.0 to 5.0), not significant"


def test_the_table_of_all_pairs_shows_every_study_and_baseline():
    table = cards.translation_table("composed").split("\n")
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table]
    header, table = lines[0], {line[0]: line[1:] for line in lines[2:]}
    assert header[1:] == [f"{pair} P@1" for pair in cards.TRANSLATION_PAIRS]
    content = json.loads((ROOT / "results" / "aligner_study_vi_zh.json").read_text(encoding="utf-8"))
    rows = [
        row
        for row in content["results"]
        if (row["metric"], row["settings"].get("row"), row["settings"].get("decoding")) == ("P@1", "inter, avg", None)
        and row["settings"]["protocol"] == "composed"
    ]
    shown = table["inter, avg"][header.index("vi-zh P@1") - 1]
    assert shown.split()[0] == f"{sum(row['value'] for row in rows) / len(rows):.1f}"
    assert any(name.startswith("eflomal") and all(values) for name, values in table.items())


def test_the_papers_figures_stand_beside_its_own_protocol_only():
    assert "paper" not in cards.translation_table("composed")
    assert cards.translation_table("vocabulary").split("\n")[0].count("paper") == len(cards.TRANSLATION_PAIRS)
